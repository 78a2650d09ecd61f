"""The one reader of CSV and TSV, for files that are fitted and for streams that never end.

It keeps what a person needs to find a row, the number of the line on which it begins, across quoted line breaks and
blank lines. A record that is not CSV, or has not as many fields as the header, or has a line break in a number or a
label, costs one line: reading goes on at the line after its first. So an opening quote without its closing one cannot
swallow the rows that follow. Other columns may have line breaks. A quoted field may span `MOST_LINES` lines; a stream
waits for no more than that to see whether a quote is closed.
"""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hedgerow.core.errors import InputError
from hedgerow.data.columns import is_number, utf8

MOST_LINES = 50
BROKEN = "a line break within a number or a label: is a quote opened and not closed?"
DELIMITERS = {"csv": ",", "tsv": "\t"}


class Record(NamedTuple):
    """The cells of a row, as many as the header has, and the line it begins on."""

    line: int
    cells: list[str]


class BadRow(NamedTuple):
    """A row that cannot be used."""

    line: int
    reason: str


class Incomplete(Exception):
    """More lines are needed to know the header."""


class Records:
    """The header of a table at once, as `names`; then its records and bad rows, one at a time.

    With `names` given there is no header among the lines. Without `final` the lines are only those known so far: a
    record that is not complete at their end is not handed out, nor counted in `taken`.

    >>> table = Records(["a,b", "1,2", '3,"4', "", "5", "6,7"])
    >>> table.names
    ['a', 'b']
    >>> for found in table: print(found)
    Record(line=2, cells=['1', '2'])
    BadRow(line=3, reason='a quote is opened and not closed by the end of the input')
    BadRow(line=5, reason='1 fields, the header has 2')
    Record(line=6, cells=['6', '7'])
    """

    def __init__(
        self,
        lines: Iterable[str],
        delimiter: str = ",",
        *,
        names: list[str] | None = None,
        final: bool = True,
    ) -> None:
        self._lines = _Lines(lines)
        self._reader = csv.reader(self._lines, delimiter=delimiter, strict=True)
        self._final = final
        self._width = None if names is None else len(names)
        self.names = self._header() if names is None else names
        self._width = len(self.names)

    def __iter__(self) -> Iterator[Record | BadRow]:
        while (found := self._next()) is not None:
            yield found

    @property
    def taken(self) -> int:
        """How many lines were used so far, among the records handed out and the blank lines before them."""
        return self._lines.number

    def go_back(self) -> None:
        """Go on at the line after the first of the record handed out last, which is not one record after all."""
        self._lines.go_back()

    def _next(self) -> Record | BadRow | None:
        lines = self._lines
        while True:
            lines.begin()
            line = lines.number + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return None
            except csv.Error as error:
                if lines.ended and not self._final:
                    lines.go_back()
                    lines.number -= 1
                    return None  # a quote that may yet be closed
                further = f", {lines.number - line} lines further on" if lines.number > line else ""
                reason = lines.unclosed or f"not CSV ({error}{further})"
                lines.go_back()
                return BadRow(line, reason)
            if len(cells) <= 1 and not "".join(cells).strip():
                continue  # a blank line; one of nothing but commas is a row of missing values
            if self._width is not None and len(cells) != self._width:
                lines.go_back()
                return BadRow(line, f"{len(cells)} fields, the header has {self._width}")
            return Record(line, cells)

    def _header(self) -> list[str]:
        found = self._next()
        if found is None:
            if not self._final:
                raise Incomplete
            raise InputError("no header: the input is empty; its first line must name the columns")
        if isinstance(found, BadRow):
            raise InputError(f"line {found.line}: not a header, {found.reason}; the first line must name the columns")
        names = [utf8(cell.strip(), "the header") for cell in found.cells]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"the column name {twice[0]!r} stands in the header twice; rename one of them")
        if len(names) == 1 and (other := next((mark for mark in ";\t|," if mark in names[0]), None)):
            raise InputError(
                f"one column, {names[0]!r}: the fields seem to be separated by {other!r}; "
                "save it with commas as .csv or with tabs as .tsv"
            )
        return names


def broken(cell: str) -> bool:
    """Whether a cell has a line break within: in a number or a label, that is a quote which was not closed in time.

    >>> broken("1\\n"), broken("1\\n2")
    (False, True)
    """
    return "\n" in cell and "\n" in cell.strip()


def refuse_numbers_as_names(names: list[str]) -> None:
    """Refuse a header of nothing but numbers: it is the first row of a table without a header.

    >>> refuse_numbers_as_names(["1", "2.5"])
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: the first line is 1,2.5: it must name the columns; add a header line
    """
    if all(is_number(name) for name in names):
        shown = ",".join(names[:4]) + (",.." if len(names) > 4 else "")
        raise InputError(f"the first line is {shown}: it must name the columns; add a header line")


class _Lines:
    """Lines for the csv module that can be handed out again. `number` counts those handed out."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._source = iter(lines)
        self._again: deque[str] = deque()
        self._taken: list[str] = []  # since `begin`
        self.number = 0
        self.ended = False
        self.unclosed = ""  # why a quote that was opened since `begin` will not be closed

    def begin(self) -> None:
        self._taken.clear()
        self.ended = False
        self.unclosed = ""

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        # The csv module asks for a second line only within quotes.
        if len(self._taken) == MOST_LINES:
            self.unclosed = f"a quote is opened and not closed within {MOST_LINES} lines"
            raise csv.Error
        try:
            line = self._again.popleft() if self._again else next(self._source)
        except StopIteration:
            self.ended = True
            self.unclosed = "a quote is opened and not closed by the end of the input"
            raise
        self._taken.append(line)
        self.number += 1
        return line

    def go_back(self) -> None:
        """To the line after the first since `begin`."""
        self._again.extendleft(reversed(self._taken[1:]))
        self.number -= max(len(self._taken) - 1, 0)
        del self._taken[1:]
