"""Labels of any hashable kind, and the whole numbers 0..K-1 that the mathematics uses."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, as_narwhals
from hedgerow.core.errors import InputError
from hedgerow.core.values import is_gap


# Labels as they are handed in (lists, arrays, columns of pandas, polars and arrow) as one kind of array.
def as_labels(y: object, what: str, length: int | None = None) -> Array:
    """y as a 1-d array, one entry an instance; tuples and other hashables are kept as objects.

    Where something is missing (pandas' NA, a null of polars or arrow, a masked entry) the others stay what they are,
    and None stands for it: whole numbers do not become floats.

    >>> as_labels([(1, 2), (3, 4)], "y").shape
    (2,)
    """
    labels = _from_array(y) if isinstance(y, np.ndarray) or hasattr(y, "__array__") else _from_items(y)
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise InputError(f"{what}: expected one label an instance, got an array of shape {labels.shape}")
    if length is not None and len(labels) != length:
        raise InputError(f"{what}: {len(labels)} labels for {length} rows; give one label a row")
    return labels


def _from_array(y: Any) -> Array:
    """An array or a column of a table; what is missing is None, and the rest keeps its type."""
    if isinstance(y, np.ma.MaskedArray):
        return _with_none(np.ma.getdata(y), np.ma.getmaskarray(y))
    if not isinstance(y, np.ndarray):
        y = _from_column(y)
    if y.dtype.kind in "mM":  # NumPy would make whole numbers of them
        return _with_none(objects(list(y.ravel())).reshape(y.shape), np.isnat(y))
    return np.asarray(y)


def _from_column(y: Any) -> Array:
    """A column of pandas, polars or pyarrow, a table of one column, or what NumPy can read."""
    column = as_narwhals(y, "y")
    if column is not None and column.shape[1:] == (1,):
        column = column[column.columns[0]]
    if column is None or len(column.shape) > 1:
        values, items = np.asarray(y), getattr(y, "tolist", None)
        nulls = values.ndim == 1 and bool(is_missing(values).any())
    else:
        values, items = column.to_numpy(), column.to_list
        nulls = column.null_count() > 0 and not column.dtype.is_float()  # a float has NaN for it
    if not nulls or items is None:
        return values
    return objects([None if is_gap(item) else item for item in items()])


def _from_items(y: Any) -> Array:
    items = list(y) if isinstance(y, Sequence) or hasattr(y, "__iter__") else [y]
    simple = all(isinstance(item, str | bytes | bool | int | float | np.generic) for item in items)
    kinds = {str if isinstance(item, str) else bytes if isinstance(item, bytes) else float for item in items}
    return _from_array(np.array(items)) if simple and len(kinds) == 1 else objects(items)


def _with_none(values: Array, missing: Array) -> Array:
    if not missing.any():
        return values
    out = values.astype(object)
    out[missing] = None
    return out


def objects(items: Sequence[Any]) -> Array:
    """Items of any kind as a 1-d array of objects.

    >>> objects([(1, 2), (3, 4)]).shape
    (2,)
    """
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


# Labels to JSON and back, as they were.
KINDS = "iufbU"  # types that labels can have beside objects


def labels_to_json(labels: Array) -> dict[str, Any]:
    """Labels with what is needed to give them back as they were.

    >>> labels_from_json(labels_to_json(np.array([2, 3])))
    array([2, 3])
    """
    return {"dtype": labels.dtype.str if labels.dtype.kind != "O" else "O", "values": labels.tolist()}


def labels_from_json(data: Mapping[str, Any]) -> Array:
    """The inverse of `labels_to_json`; what cannot be labels is a ValueError."""
    values = data["values"]
    labels = np.empty(len(values), dtype=object)
    labels[:] = [_label(value) for value in values]
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
        self.labels = [plain(label) for label in classes]
        self._index: dict[Any, int] = {label: i for i, label in enumerate(self.labels)}
        if len(self._index) != len(classes):
            raise InputError(f"classes: the same label stands there twice: {classes.tolist()}")

    def of(self, labels: Array) -> Array:
        """Codes of the labels: MISSING for none given, NEW for one that is not in the table."""
        if labels.dtype.kind == self.classes.dtype.kind and labels.dtype.kind in "iuU" and len(self.classes):
            return self._of_alike(labels)
        codes, known = np.full(len(labels), MISSING), ~is_missing(labels)
        index, new = self._index, self.NEW
        try:
            codes[known] = [index.get(plain(label), new) for label in labels[known]]
        except TypeError as error:
            raise _unhashable(error) from None
        return codes

    def _of_alike(self, labels: Array) -> Array:
        """Codes of whole numbers among whole numbers, or of text among text: by bisection."""
        order = np.argsort(self.classes, kind="stable")
        codes = order[np.minimum(np.searchsorted(self.classes, labels, sorter=order), len(order) - 1)]
        return np.where(self.classes[codes] == labels, codes, self.NEW)

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
        return list(
            dict.fromkeys(label for label, code in zip(labels, self.of(labels), strict=True) if code == self.NEW)
        )

    def grow(self, labels: list[Any]) -> Codes:
        """A table with these labels appended; their type must be that of the others."""
        new = [plain(label) for label in labels]
        first = plain(self.classes[0]) if len(self.classes) else new[0]
        for given, label in zip(labels, new, strict=True):
            _check_class(given, "y")  # a date of NumPy is no plain number yet
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
            whole = [_as_whole(label, "y", f"the classes so far are (such as {first})") for label in new]
            return Codes(_whole_numbers([*self.classes.tolist(), *whole]))
        return Codes(np.concatenate([self.classes, objects(new) if self.classes.dtype.kind == "O" else np.array(new)]))


def plain(label: Any) -> Any:
    """A label as Python's own text or number, where NumPy has wrapped it."""
    return label.item() if isinstance(label, np.generic) else label
