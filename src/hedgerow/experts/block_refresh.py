"""The refresh of the projections (Eq. 13) in blocks: low-rank parts change, the large matrix only once a block.

    every T_w labels:  A_i <- (I + mu G_i^T G_i)^{-1} A_i = A_i - G_i^T C_i,   C_i = mu (I + mu G_i G_i^T)^{-1} G_i A_i

G_i = D_i (M_i - L T) holds the K+1 gaps: M_i the means of source i, T = [sum of all rows; class sums] of the target,
L = 1/counts, D_i a diagonal of weights (a class that one side lacks has no gap): Eq. 10 and 11. Hence

    A_i = H_i + M_i^T P_i + T^T U_i

and a refresh only adds to P_i and U_i (K+1 x d). When class sums of the stream are added to T, H_i is reduced by what
T^T U_i gains, so that A_i stays as it was. A row is projected by the three parts. The next refresh needs nothing but
products of these vectors with each other and with A, which are kept up to date from products with the rows:

    SS_i = M_i M_i^T   TS_i = T M_i^T   TT = T T^T   MA_i = M_i A_i   TA_i = T A_i

For any T_w a block of rows costs three matrix products with its rows, and one of the rank of its class sums. Rounding
adds up along this path, so after `ANCHOR` refreshes all products are computed anew from A. The plain form of a refresh
is `align/refresh.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, Order, is_sparse, on_large_pages
from hedgerow.core.moments import Moments
from hedgerow.core.rule_numbers import UNSEEN
from hedgerow.experts.plan import Refresh
from hedgerow.kernels import EVEN

Features = Array | slice
ANCHOR = 128  # refreshes between two computations from scratch


class Window(NamedTuple):
    """Rows first:last of a block, between two refreshes; their class sums are start:stop of the block's."""

    first: int
    last: int
    start: int
    stop: int
    ends: bool


class Due(NamedTuple):
    """An unfinished refresh: weights D_i of the gaps, 1/counts, R_i with R_i R_i^T = I + mu G_i G_i^T.

    C_i is filled in by `BlockRefresh.solve`, source by source.
    """

    D: Array
    shares: Array
    R: Array
    C: Array


