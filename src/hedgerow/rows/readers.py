"""Readers of one file or pipe each: CSV and TSV, JSON lines, Parquet and Arrow.

A reader makes `Records`: rows that can be used, rows that cannot with their line and the reason, and labels that come
later than their rows. Rows are parsed many at once where they are plain (`_fast`, by pyarrow and orjson), else a few at
a time, each by itself (`_entries`). What their cells mean, `_made` says for both.

| format | a record is                                                         | fast                                  |
|--------|---------------------------------------------------------------------|---------------------------------------|
| CSV    | what the csv module says, see `CsvReader`                           | `pyarrow.csv`, if that is installed   |
| JSON   | what the json module says of a line, see `JsonReader`               | orjson, if that is installed          |
| Arrow  | a row of a Parquet file, or of an Arrow IPC file or stream          | pyarrow's columns                     |

`pyarrow.array`, `scalar` and `to_numpy` of an array are not called: they import pandas where that is installed, which
takes longer than most of what is done here.
"""

from __future__ import annotations

import csv
import importlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import checked_names
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import BadCell, as_float, as_whole, composed, shown
from hedgerow.rows.inputs import Dialect, TextLines, shorter
from hedgerow.rows.wanted import Wanted, id_text, listed, numbers, these, utf8

MOST_TEXT = 10_000  # characters of a bad row that are kept
FEW = 256  # lines or rows that are read with care together
Of = Callable[[Any], Any] | None  # from a cell to a label


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


Place = tuple[
    int, int, int
]  # the line of a record, the place in the file after it, and the line after it
Entry = tuple[Place, "dict[Any, Any] | Bad | Late"]  # a row by names and cells, or what is none


@dataclass(frozen=True)
class Records:
    """Consecutive records, with an entry for each; `places` has a row of numbers for each, its `Place`.

    The place after a record is counted in bytes of text, or in rows.

    `others` says which are bad or late, and is empty where all are rows; what `X`, `labels` and `ids` have for those
    means nothing. Without a label or an id column, labels and ids are empty or None; so are `cells`, the rows of a
    table as they came, unless they are wanted.
    """

    places: Array
    X: Array
    labels: list[Any]
    ids: list[Any]
    others: Sequence[Bad | Late | None] = ()
    cells: Sequence[dict[str, Any] | None] = ()

    def __len__(self) -> int:
        return len(self.places)

    def part(self, first: int, last: int) -> Records:
        """The records from `first` up to `last`."""
        s = slice(first, last)
        return Records(
            self.places[s], self.X[s], self.labels[s], self.ids[s], self.others[s], self.cells[s]
        )

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """Records that follow each other as one."""
        if len(parts) == 1:
            return parts[0]
        others = (
            [part.others or [None] * len(part) for part in parts]
            if any(part.others for part in parts)
            else []
        )
        places = np.concatenate([part.places for part in parts])
        X = np.concatenate([part.X for part in parts])
        labels, ids, cells = (
            list(chain(*(getattr(part, n) for part in parts))) for n in ("labels", "ids", "cells")
        )
        return cls(places, X, labels, ids, list(chain(*others)), cells)


