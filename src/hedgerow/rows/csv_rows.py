"""Rows of CSV and TSV, of files that are fitted and of streams that never end.

The csv module says what a record is, one at a time. A record that is not CSV, or has not as many fields as the header,
or has a line break in a number or a label, costs one line: reading goes on at the line after its first. So an opening
quote without its closing one cannot swallow the rows that follow. Other columns may have line breaks. A quoted field
may span `MOST_LINES` lines; a stream waits for no more than that to see whether a quote is closed.

A part in which no quote holds a quote or a line break, every row has the right number of fields, every feature is a
finite number (or a cell that the model's table takes) and every label and id can be used, means the same to every
reader of CSV: pyarrow, if that is installed, reads it several times as fast. It decides nothing.
"""

from __future__ import annotations

import csv
import importlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import as_float, composed
from hedgerow.rows.arrow_rows import rows_of_columns
from hedgerow.rows.inputs import TextLines
from hedgerow.rows.records import MOST_TEXT, Bad, Late, Place, Records, Row, TextReader, in_pieces
from hedgerow.rows.wanted import Wanted, id_text, places_of, utf8

MOST_LINES = 50
BROKEN = "a line break within a number or a label: is a quote opened and not closed?"
DELIMITERS = {"csv": ",", "tsv": "\t"}
SOME = 16  # lines for which it is worth to ask pyarrow
PARSED = 1 << 19  # bytes that pyarrow gives to a thread
LONGEST = 100_000  # bytes of a line; the csv module refuses fields that are somewhat longer
QUOTE = ord('"')


class Record(NamedTuple):
    """The cells that begin on a line, and how many lines they take; or why they are no record, which takes one."""

    cells: list[str]
    lines: int
    problem: str = ""


def record_at(lines: list[str], at: int, delimiter: str, final: bool) -> Record | None:
    """The record that begins on a line; None if more lines have to be known, of which there are none if `final`.

    >>> record_at(["1,2", '3,"4', '5"'], 1, ",", final=True)
    Record(cells=['3', '45'], lines=2, problem='')
    >>> record_at(["1,2", '3,"4'], 1, ",", final=True).problem
    'a quote is opened and not closed by the end of the input'
    >>> record_at(["1,2", '3,"4'], 1, ",", final=False)
    """
    few = lines[at : at + MOST_LINES]
    ended = False

    def supply() -> Iterator[str]:
        nonlocal ended
        yield from few
        ended = True

    reader = csv.reader(supply(), delimiter=delimiter, strict=True)
    try:
        return Record(next(reader), reader.line_num)
    except csv.Error as error:
        if not ended:
            further = f", {reader.line_num - 1} lines further on" if reader.line_num > 1 else ""
            return Record([], 1, f"not CSV ({error}{further})")
    if len(few) == MOST_LINES:
        return Record([], 1, f"a quote is opened and not closed within {MOST_LINES} lines")
    return Record([], 1, "a quote is opened and not closed by the end of the input") if final else None


def is_blank_line(cells: list[str]) -> bool:
    """Whether a record is none: a line of nothing but commas is a row of missing values."""
    return len(cells) <= 1 and not "".join(cells).strip()