class BlockRefresh:
    """n projections side by side in one m x nd matrix H, and the low-rank part by which they moved since.

    `target` is updated in place along with them.
    """

    def __init__(self, H: Array, sources: list[Moments], target: Moments, refresh: Refresh, order: Order = "C") -> None:
        n, K1, m = len(sources), len(target.counts), len(H)
        from hedgerow.kernels import refresh as solver
        from hedgerow.kernels import windows as kernels

        self.H, self.target, self.refresh, self.refreshes, self._moved = H, target, refresh, 0, False
        self._kernels, self._solver = kernels, solver
        self.counts = np.stack([source.counts for source in sources])
        # order "F": what belongs to one feature lies together, as sparse rows need it
        self.basis = on_large_pages(((n + 1) * K1, m), H.dtype, order)
        self.M, self.T = self.basis[: n * K1], self.basis[n * K1 :]
        self.M[:] = np.vstack([source.means for source in sources])
        self.T[0], self.T[1:] = target.total, target.class_totals
        M, A = self.M.reshape(n, K1, m), H.reshape(m, n, -1).transpose(1, 0, 2)
        self.SS = np.asarray(M @ M.transpose(0, 2, 1), dtype=np.float64)
        self.TS, self.TT, self.MA = np.zeros_like(self.SS), np.zeros((K1, K1)), M @ A
        self.TA, met = np.zeros_like(self.MA), np.append(0, 1 + np.flatnonzero(target.class_counts))
        T = self.T[met]  # all other rows are zero
        self.TS[:, met], self.TT[np.ix_(met, met)], self.TA[:, met] = T @ M.transpose(0, 2, 1), T @ T.T, T @ A
        self._weights = np.empty(self.counts.shape), np.empty(K1)
        self._R, self._C = np.empty(self.SS.shape), np.empty_like(self.MA)
        self.P, self.U = np.zeros_like(self.MA), np.zeros((K1, H.shape[1]), dtype=H.dtype)

    @property
    def stale(self) -> bool:
        """Whether it is time to compute all products anew, so that rounding does not add up further."""
        return self.refreshes >= ANCHOR

    def flush(self) -> None:
        """Add the low-rank parts to H, which is then A itself."""
        if self._moved:
            self._add_moves(self.H)
            self.P[:], self.U[:], self._moved = 0, 0, False

    def projections(self) -> Array:
        """A as it is now (m x nd), in an array of its own."""
        A = self.H.copy()
        if self._moved:
            self._add_moves(A)
        return A

    def _add_moves(self, H: Array) -> None:
        n, K1, d = self.P.shape
        add_product(H, self.T, self.U)
        step = self.M.reshape(n, K1, -1).transpose(0, 2, 1) @ self.P
        H.reshape(-1, n, d)[...] += step.transpose(1, 0, 2)

    def project(self, X: Matrix) -> Array:
        """A_i^T x of rows (B x n x d) by the three parts; nothing of size m is written, for sparse rows."""
        X, at = _reached(X)
        (n, K1, d), Z = self.P.shape, np.asarray(X @ self.H[at])
        if self._moved:
            XB = X @ self.basis[:, at].T
            Z += XB[:, n * K1 :] @ self.U
            own = XB[:, : n * K1].reshape(-1, n, K1).transpose(1, 0, 2) @ self.P
            Z.reshape(-1, n, d)[...] += own.transpose(1, 0, 2)
        return Z.reshape(-1, n, d)

    def windows(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Iterator[tuple[slice, Array]]:
        """The projections (B x n x d) of the rows between two refreshes; after each, its labels are learned."""
        kernels, (X, at) = self._kernels, _reached(X)
        (n, K1, d), even, H = self.P.shape, EVEN if weight is None else weight, self.H[at]
        cut, group, classes = _cut(y, seen, self.refresh.every, K1 - 1)
        S = group_sums(X, group, len(classes), even)
        XH, (XB, grams) = np.asarray(X @ H), _products(X, self.basis[:, at], S, cut)
        XM, XTS = XB[:, : n * K1], XB[:, n * K1 :]
        UL = np.empty((K1 + len(classes), n * d), dtype=self.U.dtype)  # U, and what H must lose for each class sum
        UL[:K1], self.U = self.U, UL[:K1]
        for (first, last, start, stop, ends), gram in zip(cut, grams, strict=True):
            here, Z, labels = slice(first, last), XH[first:last], y[first:last]
            if self._moved:
                own = XM[here].reshape(-1, n, K1).transpose(1, 0, 2) @ self.P
                kernels.add_parts(Z, XTS[here, : K1 + start] @ UL[: K1 + start], own)
            yield here, Z.reshape(-1, n, d)
            kernels.add_labels(Z, labels, even[here], self.TA, self.target.count, self.target.class_counts)
            kernels.add_products(labels, even[here], XM[here], XTS[here], self.TS, self.TT)
            kernels.add_gram(classes[start:stop], gram, self.TT)
            kernels.move_on(start, stop, classes, K1, XTS[last:], UL)
            if ends:
                self._refresh()
        if self._moved:
            add_product(H, S, UL[K1:])  # so that A stays as it is
        self._join(S, classes, at, H)
        self.U = self.U.copy()

    def _refresh(self) -> None:
        due = self.due()
        self.solve(0, len(self.P), due)
        self._solver.move(due.C, due.shares, self.P, self.U)
        self._moved = True

    def prepare(self) -> None:
        """The part of a refresh that can be done before the last labels of its window: the Gram matrices."""
        self._weigh()
        self._solver.grams(self.SS, self.TS, self.TT, self.refresh.mu, *self._weights, self._R)

    def due(self, since: Array | None = None) -> Due:
        """Start a refresh: the factors of all sources. Until it is finished, T and T A must not change.

        `since` are the labels that came after `prepare`; None: `prepare` was not called.
        """
        if since is None:
            self.prepare()
        else:
            self._weigh()
            for k in {0, *(1 + since).tolist()}:
                self._solver.regram(k, self.SS, self.TS, self.TT, self.refresh.mu, *self._weights, self._R)
        self._solver.factor(self._R)
        self.refreshes += 1
        return Due(*self._weights, self._R, self._C)

    def _weigh(self) -> None:
        rule, target = self.refresh, self.target
        self._solver.gap_weights(
            self.counts, target.count, target.class_counts, UNSEEN[rule.unseen], rule.kappa, *self._weights
        )

    def solve(self, first: int, last: int, due: Due) -> None:
        """C_i of the sources first:last, and M_i A_i and T A_i after the refresh."""
        self._solver.solve(first, last, self.SS, self.TS, self.refresh.mu, *due, self.MA, self.TA)

    def _join(self, S: Matrix, classes: Array, at: Features, H: Array) -> None:
        """Add the class sums S of a block to T. Those of one sparse row have the features `at` only, and so has H."""
        if not isinstance(at, slice):
            self.H[at] = H
            for s, k in zip(S, classes, strict=True):  # one, or none
                for sums in (self.T[0], self.T[1 + k], self.target.total, self.target.class_totals[k]):
                    sums[at] += s
        elif is_sparse(S):
            of, where = np.repeat(classes, np.diff(S.indptr)), S.indices
            np.add.at(self.T, (1 + of, where), S.data)
            np.add.at(self.T[0], where, S.data)
            np.add.at(self.target.class_totals, (of, where), S.data)
            np.add.at(self.target.total, where, S.data)
        else:
            self._kernels.join(S, classes, self.T, self.target.total, self.target.class_totals)


def add_product(H: Array, S: Matrix, U: Array) -> None:
    """H += S^T U in place; of sparse S only the features that it holds are touched.

    >>> H = np.zeros((2, 1)); add_product(H, np.array([[1.0, 2.0]]), np.array([[3.0]])); H.ravel().tolist()
    [3.0, 6.0]
    """
    if is_sparse(S):
        found, packed = _packed(S)
        H[found] += packed.T @ U
        return
    from scipy.linalg.blas import dgemm, sgemm

    gemm = dgemm if H.dtype == np.float64 else sgemm
    gemm(1.0, U.T, S.T, beta=1.0, c=H.T, trans_b=True, overwrite_c=True)


def group_sums(X: Matrix, group: Array, R: int, weight: Array) -> Matrix:
    """The sum of the rows of each of R groups, each row counted `weight` times (empty: once); group -1 is none.

    >>> group_sums(np.array([[1.0], [2.0], [4.0]]), np.array([0, -1, 0]), 1, np.array([1.0, 1.0, 0.5]))
    array([[3.]])
    """
    from hedgerow.kernels import windows as kernels

    if is_sparse(X):
        import scipy.sparse as sp

        kept = np.flatnonzero(group >= 0)
        times = weight[kept] if len(weight) else np.ones(len(kept), dtype=X.dtype)
        found, packed = _packed(X)
        sums = sp.csr_array((times, (group[kept], kept)), shape=(R, X.shape[0])) @ packed
        return sp.csr_array((sums.data.astype(X.dtype), found[sums.indices], sums.indptr), shape=(R, X.shape[1]))
    out = np.zeros((R, X.shape[1]), dtype=X.dtype)
    kernels.group_sums(X, group, weight, out)
    return out


def _reached(X: Matrix) -> tuple[Matrix, Features]:
    """One sparse row as a dense row of its nonzero features, and their numbers; other rows as they are, and all."""
    if is_sparse(X) and X.shape[0] == 1 and X.nnz and X.has_canonical_format:
        return X.data[None], X.indices
    return X, slice(None)


def _packed(X: Matrix) -> tuple[Array, Matrix]:
    """The features that a CSR matrix holds, and the matrix of these alone: its products do not grow with m."""
    found, column = np.unique(X.indices, return_inverse=True)
    return found, X.__class__((X.data, column, X.indptr), shape=(X.shape[0], len(found)))


def _products(X: Matrix, basis: Array, S: Matrix, cut: list[Window]) -> tuple[Array, list[Array]]:
    """X [basis; S]^T, and S S^T of each window, S class sums of X. A row needs only the sums of earlier windows."""
    if is_sparse(X):
        found, packed = _packed(X)
        sums = S.__class__((S.data, np.searchsorted(found, S.indices), S.indptr), shape=(S.shape[0], len(found)))
        gram = (sums @ sums.T).toarray()
        grams = [gram[w.start : w.stop, w.start : w.stop] for w in cut]
        return np.hstack([X @ basis.T, (packed @ sums.T).toarray()]), grams
    (first, stop), R = (cut[0].last, cut[-1].start), len(basis)
    out = np.empty((len(X), R + stop), dtype=X.dtype)
    np.matmul(X, basis.T, out=out[:, :R])
    np.matmul(X[first:], S[:stop].T, out=out[first:, R:])
    return out, [S[w.start : w.stop] @ S[w.start : w.stop].T for w in cut]


def _cut(y: Array, seen: int, every: int, K: int) -> tuple[list[Window], Array, Array]:
    """The windows of a block, the class sum that each row adds to (-1: none), and the class of each such sum."""
    from hedgerow.kernels import windows as kernels

    group, classes, windows = np.empty(len(y), np.int64), np.empty(len(y), np.int64), np.empty((len(y), 5), np.int64)
    count, R = kernels.cut(y, seen, every, K, group, classes, windows)
    return [Window(*window) for window in windows[:count].tolist()], group, classes[:R]
