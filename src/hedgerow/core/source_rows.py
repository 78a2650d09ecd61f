"""The labelled rows of a source, wherever they are: what is asked of them is statistics, which merge.

A statistic of some rows and one of others give that of both, so rows may be in one array or in a thousand partitions
that other processes read (`hedgerow.rows.partitions`). Whatever a build asks this way is the same code in both cases:
an array is one partition.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.moments import Moments

T = TypeVar("T")
RowMap = Callable[[Matrix], Matrix]  # rows to rows, each by itself
AT_ONCE = (
    1 << 16
)  # rows in memory that a statistic is taken of: behind a map each may be many times as wide


@dataclass(frozen=True)
class Part:
    """Some rows of a source, their codes and weights, if any, and where they stood (partition, part of it).

    `labels` are those that the codes stand for, where the classes are not known yet.
    """

    X: Matrix
    codes: Array | None = None
    weight: Array | None = None
    place: tuple[int, int] = (0, 0)
    labels: Array | None = None


class Statistic(ABC, Generic[T]):
    """Something about rows that merges: of(all) = merge(of(some), of(the others)). A frozen dataclass, to be sent."""

    @abstractmethod
    def of(self, part: Part) -> T:
        """That of some rows."""

    def merge(self, a: T, b: T) -> T:
        """That of the rows of both, their sum; `a` stood before `b`."""
        total: T = operator.add(a, b)
        return total


@dataclass(frozen=True)
class Smallest(Statistic[float]):
    """The smallest number of all."""

    def of(self, part: Part) -> float:
        """Infinity where there is no row."""
        least = float(part.X.min()) if part.X.shape[0] else float("inf")
        if least != least:  # a gap
            least = float(np.fmin.reduce(part.X, axis=None))
        return float("inf") if least != least else least

    def merge(self, a: float, b: float) -> float:
        """The smaller one."""
        return min(a, b)


@dataclass(frozen=True)
class Gram(Statistic[Array]):
    """X^T X, each row counted once; with a step, of the rows behind it.

    >>> rows, gram = np.array([[1.0, 2.0], [3.0, 4.0]]), Gram()
    >>> gram.merge(gram.of(Part(rows[:1])), gram.of(Part(rows[1:]))).tolist()
    [[10.0, 14.0], [14.0, 20.0]]
    """

    step: RowMap | None = None

    def of(self, part: Part) -> Array:
        """One product."""
        X = part.X if self.step is None else self.step(part.X)
        return dense(X.T @ X)


@dataclass(frozen=True)
class ClassMoments(Statistic[Moments]):
    """Moments with K classes (0: of none), of rows as they are weighed or counted once."""

    K: int
    weighed: bool = True

    def of(self, part: Part) -> Moments:
        """One pass over the rows."""
        codes = part.codes if self.K else None
        return Moments.of(part.X, codes, self.K, part.weight if self.weighed else None)


class SourceRows(ABC):
    """Labelled rows; `count` of them, each of `width` numbers; `weighed`: whether some count more than others."""

    count: int
    width: int
    weighed: bool = False

    @abstractmethod
    def through(self, step: RowMap) -> SourceRows:
        """The same rows behind one more step."""

    @abstractmethod
    def totals(self, *statistics: Statistic[Any]) -> list[Any]:
        """Each statistic of all rows: one pass, however many there are."""

    @abstractmethod
    def drawn(self, count: int, rng: np.random.Generator) -> Matrix:
        """Rows drawn at random, each at most once; all of them, if there are no more."""

    @abstractmethod
    def candidates(self, limit: int, rng: np.random.Generator) -> Part:
        """The rows that others are chosen from. Where a class has more than `limit`, the rest may be left out.

        Those that stay then count for those that do not.
        """

    @abstractmethod
    def gathered(self) -> Matrix:
        """All rows in one matrix: for few."""


class InMemory(SourceRows):
    """Rows in one matrix. A step is taken at once."""

    def __init__(self, X: Matrix, codes: Array | None = None, weight: Array | None = None) -> None:
        self.X = X
        self.codes = codes
        self.weight = weight
        (self.count, self.width), self.weighed = X.shape, weight is not None

    def through(self, step: RowMap) -> InMemory:
        """The same rows behind one more step."""
        return InMemory(step(self.X), self.codes, self.weight)

    def totals(self, *statistics: Statistic[Any]) -> list[Any]:
        """Each statistic of all rows."""
        parts = [
            self._part(first, first + AT_ONCE) for first in range(0, max(self.count, 1), AT_ONCE)
        ]
        return [reduce(each.merge, map(each.of, parts)) for each in statistics]

    def _part(self, first: int, last: int) -> Part:
        if self.count <= last - first:
            return Part(self.X, self.codes, self.weight)
        codes, weight = (
            None if array is None else array[first:last] for array in (self.codes, self.weight)
        )
        return Part(self.X[first:last], codes, weight)

    def drawn(self, count: int, rng: np.random.Generator) -> Matrix:
        """Rows drawn at random."""
        return self.X[rng.choice(self.count, min(count, self.count), replace=False)]

    def candidates(self, limit: int, rng: np.random.Generator) -> Part:
        """All rows."""
        return Part(self.X, self.codes, self.weight)

    def gathered(self) -> Matrix:
        """The matrix."""
        return self.X


def summed(rows: Sequence[SourceRows], statistic: Statistic[T]) -> list[T]:
    """A statistic of each source."""
    return [source.totals(statistic)[0] for source in rows]
