"""Gaps in rows: the mean that stands for a missing number, which follows its domain.

A gap is NaN. A source's gaps are filled by the source's own means; those of the target by the means of its unlabelled
rows and of what it has learned so far, never of a row to come. A column that a domain does not have at all takes the
average of the means of the domains that have it, with the weight of one instance; behind `centre` both are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.source_rows import Part, Statistic


@dataclass
class Means:
    """How often each feature was there, and the sum of x - shift over these times (the shift keeps digits)."""

    n: Array
    shift: Array
    total: Array

    @classmethod
    def of(cls, X: Array) -> Means:
        """Of these rows; a feature that is never there has n = 0 and the mean 0."""
        there = ~np.isnan(X)
        n = there.sum(axis=0).astype(np.float64)
        shift = np.where(there, X, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(n, 1)
        return cls(n, shift, np.where(there, X - shift, 0.0).sum(axis=0))

    @property
    def mean(self) -> Array:
        """Of each feature so far."""
        return np.asarray(self.shift + self.total / np.maximum(self.n, 1))

    def merge(self, other: Means) -> Means:
        """The means of both sets of rows.

        >>> a, b = Means.of(np.array([[1.0, np.nan]])), Means.of(np.array([[3.0, 5.0]]))
        >>> a.merge(b).mean.tolist()
        [2.0, 5.0]
        """
        n = self.n + other.n
        mean = (self.mean * self.n + other.mean * other.n) / np.maximum(n, 1)
        return Means(n, mean, np.zeros_like(mean))

    def completed(self, others: Sequence[Means]) -> Means:
        """With the average mean of the others, as one instance, for features that are never there.

        >>> Means.of(np.array([[np.nan]])).completed([Means.of(np.array([[4.0]]))]).mean.tolist()
        [4.0]
        """
        known = sum((other.n > 0).astype(np.float64) for other in others) if others else np.zeros_like(self.n)
        total = sum((other.mean * (other.n > 0) for other in others), np.zeros_like(self.n))
        never = self.n == 0
        average = np.where(known > 0, total / np.maximum(known, 1), 0.0)
        return Means(np.where(never, 1.0, self.n), np.where(never, average, self.shift), np.where(never, 0, self.total))

    def fill(self, X: Array, learned: Array | None = None) -> Array:
        """X without gaps; with `learned` (a mask) each such row is folded in after its own gaps were filled."""
        gaps = np.isnan(X)
        D = np.where(gaps, 0.0, X - self.shift)
        if learned is None:
            return np.where(gaps, self.mean, X).astype(X.dtype) if gaps.any() else X
        kept = ~gaps & learned[:, None]
        # the same additions, in the same order, as one by one
        n = np.cumsum(np.vstack([self.n, kept]), axis=0)
        total = np.cumsum(np.vstack([self.total, np.where(kept, D, 0.0)]), axis=0)
        self.n[:], self.total[:] = n[-1], total[-1]
        if not gaps.any():
            return X
        return np.where(gaps, self.shift + total[:-1] / np.maximum(n[:-1], 1), X).astype(X.dtype)

    def add_each(self, X: Array, learned: Array) -> None:
        """Fold in a row for each row of means (`n` and `total` have as many as X): of as many domains."""
        kept = ~np.isnan(X) & learned[:, None]
        self.n += kept
        self.total += np.where(kept, X - self.shift, 0.0)


@dataclass(frozen=True)
class Present(Statistic[Means]):
    """How often each feature is there, and its mean."""

    def of(self, part: Part) -> Means:
        """Of some rows."""
        return Means.of(part.X)

    def merge(self, a: Means, b: Means) -> Means:
        """Of both."""
        return a.merge(b)


@dataclass(frozen=True)
class Filled:
    """The step of a source: its gaps become these means."""

    by: Means

    def __call__(self, X: Array) -> Array:
        """Rows without gaps."""
        return self.by.fill(X)
