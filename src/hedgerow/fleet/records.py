"""Records: what each of many targets has of its own, one stretch of memory each, in arenas of equal records.

| part of a record | numbers            | what it is                                                              |
|------------------|--------------------|-------------------------------------------------------------------------|
| counters         | 3                  | rows kept, the place of the next, labels learned: whole numbers         |
| running          |                    | statistics of the preprocessing (`fleet/following.py`)                  |
| mixture          |                    | losses, members, pair, stacks, their curvatures, class counts           |
| labels, weights  | room each          | of the rows below; labels are whole numbers                             |
| G, E             | room x D, room x Q | pending rows of all regressions, space after space (`kernels/ridge.py`) |
| kept             | room x W / 4       | the rows as local heads compare them, whole numbers of 16 bits          |

Where a record is full, it moves to an arena of larger ones. Memory of a record that is given back goes back to the
system: a record is a whole number of pages.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np

COUNTERS = 3  # numbers in front
FIRST_ROOM = 8  # rows of the smallest record


@dataclass(frozen=True)
class Shape:
    """The sizes of a record's parts: `fixed` numbers, then parts of so many numbers a row, and short ones of `kept`."""

    fixed: int
    rows: tuple[int, ...]
    kept: tuple[int, ...] = ()

    def bytes_for(self, room: int) -> int:
        """Bytes of a record for so many rows, in whole pages."""
        size = 8 * self.fixed + room * (8 * sum(self.rows) + 2 * sum(self.kept))
        return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


class Arena:
    """Records for the same number of rows, in memory that the system gives when it is written to."""

    def __init__(self, shape: Shape, room: int, slots: int) -> None:
        self.room, self.bytes = room, shape.bytes_for(room)
        self._memory = mmap.mmap(-1, self.bytes * slots, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
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


class Arenas:
    """Arenas of rooms 8, 16, 32, .. up to `most`; one holds records of `limit` bytes in all, and `more` records."""

    def __init__(self, shape: Shape, most: int, limit: int, more: int) -> None:
        self.shape, self.most, self._limit, self._more = shape, most, limit, more
        self._arenas: dict[int, Arena] = {}

    def of(self, rows: int) -> Arena:
        """The smallest with room for so many rows."""
        room = FIRST_ROOM
        while room < rows:
            room *= 2
        room = min(room, self.most)
        if room not in self._arenas:
            slots = self._limit // self.shape.bytes_for(room) + self._more
            self._arenas[room] = Arena(self.shape, room, slots)
        return self._arenas[room]

    def move(self, arena: Arena, slot: int, to: Arena) -> int:
        """The record in a larger one; the old one is given back."""
        new, shape = to.take(), self.shape
        old_record, record = arena.R[slot].view(np.int16), to.R[new].view(np.int16)
        at = begin = 4 * shape.fixed
        record[:begin] = old_record[:begin]
        for width in (*(4 * width for width in shape.rows), *shape.kept):
            record[begin : begin + arena.room * width] = old_record[at : at + arena.room * width]
            at, begin = at + arena.room * width, begin + to.room * width
        arena.give_back(slot)
        return new
