"""Rows of a CSV or TSV: whole parts at a time where the text is plain, with care where it is not.

A part in which no quote holds a quote or a line break, every row has the right number of fields, every feature is a
finite number (or a cell that the model's table takes) and every label and id can be used, is read by pyarrow if that
is installed (`PlainCsv`). Anything else is read record by record, as in `csv_records`, with the same result; so the
fast way decides nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.data.arrow_columns import mapped, matrix_of
from hedgerow.data.byte_feeds import TextLines
from hedgerow.data.columns import id_text, numbers, utf8
from hedgerow.data.csv_records import (
    BROKEN,
    DELIMITERS,
    MOST_LINES,
    BadRow,
    Incomplete,
    Record,
    Records,
    broken,
    refuse_numbers_as_names,
)
from hedgerow.data.matching import AsTheyAre, Encoder, Places, Wanted, places_of
from hedgerow.data.stretches import BAD, MOST_TEXT, Bad, Gathered, Stretch, TextRows, all_rows

# Plain CSV by pyarrow: text that means the same to every reader of CSV.
#
# Quotes are plain if each pair encloses a whole field that has no quote and no line break within.
PARSED = 1 << 19  # bytes that pyarrow gives to a thread
QUOTE = ord('"')


class PlainCsv:
    """Reads plain text; None for what is not plain or not right."""

    def __init__(self, pa: Any, csv: Any, places: Places, width: int, delimiter: str, table: Encoder | None) -> None:
        self._pa, self._csv, self._places, self._table = pa, csv, places, table
        names = [str(i) for i in range(width)]
        self._used = [
            (name, str(i))
            for name, i in zip(places.names, places.features, strict=True)
            if table is None or name in table.names
        ]
        types = {i: pa.float64() if table is None else pa.string() for _, i in self._used}
        texts = [str(i) for i in (places.label, places.id) if i is not None]
        types |= dict.fromkeys(texts, pa.string())
        self._read = csv.ReadOptions(column_names=names, block_size=PARSED)
        self._delimiter = ord(delimiter)
        self._parse, self._parse_quoted = (
            csv.ParseOptions(delimiter=delimiter, quote_char=mark, double_quote=False, newlines_in_values=False)
            for mark in (False, '"')
        )
        self._convert = csv.ConvertOptions(
            column_types=types, null_values=[], strings_can_be_null=False, include_columns=list(types)
        )

    def read(self, piece: memoryview, ends: Array, label_of: Any) -> tuple[Array, Any, Any] | None:
        """Features, labels and ids of a row a line; `ends` are the places after each line."""
        letters = np.frombuffer(piece, np.uint8)
        quotes = np.flatnonzero(letters == QUOTE)
        if len(quotes) and not self._whole_fields(letters, quotes, ends):
            return None
        options = self._parse_quoted if len(quotes) else self._parse
        try:
            table = self._csv.read_csv(self._pa.BufferReader(piece), self._read, options, self._convert)
        except self._pa.ArrowInvalid:
            return None
        if table.num_rows != len(ends):
            return None
        X = self._features(table)
        if X is None:
            return None
        try:
            return X, self._labels(table, label_of), self._ids(table)
        except InputError:
            return None

    def _features(self, table: Any) -> Array | None:
        """Finite numbers, or what the encoder makes of the cells; None if that is not all."""
        if self._table is not None:
            return self._table.of_columns({name: table.column(i).to_pylist() for name, i in self._used}, table.num_rows)
        X = matrix_of(table, len(self._used))
        return X if np.isfinite(X).all() else None

    def _whole_fields(self, letters: Array, quotes: Array, ends: Array) -> bool:
        """Whether every pair of quotes encloses one whole field without quotes and line breaks."""
        if len(quotes) % 2:
            return False
        opening, closing = quotes[::2], quotes[1::2]
        borders = np.zeros(256, bool)
        borders[[self._delimiter, *b"\r\n"]] = True
        before = borders[letters[opening - 1]] | (opening == 0)
        after = borders[letters[np.minimum(closing + 1, len(letters) - 1)]] | (closing == len(letters) - 1)
        return bool((before & after).all()) and np.array_equal(
            np.searchsorted(ends, opening, side="right"), np.searchsorted(ends, closing, side="right")
        )

    def _labels(self, table: Any, label_of: Any) -> list[Any] | None:
        place = self._places.label
        return None if place is None else mapped(table.column(str(place)), label_of)

    def _ids(self, table: Any) -> list[str] | None:
        place = self._places.id
        if place is None:
            return None
        ids = [text.strip() for text in table.column(str(place)).to_pylist()]
        if "" in ids:
            raise InputError("an id is missing")
        return ids


def plain_reader(places: Places, width: int, delimiter: str, table: Encoder | None = None) -> PlainCsv | None:
    """The fast reader, where there is one."""
    if not places.features and places.label is None and places.id is None:
        return None
    if width == 1 and table is not None:  # a blank line, or one of nothing but quotes, would be a row with a gap
        return None
    try:
        pa, csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    except ImportError:
        return None
    return PlainCsv(pa, csv, places, width, delimiter, table)


SOME = 16  # lines for which it is worth to ask pyarrow
LONGEST = 100_000  # bytes of a line; the csv module refuses fields that are somewhat longer


class CsvRows(TextRows):
    """One table. The header is read, and checked, at once."""

    def __init__(self, text: TextLines, format: str) -> None:
        self._delimiter = DELIMITERS[format]
        self._text = text
        self.names = self._header()

    def _header(self) -> list[str]:
        text, most = self._text, 2 * MOST_LINES
        while True:
            known = min(most, len(text.ends))
            try:
                lines = text.texts(0, known) if known else []
                records = Records(lines, self._delimiter, final=text.final and known == len(text.ends))
            except Incomplete:
                if known < len(text.ends):
                    most *= 2
                else:
                    text.fill()
                continue
            text.drop(records.taken)
            return records.names

    def match(self, wanted: Wanted) -> tuple[str, ...]:
        """Look for what is wanted; the names of the columns that are not."""
        if wanted.table is None and (wanted.names is None or not {*wanted.names} <= {*self.names}):
            refuse_numbers_as_names(self.names)
        self._places = places_of(wanted, self.names)
        self._wanted, self._label_of = wanted, wanted.label_of()
        self._cells = None if wanted.table is None else wanted.table.bound(self._places.names)
        self._reads = None if wanted.table is None or self._raw else frozenset(wanted.table.names)
        self._plain = None if self._raw else plain_reader(self._places, len(self.names), self._delimiter, wanted.table)
        return self._places.ignored

    # -- the fast way -------------------------------------------------------------------------------------------

    def _fast(self, first: int, last: int) -> Stretch | None:
        text = self._text
        if self._plain is None or text.odd or last - first < SOME:
            return None
        start = 0 if first == 0 else int(text.ends[first - 1])
        ends = text.ends[first:last]
        stop = int(ends[-1])
        # pyarrow takes "+-1" for a number; to look for one sign is ten times as fast as to look for both
        if text.data.find(b"+", start, stop) >= 0 and text.data.find(b"+-", start, stop) >= 0:
            return None
        if np.diff(ends, prepend=start).max() > LONGEST:
            return None
        found = self._plain.read(memoryview(text.data)[start:stop], ends - start, self._label_of)
        if found is None:
            return None
        lines = np.arange(text.line + first, text.line + last)
        return all_rows(lines, ends + text.at, *found)

    # -- with care ----------------------------------------------------------------------------------------------

    def _careful(self, first: int, last: int) -> tuple[Stretch, int]:
        """Records that begin within these lines, and how many lines they take; none if more have to be known."""
        text, places = self._text, self._places
        beyond = min(last + MOST_LINES, len(text.ends))
        final = text.final or beyond < len(text.ends)
        records = Records(text.texts(first, beyond), self._delimiter, names=self.names, final=final)
        width = len(places.features) if self._cells is None or self._raw else self._wanted.width
        gathered = Gathered(width, places.label is not None, places.id is not None, self._raw)
        taken = 0
        for found in records:
            kind = self._taken(found, records, gathered, first)
            taken = records.taken
            after = first + taken
            gathered.records.append((kind, text.line + first + found.line - 1, text.at + int(text.ends[after - 1]),
                                     text.line + after))  # fmt: skip
            if after >= last:
                break
        return gathered.stretch(), max(taken, min(records.taken, last - first))

    def _taken(self, found: Record | BadRow, records: Records, gathered: Gathered, first: int) -> int:
        cause = None
        if isinstance(found, BadRow):
            reason = found.reason
        else:
            try:
                return gathered.row(*self._values(found.cells, records.taken > found.line))
            except _Broken as error:
                records.go_back()
                reason = str(error)
            except InputError as error:
                cause, reason = error, str(error)
        begin = first + found.line - 1
        shown = self._text.shown(begin, first + records.taken, MOST_TEXT)
        gathered.bad.append(Bad(self._text.line + begin, reason, shown, cause))
        return BAD

    @property
    def _raw(self) -> bool:
        return isinstance(self._wanted.table, AsTheyAre)

    def _values(self, cells: list[str], several_lines: bool) -> tuple[Sequence[Any], Any, str | None]:
        places = self._places
        if several_lines:
            features = places.features if self._cells is None else ()  # a text may have lines
            for i in (*features, places.label, places.id):
                if i is not None and broken(cells[i]):
                    raise _Broken(f"column {self.names[i]!r}: {BROKEN}")
        own = [cells[i] for i in places.features]
        if self._cells is None:
            x: Sequence[Any] = numbers(own, places.names)
        else:
            for cell, name in zip(own, places.names, strict=True):
                if self._reads is None or name in self._reads:  # what stands in other columns costs no row
                    utf8(cell, f"column {name!r}")
            x = self._cells(own)
        label = None if places.label is None else self._label_of(cells[places.label])
        return x, label, None if places.id is None else id_text(cells[places.id], self.names[places.id])


class _Broken(InputError):
    """A record that is not one."""
