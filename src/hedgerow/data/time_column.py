"""A column that says when: rows are put into its order, and it is no feature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.core.frame import Frame, is_gap
from hedgerow.core.values import DATE_FORMS, as_float, moment
from hedgerow.data.readers import read


def read_timed(path: Path, label: str | None, time: str, name: str) -> tuple[Domain, Array | None]:
    """A file as a domain without its time column, and the times as they are written; None if it has no such column."""
    found = read(path, label=label, name=name)
    names = [str(column) for column in found.feature_names or ()]
    if time not in names:
        return found, None
    if len(names) == 1:
        raise InputError(f"{path}: no column but the time {time!r} and the label; there are no features")
    at, rest = names.index(time), [i for i, column in enumerate(names) if column != time]
    kept = tuple(names[i] for i in rest)
    X = found.X
    if isinstance(X, Frame):
        table = Frame(kept, tuple(X.columns[i] for i in rest), X.lines, X.unit)
        return Domain(name, table, found.y), X.columns[at]
    return Domain(name, np.ascontiguousarray(X[:, rest]), found.y, feature_names=kept), np.asarray(X[:, at])


def order_in_time(times: Sequence[Any] | Array, column: str, where: str) -> Array:
    """The order of the rows by their times: numbers, or dates of one of `DATE_FORMS`; equal ones stay as they are.

    >>> order_in_time(["10", "9", "10.5"], "t", "x.csv").tolist()
    [1, 0, 2]
    >>> order_in_time(["2024-03-01", "2024-02-28T12:00"], "t", "x.csv").tolist()
    [1, 0]
    """
    values = np.asarray(times)
    if values.dtype.kind in "Mmiuf":
        bad = np.flatnonzero(values != values)  # NaN and NaT
        if len(bad):
            raise InputError(f"{where}, column {column!r}: no time in row {bad[0] + 1}; drop the row or fill it")
        return np.argsort(values, kind="stable")
    for row, value in enumerate(values.tolist(), start=1):
        if is_gap(value):
            raise InputError(f"{where}, column {column!r}: no time in row {row}; drop the row or fill it")
    cells = values.tolist()
    seconds = next((read for form in ("number", *DATE_FORMS) if None not in (read := _times(cells, form))), None)
    if seconds is None:
        known = [_times(cells, form) for form in ("number", *DATE_FORMS)]
        row = max(times.index(None) for times in known)  # the first that the form of those before it does not fit
        raise InputError(
            f"{where}, column {column!r}: {str(cells[row])!r} in row {row + 1} is no time; write numbers, or dates as "
            "2024-03-01 or 2024-03-01T12:30:00"
        )
    return np.argsort(np.array(seconds, dtype=float), kind="stable")


def _times(cells: list[Any], form: str) -> list[float | None]:
    """The cells as times of one form; None for what is none."""
    if form != "number":
        return [moment(cell, form) for cell in cells]
    return [value if value is not None and math.isfinite(value) else None for value in map(as_float, cells)]
