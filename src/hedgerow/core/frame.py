"""Tables with names: pandas, polars and pyarrow frames by way of narwhals, and columns that are not all numbers.

Names of features are law: what carries names is read by name, or refused with the names that differ.

| what is given                                     | what its names do                                               |
|---------------------------------------------------|-----------------------------------------------------------------|
| one instance: a Series, a table of one row        | brought into the model's order; a missing or unexpected name is |
| (`predict_one`, `predict_proba_one`, `learn_one`) | refused                                                         |
| one instance: a mapping                           | the same, but it may have more keys (an event has other fields) |
| domains (`fit_domains`, files, `pool`)            | brought into the order of the first domain that has names       |
| a table for a fitted model (`predict`,            | refused unless they are the model's, in the model's order:      |
| `partial_fit`, `predict_then_learn` and so on)    | scikit-learn demands this of every estimator                    |
| an array, or a table whose columns have no text   | none: read by position, and the width must be right             |

A table is one of those that narwhals knows: pandas, polars, pyarrow and others. A name is text; two columns of one name
are refused.

A `Frame` is a table whose columns are not all numbers, or have gaps, column by column, as they were given: an array of
floats (NaN: a gap), of booleans or of objects (None: a gap). It may stand where a matrix does in a `Domain`;
`hedgerow.tables` makes numbers of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, FeatureNames, as_narwhals
from hedgerow.core.errors import SHOWN, InputError, require
from hedgerow.core.values import is_gap

Names = tuple[str, ...]


def listed(names: Iterable[object]) -> str:
    """Names for an error, the first few of many.

    >>> listed(["a", "b"]), listed([])
    ("['a', 'b']", 'none')
    """
    every = list(names)
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return f"{[str(name) for name in every[:SHOWN]]}{more}" if every else "none"


def checked_names(names: Iterable[Any], what: str) -> Names | None:
    """Names as text, each once; None where none is text.

    >>> checked_names(["a", "b"], "here")
    ('a', 'b')
    >>> checked_names(range(2), "here") is None
    True
    """
    listing = list(names)
    text = [isinstance(name, str) for name in listing]
    if not any(text):
        return None
    if not all(text):
        other = listing[text.index(False)]
        raise InputError(f"{what}: a column is named {other!r}, others have text; make all names text, or none")
    checked = tuple(str(name) for name in listing)
    if len(set(checked)) < len(checked):
        twice = [name for name, count in Counter(checked).items() if count > 1]
        raise InputError(f"{what}: more than one column of the name {listed(twice)}; rename them")
    return checked


def names_of_table(X: Any, what: str) -> Names | None:
    """The names of a table's columns; None for what has none.

    >>> import pandas as pd
    >>> names_of_table(pd.DataFrame({"a": [1], "b": [2]}), "X")
    ('a', 'b')
    """
    if hasattr(X, "column_names"):  # a Frame, or a table of pyarrow
        return checked_names(X.column_names, what)
    frame = as_narwhals(X, what)
    return None if frame is None or len(frame.shape) == 1 else checked_names(frame.columns, what)


def names_of_row(x: Any, what: str = "x") -> Names | None:
    """The names of one instance: the keys of a mapping, the index of a Series, the columns of a table of one row."""
    if isinstance(x, Mapping):
        return checked_names(x, what)
    if getattr(x, "ndim", 0) != 1 or not hasattr(type(x), "to_numpy"):
        return names_of_table(x, what)
    series = require("narwhals.stable.v2.dependencies", extra="tables").is_pandas_like_series(x)
    return checked_names(x.index, what) if series else None  # other packages' columns have no names for their rows


def order_by_name(names: FeatureNames, wanted: FeatureNames, what: str, whose: str) -> list[int] | None:
    """Where each wanted name stands among the names (None: where it is wanted); other names are refused.

    >>> order_by_name(["b", "a"], ["a", "b"], "x", "the model's")
    [1, 0]
    """
    if list(names) == list(wanted):
        return None
    place = {name: i for i, name in enumerate(names)}
    known = set(wanted)
    missing, unexpected = [n for n in wanted if n not in place], [n for n in names if n not in known]
    if missing or unexpected:
        raise InputError(
            f"{what}: other features than {whose}: missing {listed(missing)}, unexpected {listed(unexpected)}; "
            "rename, add or drop these columns"
        )
    return [place[name] for name in wanted]


def check_same_order(own: FeatureNames, wanted: FeatureNames) -> None:
    """Refuse a table whose columns are not the model's in the model's order, in scikit-learn's words."""
    if list(own) == list(wanted):
        return
    mine, theirs = set(wanted), set(own)
    unexpected, missing = [n for n in own if n not in mine], [n for n in wanted if n not in theirs]
    lines = ["The feature names should match those that were passed during fit."]
    for title, names in (
        ("Feature names unseen at fit time:", unexpected),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        if names:
            lines += [title, *(f"- {name}" for name in names[:SHOWN])]
            lines += [f"- and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    if not unexpected and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
        lines += [f"Given: {listed(own)}", f"The model's: {listed(wanted)}"]
    raise InputError("\n".join([*lines, "Select the model's columns: X[list(model.feature_names_in_)]"]))


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
        return all(column.dtype.kind in "fb" and not np.isnan(column).any() for column in self.columns)

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


def _column(column: Any) -> Array:
    """Floats where every value is a number or a gap, booleans where all are, else objects."""
    if isinstance(column, np.ma.MaskedArray):
        column = column.astype(object).tolist()
    if not isinstance(column, list):
        values = np.asarray(column)
        kind = values.dtype.kind
        if kind in "fiub":
            return values if kind == "b" else values.astype(np.float64)
        if kind == "M":
            return cells(values.astype("datetime64[us]").tolist())
        if kind == "m":
            return np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "s"))
        if kind == "c":
            raise InputError("Complex data not supported; give real numbers")
        column = values.tolist()
    items = cells(column)
    if len(items) and all(type(value) is bool for value in items):
        return items.astype(bool)
    if {type(value) for value in items} == {bool, type(None)}:
        return items
    if all(value is None or isinstance(value, int | float | np.number) for value in items):
        with suppress(OverflowError):
            return np.array([np.nan if value is None else float(value) for value in items], dtype=np.float64)
    return items
