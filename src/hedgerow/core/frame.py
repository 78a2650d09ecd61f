"""Tables whose columns are not all numbers, or have gaps: column by column, as they were given.

A column is an array of floats (NaN: a gap) or of objects (None: a gap). Such a table may stand where a matrix does in a
`Domain`; `hedgerow.tables` makes numbers of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, as_narwhals
from hedgerow.core.errors import InputError
from hedgerow.core.feature_names import names_of_table

NO_VALUE = ("NAType", "NaTType", "MaskedConstant")  # classes of what pandas and NumPy write for a gap


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns by name, all of one length. `lines` say where the rows stood: lines of a text, or rows, from 1."""

    names: tuple[str, ...]
    columns: tuple[Array, ...]
    lines: Array | None = None
    unit: str = "row"

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.names)

    def __getitem__(self, rows: Any) -> Frame:
        """Some rows."""
        lines = None if self.lines is None else self.lines[rows]
        return Frame(self.names, tuple(column[rows] for column in self.columns), lines, self.unit)

    @property
    def column_names(self) -> tuple[str, ...]:
        """As pyarrow calls them."""
        return self.names

    def column(self, name: str) -> Array | None:
        """A column by its name; None if there is none."""
        return self.columns[self.names.index(name)] if name in self.names else None

    def place(self, row: int) -> str:
        """Where a row stood, for an error: lines are counted from 1, rows of a table in memory from 0."""
        return f"{self.unit} {row if self.lines is None else self.lines[row]}"

    @property
    def plain(self) -> bool:
        """Whether all columns are numbers and none has a gap."""
        return all(column.dtype.kind == "f" and not np.isnan(column).any() for column in self.columns)

    def numbers(self) -> Array:
        """A plain table as a matrix."""
        return np.stack(self.columns, axis=1) if self.columns else np.empty((0, 0))

    @classmethod
    def of_matrix(cls, X: Array, names: Sequence[str]) -> Frame:
        """A matrix with names for its columns."""
        return cls(tuple(names), tuple(_column(X[:, j]) for j in range(X.shape[1])))

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Frame:
        """Mappings from names to values; a name that a row does not have is a gap."""
        names = tuple(dict.fromkeys(name for row in rows for name in row))
        return cls(names, tuple(_column([row.get(name) for row in rows]) for name in names))


def as_frame(X: Any, what: str) -> Frame | None:
    """A table with names as columns; None for what has no names."""
    if isinstance(X, Frame):
        return X
    names = names_of_table(X, what)
    if names is None:
        return None
    frame = as_narwhals(X, what)
    return Frame(names, tuple(_of_series(frame[name]) for name in names))


def _of_series(column: Any) -> Array:
    """A column of narwhals; what is neither a number nor a moment goes cell by cell, so that every gap is seen."""
    plain = column.dtype.is_numeric() or column.dtype.is_temporal()
    return _column(column.to_numpy() if plain else column.to_list())


def cells(values: Any) -> Array:
    """Cells as objects, every kind of gap as None.

    >>> cells([1.5, float("nan"), "a", None]).tolist()
    [1.5, None, 'a', None]
    """
    out = np.empty(len(values), dtype=object)
    out[:] = [None if is_gap(value) else native(value) for value in values]
    return out


def native(value: Any) -> Any:
    """A scalar of NumPy as Python has it; anything else as it is.

    >>> native(np.True_), native(np.datetime64("2024-01-31", "ns")), native(np.datetime64("NaT")), native("a")
    (True, datetime.datetime(2024, 1, 31, 0, 0), None, 'a')
    """
    if not isinstance(value, np.generic):
        return value
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()  # of nanoseconds NumPy would make a whole number
    if isinstance(value, np.timedelta64):
        return None if np.isnat(value) else float(value / np.timedelta64(1, "s"))
    return value.item()


def is_gap(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, and what pandas has for it."""
    if value is None or type(value).__name__ in NO_VALUE:
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _column(column: Any) -> Array:
    """Floats where every value is a number or a gap, else objects."""
    if isinstance(column, np.ma.MaskedArray):
        column = column.astype(object).tolist()
    if not isinstance(column, list):
        values = np.asarray(column)
        kind = values.dtype.kind
        if kind in "fiub":
            return values.astype(np.float64)
        if kind == "M":
            return cells(values.astype("datetime64[us]").tolist())
        if kind == "m":
            return np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s"))
        if kind == "c":
            raise InputError("Complex data not supported; give real numbers")
        column = values.tolist()
    items = cells(column)
    if all(value is None or isinstance(value, int | float | np.number) for value in items):
        with suppress(OverflowError):
            return np.array([np.nan if value is None else float(value) for value in items], dtype=np.float64)
    return items
