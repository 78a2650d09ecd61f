"""Tables as they are: columns of every kind become numbers, in the same way wherever rows come in.

| kind      | numbers of a cell                                                                                  |
|-----------|----------------------------------------------------------------------------------------------------|
| number    | itself                                                                                             |
| boolean   | 1 or 0                                                                                             |
| category  | one-hot: a 1 in the place of its value; a value that the sources do not have is hashed to others   |
| hashed    | many values: a 1, or -1, in a place that follows from the text (the hashing trick)                 |
| date      | days since the first row of the sources; hour, day of the week and of the year as points on circles |
| late      | announced, not there yet: a number, or a hashed text                                               |
| text      | hashed words and pairs of words, of unit length                                                    |

NaN is a gap. With `gaps` one more number says whether the cell was empty: 1 or 0. A column is immutable and goes to
JSON and back. What a number and what a date is, `hedgerow.core.values` decides for all readers.

The numbers of a row are those of column 1, of column 2 and so on; gaps are filled by the step `fill` of the learner.
The columns of `own` stand last and are target-only: no source has them (or not the target's warm-up), so nothing can be
transferred for them; the learner keeps their numbers out of its spaces and starts them at zero weight.

`learn` makes an encoder of the tables of all domains: what each column is, which are left out, which are target-only. A
column with hardly any exceptions is what most of its cells are: the exceptions are then problems to be reported, not
categories. Labels are not read.
"""

from __future__ import annotations

import math
import re
import warnings
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from types import NoneType
from typing import Any, ClassVar

import numpy as np

from hedgerow.core import values
from hedgerow.core.arrays import LARGEST, Array
from hedgerow.core.domains import Frame
from hedgerow.core.errors import InputError, grouped, together, unknown
from hedgerow.core.registry import of_json
from hedgerow.core.values import (
    MONTH_FIRST,
    BadCell,
    as_cell,
    as_float,
    date_form,
    is_gap,
    moment,
    shown,
)

# -- kinds of columns --------------------------------------------------------------------------------------------------

NAN = float("nan")
GAPS = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-", "--", "nil"))
YES = ("true", "yes", "t", "y", "on", "1")
NO = ("false", "no", "f", "n", "off", "0")
TRUTH = dict.fromkeys(YES, 1.0) | dict.fromkeys(NO, 0.0)
WRITTEN = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
EXACT = 2.0**53  # whole numbers below are themselves as floats
LARGE = (
    max(LARGEST.values()) / 2**20
)  # a number beyond is no measurement, and its square would overflow
PERIODS = {
    "hour": 86400.0,
    "weekday": 7 * 86400.0,
    "year": 365.2425 * 86400.0,
}  # seconds of a circle
LONGEST_TEXT = 100_000  # letters of a cell that are read
MOST_PLACES = 1 << 16
NEW_VALUES = 4  # places of a category for values that the sources do not have
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


@dataclass(frozen=True)
class Column(ABC):
    """A column by its name."""

    name: str
    gaps: bool = field(default=False, kw_only=True)
    like_dates: bool = field(
        default=False, kw_only=True
    )  # categories that look like dates, which nobody could read
    na: tuple[str, ...] = field(default=(), kw_only=True)  # what else stands for a gap
    kind: ClassVar[str]
    words: ClassVar[str] = "{0.kind}"  # what it is, for people

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
        return [
            f"{self.name}{part}" for part in (*self.parts, *((" is missing",) if self.gaps else ()))
        ]

    def __call__(self, cell: Any, absent: bool = False) -> tuple[float, ...]:
        """The numbers of a cell; `absent`: the whole domain does not have the column."""
        cell = as_cell(cell)
        empty = absent or cell is None or (isinstance(cell, str) and cell.strip().lower() in GAPS)
        if empty or (self.na and category(cell) in self.na):
            return (NAN,) * len(self.parts) + ((NAN if absent else 1.0,) if self.gaps else ())
        if isinstance(cell, list | dict | tuple | set):
            remedy = "give text, a number or a date, or drop the column"
            raise BadCell(self.name, f"{type(cell).__name__!r} is not one value; {remedy}")
        return (*self.of_cell(cell), 0.0) if self.gaps else self.of_cell(cell)

    def encode(self, cells: Array | list[Any]) -> tuple[Array, dict[int, BadCell]]:
        """The numbers of many cells, and the rows whose cells cannot be used (gaps stand for these)."""
        every = cells.tolist() if isinstance(cells, np.ndarray) else cells
        # of several types, values that are equal may not be alike: 1 and true
        alike = set(map(type, every)) <= {bool, NoneType} or _only_texts(every)
        place = {cell: k for k, cell in enumerate(dict.fromkeys(every))} if alike else {}
        numbers: list[tuple[float, ...]] = []
        bad: dict[int, BadCell] = {}
        for k, cell in enumerate(place or every):
            try:
                numbers.append(self(cell))
            except BadCell as error:
                numbers.append(self(None))
                bad[k] = error
        matrix = np.array(numbers, dtype=np.float64).reshape(len(numbers), len(self.names))
        if not alike:
            return matrix, bad
        at = [place[cell] for cell in every]
        return matrix[at], {i: bad[k] for i, k in enumerate(at) if k in bad} if bad else {}

    def to_json(self) -> dict[str, Any]:
        """With its kind."""
        return {"kind": self.kind, **asdict(self)}

    def __str__(self) -> str:
        return self.words.format(self)


