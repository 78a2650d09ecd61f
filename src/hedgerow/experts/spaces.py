"""The spaces that the experts score rows in: fixed, or moving with the labels by Eq. 13 in one of two forms.

| spaces          | A_i                                | refresh, every T_w labels                             |
|-----------------|------------------------------------|-------------------------------------------------------|
| `FixedSpaces`   | as the aligner found them, or none | -                                                     |
| `MovingSpaces`  | follow the labels                  | low-rank: `block_refresh`, or row by row `live_refresh` |
| `PrintedSpaces` | follow the labels                  | pinv(I + mu G^T G) A, as the paper prints it          |

Each also keeps the moments of the target, because the refresh is made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from hedgerow.align import refreshed
from hedgerow.align.base import kernel_rows
from hedgerow.core.arrays import Array, Matrix, Order, dense, is_sparse, on_large_pages
from hedgerow.core.moments import Moments, gap
from hedgerow.experts.block_refresh import BlockRefresh
from hedgerow.experts.live_refresh import LiveRefresh
from hedgerow.experts.plan import Refresh

FIXED_BLOCK = 1024
MOVING_BLOCK = 128  # rows; in a longer block the products of its rows with its own class sums take over

Windows = Iterator[tuple[slice, Array]]


class Spaces(ABC):
    """Rows in every space (B x n x d), and what labels do to them."""

    block: int  # rows that are best taken at once

    @abstractmethod
    def project(self, X: Matrix) -> Array:
        """Preprocessed rows in every space, by what was learned so far; nothing is changed."""

    @abstractmethod
    def windows(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Windows:
        """The rows between two refreshes, projected; after each such window its labels are learned."""

    @abstractmethod
    def projection(self, i: int) -> Array | None:
        """A_i as it is now; None is the identity."""

    @abstractmethod
    def target_now(self) -> Moments:
        """The target's moments with every label learned so far."""

    def flush(self) -> None:  # noqa: B027 (spaces that do not move have nothing pending)
        """Do all pending work."""


class FixedSpaces(Spaces):
    """x -> A_i^T x, or A_i^T k(x) over landmarks, or x itself."""

    block = FIXED_BLOCK

    def __init__(
        self, A: Array | None, landmarks: Sequence[Array], gammas: Sequence[float | None], target: Moments
    ) -> None:
        self.A, self.landmarks, self.gammas, self.target = A, landmarks, gammas, target  # A: m x n x d

    @property
    def H(self) -> Array | None:
        """All projections side by side (m x nd)."""
        return None if self.A is None else self.A.reshape(len(self.A), -1)

    def project(self, X: Matrix) -> Array:
        """Rows in every space (B x n x d; B x 1 x m where there is no projection)."""
        if self.A is None:
            return dense(X)[:, None]
        if self.gammas:
            phi = [kernel_rows(X, L, gamma) for L, gamma in zip(self.landmarks, self.gammas, strict=True)]
            return np.stack([p @ self.A[: p.shape[1], i] for i, p in enumerate(phi)], axis=1)
        return np.asarray(X @ self.H).reshape(X.shape[0], *self.A.shape[1:])

    def windows(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Windows:
        """One window: nothing moves."""
        yield slice(None), self.project(X)
        self.target.add(X, y, weight)

    def projection(self, i: int) -> Array | None:
        """A_i, or that of all."""
        return None if self.A is None else self.A[:, min(i, self.A.shape[1] - 1)]

    def target_now(self) -> Moments:
        """Nothing is pending."""
        return self.target


class MovingSpaces(Spaces):
    """Projections that follow the labels; the products that a refresh needs are kept between blocks and rows."""

    def __init__(self, H: Array, sources: list[Moments], target: Moments, refresh: Refresh) -> None:
        """H: all A_i side by side (m x nd); `sources`: the moments of each space's. H and target change in place."""
        self.H, self.target, self.refresh = H, target, refresh
        self.sources = sources
        self.block = _whole_windows(refresh.every)
        self._blocks: BlockRefresh | None = None
        self._live: LiveRefresh | None = None

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.sources), self.H.shape[1] // len(self.sources)

    def project(self, X: Matrix) -> Array:
        """Rows in every space (B x n x d)."""
        if self._live is not None:
            return self._live.project_rows(dense(X)).reshape(-1, *self._shape)
        if self._blocks is not None:
            return self._blocks.project(X)
        return np.asarray(X @ self.H).reshape(-1, *self._shape)

    def windows(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Windows:
        """In blocks."""
        if self._live is not None:
            self._live.flush()
            self._live = None
        yield from self._following("F" if is_sparse(X) else "C").windows(X, y, weight, seen)

    def live(self, seen: int) -> LiveRefresh:
        """The refresh of the live path; it continues where the blocks stopped."""
        if self._live is None:
            if self._blocks is not None and not self._blocks.basis.flags.c_contiguous:  # sparse rows came before
                self.flush()
            self._live = LiveRefresh(self._following("C"), seen)
        return self._live

    def _following(self, order: Order) -> BlockRefresh:
        """The refresh in blocks; made anew if there is none, or if rounding could have added up."""
        if self._blocks is None or self._blocks.stale:
            self.flush()
            self._blocks = BlockRefresh(self.H, self.sources, self.target, self.refresh, order)
        return self._blocks

    def projection(self, i: int) -> Array:
        """A_i as it is now, in an array of its own."""
        pending = self._live or self._blocks
        A = self.H if pending is None else pending.projections()
        n, d = self._shape
        return A.reshape(-1, n, d)[:, min(i, n - 1)]

    def target_now(self) -> Moments:
        """With the rows that are pending on the live path."""
        return self.target if self._live is None else self._live.target_now()

    def flush(self) -> None:
        """Afterwards H is A itself. The products are dropped: a learner loaded from a file has none either, and both
        must compute the same.
        """
        for pending in (self._live, self._blocks):
            if pending is not None:
                pending.flush()
        self._live = self._blocks = None


class PrintedSpaces(FixedSpaces):
    """Eq. 13 as printed, with the pseudo-inverse: m^3 a refresh, and the same numbers."""

    def __init__(self, A: Array, sources: list[Moments], target: Moments, refresh: Refresh) -> None:
        super().__init__(A, (), (), target)
        self.sources, self.refresh = sources, refresh

    def windows(self, X: Matrix, y: Array, weight: Array | None, seen: int) -> Windows:
        """Cut after every T_w-th label."""
        due = np.flatnonzero(((seen + np.cumsum(y >= 0)) % self.refresh.every == 0) & (y >= 0)) + 1
        edges = sorted({0, len(y), *due.tolist()})
        for a, b in pairwise(edges):
            yield slice(a, b), self.project(X[a:b])
            self.target.add(X[a:b], y[a:b], None if weight is None else weight[a:b])
            if b in due:
                self._refresh()

    def _refresh(self) -> None:
        rule = self.refresh
        assert self.A is not None
        for i, source in enumerate(self.sources):
            G = gap(source, self.target, rule.unseen, rule.kappa)
            if not np.isfinite(rule.mu * np.square(G).sum()):  # of such numbers a decomposition may never end
                raise np.linalg.LinAlgError("class means too far apart to be squared")
            self.A[:, i] = refreshed(self.A[:, i], G, rule.mu, rule.inverse)


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
