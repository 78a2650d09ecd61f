"""Rows between two refreshes: their class sums (Eq. 10, 11), their projections, and the products a refresh needs.

Letters as in `experts/block_refresh.py`: n sources, K1 = K + 1 means or sums of each side, d dimensions,
R class sums in a block.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled


@compiled
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


@compiled(fastmath=SUMS)
def few_products(X: Array, M: Array, out: Array) -> None:
    """out = X M^T for a few rows X, two of M and four of X at a time, so that M is read once.

    A matrix product of the BLAS first copies M into its own order, which takes longer than so few rows do.
    """
    R, last = len(M), len(X) - 1
    for r in range(0, R, 2):
        s = min(r + 1, R - 1)
        for t in range(0, len(X), 4):
            t1, t2, t3 = min(t + 1, last), min(t + 2, last), min(t + 3, last)
            a = b = c = d = e = f = g = h = X.dtype.type(0)
            for j in range(M.shape[1]):
                u, v = M[r, j], M[s, j]
                a += u * X[t, j]
                b += u * X[t1, j]
                c += u * X[t2, j]
                d += u * X[t3, j]
                e += v * X[t, j]
                f += v * X[t1, j]
                g += v * X[t2, j]
                h += v * X[t3, j]
            out[t, r], out[t1, r], out[t2, r], out[t3, r] = a, b, c, d
            out[t, s], out[t1, s], out[t2, s], out[t3, s] = e, f, g, h


@compiled
def add_labels(Z: Array, y: Array, weight: Array, TA: Array, count: Array, class_counts: Array) -> None:
    """T A and the target's counts, for labelled rows: TA[i, 0] and TA[i, y + 1] += z_i; Z (B x nd) are projections."""
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


@compiled
def join(rows: Array, labels: Array, T: Array, total: Array, class_totals: Array) -> None:
    """Rows are added to the sum of all and to that of their class, in T and in the target's moments."""
    for t in range(len(rows)):
        k = labels[t]
        for j in range(rows.shape[1]):
            T[0, j] += rows[t, j]
            T[k + 1, j] += rows[t, j]
            class_totals[k, j] += rows[t, j]
            total[j] += rows[t, j]


@compiled
def add_parts(Z: Array, shared: Array, own: Array) -> None:
    """Z (B x nd) += shared (B x nd) + own (n x B x d): to rows projected by H, the parts T^T U and M_i^T P_i."""
    n, B, d = own.shape
    for t in range(B):
        for i in range(n):
            for j in range(d):
                Z[t, i * d + j] += shared[t, i * d + j] + own[i, t, j]


@compiled
def add_products(y: Array, weight: Array, XM: Array, XT: Array, TS: Array, TT: Array) -> None:
    """T M_i^T and T T^T for rows added to T, without the rows' products with each other: XM (B x n K1), XT (B x K1)."""
    n, K1 = TS.shape[0], TS.shape[1]
    for t in range(len(y)):
        if y[t] < 0:
            continue
        times = XM.dtype.type(weight[t] if len(weight) else 1.0)
        for k in (0, y[t] + 1):
            for i in range(n):
                for a in range(K1):
                    TS[i, k, a] += times * XM[t, i * K1 + a]
            for a in range(K1):
                TT[k, a] += times * XT[t, a]
                TT[a, k] += times * XT[t, a]


@compiled
def add_gram(classes: Array, SS: Array, TT: Array) -> None:
    """T T^T for class sums added to T: their products with each other."""
    for g in range(len(classes)):
        for h in range(len(classes)):
            for a in (0, classes[g] + 1):
                TT[a, 0] += SS[g, h]
                TT[a, classes[h] + 1] += SS[g, h]


@compiled
def take_in(
    B: int,
    rows: Array,
    Z: Array,
    y: Array,
    weight: Array,
    products: Array,
    TS: Array,
    TT: Array,
    TA: Array,
    T: Array,
    count: Array,
    class_counts: Array,
    total: Array,
    class_totals: Array,
) -> None:
    """Add the first B pending rows (weighted already) to T and to all products with T; `products` is rows [M; T]^T."""
    R, own = (len(TS) + 1) * len(TT), np.empty((B, B), rows.dtype)
    X, labels = rows[:B], y[:B]
    few_products(X, X, own)
    add_products(labels, weight[:0], products[:B, :R], products[:B, R - len(TT) : R], TS, TT)  # X has its weights
    add_gram(labels, own, TT)
    add_labels(Z[:B], labels, weight[:B], TA, count, class_counts)
    join(X, labels, T, total, class_totals)


@compiled
def move_on(start: int, stop: int, classes: Array, K1: int, XTS: Array, UL: Array) -> None:
    """Once the class sums start:stop of a block are part of T: update the products of the rows to come with T.

    XTS holds those rows' products with T (K1), then with the class sums of the block. UL holds U (K1 x nd), then for
    each class sum what H must lose so that A stays as it is: U of all rows and U of its class, negated.
    """
    for t in range(len(XTS)):
        for g in range(start, stop):
            XTS[t, 0] += XTS[t, K1 + g]
            XTS[t, classes[g] + 1] += XTS[t, K1 + g]
    for g in range(start, stop):
        for j in range(UL.shape[1]):
            UL[K1 + g, j] = -UL[0, j] - UL[classes[g] + 1, j]


@compiled
def gaps(first: int, M: Array, T: Array, shares: Array, G: Array) -> None:
    """M_i - L T of all sources (n x K1 x w), for the features from `first` on."""
    n, K1, w = G.shape
    for i in range(n):
        for k in range(K1):
            for j in range(w):
                G[i, k, j] = M[i, k, first + j] - shares[k] * T[k, first + j]


@compiled
def subtract(first: int, moves: Array, H: Array) -> None:
    """H (m x n x d) -= moves (n x w x d), in the features from `first` on."""
    n, w, d = moves.shape
    for j in range(w):
        for i in range(n):
            for c in range(d):
                H[first + j, i, c] -= moves[i, j, c]