class RowReader(ABC):
    """What all formats share. `names` are the columns, `ignored` those that the model does not know."""

    names: list[str]
    ignored: tuple[str, ...] = ()
    _dtype = "double"
    _written: Of = None  # from a cell as it is written to what it means

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted in the columns."""
        self._wanted, self._label_of = wanted, wanted.label_of()
        spelling = wanted.spelling()
        self.names = [spelling.get(name, name) for name in self.names]
        self._features, self.ignored = wanted.columns_of(self.names)
        self._named = [name for name in (wanted.label, wanted.id) if name is not None]

    def header(self) -> list[str]:
        """The names of the columns, before anything is matched."""
        return self.names

    @abstractmethod
    def _fast(self, first: int, last: int) -> Records | None:
        """These lines or rows of what is in hand, if all of them are plain rows."""

    @abstractmethod
    def _entries(self, first: int, last: int) -> tuple[list[Entry], int]:
        """The records that begin within them, one by one, and how many lines or rows those take."""

    @abstractmethod
    def _shown(self, place: Place, row: dict[Any, Any] | None = None) -> str:
        """A record as it stands there, cut where it is very long."""

    def _pieces(self, count: int) -> Iterator[tuple[Records, int]]:
        """Records of so many lines or rows, and how many of them were taken so far."""
        first = 0
        step = max(count, FEW)
        while first < count:
            last = min(first + step, count)
            records = self._fast(first, last)
            taken = last - first
            if records is None and step > FEW:
                step = max(step // 8, FEW)
                continue
            if records is None:
                records, taken = self._careful(first, last)
                if not taken:
                    return  # more has to be known
            first += taken
            yield records, first
            step *= 4

    def _careful(self, first: int, last: int) -> tuple[Records, int]:
        """The records that begin within these lines or rows, and how many of them those take."""
        entries, taken = self._entries(first, last)
        return self._gathered(entries), taken

    def _gathered(self, entries: list[Entry]) -> Records:
        """Entries as records: together if all are rows that can be used, else each half by itself, down to one."""
        places = np.array([place for place, _ in entries], np.int64).reshape(-1, 3)
        rows = [item for _, item in entries if isinstance(item, dict)]
        other = entries[0][1] if len(entries) == 1 else None
        if len(rows) == len(entries):
            try:
                return self._of_rows(places, rows)
            except InputError as error:
                if len(entries) == 1:
                    place = entries[0][0]
                    row = rows[0]
                    other = Bad(place[0], str(error), self._shown(place, row))
        if isinstance(other, Bad | Late):
            return Records(places, self._empty(1), [None], [None], [other], [None])
        half = len(entries) // 2
        return Records.joined([self._gathered(entries[:half]), self._gathered(entries[half:])])

    def _of_rows(self, places: Array, rows: list[dict[Any, Any]]) -> Records:
        """Rows by names and cells, all of which can be used, else an InputError."""

        def cells(name: str, of: Of) -> list[Any]:
            column = [row.get(name) for row in rows]
            if of is not None:
                return list(map(of, column))
            for cell in column:
                if isinstance(cell, str):
                    utf8(cell, f"column {name!r}")
            return column

        return self._made(places, cells, lambda: self._matrix(rows))

    def _of_batch(self, places: Array, batch: Any) -> Records | None:
        """Rows of a batch of pyarrow, the features first, if all of them can be used."""

        def matrix() -> Array:
            X = matrix_of(batch.columns[: len(self._features)], self._dtype)
            if (np.isinf(X) if self._wanted.gaps else ~np.isfinite(X)).any():
                raise InputError("not a finite number")
            return X

        try:
            return self._made(
                places, lambda name, of: cells_of(batch.column(name), of, self._written), matrix
            )
        except (InputError, UnicodeDecodeError):
            return None

    def _made(
        self, places: Array, cells: Callable[[str, Of], list[Any]], matrix: Callable[[], Array]
    ) -> Records:
        """Rows that can be used, of the cells of their columns, through `Of`, or of their numbers as a matrix."""
        wanted = self._wanted
        names = self._features
        kept: list[dict[str, Any]] = []
        labels = [] if wanted.label is None else cells(wanted.label, self._label_of)
        ids = [] if wanted.id is None else cells(wanted.id, partial(id_text, name=wanted.id))
        if wanted.table is not None:
            columns = {name: cells(name, None) for name in names}
            X = wanted.table.of_columns(columns, len(places))
            if wanted.keep_cells:
                typed = [self._as_kept(name, column) for name, column in columns.items()]
                kept = [dict(zip(columns, row, strict=True)) for row in zip(*typed, strict=True)]
        elif wanted.raw:
            X = self._empty(len(places))
            for j, name in enumerate(names):
                X[:, j] = np.fromiter(
                    cells(name, None), object, len(places)
                )  # a cell may be a list
        else:
            X = matrix() if wanted.width else self._empty(len(places))
        return Records(places, X, labels, ids, (), kept)

    def _empty(self, count: int) -> Array:
        """Rows without cells, or of zeros."""
        if self._wanted.raw:
            return np.empty((count, len(self._features)), object)
        return np.zeros((count, self._wanted.width))

    def _as_kept(self, name: str, cells: list[Any]) -> list[Any]:
        """Cells of a column for whoever keeps rows as they came."""
        return cells

    def _matrix(self, rows: list[dict[Any, Any]]) -> Array:
        """The numbers of rows."""
        names = self._features
        return np.array(
            [numbers([row.get(name) for name in names], names, self._wanted.gaps) for row in rows]
        )


class TextReader(RowReader):
    """Reads the lines of a text."""

    def __init__(self, text: TextLines) -> None:
        self._text = text
        self.go_to = text.go_to
        self.close = text.close

    def _as_written(self, rows: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """Read dates as this file has them in its first rows; those of a pipe are written as the model knows them."""
        if (table := self._wanted.table) is not None and not self._text.live:
            head = list(rows())
            self._wanted = replace(
                self._wanted, table=table.as_written(lambda name: [row.get(name) for row in head])
            )

    def _shown(self, place: Place, row: dict[Any, Any] | None = None) -> str:
        return self._text.shown(place[0] - self._text.line, place[2] - self._text.line, MOST_TEXT)

    @property
    def done(self) -> int:
        """Bytes of the input that were read."""
        return self._text.done

    def records(self) -> Iterator[Records]:
        """Of all complete lines that are left; then of those that follow."""
        while True:
            taken = 0
            for part, so_far in self._pieces(len(self._text.ends)):
                taken = so_far
                if len(part):
                    yield part
            self._text.drop(taken)
            if not self._text.fill():
                return


# ---- CSV

MOST_LINES = 50
BROKEN = "a line break within a number or a label: is a quote opened and not closed?"
DELIMITERS = {"csv": ",", "tsv": "\t"}
SOME = 16  # lines for which it is worth to ask pyarrow
PARSED = 1 << 19  # bytes that pyarrow gives to a thread
COMMA, POINT = (re.compile(rf"\s*[+-]?\d+{mark}\d+(?:[eE][+-]?\d+)?\s*") for mark in (",", r"\."))
LONGEST = 100_000  # bytes of a line; the csv module refuses fields that are somewhat longer


class Record(NamedTuple):
    """The cells that begin on a line, and how many lines they take; or why they are no record, which takes one."""

    cells: list[str]
    lines: int
    problem: str = ""

    @property
    def is_blank(self) -> bool:
        """Whether it is none: a line of nothing but commas is a row of missing values."""
        return not self.problem and len(self.cells) <= 1 and not "".join(self.cells).strip()


def record_at(lines: list[str], at: int, delimiter: str, final: bool) -> Record | None:
    """The record that begins on a line; None if more lines have to be known, of which there are none if `final`.

    >>> record_at(["1,2", '3,"4', '5"'], 1, ",", final=True)
    Record(cells=['3', '45'], lines=2, problem='')
    >>> record_at(["1,2", '3,"4'], 1, ",", final=True).problem
    'a quote is opened and not closed by the end of the input'
    >>> record_at(["1,2", '3,"4'], 1, ",", final=False)
    """
    few = lines[at : at + MOST_LINES]
    reader = csv.reader(few, delimiter=delimiter, strict=True)
    try:
        return Record(next(reader), reader.line_num)
    except csv.Error as error:
        if str(error) != "unexpected end of data":
            further = f", {reader.line_num - 1} lines further on" if reader.line_num > 1 else ""
            return Record([], 1, f"not CSV ({error}{further})")
    if len(few) == MOST_LINES:
        return Record([], 1, f"a quote is opened and not closed within {MOST_LINES} lines")
    return (
        Record([], 1, "a quote is opened and not closed by the end of the input") if final else None
    )


class CsvReader(TextReader):
    """CSV and TSV, of files that are fitted and of streams that never end. The header is read, and checked, at once.

    A record that is not CSV, or has not as many fields as the header, or has a line break in a number or a label, costs
    one line: reading goes on at the line after its first. So an opening quote without its closing one cannot swallow
    the rows that follow. Other columns may have line breaks. A quoted field may span `MOST_LINES` lines; a stream waits
    for no more than that to see whether a quote is closed.

    A part in which no quote holds a quote or a line break, every row has the right number of fields, every feature is a
    finite number (or a cell that the model's table takes) and every label and id can be used, means the same to every
    reader of CSV: that is the part that pyarrow reads.

    Where the header has no comma, the delimiter is what separates it (; tab |), and where that is no comma, the first
    rows say whether numbers have decimal commas; `odd` says so.
    """

    odd = ""

    def __init__(self, text: TextLines, format: str, dialect: Dialect) -> None:
        super().__init__(text)
        self._delimiter = dialect.delimiter or DELIMITERS[format]
        self.names = self._header(ask=dialect.delimiter is None)
        mark = re.escape(self._delimiter).encode()
        self._quoted = re.compile(rb'(?<![^%b\r\n])"[^"\r\n]*"(?![^%b\r\n])' % (mark, mark))
        comma = dialect.decimal == ","
        if dialect.decimal is None and self._delimiter != ",":
            every = [cell for cells in self._head() for cell in cells]
            comma = any(map(COMMA.fullmatch, every)) and not any(map(POINT.fullmatch, every))
        self._written = _with_point if comma else None
        if self._delimiter != DELIMITERS[format] or comma:
            decimal = ", decimal commas" if comma else ""
            self.odd = f"fields separated by {self._delimiter!r}{decimal} (--delimiter and --decimal say otherwise)"

    def _head(self) -> list[list[str]]:
        """The cells of the first rows, which are read later; of a pipe, of the first that came."""
        text = self._text
        rows = list[list[str]]()
        while not len(text.ends) and text.fill():
            pass
        with suppress(csv.Error):
            rows += csv.reader(
                text.texts(0, min(len(text.ends), 1 if text.live else FEW)),
                delimiter=self._delimiter,
            )
        return rows

    def _header(self, ask: bool) -> list[str]:
        """The names of the columns. Where the usual mark does not separate any, it is another, unless nobody asks."""
        text = self._text
        line = 0
        while True:
            known = min(line + 2 * MOST_LINES, len(text.ends))
            final = text.final and known == len(text.ends)
            record = (
                record_at(text.texts(line, known), 0, self._delimiter, final)
                if line < known
                else None
            )
            if record is None:
                if not text.fill():
                    raise InputError(
                        "no header: the input is empty; its first line must name the columns"
                    )
            elif record.problem:
                number = text.line + line
                raise InputError(
                    f"line {number}: not a header, {record.problem}; the first line must name the columns"
                )
            else:
                other = (
                    next((mark for mark in ";\t|," if mark in record.cells[0]), None)
                    if record.cells
                    else None
                )
                if ask and len(record.cells) == 1 and other:
                    self._delimiter = other
                    ask = False
                    continue
                line += record.lines
                if not record.is_blank:
                    break
        text.drop(line)
        names = [composed(utf8(cell.strip(), "the header")) for cell in record.cells]
        checked_names(names, "header")
        return names

    def refuse_numbers_as_names(self) -> None:
        """Refuse a header of nothing but numbers: it is the first row of a table without a header."""
        if all(as_float(name) is not None for name in self.names):
            few = ",".join(self.names[:4]) + (",.." if len(self.names) > 4 else "")
            raise InputError(
                f"the first line is {few}: it must name the columns; add a header line"
            )

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted."""
        if wanted.table is None and (wanted.names is None or not {*wanted.names} <= {*self.names}):
            self.refuse_numbers_as_names()
        super().match(wanted)
        self._as_written(
            lambda: [dict(zip(self.names, cells, strict=False)) for cells in self._head()]
        )
        self._texts = wanted.raw or wanted.table is not None
        self._numbers = frozenset() if wanted.table is None else wanted.table.numeric
        self._parse = (
            self._parser() if len(self.names) > 1 and (self._features or self._named) else None
        )

    def _parser(self) -> Callable[[memoryview, bool], Any] | None:
        """The function from plain text, which has quotes or not, to a table; None without pyarrow."""
        try:
            pa = importlib.import_module("pyarrow")
            arrow = importlib.import_module("pyarrow.csv")
        except ImportError:
            return None
        types = dict.fromkeys(self._features, pa.string() if self._texts else pa.float64())
        types |= dict.fromkeys(self._named, pa.string())
        read = arrow.ReadOptions(column_names=self.names, block_size=PARSED)
        convert = arrow.ConvertOptions(
            column_types=types, null_values=[""] if self._wanted.gaps else [], strings_can_be_null=False,
            include_columns=list(types),
            decimal_point="." if self._written is None else ",",
        )  # fmt: skip

        def parse(piece: memoryview, quoted: bool) -> Any:
            options = arrow.ParseOptions(
                delimiter=self._delimiter, quote_char=quoted and '"', double_quote=False
            )
            try:
                return arrow.read_csv(pa.BufferReader(piece), read, options, convert)
            except pa.ArrowInvalid:
                return None

        return parse

    def _fast(self, first: int, last: int) -> Records | None:
        """These lines by pyarrow, if they are plain and all of them are rows."""
        text = self._text
        if self._parse is None or text.odd or last - first < SOME:
            return None
        start = text.start(first)
        ends = text.ends[first:last]
        stop = int(ends[-1])
        # pyarrow takes "+-1" for a number; to look for one sign is ten times as fast as to look for both
        if text.data.find(b"+", start, stop) >= 0 and text.data.find(b"+-", start, stop) >= 0:
            return None
        if np.diff(ends, prepend=start).max() > LONGEST:
            return None
        piece = memoryview(text.data)[start:stop]
        quotes = text.data.count(b'"', start, stop)
        if quotes and quotes != 2 * len(self._quoted.findall(piece)):  # of whole fields
            return None
        table = self._parse(piece, quotes > 0)
        if table is None or table.num_rows != len(ends):
            return None
        [batch] = table.combine_chunks().to_batches()
        return self._of_batch(text.places(first, last), batch)

    def _entries(self, first: int, last: int) -> tuple[list[Entry], int]:
        """Records that begin within these lines, and how many lines they take; none if more have to be known."""
        text = self._text
        beyond = min(last + MOST_LINES, len(text.ends))
        final = text.final or beyond < len(text.ends)
        lines = text.texts(first, beyond)
        entries: list[Entry] = []
        at = 0
        while (
            at < last - first
            and (record := record_at(lines, at, self._delimiter, final)) is not None
        ):
            problem = "" if record.is_blank else record.problem or self._broken(record)
            begin = at
            at = at + (1 if problem else record.lines)
            place = text.place(first + begin, first + at)
            if problem:
                entries.append((place, Bad(place[0], problem, self._shown(place))))
            elif not record.is_blank:
                cells = record.cells if self._written is None else map(self._written, record.cells)
                entries.append((place, dict(zip(self.names, cells, strict=True))))
        return entries, at

    def _as_kept(self, name: str, cells: list[Any]) -> list[Any]:
        """Text, and numbers where the model's column has numbers; None is a cell without anything."""
        if name not in self._numbers:
            return [cell if cell.strip() else None for cell in cells]
        wholes = map(as_whole, cells)
        return [
            as_float(cell) if whole is None else whole
            for cell, whole in zip(cells, wholes, strict=True)
        ]

    def _broken(self, record: Record) -> str:
        """What is wrong with the shape of a record: a quote that was not closed in time shows in it."""
        if len(record.cells) != len(self.names):
            return f"{len(record.cells)} fields, the header has {len(self.names)}"
        if record.lines > 1:
            whole = {
                *self._named,
                *(() if self._texts else self._features),
            }  # a text may have lines
            for name, cell in zip(self.names, record.cells, strict=True):
                if name in whole and "\n" in cell.strip():
                    return f"column {name!r}: {BROKEN}"
        return ""


def _with_point(cell: str) -> str:
    """A cell that is a number with a decimal comma as one with a point; any other as it is."""
    return cell.replace(",", ".") if COMMA.fullmatch(cell) else cell


# ---- JSON lines

LARGE = 2.0**63  # a whole number beyond is a float to orjson


class JsonReader(TextReader):
    """JSON lines. A row is an object of column names and values or, for a model without names, a list.

    An object that has an id and a label and no feature at all is a label that comes later than its row. `exact`: a
    column that is not wanted is refused, not left out. `missing`: what a row lacks that has others instead.
    """

    missing = ""

    def __init__(self, text: TextLines, exact: bool = False) -> None:
        super().__init__(text)
        self._exact = exact
        self._loads = fast_loads()
        self._spelling: dict[str, str] = {}

    def header(self) -> list[str]:
        """The names in the first line that is not blank."""
        text = self._text
        text.first_letter()
        lines = (text.data[text.start(i) : text.start(i + 1)] for i in range(len(text.ends)))
        first = next((self._parsed(line) for line in lines if line.strip()), None)
        if not isinstance(first, dict):
            raise InputError("the first line is not a JSON object of column names and values")
        return list(first)

    def match(self, wanted: Wanted) -> None:
        """Keep what is wanted. Which columns are not shows only in the rows."""
        self._wanted, self._label_of, self._spelling = wanted, wanted.label_of(), wanted.spelling()
        names = wanted.names if wanted.table is None else wanted.table.names
        self._features, self._known = list(names or ()), None if names is None else {*names}
        self._by_name = names is not None and wanted.table is None and not wanted.raw
        if wanted.raw:
            self._features = [WHOLE]
        self._apart = {wanted.label, wanted.id}
        self._other = {*self._apart, *(() if wanted.table is None else wanted.table.left_out)}
        self._as_written(self._head)

    def _head(self) -> Iterator[dict[str, Any]]:
        """The first rows, which are read later."""
        text = self._text
        text.first_letter()
        for line in text.data[: text.start(min(FEW, len(text.ends)))].splitlines():
            with suppress(InputError):
                if isinstance(row := self._parsed(line), dict):
                    yield row

    def _fast(self, first: int, last: int) -> Records | None:
        """These lines by orjson, if all of them are rows that can be used."""
        text = self._text
        piece = text.data[text.start(first) : text.start(last)]
        try:
            rows = list(map(self._loads, piece.splitlines()))
            if len(rows) != last - first or set(map(type, rows)) != {dict}:
                return None
            if not piece.isascii():
                rows = list(map(self._spelled, rows))
            self._note_ignored(max(rows, key=len))
            label = self._wanted.label
            exact = (
                [row.get(label) for row in rows]
                if self._by_name
                else chain(*map(dict.values, rows))
            )
            if any(map(_is_large, exact)):
                return None
            if not self._by_name:
                rows = list(map(self._row, rows))
            return self._of_rows(text.places(first, last), rows)
        except (ValueError, RecursionError):
            return None

    def _entries(self, first: int, last: int) -> tuple[list[Entry], int]:
        text = self._text
        entries: list[Entry] = []
        for i in range(first, last):
            place = text.place(i, i + 1)
            try:
                value = self._parsed(text.data[text.start(i) : text.start(i + 1)])
                if value is not BLANK:
                    entries.append(
                        (place, self._late(value, place[0]) or self._row(value, note=True))
                    )
            except InputError as error:
                entries.append((place, Bad(place[0], str(error), self._shown(place))))
        return entries, last - first

    def _note_ignored(self, row: Mapping[Any, Any]) -> None:
        """Take note of columns that the model does not know, or refuse them where there must be none."""
        if not self.ignored and self._known is not None:
            others = tuple(
                name for name in row if name not in self._known and name not in self._other
            )
            if others and self._exact:
                raise InputError(
                    f"{these('column', others)} not in the first line; every line must have the same"
                )
            self.ignored = others
            if others and self._wanted.table is not None:
                names = [name for name in row if name not in self._apart]
                self.missing = self._wanted.table.missing_from(names, keys=True)

    def _parsed(self, line: bytes) -> Any:
        """The value of a line, names in their composed form."""
        try:
            value = self._loads(line)
            rounded = isinstance(value, dict) and any(map(_is_large, value.values()))
        except (ValueError, RecursionError):
            rounded = True
        if rounded:
            text = line.decode("utf-8", "surrogateescape").lstrip("\ufeff")
            if not text.strip():
                return BLANK
            try:
                value = json.loads(text)
            except ValueError as error:
                raise InputError(f"not JSON ({error})") from error
            except RecursionError:
                raise InputError("JSON that is nested too deeply to be read") from None
        return self._spelled(value) if isinstance(value, dict) and not line.isascii() else value

    def _spelled(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row with the names of its columns as the model has them."""
        return {self._spelling.get(name := composed(key), name): cell for key, cell in row.items()}

    def _late(self, row: Any, line: int) -> Late | None:
        """The label of an earlier row, if that is what a line has."""
        label = self._wanted.label
        id = self._wanted.id
        width = self._wanted.width
        if not width or not isinstance(row, dict) or label not in row or id not in row:
            return None
        if not (row.keys() - self._apart if self._known is None else self._known).isdisjoint(row):
            return None
        late = Late(line, id_text(row[id], str(id)), self._label_of(row[label]))
        if late.label is None:
            raise InputError("an id without features and without a label")
        return late

    def _row(self, value: Any, note: bool = False) -> dict[Any, Any]:
        """A line as a row by names and cells."""
        wanted = self._wanted
        table = self._wanted.table
        row = dict(enumerate(value)) if isinstance(value, list) and wanted.names is None else value
        if not isinstance(row, dict):
            raise InputError("not a JSON object of column names and values")
        if table is not None and self._known is not None and self._known.isdisjoint(row):
            raise InputError(f"none of the model's columns ({listed(table.names)}) is there")
        if note:
            self._note_ignored(row)
        if not wanted.raw:
            return row
        for name, cell in row.items():
            if isinstance(cell, str):
                utf8(cell, f"column {name!r}")
        cells = {name: cell for name, cell in row.items() if name not in self._apart}
        return {WHOLE: cells, wanted.label: row.get(wanted.label), wanted.id: row.get(wanted.id)}

    def _matrix(self, rows: list[dict[Any, Any]]) -> Array:
        """The numbers of rows: at once where JSON has them as such."""
        with suppress(KeyError, TypeError, ValueError):
            X = np.array(list(map(itemgetter(*self._features), rows)))
            if (
                X.dtype.kind in "fiub"
                and X.size == len(rows) * self._wanted.width
                and np.isfinite(X).all()
            ):
                return X.reshape(len(rows), -1).astype(np.float64, copy=False)
        return np.array(list(map(self._numbers, rows)))

    def _numbers(self, row: dict[Any, Any]) -> list[float]:
        names = self._features
        width = self._wanted.width
        gaps = self._wanted.gaps
        if self._known is None:
            names = [name for name in row if name not in self._apart]
            if len(names) != width:
                raise InputError(
                    f"{len(names)} features, but the model was fitted on {width} (without names)"
                )
        missing = [name for name in names if name not in row]
        if missing and not (gaps and len(missing) < len(names)):
            raise InputError(f"{these('column', missing)} missing")
        return numbers([row.get(name) for name in names], names, gaps)


WHOLE = ""  # the name under which a row of JSON stands as one cell
BLANK = object()  # a line without a value


def _is_large(cell: Any) -> bool:
    return type(cell) is float and not -LARGE < cell < LARGE


def fast_loads() -> Callable[[bytes], Any]:
    """The parser of a line that is tried first: what it refuses, json may still read."""
    try:
        loads: Callable[[bytes], Any] = importlib.import_module("orjson").loads
    except ImportError:
        return lambda line: json.loads(line.decode())
    return loads


# ---- Parquet and Arrow

AT_ONCE = 16384  # rows of a Parquet file that are read together
KINDS = {"parquet": "Parquet", "arrow": "Arrow IPC"}


def matrix_of(columns: list[Any], kind: str) -> Array:
    """Columns of numbers of pyarrow as a matrix; what is missing is NaN."""
    pa = importlib.import_module("pyarrow")
    arrays = [column.cast(kind, safe=False) for column in columns]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(map(str, range(len(arrays)))))
    return np.asarray(batch.to_tensor(null_to_nan=True).to_numpy())


def cells_of(column: Any, *through: Of) -> list[Any]:
    """The cells of a column of pyarrow, or what the last and then the first function makes of them, of each once."""
    encoded = None if column.null_count else column.dictionary_encode()
    values = column.to_pylist() if encoded is None else encoded.dictionary.to_pylist()
    for of in reversed(through):
        values = values if of is None else list(map(of, values))
    return (
        values
        if encoded is None
        else list(map(values.__getitem__, np.from_dlpack(encoded.indices).tolist()))
    )


class ArrowReader(RowReader):
    """A table with typed columns. `names` leaves out pandas' row index; `single`: float32 is kept where all is."""

    def __init__(
        self, path: Path | None, format: str, stream: Any = None, *, single: bool = False
    ) -> None:
        self._pa = require("pyarrow", extra="files")
        self._kind = KINDS[format]
        self._single = single
        self._at = 0
        self._size = 0 if path is None else path.stat().st_size
        self._rows = 0
        self._every: Any = None  # batches of an Arrow file or stream
        with self._readable():
            self._open(path, format, stream)
        stored = self._schema.names
        checked_names(map(composed, stored), "table")
        self._stored = {composed(name): name for name in stored}
        self.names = [name for name in self._stored if not name.startswith("__index_level_")]

    def _open(self, path: Path | None, format: str, stream: Any) -> None:
        if format == "parquet":
            if path is None:
                raise InputError(
                    "Parquet cannot be read from a pipe: its end comes first; give a file, or Arrow IPC"
                )
            self._file = file = require("pyarrow.parquet", extra="files").ParquetFile(path)
            self._schema, self._rows = file.schema_arrow, file.metadata.num_rows
            return
        ipc = require("pyarrow.ipc", extra="files")
        raw = getattr(stream, "buffer", stream)
        self._file = file = (
            self._pa.PythonFile(raw, mode="r") if path is None else self._pa.OSFile(str(path))
        )
        is_file = path is not None and file.read(6) == b"ARROW1"
        if path is not None:
            file.seek(0)
        reader = (ipc.open_file if is_file else ipc.open_stream)(file)
        self._schema = reader.schema
        self._every = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (self._pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"not a readable {self._kind} file ({reason}); copy it or make it again"
            ) from error

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted; columns of other types than numbers are refused where numbers are wanted."""
        spelling = wanted.spelling()
        self._stored = {spelling.get(name, name): stored for name, stored in self._stored.items()}
        super().match(wanted)
        types = self._pa.types
        kinds = {name: self._schema.field(stored).type for name, stored in self._stored.items()}
        for name in self._features if wanted.table is None and not wanted.raw else ():
            kind = kinds[name]
            number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
            if not (number or types.is_boolean(kind)):
                self._refuse(name, kind)
        for name in self._features:
            if types.is_nested(kinds[name]):
                raise InputError(
                    f"column {name!r} holds {kinds[name]}, which is not a value of a table; drop it "
                    f"(--column drop={name}), or write its values as columns of their own"
                )
        for name in self._named:
            if types.is_nested(kinds[name]):
                what = "label" if name == wanted.label else "id"
                raise InputError(
                    f"the {what} column {name!r} holds {kinds[name]}; it must be text or numbers"
                )
        if self._single and all(str(kinds[name]) == "float" for name in self._features):
            self._dtype = "float"

    def _refuse(self, name: str, kind: Any) -> None:
        values = (value for batch in self._batches([name]) for value in batch.column(0).to_pylist())
        for row, value in enumerate(values, start=1):
            if value is not None:
                raise BadCell(name, f"{shown(value)} is not a number", row=row)
        raise BadCell(name, f"a column of {kind}, not of numbers")

    def go_to(self, at: int, line: int) -> None:
        """Go on after so many rows."""
        if self._rows and at > self._rows:
            raise shorter(f"row {at}")
        self._at = at

    @property
    def done(self) -> int:
        """Bytes of the file that were read, about."""
        return (
            int(self._file.tell())
            if self._every is not None
            else self._size * self._at // max(self._rows, 1)
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _batches(self, names: list[str]) -> Iterator[Any]:
        """Batches of these columns, from the place on; they can be asked for once."""
        left = self._at
        every = self._every
        columns = [self._stored[name] for name in names]
        if every is None:
            about = self._file.metadata
            sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            first = int(np.searchsorted(np.cumsum(sizes), left, side="right"))
            left -= sum(sizes[:first])
            every = self._file.iter_batches(
                AT_ONCE, row_groups=list(range(first, len(sizes))), columns=columns
            )
        batches = iter(every)
        while True:
            with self._readable():
                batch = next(batches, None)
            if batch is None:
                break
            if left < batch.num_rows:
                yield self._with_floats(batch.slice(left).select(columns))
            left = max(left - batch.num_rows, 0)
        if left:
            raise shorter(f"row {self._at}")

    def _with_floats(self, batch: Any) -> Any:
        """Decimals are numbers like any others."""
        decimal = self._pa.types.is_decimal
        if not any(decimal(field.type) for field in batch.schema):
            return batch
        columns = [
            column.cast("double") if decimal(column.type) else column for column in batch.columns
        ]
        return self._pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def records(self) -> Iterator[Records]:
        """All that are left."""
        names = [*self._features, *self._named]
        for batch in self._batches(names):
            self._batch = batch.rename_columns(names)
            for records, _ in self._pieces(batch.num_rows):
                yield records
            self._at += batch.num_rows

    def _fast(self, first: int, last: int) -> Records | None:
        return self._of_batch(self._places(first, last), self._batch.slice(first, last - first))

    def _places(self, first: int, last: int) -> Array:
        lines = np.arange(self._at + first + 1, self._at + last + 1)
        return np.stack([lines, lines, lines + 1], axis=1)

    def _entries(self, first: int, last: int) -> tuple[list[Entry], int]:
        with self._readable():
            rows = self._batch.slice(first, last - first).to_pylist()
        return list(
            zip(map(tuple, self._places(first, last).tolist()), rows, strict=True)
        ), last - first

    def _shown(self, place: Place, row: dict[Any, Any] | None = None) -> str:
        return json.dumps(row, ensure_ascii=False, default=str)[:MOST_TEXT]


Reader = CsvReader | JsonReader | ArrowReader
