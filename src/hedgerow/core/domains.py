"""Domains, named tables of instances that are checked when they are made; tables with names and columns of any kind.

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

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.arrays import (
    Array,
    FeatureNames,
    Matrix,
    as_narwhals,
    check_matrix,
    columns_at,
)
from hedgerow.core.errors import SHOWN, InputError, require
from hedgerow.core.values import as_labels, cells, is_missing

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
        raise InputError(
            f"{what}: a column is named {other!r}, others have text; make all names text, or none"
        )
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
    if isinstance(X, Frame) or hasattr(X, "column_names"):  # a table of pyarrow
        return checked_names(X.names if isinstance(X, Frame) else X.column_names, what)
    frame = as_narwhals(X, what)
    return None if frame is None or len(frame.shape) == 1 else checked_names(frame.columns, what)


def names_of_row(x: Any, what: str = "x") -> Names | None:
    """The names of one instance: the keys of a mapping, the index of a Series, the columns of a table of one row."""
    if isinstance(x, Mapping):
        return checked_names(x, what)
    if getattr(x, "ndim", 0) != 1 or not hasattr(type(x), "to_numpy"):
        return names_of_table(x, what)
    series = require("narwhals.stable.v2.dependencies", extra="files").is_pandas_like_series(x)
    return (
        checked_names(x.index, what) if series else None
    )  # other packages' columns have no names for their rows


def order_by_name(
    names: FeatureNames, wanted: FeatureNames, what: str, whose: str
) -> list[int] | None:
    """Where each wanted name stands among the names (None: where it is wanted); other names are refused.

    >>> order_by_name(["b", "a"], ["a", "b"], "x", "the model's")
    [1, 0]
    """
    if list(names) == list(wanted):
        return None
    missing, unexpected = _apart(names, wanted)
    if missing or unexpected:
        raise InputError(
            f"{what}: other features than {whose}: missing {listed(missing)}, unexpected {listed(unexpected)}; "
            "rename, add or drop these columns"
        )
    place = {name: i for i, name in enumerate(names)}
    return [place[name] for name in wanted]


def _apart(names: FeatureNames, wanted: FeatureNames) -> tuple[list[str], list[str]]:
    """Those that are missing, and those that are unexpected, in their order."""
    own = set(names)
    known = set(wanted)
    return [n for n in wanted if n not in own], [n for n in names if n not in known]


def check_same_order(own: FeatureNames, wanted: FeatureNames) -> None:
    """Refuse a table whose columns are not the model's in the model's order, in scikit-learn's words."""
    if list(own) == list(wanted):
        return
    missing, unexpected = _apart(own, wanted)
    lines = ["The feature names should match those that were passed during fit."]
    for title, names in (
        ("Feature names unseen at fit time:", unexpected),
        ("Feature names seen at fit time, yet now missing:", missing),
    ):
        lines += [title, *(f"- {name}" for name in names[:SHOWN])] if names else []
    if not unexpected and not missing:
        lines.append("Feature names must be in the same order as they were in fit.")
    lines += [f"Given: {listed(own)}", f"The model's: {listed(wanted)}"]
    raise InputError(
        "\n".join([*lines, "Select the model's columns: X[list(model.feature_names_in_)]"])
    )


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

    def column(self, name: str) -> Array | None:
        """A column by its name; None if there is none."""
        return self.columns[self.names.index(name)] if name in self.names else None

    def place(self, row: int) -> str:
        """Where a row stood, for an error: lines are counted from 1, rows of a table in memory from 0."""
        return f"{self.unit} {row if self.lines is None else self.lines[row]}"

    @property
    def plain(self) -> bool:
        """Whether all columns are numbers and none has a gap."""
        return all(
            column.dtype.kind in "fb" and not np.isnan(column).any() for column in self.columns
        )

    def numbers(self) -> Array:
        """A plain table as a matrix."""
        return np.stack(self.columns, axis=1) if self.columns else np.empty((0, 0))

    @classmethod
    def of_matrix(cls, X: Array, names: Sequence[str] | None = None) -> Frame:
        """A matrix with names for its columns; without any these are x0, x1 and so on."""
        every = range(X.shape[1])
        return cls(tuple(names or (f"x{j}" for j in every)), tuple(_column(X[:, j]) for j in every))

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
    columns = [as_narwhals(X, what)[name] for name in names]
    # what is neither a number nor a moment goes cell by cell, so that every gap is seen
    plain = [column.dtype.is_numeric() or column.dtype.is_temporal() for column in columns]
    values = (
        c.to_numpy() if whole else c.to_list() for c, whole in zip(columns, plain, strict=True)
    )
    return Frame(names, tuple(map(_column, values)))


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
            return np.array(
                [np.nan if value is None else float(value) for value in items], dtype=np.float64
            )
    return items


