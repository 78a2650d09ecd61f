"""Records of a file in their order: rows that can be used, rows that cannot, labels that come later than their rows.

A reader of one format makes `Records`, many at once where they are plain and a few with care where they are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.rows.inputs import TextLines
from hedgerow.rows.wanted import Wanted

MOST_TEXT = 10_000  # characters of a bad row that are kept
FEW = 256  # lines or rows that are read with care together


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
class Records:
    """Consecutive records, with an entry for each.

    `places` has a line for each: the line it begins on, the place in the file after it (in bytes of text or in rows),
    and the line after it. `others` says which are bad or late, and is empty where all are rows; what `X`, `labels` and
    `ids` have for those means nothing.
    """

    places: Array
    X: Array
    labels: list[Any] | None
    ids: list[Any] | None
    others: Sequence[Bad | Late | None] = ()

    def __len__(self) -> int:
        return len(self.places)

    def part(self, first: int, last: int) -> Records:
        """The records from `first` up to `last`."""
        labels = None if self.labels is None else self.labels[first:last]
        ids = None if self.ids is None else self.ids[first:last]
        return Records(self.places[first:last], self.X[first:last], labels, ids, self.others[first:last])

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Records that follow each other as one."""
        if len(parts) == 1:
            return parts[0]
        others: list[Bad | Late | None] = []
        for part in parts if any(part.others for part in parts) else ():
            others += part.others or [None] * len(part)
        places, X = np.concatenate([part.places for part in parts]), np.concatenate([part.X for part in parts])
        labels = None if parts[0].labels is None else [label for part in parts for label in part.labels or ()]
        ids = None if parts[0].ids is None else [id for part in parts for id in part.ids or ()]
        return cls(places, X, labels, ids, others)

    @classmethod
    def one_a_line(
        cls, lines: Array, ends: Array, X: Array, labels: list[Any] | None, ids: list[Any] | None
    ) -> Records:
        """Nothing but rows, one a line."""
        return cls(np.stack([lines, ends, lines + 1], axis=1), X, labels, ids)


class Gathered:
    """Records that come one at a time."""

    def __init__(self, wanted: Wanted, width: int | None = None) -> None:
        self._wanted, self._width = wanted, width
        self._places: list[tuple[int, int, int]] = []
        self._rows: list[tuple[int, Sequence[Any]]] = []
        self._labels: list[Any] = []
        self._ids: list[Any] = []
        self._others: list[Bad | Late | None] = []

    def row(self, place: tuple[int, int, int], x: Sequence[Any], label: Any, id: str | None) -> None:
        """A row that can be used."""
        self._rows.append((len(self._places), x))
        self._add(place, None, label, id)

    def other(self, place: tuple[int, int, int], item: Bad | Late) -> None:
        """A row that cannot, or a label."""
        self._add(place, item, None, None)

    def _add(self, place: tuple[int, int, int], other: Bad | Late | None, label: Any, id: str | None) -> None:
        self._places.append(place)
        self._others.append(other)
        self._labels.append(label)
        self._ids.append(id)

    def records(self) -> Records:
        """What was gathered."""
        X, rows = self._wanted.empty(len(self._places), self._width), self._rows
        for i, x in rows if self._wanted.raw else ():
            X[i] = np.fromiter(x, object, len(x))  # a cell may be a list
        if rows and not self._wanted.raw:
            X[[i for i, _ in rows]] = np.array([x for _, x in rows], np.float64).reshape(len(rows), -1)
        places = np.array(self._places, np.int64).reshape(-1, 3)
        labels = None if self._wanted.label is None else self._labels
        ids = None if self._wanted.id is None else self._ids
        return Records(places, X, labels, ids, self._others if len(self._rows) < len(places) else ())


class Reader(ABC):
    """Reads one file of one format. `names` are its columns, `ignored` those that are not wanted."""

    names: list[str]
    ignored: tuple[str, ...] = ()

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted."""
        self._wanted, self._label_of = wanted, wanted.label_of()

    @abstractmethod
    def go_to(self, at: int, line: int) -> None:
        """Go on at a place in the file."""

    @property
    @abstractmethod
    def done(self) -> int:
        """Bytes of the input that were read."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @abstractmethod
    def records(self) -> Iterator[Records]:
        """All that are left; from a pipe, those that are there."""


class TextReader(Reader):
    """Reads the lines of a text."""

    _text: TextLines

    def go_to(self, at: int, line: int) -> None:
        """Go on at a byte of the text."""
        self._text = self._text.moved(at, line)

    @property
    def done(self) -> int:
        """Bytes of the input that were read."""
        return self._text.feed.done

    def close(self) -> None:
        """Close the file."""
        self._text.feed.close()

    def records(self) -> Iterator[Records]:
        """Of all complete lines; then of those that follow."""
        text = self._text
        while True:
            taken = 0
            for part, so_far in self._parts(len(text.ends)):
                taken = so_far
                if len(part):
                    yield part
            text.drop(taken)
            if not text.fill():
                return

    @abstractmethod
    def _parts(self, lines: int) -> Iterator[tuple[Records, int]]:
        """Records of the complete lines, and how many lines were taken so far."""


def in_pieces(
    count: int,
    fast: Callable[[int, int], Records | None],
    careful: Callable[[int, int], tuple[Records, int]],
) -> Iterator[tuple[Records, int]]:
    """Records of so many lines or rows, and how many were taken so far.

    `fast` reads many, if all of them are plain; `careful` a few one by one, and says how many of them were complete.
    """
    first, step = 0, max(count, FEW)
    while first < count:
        last = min(first + step, count)
        records, taken = fast(first, last), last - first
        if records is None and step > FEW:
            step = max(step // 8, FEW)
            continue
        if records is None:
            records, taken = careful(first, last)
            if not taken:
                return
        first += taken
        yield records, first
        step *= 4
