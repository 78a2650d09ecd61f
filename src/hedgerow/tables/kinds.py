"""What a column becomes: one small class a kind. Each makes a row of numbers of one cell; NaN is a gap.

| kind      | numbers of a cell                                                                                  |
|-----------|----------------------------------------------------------------------------------------------------|
| number    | itself                                                                                             |
| boolean   | 1 or 0                                                                                             |
| category  | a 1 in the place of its value; zeros for a value that is not known                                 |
| hashed    | many values: a 1, or -1, in a place that follows from the text                                     |
| date      | days since the first row of the sources; hour, day of the week and of the year as points on circles |
| late      | announced, not there yet: a number, or a hashed text                                               |
| text      | hashed words and pairs of words, of unit length                                                    |

With `gaps` one more number says whether the cell was empty: 1 or 0. A column is immutable and goes to JSON and back.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.core.frame import native
from hedgerow.core.registry import of_json
from hedgerow.core.values import DATE_FORMS, moment
from hedgerow.tables import cells

NAN = float("nan")
PARTS = {"hour": 86400.0, "weekday": 7 * 86400.0, "year": 365.2425 * 86400.0}  # seconds of a turn
LONGEST_TEXT = 100_000  # letters of a cell that are looked at


class BadCell(InputError):
    """A cell that its column cannot have; `remedy` says what to do."""

    def __init__(self, column: str, value: Any, what: str, remedy: str) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}.."
        super().__init__(f"column {column!r}: {shown} is not {what}; {remedy}")
        self.column, self.value, self.what, self.remedy = column, value, what, remedy


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
        """A name a number."""
        own = [f"{self.name}{part}" for part in self.parts]
        return [*own, f"{self.name} is missing"] if self.gaps else own

    def __call__(self, cell: Any, absent: bool = False) -> tuple[float, ...]:
        """The numbers of a cell; `absent`: the whole domain does not have the column."""
        cell = native(cell)
        if absent or cells.missing(cell):
            empty = (NAN,) * len(self.parts)
            return (*empty, NAN if absent else 1.0) if self.gaps else empty
        if isinstance(cell, list | dict | tuple | set):
            raise BadCell(
                self.name, type(cell).__name__, "one value", "give text, a number or a date, or drop the column"
            )
        return (*self.of_cell(cell), 0.0) if self.gaps else self.of_cell(cell)

    def to_json(self) -> dict[str, Any]:
        """With its kind."""
        return {"kind": self.kind, **asdict(self)}

    def words(self) -> str:
        """What it is, for a person."""
        return self.kind


@dataclass(frozen=True)
class Number(Column):
    """A number is itself."""

    kind = "number"
    parts = ("",)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """Finite. True and False of a data frame are numbers, so their words in a CSV are as well."""
        value = cells.number(cell)
        if value is None and cells.text(cell) in ("true", "false"):
            value = cells.truth(cell)
        if value is None:
            raise BadCell(
                self.name, cell, "a number", "write a finite number, leave the cell empty, or drop the column"
            )
        return (value,)


@dataclass(frozen=True)
class Boolean(Column):
    """Yes or no."""

    kind = "boolean"
    parts = ("",)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """1 or 0."""
        value = cells.truth(cell)
        if value is None:
            raise BadCell(self.name, cell, "yes or no", "write yes or no, leave the cell empty, or drop the column")
        return (value,)


@dataclass(frozen=True)
class Category(Column):
    """One place a value."""

    values: tuple[str, ...]
    kind = "category"

    @property
    def parts(self) -> tuple[str, ...]:
        """The values."""
        return tuple(f"={value}" for value in self.values)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """A value that is not known is zeros."""
        said = cells.text(cell)
        return tuple(1.0 if value == said else 0.0 for value in self.values)

    def words(self) -> str:
        """With how many values."""
        return f"category of {len(self.values)}"


@dataclass(frozen=True)
class Hashed(Column):
    """Many values in few places, so that two of them seldom share one, and never their sign and place by intent."""

    places: int
    kind = "hashed"

    @property
    def parts(self) -> tuple[str, ...]:
        """The places."""
        return tuple(f"#{i}" for i in range(self.places))

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """A value that was never met before has a place as well."""
        out = [0.0] * self.places
        place, sign = hashed(cells.text(cell), self.places)
        out[place] = sign
        return tuple(out)

    def words(self) -> str:
        """With how many places."""
        return f"category, hashed to {self.places} places"


@dataclass(frozen=True)
class Date(Column):
    """A moment: days since `start`, and the turns that it is a part of."""

    start: float
    turns: tuple[str, ...] = ()
    form: str = "iso"
    kind = "date"

    @property
    def parts(self) -> tuple[str, ...]:
        """Days, then two numbers a turn."""
        return (" in days", *(f" {turn} {axis}" for turn in self.turns for axis in ("sin", "cos")))

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """By the clock of UTC, where the cell names an offset from it."""
        value = moment(cell, self.form)
        if value is None and self.form == "number":
            value = cells.number(cell)
        if value is None:
            raise BadCell(
                self.name, cell, "a date as in the other rows",
                "write it as 2024-01-31 or 2024-01-31T12:00, leave the cell empty, or drop the column",
            )  # fmt: skip
        out = [(value - self.start) / cells.DAY]
        for turn in self.turns:
            angle = 2 * math.pi * (value % PARTS[turn]) / PARTS[turn]
            out += [math.sin(angle), math.cos(angle)]
        return tuple(out)

    def words(self) -> str:
        """With the turns."""
        return "date: days since the start" + "".join(f", {turn}" for turn in self.turns)


@dataclass(frozen=True)
class Text(Column):
    """Words and pairs of words, hashed."""

    places: int
    kind = "text"

    @property
    def parts(self) -> tuple[str, ...]:
        """The places."""
        return tuple(f"#{i}" for i in range(self.places))

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """Of unit length."""
        words = str(cell)[:LONGEST_TEXT].lower().split()
        out = np.zeros(self.places)
        for gram in [*words, *(f"{a} {b}" for a, b in pairwise(words))]:
            place, sign = hashed(gram, self.places)
            out[place] += sign
        return tuple((out / (np.linalg.norm(out) or 1.0)).tolist())

    def words(self) -> str:
        """With how many places."""
        return f"text, words hashed to {self.places} places"


@dataclass(frozen=True)
class Late(Column):
    """A column that no row has had yet: a number, or a text that is hashed, whatever comes."""

    places: int = 8
    kind = "late"

    @property
    def parts(self) -> tuple[str, ...]:
        """The number, then the places."""
        return ("", *(f"#{i}" for i in range(self.places)))

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """The half that it is not is a gap."""
        value = cells.number(cell)
        if value is not None:
            return (value, *((NAN,) * self.places))
        return (NAN, *Hashed(self.name, self.places).of_cell(cell))

    def words(self) -> str:
        """Of what is to come."""
        return "to come"


def hashed(value: str, places: int) -> tuple[int, float]:
    """A place and a sign that follow from a text, on every machine.

    >>> hashed("Oslo", 16)
    (14, -1.0)
    """
    code = zlib.crc32(value.encode("utf-8", "surrogatepass"))
    return (code >> 1) % places, 1.0 if code & 1 else -1.0


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Boolean, Category, Hashed, Date, Text, Late)}
MOST_PLACES = 1 << 16


def column_of_json(data: Mapping[str, Any]) -> Column:
    """The inverse of `to_json`; data from a file is not trusted."""
    given = dict(data)
    kind = KINDS.get(str(given.pop("kind", None)))
    if kind is None:
        raise InputError(f"a column of the kind {data.get('kind')!r}")
    found = of_json(kind, given)
    dated = isinstance(found, Date)
    if not 1 <= getattr(found, "places", 1) <= MOST_PLACES or (dated and not _is_sane(found)):
        raise InputError(f"the column {found!r}")
    return found


def _is_sane(date: Any) -> bool:
    return set(date.turns) <= set(PARTS) and date.form in (*DATE_FORMS, "number")
