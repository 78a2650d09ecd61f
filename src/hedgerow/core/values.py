"""What is written in a cell: one rule for numbers, one for dates, one for names, one for labels, whoever reads it.

| rule   | is one                                              | is none                                   |
|--------|-----------------------------------------------------|-------------------------------------------|
| number | what Python's `float` reads, in the digits 0 to 9   | `1_000`, `1,000`, digits of other scripts |
| date   | ISO 8601, 31.1.2024, 2024/1/31, or by `DATE_FORMS`  | `Tuesday`, `2024`                         |
| name   | text in Unicode's composed form (NFC)               |                                           |
| label  | anything hashable                                   | a date, infinity                          |

The mathematics uses whole numbers 0..K-1 for labels: `Codes`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, as_narwhals
from hedgerow.core.errors import InputError

DATE_FORMS = MONTH_FIRST, DAY_FIRST = (
    "month first",
    "day first",
)  # what 1/2/2024 is; any other date says it itself
_DATE = re.compile(
    r"(\d{1,4})([./])(\d{1,2})\2(\d{1,4})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2}))?)?"
)
_SHORTEST = 6  # letters of the shortest date
SHOWN = 40  # characters of a cell in an error


def shown(value: object) -> str:
    """A value for an error: as Python writes it, cut where it is long.

    >>> shown("x" * 401)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.. (401 characters)"
    """
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.. ({len(str(value))} characters)"


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun; `many` is the plural of a noun that does not just take an s.

    >>> count(1, "row"), count(2, "class", "classes")
    ('1 row', '2 classes')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


class BadCell(InputError):
    """A cell of the column `column` that it cannot have."""

    def __init__(self, column: object, problem: str, row: int = 0) -> None:
        super().__init__((f"row {row}, " if row else "") + f"column {column!r}: {problem}")
        self.column = column


def usual_digits(text: str) -> bool:
    """Whether a number in this text can only be one of the digits 0 to 9, without underscores.

    >>> usual_digits("1000"), usual_digits("1_000"), usual_digits("\u0663")
    (True, False, False)
    """
    return text.isascii() and "_" not in text


def is_gap(value: Any) -> bool:
    """Whether a value or a label stands for none: None, NaN of any type, NaT, NumPy's masked, pandas' NA.

    >>> is_gap(None), is_gap(float("nan")), is_gap(np.datetime64("NaT")), is_gap(""), is_gap(0)
    (True, True, True, False, False)
    """
    kind = type(value)
    if kind is str or kind is int:  # nearly all are, and a column may be long
        return False
    if kind is float:
        return bool(value != value)
    if (
        value is None or value is np.ma.masked or kind.__name__ in ("NAType", "NaTType")
    ):  # pandas need not be there
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, Number) and bool(value != value)


def plain(value: Any) -> Any:
    """A scalar of NumPy as Python has it; anything else as it is.

    >>> plain(np.True_), plain(np.datetime64("2024-01-31", "ns")), plain(np.datetime64("NaT")), plain("a")
    (True, datetime.datetime(2024, 1, 31, 0, 0), None, 'a')
    """
    if not isinstance(value, np.generic):
        return value
    if isinstance(
        value, np.datetime64 | np.timedelta64
    ):  # of nanoseconds NumPy would make a whole number
        return value.astype(
            f"{'datetime' if value.dtype.kind == 'M' else 'timedelta'}64[us]"
        ).item()
    return value.item()


def objects(items: Iterable[Any]) -> Array:
    """Items of any kind as a 1-d array of objects.

    >>> objects([(1, 2), (3, 4)]).shape
    (2,)
    """
    every = list(items)
    out = np.empty(len(every), dtype=object)
    out[:] = every
    return out


def as_cell(value: Any) -> Any:
    """A cell of a table in Python's own types: None for every kind of gap, seconds for a duration.

    >>> as_cell(float("nan")), as_cell(np.timedelta64(3, "m")), as_cell(np.float32(0.5))
    (None, 180.0, 0.5)
    """
    value = None if is_gap(value) else plain(value)
    return value.total_seconds() if isinstance(value, timedelta) else value


def cells(values: Iterable[Any]) -> Array:
    """Cells of a table as objects.

    >>> cells([1.5, float("nan"), "a", None]).tolist()
    [1.5, None, 'a', None]
    """
    return objects(map(as_cell, values))


def as_float(cell: Any) -> float | None:
    """A cell as a number, be it infinite or NaN; None if it is none.

    >>> as_float(" 2.5"), as_float(True), as_float("1_000"), as_float("\u0663"), as_float("inf")
    (2.5, 1.0, None, None, inf)
    """
    if isinstance(cell, str):
        if not usual_digits(cell) and not usual_digits(cell.strip()):
            return None
    elif not isinstance(cell, int | float | Decimal) and not hasattr(cell, "__float__"):
        return None
    try:
        return float(cell)
    except OverflowError:  # a whole number beyond all floats
        return math.inf
    except (TypeError, ValueError):
        return None


def all_floats(cells: Sequence[Any]) -> list[float] | None:
    """Cells as numbers all at once; None if one of them has to be looked at by itself.

    >>> all_floats(["1", 2.5]), all_floats(["1_000", 2.5])
    ([1.0, 2.5], None)
    """
    try:
        floats = list(map(float, cells))
    except (ValueError, TypeError, OverflowError):
        return None
    return (
        floats if usual_digits("".join(cell for cell in cells if isinstance(cell, str))) else None
    )


def as_whole(cell: str) -> int | None:
    """A text as a whole number, which is not rounded by way of a float; None if it is none.

    >>> as_whole("9007199254740993"), as_whole("1_0"), as_whole("1.0")
    (9007199254740993, None, None)
    """
    if not usual_digits(cell) and not usual_digits(cell.strip()):
        return None
    try:
        return int(cell)
    except ValueError:
        return None


def moment(cell: Any, form: str = MONTH_FIRST) -> float | None:
    """Seconds since 1970 (UTC where nothing else is said), to the microsecond; None for what is no date.

    >>> moment("1970-01-02"), moment("2.1.1970"), moment("Tuesday"), moment(date(1970, 1, 2))
    (86400.0, 86400.0, None, 86400.0)
    >>> moment("1/2/1970 06:00"), moment("2/1/1970 06:00", DAY_FIRST), moment("1/13/1970", DAY_FIRST)
    (108000.0, 108000.0, None)
    """
    if isinstance(cell, datetime):
        when = cell
    elif isinstance(cell, date):
        when = datetime.combine(cell, time())
    elif isinstance(cell, str):
        text = cell.strip()
        if len(text) < _SHORTEST or not text[0].isdigit() or not text.isascii():
            return None
        try:
            parts = _DATE.fullmatch(text)
            when = datetime.fromisoformat(text) if parts is None else _written(parts, form)
        except (ValueError, OverflowError):
            return None
    else:
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def _written(parts: re.Match[str], form: str) -> datetime:
    """2024/1/31, 31.1.2024 or, by the form, 1/31/2024 or 31/1/2024, perhaps with a time."""
    first, mark, second, third, hour, minute, seconds = parts.groups(default="0")
    year = third
    month = second
    day = first
    if mark == "/" and len(first) == 4:
        year = first
        day = third
    elif mark == "/" and form == MONTH_FIRST:
        month = first
        day = second
    if len(year) != 4:
        raise ValueError("a year has four digits")
    return datetime(int(year), int(month), int(day), int(hour), int(minute), int(seconds))


def date_form(cells: Iterable[Any], usual: str = MONTH_FIRST) -> str:
    """How these cells, of one file or table, write their dates: as most of them can be read, else as is usual.

    >>> date_form(["1/2/2024", "31/2/2024"]), date_form(["1/2/2024", "2024-01-31"], DAY_FIRST), date_form(["13/1/2024"])
    ('month first', 'day first', 'day first')
    """
    slashed = [cell for cell in cells if isinstance(cell, str) and "/" in cell]
    readable = {
        form: sum(moment(cell, form) is not None for cell in slashed) for form in DATE_FORMS
    }
    return max(DATE_FORMS, key=lambda form: (readable[form], form == usual))


def composed(text: str) -> str:
    """A name in Unicode's composed form: a letter and its accent are one name, however they were typed.

    >>> composed("Caf" + "e\u0301") == "Caf\u00e9"
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)


