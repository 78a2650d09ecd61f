"""Labels, weights and numbers of sources that users give, checked once, before anything is computed or changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from hedgerow.core.arrays import Array, as_array, check_mask
from hedgerow.core.errors import InputError
from hedgerow.core.labels import as_labels, classes_of, is_missing, plain
from hedgerow.core.moments import Moments

LIGHTEST, HEAVIEST = 1e-6, 1e6  # weights beyond lose all digits beside others, or leave the others none
DOMAIN_NUMBERS = "whole numbers (>= 0: the number of a source, < 0: unlabelled target)"
NEW_CLASSES = 1_000  # that a stream may bring unasked, beside those of the sources
SOURCE_CLASSES = 10_000  # that sources may have unasked


def given_dtype(dtype: Any) -> str | None:
    """float32, float64, or None for as the data comes."""
    if dtype not in (None, "float32", "float64"):
        raise InputError(f"dtype={dtype!r}: use 'float32', 'float64' or None")
    return dtype  # type: ignore[no-any-return]


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
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel().", DataConversionWarning, stacklevel=3,
        )  # fmt: skip
    return as_labels(y, "y", length)


def check_targets(known: Array) -> None:
    """Refuse labels that are measurements: fractions, of which there is no end."""
    if known.dtype.kind == "f" and np.isfinite(known).all():  # infinity is refused where classes are found
        check_classification_targets(known)


def weights(given_weights: Any, length: int, looked_at: Array | None = None) -> Array | None:
    """How much each label counts, one number a row: 0 (not at all), or LIGHTEST to HEAVIEST; None is one for all.

    Weights that are not `looked_at` (those of unlabelled rows) may be anything.

    >>> weights([1, 0.5], 2)
    array([1. , 0.5])
    """
    if given_weights is None:
        return None
    try:
        check_mask(given_weights, "sample_weight")
        given = np.array(as_array(given_weights), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"sample_weight: not numbers ({error}); give one number >= 0 a row") from error
    given = np.full(length, float(given)) if given.ndim == 0 else given
    if given.shape != (length,):
        raise InputError(f"sample_weight: shape {given.shape} for {length} rows; give one number a row")
    good = (given == 0) | ((given >= LIGHTEST) & (given <= HEAVIEST))
    bad = np.flatnonzero(~good if looked_at is None else ~good & looked_at)
    if len(bad):
        raise InputError(
            f"sample_weight: {given[bad[0]]} at row {bad[0]}; a weight is 0 or between {LIGHTEST:g} and {HEAVIEST:g}: "
            "divide all weights by their mean, or give 0 for a label that does not count"
        )
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
    check_mask(sample_domain, "sample_domain")
    domain = as_array(sample_domain)
    if domain.shape != (n,):
        raise InputError(f"sample_domain: shape {domain.shape} for {n} rows; give one number a row")
    if domain.dtype.kind not in "iuf":
        raise InputError(f"sample_domain: of type {domain.dtype}; give {DOMAIN_NUMBERS}")
    largest = 2**53 if domain.dtype.kind == "f" else 2**63 - 1  # beyond, floats skip whole numbers
    bad = np.flatnonzero(~((domain == np.floor(domain)) & (domain <= largest) & (domain >= -largest)))
    if len(bad):
        raise InputError(f"sample_domain: {domain[bad[0]]} at row {bad[0]}; give {DOMAIN_NUMBERS}")
    return domain.astype(np.int64)


def check_target_rows(sample_domain: Any, n: int, allow_source: bool) -> None:
    """Refuse rows of sources where those of the target are to be predicted, unless they are allowed."""
    if sample_domain is None:
        return
    found = np.flatnonzero(sample_domains(sample_domain, n) >= 0)
    if len(found) and not allow_source:
        raise InputError(
            f"sample_domain: row {found[0]} is of a source (>= 0), and predictions are for the target; leave such rows "
            "out, or say allow_source=True to have them predicted as if they were the target's"
        )


def check_new_classes(max_classes: int | None, of_sources: int, known: int, new: Sequence[Any] | Array) -> None:
    """Refuse the label that is one class too many, before the model makes room for it.

    `of_sources` is the number of classes that the sources have; without `max_classes` a stream may add NEW_CLASSES.
    """
    limit = of_sources + NEW_CLASSES if max_classes is None else max_classes
    if known + len(new) > limit:
        whose = f"{limit} without max_classes" if max_classes is None else f"max_classes={max_classes}"
        first = max(limit, known)  # the number of classes before the one too many
        raise InputError(
            f"y: label {plain(new[first - known])!r} would be class {first + 1}, and the limit is {whose}; "
            f"is this the column of labels? If it is, set_params(max_classes={2 * first}) allows more"
        )


def check_classes(max_classes: int | None, classes: Array, listed: bool) -> None:
    """Refuse more classes than `max_classes` at the start; without it more than SOURCE_CLASSES, unless listed."""
    limit = max_classes if max_classes is not None else len(classes) if listed else SOURCE_CLASSES
    if len(classes) > limit:
        whose = f"{limit} without max_classes" if max_classes is None else f"max_classes={max_classes}"
        raise InputError(
            f"y: {len(classes)} classes (the last is {plain(classes[-1])!r}), and the limit is {whose}; "
            f"is this the column of labels? If it is, max_classes={len(classes)} allows them"
        )


def classes_met(sources: Sequence[Moments]) -> int:
    """How many classes any of the sources has."""
    return int(np.any([source.class_counts > 0 for source in sources], axis=0).sum()) if sources else 0


def source_rows(domain: Array, weight: Array | None) -> list[tuple[str, Array]]:
    """The rows of each source by its number, without those of weight 0."""
    found = []
    for i in np.unique(domain[domain >= 0]):
        at = np.flatnonzero(domain == i)
        kept = at if weight is None else at[weight[at] > 0]
        if not len(kept):
            raise InputError(f"sample_weight: every weight of source '{i}' is zero; leave its rows out, or weigh one")
        found.append((str(i), kept))
    return found