@dataclass(frozen=True)
class Number(Column):
    """A number is itself."""

    kind = "number"
    parts = ("",)

    def __call__(self, cell: Any, absent: bool = False) -> tuple[float, ...]:
        """A float at once: nearly all cells are."""
        if type(cell) is not float or absent or self.na or not -LARGE <= cell <= LARGE:
            return super().__call__(cell, absent)
        return (cell, 0.0) if self.gaps else (cell,)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """Finite. True and False of a data frame are numbers, so their words in a CSV are as well."""
        value = number(cell)
        if value is None and category(cell) in ("true", "false"):
            value = truth(cell)
        if value is None:
            raise BadCell(
                self.name, f"{shown(cell)} is not a number; write a finite number, {EMPTY_IT}"
            )
        return (value,)

    def encode(self, cells: Array | list[Any]) -> tuple[Array, dict[int, BadCell]]:
        """All at once where every cell is a number or empty."""
        numbers = _plain_numbers(cells)
        if numbers is None or (np.abs(numbers) > LARGE).any():
            return super().encode(cells)
        if self.na:
            numbers = np.where(np.isin(numbers, numbers_in(self.na)), NAN, numbers)
        matrix = numbers[:, None]
        return np.hstack([matrix, np.isnan(matrix)]) if self.gaps else matrix, {}


def _only_texts(cells: list[Any]) -> bool:
    return set(map(type, cells)) <= {str, NoneType}


