"""The array types, dense and sparse, and the one check that every matrix a user gives passes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.core.errors import InputError, require

Array: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = (
    Any  # a dense 2-d array or a scipy CSR matrix; scipy is imported only when somebody uses it
)
FeatureNames: TypeAlias = Sequence[str] | Array
Order: TypeAlias = Literal["C", "F"]

# the largest number that is taken: there is room for the squared length of a row
LARGEST = {
    np.dtype(kind): float(np.sqrt(np.finfo(kind).max) / 2**20) for kind in (np.float32, np.float64)
}

PAGE = 2**21  # bytes of a large page
FILL_GAPS = "drop these rows or fill the gaps first"
DENSE_LIMIT = (
    2**30
)  # bytes; centring makes a sparse matrix dense, and beyond this we refuse to do it unasked


def is_sparse(X: object) -> bool:
    """Whether X is a scipy sparse matrix (without importing scipy for those who have none)."""
    sparse = None if isinstance(X, np.ndarray) else sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def as_narwhals(X: Any, what: str = "X") -> Any:
    """A table or column of pandas, polars or pyarrow as narwhals has it; None for anything else.

    narwhals knows these packages without importing them, and is itself imported only for what may be one of theirs.

    >>> import pandas as pd
    >>> as_narwhals(pd.DataFrame({"a": [1], "b": [2]})).columns, as_narwhals(np.ones(2))
    (['a', 'b'], None)
    """
    kind = type(X)  # of which an attribute is asked for: on a query of polars it would be computed
    if not hasattr(kind, "columns") and not hasattr(kind, "to_numpy"):
        return None
    nw = require("narwhals.stable.v2", extra="files")
    try:
        frame = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    except require("narwhals.exceptions", extra="files").DuplicateError as error:
        twice = [name for name, count in Counter(X.columns).items() if count > 1]
        if not any(
            isinstance(name, str) for name in X.columns
        ):  # columns without names, read by position
            return None
        raise InputError(
            f"{what}: more than one column of the name {twice}; rename them"
        ) from error
    if frame is not X:
        return frame
    if hasattr(
        X, "__arrow_c_stream__"
    ):  # a batch of pyarrow, or another package's table in Arrow's memory
        return nw.from_arrow(X, backend="pyarrow")
    if hasattr(kind, "columns"):
        raise InputError(
            f"{what}: {kind.__name__} is not a table in memory; give one of pandas, polars or pyarrow"
        )
    return None


def canonical(X: Matrix) -> Matrix:
    """X, or if it is sparse and names a feature of a row twice or out of order, a copy that does not."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def columns_at(X: Matrix, places: Sequence[int]) -> Matrix:
    """The columns of X at these places, in this order, in the usual layout of memory."""
    return canonical(X[:, places]) if is_sparse(X) else np.ascontiguousarray(X[:, places])


def dense(X: Matrix) -> Array:
    """X as a dense array; a copy only if it was sparse.

    >>> import scipy.sparse
    >>> dense(scipy.sparse.csr_array([[0.0, 1.0]])).tolist()
    [[0.0, 1.0]]
    """
    return np.asarray(X.toarray() if is_sparse(X) else X)


def densified(X: Matrix, step: str) -> Array:
    """Rows as an array; refused where a step would make an array of a sparse matrix that is too large for it."""
    if not is_sparse(X):
        return np.asarray(X)
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if size > DENSE_LIMIT:
        raise InputError(
            f"preprocessing step {step!r} makes a sparse matrix dense: {X.shape[0]} x {X.shape[1]} would take "
            f"{size / 2**30:.1f} GiB; use preprocess='unit' for sparse data"
        )
    return dense(X)


