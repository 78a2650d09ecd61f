"""The small sums around a refresh: class sums of rows, labels into the kept products, the gaps' Gram matrix.

Letters as in `align.moving`: n sources, K1 = K + 1 means or sums of each side, d dimensions, R class sums in a block.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hedgerow.arrays import Array


@njit(cache=True)
def group_sums(X: Array, group: Array, weight: Array, out: Array) -> None:
    """out[g] += the rows of group g, each counted `weight` times (empty: once); rows of group -1 are left out."""
    for t in range(len(group)):
        if group[t] >= 0:
            total, times = out[group[t]], X.dtype.type(weight[t] if len(weight) else 1.0)
            for j in range(X.shape[1]):
                total[j] += times * X[t, j]


@njit(cache=True)
def add_labels(Z: Array, y: Array, weight: Array, TA: Array, count: Array, class_counts: Array) -> None:
    """T A and the target's counts with the rows that join T: TA[i, y + 1] += z_i, Z (B x nd) the projected rows."""
    n, d = TA.shape[0], TA.shape[2]
    for t in range(len(y)):
        k = y[t]
        if k >= 0:
            times = weight[t] if len(weight) else 1.0
            count[0] += times
            class_counts[k] += times
            scale = Z.dtype.type(times)
            for i in range(n):
                for j in range(d):
                    TA[i, k + 1, j] += scale * Z[t, i * d + j]


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
def _target_means(Y: Array, shares: Array, out: Array) -> None:
    """L Y, shares = 1/counts: row 0 is the sum of all rows times shares[0], row k is row k times shares[k]."""
    out[0] = Y[0]
    for k in range(1, len(Y)):
        for j in range(Y.shape[1]):
            out[0, j] += Y[k, j]
            out[k, j] = Y[k, j] * shares[k]
    for j in range(Y.shape[1]):
        out[0, j] *= shares[0]


@njit(cache=True)
def refresh(
    SS: Array, TS: Array, TT: Array, MA: Array, TA: Array, D: Array, counts: Array, mu: float, P: Array, U: Array
) -> None:
    """One refresh of all sources: P, U, M A and T A in place.

    C_i = mu D_i (I + mu G_i G_i^T)^{-1} G_i A_i;  P_i -= C_i,  U_i += L^T C_i,
    M_i A_i -= M_i (M_i - L T)^T C_i,  T A_i -= T (M_i - L T)^T C_i.
    """
    n, K1, d = MA.shape
    shares = 1.0 / counts
    LT, LTLT, LTS, GA = np.empty((K1, K1)), np.empty((K1, K1)), np.empty((K1, K1)), np.empty((K1, d))
    gram, MG, TG = np.empty((K1, K1)), np.empty((K1, K1)), np.empty((K1, K1))
    _target_means(TT, shares, LT)
    TLT = LT.T.copy()
    _target_means(TLT, shares, LTLT)
    for i in range(n):
        _target_means(TS[i], shares, LTS)
        MG[:] = SS[i] - LTS.T
        TG[:] = TS[i] - TLT
        _target_means(TA[i], shares, GA)
        for a in range(K1):
            scale = mu * D[i, a]
            for b in range(K1):
                gram[a, b] = scale * D[i, b] * (MG[a, b] - LTS[a, b] + LTLT[a, b])
            gram[a, a] += 1.0
            for j in range(d):
                GA[a, j] = scale * (MA[i, a, j] - GA[a, j])
        C = np.linalg.solve(gram, GA)
        C *= D[i].reshape(-1, 1)
        MA[i] -= np.dot(MG, C)
        TA[i] -= np.dot(TG, C)
        for a in range(K1):
            share = shares[a] if a > 0 else 0.0
            for j in range(d):
                P[i, a, j] -= C[a, j]
                U[a, i * d + j] += shares[0] * C[0, j] + share * C[a, j]
