"""Labels to JSON and back, as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.labels import is_missing

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
