"""One refresh of the projections (Eq. 13), from products of vectors alone: no loop here reads the m features.

The Gram matrix of the gaps, its Cholesky factor, and the products that change with the projections. Letters as in
`experts/block_refresh.py`: n sources, K1 = K + 1 means or sums of each side, d dimensions.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.rule_numbers import SHRINK, ZERO
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.heads import copy


@compiled
def gap_weights(
    source: Array, count: Array, class_counts: Array, rule: int, kappa: float, D: Array, shares: Array
) -> None:
    """`moments.gap_weights` of all sources into D (n x K1), the rule by its number; and 1/counts (1 where it is 0)."""
    for a in range(D.shape[1]):
        target = count[0] if a == 0 else class_counts[a - 1]
        shares[a] = 1.0 / target if target > 0.0 else 1.0
        weight = 1.0
        if rule != ZERO or a == 0:
            weight = 1.0 if target > 0.0 else 0.0
        if rule == SHRINK and a > 0:
            weight = target / (target + kappa)
        for i in range(len(D)):
            D[i, a] = weight if source[i, a] > 0.0 else 0.0


@compiled(fastmath=SUMS)
def _less_four(
    L: Array, i: int, k: int, a: Array, b: Array, c: Array, e: Array, u: Array, v: Array, w: Array, x: Array
) -> None:
    """Rows a, b, c, e -= L[i:i+4, k:k+4] (u, v, w, x): sixteen products for every four numbers read."""
    a0, a1, a2, a3 = L[i, k], L[i, k + 1], L[i, k + 2], L[i, k + 3]
    b0, b1, b2, b3 = L[i + 1, k], L[i + 1, k + 1], L[i + 1, k + 2], L[i + 1, k + 3]
    c0, c1, c2, c3 = L[i + 2, k], L[i + 2, k + 1], L[i + 2, k + 2], L[i + 2, k + 3]
    e0, e1, e2, e3 = L[i + 3, k], L[i + 3, k + 1], L[i + 3, k + 2], L[i + 3, k + 3]
    for j in range(len(a)):
        p, q, r, s = u[j], v[j], w[j], x[j]
        a[j] -= a0 * p + a1 * q + a2 * r + a3 * s
        b[j] -= b0 * p + b1 * q + b2 * r + b3 * s
        c[j] -= c0 * p + c1 * q + c2 * r + c3 * s
        e[j] -= e0 * p + e1 * q + e2 * r + e3 * s


@compiled
def cholesky(gram: Array, L: Array) -> None:
    """L lower triangular with L L^T = gram. Only the upper half of gram is read; it is overwritten by L^{-1} gram.

    gram is I + G G^T, so its pivots are at least 1; rounding must not take them below.
    """
    n = len(gram)
    for i in range(0, n, 4):
        block, known = min(i + 4, n), 0
        if block == i + 4:
            known, a, b, c, e = i, gram[i, i:], gram[i + 1, i:], gram[i + 2, i:], gram[i + 3, i:]
            for k in range(0, i, 4):
                _less_four(L, i, k, a, b, c, e, gram[k, i:], gram[k + 1, i:], gram[k + 2, i:], gram[k + 3, i:])
        for t in range(i, block):
            row = gram[t, i:]
            for k in range(known, t):
                other, share = gram[k, i:], L[t, k]
                for j in range(n - i):
                    row[j] -= share * other[j]
            pivot = np.sqrt(max(gram[t, t], 1.0))
            L[t, t], scale = pivot, 1.0 / pivot
            for j in range(t + 1, n):
                gram[t, j] *= scale
                L[j, t], L[t, j] = gram[t, j], 0.0


@compiled
def transpose(A: Array, out: Array) -> None:
    """out = A^T, for loops that then read it in the order of memory."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[j, i] = A[i, j]


@compiled
def grams(SS: Array, TS: Array, TT: Array, mu: float, D: Array, shares: Array, R: Array) -> None:
    """The upper half of I + mu G_i G_i^T into R_i, from the products that are kept up to date."""
    n, K1 = len(SS), len(TT)
    ST = np.empty((K1, K1), TS.dtype)
    for i in range(n):
        transpose(TS[i], ST)
        for a in range(K1):
            scale, share = mu * D[i, a], shares[a]
            for b in range(a, K1):
                inner = SS[i, a, b] - share * TS[i, a, b] - shares[b] * (ST[a, b] - share * TT[a, b])
                R[i, a, b] = scale * D[i, b] * inner
            R[i, a, a] += 1.0


@compiled
def regram(k: int, SS: Array, TS: Array, TT: Array, mu: float, D: Array, shares: Array, R: Array) -> None:
    """As `grams`, for row and column k only: mean k is the only one that has changed since."""
    n, K1 = len(SS), len(TT)
    for i in range(n):
        scale, share = mu * D[i, k], shares[k]
        for b in range(K1):
            inner = SS[i, k, b] - share * TS[i, k, b] - shares[b] * (TS[i, b, k] - share * TT[k, b])
            R[i, min(k, b), max(k, b)] = scale * D[i, b] * inner
        R[i, k, k] += 1.0


@compiled
def factor(R: Array) -> None:
    """The matrix whose upper half stands in R_i is replaced by its Cholesky factor, a lower triangle."""
    gram = np.empty(R.shape[1:])
    for i in range(len(R)):
        copy(R[i], gram)
        cholesky(gram, R[i])


