"""Sparse matrices from users: their parts are checked, since compiled code trusts them, and brought into one form."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.errors import InputError


def checked_csr(X: Any, what: str) -> Any:
    """X as CSR, every row's columns in order and each once: X itself if it is so already, otherwise a copy.

    A matrix whose parts do not fit together is refused.

    >>> import scipy.sparse as sp
    >>> turned = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    >>> checked_csr(turned, "X").indices.tolist()
    [0, 1]
    """
    if _good_row(X):
        return X
    check_parts(X, what)
    if X.ndim != 2:
        raise InputError(f"{what}: expected a table with a row per instance, got a sparse array of shape {X.shape}")
    if X.format != "csr":
        X = X.tocsr()
        check_parts(X, what)  # those of a list of lists or a dictionary are seen here only
    stored = int(X.indptr[-1])
    if len(X.data) == stored and _increasing(X.indices, X.indptr):
        return X
    parts = X.data[:stored].copy(), X.indices[:stored].copy(), X.indptr.copy()
    out = type(X)(parts, shape=X.shape)  # a new one: what X remembers about its order may be out of date
    out.sum_duplicates()
    return out


def _good_row(X: Any) -> bool:
    """Whether X is one well-formed row: the check of the live path, in few steps."""
    if X.format != "csr" or X.ndim != 2 or X.shape[0] != 1:
        return False
    data, indices, indptr = np.asarray(X.data), np.asarray(X.indices), np.asarray(X.indptr)
    n = len(indices)
    if n < 2 or indices.dtype.kind not in "iu" or indices.ndim != 1 or data.shape != indices.shape:
        return False
    if indptr.shape != (2,) or indptr[0] != 0 or indptr[1] != n or indices[0] < 0 or indices[-1] >= X.shape[1]:
        return False
    return bool((indices[1:] > indices[:-1]).all())


def check_parts(X: Any, what: str) -> None:
    """Refuse indices out of range, row pointers that do not climb from 0, and parts of different length."""
    if X.format in ("csr", "csc") and X.ndim == 2:
        _check_compressed(X, what)
    elif X.format == "coo":
        for axis, (index, size) in enumerate(zip(X.coords, X.shape, strict=True)):
            _check_index(np.asarray(index), size, len(X.data), f"coords[{axis}]", what)
    elif X.format == "dia":
        if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1]:
            raise _damaged(what, f"{X.offsets.shape} offsets for diagonals of shape {X.data.shape}")
    elif X.format in ("bsr", "csr"):  # blocks, or one row: scipy's own check, on a copy since it may shorten the parts
        try:
            X.copy().check_format(full_check=True)
        except ValueError as error:
            raise _damaged(what, str(error)) from error


def _check_compressed(X: Any, what: str) -> None:
    rows, columns = X.shape if X.format == "csr" else X.shape[::-1]
    data, indices, indptr = np.asarray(X.data), np.asarray(X.indices), np.asarray(X.indptr)
    if data.ndim != 1 or indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise _damaged(what, f"indptr is of type {indptr.dtype} and shape {indptr.shape}, data of shape {data.shape}")
    if len(indptr) != rows + 1:
        raise _damaged(what, f"indptr has {len(indptr)} entries and should have {rows + 1}")
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise _damaged(what, "indptr does not climb from 0")
    if indptr[-1] > len(indices):
        raise _damaged(what, f"indptr ends at {indptr[-1]}, but {len(indices)} indices are stored")
    _check_index(indices, columns, len(data), "indices", what)


def _check_index(index: Any, size: int, stored: int, name: str, what: str) -> None:
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise _damaged(what, f"{name} is of type {index.dtype} and shape {index.shape}")
    if len(index) != stored:
        raise _damaged(what, f"{len(index)} {name} for {stored} values")
    if len(index) and (index.min() < 0 or index.max() >= size):
        bad = int(np.flatnonzero((index < 0) | (index >= size))[0])
        raise _damaged(what, f"{name}[{bad}] is {index[bad]}, which is not in 0..{size - 1}")


def _increasing(indices: Any, indptr: Any) -> bool:
    """Whether the indices grow within each row."""
    if len(indices) < 2:
        return True
    grows = indices[1:] > indices[:-1]
    if len(indptr) > 2:
        starts = indptr[1:-1]
        grows[starts[(starts > 0) & (starts < len(indices))] - 1] = True  # from one row to the next they may fall
    return bool(grows.all())


def _damaged(what: str, detail: str) -> InputError:
    return InputError(f"{what}: a damaged sparse matrix: {detail}; build it anew, for instance from its dense rows")
