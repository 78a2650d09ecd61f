"""What Spark keeps of a shard: a list of parts.

A *delta* has what one batch changed: the
events that were predicted, with their rows, and those that were labelled or expired. A *dump* has all keys; one takes
the place of the list when the deltas have grown large. Every part has a random token: a shard that is in memory is what
Spark has only if its token is that of the last part, and parts after its own token bring it up to date.

| part of a part | bytes | what it is                                                            |
|----------------|-------|-----------------------------------------------------------------------|
| magic          | 4     | `hrs1`                                                                |
| token          | 16    | random                                                                |
| base           | 16    | the digest of the `Base` that its keys belong to                      |
| size           | 4     | bytes of `about`                                                      |
| about          |       | JSON: kind, time, classes, keys that were dropped                     |
| table          |       | an Arrow stream: columns of `DELTA` or `DUMP`                         |
| checksum       | 4     | CRC-32 of all before                                                  |
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
from hedgerow.core.registry import Limits
from hedgerow.core.values import MISSING, labels_from_json
from hedgerow.events import MemoryLedger, label_of_json
from hedgerow.fleet.base import HEAD as STATE_HEAD
from hedgerow.fleet.base import KeyState

MAGIC = b"hrs1"
HEAD = struct.Struct("<4s16s16sI")
DELTA = pa.schema(
    {"key": pa.string(), "id": pa.string(), "code": pa.int32(), "probability": pa.float64(), "row": pa.binary(),
     "label": pa.string()}
)  # fmt: skip
DUMP = pa.schema({"key": pa.string(), "state": pa.binary(), "events": pa.binary(), "time": pa.float64()})
PART_BYTES = 2**20  # of a dump, beyond which its keys go to another part; also deltas for which no dump is made


class Part(NamedTuple):
    """A part, read."""

    token: bytes
    base: bytes
    about: dict[str, Any]
    table: pa.Table

    def columns(self) -> Iterator[tuple[Any, ...]]:
        """Its rows."""
        return zip(*(column.to_pylist() for column in self.table.columns), strict=True)


def new_token() -> bytes:
    """No other part has it."""
    return uuid.uuid4().bytes


def token_of(data: bytes) -> bytes:
    """The token of a part."""
    return data[4:20]


def part_to_bytes(part: Part) -> bytes:
    """As the table above says."""
    about, sink = json.dumps(part.about).encode(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.table.schema) as writer:
        writer.write_table(part.table)
    data = b"".join((HEAD.pack(MAGIC, part.token, part.base, len(about)), about, sink.getvalue().to_pybytes()))
    return data + struct.pack("<I", zlib.crc32(data))


def part_of_bytes(data: bytes) -> Part:
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
        return Part(token, base, about, reader.read_all())


def dump_parts(
    rows: Iterable[tuple[str, bytes, bytes, float]], token: bytes, about: dict[str, Any], base: bytes
) -> list[bytes]:
    """Keys with their states and events (`MemoryLedger`), and when they changed, in parts that are not too large."""
    parts, some, size = [], [], 0
    about = {**about, "kind": "dump"}
    for row in rows:
        some.append(row)
        size += len(row[1]) + len(row[2])
        if size > PART_BYTES:
            parts.append(some)
            some, size = [], 0
    return [part_to_bytes(Part(token, base, about, table_of(some, DUMP))) for some in [*parts, some]]


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as columns."""
    columns = zip(*rows, strict=True) if rows else [[]] * len(schema)
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)


class Learned(NamedTuple):
    """Rows in the order in which they were learned, with their keys and labels."""

    keys: list[str]
    rows: list[bytes]
    labels: list[Any]


