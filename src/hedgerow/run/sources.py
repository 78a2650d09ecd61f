"""Where rows come from: files and pipes here, brokers in `run/brokers.py`."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.live.journal import Model
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.rows import RowBlock, Wanted, open_rows
from hedgerow.rows.wanted import NUMBERS
from hedgerow.run.engine import RunEngine
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job, called
from hedgerow.run.report import Say

SIZE = 2048  # rows that are predicted, learned and committed together


class Source(ABC):
    """Blocks of rows, and the place after each. `late`: whether labels may come apart from their rows."""

    late = True

    @property
    def left(self) -> float | None:
        """The share of the input that is still to come, if that can be known."""
        return None

    @abstractmethod
    def ignored(self) -> tuple[str, ...]:
        """Columns that the model does not know."""

    @abstractmethod
    def __iter__(self) -> Iterator[RowBlock]: ...

    @abstractmethod
    def place(self, block: RowBlock) -> bytes:
        """What a journal keeps with a block, to go on after it."""

    def acknowledge(self, block: RowBlock) -> None:
        """The block is on disk."""
        return

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""


def open_source(job: Job, engine: RunEngine, interrupts: Interrupts, say: Say) -> Source:
    """The input of a run, from where the journal says that an earlier run was."""
    if job.input.startswith(("redis://", "rediss://")):
        from hedgerow.run.brokers import RedisSource

        return RedisSource(job, engine.clf, interrupts)
    if job.input.startswith("kafka://"):
        from hedgerow.run.brokers import KafkaSource

        return KafkaSource(job, engine.clf, interrupts, engine.mark("input"), say)
    return Files(job, engine, interrupts)


def label_classes(model: Model) -> Any:
    """What labels are read as: the classes, or numbers."""
    return NUMBERS if isinstance(model, OnlineTransferRegressor) else model.classes_


def wanted_of(clf: Model, job: Job, id: str | None = None) -> Wanted:
    """What a model expects of a row."""
    names = getattr(clf, "feature_names_in_", None)
    return Wanted(
        clf.n_features_in_,
        None if names is None else list(map(str, names)),
        job.label,
        label_classes(clf),
        new_classes=job.new_classes == "learn",
        id=id or job.id,
        table=clf.table_,
        keep_cells=clf.table_ is not None and job.journal is not None,
    )


class Files(Source):
    """A file, a folder, a pattern, or a pipe."""

    def __init__(self, job: Job, engine: RunEngine, interrupts: Interrupts) -> None:
        kept = None if job.is_pipe else engine.mark("input")
        before: dict[str, Any] | None = None if kept is None else json.loads(kept)
        pipe = interrupts.reading(_pipe(job.input, interrupts)) if job.is_pipe else None
        self._rows = open_rows(
            job.input, wanted_of(engine.clf, job), format=job.format, size=SIZE, start=before and before["end"],
            descriptor=pipe, bad_apart=job.on_error == "stop",
        )  # fmt: skip
        if before is not None and not self._rows.continues(before["identity"]):
            self._rows.close()
            raise InputError(
                f"{called(job.input)} is not the stream that the journal {job.journal} knows (it begins otherwise); "
                "give that stream, or another journal"
            )
        self.late = job.labels is not None or (job.id is not None and self._rows.format == "jsonl")

    def ignored(self) -> tuple[str, ...]:
        """Of all files so far."""
        return self._rows.ignored

    @property
    def left(self) -> float | None:
        """By bytes."""
        total = self._rows.total
        return None if not total else max(1 - self._rows.done / total, 0.0)

    def __iter__(self) -> Iterator[RowBlock]:
        return read_ahead(iter(self._rows)) if self._rows.total else iter(self._rows)

    def place(self, block: RowBlock) -> bytes:
        """The end of the block, and which stream it is."""
        return json.dumps({"identity": self._rows.identity, "end": block.end}).encode()

    def close(self) -> None:
        """Close the file."""
        self._rows.close()


def read_ahead(blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """The blocks in order, each read while the one before it is worked on."""
    with ThreadPoolExecutor(1, "hedgerow-read-ahead") as pool:
        following = pool.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, blocks, None)
            yield block


def _pipe(name: str, interrupts: Interrupts) -> int:
    """The descriptor of standard input or of a named pipe."""
    if name == "-":
        return 0
    try:
        with interrupts.opening():
            return os.open(name, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
