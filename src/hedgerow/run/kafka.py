"""Rows from a Kafka topic: kafka://HOST[:PORT][,HOST..]/TOPIC[?PROPERTY=VALUE&..], with confluent-kafka.

The properties are those of librdkafka's consumer: `security.protocol`, `sasl.username`, `ssl.ca.location` and so on.
The journal keeps the offset of every partition in the transaction that has its rows, and a run goes on from there; the
offsets are then committed to the group too, for whoever watches its lag. A journal reads all partitions of its topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.rows import RowBlock
from hedgerow.run.engine import Model
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job, called
from hedgerow.run.sources import AT_ONCE, Broker
from hedgerow.run.tally import Say

WAIT = 0.5  # seconds for new messages, between two looks at signals
REACH = 10.0  # seconds in which a broker must answer at the start
PASSING = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT")  # errors that librdkafka tries to mend itself


class KafkaSource(Broker):
    """Blocks of a topic."""

    def __init__(self, job: Job, clf: Model, interrupts: Interrupts, kept: bytes | None, say: Say) -> None:
        self._kafka = kafka = require("confluent_kafka", extra="kafka")
        parts, self._url, self._say = urlsplit(job.input), called(job.input), say
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic or "/" in self._topic:
            raise InputError(f"{self._url}: write kafka://HOST[:PORT]/TOPIC, for instance kafka://localhost:9092/rows")
        super().__init__(clf, job, self._topic, interrupts)
        own = {
            "bootstrap.servers": parts.netloc, "group.id": job.group, "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "error", "enable.partition.eof": False,
        }  # fmt: skip
        properties = dict(parse_qsl(parts.query, keep_blank_values=True))
        if taken := own.keys() & properties.keys():
            raise InputError(f"{self._url}: {', '.join(sorted(taken))} is set by the run; leave it out")
        self._problem: Any = None  # the last one that the client told
        try:
            self._consumer = kafka.Consumer({**properties, **own, "error_cb": self._told})
        except kafka.KafkaException as error:
            raise InputError(f"{self._url}: {error.args[0].str()}") from error
        self._offsets: dict[int, int] = {}
        self._batch: dict[int, int] = {}
        try:
            self._begin({} if kept is None else json.loads(kept)["kafka"])
        except BaseException:
            self._consumer.close()
            raise

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
            topic = self._consumer.list_topics(self._topic, timeout=REACH).topics[self._topic]
        except kafka.KafkaException as error:
            raise InputError(f"{self._url}: no broker answers ({(self._problem or error.args[0]).str()})") from error
        if topic.error is not None:
            raise InputError(f"{self._url}: {topic.error.str()}")
        places = [kafka.TopicPartition(self._topic, p) for p in sorted(topic.partitions)]
        committed = {c.partition: c.offset for c in self._consumer.committed(places, timeout=REACH)}
        for place in places:
            known = committed.get(place.partition, -1)
            place.offset = kept.get(str(place.partition), known if known >= 0 else kafka.OFFSET_BEGINNING)
        self._offsets = {int(partition): offset for partition, offset in kept.items()}
        self._consumer.assign(places)

    def __iter__(self) -> Iterator[RowBlock]:
        while not self._interrupts.signal:
            messages = self._consumer.consume(AT_ONCE, timeout=WAIT)
            self._refuse(self._problem)
            for message in messages:
                self._refuse(message.error())
            good = [message for message in messages if message.error() is None]
            if good:
                self._problem = None
                self._batch = {m.partition(): m.offset() + 1 for m in good}
                yield from self.blocks_of([(f"{m.partition()}:{m.offset()}", m.value() or b"null") for m in good])

    def place(self, block: RowBlock) -> bytes:
        """The offsets after the batch, with its last block; those before it, with the others: they are known by id."""
        offsets = {**self._offsets, **(self._batch if self._last else {})}
        return json.dumps({"kafka": {str(partition): offset for partition, offset in offsets.items()}}).encode()

    def _acknowledge(self) -> None:
        self._offsets.update(self._batch)
        places = [self._kafka.TopicPartition(self._topic, p, offset) for p, offset in self._batch.items()]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Leave."""
        self._consumer.close()
