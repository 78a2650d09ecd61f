"""Samples of rows that merge: every row draws a number by its place, and those with the smallest ones stay.

The number depends on the seed, the partition and the block, so a pass that is repeated draws the same rows, and two
samples of different rows merge into a sample of all: the rows that stay are a uniform draw without replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.source_rows import Part, Statistic


@dataclass(frozen=True)
class Sampled:
    """Rows in the order of their numbers, and how many rows of each class there were to draw from."""

    X: Array
    codes: Array
    draws: Array
    counts: Array

    def weights(self) -> Array | None:
        """How many rows each one stands for; None if all are there."""
        there = np.bincount(self.codes, minlength=len(self.counts))
        if (there == self.counts).all():
            return None
        return np.asarray((self.counts / np.maximum(there, 1))[self.codes])


@dataclass(frozen=True)
class Sample(Statistic[Sampled]):
    """At most `count` rows, whatever their class."""

    count: int
    seed: int

    def of(self, part: Part) -> Sampled:
        """Those of some rows."""
        draws = _draws(self.seed, part)
        return self._kept(part.X, _codes(part), draws, np.bincount(_codes(part), minlength=1))

    def merge(self, a: Sampled, b: Sampled) -> Sampled:
        """Those of both."""
        X, codes, draws = (np.concatenate([getattr(a, name), getattr(b, name)]) for name in ("X", "codes", "draws"))
        return self._kept(X, codes, draws, _added(a.counts, b.counts))

    def _kept(self, X: Matrix, codes: Array, draws: Array, counts: Array) -> Sampled:
        first = np.argsort(draws, kind="stable")[: self.count]
        return Sampled(dense(X[first]), codes[first], draws[first], counts)


@dataclass(frozen=True)
class SampleByClass(Sample):
    """At most `count` rows of each class."""

    def _kept(self, X: Matrix, codes: Array, draws: Array, counts: Array) -> Sampled:
        order = np.lexsort((draws, codes))
        begin = np.searchsorted(codes[order], codes[order])  # where the class of each row begins
        first = order[np.arange(len(order)) - begin < self.count]
        return Sampled(dense(X[first]), codes[first], draws[first], counts)


@dataclass(frozen=True)
class All(Statistic[Array]):
    """All rows, in their order."""

    def of(self, part: Part) -> Array:
        """These rows."""
        return dense(part.X)

    def merge(self, a: Array, b: Array) -> Array:
        """One after the other."""
        return np.concatenate([a, b])


def _draws(seed: int, part: Part) -> Array:
    return np.asarray(np.random.default_rng([seed, *part.place]).random(part.X.shape[0]))


def _codes(part: Part) -> Array:
    return np.zeros(part.X.shape[0], np.int64) if part.codes is None else np.asarray(part.codes, np.int64)


def _added(a: Array, b: Array) -> Array:
    size = max(len(a), len(b))
    return np.asarray(np.pad(a, (0, size - len(a))) + np.pad(b, (0, size - len(b))))
