"""The leading directions of more rows than can be kept: frequent directions (Liberty 2013), a sketch that merges.

At most `size` rows B stand for all rows X:  0 <= X^T X - B^T B <= lost I.  When there are more rows than that, their
singular values are all made smaller, s^2 -> s^2 - s_size^2, so that the last ones vanish; `lost` is the sum of what was
taken off, and so the error is known, not guessed. It is at most |X - X_k|_F^2/(size - k) for every k < size, X_k the
best approximation of X by k directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array, blocks, dense
from hedgerow.core.source_rows import Part, Statistic


@dataclass(frozen=True)
class Sketch:
    """B (at most `size` x m), and the largest error of B^T B in any direction."""

    rows: Array
    lost: float


@dataclass(frozen=True)
class Directions(Statistic[Sketch]):
    """The sketch of rows.

    >>> X = np.random.default_rng(0).normal(size=(200, 6)) * [9.0, 5.0, 1.0, 0.1, 0.1, 0.1]
    >>> found = Directions(4).of(Part(X))
    >>> error = np.linalg.eigvalsh(X.T @ X - found.rows.T @ found.rows)
    >>> found.rows.shape, bool(error[0] > -1e-9), bool(error[-1] <= found.lost + 1e-9)
    ((4, 6), True, True)
    """

    size: int

    def of(self, part: Part) -> Sketch:
        """Of some rows, as many at once as the sketch has."""
        found = Sketch(np.empty((0, part.X.shape[1])), 0.0)
        for some in blocks(part.X, self.size):
            found = self.merge(found, Sketch(dense(some).astype(np.float64, copy=False), 0.0))
        return found

    def merge(self, a: Sketch, b: Sketch) -> Sketch:
        """Of both."""
        rows, lost = np.vstack([a.rows, b.rows]), a.lost + b.lost
        if len(rows) <= self.size:
            return Sketch(rows, lost)
        values, U = np.linalg.eigh(rows @ rows.T)
        values, U = np.maximum(values[::-1], 0.0), U[:, ::-1]
        off = float(values[self.size])
        kept, U = values[: self.size], U[:, : self.size]
        scale = np.sqrt(np.maximum(kept - off, 0.0) / np.where(kept > 0, kept, 1.0))
        return Sketch(scale[:, None] * (U.T @ rows), lost + off)
