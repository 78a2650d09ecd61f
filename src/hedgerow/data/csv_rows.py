"""Rows of a CSV or TSV: whole parts at a time where the text is plain, with care where it is not.

A part in which no quote holds a quote or a line break, every row has the right number of fields, every feature is a
finite number (or a cell that the model's table takes) and every label and id can be used, is read by pyarrow if that
is installed (`plain_csv`). Anything else is read record by record, as in `csv_records`, with the same result; so the
fast way decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hedgerow.core.errors import InputError
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
from hedgerow.data.matching import AsTheyAre, Wanted, places_of
from hedgerow.data.plain_csv import plain_reader
from hedgerow.data.stretches import BAD, MOST_TEXT, Bad, Gathered, Stretch, all_rows

FEW = 256  # lines that are read with care together
SOME = 16  # lines for which it is worth to ask pyarrow
LONGEST = 100_000  # bytes of a line; the csv module refuses fields that are somewhat longer


class CsvRows:
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
                found, taken = self._fast(first, last), last - first
                if found is None and step > FEW:
                    step = max(step // 8, FEW)
                    continue
                if found is None:
                    found, taken = self._careful(first, last)
                    if not taken:
                        break
                if len(found):
                    yield found
                first += taken
                step *= 4
            text.drop(first)
            if not text.fill():
                return

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
