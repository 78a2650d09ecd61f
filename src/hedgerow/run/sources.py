"""Where rows come from: files and pipes here, brokers in `run/redis_streams.py` and `run/kafka.py`."""

from __future__ import annotations

import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.rows import Bad, RowBlock, Wanted, open_rows
from hedgerow.run.engine import Engine, Model, label_classes
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job, called
from hedgerow.run.tally import Say

SIZE = 2048  # rows that are predicted, learned and committed together
MESSAGE_ID = "message id"  # the id of a row that has none of its own; no column of a user's is called so by accident
AT_ONCE = 256  # messages that are taken, committed and acknowledged together


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


def open_source(job: Job, engine: Engine, interrupts: Interrupts, say: Say) -> Source:
    """The input of a run, from where the journal says that an earlier run was."""
    if job.input.startswith(("redis://", "rediss://")):
        from hedgerow.run.redis_streams import RedisSource

        return RedisSource(job, engine.clf, interrupts)
    if job.input.startswith("kafka://"):
        from hedgerow.run.kafka import KafkaSource

        return KafkaSource(job, engine.clf, interrupts, engine.mark("input"), say)
    return Files(job, engine, interrupts)


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
        gaps=clf.table_ is None and clf.learner_.gaps,
        keep_cells=clf.table_ is not None and job.journal is not None,
    )


class Files(Source):
    """A file, a folder, a pattern, or a pipe."""

    def __init__(self, job: Job, engine: Engine, interrupts: Interrupts) -> None:
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


class Broker(Source):
    """Messages that never end. Each is a JSON object, or named fields; without an id column its own id names its row.

    A message that has an id and a label and no feature is the label of an earlier one.
    """

    def __init__(self, clf: Model, job: Job, called: str, interrupts: Interrupts) -> None:
        self._wanted: Wanted = wanted_of(clf, job, None if job.id else MESSAGE_ID)
        self._job, self._called, self._interrupts, self._count = job, called, interrupts, 0
        self._ignored: tuple[str, ...] = ()
        self._last = False  # whether the block is the last of those that were taken together

    def ignored(self) -> tuple[str, ...]:
        """Fields that the model does not know."""
        return self._ignored

    def blocks_of(self, messages: Sequence[tuple[str, bytes | Mapping[str, str]]]) -> Iterator[RowBlock]:
        """Blocks of messages that were taken together: (id, JSON text or fields), in order."""
        if not messages:
            return
        text = b"".join(self._line(id, content) for id, content in messages)
        stop = self._job.on_error == "stop"
        options: dict[str, Any] = {"format": "jsonl", "size": len(messages), "bad_apart": stop}
        with open_rows("-", self._wanted, descriptor=io.BytesIO(text), **options) as rows:
            blocks = list(rows)
            self._ignored = tuple(name for name in rows.ignored if name != MESSAGE_ID)
        for i, block in enumerate(blocks):
            self._last = i == len(blocks) - 1
            bad = [Bad(b.line, f"message {messages[b.line - 1][0]}: {b.reason}", b.text) for b in block.bad]
            yield replace(block, rows=block.rows + self._count, bad=bad, file=self._called)
        self._count += len(messages)

    def _line(self, id: str, content: bytes | Mapping[str, str]) -> bytes:
        fields: Any = content
        if isinstance(content, bytes):
            if self._job.id is not None:
                return content.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
            try:
                fields = json.loads(content)
            except (ValueError, RecursionError):
                return b"{not JSON: " + content[:1000].replace(b"\n", b" ") + b"\n"
        if isinstance(fields, Mapping) and self._job.id is None:
            fields = {**fields, MESSAGE_ID: id}
        return json.dumps(fields).encode() + b"\n"

    def acknowledge(self, block: RowBlock) -> None:
        """With its last block a batch is on disk."""
        if self._last:
            self._acknowledge()

    @abstractmethod
    def _acknowledge(self) -> None:
        """Tell the broker."""
