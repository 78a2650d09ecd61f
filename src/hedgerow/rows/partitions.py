"""Sources that are not in memory: their rows are read partition by partition, and what is kept of them are sums.

A partition is some rows of a source that one worker reads. `Pass` says what is computed from every row; the results
of two partitions merge into that of both. They are merged in the order of the partitions, whoever was faster: the same
partitions give the same bits for any number of workers. `hedgerow.rows.parquet` reads Parquet files in processes of
this machine, `hedgerow.spark` reads data frames of Spark.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from hedgerow.core.arrays import DENSE_LIMIT, LARGEST, Array, Matrix, cast, dense
from hedgerow.core.domains import checked_names, order_by_name
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.preprocess import Spread
from hedgerow.core.source_rows import Part, RowMap, Smallest, SourceRows, Statistic
from hedgerow.core.values import Codes, is_missing, objects
from hedgerow.rows.wanted import labels_of_values

ROWS_AT_ONCE = 16384  # rows of a batch at most,
NUMBERS_AT_ONCE = 2**22  # and so many numbers
MOST_LABELS = 100_000  # different ones; a column with more is a measurement, or a name of rows
NUMBER = re.compile(
    r"u?int\d*|tinyint|smallint|bigint|(half)?float|double|bool", re.IGNORECASE
)  # types of columns


def rows_at_once(width: int) -> int:
    """Rows of a batch: fewer where they are long.

    >>> rows_at_once(20), rows_at_once(10_000)
    (16384, 419)
    """
    return max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // width))


# -- from columns of Arrow to rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Which columns of a source are features, which is the label, and the type of the numbers."""

    features: tuple[str, ...]
    label: str
    dtype: str

    @classmethod
    def of(cls, kinds: Mapping[str, Any], label: str, where: str) -> Layout:
        """Of columns and the names of their types, as pyarrow or Spark call them."""
        if label not in kinds:
            raise unknown(f"label column of {where}", label, list(kinds))
        own = [name for name in kinds if name != label and not name.startswith("__index_level_")]
        features = checked_names(own, where)
        if features is None:
            raise InputError(f"{where}: no column but the label {label!r}; there are no features")
        for name in features:
            if not NUMBER.match(str(kinds[name])):
                raise InputError(
                    f"{where}, column {name!r}: {kinds[name]}, not numbers; a source that is read part by part has "
                    "numbers only: drop or encode this column first"
                )
        single = all(str(kinds[name]) in ("float", "float32") for name in features)
        return cls(features, label, "float32" if single else "float64")

    @property
    def columns(self) -> list[str]:
        """The names of the columns to read: features, then the label."""
        return [*self.features, self.label]

    def parts(
        self, batches: Iterable[Any], where: str, number: int, first: int = 0
    ) -> Iterator[Part]:
        """Batches of pyarrow with these columns as rows of partition `number`; `first`: rows of `where` before them.

        The codes of a part are places in its own `labels`.
        """
        for i, batch in enumerate(batches):
            labels, codes = self._labels(batch, where, first)
            yield Part(self._numbers(batch, where, first), codes, None, (number, i), labels)
            first += batch.num_rows

    def _numbers(self, batch: Any, where: str, first: int) -> Array:
        """The features of the rows; the first cell that cannot be used is the error."""
        X = np.empty(
            (len(self.features), batch.num_rows), self.dtype
        ).T  # column by column, as Arrow has them
        for j, column in enumerate(batch.columns[: len(self.features)]):
            numbers = column if column.type == "double" else column.cast(self.dtype, safe=False)
            X[:, j] = numbers.to_numpy(zero_copy_only=False)
        flat = X.T.ravel()
        largest = LARGEST[X.dtype]
        if np.vdot(flat, flat) <= largest**2:
            return X
        bad = np.argwhere(~(np.abs(X) <= largest))
        if not len(bad):
            return X
        row, j = bad[0]
        problem = (
            "missing value"
            if np.isnan(X[row, j])
            else f"{X[row, j]:g} is not finite, or its square overflows"
        )
        place = f"{where}: row {first + row + 1}, column {self.features[j]!r}"
        raise InputError(f"{place}: {problem}; drop the row or fill the gap first")

    def _labels(self, batch: Any, where: str, first: int) -> tuple[Array, Array]:
        """The different labels of the rows, and for each row the place of its own among them."""
        column = batch.column(len(self.features))
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        labels = labels_of_values(encoded.dictionary.to_pylist())
        indices = encoded.indices.fill_null(-1) if encoded.null_count else encoded.indices
        codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        missing = (codes < 0) | np.append(is_missing(labels), False)[codes]
        if missing.any():
            raise InputError(
                f"{where}: row {first + int(missing.argmax()) + 1}, label column {self.label!r}: no label; a source "
                "row needs a label: drop the row or fill the gap first"
            )
        return labels, codes


