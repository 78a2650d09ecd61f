"""Rows of Parquet files and of Arrow IPC files and streams: columns into arrays, no row by itself but the bad ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.data.arrow_columns import mapped, nulls_of, numbers_of
from hedgerow.data.byte_feeds import shorter
from hedgerow.data.columns import BadNumber, id_text, number, shown
from hedgerow.data.matching import AsTheyAre, Wanted, places_of
from hedgerow.data.stretches import BAD, MOST_TEXT, ROW, Bad, Stretch

AT_ONCE = 16384  # rows of a Parquet file that are read together
KINDS = {"parquet": "Parquet", "arrow": "Arrow IPC"}


class ArrowRows:
    """One table with typed columns. `names` leaves out pandas' row index."""

    ignored: tuple[str, ...] = ()

    def __init__(self, path: Path | None, format: str, stream: Any = None, *, keep_float32: bool = False) -> None:
        self._pa = require("pyarrow", extra="data")
        self._path, self._kind, self._keep = path, KINDS[format], keep_float32
        self._at, self._size = 0, 0 if path is None else path.stat().st_size
        with self._readable():
            self._table = _Parquet(self._pa, path) if format == "parquet" else _Ipc(self._pa, path, stream)
        twice = [name for name, count in Counter(self._table.schema.names).items() if count > 1]
        if twice:
            raise InputError(f"the column name {twice[0]!r} stands in the table twice; rename one of them")
        self.names = [name for name in self._table.schema.names if not name.startswith("__index_level_")]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (self._pa.ArrowException, OSError) as error:
            raise InputError(
                f"not a readable {self._kind} file ({str(error).splitlines()[0]}); copy it or make it again"
            ) from error

    def match(self, wanted: Wanted) -> tuple[str, ...]:
        """Look for what is wanted; the names of the columns that are not."""
        places = places_of(wanted, self.names)
        self._features, self._wanted, self._label_of = places.names, wanted, wanted.label_of()
        types = self._pa.types
        self._cells = None if wanted.table is None else wanted.table.bound(self._features)
        for name in self._features if wanted.table is None else ():
            kind = self._table.schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                self._refuse(name, kind)
        for what, named in (("label", wanted.label), ("id", wanted.id)):
            if named is not None and types.is_nested(kind := self._table.schema.field(named).type):
                raise InputError(f"the {what} column {named!r} holds {kind}; it must be text or numbers")
        return places.ignored

    def _refuse(self, name: str, kind: Any) -> None:
        row = 0
        with self._readable():
            for batch in self._table.batches(0, [name]):
                for value in batch.column(0).to_pylist():
                    row += 1
                    if value is not None:
                        raise BadNumber(name, "text", f"{shown(value)} is not a number", row)
        raise BadNumber(name, "text", f"a column of {kind}, not of numbers")

    def go_to(self, at: int, line: int) -> None:
        """Go on after so many rows."""
        if self._table.rows and at > self._table.rows:
            raise shorter(f"row {at}")
        self._at = at

    @property
    def done(self) -> int:
        """Bytes of the file that were read, about."""
        return self._size * self._at // self._table.rows if self._table.rows else self._table.tell()

    def close(self) -> None:
        """Close the file."""
        self._table.close()

    def stretches(self) -> Iterator[Stretch]:
        """All records that are left."""
        used = [*self._features, *(name for name in (self._wanted.label, self._wanted.id) if name is not None)]
        batches = iter(self._table.batches(self._at, used))
        while True:
            with self._readable():
                batch = next(batches, None)
            if batch is None:
                return
            if batch.num_rows:
                found = self._stretch(batch)
                self._at += batch.num_rows
                yield found

    def _stretch(self, batch: Any) -> Stretch:
        width, wanted, n = len(self._features), self._wanted, batch.num_rows
        if self._cells is None:
            X = self._matrix(batch, width)
            good = np.isfinite(X).all(axis=1)
        else:
            X, good = self._of_cells(batch, width, self._cells)
        labels = ids = None
        if wanted.label is not None:
            labels = mapped(batch.column(width), self._label_or_error)
            good &= _usable(labels)
        if wanted.id is not None:
            name = wanted.id
            ids = mapped(batch.column(batch.num_columns - 1), lambda value: _or_error(id_text, value, name))
            good &= _usable(ids)
        lines = np.arange(self._at + 1, self._at + n + 1)
        if good.all():
            return Stretch(np.zeros(n, np.uint8), lines, lines, lines + 1, X, labels, ids)
        bad = [self._bad(batch, i) for i in np.flatnonzero(~good).tolist()]
        kept = np.flatnonzero(good).tolist()
        labels = None if labels is None else [labels[i] for i in kept]
        ids = None if ids is None else [ids[i] for i in kept]
        kinds = np.where(good, ROW, BAD).astype(np.uint8)
        return Stretch(kinds, lines, lines, lines + 1, X[good], labels, ids, bad)

    def _matrix(self, batch: Any, width: int) -> Array:
        columns = batch.columns[:width]
        single = self._keep and width and all(column.type == self._pa.float32() for column in columns)
        X = np.empty((batch.num_rows, width), np.float32 if single else np.float64)
        for j, column in enumerate(columns):
            plain = column.cast("uint8") if self._pa.types.is_boolean(column.type) else column
            X[:, j] = numbers_of(plain)
            if column.null_count:
                X[nulls_of(column), j] = np.nan
        return X

    def _of_cells(self, batch: Any, width: int, numbers: Any) -> tuple[Array, Array]:
        """The rows that an encoder makes, and which of them it could make."""
        raw = isinstance(self._wanted.table, AsTheyAre)
        columns = [batch.column(j).to_pylist() for j in range(width)]
        X = np.empty((batch.num_rows, width if raw else self._wanted.width), object if raw else np.float64)
        good = np.ones(batch.num_rows, bool)
        for i in range(batch.num_rows):
            try:
                X[i] = numbers([column[i] for column in columns])
            except InputError:
                good[i] = False
        return X, good

    def _label_or_error(self, value: Any) -> Any:
        return _or_error(self._label_of, value)

    def _bad(self, batch: Any, i: int) -> Bad:
        """Why a row cannot be used, in the words that text has for it."""
        row = {name: batch.column(j)[i].as_py() for j, name in enumerate(batch.schema.names)}
        text = json.dumps(row, ensure_ascii=False, default=str)[:MOST_TEXT]
        wanted = self._wanted
        try:
            if self._cells is not None:
                self._cells([row[name] for name in self._features])
            for name in self._features if self._cells is None else ():
                number(row[name], name)
            if wanted.label is not None:
                self._label_of(row[wanted.label])
            if wanted.id is not None:
                id_text(row[wanted.id], wanted.id)
        except InputError as error:
            return Bad(self._at + i + 1, str(error), text, error)
        raise AssertionError(f"row {self._at + i + 1} can be used")


