"""Files, tables and arrays to a task: sources, unlabelled rows, and a stream in its order in time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.domains import Domain, same_columns, split
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.labels import is_missing
from hedgerow.data import read
from hedgerow.data.inputs import stem
from hedgerow.data.named_files import read_unlabelled, unique_names
from hedgerow.data.time_column import order_in_time, read_timed
from hedgerow.estimator.table_rows import need_encoder
from hedgerow.experiment.trials import TransferTask

Given = Any  # a Domain, a file name, a table with names, or (X, y)


def task_of(
    sources: Mapping[str, Given] | Sequence[Given],
    stream: Given,
    label: str | None = None,
    unlabelled: Given | None = None,
    warmup: float | None = None,
    time: str | None = None,
) -> TransferTask:
    """Everything read, the columns matched by name, the stream in its order, its first rows taken as warm-up."""
    if unlabelled is not None and warmup:
        raise InputError(f"warmup={warmup} and unlabelled rows: give one of them")
    named = _named(sources)
    if not named:
        raise InputError("no source: a comparison needs at least one labelled source")
    before = [_domain(given, name, label, time)[0] for name, given in named]
    target, times = _domain(stream, "stream", label, time)
    if time is not None:
        if times is None:
            raise unknown("time column of the stream", time, target.feature_names or ())
        target = target.rows(order_in_time(times, time, target.name))
    rows = None if unlabelled is None else _unlabelled(unlabelled, label, time)
    if warmup:
        rows, target = split(target, warmup, seed=None)
    return _checked(before, rows, target)


def _checked(sources: list[Domain], rows: Domain | None, stream: Domain) -> TransferTask:
    """The task, if methods can be compared on it: labels where they are needed, the same columns everywhere."""
    for source in sources:
        if source.y is None:
            raise InputError(f"source {source.name!r} has no labels; name its label column, or give (X, y)")
    if stream.y is None:
        raise InputError(f"stream {stream.name!r} has no labels, so mistakes cannot be counted; name its label column")
    if is_missing(stream.y).all():
        raise InputError(f"stream {stream.name!r}: every label is missing, so mistakes cannot be counted")
    rows = rows if rows is not None and len(rows) else None
    alike = [*sources, stream, *([rows] if rows is not None else [])]
    if not need_encoder(alike):
        alike = same_columns(alike)
    n = len(sources)
    return TransferTask(stream.name, tuple(alike[:n]), alike[-1] if rows is not None else None, alike[n])


def _named(sources: Mapping[str, Given] | Sequence[Given]) -> list[tuple[str, Given]]:
    """The sources with names that differ: their own, those of their files, else their numbers."""
    if isinstance(sources, Mapping):
        return [(str(name), given) for name, given in sources.items()]
    if isinstance(sources, Domain | str | os.PathLike):
        sources = [sources]
    paths = [Path(given) for given in sources if isinstance(given, str | os.PathLike)]
    of_files = iter(unique_names(paths))
    names = [_own_name(given, i, of_files) for i, given in enumerate(sources, start=1)]
    again = [name for name in names if names.count(name) > 1]
    if again:
        raise InputError(f"two sources are named {again[0]!r}; give a mapping of names to sources")
    return list(zip(names, sources, strict=True))


def _own_name(given: Given, number: int, of_files: Any) -> str:
    if isinstance(given, str | os.PathLike):
        return str(next(of_files))
    return given.name if isinstance(given, Domain) else f"source {number}"


def _domain(given: Given, name: str, label: str | None, time: str | None) -> tuple[Domain, Any]:
    """A domain and, if it has that column, its times."""
    if isinstance(given, Domain):
        return (given if name == "stream" else replace(given, name=name)), None
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        called = stem(str(path)) if name == "stream" else name
        if time is None:
            return read(path, label=label, name=called), None
        return read_timed(path, label, time, called)
    if isinstance(given, tuple):
        if len(given) != 2:
            raise InputError(f"{name}: a tuple of {len(given)}; give (X, y)")
        return Domain(name, *given), None
    return _of_table(given, name, label, time)


def _of_table(table: Any, name: str, label: str | None, time: str | None) -> tuple[Domain, Any]:
    """A table with names (pandas, polars, pyarrow); without the label column it has no labels."""
    columns = _columns(table)
    if columns is None:
        return Domain(name, table), None
    y = None if label not in columns else np.asarray(table[label])
    times = None if time not in columns else np.asarray(table[time])
    rest = [column for column in columns if column not in (label, time)]
    chosen = table.select(rest) if hasattr(table, "select") and not hasattr(table, "iloc") else table[rest]
    return Domain(name, chosen, y), times


def _columns(table: Any) -> list[str] | None:
    names = getattr(table, "column_names", None)  # pyarrow: its `columns` are the arrays
    if names is None:
        names = getattr(table, "columns", None)
    return None if names is None else [str(column) for column in names]


def _unlabelled(given: Given, label: str | None, time: str | None) -> Domain:
    if not isinstance(given, str | os.PathLike):
        return _domain(given, "unlabelled", label, time)[0].unlabelled()
    path = Path(given)
    if time is None:
        return read(path).unlabelled() if label is None else read_unlabelled(path, label)
    try:
        return read_timed(path, label, time, stem(str(path)))[0].unlabelled()
    except InputError as error:
        if not str(error).startswith("unknown "):  # anything but "there is no such column"
            raise
    return read_timed(path, None, time, stem(str(path)))[0]
