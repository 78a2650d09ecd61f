"""Columns that nothing can be transferred for: beside the others, each by its own running mean and variance.

Nobody in the sources has them, or the target did not have them yet. They are the last columns of a row, the step
`own-N` of the preprocessing takes N of them apart; no other step sees them, so that what is transferred stays what it
is. A gap is zero, and so is the first value: of one value the variance is not known.

    z = (x - mean)/sd, at most LARGEST from zero; over sqrt m where the m other columns end as rows of unit length
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array, Matrix

OWN = re.compile(r"own-([1-9]\d{0,5})")
LARGEST = 3.0  # standard deviations; of few values an sd is a guess


def own_width(steps: Sequence[str]) -> int:
    """How many columns stand beside the others.

    >>> own_width(("own-3", "fill")), own_width(("centre",))
    (3, 0)
    """
    found = OWN.fullmatch(steps[0]) if steps else None
    return int(found[1]) if found else 0


@dataclass
class Beside:
    """How often each column was there, and sums of x - shift and its square; the shift is the first value."""

    n: Array
    shift: Array
    total: Array
    squares: Array

    @classmethod
    def of(cls, X: Array) -> Beside:
        """Of these rows, of which there may be none."""
        m = X.shape[1]
        made = cls(np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m))
        made.standard(X, np.ones(len(X), bool))
        return made

    def standard(self, X: Array, learned: Array | None = None) -> Array:
        """Rows by the statistics before each; with `learned` (a mask) such rows are folded in after they were used."""
        there = ~np.isnan(X)
        if learned is None:
            return self._scaled(np.where(there, X - self.shift, 0.0), there, self.n, self.total, self.squares)
        kept = there & learned[:, None]
        self._begin(X, kept)
        D = np.where(there, X - self.shift, 0.0)
        # the same additions, in the same order, as one by one
        n = np.cumsum(np.vstack([self.n, kept]), axis=0)
        total = np.cumsum(np.vstack([self.total, kept * D]), axis=0)
        squares = np.cumsum(np.vstack([self.squares, kept * D * D]), axis=0)
        self.n[:], self.total[:], self.squares[:] = n[-1], total[-1], squares[-1]
        return self._scaled(D, there, n[:-1], total[:-1], squares[:-1])

    def add_each(self, X: Array, learned: Array) -> None:
        """Fold in a row for each row of statistics (all have as many as X): of as many domains."""
        kept = ~np.isnan(X) & learned[:, None]
        self.shift = np.where((self.n == 0) & kept, X, self.shift)
        D = np.where(kept, X - self.shift, 0.0)
        self.n += kept
        self.total += D
        self.squares += D * D

    def _begin(self, X: Array, kept: Array) -> None:
        """The first value of a column is its shift."""
        for j in np.flatnonzero((self.n == 0) & kept.any(axis=0)):
            self.shift[j] = X[kept[:, j].argmax(), j]

    @staticmethod
    def _scaled(D: Array, there: Array, n: Array, total: Array, squares: Array) -> Array:
        mean = total / np.maximum(n, 1)
        sd = np.sqrt(np.maximum(squares / np.maximum(n, 1) - mean**2, 0))
        known = there & (sd > 0)
        z = np.divide(D - mean, np.where(sd > 0, sd, 1.0), where=known, out=np.zeros_like(D))
        return np.clip(z, -LARGEST, LARGEST)


@dataclass(frozen=True)
class Shared:
    """The step of a source: the columns that are transferred."""

    width: int

    def __call__(self, X: Matrix) -> Matrix:
        """The first ones."""
        return np.ascontiguousarray(X[:, : self.width])


@dataclass(frozen=True)
class Padded:
    """The step of a source after all others: its rows say nothing of the columns beside."""

    own: int

    def __call__(self, X: Matrix) -> Matrix:
        """With zeros."""
        return np.hstack([X, np.zeros((len(X), self.own), X.dtype)])
