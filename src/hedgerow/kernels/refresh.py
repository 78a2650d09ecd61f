r"""The refresh of the projections (Eq. 13) from products of vectors alone, and the rows between two refreshes.

Letters as in `experts/spaces.py`: n sources, K1 = K + 1 means or sums of each side, d dimensions. No loop of a refresh
reads the m features. Twins in NumPy: `align.refreshed` with `core.moments.gap`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import SHRINK, ZERO
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled


class Products(NamedTuple):
    """What a refresh is computed from, and room for what it computes, i being a source.

    Kept up to date: SS_i = M_i M_i^T, TS_i = T M_i^T, TT = T T^T (K1 x K1), MA_i = M_i A_i, TA_i = T A_i (K1 x d);
    `counts` (n x K1) are the rows behind each mean. Of the last refresh: D_i, the weights of the gaps; `shares`, 1 over
    the target's counts; R_i, the Cholesky factor of I + mu G_i G_i^T; MG_i = mu M_i G_i^T; C_i, by which A_i moved.
    """

    counts: Array
    SS: Array
    TS: Array
    TT: Array
    MA: Array
    TA: Array
    D: Array
    shares: Array
    R: Array
    MG: Array
    C: Array


@compiled(makes=True)
def cut(y: Array, seen: int, every: int, K: int, group: Array, classes: Array, windows: Array) -> tuple[int, int]:
    """A block cut into windows of `every` labels, `seen` before it: the number of windows, and that of class sums.

    `group` gets the number of the class sum that each row adds to (-1: none), `classes` the class of each sum, and
    `windows` a row a window: its rows first:last, its class sums start:stop, and whether a refresh ends it.
    """
    at, count, start, first, R = np.empty(K, np.int64), 0, 0, 0, 0
    for k in range(K):
        at[k] = -1
    for t in range(len(y)):
        group[t] = -1
        if y[t] >= 0:
            seen += 1
            if at[y[t]] < start:
                at[y[t]], classes[R] = R, y[t]
                R += 1
            group[t] = at[y[t]]
        ends = y[t] >= 0 and seen % every == 0
        if ends or t + 1 == len(y):
            row = windows[count]
            row[0], row[1], row[2], row[3], row[4] = first, t + 1, start, R, ends
            first, start, count = t + 1, R, count + 1
    return count, R


@compiled
def group_sums(X: Array, group: Array, weight: Array, out: Array) -> None:
    """out[g] += the rows of group g, each counted `weight` times (empty: once); rows of group -1 are left out."""
    for t in range(len(group)):
        if group[t] >= 0:
            total, times = out[group[t]], X.dtype.type(weight[t] if len(weight) else 1.0)
            for j in range(X.shape[1]):
                total[j] += times * X[t, j]


@compiled
def add_moments(X: Array, y: Array, weight: Array, counts: Array, totals: Array) -> None:
    """Labelled rows are added to the target's moments (Eq. 10, 11): those of all rows, then of each class.

    Twin: `Moments.add`.
    """
    for t in range(len(y)):
        if y[t] < 0:
            continue
        times, total, sums = weight[t] if len(weight) else 1.0, totals[0], totals[1 + y[t]]
        counts[0] += times
        counts[1 + y[t]] += times
        for j in range(X.shape[1]):
            share = times * X[t, j]
            total[j] += share
            sums[j] += share


@compiled
def fold(XB: Array, first: int, K1: int, classes: Array) -> None:
    """Products of rows with T, in the columns from `first` on, become those with T and the class sums pending."""
    for t in range(len(XB)):
        for g in range(len(classes)):
            XB[t, first] += XB[t, first + K1 + g]
            XB[t, first + 1 + classes[g]] += XB[t, first + K1 + g]


@compiled
def add_projections(Z: Array, y: Array, weight: Array, TA: Array) -> None:
    """T A_i for labelled rows that join T: TA[i, 0] and TA[i, y + 1] += z_i; Z (B x nd) are their projections."""
    n, d = TA.shape[0], TA.shape[2]
    for t in range(len(y)):
        if y[t] >= 0:
            times = Z.dtype.type(weight[t] if len(weight) else 1.0)
            for i in range(n):
                for j in range(d):
                    share = times * Z[t, i * d + j]
                    TA[i, 0, j] += share
                    TA[i, y[t] + 1, j] += share


@compiled
def join(products: Products, SB: Array, classes: Array, first: int) -> None:
    """T M_i^T and T T^T for class sums that join T.

    SB has their products with M, with T before them, and from column `first` on with each other.
    """
    TS, TT = products.TS, products.TT
    n, K1 = len(TS), len(TT)
    for g in range(len(classes)):
        for k in (0, classes[g] + 1):
            for i in range(n):
                for a in range(K1):
                    TS[i, k, a] += SB[g, i * K1 + a]
            for a in range(K1):
                TT[k, a] += SB[g, n * K1 + a]
                TT[a, k] += SB[g, n * K1 + a]
            for h in range(len(classes)):
                TT[k, 0] += SB[g, first + h]
                TT[k, classes[h] + 1] += SB[g, first + h]


@compiled(fastmath=SUMS)
def _less(start: float, a: Array, b: Array) -> float:
    """start - a . b."""
    total = start
    for k in range(len(a)):
        total -= a[k] * b[k]
    return total


@compiled
def cholesky(R: Array) -> None:
    """R, of which the lower half is read, becomes its Cholesky factor in place.

    R is I + G G^T, so its pivots are at least 1; rounding must not take them below.
    """
    for a in range(len(R)):
        for b in range(a):
            R[a, b] = _less(R[a, b], R[a, :b], R[b, :b]) / R[b, b]
        R[a, a] = np.sqrt(max(_less(R[a, a], R[a, :a], R[a, :a]), 1.0))


@compiled
def prepare(products: Products, target_counts: Array, unseen: int, kappa: float, mu: float) -> None:
    """Start a refresh: D and the shares (twin: `moments.gap_weights`), then R_i, MG_i, and G_i A_i in C_i."""
    counts, SS, TS, TT, MA, TA, D, shares, R, MG, C = products
    n, K1, d = C.shape
    for a in range(K1):
        target = target_counts[a]
        shares[a] = 1.0 / target if target > 0.0 else 1.0
        weight = 1.0
        if unseen != ZERO or a == 0:
            weight = 1.0 if target > 0.0 else 0.0
        if unseen == SHRINK and a > 0:
            weight = target / (target + kappa)
        for i in range(n):
            D[i, a] = weight if counts[i, a] > 0.0 else 0.0
    for i in range(n):
        for a in range(K1):
            for b in range(K1):
                gap = SS[i, a, b] - shares[b] * TS[i, b, a]
                MG[i, a, b] = mu * D[i, b] * gap
                R[i, a, b] = D[i, a] * (MG[i, a, b] - shares[a] * mu * D[i, b] * (TS[i, a, b] - shares[b] * TT[a, b]))
            R[i, a, a] += 1.0
            weight, share = C.dtype.type(D[i, a]), C.dtype.type(shares[a])
            for j in range(d):
                C[i, a, j] = weight * (MA[i, a, j] - share * TA[i, a, j])
        cholesky(R[i])


@compiled
def finish(products: Products, lost: Array, mu: float, P: Array, U: Array) -> None:
    """End a refresh: from C_i = (R_i R_i^T)^{-1} G_i A_i, the gaps that are left, to P, U and the products after it.

    M_i A_i -= lost. T A_i follows from D_i (M_i A_i - L T A_i) = C_i; where D_i is zero there is no gap, and it stays.
    Then C_i <- mu D_i C_i, P_i -= C_i and U_i += L C_i: M_i^T P_i + T^T U_i loses (M_i - L T)^T C_i.
    """
    MA, TA, D, shares, C = products.MA, products.TA, products.D, products.shares, products.C
    (n, K1, d), number = C.shape, C.dtype.type
    for i in range(n):
        for a in range(K1):
            for j in range(d):
                MA[i, a, j] -= lost[i, a, j]
            if D[i, a] > 0.0:
                gap, count = number(1.0 / D[i, a]), number(1.0 / shares[a])
                for j in range(d):
                    TA[i, a, j] = count * (MA[i, a, j] - gap * C[i, a, j])
            scale, share = number(mu * D[i, a]), number(shares[a])
            for j in range(d):
                C[i, a, j] *= scale
                P[i, a, j] -= C[i, a, j]
                U[a, i * d + j] += share * C[i, a, j]
