"""Means and variances of a domain's features, which run on with the stream, and the steps that scale by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.core.source_rows import Part, Statistic

CONSTANT = 1e-13  # a feature whose sd is below this share of its mean only varies by rounding
DENSE_LIMIT = 2**30  # bytes; centring makes a sparse matrix dense, and beyond this we refuse to do it unasked


@dataclass
class Running:
    """Running mean and variance of a domain: n, and sums of x - shift and (x - shift)^2 (the shift keeps digits)."""

    n: Array
    shift: Array
    total: Array
    squares: Array

    @classmethod
    def of(cls, X: Array) -> Running:
        """The statistics of these rows, always in double precision."""
        shift = X.mean(axis=0, dtype=np.float64)
        D = X - shift
        return cls(np.array([float(len(X))]), shift, D.sum(axis=0), (D * D).sum(axis=0))

    def merge(self, other: Running) -> Running:
        """The statistics of both sets of rows, about the mean of both (the parallel-axis rule keeps digits).

        >>> rows = np.array([[1.0], [3.0], [8.0]])
        >>> both = Running.of(rows[:1]).merge(Running.of(rows[1:]))
        >>> both.shift.tolist(), both.squares.tolist()
        ([4.0], [26.0])
        """
        if not self.n[0] or not other.n[0]:
            return self if self.n[0] else other
        n = self.n + other.n
        a, b = (part.shift + part.total / part.n for part in (self, other))
        mean = a + (b - a) * (other.n / n)
        within = sum(part.squares - part.total**2 / part.n for part in (self, other))
        return Running(n, mean, np.zeros_like(mean), within + (b - a) ** 2 * (self.n * other.n / n))

    @classmethod
    def average(cls, parts: Sequence[Running]) -> Running:
        """One instance's worth of the average of several domains' statistics."""
        mean = np.mean([p.shift + p.total / p.n for p in parts], axis=0)
        variance = np.mean([p.variance for p in parts], axis=0)
        return cls(np.ones(1), mean, np.zeros_like(mean), variance)

    @classmethod
    def frozen(cls, parts: Sequence[Running], there: Sequence[Array] | None = None) -> Running:
        """The pooled variance within the domains, about zero: for a scale that does not move.

        `there` says which features each domain has; the others, filled by a constant, say nothing of a variance.
        """
        if there is None:
            n: float | Array = sum(float(p.n[0]) for p in parts)
            within = sum(p.variance * p.n[0] for p in parts) / n
        else:
            n = np.maximum(sum(p.n[0] * has for p, has in zip(parts, there, strict=True)), 1.0)
            within = sum(p.variance * p.n[0] * has for p, has in zip(parts, there, strict=True)) / n
        zero = np.zeros_like(parts[0].shift)
        return cls(np.ones(1), zero, zero.copy(), np.where(within > 0, within, 1.0))

    @property
    def variance(self) -> Array:
        """Variance of each feature so far."""
        return np.asarray(self.squares / self.n - (self.total / self.n) ** 2)

    def scale(self, X: Array, step: str, learned: Array | None = None) -> Array:
        """X scaled row by row; with `learned` (a mask) each such row is folded in after it was scaled."""
        D = X - self.shift
        if learned is not None and len(X) == 1:  # no running sums
            out = self.scale(X, step)
            if learned[0]:
                self.n[0] += 1
                self.total += D[0]
                self.squares += D[0] * D[0]
            return out
        if learned is None:
            n, total, squares = self.n[:, None], self.total[None], self.squares[None]
        else:
            n, total, squares = self._before_each_row(D, learned)
        out = D - total / n
        if step != "centre":
            sd = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
            out /= np.where(sd <= CONSTANT * np.abs(self.shift), 1, sd)
        return np.asarray(out, dtype=X.dtype)

    def _before_each_row(self, D: Array, learned: Array) -> tuple[Array, Array, Array]:
        """Statistics before each row, by running sums (the same additions, in the same order, as one by one)."""
        kept = learned[:, None] * D
        n = self.n[0] + np.concatenate([[0], np.cumsum(learned)])[:, None]
        total = np.cumsum(np.vstack([self.total, kept]), axis=0)
        squares = np.cumsum(np.vstack([self.squares, kept * D]), axis=0)
        self.n[0], self.total[:], self.squares[:] = n[-1, 0], total[-1], squares[-1]
        return n[:-1], total[:-1], squares[:-1]


@dataclass(frozen=True)
class Spread(Statistic[Running]):
    """Mean and variance of each feature."""

    def of(self, part: Part) -> Running:
        """Of some rows."""
        return Running.of(part.X)

    def merge(self, a: Running, b: Running) -> Running:
        """Of both."""
        return a.merge(b)


@dataclass(frozen=True)
class Scaled:
    """A step that looks at a domain, with what it saw there; sparse rows become dense."""

    step: str
    by: Running

    def __call__(self, X: Matrix) -> Array:
        """Rows scaled by these statistics, which stay as they are."""
        return self.by.scale(densified(X, self.step), self.step)


@dataclass(frozen=True)
class Densified:
    """Rows as a step needs them. `changes_nothing`: rows that are not sparse stay as they are."""

    step: str
    changes_nothing: ClassVar[bool] = True

    def __call__(self, X: Matrix) -> Array:
        """Dense, if that can be afforded."""
        return densified(X, self.step)


def densified(X: Matrix, step: str) -> Array:
    """Rows as an array; refused where a step would make an array of a sparse matrix that is too large for it."""
    if not is_sparse(X):
        return np.asarray(X)
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    if size > DENSE_LIMIT:
        raise InputError(
            f"preprocessing step {step!r} makes a sparse matrix dense: {X.shape[0]} x {X.shape[1]} would take "
            f"{size / 2**30:.1f} GiB; use preprocess='unit' for sparse data"
        )
    return dense(X)
