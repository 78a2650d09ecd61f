"""The door: what users hand in, checked once, before anything is computed or changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from hedgerow.core.arrays import Array, Matrix, canonical, cast, check_finite, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.core.labels import as_labels, classes_of, is_missing
from hedgerow.core.preprocess import parse
from hedgerow.methods import METHODS, Recipe
from hedgerow.methods.build import Options
from hedgerow.learners.readings import Reading, resolve

NUMBERS = ("dim", "rank", "rounds", "C", "mu", "eta", "lam", "refresh_every", "beta", "horizon")
WHOLE = ("dim", "rank", "rounds", "refresh_every")
ALWAYS = ("dim", "rounds", "C", "mu", "eta")  # None is no value for these; for the others the reading decides


def composition(given: Mapping[str, Any]) -> tuple[Recipe, Options]:
    """The recipe and its options from an estimator's parameters, every name and number checked."""
    recipe = METHODS[given["method"]]
    for name in NUMBERS:
        check_number(name, given[name])
    if not given["mu"] >= 0:
        raise InputError(f"mu={given['mu']!r}: the strength of the refresh cannot be negative")
    own = recipe.steps if given["reading"] == "general" else None
    steps = own if given["preprocess"] is None else parse(given["preprocess"])
    chosen = {name: given[name] for name in Reading.__dataclass_fields__ if name in given and name != "preprocess"}
    reading = resolve(given["reading"], given["method"], preprocess=steps, **chosen)
    return recipe, Options(
        reading,
        dim=int(given["dim"]),
        rounds=int(given["rounds"]),
        seed=int(given["random_state"] or 0),
        **{
            name: given[name]
            for name in ("aligner", "C", "mu", "beta", "horizon", "head", "mixer", "loss", "eta", "rank")
        },
    )


def check_number(name: str, value: Any) -> None:
    """A finite number, whole where it counts something; its range is checked where it is used."""
    if value is None and name not in ALWAYS:
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(f"{name}={value!r}: must be a finite number")
    if name in WHOLE and (value != math.floor(value) or value < 1):
        raise InputError(f"{name}={value!r}: must be a whole number, at least 1")


def given_dtype(dtype: Any) -> str | None:
    """float32, float64, or None for as the data comes."""
    if dtype not in (None, "float32", "float64"):
        raise InputError(f"dtype={dtype!r}: use 'float32', 'float64' or None")
    return dtype  # type: ignore[no-any-return]


def one_row(x: Any, m: int, names: Array | None, dtype: np.dtype[Any]) -> Matrix:
    """One instance, a 1-d array, a sparse row or a mapping from feature names: a 1-d array or a sparse 1 x m matrix."""
    if isinstance(x, Mapping):
        x = _from_names(x, names)
    if is_sparse(x):
        row = canonical(cast(x.reshape((1, -1)) if x.ndim == 1 else x, dtype).tocsr())
    else:
        try:
            row = cast(np.asarray(x), dtype)
        except (TypeError, ValueError) as error:
            raise InputError(f"x: not a row of numbers ({error})") from error
        row = row[None] if row.ndim == 1 else row
    if row.shape != (1, m):
        raise InputError(f"x: expected one instance of {m} features, got shape {np.shape(x)}")
    check_finite(row, "x")
    return row if is_sparse(row) else np.ascontiguousarray(row[0])


def _from_names(x: Mapping[Any, Any], names: Array | None) -> list[Any]:
    if names is None:
        raise InputError("x is a mapping, but the model was fitted without feature names; give a 1-d array")
    missing = [name for name in names if name not in x]
    if missing:
        raise InputError(f"x: feature {missing[0]!r} is missing ({len(missing)} in all)")
    return [x[name] for name in names]


def weighted_labels(y: Any, given_weights: Any, length: int) -> tuple[Array, Array | None]:
    """One label a row and how much it counts; a label of weight 0 is as good as missing."""
    given, counted = labels(y, length), weights(given_weights, length)
    if counted is not None and not counted.all():
        given = given.astype(object)
        given[counted == 0] = None
    return given, counted


def labels(y: Any, length: int) -> Array:
    """One label a row; a column of them is taken with a warning."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        y = column_or_1d(y, warn=True)
    return as_labels(y, "y", length)


def weights(given_weights: Any, length: int) -> Array | None:
    """How much each label counts: one finite number >= 0 a row; None is one for all.

    >>> weights([1, 0.5], 2)
    array([1. , 0.5])
    """
    if given_weights is None:
        return None
    try:
        given = np.ascontiguousarray(given_weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight: not numbers ({error}); give one number >= 0 a row") from error
    given = np.full(length, float(given)) if given.ndim == 0 else given
    if given.shape != (length,):
        raise InputError(f"sample_weight: shape {given.shape} for {length} rows; give one number a row")
    bad = np.flatnonzero(~((given >= 0) & np.isfinite(given)))
    if len(bad):
        raise InputError(f"sample_weight: {given[bad[0]]} at row {bad[0]}; a weight is a finite number, not below 0")
    return given


def weight(given: Any) -> float:
    """How much one label counts; None is one."""
    counted = weights(given, 1)
    return 1.0 if counted is None else float(counted[0])


def given_classes(classes: Any) -> Array:
    """The classes that a user fixed, sorted."""
    listed = as_labels(list(classes), "classes")
    if is_missing(listed).any():
        raise InputError(f"classes={list(classes)}: None and NaN stand for a missing label and cannot be a class")
    return classes_of(listed, "classes")


def all_classes(parts: list[Array]) -> Array:
    """The classes of all sources, sorted."""
    if not parts:
        return np.empty(0, dtype=object)
    kinds = {y.dtype.kind for y in parts}
    if len(kinds) == 1:
        return classes_of(np.concatenate(parts), "y")
    mixed = np.concatenate([y.astype(object) for y in parts])
    return classes_of(mixed, "y")


def sample_domains(sample_domain: Any, n: int) -> Array:
    """A whole number a row; without any, all rows are one source."""
    if sample_domain is None:
        return np.zeros(n, dtype=np.int64)
    domain = np.asarray(sample_domain)
    if domain.shape != (n,):
        raise InputError(f"sample_domain: shape {domain.shape} for {n} rows; give one number a row")
    if domain.dtype.kind not in "iuf" or not np.isfinite(domain).all() or (domain != np.floor(domain)).any():
        raise InputError("sample_domain: expected whole numbers (>= 0: source, < 0: unlabelled target)")
    return domain.astype(np.int64)
