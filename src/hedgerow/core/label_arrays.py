"""Labels as they are handed in (lists, arrays, columns of pandas, polars and arrow) as one kind of array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError


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
    y = _only_column(y)
    if isinstance(y, np.ma.MaskedArray):
        return _with_none(np.ma.getdata(y), np.ma.getmaskarray(y))
    if not isinstance(y, np.ndarray):
        y = _from_column(y)
    if y.dtype.kind in "mM":  # NumPy would make whole numbers of them
        return _with_none(objects(list(y.ravel())).reshape(y.shape), np.isnat(y))
    return np.asarray(y)


def _only_column(y: Any) -> Any:
    """The column of a table that has one; anything else as it is."""
    if getattr(y, "shape", ())[1:] != (1,) or isinstance(y, np.ndarray):
        return y
    if hasattr(y, "iloc"):  # pandas
        return y.iloc[:, 0]
    return y.to_series() if hasattr(y, "to_series") else y.column(0) if hasattr(y, "column") else y


def _from_column(y: Any) -> Array:
    """A column of pandas, polars or arrow, none of which has to be installed."""
    categories = getattr(y, "cat", y)
    if hasattr(y, "isna") and hasattr(categories, "categories"):  # pandas' categories: the codes know what is missing
        codes = np.asarray(categories.codes)
        missing = codes < 0
        values = np.asarray(categories.categories)
        return _with_none(values[codes], missing) if len(values) else _with_none(codes, missing)
    if hasattr(y, "isna") and not isinstance(getattr(y, "dtype", None), np.dtype):  # pandas' own types
        missing = np.asarray(y.isna())
        return _with_none(y.to_numpy(dtype=object), missing) if missing.any() else np.asarray(y)
    nulls = getattr(y, "null_count", 0)
    if nulls() if callable(nulls) else nulls:  # polars, arrow
        return objects(y.to_list() if hasattr(y, "to_list") else y.to_pylist())
    return np.asarray(y)


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