def _plain_numbers(cells: Array | list[Any]) -> Array | None:
    """Cells that are numbers, or written numbers and "", as an array; None if any has to be read by itself."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fb":
        return cells.astype(np.float64, copy=False)
    every = cells.tolist() if isinstance(cells, np.ndarray) else cells
    try:
        if set(map(type, every)) <= {float, int, bool, NoneType}:
            return np.array(every, dtype=np.float64)
    except OverflowError:
        return None
    floats = values.all_floats([cell or NAN for cell in every]) if _only_texts(every) else None
    numbers = np.array(floats, dtype=np.float64)
    plain = floats is not None and np.isnan(numbers).sum() == every.count("") + every.count(
        None
    )  # none says "nan"
    return numbers if plain else None


@dataclass(frozen=True)
class Boolean(Column):
    """Yes or no."""

    kind = "boolean"
    parts = ("",)

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """1 or 0."""
        value = truth(cell)
        if value is None:
            raise BadCell(self.name, f"{shown(cell)} is not yes or no; write yes or no, {EMPTY_IT}")
        return (value,)


@dataclass(frozen=True)
class Category(Column):
    """A place for each value, and some that all others are hashed to."""

    values: tuple[str, ...] = ()
    places: int = NEW_VALUES
    kind = "category"
    words = "category of {0.count}"

    @property
    def count(self) -> int:
        """How many values have a place."""
        return len(self.values)

    @property
    def parts(self) -> tuple[str, ...]:
        """The values, then the places of others."""
        return (*(f"={value}" for value in self.values), *(f"#{i}" for i in range(self.places)))

    def terms(self, cell: Any) -> list[str]:
        """The texts that are looked for among the values, and hashed if they are not there."""
        return [category(cell)]

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """A value that was rare in the sources, or is seen in the stream first, is hashed."""
        terms = self.terms(cell)
        known = tuple(1.0 if value in terms else 0.0 for value in self.values)
        return (*known, *signs([term for term in terms if term not in self.values], self.places))


@dataclass(frozen=True)
class Hashed(Category):
    """Many values in few places: two of them seldom share one, and no choice of values makes them share it."""

    kind = "hashed"
    words = "category, hashed to {0.places} places"


@dataclass(frozen=True)
class Text(Hashed):
    """Words and pairs of words, hashed."""

    kind = "text"
    words = "text, words hashed to {0.places} places"

    def terms(self, cell: Any) -> list[str]:
        """Words and pairs of words, in small letters."""
        words = str(cell)[:LONGEST_TEXT].lower().split()
        return [*words, *(f"{a} {b}" for a, b in pairwise(words))]


@dataclass(frozen=True)
class Date(Column):
    """A moment: days since `start`, and a point on the circle of each period in `turns`.

    `form` says what 1/2/2024 is, unless a file or table has such dates as can only be of the other form.
    """

    start: float
    turns: tuple[str, ...] = ()
    form: str = MONTH_FIRST
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
            raise BadCell(self.name, f"{shown(cell)} is not a date as in the other rows; {remedy}")
        numbers = [(value - self.start) / PERIODS["hour"]]
        for turn in self.turns:
            angle = 2 * math.pi * (value % PERIODS[turn]) / PERIODS[turn]
            numbers += [math.sin(angle), math.cos(angle)]
        return tuple(numbers)

    def __str__(self) -> str:
        return ", ".join(["date: days since the start", *self.turns])


@dataclass(frozen=True)
class Late(Column):
    """A column that no row has had yet: a number, or a text that is hashed."""

    places: int = 8
    kind = "late"
    words = "to come"

    @property
    def parts(self) -> tuple[str, ...]:
        """The number, then the places."""
        return ("", *(f"#{i}" for i in range(self.places)))

    def of_cell(self, cell: Any) -> tuple[float, ...]:
        """The half that it is not is a gap."""
        value = number(cell)
        if value is not None:
            return (value, *((NAN,) * self.places))
        return (NAN, *signs([category(cell)], self.places))


def hashed(value: str, places: int) -> tuple[int, float]:
    """A place and a sign that follow from a text, on every machine.

    >>> hashed("Oslo", 16)
    (14, -1.0)
    """
    code = zlib.crc32(value.encode("utf-8", "surrogatepass"))
    return (code >> 1) % places, 1.0 if code & 1 else -1.0


def signs(terms: list[str], places: int) -> tuple[float, ...]:
    """The signs of all terms in their places, of unit length."""
    total = [0.0] * places
    for term in terms:
        place, sign = hashed(term, places)
        total[place] += sign
    norm = math.sqrt(sum(value * value for value in total)) or 1.0
    return tuple(total) if len(terms) == 1 else tuple(value / norm for value in total)


KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Number, Boolean, Category, Hashed, Date, Text, Late)
}


def column_of_json(data: Mapping[str, Any]) -> Column:
    """The inverse of `to_json`; data from a file is not trusted."""
    fields = dict(data)
    kind = KINDS.get(str(fields.pop("kind", None)))
    if kind is None:
        raise InputError(f"a column of the kind {data.get('kind')!r}")
    column = of_json(kind, fields)
    turns = getattr(column, "turns", ())
    form = getattr(column, "form", "number")
    known = set(turns) <= PERIODS.keys() and form in (*values.DATE_FORMS, "number")
    if not known or not 1 <= getattr(column, "places", 1) <= MOST_PLACES:
        raise InputError(f"the column {column!r}")
    return column


# -- the encoder -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableEncoder:
    """From the cells of a table to numbers, as `clf.table_` of a model that was fitted on tables.

    Parameters
    ----------
    columns
        The columns that every domain has.
    left_out
        The names of columns that are not used, and why.
    own
        The target-only columns.
    lacking
        Columns that are used, and the domains that do not have them.

    Examples
    --------
    >>> import pandas as pd
    >>> from hedgerow import OnlineTransferClassifier
    >>> X = pd.DataFrame({"city": ["Oslo", "Rome"] * 10, "age": [20.5, 31.0, None, 47.5, 18.0] * 4})
    >>> clf = OnlineTransferClassifier("pa").fit(X, [0, 1] * 10)
    >>> clf.table_
    TableEncoder: 2 columns become 8 numbers
      city: category of 2
      age: number, with gaps
    >>> clf.table_.of_mapping({"city": "Rome", "age": "33"})
    [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 33.0, 0.0]
    """

    columns: tuple[Column, ...]
    left_out: Mapping[str, str]
    own: tuple[Column, ...] = ()
    lacking: Mapping[str, tuple[str, ...]] | None = None

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """All columns, the target-only ones last."""
        return (*self.columns, *self.own)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return tuple(column.name for column in self.used)

    @property
    def numeric(self) -> frozenset[str]:
        """The columns that have numbers."""
        return frozenset(column.name for column in self.used if isinstance(column, Number))

    @cached_property
    def feature_names(self) -> list[str]:
        """A name for every number."""
        return [name for column in self.used for name in column.names]

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        return len(self.feature_names)

    @property
    def own_width(self) -> int:
        """How many of them, the last ones, are of target-only columns."""
        return sum(len(column.names) for column in self.own)

    @property
    def only_numbers(self) -> bool:
        """Whether every column that is transferred is of numbers."""
        return all(isinstance(column, Number) for column in self.columns)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First number and width of each column as trees see it; not of texts and of flags for gaps."""
        spans = []
        at = 0
        for column in self.columns:
            width = len(column.parts)
            if isinstance(column, Category):
                spans += [] if isinstance(column, Text) else [(at, width)]
            else:
                spans += [(at + i, 1) for i in range(width)]
            at += len(column.names)
        return spans

    # -- rows ---------------------------------------------------------------------------------------------------

    def as_written(self, column_of: Callable[[str], Any]) -> TableEncoder:
        """The encoder of a file or table: its dates are of the form that its own cells say, if they do."""
        forms = {
            column: date_form(cells, column.form)
            for column in self.used
            if isinstance(column, Date)
            and column.form != "number"
            and (cells := column_of(column.name)) is not None
        }
        if all(column.form == form for column, form in forms.items()):
            return self
        columns, own = (
            tuple(
                replace(column, form=forms[column]) if column in forms else column
                for column in every
            )
            for every in (self.columns, self.own)
        )
        return replace(self, columns=columns, own=own)

    def of_mapping(self, row: Mapping[Any, Any]) -> list[float]:
        """The numbers of one row; a name that it does not have is a gap, said where it may have another name."""
        if missing := self.missing_from(row, keys=True):
            warnings.warn(f"x: {missing}", stacklevel=5)
        return [value for column in self.used for value in column(row.get(column.name))]

    def of_columns(self, columns: Mapping[str, list[Any]], rows: int) -> Array:
        """The numbers of many rows, by the cells of each column; the error of the first that cannot be used."""
        numbers, bad = self.read(columns.get, rows)
        if bad:
            raise bad[0][1]
        return numbers

    def encode(self, table: Frame, *, fitting: bool = False, where: str = "X") -> Array:
        """The numbers of a table.

        Parameters
        ----------
        table
            Its rows.
        fitting
            Whether the model is being fitted: a column that the table does not have is then absent, which is no gap of
            a row.
        where
            How an error calls the table.

        Raises
        ------
        InputError
            One error with every cell that cannot be used.
        """
        numbers, bad = self.as_written(table.column).read(table.column, len(table), fitting)
        if bad:
            places = ((f"{where}, {table.place(row)}", str(error)) for row, error in bad)
            raise InputError(together(grouped(places)))
        return numbers

    def read(
        self, column_of: Callable[[str], Array | list[Any] | None], rows: int, absent: bool = False
    ) -> tuple[Array, list[tuple[int, BadCell]]]:
        """The numbers of many rows, and the cells that cannot be used with their rows.

        `column_of` gives the cells of a column by its name, or None, which is a gap in every row, or `absent`.
        """
        parts: list[Array] = [np.empty((rows, 0))]
        bad: list[tuple[int, BadCell]] = []
        for column in self.used:
            cells = column_of(column.name)
            if cells is None:
                parts.append(np.tile(column(None, absent), (rows, 1)))
                continue
            numbers, errors = column.encode(cells)
            parts.append(numbers)
            bad += errors.items()
        return np.concatenate(parts, axis=1), bad

    # -- JSON and people ----------------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset((*self.names, *self.left_out))

    def lacks_all(self, names: Collection[Any]) -> str:
        """What is wrong with a row or table of these names: it may lack columns, but not all of them."""
        if any(name in names for name in self.names):
            return ""
        return (
            f"none of the model's columns is there ({', '.join(self.names[:8])}); give them by name"
        )

    def missing_from(self, names: Collection[Any], *, keys: bool = False) -> str:
        """Which columns a table with these names lacks, for a person, and which it has instead; empty if none.

        `keys`: names of one row or a few, of which a key that is not there is a plain gap unless others are unknown.
        """
        if keys and self._known.issuperset(names):
            return ""
        missing = [column.name for column in self.columns if column.name not in names]
        unknown = [name for name in names if name not in self._known]
        if not missing:
            return ""
        renamed = (
            f"; the model does not know {', '.join(map(repr, unknown[:8]))}: was a column renamed?"
        )
        gap = "a gap" if keys else "a gap in every row"
        return f"no column {', '.join(map(repr, missing[:8]))}, {gap}" + (
            renamed if unknown else ""
        )

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "own": [column.to_json() for column in self.own],
            "left_out": dict(self.left_out),
            "lacking": {name: list(domains) for name, domains in (self.lacking or {}).items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableEncoder:
        """The inverse; data from a file is not trusted."""
        left_out = dict(data["left_out"])
        lacking = dict(data["lacking"])
        if not all(isinstance(text, str) for text in (*left_out, *left_out.values(), *lacking)):
            raise InputError("a table whose column names are not text")
        columns, own = ([column_of_json(each) for each in data[key]] for key in ("columns", "own"))
        names = [column.name for column in (*columns, *own)]
        if len(set(names)) < len(names) or not names:
            raise InputError("a table without columns, or with one of them twice")
        return cls(
            tuple(columns),
            left_out,
            tuple(own),
            {str(k): tuple(map(str, v)) for k, v in lacking.items()},
        )

    def rows(self) -> list[tuple[str, str]]:
        """A line a column: its name and what it becomes, or why it does not."""
        return [
            *(
                (column.name, str(column) + (", with gaps" if column.gaps else ""))
                for column in self.columns
            ),
            *(
                (column.name, f"{column!s}; starts free: nothing to transfer")
                for column in self.own
            ),
            *((name, f"left out: {why}") for name, why in self.left_out.items()),
        ]

    def __repr__(self) -> str:
        lines = [f"  {name}: {what}" for name, what in self.rows()]
        return "\n".join(
            [f"TableEncoder: {len(self.used)} columns become {self.width} numbers", *lines]
        )


# -- from the tables of all domains to an encoder ----------------------------------------------------------------------

MOST_ALIKE = 0.9  # share of the cells that decides what a column is
DIFFERENT = 0.9  # share of different values from which a text tells rows apart, and nothing else
FEW_ROWS = 10  # with fewer, values that are all different mean nothing
FIRST_CELLS = 50  # by which forms of dates are tried
CATEGORIES = 32  # places of their own; with more values a column is hashed
ENTITIES = 256  # places of entities
RARE = 2  # rows: a value that fewer have is as good as unknown
HASHED = 32  # places
TEXT = 256
WORDS = 4  # a text has more of them, a category seldom
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|key|nr|number)$|[a-z]I[dD]$|^index$", re.IGNORECASE)
CONSTANT = "constant"
EMPTY = "empty"
LIKE_A_DATE = re.compile(
    r"\d{1,4}([-/.])(\d{1,2}|[a-z]{3,9})\1\d{1,4}\b|^[a-z]{3,9}\.? \d{1,2},? \d{4}", re.IGNORECASE
)
ODD_DATE = "looks like a date that is written otherwise (write 2024-01-31 or 2024-01-31T12:00)"
ID = "id-like"
ALL_DIFFERENT = "all different"
LONG_TEXT = "text (--column text=NAME uses its words)"
NOT_HERE = "the target does not have it"
NO_SOURCE = "no source has it"
Cells = list[Any] | Array  # those of a column that are not empty: an array if all are floats


