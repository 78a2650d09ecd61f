"""Cells into labels and numbers: what every reader does with a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array


def plain_labels(y: Array) -> Array:
    """Labels as they were meant: whole numbers stored as floats or bytes become int64, anything else is kept.

    >>> plain_labels(np.array([1.0, 2.0])), plain_labels(np.array([0.5, 1.0]))
    (array([1, 2]), array([0.5, 1. ]))
    """
    if y.dtype.kind in "iu" or (y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all()):
        return y.astype(np.int64)
    return y


def labels_of_text(cells: Sequence[str]) -> Array:
    """Labels of a text column: int64 if every cell is a whole number, float64 if every cell is a number, else text.

    An empty cell is a label that is not known: None among whole numbers and text, NaN among floats.

    >>> labels_of_text(["1", "2"]), labels_of_text(["1", ""]), labels_of_text(["mug", "bike"])
    (array([1, 2]), array([1, None], dtype=object), array(['mug', 'bike'], dtype='<U4'))
    """
    known = [cell.strip() for cell in cells if cell.strip()]
    values = _as(int, known) or _as(float, known) or known
    if len(known) == len(cells):
        return np.array(values)
    given = iter(values)
    filled = [next(given) if cell.strip() else None for cell in cells]
    return np.array(filled, dtype=np.float64 if known and isinstance(values[0], float) else object)


def _as(kind: type[int] | type[float], cells: list[str]) -> list[Any] | None:
    try:
        return [kind(cell) for cell in cells]
    except ValueError:
        return None
