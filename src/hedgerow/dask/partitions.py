"""The rows of a source in partitions: Parquet files, or a dask.dataframe; each is read where it is worked on.

A block is some rows of a partition: numbers with a column a feature (stored column by column, as Parquet has them), and
labels as places in a short list of different ones. A row that cannot be used ends the pass, with the file, row and
column that a person will look for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import LARGEST, Array, check_finite
from hedgerow.core.domains import order_by_name
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import is_missing
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


@dataclass(frozen=True)
class Partition:
    """Some rows of a source: those `groups` of rows of a Parquet file, or a frame of pandas. A worker reads them."""

    features: tuple[str, ...]
    label: str | None
    dtype: str
    source: Any  # the path of the file, or the frame
    where: str  # what it is, for errors
    groups: tuple[int, ...] = ()

    def _batches(self, wanted: list[str], size: int) -> Iterator[Any]:
        """The columns of these names as batches of pyarrow, of at most so many rows."""
        if isinstance(self.source, str):
            texts = None if self.label is None else [self.label]  # as places in a list of different ones, if it is text
            with require("pyarrow.parquet", extra="dask").ParquetFile(self.source, read_dictionary=texts) as file:
                for batch in file.iter_batches(size, row_groups=list(self.groups), columns=wanted, use_threads=False):
                    yield batch.select(wanted)
            return
        pa = require("pyarrow", extra="dask")
        try:
            table = pa.Table.from_pandas(self.source[wanted], preserve_index=False)
        except pa.ArrowException as error:
            raise InputError(f"{self.where}: not a table ({error}); drop or encode these columns") from error
        yield from table.combine_chunks().to_batches(size)

    def _refuse(self, X: Array, first: int) -> None:
        """Raise the error for numbers that cannot be used, if there are any; `first` is the row where X begins."""
        if isinstance(self.source, str):  # in the words of the reader of whole files
            check_rows(Files.of(self.source, "parquet"), list(self.features), self.label)
        check_finite(np.ascontiguousarray(X), f"{self.where}, rows from {first} on", self.features)

    def blocks(self) -> Iterator[Block]:
        """The rows, some at a time: never all as one matrix."""
        wanted = [*self.features, *([] if self.label is None else [self.label])]
        first = 0
        for batch in self._batches(wanted, at_once(len(wanted))):
            yield self._block(batch, first)
            first += batch.num_rows

    def _block(self, batch: Any, first: int) -> Block:
        width = len(self.features)
        X = np.empty((width, batch.num_rows), self.dtype).T  # column by column
        for j, column in enumerate(batch.columns[:width]):
            numbers = column if column.type == "double" else column.cast(self.dtype, safe=False)
            X[:, j] = numbers.to_numpy(zero_copy_only=False)
        flat = X.T.ravel()
        if not np.vdot(flat, flat) <= LARGEST[X.dtype] ** 2:  # not for NaN either
            self._refuse(X, first)
        if self.label is None:
            return Block(X, np.empty(0, dtype=object), np.full(len(X), -1))
        column = batch.column(width)
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        labels = labels_of_values(encoded.dictionary.to_pylist())
        indices = encoded.indices.fill_null(-1) if encoded.null_count else encoded.indices
        of = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        missing = (of < 0) | np.append(is_missing(labels), False)[of]
        if missing.any():
            raise InputError(
                f"{self.where}, label column {self.label!r}: no label at row {first + int(missing.argmax())}; "
                "a source row needs a label: drop the row or fill the gap first"
            )
        return Block(X, labels, of)


def at_once(width: int) -> int:
    """Rows of a block: fewer where they are long.

    >>> at_once(20), at_once(10_000)
    (16384, 419)
    """
    return max(1, min(AT_ONCE, NUMBERS // width))


@dataclass(frozen=True)
class Opened:
    """A source before anything is read: its columns and its partitions."""

    name: str
    features: tuple[str, ...]
    dtype: np.dtype[Any]
    partitions: Sequence[Any]  # Partition, or a delayed one


def _in_order(features: Sequence[str], name: str, first: Opened | None) -> tuple[str, ...]:
    """The features of a source in the order of the first one, which has the same."""
    if first is None:
        return tuple(features)
    order_by_name(features, first.features, f"source {name!r}", f"those of source {first.name!r}")
    return first.features


def open_parquet(path: str | Path, label: str | None, name: str, first: Opened | None = None) -> Opened:
    """The Parquet files of a folder or pattern; only what stands at their ends is read."""
    parquet = require("pyarrow.parquet", extra="dask")
    files = Files.of(str(path))
    if files.format != "parquet":
        raise InputError(f"{path}: {files.format} files; a source that is read in partitions has to be Parquet")
    features = _in_order(columns(files, label), name, first)
    single, count, parts = True, 0, []
    for file in files.paths:
        with parquet.ParquetFile(file) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            single &= all(str(schema.field(name).type) == "float" for name in features)
            sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        count += sum(sizes)
        parts += [(str(file), groups) for groups in _grouped(sizes, len(features))]
    if not count:
        raise InputError(f"{path}: no rows; a domain needs at least one instance")
    dtype = "float32" if single else "float64"
    partitions = [
        Partition(features, label, dtype, file, f"{file}, row groups {groups}", groups) for file, groups in parts
    ]
    return Opened(name, features, np.dtype(dtype), partitions)


def _grouped(rows: Sequence[int], width: int) -> Iterator[tuple[int, ...]]:
    """Consecutive row groups, together when they are small.

    >>> list(_grouped([10, 10, 10**6, 10], 100))
    [(0, 1, 2), (3,)]
    """
    first, size = 0, 0
    for number, count in enumerate(rows):
        size += 8 * width * count
        if size >= PARTITION or number == len(rows) - 1:
            yield tuple(range(first, number + 1))
            first, size = number + 1, 0


def open_frame(frame: Any, label: str | None, name: str, first: Opened | None = None) -> Opened:
    """A dask.dataframe: its columns are looked at, and nothing is computed."""
    named = list(frame.columns)
    if label is not None and label not in named:
        raise InputError(f"source {name!r}: no label column {label!r}; its columns are {', '.join(map(str, named))}")
    features = tuple(column for column in named if column != label)
    if not features or not all(isinstance(column, str) for column in features):
        raise InputError(f"source {name!r}: columns {features}; features have names, and there is at least one")
    features, kinds = _in_order(features, name, first), frame.dtypes
    for column in features:
        if kinds[column].kind not in "fiub":
            raise InputError(f"source {name!r}, column {column!r}: {kinds[column]}, not numbers; drop or encode it")
    dtype = "float32" if all(str(kinds[column]) == "float32" for column in features) else "float64"
    wrap = require("dask", extra="dask").delayed(Partition, pure=False)
    partitions = [wrap(features, label, dtype, each, f"source {name!r}") for each in frame.to_delayed()]
    return Opened(name, features, np.dtype(dtype), partitions)