@dataclass(frozen=True)
class TableOptions:
    """What a user says about columns, by name; the others are recognised by their cells.

    Parameters
    ----------
    drop, keep
        Columns to leave out; columns to use though they would be left out.
    id, time, text
        Columns that are identifiers, moments, or texts whose words count.
    new
        Columns that no row has yet, learned from their first value on.
    entity
        Columns whose values are names, also where they are written as numbers: categories.
    na
        No columns, but what stands for a gap in any of them, beside empty cells, NA, null and the like.

    Examples
    --------
    >>> TableOptions.of({"drop": "note"}).drop
    ('note',)
    """

    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    entity: tuple[str, ...] = ()
    na: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Any) -> TableOptions:
        """From a mapping of names, or nothing; a column has one role."""
        if table is None or isinstance(table, TableOptions):
            return table or cls()
        if not isinstance(table, Mapping):
            raise InputError(
                f"table={table!r}: give a dict with some of {', '.join(cls.__dataclass_fields__)}"
            )
        for key in table:
            if key not in cls.__dataclass_fields__:
                raise unknown("option of table", key, cls.__dataclass_fields__)
        options = cls(**{key: _names(key, value) for key, value in table.items()})
        options = replace(options, na=tuple(map(category, options.na)))
        roles: dict[str, str] = {}
        for role, names in options.roles.items():
            for name in names:
                if name in roles:
                    raise InputError(
                        f"the column {name!r} cannot be both {roles[name]} and {role}; name it once"
                    )
                roles[name] = role
        return options

    @property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """Columns by what was said about them."""
        return {role: names for role, names in asdict(self).items() if role != "na"}

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are named."""
        return tuple(name for names in self.roles.values() for name in names)


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"table: {key}={value!r}; give the name of a column, or a list of names")
    return tuple(names)


SAMPLE = 2000  # rows of a table whose cells are looked at


@dataclass(frozen=True, eq=False)
class Named:
    """A table of a domain, how it is called, and its labels; a target has none."""

    name: str
    table: Frame
    labels: Array | None = None

    @cached_property
    def rows(self) -> Array:
        """Rows, evenly spaced, whose cells are looked at."""
        return np.unique(np.linspace(0, len(self.table) - 1, SAMPLE).astype(int))

    @cached_property
    def sample(self) -> Frame:
        """Their cells."""
        return self.table[self.rows]

    def filled(self, name: str, options: TableOptions) -> Cells:
        """The cells of a column in these rows that are not empty."""
        return filled(self.sample, name, options.na)


def learn(
    sources: Sequence[Named], target: Named | None, options: TableOptions, own_columns: bool = True
) -> tuple[TableEncoder, list[Array]]:
    """Learn an encoder from the cells of all domains.

    Parameters
    ----------
    sources, target
        The tables. A target that is given says which columns it has.
    options
        What the user says about columns.
    own_columns
        Whether the method can learn target-only columns; if not, they are left out.

    Returns
    -------
    encoder, numbers
        The encoder, and the numbers of every domain, the target's last.

    Raises
    ------
    InputError
        If a named column is in no table, no column can be used, or cells do not fit their columns: all are listed.
    """
    domains = [*sources, *([] if target is None else [target])]
    names = tuple(dict.fromkeys(name for domain in domains for name in domain.table.names))
    for name in options.named:
        if name not in names and name not in options.new:
            raise unknown("column", name, names)
    if options.new and not own_columns:
        raise InputError(
            f"new={list(options.new)}: this method cannot learn columns that no source has; use hedgerow"
        )
    late = [
        name
        for name in options.new
        if not any(len(filled(domain.table, name, options.na)) for domain in domains)
    ]
    columns: list[Column] = []
    own: list[Column] = [Late(name, na=options.na) for name in late]
    left_out: dict[str, str] = {}
    lacking: dict[str, tuple[str, ...]] = {}
    for name in names:
        cells = [filled(domain.table, name, options.na) for domain in domains]
        in_source = any(map(len, cells[: len(sources)]))
        in_target = target is None or len(cells[-1]) > 0
        gaps = any(
            0 < len(own_cells) < len(domain.table)
            for own_cells, domain in zip(cells, domains, strict=True)
        )
        column = None if name in late else recognised(name, cells, gaps, options)
        if isinstance(column, Column):
            if not sources or (in_source and in_target):
                columns.append(column)
            elif own_columns:
                own.append(replace(column, gaps=False))
            else:
                column = NOT_HERE if in_source else NO_SOURCE
        if isinstance(column, str):
            left_out[name] = column
        elif not all(map(len, cells)):
            lacking[name] = tuple(
                domain.name
                for own_cells, domain in zip(cells, domains, strict=True)
                if not len(own_cells)
            )
    _check(columns, own, domains, left_out)
    encoder = TableEncoder(tuple(columns), left_out, tuple(own), lacking)
    numbers = []
    problems = []
    for domain in domains:
        column_of = domain.table.column
        rows, bad = encoder.as_written(column_of).read(column_of, len(domain.table), absent=True)
        numbers.append(rows)
        problems += [
            (f"{domain.name}, {domain.table.place(row)}", str(error)) for row, error in bad
        ]
    if problems:
        raise InputError(
            f"{together(grouped(problems))}; --na VALUE takes a value for a gap, --column drop=NAME leaves a column out"
        )
    return encoder, numbers


def filled(table: Frame, name: str, na: Collection[str] = ()) -> Cells:
    """The cells of a column that are not empty and do not stand for a gap; none if the table does not have it."""
    column = table.column(name)
    if column is None:
        return []
    if column.dtype.kind == "f":
        return np.asarray(column[~(np.isnan(column) | np.isin(column, numbers_in(na)))])
    return [cell for cell in column.tolist() if not is_empty(cell) and category(cell) not in na]


def numbers_in(na: Collection[str]) -> list[float]:
    """Those of the texts that are numbers."""
    return [value for value in map(as_float, na) if value is not None]


def _check(
    columns: list[Column], own: list[Column], domains: Sequence[Named], left_out: dict[str, str]
) -> None:
    """Refuse tables of which nothing can be transferred."""
    if columns:
        return
    if own:
        tables = "; ".join(
            f"{domain.name} has {', '.join(domain.table.names[:8])}" for domain in domains
        )
        raise InputError(
            f"no column is both in a source and in the target: nothing can be transferred ({tables})"
        )
    reasons = ", ".join(f"{name} ({why})" for name, why in left_out.items()) or "there is none"
    raise InputError(
        f"no column can be used: {reasons}; --column keep=NAME (table={{'keep': [..]}}) keeps one"
    )


def recognised(
    name: str, domains: Sequence[Cells], gaps: bool, options: TableOptions
) -> Column | str:
    """The column of these cells, which are not empty, domain by domain; or the reason to leave it out."""
    column = _recognised(name, domains, gaps, options)
    return replace(column, na=options.na) if isinstance(column, Column) else column


def _recognised(
    name: str, domains: Sequence[Cells], gaps: bool, options: TableOptions
) -> Column | str:
    if name in options.drop or name in options.id:
        return "dropped" if name in options.drop else "id"
    if not any(map(len, domains)):
        return EMPTY
    kept = name in options.keep
    if name in options.entity:
        return _text(
            name, domains, [cell for some in domains for cell in some], gaps, True, ENTITIES
        )
    if name in options.text:
        return Text(name, places=TEXT, gaps=gaps)
    if name in options.time:
        return _date(name, domains, gaps) or Date(
            name, *_span(list(map(number, chain(*domains)))), "number", gaps=gaps
        )
    if not kept and not gaps and all(map(_is_constant, domains)):
        return CONSTANT
    floats = [
        domain for domain in domains if isinstance(domain, np.ndarray) and np.isfinite(domain).all()
    ]
    if len(floats) + sum(not len(domain) for domain in domains if isinstance(domain, list)) < len(
        domains
    ):
        every = [cell for domain in domains for cell in domain]
        count = sum(as_float(cell) is not None for cell in every)
        n = len(every)
        if all(type(cell) is bool for cell in every) or (
            count < n and all(truth(cell) is not None for cell in every)
        ):
            return Boolean(name, gaps=gaps)
        if count < n and (n < FEW_ROWS or count < MOST_ALIKE * n):
            return _date(name, domains, gaps) or _text(name, domains, every, gaps, kept)
        floats = [np.array([as_float(cell) for cell in domain], dtype=float) for domain in domains]
    # a column of 0 and 1 is a number as well: a count may have a 2 tomorrow
    return ID if not kept and _counts_rows(name, floats) else Number(name, gaps=gaps)


def _is_constant(cells: Cells) -> bool:
    if isinstance(cells, np.ndarray):
        return bool((cells == cells[:1]).all())
    return len(set(map(category, cells))) <= 1


def _text(
    name: str,
    domains: Sequence[Cells],
    every: list[Any],
    gaps: bool,
    kept: bool,
    places: int = HASHED,
) -> Column | str:
    """Categories, unless the values tell rows apart and nothing else."""
    n = len(every)
    counts = Counter(map(category, every))
    different = sum(
        len(set(map(category, domain))) for domain in domains
    )  # domains may have the same ids
    dates = 2 * sum(LIKE_A_DATE.search(text) is not None for text in counts) > len(counts)
    if not kept and n >= FEW_ROWS and different >= DIFFERENT * n:
        if dates:
            return ODD_DATE
        wordy = sum(len(text.split()) for text in counts) > WORDS * len(counts)
        return LONG_TEXT if wordy else ID if ID_NAME.search(name) else ALL_DIFFERENT
    if not kept and n >= FEW_ROWS and different > n / 2 and ID_NAME.search(name):
        return ID
    common = sorted(value for value, count in counts.items() if count >= RARE or n < FEW_ROWS)
    if len(common) > CATEGORIES or not common:
        return Hashed(name, places=places, gaps=gaps, like_dates=dates)
    return Category(name, tuple(common), gaps=gaps, like_dates=dates)


def _counts_rows(name: str, domains: Sequence[Array]) -> bool:
    """Whether whole numbers only tell rows apart: all different, and called an id or without holes."""
    for domain in domains:
        if not (domain == np.floor(domain)).all() or len(np.unique(domain)) < len(domain):
            return False
        if (
            len(domain) >= FEW_ROWS
            and not ID_NAME.search(name)
            and domain.max() - domain.min() >= len(domain)
        ):
            return False
    return any(len(domain) >= FEW_ROWS for domain in domains)


def _date(name: str, domains: Sequence[Cells], gaps: bool) -> Column | None:
    """A column of dates, each domain's of its own form, and the last domain's that of rows to come; else None."""
    forms = [date_form(domain) for domain in domains]
    for domain, form in zip(domains, forms, strict=True):
        first = domain[:FIRST_CELLS]  # most columns of text are no dates, which a few cells tell
        if len(first) and 2 * sum(moment(cell, form) is not None for cell in first) < len(first):
            return None
    moments = [
        moment(cell, form) for domain, form in zip(domains, forms, strict=True) for cell in domain
    ]
    dates = len(moments) - moments.count(None)
    if dates < (MOST_ALIKE * len(moments) if len(moments) >= FEW_ROWS else len(moments)):
        return None
    form = date_form(domains[-1], date_form(chain(*domains)))
    return Date(name, *_span(moments), form, gaps=gaps)


def _span(seconds: Sequence[float | None]) -> tuple[float, tuple[str, ...]]:
    """The first of these moments, and the periods of which they span at least half and within which they differ."""
    known = [value for value in seconds if value is not None]
    if not known:  # every cell will be reported
        return 0.0, ()
    span = max(known) - min(known)
    within = {
        turn: {round(value % length, 3) for value in known} for turn, length in PERIODS.items()
    }
    return min(known), tuple(
        turn for turn, times in within.items() if span >= PERIODS[turn] / 2 and len(times) > 1
    )
