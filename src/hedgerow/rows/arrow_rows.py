"""Rows of pyarrow's columns: of Parquet files, of Arrow IPC files and streams, and of what pyarrow makes of plain CSV.

Columns are read and made by their buffers: `pyarrow.array`, `scalar` and `to_numpy` import pandas where that is
installed, which takes longer than most of what is done here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import composed
from hedgerow.rows.inputs import shorter
from hedgerow.rows.records import MOST_TEXT, Bad, Late, Place, Records, Row, in_pieces
from hedgerow.rows.wanted import BadNumber, Wanted, id_text, places_of, shown

AT_ONCE = 16384  # rows of a Parquet file that are read together
KINDS = {"parquet": "Parquet", "arrow": "Arrow IPC"}


def numbers_of(column: Any) -> Array:
    """A pyarrow array of numbers, its nulls as they happen to be stored, without copying."""
    kind = np.dtype(column.type.to_pandas_dtype())
    data = column.buffers()[1]
    if data is None:  # nothing but nulls
        return np.zeros(len(column), kind)
    return np.frombuffer(data, kind, len(column), column.offset * kind.itemsize)


def nulls_of(column: Any) -> Array:
    """Where a pyarrow array has nulls."""
    return numbers_of(column.is_null().cast("uint8")).astype(bool)


def rows_of_columns(
    batch: Any, names: list[str], wanted: Wanted, label_of: Callable[[Any], Any], single: bool = False
) -> tuple[Array, list[Any], list[str]] | None:
    """Features, labels and ids of a batch of these columns, and those of label and id; None if a row has no such.

    `single`: features that all are float32 stay so.
    """
    columns = batch.columns
    try:
        if wanted.raw or wanted.table is not None:
            cells = [column.to_pylist() for column in columns[: len(names)]]
            X = _of_cells(dict(zip(names, cells, strict=True)), batch.num_rows, wanted)
        else:
            X = _of_numbers(columns[: len(names)], batch.num_rows, single)
        if X is None:
            return None
        labels = [] if wanted.label is None else _mapped(columns[len(names)], label_of)
        name = wanted.id
        return X, labels, [] if name is None else [id_text(value, name) for value in columns[-1].to_pylist()]
    except (InputError, UnicodeDecodeError):
        return None


def _of_cells(columns: dict[str, list[Any]], rows: int, wanted: Wanted) -> Array | None:
    """What the encoder makes of the cells, or the cells."""
    if wanted.table is not None:
        return wanted.table.of_columns(columns, rows)
    X = np.empty((rows, len(columns)), object)
    for j, cells in enumerate(columns.values()):
        X[:, j] = np.fromiter(cells, object, rows)  # a cell may be a list
    return X


def _of_numbers(columns: list[Any], rows: int, single: bool) -> Array | None:
    """Finite numbers; None if not all are."""
    single = single and bool(columns) and all(str(column.type) == "float" for column in columns)
    X = np.empty((rows, len(columns)), np.float32 if single else np.float64)
    for j, column in enumerate(columns):
        if column.null_count:
            return None
        X[:, j] = numbers_of(column.cast("uint8") if str(column.type) == "bool" else column)
    return X if np.isfinite(X).all() else None


def _mapped(column: Any, of: Callable[[Any], Any]) -> list[Any]:
    """A column through a function that is called once for each distinct value."""
    encoded = column.dictionary_encode()
    values = [of(value) for value in encoded.dictionary.to_pylist()]
    codes = numbers_of(encoded.indices)
    if encoded.null_count:
        codes = np.where(nulls_of(encoded), len(values), codes)
        values.append(of(None))
    return list(map(values.__getitem__, codes.tolist()))


class ArrowRows:
    """One table with typed columns. `names` leaves out pandas' row index; `ignored` are those that are not wanted."""

    ignored: tuple[str, ...] = ()

    def __init__(self, path: Path | None, format: str, stream: Any = None, *, single: bool = False) -> None:
        self._pa = require("pyarrow", extra="files")
        self._kind, self._single = KINDS[format], single
        self._at, self._size = 0, 0 if path is None else path.stat().st_size
        with self._readable():
            self._table = _Table(self._pa, path, format, stream)
        self._stored = {composed(name): name for name in self._table.schema.names}
        twice = [name for name, count in Counter(map(composed, self._table.schema.names)).items() if count > 1]
        if twice:
            raise InputError(f"the column name {twice[0]!r} stands in the table twice; rename one of them")
        self.names = [name for name in self._stored if not name.startswith("__index_level_")]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (self._pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"not a readable {self._kind} file ({str(error).splitlines()[0]}); copy it or make it again"
            ) from error

    def _type(self, name: str) -> Any:
        return self._table.schema.field(self._stored[name]).type

    def match(self, wanted: Wanted) -> None:
        """Look for what is wanted; columns of other types than numbers are refused where numbers are wanted."""
        self._wanted, self._label_of = wanted, wanted.label_of()
        own = wanted.spelling()
        self._stored = {own.get(name, name): stored for name, stored in self._stored.items()}
        self.names = [own.get(name, name) for name in self.names]
        self._places = places_of(wanted, self.names)
        self.ignored, self._row_of = self._places.ignored, wanted.row_of(self._places.names)
        self._read = wanted.columns_read(self._places.names)
        types = self._pa.types
        for name in self._places.names if wanted.table is None and not wanted.raw else ():
            kind = self._type(name)
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                self._refuse(name, kind)
        for what, named in (("label", wanted.label), ("id", wanted.id)):
            if named is not None and types.is_nested(self._type(named)):
                raise InputError(f"the {what} column {named!r} holds {self._type(named)}; it must be text or numbers")

    def _refuse(self, name: str, kind: Any) -> None:
        values = (value for batch in self._batches(0, [name]) for value in batch.column(0).to_pylist())
        for row, value in enumerate(values, start=1):
            if value is not None:
                raise BadNumber(name, f"{shown(value)} is not a number", row=row)
        raise BadNumber(name, f"a column of {kind}, not of numbers")

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

    def _batches(self, skip: int, names: list[str]) -> Iterator[Any]:
        batches = iter(self._table.batches(skip, [self._stored[name] for name in names]))
        while True:
            with self._readable():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def records(self) -> Iterator[Records]:
        """All that are left."""
        named = [name for name in (self._wanted.label, self._wanted.id) if name is not None]
        self._columns = [*self._read, *named]
        for batch in self._batches(self._at, self._columns):
            self._batch = batch
            for records, _ in in_pieces(self._batch.num_rows, self._fast, self._careful):
                yield records
            self._at += self._batch.num_rows

    def _fast(self, first: int, last: int) -> Records | None:
        part = self._batch.slice(first, last - first)
        rows = rows_of_columns(part, self._read, self._wanted, self._label_of, self._single)
        lines = np.arange(self._at + first + 1, self._at + last + 1)
        return Records.one_a_line(lines, lines, rows)

    def _careful(self, first: int, last: int) -> tuple[Records, int]:
        wanted, features = self._wanted, self._places.names
        items: list[tuple[Place, Row | Bad | Late]] = []
        part = self._batch.slice(first, last - first)
        with self._readable():
            cells = {name: part.column(j).to_pylist() for j, name in enumerate(self._columns)}
        for i in range(last - first):
            row = {name: column[i] for name, column in cells.items()}
            line = self._at + first + i + 1
            try:
                x = self._row_of([row.get(name) for name in features])
                label = None if wanted.label is None else self._label_of(row[wanted.label])
                item: Row | Bad = Row(x, label, None if wanted.id is None else id_text(row[wanted.id], wanted.id))
            except InputError as error:
                item = Bad(line, str(error), json.dumps(row, ensure_ascii=False, default=str)[:MOST_TEXT])
            items.append((Place(line, line, line + 1), item))
        return Records.gathered(items, wanted, len(features)), last - first


