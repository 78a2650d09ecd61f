"""A classifier, an aligner or plain statistics from sources that are larger than memory.

A source is a folder or pattern of Parquet files, or a dask.dataframe; the unlabelled rows of the target are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Alignment, MergingAligner
from hedgerow.core.arrays import DENSE_LIMIT, Array, Matrix, cast, dense
from hedgerow.core.domains import Domain
from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import Spread
from hedgerow.core.source_rows import Part, RowMap, Smallest, SourceRows, Statistic
from hedgerow.core.values import Codes, classes_of, objects
from hedgerow.dask.cluster import Place, connected
from hedgerow.dask.partitions import Block, Opened, Partition, open_frame, open_parquet
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.rows.inputs import stem

Source = Any  # a path, or a dask.dataframe
FAN = 8  # results that are merged at once
HELD_OUT = 1000  # rows by which the error of landmarks is measured
MOST_LABELS = 100_000  # different ones; a column with more is a measurement, or a name of rows


@dataclass(frozen=True)
class Pass:
    """What is done with every row: steps, then statistics. `classes` are those whose places are the codes.

    Numbers are added in the order of the partitions, whichever worker was faster, or died: the same folder gives the
    same bits.
    """

    statistics: tuple[Statistic[Any], ...]
    steps: tuple[RowMap, ...] = ()
    classes: Array | None = None

    def of(self, partition: Partition, number: int) -> list[Any]:
        """The statistics of a partition; nothing if it has no rows."""
        from threadpoolctl import threadpool_limits

        codes = None if self.classes is None else Codes(self.classes)
        with threadpool_limits(1):
            blocks = enumerate(partition.blocks())
            return self.merged(self._of_block(block, codes, (number, i)) for i, block in blocks)

    def _of_block(self, block: Block, codes: Codes | None, place: tuple[int, int]) -> list[Any]:
        X = block.X
        for step in self.steps:
            X = step(X)
        known = block.of if codes is None or not len(block.labels) else codes.of(block.labels)[block.of]
        part = Part(X, known, None, place, block.labels)
        return [statistic.of(part) for statistic in self.statistics]

    def merged(self, parts: Iterable[list[Any]]) -> list[Any]:
        """The statistics of all, in their order."""
        some = (part for part in parts if part)
        return reduce(self._merge, some, next(some, []))

    def _merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [statistic.merge(x, y) for statistic, x, y in zip(self.statistics, a, b, strict=True)]


def run_pass(client: Any, partitions: Sequence[Any], job: Pass) -> list[Any]:
    """The statistics of all partitions: one pass over the rows, then a tree of merges."""
    dask, distributed = require("dask", extra="dask"), require("distributed", extra="dask")
    shared = dask.delayed(job, traverse=False, pure=False)
    leaf, branch = (dask.delayed(each, pure=False) for each in (Pass.of, Pass.merged))
    level = [leaf(shared, partition, number) for number, partition in enumerate(partitions)]
    while True:
        level = [branch(shared, level[i : i + FAN]) for i in range(0, len(level), FAN)]
        if len(level) == 1:
            break
    try:
        # the maps of the spaces are sent once a pass; scattered in advance, they could be lost with a worker
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
            totals = client.compute(level[0]).result()
    except distributed.KilledWorker as error:
        raise HedgerowError(
            f"every worker that ran a pass over {len(partitions)} partitions died (was there memory enough?)"
        ) from error
    if not totals:
        raise InputError("no rows in any partition; a domain needs at least one instance")
    return list(totals)


@dataclass(frozen=True)
class Statistics:
    """Counts, sums and centred scatter of a source, by class where it has labels; all from one pass."""

    classes: Array
    moments: Moments

    @property
    def gram(self) -> Array:
        """X^T X."""
        moments = self.moments
        return np.asarray(moments.scatter + np.outer(moments.mean, moments.total))

    def among(self, classes: Array) -> Moments:
        """Moments with these classes, in their order."""
        places = {label: k for k, label in enumerate(classes.tolist())}
        at = [places[label] for label in self.classes.tolist()]
        counts, totals = np.zeros(len(classes)), np.zeros((len(classes), len(self.moments.total)))
        counts[at], totals[at] = self.moments.class_counts, self.moments.class_totals
        return replace(self.moments, class_counts=counts, class_totals=totals)


@dataclass(frozen=True)
class Labels(Statistic[Array]):
    """The different labels, as they stand there: before the classes are known."""

    def of(self, part: Part) -> Array:
        """Of a block, which may name some that none of its rows has."""
        assert part.labels is not None
        assert part.codes is not None
        return np.asarray(part.labels[np.unique(part.codes[part.codes >= 0])])

    def merge(self, a: Array, b: Array) -> Array:
        """Of both."""
        return union(a, b)


@dataclass(frozen=True)
class ByLabel(Statistic[Statistics]):
    """Moments by label, with the centred scatter: all sums of a source in one pass."""

    def of(self, part: Part) -> Statistics:
        """Of a block."""
        assert part.labels is not None
        return Statistics(part.labels, Moments.of(part.X, part.codes, len(part.labels), scatter=True))

    def merge(self, a: Statistics, b: Statistics) -> Statistics:
        """Of both, with the labels of both."""
        classes = union(a.classes, b.classes)
        return Statistics(classes, a.among(classes).merge(b.among(classes)))


def union(a: Array, b: Array) -> Array:
    """The labels of both, each once; sorted where they are of one type.

    >>> union(np.array(["b", "a"]), np.array(["c", "a"])).tolist()
    ['a', 'b', 'c']
    """
    if a.dtype.kind == b.dtype.kind and a.dtype.kind != "O":
        labels = np.unique(np.concatenate([a, b]))
    else:
        labels = objects(list(dict.fromkeys([*a.tolist(), *b.tolist()])))
    if len(labels) > MOST_LABELS:
        raise InputError(
            f"more than {MOST_LABELS} different labels (such as {labels[-1]!r}); is this the column of labels?"
        )
    return labels


@dataclass(frozen=True)
class Sampled:
    """Rows in the order of their draws, and how many rows of each class there were to draw from."""

    X: Array
    codes: Array
    draws: Array
    counts: Array

    def weights(self) -> Array | None:
        """How many rows each one stands for; None if all are there."""
        drawn = np.bincount(self.codes, minlength=len(self.counts))
        if (drawn == self.counts).all():
            return None
        return np.asarray((self.counts / np.maximum(drawn, 1))[self.codes])


@dataclass(frozen=True)
class Sample(Statistic[Sampled]):
    """At most `count` rows, of all or of each class: a uniform draw without replacement.

    Every row draws a number by the seed, its partition and its block, and those with the smallest ones stay: a pass
    that is repeated draws the same rows, and two samples of different rows merge into a sample of all.
    """

    count: int
    seed: int
    by_class: bool = False

    def of(self, part: Part) -> Sampled:
        """Those of some rows."""
        n = part.X.shape[0]
        codes = np.zeros(n, np.int64) if part.codes is None else np.maximum(part.codes, 0)
        draws = np.random.default_rng([self.seed, *part.place]).random(n)
        return self._kept(part.X, codes, draws, np.bincount(codes, minlength=1))

    def merge(self, a: Sampled, b: Sampled) -> Sampled:
        """Those of both."""
        X, codes, draws = (np.concatenate([getattr(a, name), getattr(b, name)]) for name in ("X", "codes", "draws"))
        size = max(len(a.counts), len(b.counts))
        counts = [np.pad(each.counts, (0, size - len(each.counts))) for each in (a, b)]
        return self._kept(X, codes, draws, counts[0] + counts[1])

    def _kept(self, X: Matrix, codes: Array, draws: Array, counts: Array) -> Sampled:
        group = codes if self.by_class else np.zeros_like(codes)
        order = np.lexsort((draws, group))
        begin = np.searchsorted(group[order], group[order])  # where the group of each row begins
        first = order[np.arange(len(order)) - begin < self.count]
        return Sampled(dense(X[first]), codes[first], draws[first], counts)


class PartitionedSource:
    """A source on a cluster, after the first pass: its labels, its count, its smallest number, means and variances."""

    def __init__(self, client: Any, opened: Opened) -> None:
        self.client, self.opened, self.passes = client, opened, 0
        self.name, self.feature_names, self.dtype = opened.name, opened.features, opened.dtype
        asked: tuple[Statistic[Any], ...] = Smallest(), Spread()
        labels, *known = self.totals(Pass((Labels(), *asked)))
        self.labels: Array = labels
        self.count = int(known[1].n[0])
        self._known = tuple(zip(asked, known, strict=True))

    def totals(self, job: Pass) -> list[Any]:
        """The statistics of all rows: one more pass."""
        self.passes += 1
        return run_pass(self.client, self.opened.partitions, job)

    def rows(self, classes: Array, dtype: np.dtype[Any]) -> SourceRows:
        """Its rows, with codes."""
        rows = Partitioned(self, self.count, len(self.feature_names), classes, (), self._known)
        return rows if dtype == self.dtype else rows.through(partial(cast, dtype=dtype))


@dataclass(frozen=True)
class Partitioned(SourceRows):
    """The rows of a source on a cluster. A step is remembered, and taken where the rows are read."""

    source: PartitionedSource
    count: int
    width: int
    classes: Array
    steps: tuple[RowMap, ...] = ()
    known: Sequence[tuple[Statistic[Any], Any]] = ()  # statistics of these rows that were taken before

    def through(self, step: RowMap) -> Partitioned:
        """The same rows behind one more step; how wide they are then is tried with none."""
        width = step(np.empty((0, self.width), self.source.dtype)).shape[1]
        return replace(self, width=width, steps=(*self.steps, step), known=())

    def totals(self, *statistics: Statistic[Any]) -> list[Any]:
        """One pass, unless all of them were taken before."""
        known = [[value for each, value in self.known if each == statistic] for statistic in statistics]
        asked = tuple(each for each, values in zip(statistics, known, strict=True) if not values)
        taken = iter(self.source.totals(Pass(asked, self.steps, self.classes)) if asked else ())
        return [values[0] if values else next(taken) for values in known]

    def drawn(self, count: int, rng: np.random.Generator) -> Matrix:
        """A uniform sample; which rows it has depends on the partitions and the seed."""
        return self.totals(Sample(min(count, self.count), int(rng.integers(2**63))))[0].X

    def candidates(self, limit: int, rng: np.random.Generator) -> Part:
        """A uniform sample of each class that has more than `limit` rows."""
        sample = self.totals(Sample(limit, int(rng.integers(2**63)), by_class=True))[0]
        return Part(sample.X, sample.codes, sample.weights())

    def gathered(self) -> Matrix:
        """All rows, in any order, if they are as few as that."""
        size = 8 * self.count * self.width
        if size > DENSE_LIMIT:
            raise InputError(f"{self.count} x {self.width} numbers take {size / 2**30:.1f} GiB: too many to gather")
        return self.totals(Sample(self.count, 0))[0].X


@dataclass(frozen=True)
class Report:
    """What a fit read: rows and labels of each source, its partitions, and how often all rows were read."""

    sources: tuple[tuple[str, int, int], ...]  # name, rows, classes
    partitions: int
    passes: int


def fit(
    clf: OnlineTransferClassifier,
    sources: Mapping[str, Source] | Sequence[Source],
    label: str,
    warmup: Domain | Any = None,
    *,
    client: Any = None,
    engine: str = "dask",
) -> OnlineTransferClassifier:
    """Fit a classifier on sources that need not fit into memory.

    The sources are never gathered: they are asked for statistics that merge (counts, sums, Gram matrices), a few
    passes over all rows. The model predicts as that of `clf.fit_domains`; its numbers differ by rounding. Use
    `fit_domains` where the rows have room in memory: it reads them once. The methods of the paper learn their
    sources row by row and cannot be fitted so.

    Parameters
    ----------
    clf : OnlineTransferClassifier
        With a method whose statistics merge: `hedgerow` or `hedgerow-linear`.
    sources : mapping from names to sources, or sequence of sources
        A source is a path (a Parquet file, a folder or a pattern of them) or a `dask.dataframe`.
    label : str
        The column of labels; all others are features, and all sources have the same.
    warmup : Domain or table, optional
        Unlabelled rows of the target, in memory.
    client : distributed.Client, optional
        Without one the current client is used, and without that a cluster is started for this call.
    engine : str, default "dask"
        What kind of cluster that is: "dask", "dask://local:2" or "dask://HOST:PORT".

    Returns
    -------
    OnlineTransferClassifier
        `clf`, fitted; `clf.partitions_` says what was read: rows and classes of each source, partitions, passes.

    Raises
    ------
    InputError
        If a source cannot be read so, features or labels do not fit, or the method needs its rows; `clf` is as before.

    Notes
    -----
    docs/dask.md has a whole program, and the passes one by one.
    """
    opened = open_sources(sources, label)
    clf.check_partitions(len(opened[0].features))
    target = warmup if warmup is None or isinstance(warmup, Domain) else Domain("target", warmup)
    with _connected(client, engine) as connection:
        read = [PartitionedSource(connection, each) for each in opened]
        clf.fit_partitions(read, target)
        clf.partitions_ = Report(
            tuple((each.name, each.count, len(each.labels)) for each in read),
            sum(len(each.opened.partitions) for each in read),
            max(each.passes for each in read),
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
    """Fit an aligner on a source in partitions and the target's rows in memory.

    Rows are taken as they are: no preprocessing comes before.

    Parameters
    ----------
    aligner : str or Aligner
        One whose statistics merge: `identity`, `coral`, `tca`, `whitening`, `whitened-pca` or `landmarks`.
    source : path or dask.dataframe
        As for `fit`.
    label : str, optional
        A column that is no feature; `whitening` needs it.
    target : array (n, m), optional
        Unlabelled rows of the target.
    client, engine
        As for `fit`.

    Returns
    -------
    Alignment
        What `aligner.fit` gives in memory, up to rounding; `info.note` says how wrong a sample or a sketch may be.

    Raises
    ------
    InputError
        If the aligner compares rows with each other, or the target has other features.
    """
    made = ALIGNERS.make(aligner)
    if not isinstance(made, MergingAligner):
        able = ", ".join(name for name in ALIGNERS if hasattr(ALIGNERS[name], "fit_rows"))
        raise InputError(f"aligner={aligner!r} compares rows with each other, so they must be in memory; able: {able}")
    (opened,) = open_sources([source], label)
    U = np.empty((0, len(opened.features))) if target is None else dense(target)
    if U.shape[1] != len(opened.features):
        raise InputError(f"target: {U.shape[1]} features, but the source has {len(opened.features)}")
    with _connected(client, engine) as connection:
        read = PartitionedSource(connection, opened)
        classes = classes_of(read.labels, "y") if label is not None else np.empty(0, dtype=object)
        rows = read.rows(classes, np.result_type(read.dtype, U.dtype))
        return _with_error(made.fit_rows(rows, len(classes), U), rows)


def _with_error(alignment: Alignment, rows: SourceRows) -> Alignment:
    """Of landmarks, which are a sample: how much of the kernel they miss, by other rows drawn for that."""
    projection = alignment.projection
    if projection.landmarks is None:
        return alignment
    others = rows.drawn(HELD_OUT, np.random.default_rng(len(projection.landmarks)))
    Z = projection(others)
    missed = np.maximum(1.0 - np.einsum("ij,ij->i", Z, Z), 0.0)  # k(x, x) = 1 for rows of unit length
    note = (
        f"{len(projection.landmarks)} landmarks drawn at random: of k(x, x) = 1 they miss {missed.mean():.2g} in the "
        f"mean of {len(others)} other rows, {np.quantile(missed, 0.95):.2g} in the worst twentieth"
    )
    return Alignment(projection, replace(alignment.info, note=note))


def statistics(source: Source, label: str | None = None, *, client: Any = None, engine: str = "dask") -> Statistics:
    """Counts, sums, class sums and scatter of a source in partitions, in one pass.

    Parameters
    ----------
    source : path or dask.dataframe
        As for `fit`.
    label : str, optional
        The column of labels; without one there are no class sums.
    client, engine
        As for `fit`.

    Returns
    -------
    Statistics
        `classes`, `moments` (a `Moments`, with its scatter) and `gram`, the matrix X^T X.
    """
    (opened,) = open_sources([source], label)
    with _connected(client, engine) as connection:
        totals: Statistics = run_pass(connection, opened.partitions, Pass((ByLabel(),)))[0]
    return totals


def open_sources(sources: Mapping[str, Source] | Sequence[Source], label: str | None) -> list[Opened]:
    """The sources by name, all with the columns of the first; nothing but what stands at the ends of files is read."""
    if isinstance(sources, str | Path) or hasattr(sources, "to_delayed"):
        raise InputError("sources: give a list of sources, or a mapping from names to sources")
    files = (stem(str(each)) if isinstance(each, str | Path) else str(i) for i, each in enumerate(sources))
    named = sources if isinstance(sources, Mapping) else dict(zip(files, sources, strict=True))
    if not named or len(named) != len(sources):
        raise InputError(f"sources: {list(named)}; give at least one, and names that differ")
    opened: list[Opened] = []
    for name, source in named.items():
        if isinstance(source, str | Path):
            opened.append(open_parquet(source, label, name, *opened[:1]))
        elif hasattr(source, "to_delayed") and hasattr(source, "columns"):
            opened.append(open_frame(source, label, name, *opened[:1]))
        else:
            kind = type(source).__name__
            raise InputError(f"source {name!r}: a {kind}; give a path of Parquet files, or a dask.dataframe")
    return opened


@contextmanager
def _connected(client: Any, engine: str) -> Iterator[Any]:
    """This client, the current one, or one of a new cluster."""
    if client is None:
        try:
            client = require("distributed", extra="dask").get_client()
        except ValueError:
            with connected(Place.of(engine)) as own:
                yield own
            return
    yield client