def on_large_pages(shape: tuple[int, ...], dtype: npt.DTypeLike, order: Order = "C") -> Array:
    """An array without values yet, for what is read at every row: there are fewer large pages to be looked up.

    NumPy asks the system for them from two pages on, and only whole ones are given.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < PAGE // 2:
        return np.empty(shape, dtype=dtype, order=order)
    raw = np.empty(max(size, 2 * PAGE) + PAGE, dtype=np.uint8)
    start = -raw.__array_interface__["data"][0] % PAGE
    return raw[start : start + size].view(dtype).reshape(shape, order=order)


def stack_rows(parts: Sequence[Matrix]) -> Matrix:
    """All rows of all parts, one after the other; CSR if any part is sparse.

    >>> stack_rows([np.ones((1, 2)), np.zeros((1, 2))])
    array([[1., 1.],
           [0., 0.]])
    """
    if any(is_sparse(X) for X in parts):
        import scipy.sparse as sp

        return sp.vstack([sp.csr_array(X) for X in parts], format="csr")
    return np.vstack(parts)


def rows_from(X: Matrix, first: int, last: int) -> Matrix:
    """X[first:last]; all of X is X itself, since a slice of a sparse matrix is a copy."""
    return X if (first, last) == (0, X.shape[0]) else X[first:last]


def check_matrix(X: Matrix, what: str, names: FeatureNames | None = None) -> Matrix:
    """X as a finite float matrix: CSR stays CSR, float32 and float64 are kept, anything else becomes float64.

    `names` are those of the columns, for the errors.

    >>> check_matrix([[1, 2]], "here")
    array([[1., 2.]])
    """
    if is_sparse(X):
        X = checked_csr(X, what)
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
    else:
        A = as_floats(X, what, "a table of numbers", names)
        X = (
            A if isinstance(X, np.ndarray) else np.asarray(A, order="C")
        )  # a table's columns become rows: one layout
    if X.ndim != 2:
        one = X.ndim == 1
        got = (
            f"one row of {len(X)} numbers; give x[None, :]"
            if one
            else f"an array of shape {X.shape}"
        )
        raise InputError(f"{what}: expected a table with a row per instance, got {got}")
    check_finite(X, what, names)
    return X


def as_floats(X: object, what: str, expected: str, names: FeatureNames | None = None) -> Array:
    """X as an array of float32 or float64; an error says that it is not what is `expected`."""
    check_mask(X, what, names)
    try:
        check_no_text(X, what, expected, names)
        A = as_array(X)
        if A.dtype.kind != "c":
            return A if A.dtype in (np.float32, np.float64) else A.astype(np.float64)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{what}: not {expected} ({error})") from error
    raise InputError(f"{what}: Complex data not supported; give real numbers")


def check_no_text(X: object, what: str, expected: str, names: FeatureNames | None = None) -> None:
    """Refuse text, of digits too: what "1" means is for its owner to say."""
    A = np.asarray(X)
    if A.dtype.kind not in "USO":
        return
    if not isinstance(X, np.ndarray):  # NumPy makes text of the numbers beside a text
        A = np.asarray(X, dtype=object)
    for place, value in np.ndenumerate(A):
        if isinstance(value, str | bytes):
            row = f"row {place[0]}, " if len(place) > 1 else ""
            column = column_words(int(place[-1]), names) if place else "its only place"
            raise InputError(
                f"{what}: not {expected}: {value[:40]!r} at {row}{column} is text; convert it to a number, or give a "
                "data frame, whose columns of text are encoded"
            )


def as_array(X: Any) -> Array:
    """X as NumPy reads it, but with pandas' NA as NaN."""
    A = np.asarray(X)
    if A.dtype.kind == "O" and hasattr(X, "isna"):
        return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))
    return A


def check_mask(X: object, what: str, names: FeatureNames | None = None) -> None:
    """Refuse a masked array with a masked value: NumPy would read the value that the mask hides."""
    mask = np.ma.getmask(X) if isinstance(X, np.ma.MaskedArray) else np.ma.nomask
    if mask is np.ma.nomask or not mask.any():
        return
    places = np.argwhere(np.atleast_2d(mask))
    row = places[0][0]
    column = column_words(int(places[0][-1]), names)
    raise InputError(
        f"{what}: a masked value at row {row}, {column} ({len(places)} such values in all); {FILL_GAPS}"
    )


def column_words(column: int, names: FeatureNames | None) -> str:
    """A column by its name, or by its number where it has none.

    >>> column_words(1, ("width", "height")), column_words(1, None)
    ("column 'height'", 'column 1')
    """
    return (
        f"column {column}"
        if names is None or column >= len(names)
        else f"column {str(names[column])!r}"
    )


