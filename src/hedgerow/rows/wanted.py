"""What a model wants of a row, where that stands in a table, and cells as labels, numbers and ids."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.values import BadCell, all_floats, as_float, as_whole, composed, shown

WHOLE = np.iinfo(np.int64)
NO_LABEL = object()
NUMBERS = (0.0,)  # in place of classes: labels are finite numbers


# ---- words for errors


def listed(names: Sequence[object], most: int = 8) -> str:
    """Names joined by commas, the rest counted.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    text = ", ".join(map(str, names[:most]))
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def these(noun: str, names: Sequence[Any]) -> str:
    """A noun with its names and its verb.

    >>> these("column", ["a"]), these("column", ["a", "b"])
    ("column 'a' is", "columns 'a', 'b' are")
    """
    return (
        f"{noun} {names[0]!r} is"
        if len(names) == 1
        else f"{noun}s {listed([repr(n) for n in names])} are"
    )


def _container(value: list[Any] | dict[str, Any]) -> str:
    """Never its content, which may be nested deeper than can be printed."""
    return "a list" if isinstance(value, list) else "an object"


def utf8(text: str, what: str) -> str:
    """The text itself; refused if it came from bytes that are not UTF-8 (readers turn those into surrogates)."""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(
            f"{what} is not UTF-8 text; name its encoding (fit --encoding cp1252, run --setting encoding=cp1252)"
        )
    return text


def is_blank(value: Any) -> bool:
    """Whether a cell or JSON value is empty."""
    return value is None or (isinstance(value, str) and not value.strip())


# ---- labels


def plain_labels(y: Array) -> Array:
    """Labels as they were meant: whole numbers stored as floats or bytes become int64, anything else is kept.

    >>> plain_labels(np.array([1.0, 2.0])), plain_labels(np.array([0.5, 1.0]))
    (array([1, 2]), array([0.5, 1. ]))
    """
    if y.dtype.kind in "iu" or (
        y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all()
    ):
        return y.astype(np.int64)
    return y


def labels_of_text(cells: Sequence[str]) -> Array:
    """Labels of a text column: int64 if every cell is a whole number, float64 if every cell is a number, else text.

    An empty cell is a label that is not known: None among whole numbers and text, NaN among floats.

    >>> labels_of_text(["1", "2"]), labels_of_text(["1", ""]), labels_of_text(["mug", "bike"])
    (array([1, 2]), array([1, None], dtype=object), array(['mug', 'bike'], dtype='<U4'))
    """
    known = [cell.strip() for cell in cells if cell.strip()]
    numbers = ([kind(cell) for cell in known] for kind in (as_whole, as_float))
    values: Sequence[Any] = next((each for each in numbers if None not in each), known)
    if len(known) == len(cells):
        return np.array(values)
    rest = iter(values)
    filled = [next(rest) if cell.strip() else None for cell in cells]
    return np.array(filled, dtype=np.float64 if known and isinstance(values[0], float) else object)


def labels_of_values(values: list[Any]) -> Array:
    """Labels of a typed column: None where one is not known."""
    if any(value is None for value in values):
        return np.array(values, dtype=object)
    return plain_labels(np.array(values)) if not isinstance(values[0], float) else np.array(values)


def raw_label(value: Any) -> Any:
    """A label as it is written; only what can be none is refused."""
    if isinstance(value, list | dict):
        raise InputError(f"the label is {_container(value)}; it must be text or a number")
    return composed(utf8(value, "the label")) if isinstance(value, str) else value


def label_reader(classes: Sequence[Any] | Array, new: bool = True) -> Callable[[Any], Any]:
    """A function from a cell or JSON value to a label of the classes' own type; empty and null are None.

    Without `new`, a label that is none of the classes is refused.

    >>> read = label_reader(np.array([0, 1]))
    >>> read("1"), read(1.0), read(" "), read(None), read("7")
    (1, 1, None, None, 7)
    >>> label_reader([])("1")
    '1'
    >>> label_reader(np.array([0, 1]), new=False)("7")
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: label '7' is not one of the model's classes: 0, 1
    """
    known = [label.item() if isinstance(label, np.generic) else label for label in classes]
    kind = next(
        (kind for kind in (str, int, float) if all(type(label) is kind for label in known)), None
    )
    printed = {composed(str(label)): label for label in known}
    no_class = "label {} is not one of the model's classes: " + listed(known).replace(
        "{", "{{"
    ).replace("}", "}}")
    all_known = None if new else {None, *known}

    def read(value: Any) -> Any:
        value = raw_label(value)
        if is_blank(value) or value != value:
            return None
        text = str(value).strip()
        if kind in (int, float):
            label = _whole(text) if kind is int else _finite(text)
        else:  # bools, tuples and mixtures: by their printed form
            label = printed.get(text, text if kind is str else printed.get(text.title(), NO_LABEL))
        if label is NO_LABEL or (all_known is not None and label not in all_known):
            raise InputError(no_class.format(shown(text)))
        return label

    remembered = lru_cache(1024, typed=True)(read)

    def label_of(value: Any) -> Any:
        try:
            return remembered(value)
        except TypeError:  # a list or an object
            return read(value)

    return label_of


def _finite(text: str) -> float:
    value = as_float(text)
    if value is None or not math.isfinite(value):
        what = "a number" if value is None else "a finite number"
        raise InputError(f"label {shown(text)} is not {what}, as the model's labels are")
    return value


