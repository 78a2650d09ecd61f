"""Records of a file in the order of the file: rows that can be used, rows that cannot, labels that come later."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.data.byte_feeds import TextLines

MOST_TEXT = 10_000  # characters of a bad row that are kept
ROW, BAD, LATE = 0, 1, 2
FEW = 256  # lines that are read with care together


@dataclass(frozen=True)
class Bad:
    """A row that cannot be used: its line, why, and the row as it stands there, cut where it is very long."""

    line: int
    reason: str
    text: str
    cause: InputError | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Late:
    """The label of a row that came before, named by its id."""

    line: int
    id: str
    label: Any


@dataclass(frozen=True)
class Stretch:
    """Consecutive records. `kinds`, `lines`, `ends` and `nexts` are those of all; the rest has one kind each.

    `ends` are the places in the file after each record, in bytes of text or in rows; `nexts` the lines after it.
    """

    kinds: Array
    lines: Array
    ends: Array
    nexts: Array
    X: Array
    labels: list[Any] | None
    ids: list[str] | None
    bad: Sequence[Bad] = ()
    late: Sequence[Late] = ()

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, first: int, last: int) -> Stretch:
        """The records from `first` up to `last`."""
        if first == 0 and last == len(self):
            return self
        if len(self.X) == len(self):  # nothing but rows
            r, bad, late = slice(first, last), self.bad, self.late
        else:
            before = np.bincount(self.kinds[:first], minlength=3)
            after = before + np.bincount(self.kinds[first:last], minlength=3)
            r = slice(before[ROW], after[ROW])
            bad, late = self.bad[before[BAD] : after[BAD]], self.late[before[LATE] : after[LATE]]
        labels = None if self.labels is None else self.labels[r]
        ids = None if self.ids is None else self.ids[r]
        s = slice(first, last)
        return Stretch(self.kinds[s], self.lines[s], self.ends[s], self.nexts[s], self.X[r], labels, ids, bad, late)

    def runs(self) -> list[Stretch]:
        """The stretch in parts that have either rows or late labels; bad rows before the first stand for themselves."""
        told = np.flatnonzero(self.kinds != BAD)
        if not len(told) or (told[0] == 0 and not self.late):
            return [self]
        turns = told[1:][self.kinds[told[1:]] != self.kinds[told[:-1]]]
        bounds = sorted({0, int(told[0]), *turns.tolist(), len(self)})
        return [self.part(a, b) for a, b in pairwise(bounds)]


def joined(parts: Sequence[Stretch]) -> Stretch:
    """Stretches that follow each other as one."""
    if len(parts) == 1:
        return parts[0]

    def arrays(name: str) -> Array:
        return np.concatenate([getattr(part, name) for part in parts])

    def items(name: str) -> list[Any]:
        return [item for part in parts for item in getattr(part, name)]

    labels = None if parts[0].labels is None else items("labels")
    ids = None if parts[0].ids is None else items("ids")
    kinds, lines, ends, nexts, X = map(arrays, ("kinds", "lines", "ends", "nexts", "X"))
    return Stretch(kinds, lines, ends, nexts, X, labels, ids, items("bad"), items("late"))


class Gathered:
    """Records that come one at a time, for a stretch."""

    def __init__(self, width: int, labels: bool, ids: bool, objects: bool = False) -> None:
        self.width, self._objects = width, objects
        self.records: list[tuple[int, int, int, int]] = []
        self.X: list[Sequence[Any]] = []
        self.labels: list[Any] | None = [] if labels else None
        self.ids: list[str] | None = [] if ids else None
        self.bad: list[Bad] = []
        self.late: list[Late] = []

    def row(self, x: Sequence[Any], label: Any, id: str | None) -> int:
        """A row that can be used."""
        self.X.append(x)
        if self.labels is not None:
            self.labels.append(label)
        if self.ids is not None and id is not None:
            self.ids.append(id)
        return ROW

    def stretch(self) -> Stretch:
        """What was gathered."""
        records = np.array(self.records, np.int64).reshape(-1, 4)
        X = np.empty((len(self.X), self.width), object if self._objects else np.float64)
        for i, row in enumerate(self.X) if self._objects else ():
            X[i] = row
        if not self._objects:
            X[:] = np.array(self.X, np.float64).reshape(X.shape)
        kinds, lines, ends, nexts = records.T
        return Stretch(kinds.astype(np.uint8), lines, ends, nexts, X, self.labels, self.ids, self.bad, self.late)


def all_rows(lines: Array, ends: Array, X: Array, labels: list[Any] | None, ids: list[str] | None) -> Stretch:
    """A stretch of nothing but rows, one a line."""
    return Stretch(np.zeros(len(lines), np.uint8), lines, ends, lines + 1, X, labels, ids)


class TextRows(ABC):
    """A reader of a text format: many lines at once where they are plain, a few with care where they are not."""

    _text: TextLines

    @abstractmethod
    def _fast(self, first: int, last: int) -> Stretch | None:
        """These lines, if all of them are plain."""

    @abstractmethod
    def _careful(self, first: int, last: int) -> tuple[Stretch, int]:
        """These lines one by one, and how many of them were complete records."""

    def go_to(self, at: int, line: int) -> None:
        """Go on at a place in the file."""
        self._text = self._text.moved(at, line)

    @property
    def done(self) -> int:
        """Bytes of the input that were read."""
        return self._text.feed.done

    def close(self) -> None:
        """Close the file."""
        self._text.feed.close()

    def stretches(self) -> Iterator[Stretch]:
        """All records that are left; from a pipe, those that are there."""
        text = self._text
        while True:
            first, step = 0, max(len(text.ends), FEW)
            while first < len(text.ends):
                last = min(first + step, len(text.ends))
                stretch, taken = self._fast(first, last), last - first
                if stretch is None and step > FEW:
                    step = max(step // 8, FEW)
                    continue
                if stretch is None:
                    stretch, taken = self._careful(first, last)
                    if not taken:
                        break
                if len(stretch):
                    yield stretch
                first += taken
                step *= 4
            text.drop(first)
            if not text.fill():
                return
