"""Many targets of our own learner at once: what all share in one product for a whole batch, the rest by their records.

A target is *light* while it has the classes of the sources, no pool, and no more rows than pay: its regressions are
then the shared prior and pending rows, which are never folded (`run_slots`). Every other one has a model of its
own. What a light target has is a record, one stretch of memory:

| part of a record | numbers            | what it is                                                              |
|------------------|--------------------|-------------------------------------------------------------------------|
| counters         | 3                  | rows kept, the place of the next, labels learned: whole numbers         |
| running          |                    | statistics of the preprocessing, see below                              |
| mixture          |                    | losses, members, pair, stacks, their curvatures, class counts           |
| labels, weights  | room each          | of the rows below; labels are whole numbers                             |
| G, E             | room x D, room x Q | pending rows of all regressions, space after space (`kernels/ridge.py`) |
| kept             | room x W / 4       | the rows as local heads compare them, whole numbers of 16 bits          |
| leaves           | room x trees / 4   | where these rows fall in the forest, whole numbers of 16 bits           |

| step               | numbers of a record | what they are                                              |
|--------------------|---------------------|------------------------------------------------------------|
| `centre`, `zscore` | 1 + 2 m             | n, sums, squares                                           |
| `fill`             | 3 m                 | the same, n of each of the m columns                       |
| `target-only-N`    | 4 N                 | the same, and the shift of each column                     |

Records stand in arenas of records with equal room: 8, 16, 32, .. rows. Where a record is full, it moves to a larger
one. Memory of a record that is given back goes back to the system: a record is a whole number of pages.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.preprocess import Centre, Fill, Preprocess, Step, TargetOnly, ZScore
from hedgerow.learner import OnlineLearner
from hedgerow.ridge import mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.space import FADE

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Products

COUNTERS = 3  # numbers in front
FIRST_ROOM = 8  # rows of the smallest record
LEAST_ROOM, MOST_ROOM = 64, 512  # rows up to which a target may be light, whatever they cost, and at the most
KINDS = (Centre, ZScore, Fill, TargetOnly)  # in the order of `kernels/statistics.py`


class Arena:
    """Records for the same number of rows, in memory that the system gives when it is written to."""

    def __init__(self, room: int, size: int, slots: int) -> None:
        """`size`: bytes of a record, in whole pages."""
        self.room, self.bytes = room, size
        self._memory = mmap.mmap(-1, size * slots, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.R = np.frombuffer(self._memory, np.float64).reshape(slots, -1)
        self._free: list[int] = []
        self._used, self._slots = 0, slots

    def take(self) -> int:
        """A record full of zeros."""
        if self._free:
            return self._free.pop()
        if self._used == self._slots:
            raise MemoryError(f"all {self._slots} records for {self.room} rows are in use")
        self._used += 1
        return self._used - 1

    def give_back(self, slot: int) -> None:
        """Its memory is the system's again."""
        self._memory.madvise(mmap.MADV_DONTNEED, slot * self.bytes, self.bytes)
        self._free.append(slot)


Where = list[tuple[Arena, Array, Array]]  # rows of a part by the arena of their keys: arena, places, slots


class Following:
    """The steps of a base, and where the statistics that follow a target are in its record, from `begin` to `end`."""

    def __init__(self, pre: Preprocess, begin: int) -> None:
        self.pre = pre
        self.at: dict[Step, Array] = {}  # the places of a step's n, total, squares (and shift)
        start: list[Array] = []
        for step in pre.all:
            if not step.fixed:
                names = ("n", "total", "squares", *(["shift"] if isinstance(step, TargetOnly) else []))
                arrays = [step.arrays()[name] for name in names]
                self.at[step] = begin + np.cumsum([0, *map(len, start), *map(len, arrays)])[len(start) : -1]
                start += arrays
        self.start = np.concatenate([*start, np.empty(0)])  # of a target that has learned nothing
        self.end = begin + len(self.start)

    def scaled(self, X: Array, where: Where, learned: Array) -> Array:
        """Rows by the statistics of their targets, which the learned ones move."""
        from hedgerow.kernels.statistics import follow

        def run(step: Step, rows: Matrix) -> Matrix:
            if step.fixed:
                return step.apply(rows)
            rows, out = np.ascontiguousarray(rows, np.float64), np.empty_like(rows)
            kind, shift = KINDS.index(type(step)), step.arrays()["shift"]
            for arena, places, slots in where:
                some = np.empty((len(places), rows.shape[1]))
                follow(arena.R, slots, rows[places], self.at[step], kind, shift, learned[places], some)
                out[places] = some
            return out

        return np.ascontiguousarray(dense(self.pre.through(X, run)))