# -- domains -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, init=False)
class Domain:
    """A named set of instances, with labels (a source, or a stream) or without (what is known of the target).

    Everything is checked here, once; what is made of a domain later does not copy it.

    Parameters
    ----------
    name : str
        What it is called in errors, figures and names of experts.
    X : array, sparse matrix or table of shape (rows, features)
        The instances; float32 and float64 are kept, and X is not copied where it can be used as it is. A table whose
        columns are not all numbers, or have gaps, is kept column by column, as a `Frame`.
    y : sequence or None
        A label for each row; None or NaN where one is not known.
    order : array or None
        A presentation order fixed by whoever published the data (the authors' `ID_old`), if there is one.
    feature_names : sequence of str or None
        One name a column; those of a table (pandas, polars, pyarrow) are its own.

    Raises
    ------
    InputError
        For rows, labels or names that cannot be used, with the first place where.

    Examples
    --------
    >>> Domain("webcam", [[0.0, 1.0], [2.0, 0.0]], ["mug", "bike"])
    Domain('webcam', 2 x 2, 2 classes)
    """

    name: str
    X: Matrix
    y: Array | None
    order: Array | None
    feature_names: Sequence[str] | None

    def __init__(
        self,
        name: str,
        X: Matrix,
        y: npt.ArrayLike | Sequence[Hashable] | None = None,
        order: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        where = f"domain {name!r}"
        names = _checked_names(X, feature_names, where)
        table = as_frame(X, where)
        if table is not None and not table.plain:
            X = table
        else:
            X = check_matrix(table.numbers() if isinstance(X, Frame) and table else X, where, names)
        if X.shape[0] == 0:
            raise InputError(f"{where}: 0 rows; a domain needs at least one instance")
        if X.shape[1] == 0:
            raise InputError(f"{where}: 0 features; a domain needs at least one")
        if names is not None and len(names) != X.shape[1]:
            raise InputError(
                f"{where}: {len(names)} feature names for {X.shape[1]} columns; give one name a column"
            )
        labels = None if y is None else as_labels(y, where, X.shape[0])
        places = None if order is None else np.asarray(order, dtype=np.int64)
        if places is not None and not np.array_equal(np.sort(places), np.arange(X.shape[0])):
            raise InputError(f"{where}: order must be a permutation of 0..{X.shape[0] - 1}")
        vars(self).update(name=name, X=X, y=labels, order=places, feature_names=names)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        labels = (
            "unlabelled"
            if self.y is None
            else f"{len(set(self.y[~is_missing(self.y)].tolist()))} classes"
        )
        return f"Domain({self.name!r}, {self.X.shape[0]} x {self.X.shape[1]}, {labels})"

    def rows(self, index: Array) -> Domain:
        """The domain restricted to these rows, in this order."""
        return replace(
            self, X=self.X[index], y=None if self.y is None else self.y[index], order=None
        )

    def ordered(self) -> Domain:
        """The rows in the published order; as they are where there is none."""
        return self if self.order is None else self.rows(self.order)

    def unlabelled(self) -> Domain:
        """The same rows without their labels."""
        return replace(self, y=None)


def _checked_names(X: Any, feature_names: Sequence[str] | None, where: str) -> Sequence[str] | None:
    """The names of the columns, as given or those of the table, which must not differ."""
    own = names_of_table(X, where)
    if feature_names is None:
        return own
    names = checked_names(feature_names, where)
    if names is None and len(feature_names):
        raise InputError(f"{where}: feature_names={listed(feature_names)}; a name is text")
    if own is not None and names != own:
        raise InputError(
            f"{where}: feature_names={listed(feature_names)}, but the table's columns are {listed(own)}; "
            "leave feature_names out, or rename the columns"
        )
    return names or ()


def _changed(domain: Domain, **changes: Any) -> Domain:
    """A domain that was checked already, with other parts; it may have no rows."""
    made = object.__new__(Domain)
    vars(made).update(vars(domain), **changes)
    return made


def split(target: Domain, warmup: float = 0.3, seed: int | None = 0) -> tuple[Domain, Domain]:
    """The target as an unlabelled warm-up part and a labelled stream.

    With a seed, the default, the rows are drawn at random, as the paper says: **both parts are shuffled**. Where the
    order of the rows is their order in time, that lets rows of the future into the warm-up and makes a stream look
    easier than it is: use `seed=None` there. It takes the first rows for the warm-up and leaves the rest in its order,
    that of the file or, if there is one, the published order, as the authors' code does (one split for all trials).
    The warm-up has floor(warmup n + 1/2) rows.

    >>> a, b = split(Domain("t", np.eye(10), list("abcdefghij")), warmup=0.25, seed=1)
    >>> len(a), len(b), a.y is None
    (3, 7, True)
    >>> split(Domain("t", np.eye(10), list("abcdefghij")), warmup=0.25, seed=None)[1].y.tolist()
    ['d', 'e', 'f', 'g', 'h', 'i', 'j']
    """
    if not 0 <= warmup < 1:
        raise InputError(f"warmup={warmup}: the unlabelled share of the target must be in [0, 1)")
    n = len(target)
    taken = math.floor(warmup * n + 0.5)
    if seed is None:
        order = np.arange(n) if target.order is None else target.order
    else:
        order = np.random.default_rng(seed).permutation(n)
    if taken == n:
        raise InputError(f"domain {target.name!r}: warmup={warmup} of {n} rows leaves no stream")
    stream = target.rows(order[taken:])
    if (
        not taken
    ):  # a Domain cannot be empty, so "no warm-up" is a table of no rows that only split hands out
        return _changed(target, X=target.X[:0], y=None, order=None), stream
    return target.rows(order[:taken]).unlabelled(), stream


def same_columns(domains: Sequence[Domain]) -> list[Domain]:
    """All domains with their columns in the order of the first that has names; other names are refused.

    A domain without names (an array has none) is read by position, and has to have as many columns.

    >>> a = Domain("a", [[1.0, 2.0]], ["u"], feature_names=["p", "q"])
    >>> b = Domain("b", [[3.0, 4.0]], ["u"], feature_names=["q", "p"])
    >>> same_columns([a, b])[1].X.tolist()
    [[4.0, 3.0]]
    """
    first = next((d for d in domains if d.feature_names is not None), None)
    alike = list(domains)
    for i, d in enumerate(domains):
        if first is not None and first.feature_names is not None and d.feature_names is not None:
            whose = f"those of domain {first.name!r}"
            order = order_by_name(d.feature_names, first.feature_names, f"domain {d.name!r}", whose)
            if order is not None:
                alike[i] = _changed(d, X=columns_at(d.X, order), feature_names=first.feature_names)
    widths = [(d.name, d.X.shape[1]) for d in alike]
    if len({width for _, width in widths}) > 1:
        raise InputError(
            f"domains of different width: {widths}; homogeneous transfer needs the same features"
        )
    return alike