def check_finite(
    X: Matrix, what: str, names: FeatureNames | None = None, gaps: bool = False
) -> None:
    """Refuse NaN, infinity and numbers whose squares overflow; name the first by row and column. `gaps` allows NaN."""
    values = X.data if is_sparse(X) else X
    largest = LARGEST[values.dtype]
    flat = values.ravel(order="K")
    if np.vdot(flat, flat) <= largest**2:  # flat.dot would warn of an overflow
        return
    with np.errstate(over="ignore", invalid="ignore"):
        small = np.abs(flat) <= largest
        if small.all() or (gaps and not is_sparse(X) and (small | np.isnan(flat)).all()):
            return
    if gaps and not is_sparse(X):
        X = np.where(np.isnan(X), X.dtype.type(0), X)
    coo = X.tocoo() if is_sparse(X) else None
    data = X if coo is None else coo.data
    bad = ~np.isfinite(data)
    where = np.argwhere(bad if bad.any() else ~(np.abs(data) <= largest))
    value = data[tuple(where[0])]
    row, column = where[0] if coo is None else (coo.row[where[0][0]], coo.col[where[0][0]])
    place = f"row {row}, {column_words(int(column), names)}"
    if np.isfinite(value):
        problem = f"{value:g} at {place} is too large for {data.dtype} (its square overflows)"
        raise InputError(f"{what}: {problem}; rescale the features first")
    name = "NaN" if np.isnan(value) else "infinity"
    raise InputError(
        f"{what}: contains {name} at {place} ({len(where)} such values in all); {FILL_GAPS}"
    )


def cast(X: Matrix, dtype: Any) -> Matrix:
    """X in this dtype (None: as it is); what does not fit becomes infinity, for `check_finite` to find."""
    if dtype is None or X.dtype == dtype:
        return X
    with np.errstate(over="ignore"):
        return X.astype(dtype)


# Sparse matrices from users: compiled code trusts their parts, so these are checked and brought into one form.


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
    fresh = check_parts(X, what)
    if X.ndim != 2:
        raise InputError(
            f"{what}: expected a table with a row per instance, got a sparse array of shape {X.shape}"
        )
    if X.format != "csr":
        X = X.tocsr()
        fresh = check_parts(X, what)  # those of a list of lists or a dictionary are seen here only
    if len(X.data) == len(fresh.data) and fresh.has_canonical_format:
        return X
    out = fresh.copy()
    out.sum_duplicates()
    return out


def _good_row(X: Any) -> bool:
    """Whether X is one well-formed row: the check of the live path, in few steps."""
    if X.format != "csr" or X.ndim != 2 or X.shape[0] != 1:
        return False
    data = np.asarray(X.data)
    indices = np.asarray(X.indices)
    indptr = np.asarray(X.indptr)
    n = len(indices)
    if n < 2 or indices.dtype.kind not in "iu" or indices.ndim != 1 or data.shape != indices.shape:
        return False
    if (
        indptr.shape != (2,)
        or indptr[0] != 0
        or indptr[1] != n
        or indices[0] < 0
        or indices[-1] >= X.shape[1]
    ):
        return False
    return bool((indices[1:] > indices[:-1]).all())


def check_parts(X: Any, what: str) -> Any:
    """Refuse indices out of range, row pointers that do not climb from 0, and parts of different length.

    The matrix is made anew of its parts: scipy's check may shorten them, and what X remembers about their order may be
    out of date.
    """
    names = {"coo": ("data", "coords"), "dia": ("data", "offsets")}.get(
        X.format, ("data", "indices", "indptr")
    )
    if not all(hasattr(X, name) for name in names):  # a list of lists, or a dictionary
        return X
    parts = tuple(getattr(X, name) for name in names)
    try:
        if any(np.asarray(part).dtype.kind not in "iu" for part in parts[1:]):
            raise ValueError("its indices are not whole numbers")
        fresh = type(X)(parts, shape=X.shape)
        if "indptr" in names:
            if (X.indptr[1:] < X.indptr[:-1]).any():
                raise ValueError("its row pointers do not climb from 0")
            fresh.check_format(full_check=True)
    except ValueError as error:
        raise InputError(
            f"{what}: a damaged sparse matrix: {error}; build it again, for instance from its dense rows"
        ) from error
    return fresh
