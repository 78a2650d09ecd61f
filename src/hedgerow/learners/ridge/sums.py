"""All that a space wants to know of a source: Gram matrix, class counts and class sums of its rows there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.moments import class_sums
from hedgerow.core.source_rows import Part, Statistic
from hedgerow.learners.ridge.maps import Map, octaves


@dataclass(frozen=True)
class Sums:
    """Z^T Z (d x d), N_k (K), sums by class (K x d), all as rows are weighed; and how many rows have which length."""

    gram: Array
    counts: Array
    totals: Array
    octaves: Array


@dataclass(frozen=True)
class InSpace(Statistic[Sums]):
    """The sums of a source's rows behind a map.

    >>> found = InSpace(Map(), 2).of(Part(np.array([[3.0, 4.0]]), np.array([1])))
    >>> found.gram.tolist(), found.counts.tolist()
    ([[9.0, 12.0], [12.0, 16.0]], [0.0, 1.0])
    """

    map: Map
    K: int

    def of(self, part: Part) -> Sums:
        """Of some rows; the map makes doubles of them."""
        Z = self.map(part.X)
        gram = Z.T @ (Z if part.weight is None else part.weight[:, None] * Z)
        codes = np.full(len(Z), -1) if part.codes is None else part.codes
        return Sums(gram, *class_sums(Z, codes, self.K, part.weight), octaves(Z))

    def merge(self, a: Sums, b: Sums) -> Sums:
        """Their sums."""
        return Sums(a.gram + b.gram, a.counts + b.counts, a.totals + b.totals, a.octaves + b.octaves)
