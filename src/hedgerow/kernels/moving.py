"""The small sums around a refresh: class sums of rows, labels into the kept products, the gaps' Gram matrix.

Letters as in `align.moving`: n sources, K1 = K + 1 means or sums of each side, d dimensions, R class sums in a block.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hedgerow.arrays import Array
from hedgerow.kernels.common import SUMS
from hedgerow.rules import SHRINK, ZERO


@njit(cache=True)
def group_sums(X: Array, group: Array, weight: Array, out: Array) -> None:
    """out[g] += the rows of group g, each counted `weight` times (empty: once); rows of group -1 are left out."""
    for t in range(len(group)):
        if group[t] >= 0:
            total, times = out[group[t]], X.dtype.type(weight[t] if len(weight) else 1.0)
            for j in range(X.shape[1]):
                total[j] += times * X[t, j]


@njit(cache=True, fastmath=SUMS)
def few_products(X: Array, M: Array, out: Array) -> None:
    """out = X M^T for a few rows X, two of M and four of X at a time, so that M is read once.

    A matrix product of the BLAS first copies M into its own order, which takes longer than so few rows do.
    """
    R, m = M.shape
    for r in range(0, R, 2):
        s = min(r + 1, R - 1)
        for t in range(0, len(X), 4):
            t1, t2, t3 = min(t + 1, len(X) - 1), min(t + 2, len(X) - 1), min(t + 3, len(X) - 1)
            a = b = c = d = e = f = g = h = X.dtype.type(0)
            for j in range(m):
                u, v = M[r, j], M[s, j]
                w, x, y, z = X[t, j], X[t1, j], X[t2, j], X[t3, j]
                a += u * w
                b += u * x
                c += u * y
                d += u * z
                e += v * w
                f += v * x
                g += v * y
                h += v * z
            out[t, r], out[t1, r], out[t2, r], out[t3, r] = a, b, c, d
            out[t, s], out[t1, s], out[t2, s], out[t3, s] = e, f, g, h


@njit(cache=True)
def add_labels(Z: Array, y: Array, weight: Array, TA: Array, count: Array, class_counts: Array) -> None:
    """T A and the target's counts with the rows that join T: TA[i, 0] and TA[i, y + 1] += z_i, Z (B x nd) projected."""
    n, d = TA.shape[0], TA.shape[2]
    for t in range(len(y)):
        k = y[t]
        if k < 0:
            continue
        times = weight[t] if len(weight) else 1.0
        count[0] += times
        class_counts[k] += times
        scale = Z.dtype.type(times)
        for i in range(n):
            for j in range(d):
                share = scale * Z[t, i * d + j]
                TA[i, 0, j] += share
                TA[i, k + 1, j] += share


@njit(cache=True)
def join(rows: Array, labels: Array, T: Array, total: Array, class_totals: Array) -> None:
    """Rows join the sums of their classes, in T (whose row 0 is of no class) and in the target's moments."""
    for t in range(len(rows)):
        k = labels[t]
        for j in range(rows.shape[1]):
            T[k + 1, j] += rows[t, j]
            class_totals[k, j] += rows[t, j]
            total[j] += rows[t, j]


@njit(cache=True)
def add_products(first: int, last: int, classes: Array, SM: Array, STS: Array, TS: Array, TT: Array) -> None:
    """T M_i^T and T T^T with the class sums first:last of a block, which join T.

    SM (R x n K1) are the sums' products with all means; STS (R x K1 + R) those with T as it was before them, and with
    all sums of the block.
    """
    n, K1 = TS.shape[0], TS.shape[1]
    for g in range(first, last):
        k = classes[g] + 1
        for i in range(n):
            for a in range(K1):
                TS[i, k, a] += SM[g, i * K1 + a]
        for a in range(K1):
            TT[k, a] += STS[g, a]
            TT[a, k] += STS[g, a]
        for h in range(first, last):
            TT[k, classes[h] + 1] += STS[g, K1 + h]


@njit(cache=True)
def move_on(start: int, first: int, last: int, classes: Array, K1: int, products: Array) -> None:
    """Products with T, for the rows from `start` on, become products with T and the class sums first:last.

    `products` (rows x K1 + R) holds those with T, then those with all sums of the block.
    """
    for t in range(start, len(products)):
        for g in range(first, last):
            products[t, classes[g] + 1] += products[t, K1 + g]


@njit(cache=True)
def target_means(Y: Array, shares: Array, out: Array) -> None:
    """L Y, shares = 1/counts: row 0 is the sum of all rows times shares[0], row k is row k times shares[k]."""
    out[0] = Y[0]
    for k in range(1, len(Y)):
        for j in range(Y.shape[1]):
            out[0, j] += Y[k, j]
            out[k, j] = Y[k, j] * shares[k]
    for j in range(Y.shape[1]):
        out[0, j] *= shares[0]


