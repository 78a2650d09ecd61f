"""Domains: named tables of instances, checked once at the door, and the split of a target into warm-up and stream."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.arrays import Array, Matrix, check_matrix, stack_rows
from hedgerow.core.errors import InputError
from hedgerow.core.labels import as_labels, is_missing


@dataclass(frozen=True, eq=False)
class Domain:
    """A named set of instances X (rows; dense or CSR, float32 and float64 kept) with labels y, or None.

    `order` is a presentation order fixed by whoever published the data (the authors' `ID_old`), if there is one.

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
        X = check_matrix(self.X, where)
        if X.shape[0] == 0:
            raise InputError(f"{where}: 0 rows; a domain needs at least one instance")
        if X.shape[1] == 0:
            raise InputError(f"{where}: 0 features; a domain needs at least one")
        object.__setattr__(self, "X", X)
        if self.y is not None:
            object.__setattr__(self, "y", as_labels(self.y, where, X.shape[0]))
        if self.order is not None:
            order = np.asarray(self.order, dtype=np.int64)
            if not np.array_equal(np.sort(order), np.arange(X.shape[0])):
                raise InputError(f"{where}: order must be a permutation of 0..{X.shape[0] - 1}")
            object.__setattr__(self, "order", order)

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

    def without_empty_rows(self) -> Domain:
        """Without the rows that are all zero, which no scaling can bring to unit length.

        >>> Domain("a", [[0.0, 0.0], [1.0, 2.0]]).without_empty_rows()
        Domain('a', 1 x 2, unlabelled)
        """
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
    for name, value in (("name", target.name), ("X", target.X[:0]), ("y", None), ("order", None)):
        object.__setattr__(empty, name, value)
    object.__setattr__(empty, "feature_names", target.feature_names)
    return empty


def pool(domains: Sequence[Domain], name: str = "pooled") -> Domain:
    """All rows of all domains, one after the other.

    >>> pool([Domain("a", [[1.0]], ["x"]), Domain("b", [[2.0]], ["y"])])
    Domain('pooled', 2 x 1, 2 classes)
    """
    y = None if any(d.y is None for d in domains) else np.concatenate([d.y for d in domains if d.y is not None])
    return Domain(name, stack_rows([d.X for d in domains]), y)
