"""Statistics of labels as they stand there, before the classes are known: the first pass over a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.label_arrays import objects
from hedgerow.core.moments import Moments
from hedgerow.core.source_rows import Part
from hedgerow.dask.passes import OfLabels

MOST = 100_000  # different labels; a column with more is a measurement, or a name of rows


@dataclass(frozen=True)
class Different(OfLabels[Array]):
    """The different labels."""

    def of_block(self, block: Any, part: Part) -> Array:
        """Of a block."""
        return np.asarray(block.labels[np.unique(block.of)])

    def merge(self, a: Array, b: Array) -> Array:
        """Of both."""
        return union(a, b)


@dataclass(frozen=True)
class Counted(OfLabels[int]):
    """How many rows."""

    def of_block(self, block: Any, part: Part) -> int:
        """Of a block."""
        return len(block.X)

    def merge(self, a: int, b: int) -> int:
        """Of both."""
        return a + b


@dataclass(frozen=True)
class LabelMoments:
    """Moments whose class k is the k-th of these labels."""

    labels: Array
    moments: Moments


@dataclass(frozen=True)
class ByLabel(OfLabels[LabelMoments]):
    """Moments by label, with the centred scatter: all sums of a source in one pass."""

    def of_block(self, block: Any, part: Part) -> LabelMoments:
        """Of a block."""
        return LabelMoments(block.labels, Moments.of(part.X, block.of, len(block.labels), scatter=True))

    def merge(self, a: LabelMoments, b: LabelMoments) -> LabelMoments:
        """Of both, with the labels of both."""
        labels = union(a.labels, b.labels)
        return LabelMoments(labels, _among(labels, a).merge(_among(labels, b)))


def _among(labels: Array, found: LabelMoments) -> Moments:
    """Moments with a class for each of these labels, in their order."""
    if found.labels.dtype == labels.dtype and np.array_equal(found.labels, labels):
        return found.moments
    place = {label: k for k, label in enumerate(labels.tolist())}
    at = np.array([place[label] for label in found.labels.tolist()], dtype=np.int64)
    given = found.moments
    counts, totals = np.zeros(len(labels)), np.zeros((len(labels), len(given.total)))
    counts[at], totals[at] = given.class_counts, given.class_totals
    return Moments(given.count, given.total, counts, totals, given.scatter)


def union(a: Array, b: Array) -> Array:
    """The labels of both, each once; sorted where they are of one type.

    >>> union(np.array(["b", "a"]), np.array(["c", "a"])).tolist()
    ['a', 'b', 'c']
    """
    if a.dtype.kind == b.dtype.kind and a.dtype.kind != "O":
        found = np.unique(np.concatenate([a, b]))
    else:
        found = objects(list(dict.fromkeys([*a.tolist(), *b.tolist()])))
    if len(found) > MOST:
        raise InputError(f"more than {MOST} different labels (such as {found[-1]!r}); is this the column of labels?")
    return found
