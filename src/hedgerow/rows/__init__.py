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
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.rows.inputs import Files, TextLines
from hedgerow.rows.readers import ArrowReader, Bad, CsvReader, JsonReader, Late, Reader, Records
from hedgerow.rows.wanted import Wanted

__all__ = ["Bad", "Late", "RowBlock", "RowSource", "Wanted", "open_file", "open_rows"]


@dataclass(frozen=True)
class RowBlock:
    """Records that follow each other in one file.

    `rows` are numbered through the whole stream, usable ones only, from 1; `lines` are lines of a text or rows of a
    table, from 1. `end` is the place after the block, for `open_rows(.., start=end)`. `cells` are the rows as they
    came, by name, where they were wanted beside their numbers.
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
    cells: list[Any] | None = None

    def part(self, first: int, last: int) -> RowBlock:
        """Some of its rows, without what is bad or late."""
        names = ("rows", "lines", "X", "labels", "ids", "cells")
        parts = {
            name: each[first:last] for name in names if (each := getattr(self, name)) is not None
        }
        return replace(self, bad=[], late=[], **parts)


def open_file(files: Files, number: int, *, fitting: bool = False) -> Reader:
    """The reader of a file, at its first row.

    For `fitting`, float32 is kept and a column that only some lines of JSON have is refused.
    """
    stream = files.stream
    path: Path | None = files.paths[number] if stream is None else None
    with files.naming(number):
        if files.format in ("parquet", "arrow"):
            if files.live and path is not None:
                stream = path.open("rb")
                path = None
            return ArrowReader(path, files.format, stream, single=fitting)
        text = TextLines(path, stream, files.whole_lines, files.encoding(number))
        try:
            if files.format is None:
                files.format = "jsonl" if text.first_letter() in ("{", "[") else "csv"
            if files.format == "jsonl":
                return JsonReader(text, exact=fitting)
            reader = CsvReader(text, files.format, files.dialect)
            if reader.odd:
                files.tell(number, reader.odd)
            return reader
        except InputError:
            text.close()
            raise


class RowSource:
    """Blocks of an input; a context manager.

    `ignored` are columns that the model does not know; they are left out. `total` and `done` are bytes of all files
    and those read so far; a pipe has no total. `identity` tells one stream from another; `continues` knows a stream
    again whose first file has grown.
    """

    def __init__(
        self,
        files: Files,
        wanted: Wanted,
        size: int,
        start: dict[str, Any] | None,
        bad_apart: bool = False,
    ) -> None:
        self._files = files
        self._wanted = wanted
        self.size = size
        self._bad_apart = bad_apart
        self._ignored: tuple[str, ...] = ()
        self.total = files.total
        self.identity = files.identity
        self.continues = files.continues
        self._count = 0 if start is None else int(start["rows"])
        self._number = 0 if start is None else files.number_of(start["file"])
        self._reader: Reader | None = self._opened()
        self.format = files.format
        self._all = self._every()
        if start is not None:
            try:
                with files.naming(self._number):
                    self._reader.go_to(int(start["at"]), int(start["line"]))
            except InputError:
                self.close()
                raise

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns of all files so far that are left out."""
        now = () if self._reader is None else self._reader.ignored
        return tuple(dict.fromkeys((*self._ignored, *now)))

    @property
    def done(self) -> int:
        """Bytes that were read so far."""
        return self._files.before(self._number) + (
            self._reader.done if self._reader is not None else 0
        )

    def __enter__(self) -> RowSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is open."""
        if self._reader is not None:
            self._ignored = self.ignored
            self._reader.close()
            self._reader = None

    def _opened(self) -> Reader:
        files = self._files
        wanted = self._wanted
        reader = open_file(files, self._number)
        try:
            with files.naming(
                self._number, f" (the first file is {files.names[0]})" if self._number else ""
            ):
                reader.match(wanted)
        except InputError:
            reader.close()
            raise
        if isinstance(reader, JsonReader):
            return reader
        names = [name for name in reader.names if name not in (wanted.label, wanted.id)]
        if wanted.table is not None and (missing := wanted.table.missing_from(names)):
            files.tell(self._number, missing)
        if wanted.names is None and wanted.table is None:
            self._wanted = replace(
                wanted, names=names
            )  # further files have them too, in whatever order
        return reader

    def __iter__(self) -> Iterator[RowBlock]:
        return (
            self._all
        )  # one for all who ask: a second would miss what the first has read and not handed out

    def _every(self) -> Iterator[RowBlock]:
        while self._reader is not None:
            yield from self._blocks(self._reader)
            self.close()
            self._number += 1
            if self._number < len(self._files.names):
                self._reader = self._opened()

    def _blocks(self, reader: Reader) -> Iterator[RowBlock]:
        """Blocks of `size` records; rows and labels that come later than their rows do not stand in one."""
        held: list[Records] = []
        count = 0
        kind = None
        with self._files.naming(self._number):
            for records in reader.records():
                if isinstance(reader, JsonReader) and reader.missing:
                    self._files.tell(self._number, reader.missing)
                first = 0
                while first < len(records):
                    last = min(first + self.size - count, len(records))
                    stop, kind = self._joinable(records, first, last, kind)
                    if stop > first:
                        held.append(records.part(first, stop))
                        count = count + stop - first
                        first = stop
                    if (
                        count == self.size
                        or stop < last
                        or (first == len(records) and self._files.live)
                    ):
                        yield self._block(held)
                        held = []
                        count = 0
                        kind = None
        if held:
            yield self._block(held)

    def _joinable(
        self, records: Records, first: int, last: int, kind: type | None
    ) -> tuple[int, type | None]:
        """Up to where records can stand in one block with those of a kind, and of which it is then.

        Rows and late labels are apart, and bad rows too, if that was asked for; else they can stand with either.
        """
        if not records.others:
            return (last, RowBlock) if kind in (RowBlock, None) else (first, kind)
        for i in range(first, last):
            item = records.others[i]
            own = (
                RowBlock
                if item is None
                else type(item)
                if self._bad_apart or isinstance(item, Late)
                else kind
            )
            if kind is not None and own is not kind:
                return i, kind
            kind = own
        return last, kind

    def _block(self, parts: list[Records]) -> RowBlock:
        records = Records.joined(parts)
        X = records.X
        lines = records.places[:, 0]
        labels = None if self._wanted.label is None else records.labels
        ids = None if self._wanted.id is None else records.ids
        cells = list(records.cells) if self._wanted.keep_cells else None
        bad = [item for item in records.others if isinstance(item, Bad)]
        late = [item for item in records.others if isinstance(item, Late)]
        if records.others:
            kept = [i for i, item in enumerate(records.others) if item is None]
            X = X[kept]
            lines = lines[kept]
            labels, ids, cells = (
                None if each is None else [each[i] for i in kept] for each in (labels, ids, cells)
            )
        rows = np.arange(self._count + 1, self._count + len(X) + 1)
        self._count += len(X)
        name = self._files.names[self._number]
        _, at, line = records.places[-1].tolist()
        end = {"file": name, "at": at, "line": line, "rows": self._count}
        return RowBlock(rows, lines, X, labels, ids, bad, late, end, name, cells)


def open_rows(
    input: str,
    wanted: Wanted,
    *,
    format: str | None = None,
    size: int = 2048,
    start: dict[str, Any] | None = None,
    descriptor: Any = None,
    bad_apart: bool = False,
    whole_lines: bool = False,
) -> RowSource:
    """The rows of an input, in blocks.

    Parameters
    ----------
    input
        A file, a folder, a pattern, or "-" for standard input.
    wanted
        What the model wants of a row.
    format
        One of `hedgerow.rows.inputs.FORMATS`; by default the suffix says it, or the first line.
    size
        Records of a block.
    start
        The `end` of a block that was read before: go on after it.
    descriptor
        A stream of text or bytes to read instead of opening the input; it is taken for a pipe.
    bad_apart
        Bad rows stand in blocks of their own, so that one can stop before them.
    whole_lines
        A last line without a line break is left: somebody may still be writing it.

    Returns
    -------
    RowSource
        A context manager over blocks.

    Raises
    ------
    InputError
        Files or columns that cannot be used; a row that cannot be is no error, but `bad` in its block.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b"a,b,kind\\n1,2,mug\\n3,x,pan\\n")
    >>> [block] = open_rows("-", Wanted(2, ["a", "b"], "kind"), format="csv", descriptor=text)
    >>> block.X.tolist(), block.labels, block.bad[0].line, block.bad[0].reason
    ([[1.0, 2.0]], ['mug'], 3, "column 'b': 'x' is not a number")
    """
    if size < 1:
        raise InputError(f"size={size}: a block has at least one record")
    files = Files.of(input, format, descriptor)
    files.whole_lines = whole_lines
    return RowSource(files, wanted, size, start, bad_apart)
