"""A column that says when: rows are put into its order, and it is no feature."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.data.columns import labels_of_text
from hedgerow.data.csv_records import DELIMITERS
from hedgerow.data.inputs import format_of, is_pattern
from hedgerow.data.open_files import Files
from hedgerow.data.readers import read
from hedgerow.data.row_blocks import Wanted, open_rows
from hedgerow.data.tables import columns, labels_of_values


def read_timed(path: Path, label: str | None, time: str, name: str) -> tuple[Domain, list[str] | None]:
    """A file as a domain without its time column, and the times as they are written; None if it has no such column."""
    path = path.expanduser()
    is_table = path.is_dir() or is_pattern(str(path)) or format_of(path) is not None
    names = columns(Files.of(str(path), None), label) if is_table else []
    if time not in names:
        return read(path, label=label, name=name), None
    features = [column for column in names if column != time]
    if not features:
        raise InputError(f"{path}: no column but the time {time!r} and the label; there are no features")
    parts: list[Array] = []
    labels: list[Any] = []
    times: list[str] = []
    with open_rows(str(path), Wanted(len(features), features, label, None, id=time)) as rows:
        for block in rows:
            if block.bad:
                raise InputError(f"{block.file}: line {block.bad[0].line}: {block.bad[0].reason}; mend or drop the row")
            parts.append(block.X)
            labels += block.labels or ()
            times += block.ids or ()
        text = rows.format in DELIMITERS
    if not times:
        raise InputError(f"{path}: no rows; a domain needs at least one instance")
    y = None if label is None else labels_of_text(labels) if text else labels_of_values(labels)
    return Domain(name, np.concatenate(parts), y, feature_names=tuple(features)), times


def order_in_time(times: Sequence[Any] | Array, column: str, where: str) -> Array:
    """The order of the rows by their times: numbers, or dates as ISO 8601 writes them; equal ones stay as they are.

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
    read_all = [_number(text) for text in values.tolist()]
    if any(number is None for number in read_all):
        read_all = [_date(text, i, column, where) for i, text in enumerate(values.tolist(), start=1)]
    return np.argsort(np.array(read_all, dtype=float), kind="stable")


def _number(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if np.isfinite(number) else None


def _date(text: Any, row: int, column: str, where: str) -> float:
    try:
        date = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
    except ValueError:
        raise InputError(
            f"{where}, column {column!r}: {str(text)!r} in row {row} is no time; write numbers, or dates as "
            "2024-03-01 or 2024-03-01T12:30:00"
        ) from None
    return (date.replace(tzinfo=None) - (date.utcoffset() or date - date) - datetime(1970, 1, 1)).total_seconds()
