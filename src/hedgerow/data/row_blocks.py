"""Blocks of rows from files, folders, patterns and pipes: one reader for every format, that goes on where it was.

    with open_rows("day-*.csv.gz", wanted, size=2048) as source:
        for block in source:
            ...                      # block.X, block.labels, block.ids; block.bad; block.end for the next time

A file comes in blocks of exactly `size` records, whatever cut the run into pieces; only its last block may be smaller,
and one before or after labels that came later than their rows. A pipe comes in blocks of what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.data.arrow_rows import ArrowRows
from hedgerow.data.csv_rows import CsvRows
from hedgerow.data.json_rows import JsonRows
from hedgerow.data.matching import Wanted
from hedgerow.data.open_files import Files, Table
from hedgerow.data.stretches import ROW, Bad, Late, Stretch, joined

__all__ = ["Bad", "Late", "RowBlock", "RowSource", "Wanted", "open_rows"]


@dataclass(frozen=True)
class RowBlock:
    """Records that follow each other in one file.

    `rows` are numbered through the whole stream, usable ones only, from 1; `lines` are lines of a text or rows of a
    table, from 1. `end` is the place after the block, for `open_rows(.., start=end)`.
    """

    rows: Array
    lines: Array
    X: Array
    labels: list[Any] | None
    ids: list[str] | None
    bad: list[Bad]
    late: list[Late]
    end: dict[str, Any]
    file: str


class RowSource:
    """Blocks of an input; a context manager.

    `ignored` are columns that the model does not know; they are left out. `total` and `done` are bytes of all files
    and those read so far; a pipe has no total. `identity` tells one stream from another; `continues` knows a stream
    again whose first file has grown.
    """

    def __init__(self, files: Files, wanted: Wanted, size: int, start: dict[str, Any] | None) -> None:
        self._files, self._wanted, self.size = files, wanted, size
        self.ignored: tuple[str, ...] = ()
        self.total, self.identity = files.total, files.identity
        self._count = 0 if start is None else int(start["rows"])
        self._number = 0 if start is None else files.number_of(start["file"])
        self._table: Table | None = self._opened()
        self.format = files.format
        self._all = self._every()
        if start is not None and self._table is not None:
            try:
                self._table.go_to(int(start["at"]), int(start["line"]))
            except InputError as error:
                self.close()
                raise InputError(f"{files.prefix(self._number)}{error}") from error

    def continues(self, identity: str) -> bool:
        """Whether this is the stream of that identity, perhaps longer now."""
        return self._files.continues(identity)

    @property
    def done(self) -> int:
        """Bytes that were read so far."""
        return self._files.before(self._number) + (self._table.done if self._table is not None else 0)

    def __enter__(self) -> RowSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is open."""
        if self._table is not None:
            self._table.close()
            self._table = None

    def _opened(self) -> Table:
        files, number = self._files, self._number
        table = files.open(number)
        try:
            self.ignored += tuple(name for name in table.match(self._wanted) if name not in self.ignored)
        except InputError as error:
            table.close()
            beside = f" (the first file is {files.name(0)})" if number else ""
            raise InputError(f"{files.prefix(number)}{error}{beside}") from error
        if self._wanted.names is None and self._wanted.table is None and isinstance(table, CsvRows | ArrowRows):
            names = [name for name in table.names if name not in (self._wanted.label, self._wanted.id)]
            self._wanted = replace(self._wanted, names=names)  # further files have them too, in whatever order
        return table

    def __iter__(self) -> Iterator[RowBlock]:
        return self._all  # one for all who ask: a second would miss what the first has read and not handed out

    def _every(self) -> Iterator[RowBlock]:
        while self._table is not None:
            yield from self._blocks(self._table)
            self.close()
            self._number += 1
            if self._number < len(self._files):
                self._table = self._opened()

    def _blocks(self, table: Table) -> Iterator[RowBlock]:
        held: list[Stretch] = []
        count = 0
        for stretch in self._read(table):
            for run in stretch.runs():
                first = 0
                if held and _cannot_join(held, run):
                    yield self._block(held)
                    held, count = [], 0
                while len(run) - first >= self.size - count:
                    cut = first + self.size - count
                    yield self._block([*held, run.part(first, cut)])
                    held, count, first = [], 0, cut
                if first < len(run):
                    held.append(run.part(first, len(run)))
                    count += len(run) - first
            if held and self._files.live:
                yield self._block(held)
                held, count = [], 0
        if held:
            yield self._block(held)

    def _read(self, table: Table) -> Iterator[Stretch]:
        try:
            for stretch in table.stretches():
                if isinstance(table, JsonRows) and not self.ignored:
                    self.ignored = table.ignored
                yield stretch
        except InputError as error:
            raise InputError(f"{self._files.prefix(self._number)}{error}") from error

    def _block(self, parts: list[Stretch]) -> RowBlock:
        found = joined(parts)
        n = len(found.X)
        rows = np.arange(self._count + 1, self._count + n + 1)
        self._count += n
        name = self._files.name(self._number)
        end = {"file": name, "at": int(found.ends[-1]), "line": int(found.nexts[-1]), "rows": self._count}
        lines = found.lines if n == len(found) else found.lines[found.kinds == ROW]
        return RowBlock(rows, lines, found.X, found.labels, found.ids, list(found.bad), list(found.late), end, name)


def _cannot_join(held: list[Stretch], run: Stretch) -> bool:
    """Whether rows would stand with labels that came later."""
    rows, late = any(len(part.X) for part in held), any(part.late for part in held)
    return bool((rows and run.late) or (late and len(run.X)))


def open_rows(
    input: str,
    wanted: Wanted,
    *,
    format: str | None = None,
    size: int = 2048,
    start: dict[str, Any] | None = None,
    descriptor: Any = None,
) -> RowSource:
    """The rows of an input: a file, a folder, a pattern, or "-" for standard input.

    `descriptor` is a stream of text or bytes to read instead of opening the input: it is taken for a pipe. `start` is
    the `end` of a block that was read before.
    """
    if size < 1:
        raise InputError(f"size={size}: a block has at least one record")
    return RowSource(Files.of(input, format, descriptor), wanted, size, start)
