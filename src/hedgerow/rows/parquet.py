"""Parquet files as a source that need not fit into memory: row groups are read in processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hedgerow.core.domains import checked_names, order_by_name
from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.core.source_rows import Part
from hedgerow.rows.inputs import Files, stem
from hedgerow.rows.partitions import Layout, PartitionedSource, Pass, rows_at_once

PARTITION = 2**26  # bytes of numbers that a partition has at least


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of a file, which one process reads at once; `first`: rows of the file before them."""

    file: str
    groups: tuple[int, ...]
    first: int

    def parts(self, layout: Layout, number: int) -> Iterator[Part]:
        """The rows, some at a time, never all as one matrix."""
        parquet = require("pyarrow.parquet", extra="files")
        with parquet.ParquetFile(self.file, read_dictionary=[layout.label]) as file:
            batches = file.iter_batches(
                rows_at_once(len(layout.columns)), row_groups=list(self.groups), columns=layout.columns,
                use_threads=False,
            )  # fmt: skip
            in_order = (batch.select(layout.columns) for batch in batches)
            yield from layout.parts(in_order, self.file, number, self.first)


class ParquetSource(PartitionedSource):
    """A labelled source for `fit_domains` that need not fit into memory: a Parquet file, a folder or a pattern.

    Its rows are read part by part, in processes, as often as the fit needs sums of them (`passes`); they are never in
    memory together. The model is that of the same rows in memory, up to rounding: `hedgerow-linear` needs sums only,
    `hedgerow` draws other rows for its local heads. The same files give the same bits for any number of processes.

    Parameters
    ----------
    path : str or path
        The file, folder or pattern.
    label : str
        The column of labels; all others are features, and are numbers without gaps.
    name : str, optional
        What the source is called; by default as the file or folder.
    jobs : int, default -1
        Processes that read at the same time; -1: one a core.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from hedgerow import OnlineTransferClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a = np.linspace(-1, 1, 50)
    ...     pq.write_table(pa.table({"a": a, "b": a**2, "kind": np.where(a > 0, "up", "down")}), f"{folder}/0.parquet")
    ...     source = ParquetSource(folder, "kind", name="site", jobs=1)
    ...     clf = OnlineTransferClassifier("hedgerow-linear").fit_domains([source])
    >>> clf.classes_.tolist(), source.count
    (['down', 'up'], 50)
    """

    def __init__(
        self, path: str | os.PathLike[str], label: str, name: str | None = None, jobs: int = -1
    ) -> None:
        if jobs != -1 and jobs < 1:
            raise InputError(f"jobs={jobs}: at least one process is needed, or -1 for one a core")
        layout, self.partitions = _opened(Path(path), label)
        self.jobs = jobs
        super().__init__(stem(str(path)) if name is None else name, layout)

    def results(self, job: Pass) -> Iterator[list[Any]]:
        """The statistics of every partition, each from the process that was free."""
        from joblib import Parallel, delayed

        calls = (
            delayed(_statistics)(job, self.layout, rows, i)
            for i, rows in enumerate(self.partitions)
        )
        try:
            yield from Parallel(n_jobs=self.jobs, return_as="generator")(calls)
        except BrokenProcessPool as error:
            raise HedgerowError(
                f"source {self.name!r}: a process that read it was killed, perhaps for want of memory; nothing was "
                "fitted: use fewer processes (jobs=), or free some memory, and fit again"
            ) from error


def _statistics(job: Pass, layout: Layout, rows: RowGroups, number: int) -> list[Any]:
    """What a process computes: the statistics of one partition."""
    return job.of(rows.parts(layout, number))


def _opened(path: Path, label: str) -> tuple[Layout, list[RowGroups]]:
    """The columns of the first file, and all partitions; only what stands at the ends of the files is read."""
    parquet = require("pyarrow.parquet", extra="files")
    files = Files.of(str(path))
    if files.format != "parquet":
        raise InputError(
            f"{path}: {files.format} files; a source that is read part by part has to be Parquet"
        )
    layout: Layout | None = None
    partitions: list[RowGroups] = []
    for file in files.names:
        with parquet.ParquetFile(file) as opened:
            schema = opened.schema_arrow
            about = opened.metadata
            counts = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        checked_names(schema.names, file)
        own = Layout.of(dict(zip(schema.names, schema.types, strict=True)), label, file)
        layout = layout or own
        order_by_name(own.features, layout.features, file, f"those of {files.names[0]}")
        if own.dtype != layout.dtype:
            layout = replace(layout, dtype="float64")
        groups = _grouped(counts, len(own.features))
        partitions += [RowGroups(file, some, sum(counts[: some[0]])) for some in groups]
    if layout is None or not partitions:
        raise InputError(f"{path}: no rows; a domain needs at least one instance")
    return layout, partitions


def _grouped(counts: Sequence[int], width: int) -> Iterator[tuple[int, ...]]:
    """Consecutive row groups, together where they are small.

    >>> list(_grouped([10, 10, 10**6, 10], 100))
    [(0, 1, 2), (3,)]
    """
    first = 0
    size = 0
    for number, count in enumerate(counts):
        size += 8 * width * count
        if size >= PARTITION or number == len(counts) - 1:
            yield tuple(range(first, number + 1))
            first = number + 1
            size = 0
