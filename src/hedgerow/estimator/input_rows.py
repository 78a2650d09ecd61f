"""Rows that users give: tables, domains and single instances, read by name, checked before anything is computed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from hedgerow.core.arrays import (
    Array,
    Matrix,
    as_array,
    cast,
    check_finite,
    check_mask,
    check_parts,
    checked_csr,
    is_sparse,
)
from hedgerow.core.domains import Domain, same_columns
from hedgerow.core.errors import InputError
from hedgerow.core.feature_names import check_same_order, listed, names_of_row, names_of_table, order_by_name


def matrix(estimator: Any, X: Any, reset: bool, dtype: Any) -> Matrix:
    """A table for an estimator: names, width and numbers checked, in this dtype (None: as it comes).

    With `reset` the estimator takes its width and its names from X; otherwise X has to have them.
    """
    wanted = None if reset else getattr(estimator, "feature_names_in_", None)
    gaps = not reset and estimator.learner_.gaps
    if not reset and _as_the_model_has_it(estimator, X, dtype, wanted):
        check_finite(X, "X", wanted, gaps)
        return X
    names = names_of_table(X, "X")
    if names is not None and wanted is not None:
        check_same_order(names, wanted)
    if is_sparse(X):
        X = checked_csr(X, "X")
    check_mask(X, "X", names)
    with warnings.catch_warnings():
        if names is not None or (getattr(estimator, "_names_of_domains", False) and not reset):
            # a table of a kind that scikit-learn does not know was checked above; and a Domain keeps its names beside
            # its matrix, so a bare matrix of it is no oversight
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        X = validate_data(
            estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False,
            ensure_min_samples=1 if reset else 0,
        )  # fmt: skip
    if reset and names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    X = cast(X, dtype)
    check_finite(X, "X", names if wanted is None else wanted, gaps)
    return X


def _as_the_model_has_it(estimator: Any, X: Any, dtype: Any, names: Array | None) -> bool:
    """Whether nothing but the numbers is to be checked: scikit-learn's looking takes a millisecond a call."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype != dtype or not X.flags.c_contiguous:
        return False
    unnamed = names is None or getattr(estimator, "_names_of_domains", False)  # else scikit-learn warns
    return bool(unnamed and X.shape[1] == estimator.n_features_in_)


def name_features(estimator: Any, names: Sequence[str] | Array) -> None:
    """The names of its numbers, from elsewhere than the rows it is given: bare rows of it are then no oversight."""
    estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator._names_of_domains = True


def domains_alike(sources: Sequence[Domain], warmup: Domain | None) -> tuple[list[Domain], Domain | None, Array | None]:
    """The domains with the same columns in the same order, and the names of these; a source needs labels."""
    given = [*sources, *([warmup] if warmup is not None else [])]
    if not given:
        raise InputError("no domain given; fit_domains needs at least one source or some warm-up rows")
    for d in sources:
        if d.y is None:
            raise InputError(f"source {d.name!r} has no labels; pass it as warm-up, or give its labels")
    alike = same_columns(given)
    names = next((d.feature_names for d in alike if d.feature_names is not None), None)
    found = None if names is None else np.array(names, dtype=object)
    return alike[: len(sources)], None if warmup is None else alike[-1], found


def one_row(x: Any, m: int, names: Array | None, dtype: np.dtype[Any], gaps: bool = False) -> Matrix:
    """One instance: a 1-d array, a sparse row, a Series or a table of one row, a mapping from feature names.

    What has names comes in the model's order (`hedgerow.core.feature_names`); `gaps` allows NaN. The row is
    a 1-d array or a sparse 1 x m matrix.
    """
    if isinstance(x, Mapping):
        x = _from_mapping(x, names)
    if is_sparse(x):
        if x.ndim == 1:
            check_parts(x, "x")
            x = x.reshape((1, -1))
        row = cast(checked_csr(x, "x"), dtype)
    elif type(x) is np.ndarray and x.ndim == 1:  # nothing to look for: neither names nor a mask
        row = _as_numbers(x, dtype)[None]
    else:
        row = _dense_row(x, names, dtype)
    if row.shape != (1, m):
        raise InputError(f"x: expected one instance of {m} features, got shape {np.shape(x)}")
    check_finite(row, "x", names, gaps)
    return row if is_sparse(row) else np.ascontiguousarray(row[0])


def _dense_row(x: Any, names: Array | None, dtype: np.dtype[Any]) -> Array:
    own = None if isinstance(x, np.ndarray | list | tuple) else names_of_row(x)
    check_mask(x, "x", names)
    row = _as_numbers(x, dtype)
    row = row[None] if row.ndim == 1 else row
    if own is not None and names is None:
        warnings.warn("x has feature names, but the model was fitted without feature names", UserWarning, stacklevel=4)
    elif own is not None and names is not None and row.ndim == 2:
        order = order_by_name(own, names, "x", "the model's")
        row = row if order is None else row[:, order]
    return row


def _as_numbers(x: Any, dtype: np.dtype[Any]) -> Array:
    try:
        found = as_array(x)
        if found.dtype.kind == "c":
            raise InputError("x: Complex data not supported; give real numbers")
        return np.asarray(cast(found, dtype))
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"x: not a row of numbers ({error})") from error


def _from_mapping(x: Mapping[Any, Any], names: Array | None) -> list[Any]:
    if names is None:
        raise InputError("x is a mapping, but the model was fitted without feature names; give a 1-d array")
    missing = [name for name in names if name not in x]
    if missing:
        known = set(names)
        raise InputError(
            f"x: missing {listed(missing)}, unexpected {listed(key for key in x if key not in known)}; "
            "give every feature by its name"
        )
    return [x[name] for name in names]


def first_row(x: Any) -> Any:
    """One instance, before any other, as a table of one row that keeps its names."""
    if isinstance(x, Mapping):
        raise InputError("x is a mapping, but no feature names are known yet; fit first, or give a 1-d array")
    if is_sparse(x) or names_of_table(x, "x") is not None:
        return x
    if names_of_row(x) is not None:  # a Series
        return x.to_frame().T
    return np.atleast_2d(np.ma.asanyarray(x) if isinstance(x, np.ma.MaskedArray) else np.asarray(x))
