"""Cells into labels and numbers: what every reader does with a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import as_float, as_whole, usual_digits

SHOWN = 40  # characters of a cell in an error
WHOLE = np.iinfo(np.int64)


def plain_labels(y: Array) -> Array:
    """Labels as they were meant: whole numbers stored as floats or bytes become int64, anything else is kept.

    >>> plain_labels(np.array([1.0, 2.0])), plain_labels(np.array([0.5, 1.0]))
    (array([1, 2]), array([0.5, 1. ]))
    """
    if y.dtype.kind in "iu" or (y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all()):
        return y.astype(np.int64)
    return y


def labels_of_text(cells: Sequence[str]) -> Array:
    """Labels of a text column: int64 if every cell is a whole number, float64 if every cell is a number, else text.

    An empty cell is a label that is not known: None among whole numbers and text, NaN among floats.

    >>> labels_of_text(["1", "2"]), labels_of_text(["1", ""]), labels_of_text(["mug", "bike"])
    (array([1, 2]), array([1, None], dtype=object), array(['mug', 'bike'], dtype='<U4'))
    """
    known = [cell.strip() for cell in cells if cell.strip()]
    values = _all(as_whole, known) or _all(as_float, known) or known
    if len(known) == len(cells):
        return np.array(values)
    given = iter(values)
    filled = [next(given) if cell.strip() else None for cell in cells]
    return np.array(filled, dtype=np.float64 if known and isinstance(values[0], float) else object)


def _all(kind: Callable[[str], Any], cells: list[str]) -> list[Any] | None:
    values = [kind(cell) for cell in cells]
    return None if None in values else values


def label_reader(classes: Sequence[Any] | Array, new: bool = True) -> Callable[[Any], Any]:
    """A function from a cell or JSON value to a label of the classes' own type; empty and null are None.

    Without `new`, a label that is none of the classes is refused.

    >>> read = label_reader(np.array([0, 1]))
    >>> read("1"), read(1.0), read(" "), read(None), read("7")
    (1, 1, None, None, 7)
    >>> label_reader(np.array([0, 1]), new=False)("7")
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: label '7' is not one of the model's classes: 0, 1
    """
    known = [label.item() if isinstance(label, np.generic) else label for label in classes]
    kind = next((kind for kind in _READ_AS if known and all(type(label) is kind for label in known)), None)
    of_text: Callable[[str], Any]
    if kind is not None:
        of_text = _READ_AS[kind]
    else:  # no class yet: text; bools, tuples and mixtures: by their printed form
        of_text = _among(known) if known else str
    all_known = None if new else {None, *known}

    def read(value: Any) -> Any:
        if isinstance(value, list | dict):
            raise InputError(f"the label is {_container(value)}; it must be text or a number")
        if value is None or value != value or (isinstance(value, str) and not value.strip()):
            return None
        text = utf8(str(value).strip(), "the label")
        label = of_text(text)
        if all_known is not None and label not in all_known:
            raise _no_class(text, known)
        return label

    return read


def _among(known: list[Any]) -> Callable[[str], Any]:
    """Labels by their printed form: no other can be made from text."""
    printed = {str(label): label for label in known}

    def find(text: str) -> Any:
        if text not in printed and text.title() not in printed:
            raise _no_class(text, known)
        return printed.get(text, printed.get(text.title()))

    return find


def _no_class(text: str, known: list[Any]) -> InputError:
    return InputError(f"label {shown(text)} is not one of the model's classes: {listed(known)}")


def _finite(text: str) -> float:
    value = as_float(text)
    if value is None:
        raise InputError(f"label {shown(text)} is not a number, as the model's classes are")
    if not math.isfinite(value):
        raise InputError(f"label {shown(text)} is not a finite number, as the model's classes are")
    return value


def _whole(text: str) -> int:
    value = as_whole(text)
    if value is None:
        number = _finite(text)
        value = int(number)
        if value != number:
            raise InputError(f"label {shown(text)} is not a whole number, as the model's classes are")
    if not WHOLE.min <= value <= WHOLE.max:
        raise InputError(f"label {shown(text)} is too large: a class is a whole number of at most 64 bits")
    return value


_READ_AS: dict[type, Callable[[str], Any]] = {int: _whole, float: _finite, str: str}


class BadNumber(InputError):
    """A cell that is no number: `problem` is "missing", "text", "nan" or "infinite"."""

    def __init__(self, column: object, problem: str, words: str, row: int = 0) -> None:
        super().__init__((f"row {row}, " if row else "") + f"column {column!r}: {words}")
        self.column, self.problem, self.words = column, problem, words


def number(value: Any, name: object) -> float:
    """A cell or JSON value of the column `name` as a finite number.

    >>> number(" 2.5", "a")
    2.5
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadNumber(name, "missing", "missing value")
    if isinstance(value, list | dict):
        raise BadNumber(name, "text", f"{_container(value)} is not a number")
    result = as_float(value)
    if result is None:
        words = f"{shown(utf8(value, f'column {name!r}'))} is not a number"
        raise BadNumber(name, "text", words)
    if not math.isfinite(result):
        problem = "nan" if math.isnan(result) else "infinite"
        raise BadNumber(name, problem, f"{shown(value)} is not a finite number")
    return result


def numbers(values: Sequence[Any], names: Sequence[object]) -> list[float]:
    """Cells or JSON values of these columns as finite numbers.

    >>> numbers(["1", 2.5], ["a", "b"])
    [1.0, 2.5]
    """
    try:
        found = list(map(float, values))
        if math.isfinite(sum(found)) and usual_digits("".join(v for v in values if type(v) is str)):
            return found
    except (ValueError, TypeError, OverflowError):
        pass
    return [number(value, name) for value, name in zip(values, names, strict=True)]


def raw_label(value: Any) -> Any:
    """A label as it is written; only what can be none is refused."""
    if isinstance(value, list | dict):
        raise InputError(f"the label is {_container(value)}; it must be text or a number")
    return utf8(value, "the label") if isinstance(value, str) else value


def id_text(value: Any, name: str) -> str:
    """A cell or JSON value of the id column as text.

    >>> id_text(" a7 ", "id"), id_text(7, "id")
    ('a7', '7')
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise InputError(f"column {name!r}: missing value; every row needs an id")
    if isinstance(value, bool) or not isinstance(value, str | int):
        what = _container(value) if isinstance(value, list | dict) else shown(value)
        raise InputError(f"column {name!r}: {what} is no id; an id is text or a whole number")
    return utf8(str(value).strip(), f"column {name!r}")


def is_number(cell: str) -> bool:
    """Whether a cell can be read as a number at all, be it infinite or NaN."""
    return as_float(cell) is not None


def utf8(text: str, what: str) -> str:
    """The text itself; refused if it came from bytes that are not UTF-8 (readers turn those into surrogates)."""
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(f"{what} is not UTF-8 text")
    return text


def shown(value: object) -> str:
    """A value for an error: as Python writes it, cut where it is long.

    >>> shown("x" * 401)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.. (401 characters)"
    """
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}.. ({len(str(value))} characters)"


def listed(names: Sequence[object], most: int = 8) -> str:
    """Names joined by commas, the rest counted.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    text = ", ".join(map(str, names[:most]))
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


def _container(value: list[Any] | dict[str, Any]) -> str:
    """Never its content, which may be nested deeper than can be printed."""
    return "a list" if isinstance(value, list) else "an object"