class Light:
    """The shared half of all light targets, and the arenas of their records."""

    def __init__(self, learner: RidgeLearner, limit: int, part: int) -> None:
        """`limit`: bytes of all records; `part`: rows that are worked on at once, each perhaps of a new target."""
        self.learner, near, regressions = learner, learner.near, learner.regressions
        self.has_pool = any(space.pool is not None for space in learner.spaces)
        self.following = Following(learner.pre, COUNTERS)
        near.as_single = [np.asarray(rows, np.float32).T for rows in near.sources]
        parts = [learner.state[f"mix.{name}"].ravel() for name in mixture.PARTS[1:]]
        self.at = np.cumsum([self.following.end, *(len(part) for part in parts)])  # the places of the parts
        self.start = np.concatenate([np.zeros(COUNTERS), self.following.start, *parts])  # of a target without rows
        # numbers of 16 bits that each part of a row takes: label, weight, pending rows, kept rows, leaves
        columns = [slice(1), slice(1), *regressions.d, *regressions.q]
        self._widths = [4 * (c.stop - (c.start or 0)) for c in columns] + [c.stop - c.start for c in near.columns]
        self._widths += [] if learner.trees is None else [learner.trees.size]
        own = sum(space.dim * (space.dim + 1) // 2 + space.regression.M.size for space in learner.spaces)
        # rows after which a model of its own is smaller; at least LEAST_ROOM, since a batch is so much faster
        smaller = own // int(regressions.d_ends[-1] + regressions.q_ends[-1])
        self.most = min(max(smaller, LEAST_ROOM), MOST_ROOM, near.limit if near.settings else MOST_ROOM)
        self._limit, self._part = limit, part
        self._arenas: dict[int, Arena] = {}

    @staticmethod
    def of(learner: OnlineLearner, limit: int, part: int) -> Light | None:
        """None if targets of this base cannot be records: another learner, or rows in a pool."""
        if not isinstance(learner, RidgeLearner) or not learner.n_classes:
            return None
        pooled = any(space.pool is not None and len(space.pool.labels) for space in learner.spaces)
        return None if pooled else Light(learner, limit, part)

    def arena(self, rows: int) -> Arena:
        """That of the smallest records with room for so many rows."""
        room = FIRST_ROOM
        while room < rows:
            room *= 2
        room = min(room, self.most)
        if room not in self._arenas:
            size = 8 * len(self.start) + 2 * room * sum(self._widths)
            size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            self._arenas[room] = Arena(room, size, self._limit // size + self._part)
        return self._arenas[room]

    def move(self, arena: Arena, slot: int, to: Arena) -> int:
        """The record in a larger one; the old one is given back."""
        new = to.take()
        old_record, record = arena.R[slot].view(np.int16), to.R[new].view(np.int16)
        at = begin = 4 * len(self.start)
        record[:begin] = old_record[:begin]
        for width in self._widths:
            record[begin : begin + arena.room * width] = old_record[at : at + arena.room * width]
            at, begin = at + arena.room * width, begin + to.room * width
        arena.give_back(slot)
        return new

    def products(self, where: Where, X: Array, rows: Array, before: Products | None = None) -> Products:
        """What needs no record, of rows as they came (X) and are scaled; `before` has it of those that are the same."""
        room = max(arena.room for arena, _, _ in where)
        if before is None or before.along.shape[2] < room:
            return self.learner.products(X, rows, room, kept=False)
        given = rows if self.learner.trees is None else X
        other = np.flatnonzero((before.rows != rows).any(axis=1) | (before.given != given).any(axis=1))
        if len(other) > len(rows) // 2:
            return self.learner.products(X, rows, room, kept=False)
        if len(other):
            new = self.learner.products(X[other], rows[other], room, kept=False)
            for name in ("rows", "given", "leaves", "Z", "shorter", "MZ", "W", "known", "F"):
                getattr(before, name)[other] = getattr(new, name)
            before.by_source[:, other] = new.by_source
        return before

    def run(self, where: Where, products: Products, codes: Array, weights: Array, learned: Array) -> Array:
        """Probabilities of each row (B x K) before its label, which is learned; other rows have none (-1)."""
        from hedgerow.kernels.ridge import run_slots

        learner, out = self.learner, self.learner.outcome(len(codes), self.learner.n_classes)
        regressions, log_w = learner.regressions, learner.state["mix.log_w"]
        if learned.all():
            products = products._replace(PZ=regressions.covariances(products.Z))
        elif learned.any():
            products = products._replace(PZ=np.empty_like(products.Z))
            products.PZ[learned] = regressions.covariances(products.Z[learned])
        for arena, places, slots in where:
            run_slots(
                learner.heads, products, arena.R, slots, places, arena.room, self.at, log_w,
                regressions.diagonal, regressions.top, FADE, codes, weights, out,
            )  # fmt: skip
        return out.probabilities
