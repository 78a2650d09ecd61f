"""Where rows come from: files and pipes here, brokers in `run/redis_streams.py` and `run/kafka.py`."""

from __future__ import annotations

import io
import json
import os
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.rows import Bad, RowBlock, RowSource, Wanted, open_rows
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job, called

# Messages of a broker as blocks of rows: each is a JSON object, or named fields, and has a place of its own.
PLACE = "message id"  # the id of a row that has none of its own; no column of a user's is called so by accident
AT_ONCE = 256  # messages that are taken, committed and acknowledged together


class Messages:
    """Makes blocks of messages. Without an id column a message's own id names its row.

    A message that has an id and a label and no feature is the label of an earlier one.
    """

    def __init__(self, clf: OnlineTransferClassifier, job: Job, called: str) -> None:
        self._wanted: Wanted = wanted_of(clf, job, None if job.id else PLACE)
        self._own_ids, self._called, self._count = job.id is None, called, 0
        self.ignored: tuple[str, ...] = ()

    def blocks(self, messages: Sequence[tuple[str, bytes | Mapping[str, str]]]) -> Iterator[RowBlock]:
        """Of messages in order: (id, JSON text or fields)."""
        text = b"".join(self._line(id, content) for id, content in messages)
        with open_rows("-", self._wanted, format="jsonl", size=len(messages), descriptor=io.BytesIO(text)) as rows:
            for block in rows:
                self.ignored = tuple(name for name in rows.ignored if name != PLACE)
                numbers = block.rows + self._count
                bad = [Bad(b.line, f"message {messages[b.line - 1][0]}: {b.reason}", b.text) for b in block.bad]
                yield replace(block, rows=numbers, bad=bad, file=self._called)
            self._count += len(messages)

    def _line(self, id: str, content: bytes | Mapping[str, str]) -> bytes:
        fields: Any = content
        if isinstance(content, bytes):
            if not self._own_ids:
                return content.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"
            try:
                fields = json.loads(content)
            except (ValueError, RecursionError):
                return b"{not JSON: " + content[:1000].replace(b"\n", b" ") + b"\n"
        if isinstance(fields, Mapping) and self._own_ids:
            fields = {**fields, PLACE: id}
        return json.dumps(fields).encode() + b"\n"


# The next blocks of a file, read while the last one is worked on.
T = TypeVar("T")
DEPTH = 2  # blocks that wait
LOOK = 0.1  # seconds between two looks at whether anybody still wants them


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in order, made in a thread of its own, whose errors are raised here.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    made: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(DEPTH)
    over = threading.Event()

    def put(kind: str, item: T | BaseException | None) -> bool:
        while not over.is_set():
            try:
                made.put((kind, item), timeout=LOOK)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, name="hedgerow-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = made.get()
            if kind == "end":
                return
            if kind == "error":
                raise item  # type: ignore[misc]
            yield item  # type: ignore[misc]
    finally:
        over.set()
        thread.join()


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


class BrokerFeed:
    """Blocks of messages that never end; `_last`: the last block of those that were taken together."""

    late = True
    left = None

    def __init__(self, clf: OnlineTransferClassifier, job: Job, called: str, interrupts: Interrupts) -> None:
        self._messages, self._interrupts, self._last = Messages(clf, job, called), interrupts, False

    @property
    def ignored(self) -> tuple[str, ...]:
        """Fields that the model does not know."""
        return self._messages.ignored


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