@njit(cache=True)
def gap_weights(
    source: Array, count: Array, class_counts: Array, rule: int, kappa: float, D: Array, shares: Array
) -> None:
    """`moments.gap_weights` of all sources to D (n x K1), by the number of the rule; and 1/counts, 1 for none."""
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


@njit(cache=True)
def factor(SS: Array, TS: Array, TT: Array, mu: float, D: Array, shares: Array, R: Array) -> None:
    """R_i with R_i R_i^T = I + mu G_i G_i^T, lower triangular, from the kept products."""
    n, K1 = len(SS), len(TT)
    LT, LTLT, LTS, gram = np.empty((K1, K1)), np.empty((K1, K1)), np.empty((K1, K1)), np.empty((K1, K1))
    target_means(TT, shares, LT)
    target_means(LT.T.copy(), shares, LTLT)
    for i in range(n):
        target_means(TS[i], shares, LTS)
        SLT = LTS.T.copy()
        for a in range(K1):
            scale = mu * D[i, a]
            for b in range(K1):
                gram[a, b] = scale * D[i, b] * (SS[i, a, b] - SLT[a, b] - LTS[a, b] + LTLT[a, b])
            gram[a, a] += 1.0
        R[i] = np.linalg.cholesky(gram)


@njit(cache=True)
def gaps(SS: Array, TS: Array, MA: Array, TA: Array, mu: float, D: Array, shares: Array, C: Array, MG: Array) -> None:
    """C_i = G_i A_i and MG_i = mu M_i G_i^T from the kept products."""
    n, K1, d = C.shape
    LTS = np.empty((K1, K1))
    for i in range(n):
        target_means(TS[i], shares, LTS)
        SLT = LTS.T.copy()
        for a in range(K1):
            for b in range(K1):
                MG[i, a, b] = mu * D[i, b] * (SS[i, a, b] - SLT[a, b])
            for j in range(d):
                C[i, a, j] = D[i, a] * (MA[i, a, j] - shares[a] * TA[i, a, j])


@njit(cache=True)
def follow(lost: Array, C: Array, D: Array, shares: Array, mu: float, MA: Array, TA: Array) -> None:
    """M_i A_i -= lost; T A_i from the new gaps' products C_i = D_i (M_i A_i - L T A_i); then C_i <- mu D_i C_i.

    Where D_i has a zero there is no gap, now or later, or T has nothing.
    """
    n, K1, d = C.shape
    for i in range(n):
        for a in range(K1):
            for j in range(d):
                MA[i, a, j] -= lost[i, a, j]
            if D[i, a] > 0.0:
                gap, count = 1.0 / D[i, a], 1.0 / shares[a]
                for j in range(d):
                    TA[i, a, j] = count * (MA[i, a, j] - gap * C[i, a, j])
            scale = mu * D[i, a]
            for j in range(d):
                C[i, a, j] *= scale


@njit(cache=True)
def move(C: Array, shares: Array, P: Array, U: Array) -> None:
    """P_i -= C_i and U_i += L^T C_i, so that M_i^T P_i + T^T U_i loses (M_i - L T)^T C_i."""
    n, K1, d = C.shape
    for i in range(n):
        for a in range(K1):
            share = shares[a] if a > 0 else 0.0
            for j in range(d):
                P[i, a, j] -= C[i, a, j]
                U[a, i * d + j] += shares[0] * C[i, 0, j] + share * C[i, a, j]


@njit(cache=True, fastmath=SUMS)
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


@njit(cache=True)
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
    """A row projected by A as it was (nd), brought to where the refresh will have A, from M_i x and T x.

    z_i -= C_i^T (M_i x - L T x) for the first `solved` sources, which have their C_i; for the others
    z_i -= mu (G_i A_i)^T (R_i R_i^T)^{-1} D_i (M_i x - L T x).
    """
    n, K1, d = C.shape
    LTx = shares * Tx
    LTx[0] = shares[0] * Tx.sum()
    for i in range(n):
        v, own = Mx[i * K1 : (i + 1) * K1] - LTx, z[i * d : (i + 1) * d]
        if i < solved:
            for a in range(K1):
                for j in range(d):
                    own[j] -= v[a] * C[i, a, j]
        else:
            v *= mu * D[i]
            _solve_one(R[i], v)
            for a in range(K1):
                weight = v[a] * D[i, a]
                for j in range(d):
                    own[j] -= weight * (MA[i, a, j] - shares[a] * TA[i, a, j])