# -- statistics that only partitions need ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels(Statistic[Array]):
    """The different labels, as they are written: before the classes are known."""

    def of(self, part: Part) -> Array:
        """Of some rows; a category that none of them has is left out."""
        assert part.labels is not None
        assert part.codes is not None
        return np.asarray(part.labels[np.unique(part.codes)])

    def merge(self, a: Array, b: Array) -> Array:
        """The labels of both, each once; sorted where they are of one type.

        >>> Labels().merge(np.array(["b", "a"]), np.array(["c", "a"])).tolist()
        ['a', 'b', 'c']
        """
        if a.dtype.kind == b.dtype.kind and a.dtype.kind != "O":
            labels = np.unique(np.concatenate([a, b]))
        else:
            labels = objects(list(dict.fromkeys([*a.tolist(), *b.tolist()])))
        if len(labels) > MOST_LABELS:
            raise InputError(
                f"more than {MOST_LABELS} labels (such as {labels[-1]!r}); is this the column of labels?"
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

    Every row draws a number by the seed, its partition and its batch, and those with the smallest ones stay: a pass
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
        X = np.concatenate([a.X, b.X])
        codes = np.concatenate([a.codes, b.codes])
        draws = np.concatenate([a.draws, b.draws])
        counts = np.zeros(max(len(a.counts), len(b.counts)), np.int64)
        for each in (a, b):
            counts[: len(each.counts)] += each.counts
        return self._kept(X, codes, draws, counts)

    def _kept(self, X: Matrix, codes: Array, draws: Array, counts: Array) -> Sampled:
        group = codes if self.by_class else np.zeros_like(codes)
        order = np.lexsort((draws, group))
        begin = np.searchsorted(group[order], group[order])  # where the group of each row begins
        first = order[np.arange(len(order)) - begin < self.count]
        return Sampled(dense(X[first]), codes[first], draws[first], counts)


# -- a pass over all rows ----------------------------------------------------------------------------------------------
FIRST: tuple[Statistic[Any], ...] = Labels(), Smallest(), Spread()  # of every source, in one pass


@dataclass(frozen=True)
class Pass:
    """What is done with every row: steps, then statistics. `classes` are those whose places are the codes."""

    statistics: tuple[Statistic[Any], ...]
    steps: tuple[RowMap, ...] = ()
    classes: Array | None = None

    def of(self, parts: Iterable[Part]) -> list[Any]:
        """The statistics of a partition; nothing if it has no rows."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # the same sums, in the same order, for any number of workers
            return self.merged(map(self._of_part, parts))

    def _of_part(self, part: Part) -> list[Any]:
        codes = part.codes
        if self.classes is not None and part.labels is not None and len(part.labels):
            codes = Codes(self.classes).of(part.labels)[part.codes]
        X = reduce(lambda rows, step: step(rows), self.steps, part.X)
        part = replace(part, X=X, codes=codes)
        return [statistic.of(part) for statistic in self.statistics]

    def merged(self, results: Iterable[list[Any]]) -> list[Any]:
        """The statistics of all partitions, in their order."""
        total: list[Any] = []
        for result in results:
            if total and result:
                total = [
                    each.merge(a, b)
                    for each, a, b in zip(self.statistics, total, result, strict=True)
                ]
            else:
                total = total or result
        return total


class PartitionedSource(ABC):
    """A labelled source whose rows are read when they are asked for statistics; `passes`: how often all were read."""

    def __init__(self, name: str, layout: Layout) -> None:
        self.name = name
        self.layout = layout
        self.passes = 0

    @abstractmethod
    def results(self, job: Pass) -> Iterable[list[Any]]:
        """The statistics of every partition, in the order of the partitions."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """In the order of the numbers of a row."""
        return self.layout.features

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return np.dtype(self.layout.dtype)

    def order_as(self, first: PartitionedSource) -> None:
        """Read the features in the order of the first source, which has the same."""
        whose = f"those of source {first.name!r}"
        if (
            order_by_name(self.feature_names, first.feature_names, f"source {self.name!r}", whose)
            is not None
        ):
            self.layout = replace(self.layout, features=first.feature_names)
            self.__dict__.pop("_known", None)

    def totals(self, job: Pass) -> list[Any]:
        """The statistics of all rows: one pass."""
        self.passes += 1
        totals = job.merged(self.results(job))
        if not totals:
            raise InputError(
                f"source {self.name!r}: no rows in any part; a domain needs at least one instance"
            )
        return totals

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
        """Its rows, with the places of their labels among these classes as codes."""
        rows = Partitioned(self, self.count, len(self.feature_names), classes, (), self._known)
        return rows if dtype == self.dtype else rows.through(partial(cast, dtype=dtype))


@dataclass(frozen=True)
class Partitioned(SourceRows):
    """The rows of a source that is read part by part. A step is remembered, and taken where the rows are read."""

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
        known = {
            i: self.known[FIRST.index(each)]
            for i, each in enumerate(statistics)
            if self.known and each in FIRST
        }
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
            raise InputError(
                f"{self.count} x {self.width} numbers take {size / 2**30:.1f} GiB: too many to gather"
            )
        return self.totals(Sample(self.count, 0))[0].X


def check_alike(sources: Sequence[PartitionedSource]) -> None:
    """The sources have the columns of the first, and read them in its order; their names differ."""
    names = [source.name for source in sources]
    if len(set(names)) != len(names):
        raise InputError(f"sources: {names}; give every source a name of its own")
    for source in sources[1:]:
        source.order_as(sources[0])
