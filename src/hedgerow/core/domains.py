"""Domains: named tables of instances, checked when they are made; the split of a target into warm-up and stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.arrays import Array, Matrix, canonical, check_matrix, is_sparse, stack_rows
from hedgerow.core.errors import InputError
from hedgerow.core.feature_names import checked_names, listed, names_of_table, order_by_name
from hedgerow.core.frame import Frame, as_frame
from hedgerow.core.labels import as_labels, is_missing


@dataclass(frozen=True, eq=False)
class Domain:
    """A named set of instances X (rows; dense or CSR, float32 and float64 kept) with labels y, or None.

    `order` is a presentation order fixed by whoever published the data (the authors' `ID_old`), if there is one.
    `feature_names` are those of the table's columns if X is a table with names (pandas, polars, pyarrow). X is not
    copied where it can be used as it is. A table whose columns are not all numbers, or have gaps, is kept column by
    column (`hedgerow.core.frame`).

    >>> Domain("webcam", [[0.0, 1.0], [2.0, 0.0]], ["mug", "bike"])
    Domain('webcam', 2 x 2, 2 classes)
    """

    name: str
    X: Matrix
    y: Array | None = None
    order: Array | None = None
    feature_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        where = f"domain {self.name!r}"
        names = self._names(where)
        table = as_frame(self.X, where)
        if table is not None and not table.plain:
            X: Matrix = table
        else:
            X = check_matrix(table.numbers() if isinstance(self.X, Frame) and table else self.X, where, names=names)
        if X.shape[0] == 0:
            raise InputError(f"{where}: 0 rows; a domain needs at least one instance")
        if X.shape[1] == 0:
            raise InputError(f"{where}: 0 features; a domain needs at least one")
        object.__setattr__(self, "X", X)
        if names is not None and len(names) != X.shape[1]:
            raise InputError(f"{where}: {len(names)} feature names for {X.shape[1]} columns; give one name a column")
        object.__setattr__(self, "feature_names", names)
        if self.y is not None:
            object.__setattr__(self, "y", as_labels(self.y, where, X.shape[0]))
        if self.order is not None:
            order = np.asarray(self.order, dtype=np.int64)
            if not np.array_equal(np.sort(order), np.arange(X.shape[0])):
                raise InputError(f"{where}: order must be a permutation of 0..{X.shape[0] - 1}")
            object.__setattr__(self, "order", order)

    def _names(self, where: str) -> Sequence[str] | None:
        own, given = names_of_table(self.X, where), self.feature_names
        if given is None:
            return own
        names = checked_names(given, where)
        if names is None and len(given):
            raise InputError(f"{where}: feature_names={listed(given)}; a name is text")
        if own is not None and names != own:
            raise InputError(
                f"{where}: feature_names={listed(given)}, but the table's columns are {listed(own)}; "
                "leave feature_names out, or rename the columns"
            )
        return names or ()

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

    def of_numbers(self, X: Array, names: Sequence[str]) -> Domain:
        """The same rows as numbers; gaps may be NaN, and there may be no rows."""
        made = object.__new__(Domain)
        made.__dict__.update(vars(self), X=X, feature_names=tuple(names))
        return made

    def without_empty_rows(self) -> Domain:
        """Without the rows that are all zero, which no scaling can bring to unit length.

        >>> Domain("a", [[0.0, 0.0], [1.0, 2.0]]).without_empty_rows()
        Domain('a', 1 x 2, unlabelled)
        """
        if isinstance(self.X, Frame):
            return self
        norms = np.asarray(abs(self.X).sum(axis=1)).ravel()
        kept = np.flatnonzero(norms > 0)
        if not len(kept):
            raise InputError(f"domain {self.name!r}: every row is zero")
        return self if len(kept) == len(self) else self.rows(kept)


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
        return _empty_like(target), stream
    return target.rows(order[:taken]).unlabelled(), stream


def _empty_like(target: Domain) -> Domain:
    empty = object.__new__(Domain)
    empty.__dict__.update(vars(target), X=target.X[:0], y=None, order=None)
    return empty


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
    moved = object.__new__(Domain)  # checked already; `split` hands out domains of no rows, which may pass here too
    moved.__dict__.update(vars(domain), X=X, feature_names=names)
    return moved
