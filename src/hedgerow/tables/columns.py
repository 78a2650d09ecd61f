"""Kinds of columns: what the cells of each become as numbers. NaN is a gap.

| kind      | numbers of a cell                                                                                  |
|-----------|----------------------------------------------------------------------------------------------------|
| number    | itself                                                                                             |
| boolean   | 1 or 0                                                                                             |
| category  | one-hot: a 1 in the place of its value; zeros for an unknown value                                 |
| hashed    | many values: a 1, or -1, in a place that follows from the text (the hashing trick)                 |
| date      | days since the first row of the sources; hour, day of the week and of the year as points on circles |
| late      | announced, not there yet: a number, or a hashed text                                               |
| text      | hashed words and pairs of words, of unit length                                                    |

With `gaps` one more number says whether the cell was empty: 1 or 0. A column is immutable and goes to JSON and back.
What a number and what a date is, `hedgerow.core.values` decides for all readers.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from types import NoneType
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.arrays import LARGEST, Array
from hedgerow.core.errors import InputError
from hedgerow.core.frame import is_gap, native
from hedgerow.core.registry import of_json
from hedgerow.core.values import DATE_FORMS, as_float, moment, usual_digits

NAN = float("nan")
GAPS = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-", "--", "nil"))
TRUTH = dict.fromkeys(("true", "yes", "t", "y", "on", "1"), 1.0) | dict.fromkeys(
    ("false", "no", "f", "n", "off", "0"), 0.0
)
WRITTEN = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
EXACT = 2.0**53  # whole numbers below are themselves as floats
LARGE = max(LARGEST.values()) / 2**20  # a number beyond is no measurement, and its square would overflow
PERIODS = {"hour": 86400.0, "weekday": 7 * 86400.0, "year": 365.2425 * 86400.0}  # seconds of a circle
LONGEST_TEXT = 100_000  # letters of a cell that are read
MOST_PLACES = 1 << 16
EMPTY_IT = "leave the cell empty, or drop the column"


def is_empty(cell: Any) -> bool:
    """Whether a cell holds no value.

    >>> is_empty(" "), is_empty("N/A"), is_empty(None), is_empty(0)
    (True, True, True, False)
    """
    return is_gap(cell) or (isinstance(cell, str) and cell.strip().lower() in GAPS)


def number(cell: Any) -> float | None:
    """A cell as a finite number; None if it is none.

    >>> number(" 2.5"), number(True), number("1_000"), number("inf")
    (2.5, 1.0, None, None)
    """
    value = as_float(cell)
    return value if value is not None and abs(value) <= LARGE else None


def truth(cell: Any) -> float | None:
    """Yes as 1, no as 0; None for anything else.

    >>> truth("Yes"), truth(False), truth(1), truth("maybe")
    (1.0, 0.0, 1.0, None)
    """
    if isinstance(cell, str):
        return TRUTH.get(cell.strip().lower())
    return float(cell) if isinstance(cell, bool | int | float) and cell in (0, 1) else None


def category(cell: Any) -> str:
    """A cell as a category. Numbers are told apart by their value: a source whose codes all are numbers has no other.

    >>> category(3.0), category(" Oslo "), category(True), category("3.0"), category("007"), category("False")
    ('3', 'Oslo', 'true', '3', '7', 'false')
    """
    if isinstance(cell, str):
        text = cell.strip()
        value = as_float(text) if text[-1:].isdigit() or text[-1:] == "." else None
        if value is None or not abs(value) < EXACT:
            return WRITTEN.get(text, text)
        cell = value
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell).strip()


class BadCell(InputError):
    """A cell that its column cannot have."""

    def __init__(self, column: str, value: Any, what: str, remedy: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}.."
        super().__init__(f"column {column!r}: {shown} is not {what}; {remedy}")
        self.column = column


@dataclass(frozen=True)
class Column(ABC):
    """A column by its name."""

    name: str
    gaps: bool = field(default=False, kw_only=True)
    kind: ClassVar[str]

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """What each number is, after the name of the column; "" is the column itself."""

    @abstractmethod
    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """The numbers of a cell that is not empty."""

    @property
    def names(self) -> list[str]:
        """A name for each number."""
        return [f"{self.name}{part}" for part in (*self.parts, *((" is missing",) if self.gaps else ()))]

    def __call__(self, cell: Any, absent: bool = False) -> tuple[float, ...]:
        """The numbers of a cell; `absent`: the whole domain does not have the column."""
        cell = native(cell)
        if absent or is_empty(cell):
            return (NAN,) * len(self.parts) + ((NAN if absent else 1.0,) if self.gaps else ())
        if isinstance(cell, list | dict | tuple | set):
            remedy = "give text, a number or a date, or drop the column"
            raise BadCell(self.name, type(cell).__name__, "one value", remedy)
        return (*self.of_cell(cell), 0.0) if self.gaps else self.of_cell(cell)

    def encode(self, cells: Array | list[Any]) -> tuple[Array, dict[int, BadCell]]:
        """The numbers of many cells, and the rows whose cells cannot be used (gaps stand for these)."""
        every = cells.tolist() if isinstance(cells, np.ndarray) else cells
        texts = _only_texts(every)  # of other types, values that are equal may not be alike: 1 and true
        place = {cell: k for k, cell in enumerate(dict.fromkeys(every))} if texts else {}
        numbers: list[tuple[float, ...]] = []
        bad: dict[int, BadCell] = {}
        for k, cell in enumerate(place or every):
            try:
                numbers.append(self(cell))
            except BadCell as error:
                numbers.append(self(None))
                bad[k] = error
        matrix = np.array(numbers, dtype=np.float64).reshape(len(numbers), len(self.names))
        if not texts:
            return matrix, bad
        at = [place[cell] for cell in every]
        return matrix[at], {i: bad[k] for i, k in enumerate(at) if k in bad} if bad else {}

    def to_json(self) -> dict[str, Any]:
        """With its kind."""
        return {"kind": self.kind, **asdict(self)}

    def words(self) -> str:
        """What it is, for people."""
        return self.kind


@dataclass(frozen=True)
class Number(Column):
    """A number is itself."""

    kind = "number"
    parts = ("",)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """Finite. True and False of a data frame are numbers, so their words in a CSV are as well."""
        value = number(cell)
        if value is None and category(cell) in ("true", "false"):
            value = truth(cell)
        if value is None:
            raise BadCell(self.name, cell, "a number", f"write a finite number, {EMPTY_IT}")
        return (value,)

    def encode(self, cells: Array | list[Any]) -> tuple[Array, dict[int, BadCell]]:
        """All at once where every cell is a number or empty."""
        numbers = _plain_numbers(cells)
        if numbers is None or (np.abs(numbers) > LARGE).any():
            return super().encode(cells)
        matrix = numbers[:, None]
        return np.hstack([matrix, np.isnan(matrix)]) if self.gaps else matrix, {}


def _only_texts(cells: list[Any]) -> bool:
    return set(map(type, cells)) <= {str, NoneType}


def _plain_numbers(cells: Array | list[Any]) -> Array | None:
    """Cells that are floats, or written numbers and "", as an array; None if any has to be read by itself."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        return cells
    every = cells.tolist() if isinstance(cells, np.ndarray) else cells
    if not _only_texts(every):
        return None
    try:
        numbers = np.array([float(cell) if cell else NAN for cell in every], dtype=np.float64)
    except ValueError:
        return None
    plain = np.isnan(numbers).sum() == every.count("") + every.count(None)  # no cell says "nan"
    return numbers if plain and usual_digits("".join(filter(None, every))) else None


