"""Loops that others are made of: products with rows, the best of a row, weights by losses, and the preprocessing.

Products with a large matrix are bound by memory for one row, so several distant places are read at once: a processor
fetches ahead along each of a few streams. Of some rows each part of the matrix is read once, and every row takes its
own sums in the order in which it would alone. Twins in NumPy: `Z @ M`, `Z @ L.T`, and `Z @ P` with P made of its upper
triangle.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import LARGEST, Array
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled

# the steps of preprocessing, as `core.preprocess` numbers them, and its constants
CENTRE, ZSCORE, FILL, TARGET_ONLY, SCALE, UNIT, SIGNED_SQRT, ROW_MINMAX = range(8)
CONSTANT = 1e-13
LARGEST_Z = 3.0
LARGEST_SCALED = LARGEST[np.dtype(np.float64)]


@compiled(fastmath=SUMS)
def dot(a: Array, b: Array) -> float:
    """a . b."""
    total = a.dtype.type(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return float(total)


@compiled
def best(f: Array) -> int:
    """argmax f, the lowest of equals."""
    at = 0
    top = f[0]
    for k in range(1, len(f)):
        if f[k] > top:
            at = k
            top = f[k]
    return at


@compiled
def weigh(loss: Array, eta: float, p: Array) -> None:
    """p_e = exp(-eta L_e) / sum (Eq. 8 and 9 of the paper, with eta = ln(1/beta))."""
    least = loss[0]
    total = 0.0
    for e in range(1, len(p)):
        least = min(least, loss[e])
    for e in range(len(p)):
        p[e] = np.exp(-eta * (loss[e] - least))
        total += p[e]
    for e in range(len(p)):
        p[e] /= total


@compiled(fastmath=SUMS)
def row_product(z: Array, M: Array, out: Array) -> None:
    """out = z M (M: d x q)."""
    for j in range(M.shape[1]):
        out[j] = 0.0
    add_row_product(z, M, z.dtype.type(1), out)


@compiled(fastmath=SUMS)
def add_row_product(z: Array, M: Array, sign: float, out: Array) -> None:
    """out += sign z M (M: d x q), the rows of four quarters of M in turn."""
    d, q = M.shape
    h = d // 4
    for i in range(h):
        a = sign * z[i]
        b = sign * z[i + h]
        c = sign * z[i + 2 * h]
        e = sign * z[i + 3 * h]
        r = M[i]
        s = M[i + h]
        t = M[i + 2 * h]
        u = M[i + 3 * h]
        for j in range(q):
            out[j] += a * r[j] + b * s[j] + c * t[j] + e * u[j]
    for i in range(4 * h, d):
        a = sign * z[i]
        r = M[i]
        for j in range(q):
            out[j] += a * r[j]


@compiled(fastmath=SUMS)
def rows_times(X: Array, n: int, at: int, M: Array, out: Array, first: int) -> None:
    """out += X M (M: d x q) for n rows: X from column `at`, out from column `first`; four quarters of M in turn."""
    d, q = M.shape
    h = d // 4
    for i in range(h):
        r = M[i]
        s = M[i + h]
        t = M[i + 2 * h]
        u = M[i + 3 * h]
        for k in range(n):
            o = out[k, first : first + q]
            a = X[k, at + i]
            b = X[k, at + i + h]
            c = X[k, at + i + 2 * h]
            e = X[k, at + i + 3 * h]
            for j in range(q):
                o[j] += a * r[j] + b * s[j] + c * t[j] + e * u[j]
    for i in range(4 * h, d):
        r = M[i]
        for k in range(n):
            o = out[k, first : first + q]
            a = X[k, at + i]
            for j in range(q):
                o[j] += a * r[j]


@compiled(fastmath=SUMS)
def rows_dots(X: Array, n: int, L: Array, out: Array) -> None:
    """out = X L' for n rows (L: q x d), one row of each quarter of L at a time.

    Where q is no multiple of four, some are computed twice, so that all are summed in the same order.
    """
    q, d = L.shape
    h = (q + 3) // 4
    for i in range(h):
        i1 = min(i + h, q - 1)
        i2 = min(i + 2 * h, q - 1)
        i3 = min(i + 3 * h, q - 1)
        r = L[i]
        s = L[i1]
        t = L[i2]
        u = L[i3]
        for k in range(n):
            x = X[k, :d]
            a = b = c = e = 0.0
            for j in range(d):
                a += r[j] * x[j]
                b += s[j] * x[j]
                c += t[j] * x[j]
                e += u[j] * x[j]
            out[k, i] = a
            out[k, i1] = b
            out[k, i2] = c
            out[k, i3] = e


@compiled(fastmath=SUMS)
def product_row(M: Array, z: Array, out: Array) -> None:
    """out = M z (M: q x d), one row of each quarter of M at a time.

    Where q is no multiple of four, some rows are computed twice, so that all are summed in the same order.
    """
    q = len(M)
    h = (q + 3) // 4
    for i in range(h):
        i1 = min(i + h, q - 1)
        i2 = min(i + 2 * h, q - 1)
        i3 = min(i + 3 * h, q - 1)
        r = M[i]
        s = M[i1]
        t = M[i2]
        u = M[i3]
        a = b = c = e = z.dtype.type(0)
        for j in range(len(z)):
            a += r[j] * z[j]
            b += s[j] * z[j]
            c += t[j] * z[j]
            e += u[j] * z[j]
        out[i] = a
        out[i1] = b
        out[i2] = c
        out[i3] = e


@compiled
def symmetric_rows(P: Array, Z: Array, n: int, at: int, out: Array) -> None:
    """Z P for n rows, both from column `at`, P symmetric, of its upper triangle."""
    d = len(P)
    for k in range(n):
        for i in range(at, at + d):
            out[k, i] = 0.0
    for i in range(0, d, 4):
        for k in range(n):
            _strip(P, i, Z[k, at : at + d], out[k, at : at + d])


@compiled(fastmath=SUMS)
def _strip(P: Array, i: int, x: Array, y: Array) -> None:
    """What rows i to i + 3 of P add to P x: they are four columns too."""
    end = min(i + 4, len(x))
    for a in range(i, end):
        row = P[a]
        y[a] += row[a] * x[a]
        for b in range(a + 1, end):
            y[a] += row[b] * x[b]
            y[b] += row[b] * x[a]
    if end < len(x):
        _four_rows(P, i, x, y)


@compiled(fastmath=SUMS)
def _four_rows(P: Array, i: int, x: Array, y: Array) -> None:
    """What rows i to i + 3 of P, right of these columns, add to P x."""
    end = i + 4
    p0 = P[i, end:]
    p1 = P[i + 1, end:]
    p2 = P[i + 2, end:]
    p3 = P[i + 3, end:]
    x0 = x[i]
    x1 = x[i + 1]
    x2 = x[i + 2]
    x3 = x[i + 3]
    right = x[end:]
    below = y[end:]
    y0 = 0.0
    y1 = 0.0
    y2 = 0.0
    y3 = 0.0
    for j in range(len(right)):
        a = p0[j]
        b = p1[j]
        c = p2[j]
        e = p3[j]
        r = right[j]
        y0 += a * r
        y1 += b * r
        y2 += c * r
        y3 += e * r
        below[j] += x0 * a + x1 * b + x2 * c + x3 * e
    y[i] += y0
    y[i + 1] += y1
    y[i + 2] += y2
    y[i + 3] += y3


@compiled(fastmath=SUMS)
def to_unit(z: Array) -> None:
    """A row over its length, in place; a zero row stays zero. Gaps count as its other numbers do on average."""
    square = 0.0
    for j in range(len(z)):
        square += z[j] * z[j]
    if square != square:
        there = 0
        square = 0.0
        for j in range(len(z)):
            if z[j] == z[j]:
                there += 1
                square += z[j] * z[j]
        square *= len(z) / max(there, 1)
    length = np.sqrt(square)
    if length > 0.0:
        for j in range(len(z)):
            z[j] /= length


@compiled
def prepare(
    steps: Array, shared: Array, length: float, running: Array, x: Array, out: Array, learned: bool
) -> None:
    """A row behind all steps of the preprocessing, by the statistics before it, which it moves if it is `learned`.

    steps: a row for each with its kind, its first column, how many columns, where its numbers are in `running` (n,
    total and squares; of target-only columns the shift too), and in `shared` (the shift, or what rows are divided by).
    n is one number, or with gaps (`fill`, target-only columns) one a column. length: of a target-only column.
    """
    for j in range(len(x)):
        out[j] = x[j]
    for k in range(len(steps)):
        kind = steps[k, 0]
        m = steps[k, 2]
        z = out[steps[k, 1] : steps[k, 1] + m]
        at = steps[k, 3]
        base = shared[steps[k, 4] : steps[k, 4] + m]
        if kind == UNIT:
            to_unit(z)
        elif kind == SIGNED_SQRT:
            for j in range(m):
                z[j] = np.sqrt(z[j]) if z[j] > 0.0 else -np.sqrt(-z[j])
        elif kind == ROW_MINMAX:
            _minmax(z)
        elif kind == SCALE:
            for j in range(m):
                z[j] /= base[j]
                if abs(z[j]) > LARGEST_SCALED:
                    z[j] = LARGEST_SCALED if z[j] > 0.0 else -LARGEST_SCALED
        elif kind < FILL:
            total = running[at + 1 : at + 1 + m]
            _by_mean(
                z,
                kind,
                base,
                running[at : at + 1],
                total,
                running[at + 1 + m : at + 1 + 2 * m],
                learned,
            )
        else:
            total = running[at + m : at + 2 * m]
            if kind == TARGET_ONLY:
                base = running[at + 3 * m : at + 4 * m]
            _with_gaps(
                z,
                kind,
                base,
                running[at : at + m],
                total,
                running[at + 2 * m : at + 3 * m],
                learned,
                length,
            )


@compiled
def _minmax(z: Array) -> None:
    low = high = z[0]
    for j in range(len(z)):
        low = min(low, z[j])
        high = max(high, z[j])
    span = high - low if high > low else 1.0
    for j in range(len(z)):
        z[j] = (z[j] - low) / span


@compiled
def _by_mean(
    z: Array, kind: int, shift: Array, n: Array, total: Array, squares: Array, learned: bool
) -> None:
    """`centre` and `zscore`."""
    count = n[0]
    for j in range(len(z)):
        d = z[j] - shift[j]
        mean = total[j] / count
        z[j] = d - mean
        if kind == ZSCORE:
            sd = np.sqrt(max(squares[j] / count - mean * mean, 0.0))
            if sd > CONSTANT * abs(shift[j]):
                z[j] /= sd
        if learned:
            total[j] += d
            squares[j] += d * d
    if learned:
        n[0] += 1.0


@compiled
def _with_gaps(
    z: Array,
    kind: int,
    shift: Array,
    n: Array,
    total: Array,
    squares: Array,
    learned: bool,
    length: float,
) -> None:
    """`fill` and target-only columns; the first value of a column of which nothing is known becomes its shift."""
    for j in range(len(z)):
        x = z[j]
        count = max(n[j], 1.0)
        mean = total[j] / count
        if kind == FILL:
            z[j] = x if x == x else shift[j] + mean
        else:
            sd = np.sqrt(max(squares[j] / count - mean * mean, 0.0))
            varies = sd > CONSTANT * abs(shift[j])
            score = (x - shift[j] - mean) / sd if x == x and varies else 0.0
            z[j] = length * min(max(score, -LARGEST_Z), LARGEST_Z)
        if learned and x == x:
            if n[j] == 0.0:
                shift[j] = x
            d = x - shift[j]
            n[j] += 1.0
            total[j] += d
            squares[j] += d * d


def times(Z: Array, M: Array) -> Array:
    """Z M, for an M that is contiguous in memory by rows or by columns; a single row is faster so than by the BLAS.

    M may be of single precision; the product has the precision of Z.

    >>> times(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    if len(Z) != 1 or Z.shape[1] != len(M):
        return np.asarray(Z @ M.astype(Z.dtype, copy=False))
    out = np.empty((1, M.shape[1]), dtype=Z.dtype)
    if M.flags.c_contiguous:
        row_product(Z[0], M, out[0])
    else:
        product_row(M.T, Z[0], out[0])
    return out