class CsvRows(TextReader):
    """One table. The header is read, and checked, at once."""

    def __init__(self, text: TextLines, format: str) -> None:
        self._text, self._delimiter = text, DELIMITERS[format]
        self.names = self._header()

    def _header(self) -> list[str]:
        text, line = self._text, 0
        while True:
            known = min(line + 2 * MOST_LINES, len(text.ends))
            final = text.final and known == len(text.ends)
            record = record_at(text.texts(line, known), 0, self._delimiter, final) if line < known else None
            if record is None:
                if not text.fill():
                    raise InputError("no header: the input is empty; its first line must name the columns")
            elif record.problem:
                number = text.line + line
                raise InputError(f"line {number}: not a header, {record.problem}; the first line must name the columns")
            else:
                line += record.lines
                if not is_blank_line(record.cells):
                    break
        text.drop(line)
        names = [composed(utf8(cell.strip(), "the header")) for cell in record.cells]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"the column name {twice[0]!r} stands in the header twice; rename one of them")
        if len(names) == 1 and (other := next((mark for mark in ";\t|," if mark in names[0]), None)):
            raise InputError(
                f"one column, {names[0]!r}: the fields seem to be separated by {other!r}; "
                "save it with commas as .csv or with tabs as .tsv"
            )
        return names

    def refuse_numbers_as_names(self) -> None:
        """Refuse a header of nothing but numbers: it is the first row of a table without a header."""
        if all(as_float(name) is not None for name in self.names):
            shown = ",".join(self.names[:4]) + (",.." if len(self.names) > 4 else "")
            raise InputError(f"the first line is {shown}: it must name the columns; add a header line")

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted."""
        super().match(wanted)
        own = wanted.spelling()
        self.names = [own.get(name, name) for name in self.names]
        if wanted.table is None and (wanted.names is None or not {*wanted.names} <= {*self.names}):
            self.refuse_numbers_as_names()
        self._places = places_of(wanted, self.names)
        self.ignored, self._row_of = self._places.ignored, wanted.row_of(self._places.names)
        self._read = wanted.columns_read(self._places.names)
        self._texts, self._is_read = wanted.raw or wanted.table is not None, set(self._read)
        self._arrow = None
        if len(self.names) > 1 and (self._read or wanted.label or wanted.id):
            self._arrow = _plain_parser(self._read, wanted, self.names, self._delimiter)

    def _parts(self, lines: int) -> Iterator[tuple[Records, int]]:
        return in_pieces(lines, self._fast, self._careful)

    def _fast(self, first: int, last: int) -> Records | None:
        """These lines by pyarrow, if they are plain and all of them are rows."""
        text = self._text
        if self._arrow is None or text.odd or last - first < SOME:
            return None
        start, ends = text.start(first), text.ends[first:last]
        stop = int(ends[-1])
        # pyarrow takes "+-1" for a number; to look for one sign is ten times as fast as to look for both
        if text.data.find(b"+", start, stop) >= 0 and text.data.find(b"+-", start, stop) >= 0:
            return None
        if np.diff(ends, prepend=start).max() > LONGEST:
            return None
        piece = memoryview(text.data)[start:stop]
        letters = np.frombuffer(piece, np.uint8)
        quotes = np.flatnonzero(letters == QUOTE)
        if len(quotes) and not _whole_fields(letters, quotes, ends - start, ord(self._delimiter)):
            return None
        batch = self._arrow(piece, bool(len(quotes)))
        if batch is None or batch.num_rows != len(ends):
            return None
        rows = rows_of_columns(batch, self._read, self._wanted, self._label_of)
        lines = np.arange(text.line + first, text.line + last)
        return Records.one_a_line(lines, ends + text.at, rows)

    def _careful(self, first: int, last: int) -> tuple[Records, int]:
        """Records that begin within these lines, and how many lines they take; none if more have to be known."""
        text = self._text
        beyond = min(last + MOST_LINES, len(text.ends))
        final, lines = text.final or beyond < len(text.ends), text.texts(first, beyond)
        items: list[tuple[Place, Row | Bad | Late]] = []
        at = 0
        while at < last - first and (record := record_at(lines, at, self._delimiter, final)) is not None:
            begin, taken, problem, row = first + at, record.lines, record.problem, None
            if not problem and is_blank_line(record.cells):
                at += taken
                continue
            if not problem and len(record.cells) != len(self.names):
                taken, problem = 1, f"{len(record.cells)} fields, the header has {len(self.names)}"
            if not problem and taken > 1 and (problem := self._broken(record.cells)):
                taken = 1
            if not problem:
                try:
                    row = self._row(record.cells)
                except InputError as error:
                    problem = str(error)
            at += taken
            line, after = text.line + begin, first + at
            place = Place(line, text.at + text.start(after), text.line + after)
            items.append((place, row or Bad(line, problem, text.shown(begin, after, MOST_TEXT))))
        return Records.gathered(items, self._wanted, len(self._places.names)), at

    def _broken(self, cells: list[str]) -> str:
        """Which number or label has a line break within: a quote was not closed in time. A text may have lines."""
        places = self._places
        for i in (*(() if self._texts else places.features), places.label, places.id):
            if i is not None and "\n" in cells[i].strip():
                return f"column {self.names[i]!r}: {BROKEN}"
        return ""

    def _row(self, cells: list[str]) -> Row:
        places, own = self._places, [cells[i] for i in self._places.features]
        if self._texts:  # what stands in columns that are not read costs no row
            for name, cell in zip(places.names, own, strict=True):
                if not cell.isascii() and name in self._is_read:
                    utf8(cell, f"column {name!r}")
        x = self._row_of(own)
        label = None if places.label is None else self._label_of(cells[places.label])
        return Row(x, label, None if places.id is None else id_text(cells[places.id], self.names[places.id]))


def _plain_parser(features: list[str], wanted: Wanted, names: list[str], delimiter: str) -> Any:
    """The function from plain text, which has quotes or not, to a batch of columns; None without pyarrow."""
    try:
        pa, arrow_csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    except ImportError:
        return None
    texts = wanted.raw or wanted.table is not None
    types = dict.fromkeys(features, pa.string() if texts else pa.float64())
    types |= {name: pa.string() for name in (wanted.label, wanted.id) if name is not None}
    read = arrow_csv.ReadOptions(column_names=names, block_size=PARSED)
    parse = [
        arrow_csv.ParseOptions(delimiter=delimiter, quote_char=mark, double_quote=False, newlines_in_values=False)
        for mark in (False, '"')
    ]
    convert = arrow_csv.ConvertOptions(
        column_types=types, null_values=[], strings_can_be_null=False, include_columns=list(types)
    )

    def parsed(piece: memoryview, quoted: bool) -> Any:
        try:
            table = arrow_csv.read_csv(pa.BufferReader(piece), read, parse[quoted], convert)
        except pa.ArrowInvalid:
            return None
        batches = table.combine_chunks().to_batches()
        return batches[0] if len(batches) == 1 else None

    return parsed


def _whole_fields(letters: Array, quotes: Array, ends: Array, delimiter: int) -> bool:
    """Whether every pair of quotes encloses one whole field without quotes and line breaks."""
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    borders = np.zeros(256, bool)
    borders[[delimiter, *b"\r\n"]] = True
    before = borders[letters[opening - 1]] | (opening == 0)
    after = borders[letters[np.minimum(closing + 1, len(letters) - 1)]] | (closing == len(letters) - 1)
    return bool((before & after).all()) and np.array_equal(
        np.searchsorted(ends, opening, side="right"), np.searchsorted(ends, closing, side="right")
    )
