"""A classifier, an aligner or plain statistics from sources that are larger than memory.

A source is a folder or pattern of Parquet files, or a dask.dataframe; the unlabelled rows of the target are in memory.
A partition of it is read where it is worked on. A `Part` is some of its rows: numbers with a column a feature (stored
column by column, as Parquet has them), and labels as places in a short list of different ones. A row that cannot be
used ends the pass, with the file, row and column that a person will look for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Alignment, MergingAligner
from hedgerow.core.arrays import DENSE_LIMIT, LARGEST, Array, Matrix, cast, dense
from hedgerow.core.domains import Domain, checked_names, order_by_name
from hedgerow.core.errors import HedgerowError, InputError, require, unknown
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import Spread
from hedgerow.core.source_rows import Part, RowMap, Smallest, SourceRows, Statistic
from hedgerow.core.values import Codes, classes_of, is_missing, objects
from hedgerow.dask.cluster import Place, connected
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.rows.inputs import Files, stem
from hedgerow.rows.wanted import labels_of_values

Source = Any  # a path, or a dask.dataframe
AT_ONCE = 16384  # rows of a part at most,
NUMBERS = 2**22  # and so many numbers
PARTITION = 2**26  # bytes of numbers that a partition of Parquet files has at least
NUMBER = re.compile(r"u?int\d|(half)?float|double|bool", re.IGNORECASE)  # types as pandas and pyarrow call them
FAN = 8  # results that are merged at once
HELD_OUT = 1000  # rows by which the error of landmarks is measured
MOST_LABELS = 100_000  # different ones; a column with more is a measurement, or a name of rows


@dataclass(frozen=True)
class Partition:
    """Some rows of a source: those `groups` of rows of a Parquet file, or a frame of pandas. A worker reads them."""

    features: tuple[str, ...]
    label: str | None
    dtype: str
    source: Any  # the path of the file, or the frame, delayed until a worker reads it
    where: str  # what it is, for errors
    groups: tuple[int, ...] = ()
    first: int = 0  # rows of the file before them

    def _batches(self, wanted: list[str], size: int) -> Iterator[Any]:
        """The columns of these names as batches of pyarrow, of at most so many rows."""
        if isinstance(self.source, str):
            texts = None if self.label is None else [self.label]  # as places in a list of different ones, if it is text
            with require("pyarrow.parquet", extra="dask").ParquetFile(self.source, read_dictionary=texts) as file:
                for batch in file.iter_batches(size, row_groups=list(self.groups), columns=wanted, use_threads=False):
                    yield batch.select(wanted)
            return
        pa = require("pyarrow", extra="dask")
        try:
            table = pa.Table.from_pandas(self.source[wanted], preserve_index=False)
        except pa.ArrowException as error:
            raise InputError(f"{self.where}: not a table ({error}); drop or encode these columns") from error
        yield from table.combine_chunks().to_batches(size)

    def parts(self, number: int = 0) -> Iterator[Part]:
        """The rows, some at a time, never all as one matrix; their codes are places in the `labels` of the part."""
        wanted, first = [*self.features, *([] if self.label is None else [self.label])], self.first
        for i, batch in enumerate(self._batches(wanted, at_once(len(wanted)))):
            labels, codes = self._labels(batch, first)
            yield Part(self._numbers(batch, first), codes, None, (number, i), labels)
            first += batch.num_rows

    def _numbers(self, batch: Any, first: int) -> Array:
        """The features of the rows from `first` on; the first cell that cannot be used is the error."""
        X = np.empty((len(self.features), batch.num_rows), self.dtype).T  # column by column
        for j, column in enumerate(batch.columns[: len(self.features)]):
            numbers = column if column.type == "double" else column.cast(self.dtype, safe=False)
            X[:, j] = numbers.to_numpy(zero_copy_only=False)
        flat, largest = X.T.ravel(), LARGEST[X.dtype]
        if np.vdot(flat, flat) <= largest**2 or not len(bad := np.argwhere(~(np.abs(X) <= largest))):
            return X
        row, j = bad[0]
        problem = "missing value" if np.isnan(X[row, j]) else f"{X[row, j]:g} is not finite, or its square overflows"
        place = f"{self.where}: row {first + row + 1}, column {self.features[j]!r}"
        raise InputError(f"{place}: {problem}; drop the row or fill the gap first")

    def _labels(self, batch: Any, first: int) -> tuple[Array, Array]:
        """The different labels of the rows from `first` on, and for each row the place of its own among them."""
        if self.label is None:
            return np.empty(0, dtype=object), np.full(batch.num_rows, -1)
        column = batch.column(len(self.features))
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        labels = labels_of_values(encoded.dictionary.to_pylist())
        indices = encoded.indices.fill_null(-1) if encoded.null_count else encoded.indices
        codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        missing = (codes < 0) | np.append(is_missing(labels), False)[codes]
        if missing.any():
            raise InputError(
                f"{self.where}, label column {self.label!r}: no label at row {first + int(missing.argmax())}; "
                "a source row needs a label: drop the row or fill the gap first"
            )
        return labels, codes


def at_once(width: int) -> int:
    """Rows of a part: fewer where they are long.

    >>> at_once(20), at_once(10_000)
    (16384, 419)
    """
    return max(1, min(AT_ONCE, NUMBERS // width))


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

        def of_part(part: Part) -> list[Any]:
            X, known = reduce(lambda rows, step: step(rows), self.steps, part.X), part.codes
            if codes is not None and part.labels is not None and len(part.labels):
                known = codes.of(part.labels)[part.codes]
            return [statistic.of(replace(part, X=X, codes=known)) for statistic in self.statistics]

        with threadpool_limits(1):
            return self.merged(map(of_part, partition.parts(number)))

    def merged(self, parts: Iterable[list[Any]]) -> list[Any]:
        """The statistics of all, in their order."""
        some = (part for part in parts if part)
        total = next(some, [])
        for part in some:
            total = [each.merge(a, b) for each, a, b in zip(self.statistics, total, part, strict=True)]
        return total


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
        raise InputError(f"more than {MOST_LABELS} labels (such as {labels[-1]!r}); is this the column of labels?")
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


FIRST: tuple[Statistic[Any], ...] = Labels(), Smallest(), Spread()  # of every source, in one pass


@dataclass
class PartitionedSource:
    """A source in partitions, and the cluster that reads them, once it is there."""

    name: str
    feature_names: Sequence[str]
    dtype: np.dtype[Any]
    partitions: Sequence[Partition]
    client: Any = None
    passes: int = 0

    def totals(self, job: Pass) -> list[Any]:
        """The statistics of all partitions: one pass over the rows, then a tree of merges."""
        dask, distributed = require("dask", extra="dask"), require("distributed", extra="dask")
        self.passes += 1
        shared = dask.delayed(job, traverse=False, pure=False)
        leaf, branch = (dask.delayed(each, pure=False) for each in (Pass.of, Pass.merged))
        level = [leaf(shared, partition, number) for number, partition in enumerate(self.partitions)]
        while True:
            level = [branch(shared, level[i : i + FAN]) for i in range(0, len(level), FAN)]
            if len(level) == 1:
                break
        try:
            # the maps of the spaces are sent once a pass; scattered in advance, they could be lost with a worker
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
                totals = self.client.compute(level[0]).result()
        except distributed.KilledWorker as error:
            work = f"a pass over {len(self.partitions)} partitions"
            raise HedgerowError(f"every worker that ran {work} died (was there memory enough?)") from error
        if not totals:
            raise InputError("no rows in any partition; a domain needs at least one instance")
        return list(totals)

    @cached_property
    def _known(self) -> list[Any]:
        """The `FIRST` statistics: the different labels; the smallest number; count, mean and variance a feature."""
        return self.totals(Pass(FIRST))

    @property
    def labels(self) -> Array:
        """The different labels."""
        return np.asarray(self._known[0])

    @property
    def count(self) -> int:
        """How many rows it has."""
        return int(self._known[2].n[0])

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
    known: Sequence[Any] = ()  # the `FIRST` statistics of these rows, where they were taken

    def through(self, step: RowMap) -> Partitioned:
        """The same rows behind one more step; how wide they are then is tried with none."""
        width = step(np.empty((0, self.width), self.source.dtype)).shape[1]
        return replace(self, width=width, steps=(*self.steps, step), known=())

    def totals(self, *statistics: Statistic[Any]) -> list[Any]:
        """One pass, unless all of them were taken before."""
        known = {i: self.known[FIRST.index(each)] for i, each in enumerate(statistics) if self.known and each in FIRST}
        asked = tuple(each for i, each in enumerate(statistics) if i not in known)
        taken = iter(self.source.totals(Pass(asked, self.steps, self.classes)) if asked else ())
        return [known[i] if i in known else next(taken) for i in range(len(statistics))]

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
    clf.check_partitions(len(opened[0].feature_names))
    target = warmup if warmup is None or isinstance(warmup, Domain) else Domain("target", warmup)
    with _connected(opened, client, engine):
        clf.fit_partitions(opened, target)
        clf.partitions_ = Report(
            tuple((each.name, each.count, len(each.labels)) for each in opened),
            sum(len(each.partitions) for each in opened),
            max(each.passes for each in opened),
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
    width = len(opened.feature_names)
    U = np.empty((0, width)) if target is None else dense(target)
    if U.shape[1] != width:
        raise InputError(f"target: {U.shape[1]} features, but the source has {width}")
    with _connected([opened], client, engine):
        classes = classes_of(opened.labels, "y") if label is not None else np.empty(0, dtype=object)
        rows = opened.rows(classes, np.result_type(opened.dtype, U.dtype))
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
    with _connected([opened], client, engine):
        totals: Statistics = opened.totals(Pass((ByLabel(),)))[0]
    return totals


def open_sources(sources: Mapping[str, Source] | Sequence[Source], label: str | None) -> list[PartitionedSource]:
    """The sources by name, all with the columns of the first; nothing but what stands at the ends of files is read."""
    if isinstance(sources, str | Path) or hasattr(sources, "to_delayed"):
        raise InputError("sources: give a list of sources, or a mapping from names to sources")
    files = (stem(str(each)) if isinstance(each, str | Path) else str(i) for i, each in enumerate(sources))
    named = sources if isinstance(sources, Mapping) else dict(zip(files, sources, strict=True))
    if not named or len(named) != len(sources):
        raise InputError(f"sources: {list(named)}; give at least one, and names that differ")
    opened: list[PartitionedSource] = []
    for name, source in named.items():
        if isinstance(source, str | Path):
            partitions = _open_parquet(source, label)
        elif hasattr(source, "to_delayed") and hasattr(source, "columns"):
            partitions = _open_frame(source, label, f"source {name!r}")
        else:
            kind = type(source).__name__
            raise InputError(f"source {name!r}: a {kind}; give a path of Parquet files, or a dask.dataframe")
        if opened:
            first, own = opened[0], partitions[0].features
            order_by_name(own, first.feature_names, f"source {name!r}", f"those of source {first.name!r}")
            partitions = [replace(each, features=first.partitions[0].features) for each in partitions]
        features, dtype = partitions[0].features, np.dtype(partitions[0].dtype)
        opened.append(PartitionedSource(name, features, dtype, partitions))
    return opened


def _open_parquet(path: str | Path, label: str | None) -> list[Partition]:
    """The Parquet files of a folder or pattern; only what stands at their ends is read."""
    parquet = require("pyarrow.parquet", extra="dask")
    files = Files.of(str(path))
    if files.format != "parquet":
        raise InputError(f"{path}: {files.format} files; a source that is read in partitions has to be Parquet")
    first: tuple[str, ...] = ()
    parts: list[tuple[Any, ...]] = []
    all_single = True
    for file in files.names:
        with parquet.ParquetFile(file) as opened:
            schema, about = opened.schema_arrow, opened.metadata
            sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        checked_names(schema.names, file)
        features, single = _features(dict(zip(schema.names, schema.types, strict=True)), label, file)
        first, all_single = first or features, all_single and single
        order_by_name(features, first, file, f"those of {files.names[0]}")
        parts += [(file, groups, sum(sizes[: groups[0]])) for groups in _grouped(sizes, len(features))]
    if not parts:
        raise InputError(f"{path}: no rows; a domain needs at least one instance")
    dtype = "float32" if all_single else "float64"
    return [Partition(first, label, dtype, file, file, *rows) for file, *rows in parts]


def _grouped(rows: Sequence[int], width: int) -> Iterator[tuple[int, ...]]:
    """Consecutive row groups, together when they are small.

    >>> list(_grouped([10, 10, 10**6, 10], 100))
    [(0, 1, 2), (3,)]
    """
    first, size = 0, 0
    for number, count in enumerate(rows):
        size += 8 * width * count
        if size >= PARTITION or number == len(rows) - 1:
            yield tuple(range(first, number + 1))
            first, size = number + 1, 0


def _open_frame(frame: Any, label: str | None, where: str) -> list[Partition]:
    """A dask.dataframe: its columns are looked at, and nothing is computed."""
    features, single = _features(dict(frame.dtypes.items()), label, where)
    dtype = "float32" if single else "float64"
    return [Partition(features, label, dtype, part, where) for part in frame.to_delayed()]


def _features(kinds: Mapping[Any, Any], label: str | None, where: str) -> tuple[tuple[str, ...], bool]:
    """The features among columns, by the names of their types, and whether all are float32."""
    if label is not None and label not in kinds:
        raise unknown(f"label column of {where}", label, map(str, kinds))
    own = [name for name in kinds if name != label and not str(name).startswith("__index_level_")]
    features = checked_names(own, where)
    if features is None:
        raise InputError(f"{where}: columns {own}; features have names, and there is at least one")
    for name in features:
        if not NUMBER.match(str(kinds[name])):
            raise InputError(f"{where}, column {name!r}: {kinds[name]}, not numbers; drop or encode it")
    return features, all(str(kinds[name]) in ("float", "float32") for name in features)


@contextmanager
def _connected(sources: Sequence[PartitionedSource], client: Any, engine: str) -> Iterator[None]:
    """The sources are read by this client, the current one, or one of a new cluster."""
    with ExitStack() as stack:
        if client is None:
            try:
                client = require("distributed", extra="dask").get_client()
            except ValueError:
                client = stack.enter_context(connected(Place.of(engine)))
        for source in sources:
            source.client = client
        yield
