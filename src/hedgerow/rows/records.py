"""Records of a file in their order: rows that can be used, rows that cannot, labels that come later than their rows.

A reader of one format makes `Records`, many at once where they are plain and a few with care where they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.rows.inputs import TextLines
from hedgerow.rows.wanted import Wanted

MOST_TEXT = 10_000  # characters of a bad row that are kept
FEW = 256  # lines or rows that are read with care together


class Bad(NamedTuple):
    """A row that cannot be used: its line, why, and the row as it stands there, cut where it is very long."""

    line: int
    reason: str
    text: str


class Late(NamedTuple):
    """The label of a row that came before, named by its id."""

    line: int
    id: str
    label: Any


class Row(NamedTuple):
    """A row that can be used."""

    x: Sequence[Any]
    label: Any
    id: str | None


class Place(NamedTuple):
    """The line a record begins on, the place in the file after it (bytes of text, or rows), and the line after it."""

    line: int
    end: int
    next: int


@dataclass(frozen=True)
class Records:
    """Consecutive records, with an entry for each; `places` has the numbers of their `Place`.

    `others` says which are bad or late, and is empty where all are rows; what `X`, `labels` and `ids` have for those
    means nothing. Without a label or an id column, labels and ids are empty or None.
    """

    places: Array
    X: Array
    labels: list[Any]
    ids: list[Any]
    others: Sequence[Bad | Late | None] = ()

    def __len__(self) -> int:
        return len(self.places)

    def part(self, first: int, last: int) -> Records:
        """The records from `first` up to `last`."""
        s = slice(first, last)
        return Records(self.places[s], self.X[s], self.labels[s], self.ids[s], self.others[s])

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Records that follow each other as one."""
        if len(parts) == 1:
            return parts[0]
        others: list[Bad | Late | None] = []
        for part in parts if any(part.others for part in parts) else ():
            others += part.others or [None] * len(part)
        places, X = np.concatenate([part.places for part in parts]), np.concatenate([part.X for part in parts])
        labels, ids = ([item for part in parts for item in getattr(part, name)] for name in ("labels", "ids"))
        return cls(places, X, labels, ids, others)

    @classmethod
    def one_a_line(cls, lines: Array, ends: Array, rows: tuple[Array, Any, Any] | None) -> Records | None:
        """Features, labels and ids of rows, one a line; None if there are no such."""
        return None if rows is None else cls(np.stack([lines, ends, lines + 1], axis=1), *rows)

    @classmethod
    def gathered(cls, items: list[tuple[Place, Row | Bad | Late]], wanted: Wanted, width: int) -> Records:
        """Records that came one at a time; rows that are taken as they are have this width."""
        X = np.zeros((len(items), width if wanted.raw else wanted.width), object if wanted.raw else np.float64)
        rows = [(i, item.x) for i, (_, item) in enumerate(items) if isinstance(item, Row)]
        if wanted.raw:
            for i, x in rows:
                X[i] = np.fromiter(x, object, width)  # a cell may be a list
        elif rows:
            X[[i for i, _ in rows]] = np.array([x for _, x in rows], np.float64).reshape(len(rows), -1)
        places = np.array([place for place, _ in items], np.int64).reshape(-1, 3)
        labels, ids = ([getattr(item, name, None) for _, item in items] for name in ("label", "id"))
        others = [None if isinstance(item, Row) else item for _, item in items] if len(rows) < len(items) else ()
        return cls(places, X, labels, ids, others)


class TextReader:
    """Reads the lines of a text. `names` are its columns, `ignored` those that are not wanted."""

    names: list[str]
    ignored: tuple[str, ...] = ()
    _text: TextLines

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted."""
        self._wanted, self._label_of = wanted, wanted.label_of()

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
        """Of all complete lines that are left; then of those that follow. From a pipe, those that are there."""
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

    def _parts(self, lines: int) -> Iterator[tuple[Records, int]]:
        """Records of the complete lines, and how many lines were taken so far."""
        raise NotImplementedError


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