class _Parquet:
    def __init__(self, pa: Any, path: Path | None) -> None:
        if path is None:
            raise InputError("Parquet cannot be read from a pipe, its end comes first; give a file, or send Arrow IPC")
        self._file = require("pyarrow.parquet", extra="data").ParquetFile(path)
        self.schema = self._file.schema_arrow
        self.rows = self._file.metadata.num_rows

    def batches(self, skip: int, columns: list[str]) -> Iterator[Any]:
        groups, first = self._file.metadata, 0
        while first < groups.num_row_groups and groups.row_group(first).num_rows <= skip:
            skip -= groups.row_group(first).num_rows
            first += 1
        chosen = list(range(first, groups.num_row_groups))
        for batch in self._file.iter_batches(AT_ONCE, row_groups=chosen, columns=columns):
            if skip < batch.num_rows:
                yield batch.slice(skip).select(columns)
            skip = max(skip - batch.num_rows, 0)

    def tell(self) -> int:
        return 0

    def close(self) -> None:
        self._file.close()


class _Ipc:
    rows = 0  # how many is not known without reading them

    def __init__(self, pa: Any, path: Path | None, stream: Any) -> None:
        self._ipc = require("pyarrow.ipc", extra="data")
        self._source = (
            pa.PythonFile(getattr(stream, "buffer", stream), mode="r") if path is None else pa.OSFile(str(path))
        )
        self._whole = path is not None and self._source.read(6) == b"ARROW1"
        if path is not None:
            self._source.seek(0)
        self._reader = self._ipc.open_file(self._source) if self._whole else self._ipc.open_stream(self._source)
        self._read = 0
        self.schema = self._reader.schema

    def batches(self, skip: int, columns: list[str]) -> Iterator[Any]:
        left = skip
        for batch in self._all():
            if left < batch.num_rows:
                yield batch.slice(left).select(columns)
            left = max(left - batch.num_rows, 0)
        if left:
            raise shorter(f"row {skip}")

    def _all(self) -> Iterator[Any]:
        if self._whole:
            for i in range(self._reader.num_record_batches):
                yield self._reader.get_batch(i)
            return
        if self._read:  # a stream is read once; from a file, again from its beginning
            self._source.seek(0)
            self._reader = self._ipc.open_stream(self._source)
        self._read += 1
        yield from self._reader

    def tell(self) -> int:
        return int(self._source.tell())

    def close(self) -> None:
        self._source.close()


class _Refused:
    """A value that cannot be used."""


_REFUSED = _Refused()


def _or_error(of: Any, *values: Any) -> Any:
    try:
        return of(*values)
    except InputError:
        return _REFUSED


def _usable(values: list[Any]) -> Array:
    return np.fromiter((value is not _REFUSED for value in values), bool, len(values))