@dataclass(frozen=True)
class Boolean(Column):
    """Yes or no."""

    kind = "boolean"
    parts = ("",)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """1 or 0."""
        value = truth(cell)
        if value is None:
            raise BadCell(self.name, cell, "yes or no", f"write yes or no, {EMPTY_IT}")
        return (value,)


@dataclass(frozen=True)
class Category(Column):
    """A place for each value."""

    values: tuple[str, ...]
    kind = "category"

    @property
    def parts(self) -> tuple[str, ...]:
        """The values."""
        return tuple(f"={value}" for value in self.values)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """An unknown value is zeros."""
        mine = category(cell)
        return tuple(1.0 if value == mine else 0.0 for value in self.values)

    def words(self) -> str:
        """With how many values."""
        return f"category of {len(self.values)}"


@dataclass(frozen=True)
class Hashed(Column):
    """Many values in few places: two of them seldom share one, and no choice of values makes them share it."""

    places: int
    kind = "hashed"

    @property
    def parts(self) -> tuple[str, ...]:
        """The places."""
        return tuple(f"#{i}" for i in range(self.places))

    def terms(self, cell: Any) -> list[str]:
        """The texts that are hashed."""
        return [category(cell)]

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """The signs of all terms in their places, of unit length; a value never seen before has a place as well."""
        total, terms = [0.0] * self.places, self.terms(cell)
        for term in terms:
            place, sign = hashed(term, self.places)
            total[place] += sign
        if len(terms) == 1:
            return tuple(total)
        norm = math.sqrt(sum(value * value for value in total)) or 1.0
        return tuple(value / norm for value in total)

    def words(self) -> str:
        """With how many places."""
        return f"category, hashed to {self.places} places"


