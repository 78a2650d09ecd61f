r"""The spaces that the experts score rows in: fixed, or moving with the labels by Eq. 13 in one of two forms.

| spaces          | A_i                                | refresh, every T_w labels                    |
|-----------------|------------------------------------|----------------------------------------------|
| `Spaces`        | as the aligner found them, or none | -                                            |
| `MovingSpaces`  | follow the labels                  | low-rank: `experts/spaces.py`               |
| `PrintedSpaces` | follow the labels                  | pinv(I + mu G^T G) A, as the paper prints it |

Each also keeps the moments of the target, because the refresh is made of them.

The refresh of the projections (Eq. 13) in its low-rank form, for blocks of any number of rows.

.. math::
    A_i \leftarrow (I + \mu G_i^T G_i)^{-1} A_i = A_i - G_i^T C_i, \qquad
    C_i = \mu (I + \mu G_i G_i^T)^{-1} G_i A_i \qquad \text{every } T_w \text{ labels}

The equation itself is `align.refreshed`. :math:`G_i = D_i (M_i - L T)` holds the K+1 gaps: M_i the means of source i,
T = [sum of all rows; class sums] of the target, L = 1/counts, D_i a diagonal of weights (a class that one side lacks
has no gap): Eq. 10 and 11. A refresh moves A_i within the span of M_i and T, so only small matrices change:

.. math:: A_i = H_i + M_i^T P_i + T^T U_i + S^T V_i

S are the class sums of the rows since H was written last; they belong to T and are not added to it yet. When rows join
T, V is set so that A_i stays as it was. A row x is projected by its products with H and with [M; T; S], and the next
refresh needs nothing but products of those vectors with each other and with A, which are kept up to date from the rows'
own products (`kernels.refresh.Products`). No matrix of m x m or rows x rows is built.

When S is full, H takes S^T V and T takes S: one product of rank `ROOM`. Where fewer dense rows come at once than lie
between two refreshes, H becomes A at each refresh, and a row is projected by H alone until the next. Rounding adds
up along this path, so after `ANCHOR` refreshes all products are computed anew from A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hedgerow import kernels
from hedgerow.align import kernel_rows, refreshed
from hedgerow.core.arrays import Array, Matrix, Order, dense, is_sparse, on_large_pages
from hedgerow.core.constants import UNSEEN
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import KAPPA, Moments, gap
from hedgerow.methods import ANSWERS

FIXED_BLOCK = 1024
MOVING_BLOCK = 128  # rows; in a longer block the products of its rows with its own class sums take over
ANCHOR = 128  # refreshes between two computations from scratch
ROOM = 128  # class sums that are pending at most


@dataclass(frozen=True)
class Refresh:
    """How the projections follow the labels: every `every` labels (T_w), with strength mu; see `moments.gap`."""

    every: int = 10
    mu: float = 1.0
    unseen: str = "zero"
    inverse: str = "woodbury"
    kappa: float = KAPPA

    def __post_init__(self) -> None:
        if self.every < 1 or not self.mu >= 0 or not self.kappa > 0 or self.unseen not in UNSEEN:
            raise InputError(f"{self}: every must be at least 1, mu not negative, kappa positive, unseen a known rule")
        if self.inverse not in ANSWERS["inverse"]:
            raise InputError(f"inverse={self.inverse!r}: use one of {', '.join(ANSWERS['inverse'])}")


class LastRow:
    """What was computed for the dense row that came last: a row is predicted, and then its label is learned."""

    def __init__(self) -> None:
        self._kept: tuple[bytes, Array] | None = None

    def of(self, X: Matrix, compute: Callable[[], Array]) -> Array:
        """`compute()`, or what it gave for the same row; of several rows and of sparse ones nothing is kept."""
        if is_sparse(X) or len(X) != 1:
            return compute()
        row = X.tobytes()
        if self._kept is None or self._kept[0] != row:
            self._kept = row, compute()
        return self._kept[1]

    def forget(self) -> None:
        """To be called when what is computed would change."""
        self._kept = None


class Target(NamedTuple):
    """The target's labelled rows: their number and sum, then those of each class (1 + K, 1 + K x m); see `Moments`."""

    counts: Array
    totals: Array

    @classmethod
    def of(cls, moments: Moments) -> Target:
        """A copy of these moments."""
        return cls(moments.counts, np.vstack([moments.total, moments.class_totals]))

    @property
    def moments(self) -> Moments:
        """The same arrays by name."""
        return Moments(self.counts[:1], self.totals[0], self.counts[1:], self.totals[1:])

    def add(self, X: Matrix, y: Array, weight: Array) -> None:
        """Labelled rows join in place, dense ones by a compiled loop; `weight` empty: one each."""
        if is_sparse(X):
            self.moments.add(X, y, weight if len(weight) else None)
        else:
            kernels.refresh.add_moments(X, y, weight, self.counts, self.totals)


