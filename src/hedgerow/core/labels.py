"""Labels of any hashable kind, and the whole numbers 0..K-1 that the mathematics uses."""

from __future__ import annotations

import datetime
from numbers import Number
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.label_arrays import as_labels as as_labels  # also for those who ask for it here
from hedgerow.core.label_arrays import objects

MISSING = -1  # the code of an instance whose label is not known


def is_missing(labels: Array) -> Array:
    """Where a label is None, NaN or NaT: such an instance is predicted and not learned.

    >>> is_missing(np.array(["a", None], dtype=object))
    array([False,  True])
    """
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind == "O":
        return np.array([_none(item) for item in labels], dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def _none(label: object) -> bool:
    """None, NaN of any number type, NaT, pandas' NA and NumPy's masked (pandas' by name, as it need not be there)."""
    kind = type(label)
    if kind is str or kind is int:  # nearly all are, and a column may be long
        return False
    if label is None or label is np.ma.masked or kind.__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, np.datetime64 | np.timedelta64):
        return bool(np.isnat(label))
    return isinstance(label, Number) and bool(label != label)


def classes_of(labels: Array, what: str) -> Array:
    """The different labels, sorted. Labels that cannot be compared with each other are refused.

    Whole numbers are int64, also where they came as objects or partly as floats; a date is no class.

    >>> classes_of(np.array(["b", "a", "b"]), "y")
    array(['a', 'b'], dtype='<U1')
    """
    try:
        if labels.dtype.kind != "O":
            found = np.unique(labels)
            for label in found[[0, -1]] if found.dtype.kind == "f" and len(found) else ():
                _check_class(label, what)
            return found
        kinds = {_kind(item) for item in labels}
        if len(kinds) > 1:
            raise TypeError
        distinct = sorted(set(labels))
    except TypeError as error:
        if "unhashable" in str(error):
            raise _unhashable(error) from None
        kinds_found = ", ".join(sorted({type(item).__name__ for item in labels}))
        raise InputError(f"{what}: labels of mixed types ({kinds_found}); make them all text or all numbers") from None
    for label in distinct:
        _check_class(label, what)
    whole = [isinstance(label, int | np.integer) and not isinstance(label, bool) for label in distinct]
    if not any(whole):
        return objects(distinct)
    example = f"the other classes are (such as {distinct[whole.index(True)]})"
    return _whole_numbers([_as_whole(label, what, example) for label in distinct])


def _whole_numbers(numbers: list[int]) -> Array:
    return np.array(numbers, dtype=np.int64) if all(-(2**63) <= n < 2**63 for n in numbers) else objects(numbers)


def _check_class(label: Any, what: str) -> None:
    """Refuse what cannot be a class: infinity, dates and durations."""
    if isinstance(label, float | np.floating) and np.isinf(label):
        raise InputError(f"{what}: label {label} is no class; for a label that is not known give None or NaN")
    if isinstance(label, np.datetime64 | np.timedelta64 | datetime.date | datetime.timedelta | datetime.time):
        raise InputError(
            f"{what}: label {str(label)!r} is of type {type(label).__name__}, a date or a time; "
            "give another column, or make it text with y.astype(str)"
        )


def _as_whole(label: Any, what: str, why: str) -> int:
    """A number among whole numbers: 3.0 is 3, and 1.5 is refused."""
    value = plain(label)
    if value != int(value):
        raise InputError(f"{what}: label {value!r} is no whole number, but {why}; round it, or make all labels text")
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
        self._index: dict[Any, int] = {plain(label): i for i, label in enumerate(classes)}
        if len(self._index) != len(classes):
            raise InputError(f"classes: the same label stands there twice: {classes.tolist()}")

    def of(self, labels: Array) -> Array:
        """Codes of the labels: MISSING for none given, NEW for one that is not in the table."""
        if labels.dtype.kind == self.classes.dtype.kind and labels.dtype.kind in "iuU" and len(self.classes):
            return self._of_alike(labels)
        codes, given = np.full(len(labels), MISSING), ~is_missing(labels)
        index, new = self._index, self.NEW
        try:
            codes[given] = [index.get(plain(label), new) for label in labels[given]]
        except TypeError as error:
            raise _unhashable(error) from None
        return codes

    def _of_alike(self, labels: Array) -> Array:
        """Codes of whole numbers among whole numbers, or of text among text: by bisection."""
        order = np.argsort(self.classes, kind="stable")
        found = order[np.minimum(np.searchsorted(self.classes, labels, sorter=order), len(order) - 1)]
        return np.where(self.classes[found] == labels, found, self.NEW)

    def code(self, label: Any) -> int:
        """`of` for one label.

        >>> codes = Codes(np.array([3, 5])); [codes.code(label) for label in (5, np.int64(3), 4, None)]
        [1, 0, -2, -1]
        """
        try:
            found = self._index.get(plain(label), self.NEW)
        except TypeError as error:
            if _none(label):
                return MISSING
            raise _unhashable(error) from None
        return MISSING if found == self.NEW and _none(label) else found

    def unseen(self, labels: Array) -> list[Any]:
        """Labels that are not in the table, each once, in the order of their first appearance."""
        return list(
            dict.fromkeys(label for label, code in zip(labels, self.of(labels), strict=True) if code == self.NEW)
        )

    def grow(self, labels: list[Any]) -> Codes:
        """A table with these labels appended; their type must be that of the others."""
        first = self.classes[0] if len(self.classes) else labels[0]
        for label in labels:
            if _kind(label) is not _kind(first):
                raise InputError(
                    f"label {plain(label)!r} is of type {type(plain(label)).__name__}, the classes so far are of type "
                    f"{type(plain(first)).__name__}; convert it before it is learned"
                )
        if not len(self.classes):
            return Codes(classes_in_order(labels))
        for label in labels:
            _check_class(label, "y")
        labels = self._like_the_classes(labels)
        if self.classes.dtype.kind in "iu":
            return Codes(_whole_numbers([*self.classes.tolist(), *labels]))
        if self.classes.dtype.kind != "O":
            return Codes(np.concatenate([self.classes, np.array(labels)]))
        return Codes(np.concatenate([self.classes, objects(labels)]))

    def _like_the_classes(self, labels: list[Any]) -> list[Any]:
        """New labels in the type of the classes: whole numbers stay whole, and bools are no numbers."""
        first = plain(self.classes[0])
        if isinstance(first, bool):
            others = [plain(label) for label in labels if not isinstance(plain(label), bool)]
            if others:
                raise InputError(f"y: label {others[0]!r} is new, but the classes so far are False and True; "
                                 "make all labels numbers or all bools")  # fmt: skip
        elif isinstance(first, int):
            return [_as_whole(label, "y", f"the classes so far are (such as {first})") for label in labels]
        return labels


def classes_in_order(labels: list[Any]) -> Array:
    """Different labels as classes in the order given, checked as `classes_of` does."""
    found = classes_of(as_labels(labels, "y"), "y")
    place = {plain(label): i for i, label in enumerate(found)}
    return np.asarray(found[[place[plain(label)] for label in labels]])


def plain(label: Any) -> Any:
    """A label as Python's own text or number, where NumPy has wrapped it."""
    return label.item() if isinstance(label, np.generic) else label
