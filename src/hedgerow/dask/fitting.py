"""A classifier, an aligner or plain statistics from sources that are larger than memory.

A source is a folder or pattern of Parquet files, or a dask.dataframe; the unlabelled rows of the target are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Alignment
from hedgerow.align.base import MergingAligner
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, cast, dense
from hedgerow.core.domains import Domain
from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.core.feature_names import order_by_name
from hedgerow.core.labels import Codes, classes_of, objects
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import Spread
from hedgerow.core.source_rows import Part, RowMap, Smallest, SourceRows, Statistic
from hedgerow.dask.cluster import Place, connected
from hedgerow.dask.partitions import Opened, Partition, open_frame, open_parquet
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.estimator.partitions import check_affordable, fit_partitions
from hedgerow.rows.inputs import stem


# A statistic of all partitions: one pass over the rows, then a tree of merges in a fixed order.
#
# The order in which numbers are added depends on the partitions only, not on which worker was faster, or died: the
# same folder gives the same bits.
# Samples of rows that merge: every row draws a number by its place, and those with the smallest ones stay.
#
# The number depends on the seed, the partition and the block, so a pass that is repeated draws the same rows, and two
# samples of different rows merge into a sample of all: the rows that stay are a uniform draw without replacement.
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
    steps: tuple[RowMap, ...] = ()
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
    steps: tuple[RowMap, ...] = ()
    known: dict[Statistic[Any], Any] = field(default_factory=dict)  # statistics of these rows that were taken before

    def through(self, step: RowMap) -> Partitioned:
        """The same rows behind one more step; how wide they are then is tried with none."""
        width = step(np.empty((0, self.width), self.opened.dtype)).shape[1]
        return Partitioned(self.client, self.opened, self.count, width, self.counter, self.classes, (*self.steps, step))

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

    def candidates(self, limit: int, rng: np.random.Generator) -> Part:
        """A uniform sample of each class that has more than `limit` rows."""
        found = self.totals(SampleByClass(limit, int(rng.integers(2**63))))[0]
        return Part(found.X, found.codes, found.weights())

    def gathered(self) -> Matrix:
        """All rows, if they are as few as that."""
        size = 8 * self.count * self.width
        if size > DENSE_LIMIT:
            raise InputError(f"{self.count} x {self.width} numbers take {size / 2**30:.1f} GiB: too many to gather")
        return self.totals(All())[0]


# Statistics of labels as they stand there, before the classes are known: the first pass over a source.
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


Source = Any  # a path, or a dask.dataframe
HELD_OUT = 1000  # rows by which the error of landmarks is measured


@dataclass
class PartitionedSource:
    """A source on a cluster, after the first pass: its labels, its count, its smallest number, means and variances."""

    client: Any
    opened: Opened
    counter: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        asked = Different(), Counted(), Smallest(), Spread()
        self.counter.passes += 1
        found = run_pass(self.client, self.opened.partitions, Pass(asked))
        self.labels: Array = found[0]
        self.count: int = found[1]
        self._known: dict[Statistic[Any], Any] = dict(zip(asked[2:], found[2:], strict=True))

    @property
    def name(self) -> str:
        """Its name."""
        return self.opened.name

    @property
    def feature_names(self) -> Sequence[str]:
        """Its columns."""
        return self.opened.features

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers."""
        return self.opened.dtype

    def rows(self, classes: Array, dtype: np.dtype[Any]) -> SourceRows:
        """Its rows, with codes."""
        width = len(self.opened.features)
        rows = Partitioned(self.client, self.opened, self.count, width, self.counter, classes, (), self._known)
        return rows if dtype == self.dtype else rows.through(Cast(dtype))


@dataclass(frozen=True)
class Report:
    """What a fit read: rows and labels of each source, its partitions, and how often all rows were read."""

    sources: tuple[tuple[str, int, int], ...]  # name, rows, classes
    partitions: int
    passes: int
    bytes: int


def fit(
    clf: OnlineTransferClassifier,
    sources: Mapping[str, Source] | Sequence[Source],
    label: str,
    warmup: Domain | Any = None,
    *,
    client: Any = None,
    engine: str = "dask",
) -> OnlineTransferClassifier:
    """As `clf.fit_domains`, from sources that need not fit into memory: Parquet folders, or dask.dataframes.

    `warmup` has the unlabelled rows of the target: a Domain, or a table in memory. `client` is a `distributed.Client`;
    without one the current client is used, and without that a cluster is started for this call, as `engine` says.
    `clf.partitions_` says afterwards what was read.
    """
    opened = open_sources(sources, label)
    check_affordable(clf, len(opened[0].features))
    target = warmup if warmup is None or isinstance(warmup, Domain) else Domain("target", warmup)
    with _client(client, engine) as given:
        found = [PartitionedSource(given, each) for each in opened]
        fit_partitions(clf, found, target)
        clf.partitions_ = Report(
            tuple((each.name, each.count, len(each.labels)) for each in found),
            sum(len(each.opened.partitions) for each in found),
            max(each.counter.passes for each in found),
            sum(each.count * len(each.opened.features) * each.dtype.itemsize for each in found),
        )
    return clf


