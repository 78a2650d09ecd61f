"""The rows of a source in partitions: Parquet files, or a dask.dataframe; each is read where it is worked on.

A block is some rows of a partition: numbers with a column a feature (stored column by column, as Parquet has them), and
labels as places in a short list of different ones. A row that cannot be used ends the pass, with the file, row and
column that a person will look for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import LARGEST, Array, check_finite
from hedgerow.core.errors import InputError, require
from hedgerow.core.labels import is_missing
from hedgerow.rows.arrow_rows import nulls_of, numbers_of
from hedgerow.rows.domains import check_rows, columns
from hedgerow.rows.inputs import Files
from hedgerow.rows.wanted import labels_of_values

AT_ONCE = 16384  # rows of a block at most,
NUMBERS = 2**22  # and so many numbers
PARTITION = 2**26  # bytes of numbers that a partition of Parquet files has at least


class Block(NamedTuple):
    """Rows, their different labels, and for each row the place of its own among them."""

    X: Array
    labels: Array
    of: Array


class Partition(ABC):
    """Some rows of a source. It is sent to a worker, which reads them there."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """The rows, some at a time."""


@dataclass(frozen=True)
class ParquetPartition(Partition):
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]
    features: tuple[str, ...]
    label: str | None
    dtype: str

    def blocks(self) -> Iterator[Block]:
        """Read batch by batch: a row group is never in memory as a whole matrix."""
        parquet = require("pyarrow.parquet", extra="dask")
        wanted = [*self.features, *([] if self.label is None else [self.label])]
        texts = None if self.label is None else [self.label]  # as places in a list of different ones, if it is text
        with parquet.ParquetFile(self.path, read_dictionary=texts) as file:
            size, groups = at_once(len(wanted)), list(self.groups)
            for batch in file.iter_batches(size, row_groups=groups, columns=wanted, use_threads=False):
                yield self._block(batch.select(wanted))

    def _block(self, batch: Any) -> Block:
        width = len(self.features)
        X = np.empty((width, batch.num_rows), self.dtype).T  # column by column
        nulls = False
        for j, column in enumerate(batch.columns[:width]):
            X[:, j] = numbers_of(column.cast("uint8") if str(column.type) == "bool" else column)
            nulls |= bool(column.null_count)
        flat = X.T.ravel()
        if nulls or not np.vdot(flat, flat) <= LARGEST[X.dtype] ** 2:  # not for NaN either
            self._explain(X)
        if self.label is None:
            return Block(X, np.empty(0, dtype=object), np.full(len(X), -1))
        column = batch.column(width)
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        if encoded.null_count or nulls_of(encoded.dictionary).any():
            row = int(np.flatnonzero(nulls_of(encoded.indices))[0]) if encoded.null_count else 0
            raise InputError(
                f"{self.path}, label column {self.label!r}: no label (row {row} of a block of {len(X)} in row groups "
                f"{self.groups}); a source row needs a label: drop the row or fill the gap first"
            )
        labels = labels_of_values(encoded.dictionary.to_pylist())
        of = numbers_of(encoded.indices).astype(np.int64)
        return Block(X, _present(labels, f"{self.path}, label column {self.label!r}"), of)

    def _explain(self, X: Array) -> None:
        """Raise the error for a row that cannot be used, in the words of the reader of whole files."""
        check_rows(Files.of(self.path, "parquet"), list(self.features), self.label)
        check_finite(np.ascontiguousarray(X), f"{self.path}, a block of row groups {self.groups}", self.features)


@dataclass(frozen=True)
class FramePartition(Partition):
    """A partition of a dask.dataframe, as pandas has it."""

    frame: Any
    features: tuple[str, ...]
    label: str | None
    dtype: str
    name: str

    def blocks(self) -> Iterator[Block]:
        """Its rows, in blocks as from files."""
        size = at_once(len(self.features))
        for first in range(0, len(self.frame), size):
            yield self._block(self.frame.iloc[first : first + size])

    def _block(self, frame: Any) -> Block:
        where = f"source {self.name!r}"
        try:
            X = np.asfortranarray(frame[list(self.features)].to_numpy(dtype=self.dtype, na_value=np.nan))
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: not a table of numbers ({error}); drop or encode these columns") from error
        check_finite(np.ascontiguousarray(X), where, self.features)
        if self.label is None:
            return Block(X, np.empty(0, dtype=object), np.full(len(X), -1))
        places, values = require("pandas", extra="dask").factorize(frame[self.label], use_na_sentinel=True)
        if (places < 0).any():
            row = int(np.flatnonzero(places < 0)[0])
            raise InputError(
                f"{where}, label column {self.label!r}: no label at row {frame.index[row]!r}; "
                "a source row needs a label: drop the row or fill the gap first"
            )
        return Block(X, _present(labels_of_values(list(values.tolist())), where), np.asarray(places, np.int64))


def at_once(width: int) -> int:
    """Rows of a block: fewer where they are long.

    >>> at_once(20), at_once(10_000)
    (16384, 419)
    """
    return max(1, min(AT_ONCE, NUMBERS // width))


def _present(labels: Array, where: str) -> Array:
    if is_missing(labels).any():
        raise InputError(f"{where}: NaN is no label; a source row needs one: drop the row or fill the gap first")
    return labels


@dataclass(frozen=True)
class Opened:
    """A source as it was found: its columns, its partitions, and how many rows it has, if that is known already."""

    name: str
    features: tuple[str, ...]
    label: str | None
    dtype: np.dtype[Any]
    partitions: Sequence[Any]  # Partition, or a delayed one
    count: int | None = None

    def with_features(self, features: tuple[str, ...]) -> Opened:
        """The same columns in another order."""
        return replace(self, features=features, partitions=[_reordered(part, features) for part in self.partitions])

    @property
    def bytes(self) -> int:
        """What its numbers would take in memory."""
        return (self.count or 0) * len(self.features) * self.dtype.itemsize


def _reordered(partition: Any, features: tuple[str, ...]) -> Any:
    """The partition, or a delayed one, with its columns in this order."""
    if isinstance(partition, Partition):
        return replace(partition, features=features)  # type: ignore[type-var]
    return require("dask", extra="dask").delayed(_reordered, pure=False)(partition, features)


def open_parquet(path: str | Path, label: str | None, name: str) -> Opened:
    """The Parquet files of a folder or pattern; only what stands at their ends is read."""
    parquet = require("pyarrow.parquet", extra="dask")
    found = Files.of(str(path))
    if found.format != "parquet":
        raise InputError(f"{path}: {found.format} files; a source that is read in partitions has to be Parquet")
    features = tuple(columns(found, label))
    single, count, parts = True, 0, []
    for file in found.paths:
        with parquet.ParquetFile(file) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            single &= all(str(schema.field(name).type) == "float" for name in features)
            sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        count += sum(sizes)
        parts += [(str(file), groups) for groups in _grouped(sizes, len(features))]
    if not count:
        raise InputError(f"{path}: no rows; a domain needs at least one instance")
    dtype = "float32" if single else "float64"
    partitions = [ParquetPartition(file, groups, features, label, dtype) for file, groups in parts]
    return Opened(name, features, label, np.dtype(dtype), partitions, count)


def _grouped(rows: Sequence[int], width: int) -> Iterator[tuple[int, ...]]:
    """Consecutive row groups, together when they are small.

    >>> list(_grouped([10, 10, 10**6, 10], 100))
    [(0, 1, 2), (3,)]
    """
    group: list[int] = []
    size = 0
    for number, count in enumerate(rows):
        group.append(number)
        size += 8 * width * count
        if size >= PARTITION:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)


def open_frame(frame: Any, label: str | None, name: str) -> Opened:
    """A dask.dataframe: its columns are looked at, and nothing is computed."""
    named = list(frame.columns)
    if label is not None and label not in named:
        raise InputError(f"source {name!r}: no label column {label!r}; its columns are {', '.join(map(str, named))}")
    features = tuple(column for column in named if column != label)
    if not features or not all(isinstance(column, str) for column in features):
        raise InputError(f"source {name!r}: columns {features}; features have names, and there is at least one")
    kinds = frame.dtypes
    for column in features:
        if kinds[column].kind not in "fiub":
            raise InputError(f"source {name!r}, column {column!r}: {kinds[column]}, not numbers; drop or encode it")
    dtype = "float32" if all(str(kinds[column]) == "float32" for column in features) else "float64"
    wrap = require("dask", extra="dask").delayed(FramePartition, pure=False)
    partitions = [wrap(each, features, label, dtype, name) for each in frame.to_delayed()]
    return Opened(name, features, label, np.dtype(dtype), partitions)
