"""Light keys: of each only a record of numbers is kept, and many are predicted and learned in one compiled call.

Most keys learn few labels, of classes that the sources have. What such a key has of its own are some sums and its
pending rows: far less than a model. `LightClasses` and `LightNumbers` lay them out in a record, `Arena` is the memory
of records of one size. A batch goes through the step of the learner (`kernels/ridge.py`, `kernels/regression.py`).
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.records import Stretch
from hedgerow.core.values import MISSING
from hedgerow.kernels import NOW
from hedgerow.learner import Learner
from hedgerow.regression.learner import RegressionLearner
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.regression import Regression

FIRST_ROOM = 8  # rows of the smallest record
LEAST_ROOM = 64  # rows up to which a target may be light, whatever they cost
MOST_ROOM = 512  # and at the most


class Arena:
    """Records for the same number of rows (8, 16, 32, ..), in memory that the system gives when it is written to.

    A record is a whole number of pages: one that is given back goes back to the system.
    """

    def __init__(self, room: int, size: int, slots: int, at: Array) -> None:
        """`size`: bytes of a record, in whole pages; `at`: where its parts are."""
        self.room = room
        self.at = at
        self.bytes = size
        self._memory = mmap.mmap(-1, size * slots, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.R = np.frombuffer(self._memory, np.float64).reshape(slots, -1)
        self._free: list[int] = []
        self._used = 0
        self._slots = slots

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


class Light(ABC):
    """The arenas of the records of all light targets of a base; a subclass has the half that they share.

    A record has `start` in front, which is that of a target without rows, and then parts for its rows one after the
    other, each with as many numbers of 16 bits a row as `widths` says. A target is light up to `most` rows.
    """

    def __init__(self, start: Array, widths: list[int], most: int, limit: int, part: int) -> None:
        """`limit`: bytes of all records; `part`: rows that are worked on at once, each perhaps of a new target."""
        self.start = start
        self.most = min(most, MOST_ROOM)
        self._widths = widths
        self._limit = limit
        self._part = part
        self._arenas: dict[int, Arena] = {}

    @staticmethod
    def of(learner: Learner, limit: int, part: int) -> LightClasses | LightNumbers | None:
        """None if targets of this base cannot be records: another learner, or rows in a pool."""
        if isinstance(learner, RegressionLearner):
            return LightNumbers(learner, limit, part)
        if not isinstance(learner, RidgeLearner) or not learner.n_classes:
            return None
        pooled = any(space.pool is not None and len(space.pool.labels) for space in learner.spaces)
        return None if pooled else LightClasses(learner, limit, part)

    def arena(self, rows: int) -> Arena:
        """That of the smallest records with room for so many rows."""
        room = FIRST_ROOM
        while room < rows:
            room *= 2
        room = min(room, self.most)
        if room not in self._arenas:
            stretch = self.stretch(room)
            size = -(-8 * stretch.size // mmap.PAGESIZE) * mmap.PAGESIZE
            self._arenas[room] = Arena(room, size, self._limit // size + self._part, stretch.at)
        return self._arenas[room]

    @abstractmethod
    def stretch(self, room: int) -> Stretch:
        """A record with room for so many rows."""

    @abstractmethod
    def refused(self, codes: Array) -> Array:
        """Which labels a record cannot learn."""

    @abstractmethod
    def step(
        self, arena: Arena, slots: Array, X: Array, y: Array, weights: Array, learned: Array
    ) -> Array:
        """What is predicted for each row before its label, which is learned if `learned` says so."""

    def move(self, arena: Arena, slot: int, to: Arena) -> int:
        """The record in a larger one; the old one is given back."""
        new = to.take()
        old_record = arena.R[slot].view(np.int16)
        record = to.R[new].view(np.int16)
        at = begin = 4 * len(self.start)
        record[:begin] = old_record[:begin]
        for width in self._widths:
            record[begin : begin + arena.room * width] = old_record[at : at + arena.room * width]
            at = at + arena.room * width
            begin = begin + to.room * width
        arena.give_back(slot)
        return new


def worthwhile(regressions: Sequence[Regression]) -> int:
    """Rows after which a model of its own is smaller; at least LEAST_ROOM, since a batch is so much faster."""
    own = sum(len(each.P) * (len(each.P) + 1) // 2 + each.M.size for each in regressions)
    return max(own // sum(sum(each.M.shape) for each in regressions), LEAST_ROOM)


class LightNumbers(Light):
    """Targets of a regressor: a record is that of `kernels/regression.py`, with as many pending rows as kept ones."""

    def __init__(self, learner: RegressionLearner, limit: int, part: int) -> None:
        self.learner = learner
        *_, rows, _, _, _ = learner.targets.at.tolist()
        start = learner.record[:rows].copy()
        shapes = [each.M.shape for each in learner.regressions]
        widths = [learner.state["rows"].shape[1], *(d for d, _ in shapes), *(q for _, q in shapes)]
        most = min(worthwhile(learner.regressions), learner.plan.kept)
        super().__init__(start, [4 * width for width in widths], most, limit, part)

    def stretch(self, room: int) -> Stretch:
        """A record with room for so many rows."""
        return self.learner.stretch(room, room)

    def refused(self, codes: Array) -> Array:
        """Which labels a record cannot learn."""
        return np.zeros(len(codes), bool)

    def step(
        self, arena: Arena, slots: Array, X: Array, y: Array, weights: Array, learned: Array
    ) -> Array:
        """The prediction and half widths of each row before its label, which is learned if `learned` says so."""
        from hedgerow.kernels.regression import NOW, Block, run

        learner = self.learner
        room = arena.room
        said = np.empty((len(X), 1 + len(learner.coverage)))
        heads = np.empty((len(X), len(learner.expert_names)))
        before = np.full(len(X), NOW)
        block = Block(X, np.where(learned, y, np.nan), weights, before, said, heads)
        targets = learner.targets._replace(at=arena.at, records=arena.R, slots=slots)
        run(learner.fixed, learner.coverage, targets, block, learner.work(room, room), 0, 0)
        return said


class LightClasses(Light):
    """Targets of our own learner of classes: a record is that of `kernels/ridge.py`, without what a model counts.

    A target is *light* while it has the classes of the sources, no pool, and no more rows than pay: its regressions are
    then the shared prior and pending rows, which are never folded. Every other one has a model of its own.
    """

    def __init__(self, learner: RidgeLearner, limit: int, part: int) -> None:
        self.learner = learner
        self.base = learner.base(counted=False)
        self.has_pool = any(space.pool is not None for space in learner.spaces)
        shapes = [space.regression.M.shape for space in learner.spaces]
        # label, weight, pending rows, kept rows, leaves
        widths = [
            4,
            4,
            *(4 * d for d, _ in shapes),
            *(4 * q for _, q in shapes),
            learner.compared,
            learner.leaves,
        ]
        most = worthwhile([space.regression for space in learner.spaces])
        if learner.plan.near:
            most = min(most, learner.plan.kept)
        # rows of whole numbers of 16 bits are to end where a number begins
        super().__init__(learner.first_numbers, widths, most // 4 * 4, limit, part)

    def stretch(self, room: int) -> Stretch:
        """A record with room for so many rows."""
        from hedgerow.kernels.ridge import Record

        return Stretch(Record, **self.learner.sizes(room, room, room, tally=False))

    def refused(self, codes: Array) -> Array:
        """Which labels a record cannot learn: those of new classes and, where there is a pool, those not known."""
        return codes < (0 if self.has_pool else MISSING)

    def step(
        self, arena: Arena, slots: Array, X: Array, codes: Array, weights: Array, learned: Array
    ) -> Array:
        """Probabilities of each row before its label, which is learned if `learned` says so."""
        from hedgerow.kernels.ridge import step

        learner = self.learner
        n = len(X)
        out = learner.outcome(n, learner.n_classes)
        step(
            learner.fit, self.base, arena.R, slots, arena.at, X, codes, weights, np.full(n, NOW), learned,
            np.empty((n, 0, learner.n_classes)), learner.work(n, arena.room), out,
        )  # fmt: skip
        return np.asarray(out.probabilities)
