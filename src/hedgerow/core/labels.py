"""Labels of any hashable kind, and the whole numbers 0..K-1 that the mathematics uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError

MISSING = -1  # the code of an instance whose label is not known


def as_labels(y: object, what: str, length: int | None = None) -> Array:
    """y as a 1-d array, one entry an instance; tuples and other hashables are kept as objects.

    >>> as_labels([(1, 2), (3, 4)], "y").shape
    (2,)
    """
    if hasattr(y, "to_numpy"):
        y = y.to_numpy()
    elif hasattr(y, "__array__"):
        y = np.asarray(y)
    if isinstance(y, np.ndarray):
        labels = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    else:
        items = list(y) if isinstance(y, Sequence) or hasattr(y, "__iter__") else [y]
        simple = all(isinstance(item, str | bytes | bool | int | float | np.generic) for item in items)
        kinds = {str if isinstance(item, str) else bytes if isinstance(item, bytes) else float for item in items}
        labels = np.empty(len(items), dtype=object)
        labels[:] = items
        if simple and len(kinds) == 1:
            labels = np.array(items)
    if labels.ndim != 1:
        raise InputError(f"{what}: expected one label an instance, got an array of shape {labels.shape}")
    if length is not None and len(labels) != length:
        raise InputError(f"{what}: {len(labels)} labels for {length} rows; give one label a row")
    return labels


def is_missing(labels: Array) -> Array:
    """Where a label is None or NaN: such an instance is predicted and not learned.

    >>> is_missing(np.array(["a", None], dtype=object))
    array([False,  True])
    """
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind == "O":
        return np.array([_none(item) for item in labels], dtype=bool)
    return np.zeros(len(labels), dtype=bool)


def _none(label: object) -> bool:
    """None, a float NaN, or pandas' NA (known by its name, so that pandas need not be there)."""
    not_a_number = isinstance(label, float | np.floating) and bool(label != label)
    return label is None or not_a_number or type(label).__name__ == "NAType"


def classes_of(labels: Array, what: str) -> Array:
    """The different labels, sorted. Labels that cannot be compared with each other are refused.

    >>> classes_of(np.array(["b", "a", "b"]), "y")
    array(['a', 'b'], dtype='<U1')
    """
    try:
        if labels.dtype.kind != "O":
            return np.unique(labels)
        kinds = {_kind(item) for item in labels}
        if len(kinds) > 1:
            raise TypeError
        distinct = sorted(set(labels))
    except TypeError as error:
        if "unhashable" in str(error):
            raise _unhashable(error) from None
        kinds_found = ", ".join(sorted({type(item).__name__ for item in labels}))
        raise InputError(f"{what}: labels of mixed types ({kinds_found}); make them all text or all numbers") from None
    found = np.empty(len(distinct), dtype=object)
    found[:] = distinct
    return found


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
        missing = is_missing(labels)
        index, new = self._index, self.NEW
        try:
            codes = np.fromiter((index.get(plain(label), new) for label in labels), dtype=np.int64, count=len(labels))
        except TypeError as error:
            raise _unhashable(error) from None
        codes[missing] = MISSING
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
            return Codes(as_labels(labels, "labels"))
        if self.classes.dtype.kind != "O":
            return Codes(np.concatenate([self.classes, np.array(labels)]))
        grown = np.empty(len(self.classes) + len(labels), dtype=object)
        grown[: len(self.classes)] = self.classes
        grown[len(self.classes) :] = labels
        return Codes(grown)


def plain(label: Any) -> Any:
    """A label as Python's own text or number, where NumPy has wrapped it."""
    return label.item() if isinstance(label, np.generic) else label
