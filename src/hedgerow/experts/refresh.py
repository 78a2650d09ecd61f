r"""The refresh of the projections (Eq. 13) in its low-rank form, for blocks of any number of rows.

.. math::
    A_i \leftarrow (I + \mu G_i^T G_i)^{-1} A_i = A_i - G_i^T C_i, \qquad
    C_i = \mu (I + \mu G_i G_i^T)^{-1} G_i A_i \qquad \text{every } T_w \text{ labels}

The equation itself is `align/refresh.py`. :math:`G_i = D_i (M_i - L T)` holds the K+1 gaps: M_i the means of source i,
T = [sum of all rows; class sums] of the target, L = 1/counts, D_i a diagonal of weights (a class that one side lacks
has no gap): Eq. 10 and 11. A refresh moves A_i within the span of M_i and T, so only small matrices change:

.. math:: A_i = H_i + M_i^T P_i + T^T U_i + S^T V_i

S are the class sums of the rows since H was written last; they belong to T and are not added to it yet. When rows join
T, V is set so that A_i stays as it was. A row x is projected by its products with H and with [M; T; S], and the next
refresh needs nothing but products of those vectors with each other and with A, which are kept up to date from the rows'
own products (`kernels.refresh.Products`). No matrix of m x m or rows x rows is built.

When S is full, H takes S^T V and T takes S: one product of rank `ROOM`. Rounding adds up along this path, so after
`ANCHOR` refreshes all products are computed anew from A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, Order, is_sparse, on_large_pages
from hedgerow.core.moments import Moments
from hedgerow.core.rule_numbers import UNSEEN
from hedgerow.experts.plan import Refresh
from hedgerow.kernels import EVEN

T = TypeVar("T")
ANCHOR = 128  # refreshes between two computations from scratch
ROOM = 128  # class sums that are pending at most


class LastRow(Generic[T]):
    """What was computed for the dense row that came last: a row is predicted, and then its label is learned."""

    def __init__(self) -> None:
        self._row: Array | None = None
        self._value: T

    def of(self, X: Array, compute: Callable[[], T]) -> T:
        """`compute()`, or what it gave for the same row; of several rows nothing is kept."""
        if len(X) != 1:
            return compute()
        if self._row is None or not np.array_equal(X, self._row):
            self._row, self._value = X.copy(), compute()
        return self._value

    def forget(self) -> None:
        """To be called when what is computed would change."""
        self._row = None


class LowRankRefresh:
    """n projections side by side in one m x nd matrix H, and the low-rank part by which they moved since.

    `target` is updated in place along with them.
    """

    def __init__(self, H: Array, sources: list[Moments], target: Moments, refresh: Refresh, order: Order = "C") -> None:
        from hedgerow.kernels import refresh as kernels

        n, K1, (m, width) = len(sources), len(target.counts), H.shape
        d = width // n
        self.H, self.target, self.refresh, self.order, self.refreshes = H, target, refresh, order, 0
        self._kernels, self._shape = kernels, (n, K1, d)
        # order "F": what belongs to one feature lies together, as sparse rows need it
        self.basis = on_large_pages(((n + 1) * K1 + ROOM, m), H.dtype, order)
        self.M, self.T, self.S = np.split(self.basis, [n * K1, (n + 1) * K1])
        self.M[:], self.S[:] = np.vstack([source.means for source in sources]), 0
        self.T[0], self.T[1:] = target.total, target.class_totals
        M, A = self.M.reshape(n, K1, m), H.reshape(m, n, d).transpose(1, 0, 2)
        SS = np.asarray(M @ M.transpose(0, 2, 1), dtype=np.float64)
        TS, TT, MA = np.zeros_like(SS), np.zeros((K1, K1)), M @ A
        TA, met = np.zeros_like(MA), np.append(0, 1 + np.flatnonzero(target.class_counts))
        T = self.T[met]  # all other rows are zero
        TS[:, met], TT[np.ix_(met, met)], TA[:, met] = T @ M.transpose(0, 2, 1), T @ T.T, T @ A
        counts = np.stack([source.counts for source in sources])
        room = np.empty(counts.shape), np.empty(K1), np.empty_like(SS), np.empty_like(SS), np.empty_like(MA)
        self.products = kernels.Products(counts, SS, TS, TT, MA, TA, *room)
        self.P, self.UV, self._moved = np.zeros_like(MA), np.zeros((K1 + ROOM, width), dtype=H.dtype), False
        self._pending, self._classes = 0, np.empty(ROOM, dtype=np.int64)  # how many class sums; the class of each
        self._touched: list[Array] = []  # the features of pending sparse rows
        self._last = LastRow[tuple[Array, Array]]()

    @property
    def stale(self) -> bool:
        """Whether it is time to compute all products anew, so that rounding does not add up further."""
        return self.refreshes >= ANCHOR

    def add_to(self, H: Array) -> None:
        """Add the low-rank parts to H in place: what was H is then A."""
        if not self._moved:
            return
        (n, K1, d), target = self._shape, self.target
        T = np.vstack([target.total, target.class_totals]).astype(H.dtype, copy=False)
        add_product(H, T, self.UV[:K1])
        add_product(H, self.S[: self._pending], self.UV[K1 : K1 + self._pending])
        for A, M, P in zip(H.reshape(-1, n, d).transpose(1, 0, 2), self.M.reshape(n, K1, -1), self.P, strict=True):
            A += M.T @ P

    def project(self, X: Matrix) -> Array:
        """A_i^T x of rows (B x nd) that are only predicted; nothing of size m is written."""
        XH, XB = self._products(X)
        Z, XB = XH.copy(), XB.copy()
        self._add_parts(Z, XB, self._pending)
        return Z

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """A_i^T x of rows (B x nd), each by the projections before its label; then the labels are learned."""
        kernels, (n, K1, _), even = self._kernels, self._shape, EVEN if weight is None else weight
        windows, group, classes = self._cut(y, seen)
        if self._pending + len(classes) > ROOM:
            self._close()
        before, after = self._pending, self._pending + len(classes)
        new, self._classes[before:after] = self.S[before:after], classes
        if is_sparse(X):
            self._touched.append(np.unique(X.indices))
            of, counted = np.repeat(group, np.diff(X.indptr)), X.data
            if weight is not None:
                counted = counted * np.repeat(weight, np.diff(X.indptr))
            kept = of >= 0
            np.add.at(new, (of[kept], X.indices[kept]), counted[kept])
            Z, XB = self._products(X)
        else:
            Z, known = self._products(X)
            self._last.forget()
            kernels.group_sums(X, group, even, new)
            XB = np.hstack([known, X @ new.T])
        for first, last, start, stop, ends in windows:
            here, own = slice(first, last), slice(before + start, before + stop)
            self._add_parts(Z[here], XB[here], own.start)
            sums = self._classes[own]
            kernels.join(self.products, Z[here], XB[here], y[here], even[here], (n + 1) * K1 + own.start, sums)
            add_rows(self.target, X[here], y[here], None if weight is None else weight[here])
            self.UV[K1 + own.start : K1 + own.stop] = -self.UV[0] - self.UV[1 + sums]
            if ends:
                self._refresh()
        self._pending = after
        return Z

    def _cut(self, y: Array, seen: int) -> tuple[list[list[int]], Array, Array]:
        """The windows of a block, the class sum that each row adds to (-1: none), and the class of each such sum."""
        B, K = len(y), self._shape[1] - 1
        group, classes, windows = np.empty(B, np.int64), np.empty(B, np.int64), np.empty((B, 5), np.int64)
        count, R = self._kernels.cut(y, seen, self.refresh.every, K, group, classes, windows)
        return windows[:count].tolist(), group, classes[:R]

    def _products(self, X: Matrix) -> tuple[Array, Array]:
        """X H, and X [M; T; S]^T of the class sums so far."""
        if is_sparse(X):
            return np.asarray(X @ self.H), np.asarray(X @ self.basis.T)
        used = self.basis[: len(self.basis) - ROOM + self._pending]
        return self._last.of(X, lambda: (product(X, self.H), product(X, used.T)))

    def _add_parts(self, Z: Array, XB: Array, pending: int) -> None:
        """To rows projected by H, the parts of M, T and S. T's products in XB become those with the sums pending."""
        n, K1, d = self._shape
        self._kernels.fold(XB, n * K1, K1, self._classes[:pending])
        if self._moved:
            Z += XB[:, n * K1 : (n + 1) * K1 + pending] @ self.UV[: K1 + pending]
            own = XB[:, : n * K1].reshape(-1, n, K1).transpose(1, 0, 2) @ self.P
            Z.reshape(-1, n, d)[...] += own.transpose(1, 0, 2)

    def _refresh(self) -> None:
        """Eq. 13 for all sources, in products alone."""
        from scipy.linalg.lapack import dpotrs

        products, rule, target = self.products, self.refresh, self.target
        self._kernels.prepare(
            products, target.count, target.class_counts, UNSEEN[rule.unseen], float(rule.kappa), float(rule.mu)
        )
        for R, C in zip(products.R, products.C, strict=True):
            C[:] = dpotrs(R.T, C, lower=0)[0]
        lost = products.MG @ products.C
        self._kernels.finish(products, lost, float(rule.mu), self.P, self.UV)
        self._moved, self.refreshes = True, self.refreshes + 1

    def _close(self) -> None:
        """The class sums that are pending become part of T, and H takes what A would lose by that."""
        K1, R, target = self._shape[1], self._pending, self.target
        at = np.unique(np.concatenate(self._touched)) if self._touched else slice(None)
        S = self.S[:R, at]
        if self._moved and self._touched:
            self.H[at] += S.T @ self.UV[K1 : K1 + R]
        elif self._moved:
            add_product(self.H, S, self.UV[K1 : K1 + R])
        self.T[0, at], self.T[1:, at], self.S[:R, at] = target.total[at], target.class_totals[:, at], 0
        self._pending = 0
        self._last.forget()
        self._touched.clear()


def product(X: Matrix, M: Array) -> Array:
    """X M, of one dense row by a compiled loop."""
    from hedgerow.kernels.rows import times

    return np.asarray(X @ M) if is_sparse(X) else times(X, M)


def add_product(H: Array, S: Array, U: Array) -> None:
    """H += S^T U in place.

    >>> H = np.zeros((2, 1)); add_product(H, np.array([[1.0, 2.0]]), np.array([[3.0]])); H.ravel().tolist()
    [3.0, 6.0]
    """
    from scipy.linalg.blas import dgemm, sgemm

    if len(S):
        gemm = dgemm if H.dtype == np.float64 else sgemm
        gemm(1.0, U.T, S.T, beta=1.0, c=H.T, trans_b=True, overwrite_c=True)


def add_rows(target: Moments, X: Matrix, y: Array, weight: Array | None) -> None:
    """Labelled rows join the target's moments in place, dense ones by a compiled loop."""
    from hedgerow.kernels.refresh import add_moments

    if is_sparse(X):
        target.add(X, y, weight)
        return
    even = EVEN if weight is None else weight
    add_moments(X, y, even, target.count, target.total, target.class_counts, target.class_totals)
