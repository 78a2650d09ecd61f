"""A statistic of all partitions: one pass over the rows, then a tree of merges in a fixed order.

The order in which numbers are added depends on the partitions only, not on which worker was faster, or died: the same
folder gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, cast
from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.core.labels import Codes
from hedgerow.core.running import DENSE_LIMIT
from hedgerow.core.source_rows import Part, SourceRows, Statistic, Step
from hedgerow.dask.partitions import Opened, Partition
from hedgerow.dask.samples import All, Sample, SampleByClass

FAN = 8  # results that are merged at once
T = TypeVar("T")


@dataclass(frozen=True)
class Cast:
    """Numbers of another type."""

    dtype: Any

    def __call__(self, X: Matrix) -> Matrix:
        """The same rows."""
        return cast(X, self.dtype)


@dataclass(frozen=True)
class Pass:
    """What is done with every row: steps, then statistics. `classes` are those whose places are the codes."""

    statistics: tuple[Statistic[Any], ...]
    steps: tuple[Step, ...] = ()
    classes: Array | None = None

    def of(self, partition: Partition, number: int) -> list[Any]:
        """The statistics of a partition; those of its blocks are merged as soon as there are two of the same size."""
        from threadpoolctl import threadpool_limits

        codes = None if self.classes is None else Codes(self.classes)
        with threadpool_limits(1):
            blocks = enumerate(partition.blocks())
            return _merged(self, (self._of_block(block, codes, (number, i)) for i, block in blocks))

    def _of_block(self, block: Any, codes: Codes | None, place: tuple[int, int]) -> list[Any]:
        X = block.X
        for step in self.steps:
            X = step(X)
        known = None if codes is None else codes.of(block.labels)[block.of]
        part = Part(X, known, None, place)
        return [
            statistic.of_block(block, part) if isinstance(statistic, OfLabels) else statistic.of(part)
            for statistic in self.statistics
        ]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        """Those of both."""
        return [statistic.merge(x, y) for statistic, x, y in zip(self.statistics, a, b, strict=True)]


class OfLabels(Statistic[T]):
    """A statistic that looks at labels as they are, before anybody knows the classes."""

    def of(self, part: Part) -> T:
        """Only blocks have labels."""
        raise TypeError(f"{type(self).__name__} is a statistic of blocks")

    def of_block(self, block: Any, part: Part) -> T:
        """That of a block, whose rows behind the steps are those of `part`."""
        raise NotImplementedError


def _merged(job: Pass, parts: Iterable[list[Any]]) -> list[Any]:
    """All in a balanced tree, in their order, with few in memory at any time."""
    stack: list[tuple[int, list[Any]]] = []
    for found in parts:
        level = 0
        while stack and stack[-1][0] == level:
            found, level = job.merge(stack.pop()[1], found), level + 1
        stack.append((level, found))
    if not stack:
        return []
    found = stack.pop()[1]
    while stack:
        found = job.merge(stack.pop()[1], found)
    return found


def _leaf(partition: Partition, number: int, job: Pass) -> list[Any]:
    return job.of(partition, number)


def _branch(job: Pass, parts: Sequence[list[Any]]) -> list[Any]:
    return _merged(job, [part for part in parts if part])  # an empty partition has nothing to say


def run_pass(client: Any, partitions: Sequence[Any], job: Pass) -> list[Any]:
    """The statistics of all partitions."""
    dask, distributed = require("dask", extra="dask"), require("distributed", extra="dask")
    shared = dask.delayed(job, traverse=False, pure=False)
    leaf, branch = dask.delayed(_leaf, pure=False), dask.delayed(_branch, pure=False)
    level = [leaf(partition, number, shared) for number, partition in enumerate(partitions)]
    while True:
        level = [branch(shared, level[i : i + FAN]) for i in range(0, len(level), FAN)]
        if len(level) == 1:
            break
    try:
        # the maps of the spaces are sent once a pass; scattered in advance, they could be lost with a worker
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
            found = client.compute(level[0]).result()
    except distributed.KilledWorker as error:
        raise HedgerowError(
            f"every worker that ran a pass over {len(partitions)} partitions died (was there memory enough?)"
        ) from error
    if not found:
        raise InputError("no rows in any partition; a domain needs at least one instance")
    return list(found)


@dataclass
class Counter:
    """How often the rows of the sources were read."""

    passes: int = 0


@dataclass(frozen=True)
class Partitioned(SourceRows):
    """The rows of a source on a cluster. A step is remembered, and taken where the rows are read."""

    client: Any
    opened: Opened
    count: int
    width: int
    counter: Counter
    classes: Array | None = None
    steps: tuple[Step, ...] = ()
    known: dict[Statistic[Any], Any] = field(default_factory=dict)  # statistics of these rows that were taken before

    def through(self, step: Step) -> Partitioned:
        """The same rows behind one more step; how wide they are then is tried with none."""
        width = step(np.empty((0, self.width), self.opened.dtype)).shape[1]
        kept = self.known if getattr(step, "changes_nothing", False) else {}
        return Partitioned(
            self.client, self.opened, self.count, width, self.counter, self.classes, (*self.steps, step), kept
        )

    def totals(self, *statistics: Statistic[Any]) -> list[Any]:
        """One pass, unless all of them were taken before."""
        asked = [statistic for statistic in statistics if not self._is_known(statistic)]
        found = iter(())
        if asked:
            self.counter.passes += 1
            job = Pass(tuple(asked), self.steps, self.classes)
            found = iter(run_pass(self.client, self.opened.partitions, job))
        return [self.known[statistic] if self._is_known(statistic) else next(found) for statistic in statistics]

    def _is_known(self, statistic: Statistic[Any]) -> bool:
        return any(statistic == each for each in self.known if type(each) is type(statistic))

    def drawn(self, count: int, rng: np.random.Generator) -> Matrix:
        """A uniform sample; which rows it has depends on the partitions and the seed."""
        return self.totals(Sample(min(count, self.count), int(rng.integers(2**63))))[0].X

    def crowd(self, limit: int, rng: np.random.Generator) -> Part:
        """A uniform sample of each class that has more than `limit` rows."""
        found = self.totals(SampleByClass(limit, int(rng.integers(2**63))))[0]
        return Part(found.X, found.codes, found.weights())

    def gathered(self) -> Matrix:
        """All rows, if they are as few as that."""
        size = 8 * self.count * self.width
        if size > DENSE_LIMIT:
            raise InputError(f"{self.count} x {self.width} numbers take {size / 2**30:.1f} GiB: too many to gather")
        return self.totals(All())[0]
