"""Tables with named columns: CSV, TSV and Parquet. Errors name the line and the column that a person will look for."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, require, unknown
from hedgerow.data.columns import is_number, labels_of_text, plain_labels, shown, utf8
from hedgerow.data.csv_records import BROKEN, DELIMITERS, BadRow, Record, Records, broken, refuse_numbers_as_names


def read_text(path: Path, label: str | None, name: str) -> Domain:
    """A CSV or TSV file with a header line; all columns but the label are numbers.

    The reader is that of streams, not pandas': it keeps true line numbers across quoted line breaks and blank lines,
    and it does not take the labels "NA" or "None" for missing.
    """
    values, labels, lines = array("d"), [], array("q")
    # Bytes that are not UTF-8 become surrogates, so that the line they stand on can be named.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
        try:
            records = Records(stream, DELIMITERS[path.suffix.lower().lstrip(".")])
            refuse_numbers_as_names(records.names)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        features, target = _columns(path, records.names, label)
        for found in records:
            if isinstance(found, BadRow):
                raise InputError(f"{path}: line {found.line}: {found.reason}")
            if target is not None:
                labels.append(_label(path, found, target))
            try:
                values.extend(map(float, found.cells))
            except ValueError:
                _refuse(path, found.line, features, found.cells)
            lines.append(found.line)
    if not len(lines):
        raise InputError(f"{path}: a header and no rows; a domain needs at least one instance")
    X = np.array(values).reshape(len(lines), len(features))
    _check_finite(path, X, features, [f"line {line}" for line in lines])
    return Domain(name, X, None if target is None else labels_of_text(labels), feature_names=tuple(features))


def _columns(path: Path, names: list[str], label: str | None) -> tuple[list[str], int | None]:
    """Names of the feature columns, and the place of the label column."""
    if label is None:
        return names, None
    if label not in names:
        raise unknown(f"label column of {path.name}", label, names)
    if len(names) == 1:
        raise InputError(f"{path}: no column but the label {label!r}; there are no features")
    target = names.index(label)
    return names[:target] + names[target + 1 :], target


def _label(path: Path, record: Record, target: int) -> str:
    """The label, taken out of the cells."""
    cell = record.cells.pop(target)
    if broken(cell):
        raise InputError(f"{path}: line {record.line}: {BROKEN}")
    return utf8(cell, f"{path}: line {record.line}: the label")


def _refuse(path: Path, line: int, features: list[str], row: list[str]) -> NoReturn:
    column, cell = next((name, cell) for name, cell in zip(features, row, strict=True) if not is_number(cell))
    if broken(cell):
        raise InputError(f"{path}: line {line}, column {column!r}: {BROKEN}")
    if not cell.strip():
        raise InputError(f"{path}: line {line}, column {column!r}: missing value; drop the row or fill the gap first")
    raise _not_a_number(f"{path}: line {line}", column, utf8(cell, f"{path}: line {line}, column {column!r}"))


def _not_a_number(where: str, column: str, value: object) -> InputError:
    return InputError(
        f"{where}, column {column!r}: {shown(value)} is not a number; drop the column, encode it as numbers, "
        f"or make it the label with label={column!r}"
    )


def _check_finite(path: Path, X: Array, features: Sequence[str], places: Sequence[str]) -> None:
    if np.isfinite(X).all():
        return
    row, column = np.argwhere(~np.isfinite(X))[0]
    kind = "missing value (NaN)" if np.isnan(X[row, column]) else "infinite value"
    raise InputError(f"{path}: {places[row]}, column {features[column]!r}: {kind}; drop the row or fill the gap first")


def read_parquet(path: Path, label: str | None, name: str) -> Domain:
    """A Parquet file; all columns but the label are numbers without nulls. float32 is kept if all are float32."""
    pa, parquet = require("pyarrow", extra="data"), require("pyarrow.parquet", extra="data")
    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from error
    names = [column for column in table.column_names if not column.startswith("__index_level_")]  # pandas' row index
    if label is not None and label not in names:
        raise unknown(f"label column of {path.name}", label, names)
    features = [column for column in names if column != label]
    if not features:
        raise InputError(f"{path}: no feature columns")
    X = np.column_stack([_numbers(pa, path, column, table.column(column)) for column in features])
    if not len(X):
        raise InputError(f"{path}: no rows; a domain needs at least one instance")
    _check_finite(path, X, features, [f"row {row}" for row in range(len(X))])
    y = None if label is None else _labels(table.column(label).to_pylist())
    return Domain(name, X, y, feature_names=tuple(features))


def _numbers(pa: Any, path: Path, name: str, column: Any) -> Array:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        row, value = next(((i, v) for i, v in enumerate(column.to_pylist()) if v is not None), (0, None))
        raise _not_a_number(f"{path}: row {row}", name, value)
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InputError(f"{path}: row {row}, column {name!r}: missing value; drop the row or fill the gap first")
    values = np.asarray(column.to_numpy())
    return values if values.dtype == np.float32 else values.astype(np.float64)


def _labels(values: list[Any]) -> Array:
    if any(value is None for value in values):
        return np.array(values, dtype=object)
    return plain_labels(np.array(values)) if not isinstance(values[0], float) else np.array(values)
