"""Loops that others are made of: products of two rows, the best of a row, weights by losses, a row times a matrix.

A row times a large matrix is bound by memory, so several distant places are read at once: a processor fetches ahead
along each of a few streams, and four of them come faster than the one that the BLAS reads for a single row. Twins in
NumPy: `z @ M`, `M @ z`, and `P @ x` with P made of its upper triangle.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled


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
    at, top = 0, f[0]
    for k in range(1, len(f)):
        if f[k] > top:
            at, top = k, f[k]
    return at


@compiled
def weigh(loss: Array, eta: float, p: Array) -> None:
    """p_e = exp(-eta L_e) / sum (Eq. 8 and 9 of the paper, with eta = ln(1/beta))."""
    least, total = loss[0], 0.0
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
        a, b, c, e = sign * z[i], sign * z[i + h], sign * z[i + 2 * h], sign * z[i + 3 * h]
        r, s, t, u = M[i], M[i + h], M[i + 2 * h], M[i + 3 * h]
        for j in range(q):
            out[j] += a * r[j] + b * s[j] + c * t[j] + e * u[j]
    for i in range(4 * h, d):
        a, r = sign * z[i], M[i]
        for j in range(q):
            out[j] += a * r[j]


@compiled(fastmath=SUMS)
def product_row(M: Array, z: Array, out: Array, first: int = 0) -> None:
    """out = M z (M: q x d), one row of each quarter of M at a time; of the numbers from `first` on only.

    Where q is no multiple of four, some rows are computed twice, so that all are summed in the same order.
    """
    q, z = len(M), z[first:]
    h = (q + 3) // 4
    for i in range(h):
        i1, i2, i3 = min(i + h, q - 1), min(i + 2 * h, q - 1), min(i + 3 * h, q - 1)
        r, s, t, u = M[i, first:], M[i1, first:], M[i2, first:], M[i3, first:]
        a = b = c = e = z.dtype.type(0)
        for j in range(len(z)):
            a += r[j] * z[j]
            b += s[j] * z[j]
            c += t[j] * z[j]
            e += u[j] * z[j]
        out[i], out[i1], out[i2], out[i3] = a, b, c, e


@compiled(fastmath=SUMS)
def symmetric_row(P: Array, x: Array, y: Array) -> None:
    """P x into y, P symmetric, of its upper triangle; four rows in turn serve as rows and as columns.

    Read once in the order of memory, it comes faster than by BLAS (dsymv) where P is in no cache.
    """
    d = len(x)
    for i in range(d):
        y[i] = 0.0
    for i in range(0, d, 4):
        end = i + 4 if i + 4 < d else d
        for k in range(i, end):
            row = P[k]
            y[k] += row[k] * x[k]
            for m in range(k + 1, end):
                y[k] += row[m] * x[m]
                y[m] += row[m] * x[k]
        if end == d:
            break
        p0, p1, p2, p3 = P[i, end:], P[i + 1, end:], P[i + 2, end:], P[i + 3, end:]
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        right, below = x[end:], y[end:]
        y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0
        for j in range(len(right)):
            a, b, c, e, r = p0[j], p1[j], p2[j], p3[j], right[j]
            y0 += a * r
            y1 += b * r
            y2 += c * r
            y3 += e * r
            below[j] += x0 * a + x1 * b + x2 * c + x3 * e
        y[i] += y0
        y[i + 1] += y1
        y[i + 2] += y2
        y[i + 3] += y3


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
