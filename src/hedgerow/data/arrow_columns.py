"""Columns of pyarrow from and into arrays and lists.

They are made of their buffers: `pyarrow.array`, `scalar` and `to_numpy` import pandas where that is installed, which
takes longer than most of what is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array


def numbers_of(column: Any) -> Array:
    """A pyarrow array of numbers, its nulls as they happen to be stored, without copying."""
    kind = np.dtype(column.type.to_pandas_dtype())
    data = column.buffers()[1]
    if data is None:  # nothing but nulls
        return np.zeros(len(column), kind)
    return np.frombuffer(data, kind, len(column), column.offset * kind.itemsize)


def nulls_of(column: Any) -> Array:
    """Where a pyarrow array has nulls."""
    return numbers_of(column.is_null().cast("uint8")).astype(bool)


def column_of(pa: Any, values: Array) -> Any:
    """A pyarrow array of an array of numbers."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def texts_column(pa: Any, texts: Sequence[str]) -> Any:
    """A pyarrow array of texts."""
    whole = "".join(texts)
    lengths = map(len, texts) if whole.isascii() else (len(text.encode()) for text in texts)
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(lengths, np.int32, len(texts)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(whole.encode()))


def matrix_of(table: Any, width: int) -> Array:
    """The first columns of a pyarrow table, floats without nulls, as the columns of an array."""
    X = np.empty((table.num_rows, width))
    first = 0
    for batch in table.to_batches():
        last = first + batch.num_rows
        for j in range(width):
            X[first:last, j] = numbers_of(batch.column(j))
        first = last
    return X


def mapped(column: Any, of: Callable[[Any], Any]) -> list[Any]:
    """A pyarrow column through a function that is called once for each distinct value."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = whole.dictionary_encode()
    values = [of(value) for value in encoded.dictionary.to_pylist()]
    codes = numbers_of(encoded.indices)
    if encoded.null_count:
        codes = np.where(nulls_of(encoded), len(values), codes)
        values.append(of(None))
    return list(map(values.__getitem__, codes.tolist()))