def align(
    aligner: str | Aligner,
    source: Source,
    label: str | None = None,
    target: Matrix | None = None,
    *,
    client: Any = None,
    engine: str = "dask",
) -> Alignment:
    """An aligner whose statistics merge, fitted on a source in partitions and the target's rows in memory.

    Rows are taken as they are: no preprocessing comes before. `label` names a column that is no feature; `whitening`
    needs it.
    """
    made = ALIGNERS.make(aligner, {}) if isinstance(aligner, str) else aligner
    if not isinstance(made, MergingAligner):
        able = ", ".join(name for name in ALIGNERS if hasattr(ALIGNERS[name], "fit_rows"))
        raise InputError(f"aligner={aligner!r} compares rows with each other, so they must be in memory; able: {able}")
    (opened,) = open_sources([source], label)
    U = np.empty((0, len(opened.features))) if target is None else dense(target)
    if U.shape[1] != len(opened.features):
        raise InputError(f"target: {U.shape[1]} features, but the source has {len(opened.features)}")
    with _client(client, engine) as given:
        found = PartitionedSource(given, opened)
        classes = classes_of(found.labels, "y") if label is not None else np.empty(0, dtype=object)
        rows = found.rows(classes, np.result_type(found.dtype, U.dtype))
        return _with_error(made.fit_rows(rows, len(classes), U), rows)


def _with_error(found: Alignment, rows: SourceRows) -> Alignment:
    """Of landmarks, which are a sample: how much of the kernel they miss, by other rows drawn for that."""
    projection = found.projection
    if projection.landmarks is None:
        return found
    others = rows.drawn(HELD_OUT, np.random.default_rng(len(projection.landmarks)))
    Z = projection(others)
    missed = np.maximum(1.0 - np.einsum("ij,ij->i", Z, Z), 0.0)  # k(x, x) = 1 for rows of unit length
    note = (
        f"{len(projection.landmarks)} landmarks drawn at random: of k(x, x) = 1 they miss {missed.mean():.2g} in the "
        f"mean of {len(others)} other rows, {np.quantile(missed, 0.95):.2g} in the worst twentieth"
    )
    return Alignment(projection, replace(found.info, note=note))


@dataclass(frozen=True)
class Statistics:
    """Counts, sums and centred scatter of a source, by label where it has one; all from one pass."""

    classes: Array
    moments: Moments

    @property
    def gram(self) -> Array:
        """X^T X."""
        moments = self.moments
        return np.asarray(moments.scatter + np.outer(moments.mean, moments.total))


def statistics(source: Source, label: str | None = None, *, client: Any = None, engine: str = "dask") -> Statistics:
    """Moments, class sums and scatter of a source in partitions."""
    (opened,) = open_sources([source], label)
    with _client(client, engine) as given:
        (found,) = run_pass(given, opened.partitions, Pass((ByLabel(),)))
    return Statistics(found.labels, found.moments)


def open_sources(sources: Mapping[str, Source] | Sequence[Source], label: str | None) -> list[Opened]:
    """The sources by name, all with the columns of the first; nothing but what stands at the ends of files is read."""
    if isinstance(sources, str | Path) or hasattr(sources, "to_delayed"):
        raise InputError("sources: give a list of sources, or a mapping from names to sources")
    named = sources if isinstance(sources, Mapping) else {_name(each, i): each for i, each in enumerate(sources)}
    if not named or len(named) != len(sources):
        raise InputError(f"sources: {list(named)}; give at least one, and names that differ")
    found = [_opened(each, label, name) for name, each in named.items()]
    first = found[0]
    return [first, *(_like(first, each) for each in found[1:])]


def _opened(source: Source, label: str | None, name: str) -> Opened:
    if isinstance(source, str | Path):
        return open_parquet(source, label, name)
    if hasattr(source, "to_delayed") and hasattr(source, "columns"):
        return open_frame(source, label, name)
    raise InputError(f"source {name!r}: a {type(source).__name__}; give a path of Parquet files, or a dask.dataframe")


def _name(source: Source, number: int) -> str:
    return stem(str(source)) if isinstance(source, str | Path) else str(number)


def _like(first: Opened, other: Opened) -> Opened:
    order = order_by_name(other.features, first.features, f"source {other.name!r}", f"those of source {first.name!r}")
    return other if order is None else other.with_features(first.features)


@contextmanager
def _client(given: Any, engine: str) -> Iterator[Any]:
    """The client that was given, the current one, or one of a new cluster."""
    if given is not None:
        yield given
        return
    distributed = require("distributed", extra="dask")
    try:
        current = distributed.get_client()
    except ValueError:
        with connected(Place.of(engine)) as client:
            yield client
        return
    yield current
