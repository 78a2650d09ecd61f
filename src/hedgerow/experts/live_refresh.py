"""The refresh (Eq. 13) on the live path, in pieces: no call takes longer than a few passes over the projections.

Labelled rows are pending until there are enough of them for one matrix product with the means and sums. When a refresh
is due, only the factors R_i are computed. From then on a row is projected by A before the refresh, and corrected:

    z_i = A_i^T x - C_i^T (M_i x - L T x),    C_i = D_i (R_i R_i^T)^{-1} mu G_i A_i

while each label does one more piece of the rest: C_i of some sources, then A_i -= (M_i - L T)^T C_i for some features
at a time, until A is what the refresh makes of it. The predictions are those of a refresh done at once.

So that rounding does not add up, each refresh ends with some products computed anew. Letters: `block_refresh.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import Moments
from hedgerow.experts.block_refresh import BlockRefresh, Due

PIECE = 3.5  # flops of a piece, in multiples of those of one row's projection (a matrix product does them faster)
PASS = 8  # flops that take as long as reading and writing one number of A
ROOM = 64  # at most so many rows are pending


class LiveRefresh:
    """Projections that follow the labels row by row. `seen` labels were learned before."""

    def __init__(self, moving: BlockRefresh, seen: int) -> None:
        from hedgerow.kernels import refresh as solver
        from hedgerow.kernels import windows as kernels
        from hedgerow.kernels.rows import product_row, row_product

        moving.flush()
        self._kernels, self._solver = kernels, solver
        self._row_product, self._product_row = row_product, product_row
        n, K1, d = moving.P.shape
        m, dtype = len(moving.H), moving.H.dtype
        self.moving, self._seen, self._every = moving, seen, moving.refresh.every
        self._sources = max(1, int(PIECE * m * n / (6 * K1 * K1)))  # sources whose C_i are one piece
        self._enough = max(4, min(ROOM, int(PIECE * n * d / ((n + 1) * K1)) // 4 * 4))
        room = self._enough + ceil(n / self._sources) + 1
        self._rows, self._Z, self.waiting = np.empty((room, m), dtype=dtype), np.empty((room, n * d), dtype=dtype), 0
        self._labels, self._weights = np.zeros(room, dtype=np.int64), np.empty(room)
        # the pending rows times their weights, their projections, labels and weights; `waiting` is how many there are
        self.buffers = self._rows, self._Z, self._labels, self._weights
        self._products = np.empty((room, len(moving.basis) + room), dtype=dtype)
        self._ahead = np.empty(len(moving.basis), dtype=dtype)  # products of the row projected last with [M; T],
        self._is_ahead = False  # and whether they are still right: T has not changed since
        self._Mx, self._Tx = np.empty(n * K1, dtype=dtype), np.empty(K1, dtype=dtype)
        self._due: Due | None = None
        self._known, self._prepared = 0, False  # pending rows whose products are known; whether `prepare` was called
        self._then, self._copied = np.empty(moving.T.shape, dtype=dtype), False  # T as it was when the refresh fell due
        self._solved = self._written = 0
        steps, solving = max(1, self._every - 3 - self._every // self._enough), ceil(n / self._sources)
        slices = max(1, min(round((K1 + PASS) / PIECE), steps - solving - 2))  # rather larger pieces than two at once
        self._slice = ceil(m / slices)  # features of a piece, all about as many
        self._gaps = np.empty((n, K1, self._slice), dtype=dtype)
        self._moves = np.empty((n, self._slice, d), dtype=dtype)
        self._at_once = ceil((solving + ceil(m / self._slice) + 2) / steps)
        self._pieces: Iterator[None] = iter(())

    @property
    def under_way(self) -> bool:
        """Whether a refresh is not finished yet."""
        return self._due is not None

    @property
    def _free(self) -> bool:
        """Whether rows may be added to T: no piece of the refresh still needs T and T A as they are."""
        return self._due is None or self._copied

    @property
    def plain(self) -> bool:
        """Whether the projection of the next row is the product with H and nothing more."""
        return self._due is None and not self._nearly_due

    @property
    def _nearly_due(self) -> bool:
        """Whether the next label is one of the window's last two."""
        return -(self._seen + 1) % self._every < 2

    def project(self, x: Array, z: Array) -> None:
        """A_i^T x of all spaces into z (nd)."""
        moving = self.moving
        self._row_product(x, moving.H, z)
        if self._nearly_due:  # work that the refresh will need and that can be done already
            self._product_row(moving.basis, x, self._ahead)
            self._is_ahead = True
        if self._due is not None:
            self._correct(x, z, self._due)

    def _correct(self, x: Array, z: Array, due: Due) -> None:
        """Correct z, the projection by A before the refresh, to that by A after it."""
        moving, at = self.moving, self._written
        self._product_row(moving.M, x, self._Mx, at)
        self._product_row(self._then if self._copied else moving.T, x, self._Tx, at)
        self._solver.correct(z, self._Mx, self._Tx, self._solved, moving.refresh.mu, *due, moving.MA, moving.TA)

    def learned(self, weight: float) -> None:
        """One more row is in the buffers: count it, then do some of the pending work."""
        self.waiting += 1
        self._seen += 1
        left = -self._seen % self._every
        if left < 2 and self._is_ahead:
            np.multiply(self._ahead, weight, out=self._products[self.waiting - 1, : len(self._ahead)])
            self._known += 1
        if left == 0:
            self._fall_due()
        elif left == 1 and self.waiting == 1 and self._due is None:
            self.moving.prepare()
            self._prepared = True
        elif left == 2 or self.waiting == len(self._rows):
            self._take_in()
        elif self._free and self.waiting > (2 - left) % self._enough:
            # as many as will leave a full group pending when two labels are left in the window
            self._take_in(min(self.waiting - (2 - left) % self._enough, self._enough))
        else:
            self._do_pieces()

    def _fall_due(self) -> None:
        self._finish_pieces()
        since = self._labels[: self.waiting].copy() if self._prepared else None
        self._take_in()
        self._due, self._solved, self._written = self.moving.due(since), 0, 0
        self._pieces = self._work(self._due)

    def flush(self) -> None:
        """Finish the refresh and add the pending rows to T."""
        self._finish_pieces()
        self._take_in()

    def projections(self) -> Array:
        """A as the unfinished refresh will leave it (m x nd), in an array of its own; nothing is changed."""
        moving, due, A = self.moving, self._due, self.moving.H.copy()
        if due is None:
            return A
        (n, K1, d), T = moving.P.shape, self._then if self._copied else moving.T
        due = due._replace(C=due.C.copy())
        MA, TA = moving.MA.copy(), moving.TA.copy()
        self._solver.solve(self._solved, n, moving.SS, moving.TS, moving.refresh.mu, *due, MA, TA)
        gaps = moving.M.reshape(n, K1, -1) - due.shares[:, None] * T
        at = self._written
        A.reshape(-1, n, d)[at:] -= (gaps[:, :, at:].transpose(0, 2, 1) @ due.C).transpose(1, 0, 2)
        return A

    def project_rows(self, X: Array) -> Array:
        """A_i^T x of rows that are only predicted (B x nd)."""
        Z = np.asarray(X @ self.moving.H)
        if self._due is not None:
            for x, z in zip(X, Z, strict=True):
                self._correct(x, z, self._due)
        return Z

    def target_now(self) -> Moments:
        """The target's moments with the rows that are pending."""
        target, B = self.moving.target, self.waiting
        found = Moments(
            *(array.copy() for array in (target.count, target.total, target.class_counts, target.class_totals))
        )
        counted = np.ones(B) if not B else self._weights[:B]
        for x, label, weight in zip(self._rows[:B], self._labels[:B], counted, strict=True):
            found.count[0] += weight
            found.class_counts[label] += weight
            found.total[:] += x
            found.class_totals[label] += x
        return found

    def _finish_pieces(self) -> None:
        with one_blas_thread:
            for _ in self._pieces:
                pass

    def _do_pieces(self) -> None:
        with one_blas_thread:
            for _ in range(self._at_once):
                next(self._pieces, None)

    def _take_in(self, most: int = ROOM) -> None:
        """Add the first pending rows to T, and update the products."""
        moving, target, kernels, B = self.moving, self.moving.target, self._kernels, min(most, self.waiting)
        if not B:
            return
        while not self._free:
            next(self._pieces)  # if none is left, the refresh was cut short: StopIteration, not an endless loop
        if self._known < B:
            kernels.few_products(self._rows[:B], moving.basis, self._products)
        kernels.take_in(
            B, *self.buffers, self._products, moving.TS, moving.TT, moving.TA, moving.T,
            target.count, target.class_counts, target.total, target.class_totals,
        )  # fmt: skip
        self._known, self._prepared, self._is_ahead = 0, False, False
        left, self.waiting = slice(B, self.waiting), self.waiting - B
        if self.waiting:
            for buffer in self.buffers:
                buffer[: self.waiting] = buffer[left]

    def _work(self, due: Due) -> Iterator[None]:
        """The rest of a refresh, piece by piece."""
        moving, (n, K1, d), m = self.moving, self.moving.P.shape, len(self.moving.H)
        for i in range(0, n, self._sources):
            moving.solve(i, min(i + self._sources, n), due)
            self._solved = i + self._sources
            if self._solved >= n:
                np.copyto(self._then, moving.T)
                self._copied = True
            yield
        M, H, C = moving.M.reshape(n, K1, m), moving.H.reshape(m, n, d), due.C
        # the first is half as large, since nothing that it reads is in the cache yet
        for a, b in pairwise([0, *range(max(1, self._slice // 2), m, self._slice), m]):
            width = b - a
            G, moves = self._gaps[:, :, :width], self._moves[:, :width]
            self._kernels.gaps(a, M, self._then, due.shares, G)
            np.matmul(G.transpose(0, 2, 1), C, out=moves)
            self._kernels.subtract(a, moves, H)
            self._written = a + width
            yield
        self._due, self._copied = None, False
        self._anchor(moving.refreshes)

    def _anchor(self, turn: int) -> None:
        """Compute the products of one mean or sum anew from the vectors; each refresh takes the next one in turn."""
        moving, (n, K1, d), k = self.moving, self.moving.P.shape, turn // 3 % len(self._Tx)
        M, T = moving.M.reshape(n, K1, -1), moving.T
        if turn % 3 == 0:
            moving.TA[:, k] = (T[k] @ moving.H).reshape(n, d)
        elif turn % 3 == 1:
            moving.MA[:, k] = [M[i, k] @ moving.H[:, i * d : (i + 1) * d] for i in range(n)]
        else:
            moving.TS[:, k] = (moving.M @ T[k]).reshape(n, K1)
            moving.TT[k] = moving.TT[:, k] = T @ T[k]