@dataclass(frozen=True)
class Text(Hashed):
    """Words and pairs of words, hashed."""

    kind = "text"

    def terms(self, cell: Any) -> list[str]:
        """Words and pairs of words, in small letters."""
        words = str(cell)[:LONGEST_TEXT].lower().split()
        return [*words, *(f"{a} {b}" for a, b in pairwise(words))]

    def words(self) -> str:
        """With how many places."""
        return f"text, words hashed to {self.places} places"


@dataclass(frozen=True)
class Date(Column):
    """A moment: days since `start`, and a point on the circle of each period in `turns`."""

    start: float
    turns: tuple[str, ...] = ()
    form: str = "iso"
    kind = "date"

    @property
    def parts(self) -> tuple[str, ...]:
        """Days, then two numbers a period."""
        return (" in days", *(f" {turn} {axis}" for turn in self.turns for axis in ("sin", "cos")))

    def seconds(self, cell: Any) -> float | None:
        """Seconds since 1970, in UTC; None for what is no date of this form."""
        value = moment(cell, self.form)
        return number(cell) if value is None and self.form == "number" else value

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """By the clock of UTC, where the cell names an offset from it."""
        value = self.seconds(cell)
        if value is None:
            remedy = f"write it as 2024-01-31 or 2024-01-31T12:00, {EMPTY_IT}"
            raise BadCell(self.name, cell, "a date as in the other rows", remedy)
        numbers = [(value - self.start) / PERIODS["hour"]]
        for turn in self.turns:
            angle = 2 * math.pi * (value % PERIODS[turn]) / PERIODS[turn]
            numbers += [math.sin(angle), math.cos(angle)]
        return tuple(numbers)

    def words(self) -> str:
        """With the periods."""
        return ", ".join(["date: days since the start", *self.turns])


@dataclass(frozen=True)
class Late(Column):
    """A column that no row has had yet: a number, or a text that is hashed."""

    places: int = 8
    kind = "late"

    @property
    def parts(self) -> tuple[str, ...]:
        """The number, then the places."""
        return ("", *Hashed(self.name, self.places).parts)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """The half that it is not is a gap."""
        value = number(cell)
        if value is not None:
            return (value, *((NAN,) * self.places))
        return (NAN, *Hashed(self.name, self.places).of_cell(cell))

    def words(self) -> str:
        """Of a column without rows."""
        return "to come"


def hashed(value: str, places: int) -> tuple[int, float]:
    """A place and a sign that follow from a text, on every machine.

    >>> hashed("Oslo", 16)
    (14, -1.0)
    """
    code = zlib.crc32(value.encode("utf-8", "surrogatepass"))
    return (code >> 1) % places, 1.0 if code & 1 else -1.0


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Boolean, Category, Hashed, Date, Text, Late)}


def column_of_json(data: Mapping[str, Any]) -> Column:
    """The inverse of `to_json`; data from a file is not trusted."""
    fields = dict(data)
    kind = KINDS.get(str(fields.pop("kind", None)))
    if kind is None:
        raise InputError(f"a column of the kind {data.get('kind')!r}")
    column = of_json(kind, fields)
    known = not isinstance(column, Date) or (
        set(column.turns) <= PERIODS.keys() and column.form in (*DATE_FORMS, "number")
    )
    if not known or not 1 <= getattr(column, "places", 1) <= MOST_PLACES:
        raise InputError(f"the column {column!r}")
    return column