class LowRankRefresh:
    """n projections side by side in one m x nd matrix H, and the low-rank part by which they moved since.

    `target` is updated in place along with them.
    """

    def __init__(self, H: Array, sources: list[Moments], target: Target, refresh: Refresh, order: Order = "C") -> None:
        n, K1, (m, width) = len(sources), len(target.counts), H.shape
        d = width // n
        self.H, self.target, self.refresh, self.order, self.refreshes = H, target, refresh, order, 0
        self._shape = n, K1, d
        # order "F": what belongs to one feature lies together, as sparse rows need it
        self.basis = on_large_pages(((n + 1) * K1 + ROOM, m), H.dtype, order)
        self.M, self.T, self.S = np.split(self.basis, [n * K1, (n + 1) * K1])
        self.M[:], self.S[:] = np.vstack([source.means for source in sources]), 0
        self.T[:] = target.totals
        M, A = self.M.reshape(n, K1, m), H.reshape(m, n, d).transpose(1, 0, 2)
        SS = np.asarray(M @ M.transpose(0, 2, 1), dtype=np.float64)
        TS, TT, MA = np.zeros_like(SS), np.zeros((K1, K1)), M @ A
        TA, met = np.zeros_like(MA), np.append(0, 1 + np.flatnonzero(target.counts[1:]))
        T = self.T[met]  # all other rows are zero
        TS[:, met], TT[np.ix_(met, met)], TA[:, met] = T @ M.transpose(0, 2, 1), T @ T.T, T @ A
        counts = np.stack([source.counts for source in sources])
        room = np.empty(counts.shape), np.empty(K1), np.empty_like(SS), np.empty_like(SS), np.empty_like(MA)
        self.products = kernels.refresh.Products(counts, SS, TS, TT, MA, TA, *room)
        self.P, self.UV = np.zeros_like(MA), np.zeros((K1 + ROOM, width), dtype=H.dtype)
        self._moved = False  # whether P and UV are anything but zero
        self._classes = np.empty(ROOM, dtype=np.int64)  # of the class sums that are pending
        self._pending = self._joined = 0  # how many there are, and how many of them the products know of
        self._touched: list[Array] = []  # the features of pending sparse rows
        self._last = LastRow()

    @property
    def stale(self) -> bool:
        """Whether it is time to compute all products anew, so that rounding does not add up further."""
        return self.refreshes >= ANCHOR

    def can_wait(self, rows: int, seen: int) -> bool:
        """Whether so many rows need no product but that with H: nothing has moved, no refresh is due, S has room."""
        due = seen % self.refresh.every + rows >= self.refresh.every
        return not (due or self._moved or self.stale or self._pending + rows > ROOM)

    def add_to(self, H: Array) -> None:
        """Add the low-rank parts to H in place: what was H is then A."""
        if not self._moved:
            return
        (n, K1, d), R = self._shape, self._pending
        add_product(H, self.target.totals.astype(H.dtype, copy=False), self.UV[:K1])
        if self.UV[K1 : K1 + R].any():
            add_product(H, self.S[:R], self.UV[K1 : K1 + R])
        for A, M, P in zip(H.reshape(-1, n, d).transpose(1, 0, 2), self.M.reshape(n, K1, -1), self.P, strict=True):
            A += M.T @ P

    def project(self, X: Matrix) -> Array:
        """A_i^T x of rows (B x nd) that are only predicted; nothing of size m is written."""
        Z = self._last.of(X, lambda: product(X, self.H))
        if not self._moved:
            return Z
        Z = Z.copy()
        self._add_parts(Z, self._products(X), self._pending)
        return Z

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """A_i^T x of rows (B x nd), each by the projections before its label; then the labels are learned."""
        (n, K1, _), even = self._shape, kernels.EVEN if weight is None else weight
        windows, group, classes = self._cut(y, seen)
        if self._pending + len(classes) > ROOM:
            self._close()
        Z, refreshes = self._last.of(X, lambda: product(X, self.H)), self.refreshes
        self._last.forget()
        XB = None
        if self._moved or len(windows) > 1:  # else the products of these rows can wait for the refresh
            self._join()
            self._add_sums(X, group, classes, even)
            XB, SB = self._products(X), np.zeros((len(classes), self._used), dtype=Z.dtype)
        else:
            self._add_sums(X, group, classes, even)
        before = self._pending - len(classes)
        for first, last, start, stop, ends in windows:
            here, own = slice(first, last), slice(before + start, before + stop)
            projected, labels, times = Z[here], y[here], even[here]
            if XB is not None:
                self._add_parts(projected, XB[here], own.start)
                kernels.refresh.group_sums(XB[here], group[here], times, SB)
                kernels.refresh.join(self.products, SB[start:stop], self._classes[own], (n + 1) * K1 + own.start)
                self._joined = own.stop
            elif ends:
                self._join()
            kernels.refresh.add_projections(projected, labels, times, self.products.TA)
            self.target.add(X[here], labels, times)
            if self._moved:
                self.UV[K1 + own.start : K1 + own.stop] = -self.UV[0] - self.UV[1 + self._classes[own]]
            if ends:
                self._refresh()
        if self.refreshes > refreshes and len(y) < self.refresh.every and self.order == "C":  # dense rows, one by one
            self.add_to(self.H)
            self.P[:], self.UV[:], self._moved = 0, 0, False
            self._close()
        return Z

    @property
    def _used(self) -> int:
        """Rows of the basis that mean anything; of sparse rows the products are taken with all."""
        return len(self.basis) - (0 if self.order == "F" else ROOM - self._pending)

    def _cut(self, y: Array, seen: int) -> tuple[list[list[int]], Array, Array]:
        """The windows of a block, the class sum that each row adds to (-1: none), and the class of each such sum."""
        B, K = len(y), self._shape[1] - 1
        group, classes, windows = np.empty(B, np.int64), np.empty(B, np.int64), np.empty((B, 5), np.int64)
        count, R = kernels.refresh.cut(y, seen, self.refresh.every, K, group, classes, windows)
        return windows[:count].tolist(), group, classes[:R]

    def _add_sums(self, X: Matrix, group: Array, classes: Array, weight: Array) -> None:
        """The class sums of a block are pending."""
        own = slice(self._pending, self._pending + len(classes))
        self._classes[own], self._pending = classes, own.stop
        if not is_sparse(X):
            kernels.refresh.group_sums(X, group, weight, self.S[own])
            return
        nonzeros = np.diff(X.indptr)
        of, counted = np.repeat(group, nonzeros), X.data * np.repeat(weight, nonzeros) if len(weight) else X.data
        np.add.at(self.S[own], (of[of >= 0], X.indices[of >= 0]), counted[of >= 0])
        self._touched.append(np.unique(X.indices))

    def _products(self, X: Matrix) -> Array:
        """X [M; T; S]^T."""
        return product(X, self.basis[: self._used].T)

    def _add_parts(self, Z: Array, XB: Array, pending: int) -> None:
        """To rows projected by H, the parts of M, T and S. T's products in XB become those with the sums pending."""
        n, K1, d = self._shape
        kernels.refresh.fold(XB, n * K1, K1, self._classes[:pending])
        if self._moved:
            Z += XB[:, n * K1 : (n + 1) * K1 + pending] @ self.UV[: K1 + pending]
            own = XB[:, : n * K1].reshape(-1, n, K1).transpose(1, 0, 2) @ self.P
            Z.reshape(-1, n, d)[...] += own.transpose(1, 0, 2)

    def _join(self) -> None:
        """The products take the class sums that they do not know of yet."""
        (n, K1, _), new = self._shape, slice(self._joined, self._pending)
        if new.start < new.stop:
            SB = np.ascontiguousarray(self.S[new] @ self.basis[: self._used].T)
            kernels.refresh.fold(SB, n * K1, K1, self._classes[: new.start])
            kernels.refresh.join(self.products, SB, self._classes[new], (n + 1) * K1 + new.start)
            self._joined = new.stop

    def _refresh(self) -> None:
        """Eq. 13 for all sources, in products alone."""
        from scipy.linalg.lapack import dpotrs

        products, rule, target = self.products, self.refresh, self.target
        kernels.refresh.prepare(products, target.counts, UNSEEN[rule.unseen], float(rule.kappa), float(rule.mu))
        for R, C in zip(products.R, products.C, strict=True):
            C[:] = dpotrs(R.T, C, lower=0)[0]
        kernels.refresh.finish(products, products.MG @ products.C, float(rule.mu), self.P, self.UV)
        self._moved, self.refreshes = True, self.refreshes + 1

    def _close(self) -> None:
        """T takes the class sums that are pending, and H what A would lose by that."""
        self._join()
        K1, R = self._shape[1], self._pending
        at = np.unique(np.concatenate(self._touched)) if self._touched else slice(None)
        if self._moved and self._touched:
            self.H[at] += self.S[:R, at].T @ self.UV[K1 : K1 + R]
        elif self._moved:
            add_product(self.H, self.S[:R], self.UV[K1 : K1 + R])
        self.T[:, at] = self.target.totals[:, at]
        self.S[:R, at], self._pending, self._joined = 0, 0, 0
        self._touched.clear()
        self._last.forget()