def _whole(text: str) -> int:
    value = as_whole(text)
    if value is None:
        number = _finite(text)
        value = int(number)
        if value != number:
            raise InputError(
                f"label {shown(text)} is not a whole number, as the model's classes are"
            )
    if not WHOLE.min <= value <= WHOLE.max:
        raise InputError(
            f"label {shown(text)} is too large: a class is a whole number of at most 64 bits"
        )
    return value


# ---- numbers and ids


def number(value: Any, name: object, gaps: bool = False) -> float:
    """A cell or JSON value of the column `name` as a finite number; with `gaps` an empty one is NaN.

    >>> number(" 2.5", "a"), number(None, "a", gaps=True)
    (2.5, nan)
    """
    if is_blank(value):
        if gaps:
            return math.nan
        raise BadCell(name, "missing value")
    if isinstance(value, list | dict):
        raise BadCell(name, f"{_container(value)} is not a number")
    result = as_float(value)
    if result is None:
        raise BadCell(name, f"{shown(utf8(value, f'column {name!r}'))} is not a number")
    if not math.isfinite(result) and not (gaps and math.isnan(result)):
        raise BadCell(name, f"{shown(value)} is not a finite number")
    return result


def numbers(values: Sequence[Any], names: Sequence[object], gaps: bool = False) -> list[float]:
    """Cells or JSON values of these columns as finite numbers; with `gaps` empty ones are NaN.

    >>> numbers(["1", 2.5], ["a", "b"])
    [1.0, 2.5]
    """
    floats = all_floats(values)
    if floats is not None and math.isfinite(sum(floats)):
        return floats
    return [number(value, name, gaps) for value, name in zip(values, names, strict=True)]


def id_text(value: Any, name: str) -> str:
    """A cell or JSON value of the id column as text.

    >>> id_text(" a7 ", "id"), id_text(7, "id")
    ('a7', '7')
    """
    if is_blank(value):
        raise InputError(f"column {name!r}: missing value; every row needs an id")
    if isinstance(value, bool) or not isinstance(value, str | int):
        what = _container(value) if isinstance(value, list | dict) else shown(value)
        raise InputError(f"column {name!r}: {what} is not an id; an id is text or a whole number")
    return utf8(str(value).strip(), f"column {name!r}")


# ---- what is wanted


@dataclass(frozen=True)
class Wanted:
    """What a model wants of a row.

    Parameters
    ----------
    width
        How many numbers a row has.
    names
        Names of the features; without them columns are taken in their order.
    label, id
        The columns of the label and of what names a row, if there are such.
    classes
        The classes that labels are read as; None: as they are written.
    new_classes
        Whether a label that is none of the classes can be used.
    table
        The encoder of a model that was fitted on a table: rows are what it makes of all columns but label and id. It
        finds them by their names, and a column that is not there is a gap.
    gaps
        Whether a row of numbers may have gaps: empty cells, and values that a JSON object lacks.
    raw
        Cells as they are written, for whoever will learn an encoder of them; of JSON, the whole object.
    keep_cells
        Beside the numbers that `table` makes of a row, its cells by name as they came: for a journal.
    """

    width: int
    names: Sequence[str] | None = None
    label: str | None = None
    classes: Sequence[Any] | Array | None = ()
    new_classes: bool = True
    id: str | None = None
    table: Any = None  # a `hedgerow.tables.TableEncoder`, or None
    gaps: bool = False
    raw: bool = False
    keep_cells: bool = False

    def __post_init__(self) -> None:
        if self.id is not None and self.id == self.label:
            raise InputError(f"the column {self.id!r} cannot be both id and label")
        names = self.names if self.table is None else self.table.names
        if self.id is not None and names is not None and self.id in names:
            raise InputError(
                f"the id column {self.id!r} is a feature of the model; choose another column"
            )

    def spelling(self) -> dict[str, str]:
        """From names in their composed form to the model's, which may be in another."""
        table = () if self.table is None else (*self.table.names, *self.table.left_out)
        named = (name for name in (self.label, self.id) if name is not None)
        return {
            composed(name): name
            for name in (*(self.names or ()), *table, *named)
            if not name.isascii()
        }

    def label_of(self) -> Callable[[Any], Any]:
        """The function from a cell to a label."""
        return raw_label if self.classes is None else label_reader(self.classes, self.new_classes)

    def columns_of(self, header: list[str]) -> tuple[list[str], tuple[str, ...]]:
        """The columns of a header that a row is made of, in the model's order, and those that it does not know."""
        for kind, name in (("label column", self.label), ("id column", self.id)):
            if name is not None and name not in header:
                raise unknown(kind, name, header)
        others = [name for name in header if name not in (self.label, self.id)]
        if (table := self.table) is not None:
            if table.names and (why := table.lacks_all(others)):
                raise InputError(f"{why}; the input has {listed(header)}")
            read = set(table.names)
            known = {*table.names, *table.left_out} if table.names else {*others}
            return [name for name in others if name in read], tuple(
                name for name in others if name not in known
            )
        if self.names is None:
            if len(others) != self.width:
                raise InputError(
                    f"{len(others)} feature columns, but the model was fitted on {self.width} (without names)"
                )
            return others, ()
        there = set(header)
        known = set(self.names)
        missing = [name for name in self.names if name not in there]
        if missing:
            raise InputError(f"{these('column', missing)} missing; the input has {listed(header)}")
        return list(self.names), tuple(name for name in others if name not in known)
