"""Rows from a Kafka topic: kafka://HOST[:PORT]/TOPIC, with confluent-kafka.

The journal keeps the offset of every partition in the transaction that has its rows, and a run goes on from there; the
offsets are then committed to the group too, for whoever watches its lag. A journal reads all partitions of its topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.rows import RowBlock
from hedgerow.run.feeds import AT_ONCE, BrokerFeed
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job

WAIT = 0.5  # seconds for new messages, between two looks at signals
REACH = 10.0  # seconds in which a broker must answer at the start


class KafkaFeed(BrokerFeed):
    """Blocks of a topic."""

    def __init__(self, job: Job, clf: OnlineTransferClassifier, interrupts: Interrupts, kept: bytes | None) -> None:
        self._kafka = require("confluent_kafka", extra="kafka")
        parts = urlsplit(job.input)
        topic = parts.path.strip("/")
        if not parts.netloc or not topic or "/" in topic:
            raise InputError(f"{job.input}: write kafka://HOST[:PORT]/TOPIC, for instance kafka://localhost:9092/rows")
        self._topic = topic
        self._consumer = self._kafka.Consumer(
            {"bootstrap.servers": parts.netloc, "group.id": job.group, "enable.auto.commit": False,
             "auto.offset.reset": "earliest", "enable.partition.eof": False}
        )  # fmt: skip
        super().__init__(clf, job, topic, interrupts)
        self._offsets: dict[int, int] = {}
        self._batch: dict[int, int] = {}
        try:
            self._begin(job.input, {} if kept is None else json.loads(kept)["kafka"])
        except BaseException:
            self._consumer.close()
            raise

    def _begin(self, url: str, kept: dict[str, int]) -> None:
        """All partitions, from where the journal was, else the group, else the first message."""
        kafka = self._kafka
        try:
            found = self._consumer.list_topics(self._topic, timeout=REACH).topics[self._topic]
        except kafka.KafkaException as error:
            raise InputError(f"{url}: no broker answers ({error.args[0].str()})") from error
        if found.error is not None:
            raise InputError(f"{url}: {found.error.str()}")
        places = [kafka.TopicPartition(self._topic, p) for p in sorted(found.partitions)]
        committed = {c.partition: c.offset for c in self._consumer.committed(places, timeout=REACH)}
        for place in places:
            known = committed.get(place.partition, -1)
            place.offset = kept.get(str(place.partition), known if known >= 0 else kafka.OFFSET_BEGINNING)
        self._offsets = {int(partition): offset for partition, offset in kept.items()}
        self._consumer.assign(places)

    def __iter__(self) -> Iterator[RowBlock]:
        while not self._interrupts.signal:
            found = self._consumer.consume(AT_ONCE, timeout=WAIT)
            for message in found:
                if message.error() is not None and message.error().fatal():
                    raise HedgerowError(f"Kafka: {message.error().str()}")
            good = [message for message in found if message.error() is None]
            if good:
                yield from self._blocks(good)

    def _blocks(self, found: list[Any]) -> Iterator[RowBlock]:
        self._batch = {m.partition(): m.offset() + 1 for m in found}
        texts = [(f"{m.partition()}:{m.offset()}", m.value() or b"null") for m in found]
        blocks = list(self._messages.blocks(texts))
        for i, block in enumerate(blocks):
            self._last = i == len(blocks) - 1
            yield block

    def place(self, block: RowBlock) -> bytes:
        """The offsets after the batch, with its last block; those before it, with the others: they are known by id."""
        offsets = {**self._offsets, **(self._batch if self._last else {})}
        return json.dumps({"kafka": {str(partition): offset for partition, offset in offsets.items()}}).encode()

    def acknowledge(self, block: RowBlock) -> None:
        """With its last block a batch is on disk."""
        if not self._last:
            return
        self._offsets.update(self._batch)
        places = [self._kafka.TopicPartition(self._topic, p, offset) for p, offset in self._batch.items()]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Leave."""
        self._consumer.close()