# -- labels ------------------------------------------------------------------------------------------------------------


def as_labels(y: object, what: str, length: int | None = None) -> Array:
    """y as a 1-d array, one entry an instance; tuples and other hashables are kept as objects.

    Where something is missing (pandas' NA, a null of polars or arrow, a masked entry) the others stay what they are,
    and None stands for it: whole numbers do not become floats.

    >>> as_labels([(1, 2), (3, 4)], "y").shape
    (2,)
    """
    if isinstance(y, str):
        raise InputError(f"{what} is the text {y[:40]!r}; give a list of labels, one for each row")
    labels = (
        _from_array(y) if isinstance(y, np.ndarray) or hasattr(y, "__array__") else _from_items(y)
    )
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise InputError(
            f"{what}: expected one label an instance, got an array of shape {labels.shape}"
        )
    if length is not None and len(labels) != length:
        raise InputError(f"{what}: {len(labels)} labels for {length} rows; give one label a row")
    return labels


def _from_array(y: Any) -> Array:
    """An array or a column of a table; what is missing is None, and the rest keeps its type."""
    missing = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else np.False_
    values = np.ma.getdata(y) if isinstance(y, np.ndarray) else _from_column(y)
    if values.dtype.kind in "mM":  # NumPy would make whole numbers of them
        missing = np.isnat(values)
        values = objects(values.ravel()).reshape(values.shape)
    if not missing.any():
        return np.asarray(values)
    values = values.astype(object)
    values[missing] = None
    return values


