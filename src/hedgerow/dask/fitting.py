"""A classifier, an aligner or plain statistics from sources that are larger than memory.

A source is a folder or pattern of Parquet files, or a dask.dataframe; the unlabelled rows of the target are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Alignment
from hedgerow.align.base import MergingAligner
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, require
from hedgerow.core.feature_names import order_by_name
from hedgerow.core.labels import classes_of
from hedgerow.core.moments import Moments
from hedgerow.core.running import Spread
from hedgerow.core.source_rows import Smallest, SourceRows, Statistic
from hedgerow.dask.cluster import Place, connected
from hedgerow.dask.labels import ByLabel, Counted, Different
from hedgerow.dask.partitions import Opened, open_frame, open_parquet
from hedgerow.dask.passes import Cast, Counter, Partitioned, Pass, run_pass
from hedgerow.data.inputs import stem
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.estimator.partitions import check_affordable, fit_partitions

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
