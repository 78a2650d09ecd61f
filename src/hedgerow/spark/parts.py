"""What Spark keeps of a shard: a list of parts.

A *delta* has what one batch changed: the events that were predicted, with their rows, and those that were labelled or
expired. A *dump* has all keys; one takes the place of the list when the deltas have grown large. Every part has a
random token: a shard that is in memory is what Spark has only if its token is that of the last part, and parts after
its own token bring it up to date.

| part of a part | bytes | what it is                                                                       |
|----------------|-------|----------------------------------------------------------------------------------|
| magic          | 4     | `hrs1`                                                                           |
| token          | 16    | random                                                                           |
| base           | 16    | the digest of the `Base` that its keys belong to                                 |
| size           | 4     | bytes of `about`                                                                 |
| about          |       | JSON: kind, time, classes, keys that were dropped                                |
| table          |       | an Arrow stream: columns of `DELTA` or `DUMP`                                    |
| checksum       | 4     | CRC-32 of all before                                                             |
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hedgerow.core.errors import InputError
from hedgerow.core.labels import MISSING, labels_from_json, objects
from hedgerow.core.limits import Limits
from hedgerow.events import MemoryLedger, label_of_json
from hedgerow.fleet.base import KeyState
from hedgerow.fleet.store import MemoryStates

MAGIC = b"hrs1"
HEAD = struct.Struct("<4s16s16sI")
DELTA = pa.schema(
    {"key": pa.string(), "id": pa.string(), "code": pa.int32(), "probability": pa.float64(), "row": pa.binary(),
     "label": pa.string()}
)  # fmt: skip
DUMP = pa.schema({"key": pa.string(), "state": pa.binary(), "events": pa.binary(), "time": pa.float64()})
Entry = tuple[str, bytes, bytes, float]  # a row of DUMP
PART_BYTES = 2**20  # of a dump, beyond which its keys go to another part; also deltas for which no dump is made


class Part(NamedTuple):
    """A part, read."""

    token: bytes
    base: bytes
    about: dict[str, Any]
    rows: Iterable[tuple[Any, ...]]

    def to_bytes(self, schema: pa.Schema) -> bytes:
        """As the table above says."""
        about, sink, rows = json.dumps(self.about).encode(), pa.BufferOutputStream(), list(self.rows)
        columns = zip(*rows, strict=True) if rows else [[]] * len(schema)
        table = pa.table([pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(table)
        data = b"".join((HEAD.pack(MAGIC, self.token, self.base, len(about)), about, sink.getvalue().to_pybytes()))
        return data + struct.pack("<I", zlib.crc32(data))

    @classmethod
    def from_bytes(cls, data: bytes) -> Part:
        """The inverse; whatever else the bytes are is an error."""
        if len(data) < HEAD.size + 4 or data[:3] != MAGIC[:3]:
            raise InputError(f"the state of a shard is none ({len(data)} bytes); start from another checkpoint")
        if data[:4] != MAGIC:
            raise InputError(f"the state of a shard has the format {data[3:4]!r}, this version reads b'1': upgrade")
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise InputError("the state of a shard is damaged; start from another checkpoint")
        _, token, base, size = HEAD.unpack_from(data)
        about = json.loads(data[HEAD.size : HEAD.size + size])
        with pa.ipc.open_stream(pa.py_buffer(data)[HEAD.size + size : len(data) - 4]) as reader:
            columns = [column.to_pylist() for column in reader.read_all().columns]
        return cls(token, base, about, zip(*columns, strict=True))


def new_token() -> bytes:
    """No other part has it."""
    return uuid.uuid4().bytes


def token_of(data: bytes) -> bytes:
    """The token of a part."""
    return data[4:20]


class Log:
    """The keys of a shard as parts tell them: their events, their states, when they changed. It needs no base.

    `classes` are those of the base with this digest.
    """

    def __init__(self, limits: Limits, digest: bytes, classes: Sequence[Any]) -> None:
        self.limits, self.digest, self.token = limits, digest, b""
        self.codes = {label: code for code, label in enumerate(classes)}
        self.ledgers: dict[str, MemoryLedger] = {}
        self.states = MemoryStates()
        self.changed: dict[str, float] = {}
        self.dumped = self.since = 0  # bytes of the last dump, and of the deltas after it

    def ledger(self, key: str) -> MemoryLedger:
        """The events of a key."""
        if key not in self.ledgers:
            self.ledgers[key] = MemoryLedger(self.limits)
        return self.ledgers[key]

    def drop(self, key: str) -> None:
        """All of a key."""
        self.ledgers.pop(key, None)
        self.changed.pop(key, None)
        self.states.forget(key)

    def read(self, data: bytes) -> None:
        """One more part."""
        part = Part.from_bytes(data)
        if part.base != self.digest:
            raise InputError(
                f"the state of its shard belongs to other sources (digest {part.base.hex()[:12]}, these have "
                f"{self.digest.hex()[:12]}); use the base that it was learned with, or another checkpoint"
            )
        if part.about["kind"] == "dump":
            self._load(part)
            self.dumped += len(data)
        else:
            self._replay(part)
            self.since += len(data)
        self.token = part.token

    def _load(self, dump: Part) -> None:
        for key, state, events, time in dump.rows:
            self.changed[key] = time
            if state:
                self.states.put([(key, 0, 0, state)])
            if events:
                self.ledgers[key] = MemoryLedger.from_bytes(events, self.limits, self.digest, f"key {key!r}")

    def _replay(self, delta: Part) -> None:
        now, about, learned, keys = delta.about["time"], delta.about, list[tuple[str, bytes, Any]](), set[str]()
        for key in about["dropped"]:
            self.drop(key)
        for key, id, code, probability, row, text in delta.rows:
            ledger = self.ledger(key)
            keys.add(key)
            if text is None:
                ledger.add(id, now, code, probability, row)
            else:
                event, label = ledger.pending[id], label_of_json(text)
                ledger.resolve(event, label)
                learned.append((key, event.row, label))
        for key in self.ledgers if about["woken"] else keys:
            self.ledgers[key].overdue(now)  # for its clock: what expired then is among the rows
            self.ledgers[key].forget()
        self.changed |= dict.fromkeys(keys, now)
        if learned:
            self.learn(learned)

    def learn(self, rows: Sequence[tuple[str, bytes, Any]]) -> None:
        """Keys, rows and labels in the order in which they were learned: more rows of the keys' states."""
        by_key: dict[str, list[tuple[bytes, Any]]] = {}
        for key, row, label in rows:
            by_key.setdefault(key, []).append((row, label))
        for key, own in by_key.items():
            before = [KeyState.from_bytes(data, self.digest, f"key {key!r}") for _, data in self.states.parts(key)[-1:]]
            known = self.codes | {
                label: len(self.codes) + i for i, label in enumerate(before[0].new_classes if before else ())
            }
            codes = [MISSING if label is None else known.setdefault(label, len(known)) for _, label in own]
            X = np.frombuffer(b"".join(row for row, _ in own)).reshape(len(own), -1)
            new = objects(list(known)[len(self.codes) :])
            state = KeyState(X, np.array(codes), np.ones(len(own)), new)
            self.states.put([(key, 0, len(own), state.to_bytes(self.digest))])

    def entries(self) -> Iterator[Entry]:
        """Of each key its state, its events and when it changed."""
        for key, time in self.changed.items():
            state = self.states.joined(key, self.digest)
            yield key, state, self.ledgers[key].to_bytes(self.digest) if key in self.ledgers else b"", time


def dump_parts(
    keys: Iterable[tuple[str, bytes, bytes, float]], token: bytes, base: bytes, about: dict[str, Any]
) -> list[bytes]:
    """Keys, as `Log.entries` has them, in parts that are not too large."""
    parts: list[list[tuple[Any, ...]]] = [[]]
    size = 0
    for row in keys:
        parts[-1].append(row)
        size += len(row[1]) + len(row[2])
        if size > PART_BYTES:
            parts.append([])
            size = 0
    return [Part(token, base, {**about, "kind": "dump"}, rows).to_bytes(DUMP) for rows in parts]


def states_in(parts: Sequence[bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """Of each key of a shard its state and its events, without a base."""
    if parts:
        last = Part.from_bytes(parts[-1])
        limits, classes = Limits(keep_events=last.about["keep"]), labels_from_json(last.about["classes"])
        log = Log(limits, last.base, classes.tolist())
        for data in parts:
            log.read(data)
        for key, state, events, _ in log.entries():
            yield key, state, events
