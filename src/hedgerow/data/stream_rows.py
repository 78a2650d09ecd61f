"""Rows of a text stream one at a time, over the blocks of `row_blocks`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hedgerow.core.arrays import Array
from hedgerow.data.csv_records import BadRow
from hedgerow.data.inputs import SUFFIXES, TEXT
from hedgerow.data.matching import Wanted
from hedgerow.data.row_blocks import open_rows

FORMATS = TEXT

__all__ = ["FORMATS", "SUFFIXES", "Instance", "Rows", "Wanted"]


@dataclass(frozen=True)
class Instance:
    """A usable row: `row` counts instances from 1, `line` is the line of the input; label None: not known."""

    row: int
    line: int
    x: Array
    label: Any = None


class Rows:
    """Instances and bad rows of an input. The header of a CSV is read, and checked, at once.

    `ignored` are columns that the model does not know; they are left out.

    >>> rows = Rows(["a,b,kind", "1,2,mug", "1,x,mug", "3,4,"], Wanted(2, ["b", "a"], "kind", ["mug", "pan"]), "csv")
    >>> for row in rows: print(row)
    Instance(row=1, line=2, x=array([2., 1.]), label='mug')
    BadRow(line=3, reason="column 'b': 'x' is not a number")
    Instance(row=2, line=4, x=array([4., 3.]), label=None)
    """

    def __init__(self, lines: Iterable[str], wanted: Wanted, format: str | None = None) -> None:
        stream = lines if hasattr(lines, "buffer") else _Lines(lines)
        self._source = open_rows("", wanted, format=format, descriptor=stream)
        self.format = self._source.format

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns that the model does not know."""
        return self._source.ignored

    def __iter__(self) -> Iterator[Instance | BadRow]:
        for block in self._source:
            labels = block.labels or [None] * len(block.X)
            found: list[Instance | BadRow] = [
                Instance(int(row), int(line), x, label)
                for row, line, x, label in zip(block.rows, block.lines, block.X, labels, strict=True)
            ]
            found += [BadRow(bad.line, bad.reason) for bad in block.bad]
            yield from sorted(found, key=lambda item: item.line)


class _Lines:
    """Lines as a stream of bytes that gives one at a time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def read1(self, most: int) -> bytes:
        line = next(self._lines, None)
        if line is None:
            return b""
        return (line if line.endswith(("\n", "\r")) else line + "\n").encode("utf-8", "surrogateescape")
