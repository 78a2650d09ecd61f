"""Rows from Redis streams and Kafka topics, predictions to Redis streams.

Rows from a Redis stream, predictions to one: redis://[USER:PASSWORD@]HOST[:PORT][/DB]/STREAM[?OPTION=VALUE&..].

All but the stream is a URL of redis-py, with its options (`?ssl_ca_certs=..`); rediss:// is Redis over TLS. Entries are
read by a consumer group and acknowledged after the commit that has them. What was read and not acknowledged is read
again after a restart; the journal knows it by its id, so it is learned once. Nothing is read ahead: while a batch is
worked on, the rest waits in Redis.

Rows from a Kafka topic: kafka://HOST[:PORT][,HOST..]/TOPIC[?PROPERTY=VALUE&..], with confluent-kafka.

The properties are those of librdkafka's consumer: `security.protocol`, `sasl.username`, `ssl.ca.location` and so on.
The journal keeps the offset of every partition in the transaction that has its rows, and a run goes on from there; the
offsets are then committed to the group too, for whoever watches its lag. A journal reads all partitions of its topic.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.live.journal import line_mark
from hedgerow.rows import Bad, RowBlock, Wanted, open_rows
from hedgerow.run.engine import RunEngine
from hedgerow.run.interrupts import Interrupted, Interrupts
from hedgerow.run.job import Job, called
from hedgerow.run.report import Say
from hedgerow.run.sinks import Marks, Sink, begun
from hedgerow.run.sources import Source, wanted_of
from hedgerow.store import on_error
from hedgerow.task import Model

MESSAGE_ID = "message id"  # the id of a row that has none of its own; no column of a user's is called so by accident
AT_ONCE = 256  # messages that are taken, committed and acknowledged together
REDIS_WAIT = 500  # milliseconds for new entries, between two looks at signals
ABANDONED = 60_000  # milliseconds after which entries of a consumer that is gone are taken over
KAFKA_WAIT = 0.5  # seconds for new messages, between two looks at signals
PARTITIONS = 30.0  # seconds between two looks for partitions that were added
REACH = 10.0  # seconds in which a broker must answer at the start
PASSING = (
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_TIMED_OUT",
)  # errors that librdkafka tries to mend itself
Entries = list[tuple[bytes, dict[bytes, bytes] | None]]


class Broker(Source):
    """Messages that never end. Each is a JSON object, or named fields; without an id column its own id names its row.

    A message that has an id and a label and no feature is the label of an earlier one.
    """

    def __init__(self, clf: Model, job: Job, called: str, interrupts: Interrupts) -> None:
        self._wanted: Wanted = wanted_of(clf, job, None if job.id else MESSAGE_ID)
        self._job = job
        self._called = called
        self._interrupts = interrupts
        self._count = 0
        self._ignored: tuple[str, ...] = ()
        self._last = False  # whether the block is the last of those that were taken together

    def ignored(self) -> tuple[str, ...]:
        """Fields that the model does not know."""
        return self._ignored

    def blocks_of(
        self, messages: Sequence[tuple[str, bytes | Mapping[str, str]]]
    ) -> Iterator[RowBlock]:
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
            bad = [
                Bad(b.line, f"message {messages[b.line - 1][0]}: {b.reason}", b.text)
                for b in block.bad
            ]
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


class Server:
    """A connection that waits for a server which went away, unless a signal comes."""

    def __init__(self, url: str, interrupts: Interrupts) -> None:
        self._redis = redis = require("redis", extra="brokers")
        self._interrupts = interrupts
        self._url = called(url)
        parts = urlsplit(url)
        db, _, self.stream = parts.path.strip("/").rpartition("/")
        if not parts.hostname or not self.stream or (db and not db.isdigit()):
            raise InputError(
                f"{self._url}: write redis://HOST[:PORT][/DB]/STREAM, for instance redis://localhost/rows"
            )
        query = [
            (key, value)
            for key, value in parse_qsl(parts.query, keep_blank_values=True)
            if key != "group"
        ]
        address = parts._replace(path=f"/{db}", query=urlencode(query)).geturl()
        try:
            self.db = redis.Redis.from_url(address, socket_timeout=10, socket_connect_timeout=5)
            self.db.ping()
        except (redis.RedisError, ValueError, TypeError) as error:
            where = self._url.partition("://")[2]
            raise InputError(f"no Redis at {where} ({error}); is the server running?") from error

    def do(self, command: Callable[[], Any], expected: str = "") -> Any:
        """A command, again and again while the server is away; None if it is refused with the words `expected`."""
        pause = 0.05
        while True:
            try:
                return command()
            except (
                self._redis.ConnectionError,
                self._redis.TimeoutError,
                self._redis.BusyLoadingError,
            ):
                if self._interrupts.signal:
                    raise Interrupted from None
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
            except self._redis.ResponseError as error:
                if not expected or expected not in str(error):
                    raise InputError(f"{self._url}: {error}") from error
                return None


class RedisSource(Broker):
    """Blocks of a stream."""

    def __init__(self, job: Job, clf: Model, interrupts: Interrupts) -> None:
        self._server = Server(job.input, interrupts)
        super().__init__(clf, job, self._server.stream, interrupts)
        folder = str(job.journal.resolve()) if job.journal is not None else ""
        consumer = (
            "journal-" + hashlib.sha256(folder.encode()).hexdigest()[:12]
        )  # the same after a restart
        self._who = (job.group, consumer)
        self._unacknowledged: list[bytes] = []

    def __iter__(self) -> Iterator[RowBlock]:
        self._join()
        after: bytes = b"0"
        while entries := self._read(after, None):  # what this consumer had read when it ended
            after = entries[-1][0]
            yield from self._blocks(entries)
        yield from self._abandoned()
        looked = time.monotonic()
        while not self._interrupts.signal:
            yield from self._blocks(self._read(b">", REDIS_WAIT))
            if time.monotonic() - looked > ABANDONED / 1000:
                looked = time.monotonic()
                yield from self._abandoned()

    def _join(self) -> None:
        create = self._server.db.xgroup_create
        self._server.do(
            partial(create, self._server.stream, self._who[0], id="0", mkstream=True), "BUSYGROUP"
        )

    def _read(self, after: bytes, wait: int | None) -> Entries:
        streams: Any = {self._server.stream: after}
        read = partial(self._server.db.xreadgroup, *self._who, streams, count=AT_ONCE, block=wait)
        answer = self._server.do(read, "NOGROUP")
        if answer is None:
            self._join()  # the server came back without it
        return answer[0][1] if answer else []

    def _abandoned(self) -> Iterator[RowBlock]:
        """What another consumer had read, which did not come back."""
        start: bytes | str = "0-0"
        while start != b"0-0":
            claim = partial(self._server.db.xautoclaim, self._server.stream, *self._who, ABANDONED)
            start, entries, *_ = self._server.do(partial(claim, start_id=start, count=AT_ONCE))
            yield from self._blocks(entries)

    def _blocks(self, entries: Entries) -> Iterator[RowBlock]:
        if not entries:
            return
        self._unacknowledged = [id for id, _ in entries]
        self._last = False
        yield from self.blocks_of(
            [(id.decode(), _text(fields)) for id, fields in entries if fields]
        )
        if not self._last:  # there was none: entries that were deleted have no fields
            self._acknowledge()

    def place(self, block: RowBlock) -> bytes:
        """For people: the group at the server knows better."""
        return json.dumps(
            {"redis": self._server.stream, "last": self._unacknowledged[-1].decode()}
        ).encode()

    def _acknowledge(self) -> None:
        self._server.do(
            partial(self._server.db.xack, self._server.stream, self._who[0], *self._unacknowledged)
        )

    def close(self) -> None:
        """Close the connection."""
        self._server.db.close()


def _text(fields: dict[bytes, bytes]) -> bytes | dict[str, str]:
    """The JSON of an entry whose only field is "json", or its fields."""
    if len(fields) == 1 and b"json" in fields:
        return fields[b"json"]
    return {
        name.decode(errors="replace"): value.decode(errors="surrogateescape")
        for name, value in fields.items()
    }


class RedisSink(Sink):
    """Predictions as entries {"json": line} of a stream, each once: their ids are numbers that the journal counts."""

    def __init__(self, url: str, engine: RunEngine, interrupts: Interrupts) -> None:
        self._server = Server(url, interrupts)
        before = engine.mark("output")
        about: dict[str, Any] = {}
        if before is not None:
            about, self._data = begun(before, "redis", called(url))
        same = about.get("redis") == self._server.stream
        self._next = int(about["next"]) if same else self._end() + 1
        self._write(again=same)

    def _end(self) -> int:
        db = self._server.db
        name = self._server.stream
        if not self._server.do(partial(db.exists, name)):
            return 0
        return int(
            self._server.do(partial(db.xinfo_stream, name))["last-generated-id"].split(b"-")[0]
        )

    def put(self, data: bytes) -> Marks:
        """The journal keeps the lines, and the number of the first."""
        self._data = data
        return {"output": line_mark({"redis": self._server.stream, "next": self._next}, data)}

    def write(self) -> None:
        """What was put."""
        self._write(again=False)

    def _write(self, again: bool) -> None:
        """All lines; `again`: after a restart, when some of them may be there already."""
        name = self._server.stream
        db = self._server.db
        for line in self._data.splitlines():
            if not line:  # of an event that was forgotten
                self._next += 1
                continue
            entry = f"{self._next}-1"
            tries: list[Any] = [None] if again else []

            def add(line: bytes = line, entry: str = entry, tries: list[Any] = tries) -> Any:
                tries.append(entry)  # if the answer is lost, it may be there all the same
                return db.xadd(name, {"json": line}, id=entry)

            if self._server.do(add, "equal or smaller") is None:
                there = self._server.do(partial(db.xrange, name, entry, entry))
                if len(tries) == 1 or not there or there[0][1] != {b"json": line}:
                    raise InputError(
                        f"{name}: another process writes to this stream, and a run needs its own. Start "
                        "again with another --output: lines that are missing here are written there first"
                    )
            self._next += 1
        self._data = b""

    def close(self) -> None:
        """Close the connection."""
        self._server.db.close()


class KafkaSource(Broker):
    """Blocks of a topic."""

    def __init__(
        self, job: Job, clf: Model, interrupts: Interrupts, kept: bytes | None, say: Say
    ) -> None:
        self._kafka = kafka = require("confluent_kafka", extra="brokers")
        parts = urlsplit(job.input)
        self._url = called(job.input)
        self._say = say
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic or "/" in self._topic:
            raise InputError(
                f"{self._url}: write kafka://HOST[:PORT]/TOPIC, for instance kafka://localhost:9092/rows"
            )
        super().__init__(clf, job, self._topic, interrupts)
        own = {
            "bootstrap.servers": parts.netloc, "group.id": job.group, "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "error", "enable.partition.eof": False,
        }  # fmt: skip
        properties = dict(parse_qsl(parts.query, keep_blank_values=True))
        properties.pop("group", None)
        if taken := own.keys() & properties.keys():
            raise InputError(
                f"{self._url}: {', '.join(sorted(taken))} is set by the run; leave it out"
            )
        self._problem: Any = None  # the last one that the client told
        try:
            self._consumer = kafka.Consumer({**properties, **own, "error_cb": self._told})
        except kafka.KafkaException as error:
            raise InputError(f"{self._url}: {error.args[0].str()}") from error
        self._offsets: dict[int, int] = {}
        self._batch: dict[int, int] = {}
        self._assigned: set[int] = set()
        self._looked = time.monotonic()
        with on_error(self._consumer.close):
            self._begin({} if kept is None else json.loads(kept)["kafka"])

    def _told(self, error: Any) -> None:
        """The client tells of an error: one that will not pass ends the run, another is said."""
        new = self._problem is None or self._problem.name() != error.name()
        if new and not error.fatal() and error.name() in PASSING:
            self._say(f"{self._url}: {error.str()}; waiting")
        self._problem = error

    def _refuse(self, error: Any) -> None:
        if error is not None and (error.fatal() or error.name() not in PASSING):
            raise HedgerowError(f"{self._url}: {error.str()} ({error.name()})")

    def _begin(self, kept: dict[str, int]) -> None:
        """All partitions, from where the journal was, else the group, else the first message."""
        kafka = self._kafka
        try:
            places = self._partitions()
        except kafka.KafkaException as error:
            raise InputError(
                f"{self._url}: no broker answers ({(self._problem or error.args[0]).str()})"
            ) from error
        committed = {c.partition: c.offset for c in self._consumer.committed(places, timeout=REACH)}
        for place in places:
            known = committed.get(place.partition, -1)
            place.offset = kept.get(
                str(place.partition), known if known >= 0 else kafka.OFFSET_BEGINNING
            )
        self._offsets = {int(partition): offset for partition, offset in kept.items()}
        self._consumer.assign(places)

    def _partitions(self) -> list[Any]:
        """Those of the topic that are not assigned; they are from now on."""
        topic = self._consumer.list_topics(self._topic, timeout=REACH).topics[self._topic]
        if topic.error is not None:
            raise InputError(f"{self._url}: {topic.error.str()}")
        new = sorted(topic.partitions.keys() - self._assigned)
        self._assigned.update(new)
        first = self._kafka.OFFSET_BEGINNING
        return [self._kafka.TopicPartition(self._topic, p, first) for p in new]

    def _look_for_partitions(self) -> None:
        """Partitions that were added meanwhile are read from their first message."""
        self._looked = time.monotonic()
        with suppress(self._kafka.KafkaException):  # no broker answers now; another look follows
            if places := self._partitions():
                names = ", ".join(str(place.partition) for place in places)
                self._say(f"{self._url}: new partitions are read: {names}")
                self._consumer.incremental_assign(places)

    def __iter__(self) -> Iterator[RowBlock]:
        while not self._interrupts.signal:
            messages = self._consumer.consume(AT_ONCE, timeout=KAFKA_WAIT)
            self._refuse(self._problem)
            if time.monotonic() - self._looked > PARTITIONS:
                self._look_for_partitions()
            for message in messages:
                self._refuse(message.error())
            good = [message for message in messages if message.error() is None]
            if good:
                self._problem = None
                self._batch = {m.partition(): m.offset() + 1 for m in good}
                yield from self.blocks_of(
                    [(f"{m.partition()}:{m.offset()}", m.value() or b"null") for m in good]
                )

    def place(self, block: RowBlock) -> bytes:
        """The offsets after the batch, with its last block; those before it, with the others: they are known by id."""
        offsets = {**self._offsets, **(self._batch if self._last else {})}
        return json.dumps(
            {"kafka": {str(partition): offset for partition, offset in offsets.items()}}
        ).encode()

    def _acknowledge(self) -> None:
        self._offsets.update(self._batch)
        places = [
            self._kafka.TopicPartition(self._topic, p, offset) for p, offset in self._batch.items()
        ]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Leave."""
        self._consumer.close()
