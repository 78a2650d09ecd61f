"""Domains: named tables of instances, checked when they are made; the split of a target into warm-up and stream."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.core.arrays import Array, Matrix, canonical, check_matrix, is_sparse, stack_rows
from hedgerow.core.errors import InputError
from hedgerow.core.frame import Frame, as_frame, checked_names, listed, names_of_table, order_by_name
from hedgerow.core.labels import as_labels, is_missing


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
        columns are not all numbers, or have gaps, is kept column by column (`hedgerow.core.frame`).
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
            raise InputError(f"{where}: {len(names)} feature names for {X.shape[1]} columns; give one name a column")
        labels = None if y is None else as_labels(y, where, X.shape[0])
        places = None if order is None else np.asarray(order, dtype=np.int64)
        if places is not None and not np.array_equal(np.sort(places), np.arange(X.shape[0])):
            raise InputError(f"{where}: order must be a permutation of 0..{X.shape[0] - 1}")
        vars(self).update(name=name, X=X, y=labels, order=places, feature_names=names)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        labels = "unlabelled" if self.y is None else f"{len(set(self.y[~is_missing(self.y)].tolist()))} classes"
        return f"Domain({self.name!r}, {self.X.shape[0]} x {self.X.shape[1]}, {labels})"

    def rows(self, index: Array) -> Domain:
        """The domain restricted to these rows, in this order."""
        return replace(self, X=self.X[index], y=None if self.y is None else self.y[index], order=None)

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
    if not taken:  # a Domain cannot be empty, so "no warm-up" is a table of no rows that only split hands out
        return _changed(target, X=target.X[:0], y=None, order=None), stream
    return target.rows(order[:taken]).unlabelled(), stream


def pool(domains: Sequence[Domain], name: str = "pooled") -> Domain:
    """All rows of all domains, one after the other.

    >>> pool([Domain("a", [[1.0]], ["x"]), Domain("b", [[2.0]], ["y"])])
    Domain('pooled', 2 x 1, 2 classes)
    """
    for d in domains:
        if isinstance(d.X, Frame):
            raise InputError(f"domain {d.name!r} has columns that are no numbers, or gaps; tables are not pooled")
    alike = same_columns(domains)
    y = None if any(d.y is None for d in alike) else np.concatenate([d.y for d in alike if d.y is not None])
    names = next((d.feature_names for d in alike if d.feature_names is not None), None)
    return Domain(name, stack_rows([d.X for d in alike]), y, feature_names=names)


def same_columns(domains: Sequence[Domain]) -> list[Domain]:
    """All domains with their columns in the order of the first that has names; other names are refused.

    A domain without names (an array has none) is read by position, and has to have as many columns.

    >>> a = Domain("a", [[1.0, 2.0]], ["u"], feature_names=["p", "q"])
    >>> b = Domain("b", [[3.0, 4.0]], ["u"], feature_names=["q", "p"])
    >>> same_columns([a, b])[1].X.tolist()
    [[4.0, 3.0]]
    """
    first = next((d for d in domains if d.feature_names is not None), None)
    alike = list(domains) if first is None else [_with_columns_of(first, d) for d in domains]
    widths = [(d.name, d.X.shape[1]) for d in alike]
    if len({width for _, width in widths}) > 1:
        raise InputError(f"domains of different width: {widths}; homogeneous transfer needs the same features")
    return alike


def _with_columns_of(first: Domain, domain: Domain) -> Domain:
    names, own = first.feature_names, domain.feature_names
    if names is None or own is None:
        return domain
    order = order_by_name(own, names, f"domain {domain.name!r}", f"those of domain {first.name!r}")
    if order is None:
        return domain
    X = domain.X[:, order]
    X = canonical(X) if is_sparse(X) else np.ascontiguousarray(X)
    return _changed(domain, X=X, feature_names=names)