def _from_column(y: Any) -> Array:
    """A column of pandas, polars or pyarrow, a table of one column, or what NumPy can read."""
    column = as_narwhals(y, "y")
    if column is not None and column.shape[1:] == (1,):
        column = column[column.columns[0]]
    if column is None or len(column.shape) > 1:
        values = np.asarray(y)
        items = getattr(y, "tolist", None)
        nulls = values.ndim == 1 and bool(is_missing(values).any())
    else:
        values = column.to_numpy()
        items = column.to_list
        nulls = column.null_count() > 0 and not column.dtype.is_float()  # a float has NaN for it
    return (
        values
        if not nulls or items is None
        else objects(None if is_gap(item) else item for item in items())
    )


def _from_items(y: Any) -> Array:
    items = list(y) if isinstance(y, Sequence) or hasattr(y, "__iter__") else [y]
    simple = all(isinstance(item, str | bytes | bool | int | float | np.generic) for item in items)
    kinds = {
        str if isinstance(item, str) else bytes if isinstance(item, bytes) else float
        for item in items
    }
    if not simple or len(kinds) > 1:
        return objects(items)
    if kinds == {str}:
        for item in items:
            check_text(item)
    return _from_array(np.array(items))


def check_text(label: str) -> None:
    """Refuse text with a NUL character, of which NumPy would make another label, and text that no file can have."""
    if "\0" in label:
        raise InputError(
            f"label {label!r} has a NUL character, which is lost in an array of text; leave it out"
        )
    try:
        label.encode()  # half of a surrogate pair cannot be written to any file
    except UnicodeEncodeError:
        raise InputError(
            f"label {label!r} is no text that UTF-8 can write; give it in another form"
        ) from None


# Labels to JSON and back, as they were.
KINDS = "iufbU"  # types that labels can have beside objects


def labels_to_json(labels: Array) -> dict[str, Any]:
    """Labels with what is needed to give them back as they were.

    >>> labels_from_json(labels_to_json(np.array([2, 3])))
    array([2, 3])
    """
    return {
        "dtype": labels.dtype.str if labels.dtype.kind != "O" else "O",
        "values": labels.tolist(),
    }


def labels_from_json(data: Mapping[str, Any]) -> Array:
    """The inverse of `labels_to_json`; what cannot be labels is a ValueError."""
    labels = objects(map(_label, data["values"]))
    if is_missing(labels).any() or len(set(labels.tolist())) < len(labels):
        raise ValueError("a label that is missing, or stands there twice")
    if data["dtype"] == "O":
        return labels
    dtype = np.dtype(data["dtype"])
    if dtype.kind not in KINDS:
        raise ValueError(f"labels of type {dtype}")
    typed = labels.astype(dtype)
    if typed.tolist() != labels.tolist():
        raise ValueError(f"labels that are not of type {dtype}")
    return typed