@compiled
def substitute(L: Array, C: Array, upwards: bool) -> None:
    """C <- L^{-1} C in place, L lower triangular; `upwards` takes the rows of C from the last to the first."""
    n, d = C.shape
    last, sign = (n - 1, -1) if upwards else (0, 1)
    for i in range(0, n, 4):
        block = min(i + 4, n)
        if block == i + 4:
            a, b, c, e = (
                C[last + sign * i],
                C[last + sign * (i + 1)],
                C[last + sign * (i + 2)],
                C[last + sign * (i + 3)],
            )
            for k in range(0, i, 4):
                r = last + sign * k
                _less_four(L, i, k, a, b, c, e, C[r], C[r + sign], C[r + 2 * sign], C[r + 3 * sign])
        for t in range(i, block):
            row = C[last + sign * t]
            for k in range(i if block == i + 4 else 0, t):
                other, share = C[last + sign * k], L[t, k]
                for j in range(d):
                    row[j] -= share * other[j]
            scale = C.dtype.type(1.0) / L[t, t]
            for j in range(d):
                row[j] *= scale


@compiled
def gaps(SS: Array, TS: Array, MA: Array, TA: Array, mu: float, D: Array, shares: Array, C: Array, MG: Array) -> None:
    """C = G_i A_i and MG = mu M_i G_i^T of one source, from the products that are kept up to date."""
    K1, d = C.shape
    number = C.dtype.type
    for a in range(K1):
        weight, share = number(D[a]), number(shares[a])
        for b in range(K1):
            MG[a, b] = mu * D[b] * (SS[a, b] - shares[b] * TS[b, a])
        for j in range(d):
            C[a, j] = weight * (MA[a, j] - share * TA[a, j])


@compiled
def follow(lost: Array, C: Array, D: Array, shares: Array, mu: float, MA: Array, TA: Array) -> None:
    """M_i A_i -= lost; T A_i from the new gaps' products C = D_i (M_i A_i - L T A_i); then C <- mu D_i C.

    Where D_i is zero there is no gap, or the target has no row of that class: T A_i stays.
    """
    (K1, d), number = C.shape, C.dtype.type
    for a in range(K1):
        for j in range(d):
            MA[a, j] -= lost[a, j]
        if D[a] > 0.0:
            gap, count = number(1.0 / D[a]), number(1.0 / shares[a])
            for j in range(d):
                TA[a, j] = count * (MA[a, j] - gap * C[a, j])
        scale = number(mu * D[a])
        for j in range(d):
            C[a, j] *= scale


@compiled
def solve(
    first: int, last: int, SS: Array, TS: Array, mu: float, D: Array, shares: Array, R: Array, C: Array, MA: Array,
    TA: Array,
) -> None:  # fmt: skip
    """C_i = mu D_i (R_i R_i^T)^{-1} G_i A_i of the sources first:last, and M_i A_i and T A_i follow.

    M_i A_i loses M_i (M_i - L T)^T C_i. The new gaps' products are (R_i R_i^T)^{-1} G_i A_i, which gives T A_i.
    """
    K1, d = C.shape[1:]
    MG, lost, L = np.empty((K1, K1), C.dtype), np.empty((K1, d), C.dtype), np.empty((K1, K1), C.dtype)
    for i in range(first, last):
        gaps(SS[i], TS[i], MA[i], TA[i], mu, D[i], shares, C[i], MG)
        for upwards in (False, True):
            for a in range(K1):
                for b in range(a + 1):
                    L[a, b] = R[i, K1 - 1 - b, K1 - 1 - a] if upwards else R[i, a, b]
            substitute(L, C[i], upwards)
        np.dot(MG, C[i], lost)
        follow(lost, C[i], D[i], shares, mu, MA[i], TA[i])


@compiled
def move(C: Array, shares: Array, P: Array, U: Array) -> None:
    """P_i -= C_i and U_i += L C_i, so that M_i^T P_i + T^T U_i loses (M_i - L T)^T C_i."""
    n, K1, d = C.shape
    for a in range(K1):
        share = C.dtype.type(shares[a])
        for i in range(n):
            for j in range(d):
                P[i, a, j] -= C[i, a, j]
                U[a, i * d + j] += share * C[i, a, j]


@compiled(fastmath=SUMS)
def _solve_one(R: Array, v: Array) -> None:
    """v <- (R R^T)^{-1} v in place."""
    n = len(R)
    for i in range(n):
        total = v[i]
        for k in range(i):
            total -= R[i, k] * v[k]
        v[i] = total / R[i, i]
    for i in range(n - 1, -1, -1):
        v[i] /= R[i, i]
        for k in range(i):
            v[k] -= v[i] * R[i, k]


@compiled
def correct(
    z: Array,
    Mx: Array,
    Tx: Array,
    solved: int,
    mu: float,
    D: Array,
    shares: Array,
    R: Array,
    C: Array,
    MA: Array,
    TA: Array,
) -> None:
    """Correct z (nd), a row projected by A before the refresh, to what A after the refresh gives; from M_i x and T x.

    z_i -= C_i^T (M_i x - L T x) for the first `solved` sources, which have their C_i; for the others
    z_i -= mu (G_i A_i)^T (R_i R_i^T)^{-1} D_i (M_i x - L T x).
    """
    n, K1, d = C.shape
    v = np.empty(K1)
    for i in range(n):
        own = z[i * d : (i + 1) * d]
        for a in range(K1):
            v[a] = Mx[i * K1 + a] - shares[a] * Tx[a]
        if i < solved:
            for a in range(K1):
                for j in range(d):
                    own[j] -= v[a] * C[i, a, j]
        else:
            for a in range(K1):
                v[a] *= mu * D[i, a]
            _solve_one(R[i], v)
            for a in range(K1):
                weight = v[a] * D[i, a]
                for j in range(d):
                    own[j] -= weight * (MA[i, a, j] - shares[a] * TA[i, a, j])