class Log:
    """What is kept of the keys of a shard: their events, the states that were written (bytes), when they changed.

    `Holder` takes it for its store.
    """

    def __init__(self, limits: Limits, digest: bytes) -> None:
        self.limits, self.digest = limits, digest
        self.ledgers: dict[str, MemoryLedger] = {}
        self.states: dict[Any, bytes] = {}
        self.changed: dict[str, float] = {}

    def ledger(self, key: str) -> MemoryLedger:
        """The events of a key."""
        if key not in self.ledgers:
            self.ledgers[key] = MemoryLedger(self.limits)
        return self.ledgers[key]

    def parts(self, key: Any) -> list[tuple[Any, ...]]:
        """The state of a key as a store has it: first row, rows, newest batch, bytes."""
        data = self.states.get(key)
        return [(0, STATE_HEAD.unpack_from(data)[5] if len(data) > STATE_HEAD.size else 0, 0, data)] if data else []

    def put(self, parts: Sequence[tuple[Any, int, int, int, bytes]]) -> None:
        """More rows of keys."""
        for key, _, _, _, data in parts:
            if key in self.states:
                data = self.joined(key, KeyState.from_bytes(data, self.digest, key))
            self.states[key] = data

    def joined(self, key: str, more: KeyState) -> bytes:
        """The state of a key with more rows."""
        states = [KeyState.from_bytes(self.states[key], self.digest, key)] if self.states.get(key) else []
        return KeyState.joined([*states, more]).to_bytes(self.digest)

    def forget(self, key: Any) -> None:
        """The state of a key."""
        self.states.pop(key, None)

    def drop(self, key: str) -> None:
        """All of a key."""
        for known in (self.ledgers, self.states, self.changed):
            known.pop(key, None)

    def load(self, part: Part) -> None:
        """The keys of a dump."""
        for key, state, events, time in part.columns():
            self.changed[key] = time
            if state:
                self.states[key] = state
            if events:
                self.ledgers[key] = MemoryLedger.from_bytes(events, self.limits, self.digest, f"key {key!r}")

    def replay(self, part: Part) -> Learned:
        """What a delta says of events; the rows that were learned are left to be learned."""
        now, learned, keys = part.about["time"], Learned([], [], []), {}
        for key in part.about["dropped"]:
            self.drop(key)
        for key, id, code, probability, row, text in part.columns():
            ledger = keys[key] = self.ledger(key)
            if text is None:
                ledger.add(id, now, code, probability, row)
                continue
            event, label = ledger.pending[id], label_of_json(text)
            ledger.resolve(event, label)
            learned.keys.append(key)
            learned.rows.append(event.row)
            learned.labels.append(label)
        for ledger in (self.ledgers if part.about["woken"] else keys).values():
            ledger.overdue(now)  # for its clock: what expired then is among the rows
            ledger.forget()
        self.changed |= dict.fromkeys(keys, now)
        return learned


def states_in(parts: Sequence[bytes]) -> Iterator[tuple[str, bytes, bytes]]:
    """Of each key of a shard its state and its events, without a base."""
    if not parts:
        return
    last = part_of_bytes(parts[-1])
    log, classes = (
        Log(Limits(keep_events=last.about["keep"]), last.base),
        labels_from_json(last.about["classes"]).tolist(),
    )
    fresh: dict[str, tuple[list[bytes], list[Any]]] = {}
    for data in parts:
        part = part_of_bytes(data)
        if part.about["kind"] == "dump":
            log.load(part)
            continue
        for key in part.about["dropped"]:
            fresh.pop(key, None)
        for key, row, label in zip(*log.replay(part), strict=True):
            rows, labels = fresh.setdefault(key, ([], []))
            rows.append(row)
            labels.append(label)
    for key, (rows, labels) in fresh.items():
        state = log.states.get(key)
        before = KeyState.from_bytes(state, log.digest, f"key {key!r}").new_classes.tolist() if state else []
        known = {label: code for code, label in enumerate([*classes, *before])} | {None: MISSING}
        codes = [known.setdefault(label, len(known) - 1) for label in labels]
        new = np.empty(len(known) - 1 - len(classes), dtype=object)
        new[:] = [label for label in known if label is not None][len(classes) :]
        X = np.frombuffer(b"".join(rows)).reshape(len(rows), -1)
        log.states[key] = log.joined(key, KeyState(X, np.array(codes), np.ones(len(codes)), new))
    for key in log.states.keys() | log.ledgers.keys():
        ledger = log.ledgers.get(key)
        yield key, log.states.get(key, b""), b"" if ledger is None else ledger.to_bytes(log.digest)