def product(X: Matrix, M: Array) -> Array:
    """X M, of one dense row by a compiled loop."""
    return np.asarray(X @ M if is_sparse(X) else kernels.rows.times(X, M))


def add_product(H: Array, S: Array, U: Array) -> None:
    """H += S^T U in place.

    >>> H = np.zeros((2, 1)); add_product(H, np.array([[1.0, 2.0]]), np.array([[3.0]])); H.ravel().tolist()
    [3.0, 6.0]
    """
    from scipy.linalg.blas import dgemm, sgemm

    if len(S):
        gemm = dgemm if H.dtype == np.float64 else sgemm
        gemm(1.0, U.T, S.T, beta=1.0, c=H.T, trans_b=True, overwrite_c=True)


# -- the spaces --------------------------------------------------------------------------------------------------------


class Spaces:
    """Rows in every space: x -> A_i^T x, or A_i^T k(x) over landmarks, or x itself; labels do not move them."""

    block = FIXED_BLOCK  # rows that are best taken at once
    row_alone = False  # whether one row may be learned without `one_blas_thread`: no product of it is the BLAS's

    def __init__(
        self, A: Array | None, landmarks: Sequence[Array], gammas: Sequence[float | None], target: Target
    ) -> None:
        self.A, self.landmarks, self.gammas, self.target = A, landmarks, gammas, target  # A: m x n x d
        self.row_alone = not gammas
        self._last = LastRow()

    def project(self, X: Matrix) -> Array:
        """Preprocessed rows in every space (B x n x d; B x 1 x m where there is no projection); nothing is changed."""
        if self.A is None:
            return X[:, None] if isinstance(X, np.ndarray) else dense(X)[:, None]
        if self.gammas:
            phi = [kernel_rows(X, L, gamma) for L, gamma in zip(self.landmarks, self.gammas, strict=True)]
            return np.stack([p @ self.A[: p.shape[1], i] for i, p in enumerate(phi)], axis=1)
        H = self.A.reshape(len(self.A), -1)
        Z = self._last.of(X, lambda: product(X, H))
        return Z.reshape(X.shape[0], *self.A.shape[1:])

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Rows in every space, each before its label, `seen` labels having come before; then the labels are learned."""
        self.target.add(X, y, kernels.EVEN if weight is None else weight)
        return self.project(X)

    def projection(self, i: int) -> Array | None:
        """A_i as it is now, or that of all; None is the identity."""
        return None if self.A is None else self.A[:, min(i, self.A.shape[1] - 1)]

    def flush(self) -> None:
        """Do all pending work: here there is none."""


class MovingSpaces(Spaces):
    """Projections that follow the labels; the products that a refresh needs are kept between blocks."""

    A: Array

    def __init__(self, A: Array, sources: list[Moments], target: Target, refresh: Refresh) -> None:
        """A: m x n x d; `sources`: the moments of each space's. A and target change in place."""
        super().__init__(A, (), (), target)
        self.sources, self.refresh = sources, refresh
        self.H = A.reshape(len(A), -1)
        self.block = _whole_windows(refresh.every)
        self._moves: LowRankRefresh | None = None

    def project(self, X: Matrix) -> Array:
        """Rows in every space (B x n x d)."""
        Z = product(X, self.H) if self._moves is None else self._moves.project(X)
        return Z.reshape(-1, *self.A.shape[1:])

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Rows as A was before their labels, refreshed after every T_w-th."""
        order: Order = "F" if is_sparse(X) else "C"
        moves = self._moves
        if moves is not None and moves.order == order and moves.can_wait(len(y), seen):
            Z = moves.learn(X, y, weight, seen)
        else:
            with one_blas_thread:
                if moves is None or moves.stale or moves.order != order:
                    self.flush()
                    self._moves = moves = LowRankRefresh(self.H, self.sources, self.target, self.refresh, order)
                Z = moves.learn(X, y, weight, seen)
        return Z.reshape(-1, *self.A.shape[1:])

    def projection(self, i: int) -> Array:
        """A_i as it is now, in an array of its own."""
        H = self.H.copy()
        if self._moves is not None:
            self._moves.add_to(H)
        return H.reshape(self.A.shape)[:, min(i, self.A.shape[1] - 1)]

    def flush(self) -> None:
        """Afterwards H is A itself. The products are dropped: a learner loaded from a file has none either, and both
        must compute the same.
        """
        if self._moves is not None:
            self._moves.add_to(self.H)
        self._moves = None


class PrintedSpaces(Spaces):
    """Eq. 13 as printed, with the pseudo-inverse: m^3 a refresh, and the same numbers."""

    A: Array

    def __init__(self, A: Array, sources: list[Moments], target: Target, refresh: Refresh) -> None:
        super().__init__(A, (), (), target)
        self.row_alone = False
        self.sources, self.refresh = sources, refresh

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Cut after every T_w-th label."""
        due = np.flatnonzero(((seen + np.cumsum(y >= 0)) % self.refresh.every == 0) & (y >= 0)) + 1
        parts = []
        for a, b in pairwise(sorted({0, len(y), *due.tolist()})):
            parts.append(super().learn(X[a:b], y[a:b], None if weight is None else weight[a:b], seen))
            if b in due:
                self._refresh()
        return np.concatenate(parts)

    def _refresh(self) -> None:
        rule = self.refresh
        for i, source in enumerate(self.sources):
            G = gap(source, self.target.moments, rule.unseen, rule.kappa)
            if not np.isfinite(rule.mu * np.square(G).sum()):  # of such numbers a decomposition may never end
                raise np.linalg.LinAlgError("class means too far apart to be squared")
            self.A[:, i] = refreshed(self.A[:, i], G, rule.mu, rule.inverse)
        self._last.forget()


def on_pages(A: Array) -> Array:
    """A copy of the projections that is fast to read row by row."""
    H = on_large_pages(A.shape, A.dtype)
    H[:] = A
    return H


def pooled(sources: list[Moments], spaces: int) -> list[Moments]:
    """The moments of each space's source; one space for all sources has those of all rows."""
    return sources if len(sources) == spaces else [reduce(Moments.merge, sources)]


def _whole_windows(every: int) -> int:
    """About `MOVING_BLOCK` rows, in whole windows: a window cut in two would need its class sums twice."""
    return max(1, MOVING_BLOCK // every) * every if every <= MOVING_BLOCK else MOVING_BLOCK
