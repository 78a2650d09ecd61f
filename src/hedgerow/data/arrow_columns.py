"""Columns of pyarrow into arrays and lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.arrays import Array


def matrix_of(table: Any, width: int) -> Array:
    """The first columns of a pyarrow table, numbers without nulls, as the columns of an array."""
    X = np.empty((table.num_rows, width))
    first = 0
    for batch in table.to_batches():
        last = first + batch.num_rows
        for j in range(width):
            X[first:last, j] = batch.column(j).to_numpy()
        first = last
    return X


def mapped(column: Any, of: Any) -> list[Any]:
    """A pyarrow column through a function that is called once for each distinct value."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    encoded = whole.dictionary_encode()
    values = [of(value) for value in encoded.dictionary.to_pylist()]
    if encoded.null_count:
        values.append(of(None))
        codes = encoded.indices.fill_null(len(values) - 1)
    else:
        codes = encoded.indices
    return list(map(values.__getitem__, codes.to_numpy().tolist()))
