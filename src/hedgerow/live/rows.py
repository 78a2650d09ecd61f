"""Rows and labels as the journal keeps them."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.core.labels import is_missing, plain

DENSE, SPARSE = b"d", b"s"


def row_to_bytes(row: Matrix) -> bytes:
    """One row: a 1-d array, or a sparse 1 x m matrix.

    >>> row_of_bytes(row_to_bytes(np.array([1.0, 2.0])), 2, np.dtype("float64"))
    array([1., 2.])
    """
    if is_sparse(row):
        row = sparse.csr_matrix(row)
        return bytes(SPARSE + np.int64(row.nnz).tobytes() + row.indices.astype(np.int64).tobytes() + row.data.tobytes())
    return DENSE + np.ascontiguousarray(row).tobytes()


def row_of_bytes(data: bytes, width: int, dtype: np.dtype[Any]) -> Matrix:
    """The inverse, for a model of this width and type."""
    if data[:1] == DENSE:
        return np.frombuffer(data, dtype=dtype, offset=1).copy()  # aligned, as compiled loops expect it
    count = int(np.frombuffer(data, dtype=np.int64, offset=1, count=1)[0])
    indices = np.frombuffer(data, dtype=np.int64, offset=9, count=count)
    values = np.frombuffer(data, dtype=dtype, offset=9 + 8 * count).copy()
    return sparse.csr_matrix((values, indices, [0, count]), shape=(1, width))


def rows_together(rows: list[Matrix]) -> Matrix:
    """Rows as one matrix."""
    return sparse.csr_matrix(sparse.vstack(rows)) if is_sparse(rows[0]) else np.stack(rows)


def rows_apart(X: Matrix) -> list[Matrix]:
    """The rows of a matrix, as `row_to_bytes` takes them."""
    return [X[i] for i in range(X.shape[0])]


def digest_of(data: bytes) -> bytes:
    """A short digest of a row: the same id may be asked again for the same row only."""
    return hashlib.blake2b(data, digest_size=8).digest()


def label_to_json(label: Any) -> str:
    """A label as text; None and NaN are null.

    >>> label_to_json(np.int64(3)), label_to_json(("a", 1)), label_to_json(None)
    ('3', '["a", 1]', 'null')
    """
    label = plain(label)
    if isinstance(label, str) or type(label) is int:
        return _text_of(label)
    if label is None or bool(is_missing(_one(label))[0]):
        return "null"
    try:
        return json.dumps(label, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"label {_shown(label)} of type {type(label).__name__} cannot be kept; use text, a number, or a tuple of "
            "these"
        ) from None


@lru_cache(maxsize=10_000, typed=True)
def _text_of(label: str | int) -> str:
    try:
        if isinstance(label, str) and "\0" in label:
            raise InputError(f"label {label!r} has a NUL character, which is lost in an array of text; leave it out")
        text = json.dumps(label)
        str(label).encode()  # half of a surrogate pair cannot be written to any file
    except UnicodeEncodeError:
        raise InputError(f"label {label!r} is no text that UTF-8 can write; give it in another form") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("a label is a number of more digits than Python writes; make it text") from None
    return text


def _shown(label: Any) -> str:
    try:
        return repr(label)[:200]
    except (ValueError, RecursionError):
        return "(too large to be shown)"


def _one(label: Any) -> Array:
    array = np.empty(1, dtype=object)
    array[0] = label
    return array


@lru_cache(maxsize=10_000)
def label_of_json(text: str) -> Any:
    """The inverse."""
    return _hashable(json.loads(text))


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


def labels_together(labels: list[Any]) -> Array:
    """Labels as the array that a block is learned with: of whole numbers or of text where all are, else of objects.

    >>> labels_together([1, 2]), labels_together([1, None])
    (array([1, 2]), array([1, None], dtype=object))
    """
    kinds = set(map(type, labels))
    if (kinds == {str} and "\0" not in "".join(labels)) or (
        kinds == {int} and all(-(2**63) <= edge < 2**63 for edge in (min(labels), max(labels)))
    ):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
