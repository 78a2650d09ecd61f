"""The spaces that the experts score rows in: fixed, or moving with the labels by Eq. 13 in one of two forms.

| spaces          | A_i                                | refresh, every T_w labels                    |
|-----------------|------------------------------------|----------------------------------------------|
| `FixedSpaces`   | as the aligner found them, or none | -                                            |
| `MovingSpaces`  | follow the labels                  | low-rank: `experts/refresh.py`               |
| `PrintedSpaces` | follow the labels                  | pinv(I + mu G^T G) A, as the paper prints it |

Each also keeps the moments of the target, because the refresh is made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from hedgerow import kernels
from hedgerow.align import refreshed
from hedgerow.align.base import kernel_rows
from hedgerow.core.arrays import Array, Matrix, Order, dense, is_sparse, on_large_pages
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import Moments, gap
from hedgerow.experts.plan import Refresh
from hedgerow.experts.refresh import LastRow, LowRankRefresh, Target, product

FIXED_BLOCK = 1024
MOVING_BLOCK = 128  # rows; in a longer block the products of its rows with its own class sums take over


class Spaces(ABC):
    """Rows in every space (B x n x d), and what labels do to them."""

    block: int  # rows that are best taken at once
    row_alone = False  # whether one row may be learned without `one_blas_thread`: no product of it is the BLAS's
    target: Target

    @abstractmethod
    def project(self, X: Matrix) -> Array:
        """Preprocessed rows in every space, by what was learned so far; nothing is changed."""

    @abstractmethod
    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Rows in every space, each before its label, `seen` labels having come before; then the labels are learned."""

    @abstractmethod
    def projection(self, i: int) -> Array | None:
        """A_i as it is now; None is the identity."""

    def flush(self) -> None:  # noqa: B027 (spaces that do not move have nothing pending)
        """Do all pending work."""


class FixedSpaces(Spaces):
    """x -> A_i^T x, or A_i^T k(x) over landmarks, or x itself."""

    block = FIXED_BLOCK

    def __init__(
        self, A: Array | None, landmarks: Sequence[Array], gammas: Sequence[float | None], target: Target
    ) -> None:
        self.A, self.landmarks, self.gammas, self.target = A, landmarks, gammas, target  # A: m x n x d
        self.row_alone = not gammas
        self._last = LastRow()

    def project(self, X: Matrix) -> Array:
        """Rows in every space (B x n x d; B x 1 x m where there is no projection)."""
        if self.A is None:
            return X[:, None] if isinstance(X, np.ndarray) else dense(X)[:, None]
        if self.gammas:
            phi = [kernel_rows(X, L, gamma) for L, gamma in zip(self.landmarks, self.gammas, strict=True)]
            return np.stack([p @ self.A[: p.shape[1], i] for i, p in enumerate(phi)], axis=1)
        H = self.A.reshape(len(self.A), -1)
        Z = self._last.of(X, lambda: product(X, H))
        return Z.reshape(X.shape[0], *self.A.shape[1:])

    def learn(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Array:
        """Nothing moves but the target's moments."""
        self.target.add(X, y, kernels.EVEN if weight is None else weight)
        return self.project(X)

    def projection(self, i: int) -> Array | None:
        """A_i, or that of all."""
        return None if self.A is None else self.A[:, min(i, self.A.shape[1] - 1)]


class MovingSpaces(Spaces):
    """Projections that follow the labels; the products that a refresh needs are kept between blocks."""

    row_alone = True

    def __init__(self, A: Array, sources: list[Moments], target: Target, refresh: Refresh) -> None:
        """A: m x n x d; `sources`: the moments of each space's. A and target change in place."""
        self.A, self.sources, self.target, self.refresh = A, sources, target, refresh
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


class PrintedSpaces(FixedSpaces):
    """Eq. 13 as printed, with the pseudo-inverse: m^3 a refresh, and the same numbers."""

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
        assert self.A is not None
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