def _label(value: Any) -> Any:
    """JSON's lists as the tuples they were: a label must be hashable."""
    if isinstance(value, list):
        return tuple(_label(item) for item in value)
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"{value!r} cannot be a label")
    return value


MISSING = -1  # the code of an instance whose label is not known


def is_missing(labels: Array) -> Array:
    """Where a label is None, NaN or NaT: such an instance is predicted and not learned.

    >>> is_missing(np.array(["a", None], dtype=object))
    array([False,  True])
    """
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind == "O":
        return np.array([is_gap(item) for item in labels], dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def classes_of(labels: Array, what: str) -> Array:
    """The different labels, sorted. Labels that cannot be compared with each other are refused.

    Whole numbers are int64, also where they came as objects or partly as floats; a date is no class.

    >>> classes_of(np.array(["b", "a", "b"]), "y")
    array(['a', 'b'], dtype='<U1')
    """
    try:
        if labels.dtype.kind != "O":
            classes = np.unique(labels)
            for label in classes[[0, -1]] if classes.dtype.kind == "f" and len(classes) else ():
                _check_class(label, what)
            return classes
        kinds = {_kind(item) for item in labels}
        if len(kinds) > 1:
            raise TypeError
        distinct = sorted(set(labels))
    except TypeError as error:
        if "unhashable" in str(error):
            raise _unhashable(error) from None
        kinds_found = ", ".join(sorted({type(item).__name__ for item in labels}))
        raise InputError(
            f"{what}: labels of mixed types ({kinds_found}); make them all text or all numbers"
        ) from None
    for label in distinct:
        _check_class(label, what)
    whole = [
        isinstance(label, int | np.integer) and not isinstance(label, bool) for label in distinct
    ]
    if not any(whole):
        return objects(distinct)
    example = f"the other classes are (such as {distinct[whole.index(True)]})"
    return _whole_numbers([_as_whole(label, what, example) for label in distinct])


def _whole_numbers(numbers: list[int]) -> Array:
    return (
        np.array(numbers, dtype=np.int64)
        if all(-(2**63) <= n < 2**63 for n in numbers)
        else objects(numbers)
    )


def _check_class(label: Any, what: str) -> None:
    """Refuse what cannot be a class: infinity, dates and durations."""
    if isinstance(label, float | np.floating) and np.isinf(label):
        raise InputError(
            f"{what}: label {label} is not a class; for an unknown label give None or NaN"
        )
    if isinstance(label, np.datetime64 | np.timedelta64 | date | timedelta | time):
        raise InputError(
            f"{what}: label {str(label)!r} is of type {type(label).__name__}, a date or a time; "
            "give another column, or make it text with y.astype(str)"
        )


def _as_whole(label: Any, what: str, why: str) -> int:
    """A number among whole numbers: 3.0 is 3, and 1.5 is refused."""
    value = plain(label)
    if value != int(value):
        raise InputError(
            f"{what}: label {value!r} is not a whole number, but {why}; round it, or make all labels text"
        )
    return int(value)


def _kind(label: object) -> type:
    """What a label can be compared with: numbers (and bools) with each other, text with text."""
    if isinstance(label, int | float | np.number | np.bool_):
        return float
    return str if isinstance(label, str) else type(label)


def _unhashable(error: TypeError) -> InputError:
    return InputError(f"a label must be hashable (text, a number, a tuple of these): {error}")


class Codes:
    """A growing table between labels and 0..K-1: `of` maps, `grow` appends labels not met before.

    >>> codes = Codes(np.array(["a", "b"]))
    >>> codes.of(np.array(["b", "a", "c"]))
    array([ 1,  0, -2])
    >>> codes.grow(["c"]).classes
    array(['a', 'b', 'c'], dtype='<U1')
    """

    NEW = -2

    def __init__(self, classes: Array) -> None:
        self.classes = classes
        self.labels = [plain(label) for label in classes]
        self._index: dict[Any, int] = {label: i for i, label in enumerate(self.labels)}
        if len(self._index) != len(classes):
            raise InputError(f"classes: the same label occurs twice: {classes.tolist()}")

    def of(self, labels: Array) -> Array:
        """Codes of the labels: MISSING for none given, NEW for one that is not in the table."""
        codes = np.full(len(labels), MISSING)
        known = ~is_missing(labels)
        given = labels[known]
        items = map(plain, given) if given.dtype.kind == "O" else given.tolist()
        try:
            codes[known] = [self._index.get(label, self.NEW) for label in items]
        except TypeError as error:
            raise _unhashable(error) from None
        return codes

    def code(self, label: Any) -> int:
        """`of` for one label.

        >>> codes = Codes(np.array([3, 5])); [codes.code(label) for label in (5, np.int64(3), 4, None)]
        [1, 0, -2, -1]
        """
        try:
            code = self._index.get(plain(label), self.NEW)
        except TypeError as error:
            if is_gap(label):
                return MISSING
            raise _unhashable(error) from None
        return MISSING if code == self.NEW and is_gap(label) else code

    def unseen(self, labels: Array) -> list[Any]:
        """Labels that are not in the table, each once, in the order of their first appearance."""
        return list(dict.fromkeys(labels[self.of(labels) == self.NEW]))

    def grow(self, labels: list[Any]) -> Codes:
        """A table with these labels appended; their type must be that of the others."""
        new = [plain(label) for label in labels]
        first = plain(self.classes[0]) if len(self.classes) else new[0]
        for given, label in zip(labels, new, strict=True):
            _check_class(given, "y")
            if _kind(label) is not _kind(first):
                raise InputError(
                    f"label {label!r} is of type {type(label).__name__}, the classes so far are of type "
                    f"{type(first).__name__}; convert it before it is learned"
                )
            if isinstance(first, bool) and not isinstance(label, bool):
                raise InputError(
                    f"y: label {label!r} is new, but the classes so far are False and True; "
                    "make all labels numbers or all bools"
                )
        if not len(self.classes):
            classes = classes_of(as_labels(labels, "y"), "y")
            place = {plain(label): i for i, label in enumerate(classes)}
            return Codes(classes[[place[label] for label in new]])
        if isinstance(first, int) and not isinstance(first, bool):
            whole = [
                _as_whole(label, "y", f"the classes so far are (such as {first})") for label in new
            ]
            return Codes(_whole_numbers([*self.classes.tolist(), *whole]))
        return Codes(
            np.concatenate(
                [self.classes, objects(new) if self.classes.dtype.kind == "O" else np.array(new)]
            )
        )


# -- what a call is given: one row or many, and what was forgotten ----------------------------------------------------

Row = Mapping[str, Any] | Sequence[float | None]
Rows = Sequence[Mapping[str, Any]] | Sequence[Sequence[float | None]]
Ids = list[str] | tuple[str, ...]


def is_row(x: Any) -> bool:
    """Whether `x` is one instance: a mapping, or cells that are no rows themselves.

    >>> is_row([1, 2]), is_row({"age": 3}), is_row([[1, 2]]), is_row([{"age": 3}])
    (True, True, False, False)
    """
    if hasattr(x, "ndim"):
        return bool(x.ndim == 1)
    if isinstance(x, Mapping) or not isinstance(x, Iterable):
        return True
    first: Any = next(iter(x), None)
    return not isinstance(first, Mapping) and np.ndim(first) == 0


class Forgotten(list[Any]):
    """The ids of events, or the keys of a fleet, that were there and are forgotten.

    `pending`: a reader that is open (an export, a backup) still has older pages of the file. They are overwritten when
    it has closed, with one of the next commits; `forget()` of nothing looks again.
    """

    pending = False


@dataclass(frozen=True, slots=True)
class LabelResult:
    """What became of a label. `correct`: whether it was predicted, where it was learned.

    | status      | what it means                                                                 |
    |-------------|-------------------------------------------------------------------------------|
    | `learned`   | it was learned now                                                            |
    | `duplicate` | the same label of this id was learned before; nothing was done                |
    | `conflict`  | another label of this id was learned before; nothing was done                 |
    | `expired`   | it came too late: the event has expired                                       |
    | `unknown`   | no such id is known: it was never predicted, or is older than what is kept    |
    | `refused`   | the label cannot be used; `detail` says why                                   |
    """

    id: str
    status: str
    label: Any
    detail: str = ""
    correct: bool | None = None