class _Table:
    """The batches of a Parquet file, or of an Arrow IPC file or stream; `rows` is 0 where their number is not known."""

    def __init__(self, pa: Any, path: Path | None, format: str, stream: Any) -> None:
        self.rows, self._source = 0, None
        if format == "parquet":
            if path is None:
                raise InputError(
                    "Parquet cannot be read from a pipe, its end comes first; give a file, or send Arrow IPC"
                )
            self._reader = require("pyarrow.parquet", extra="files").ParquetFile(path)
            self.schema, self.rows = self._reader.schema_arrow, self._reader.metadata.num_rows
            return
        ipc = require("pyarrow.ipc", extra="files")
        self._source = pa.OSFile(str(path)) if path else pa.PythonFile(getattr(stream, "buffer", stream), mode="r")
        is_file = path is not None and self._source.read(6) == b"ARROW1"
        if path is not None:
            self._source.seek(0)
        self._reader = (ipc.open_file if is_file else ipc.open_stream)(self._source)
        self.schema = self._reader.schema

    def batches(self, skip: int, columns: list[str]) -> Iterator[Any]:
        """The batches after so many rows; they can be asked for once."""
        left, reader = skip, self._reader
        if self._source is None:
            about = reader.metadata
            sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            first = int(np.searchsorted(np.cumsum(sizes), skip, side="right"))
            left -= sum(sizes[:first])
            every = reader.iter_batches(AT_ONCE, row_groups=list(range(first, len(sizes))), columns=columns)
        else:  # a file, or a stream
            numbers = range(getattr(reader, "num_record_batches", 0))
            every = map(reader.get_batch, numbers) if hasattr(reader, "get_batch") else reader
        for batch in every:
            if left < batch.num_rows:
                yield batch.slice(left).select(columns)
            left = max(left - batch.num_rows, 0)
        if left:
            raise shorter(f"row {skip}")

    def tell(self) -> int:
        """Bytes that were read, if that is known."""
        return 0 if self._source is None else int(self._source.tell())

    def close(self) -> None:
        """Close the file."""
        (self._reader if self._source is None else self._source).close()
