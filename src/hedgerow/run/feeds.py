"""Where rows come from: files and pipes here, brokers in `run/redis_streams.py` and `run/kafka.py`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from hedgerow.core.errors import InputError
from hedgerow.data.row_blocks import RowBlock, RowSource, Wanted, open_rows
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job, called
from hedgerow.run.read_ahead import read_ahead

SIZE = 2048  # rows that are predicted, learned and committed together


class Feed(Protocol):
    """Blocks of rows, and the place after each."""

    late: bool  # whether labels may come apart from their rows

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns that the model does not know."""

    @property
    def left(self) -> float | None:
        """The share of the input that is still to come, if that can be known."""

    def __iter__(self) -> Iterator[RowBlock]: ...

    def place(self, block: RowBlock) -> bytes:
        """What a journal keeps with a block, to go on after it."""

    def acknowledge(self, block: RowBlock) -> None:
        """The block is on disk."""


def wanted_of(clf: OnlineTransferClassifier, job: Job, id: str | None = None) -> Wanted:
    """What a model expects of a row."""
    names = getattr(clf, "feature_names_in_", None)
    return Wanted(
        clf.n_features_in_,
        None if names is None else list(map(str, names)),
        job.label,
        clf.classes_,
        new_classes=job.new_classes == "learn",
        id=id or job.id,
        table=clf.table_,
    )


class Files:
    """A file, a folder, a pattern, or a pipe."""

    def __init__(self, source: RowSource, job: Job) -> None:
        self._source = source
        self.late = job.labels is not None or (job.id is not None and source.format == "jsonl")

    @property
    def ignored(self) -> tuple[str, ...]:
        """Of all files so far."""
        return self._source.ignored

    @property
    def left(self) -> float | None:
        """By bytes."""
        total = self._source.total
        return None if not total else max(1 - self._source.done / total, 0.0)

    def __iter__(self) -> Iterator[RowBlock]:
        return read_ahead(self._source) if self._source.total else iter(self._source)

    def place(self, block: RowBlock) -> bytes:
        """The end of the block, and which stream it is."""
        return json.dumps({"identity": self._source.identity, "end": block.end}).encode()

    def acknowledge(self, block: RowBlock) -> None:
        """A file need not be told."""


@contextmanager
def files(job: Job, wanted: Wanted, interrupts: Interrupts, kept: bytes | None, size: int = SIZE) -> Iterator[Files]:
    """The files of a run, from where a journal says that an earlier one was."""
    before: dict[str, Any] | None = None if kept is None else json.loads(kept)
    if job.is_pipe:
        with _opened(job.input) as descriptor:
            text = interrupts.reading(descriptor)
            with open_rows(job.input, wanted, format=job.format, size=size, descriptor=text) as source:
                yield Files(source, job)
        return
    with open_rows(job.input, wanted, format=job.format, size=size, start=before and before["end"]) as source:
        if before is not None and not source.continues(before["identity"]):
            raise InputError(
                f"{called(job.input)} is not the stream that the journal {job.journal} knows (it begins otherwise); "
                "give that stream, or another journal"
            )
        yield Files(source, job)


@contextmanager
def _opened(name: str) -> Iterator[int]:
    """The descriptor of a pipe."""
    if name == "-":
        yield 0
        return
    try:
        file = os.open(name, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    try:
        yield file
    finally:
        os.close(file)
