"""All keys of a shard in one batch: events by their ids, predictions and labels of many keys together.

Nothing of Spark is in here. The rows of a key become steps, in order: an instance is predicted, the row of an event
whose label came is learned; both are one step where the label follows its instance. The steps of all keys are one batch
of a fleet.

What Spark keeps of a shard is a list of parts. A *delta* has what one batch changed: the events that were predicted,
with their rows, and those that were labelled or expired. A *dump* has all keys; one takes the place of the list when
the deltas have grown large. Every part has a random token: a shard that is in memory is what Spark has only if its
token is that of the last part, and parts after its own token bring it up to date.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.registry import Limits
from hedgerow.core.values import MISSING, labels_from_json, labels_to_json, objects, plain
from hedgerow.events import (
    EXPIRED,
    LEARNED,
    LONGEST_ID,
    REFUSED,
    Event,
    LabelResult,
    MemoryLedger,
    digest_of,
    label_of_json,
)
from hedgerow.fleet.base import Base, Batch, KeyState, check_labels, classifier, usable_rows
from hedgerow.fleet.holder import Holder
from hedgerow.fleet.store import MemoryStates

INSTANCE, ANSWER = 0, 1  # the kinds of rows that come in
NO_ORDER = -(2**63)  # stands for an order that is missing
PREDICTION, LABEL, DEAD_LETTER = "prediction", "label", "dead letter"
NEW, REPEATED = "new", "repeated"
MAGIC = b"hrs1"
HEAD = struct.Struct("<4s16s16sI")
DELTA = pa.schema(
    {"key": pa.string(), "id": pa.string(), "code": pa.int32(), "probability": pa.float64(), "row": pa.binary(),
     "label": pa.string(), "half": pa.float64()}
)  # fmt: skip
RESULTS = pa.schema(
    {"key": pa.string(), "kind": pa.string(), "id": pa.string(), "label": pa.string(), "probability": pa.float64(),
     "status": pa.string(), "right": pa.bool_(), "detail": pa.string(), "row": pa.string(), "low": pa.float64(),
     "high": pa.float64()}
)  # fmt: skip
DUMP = pa.schema({"key": pa.string(), "state": pa.binary(), "events": pa.binary(), "time": pa.float64()})
Entry = tuple[str, bytes, bytes, float]  # a row of DUMP
PART_BYTES = 2**20  # of a dump, beyond which its keys go to another part; also deltas for which no dump is made
LABELS: dict[type, tuple[str, Callable[[str], Any]]] = {  # their types in Spark
    str: ("string", str),
    int: ("bigint", int),
    float: ("double", float),
    bool: ("boolean", "true".__eq__),
}


@dataclass(frozen=True)
class Settings(Limits):
    """How the models of a stream wait and remember; the first four are of one key.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever. The row is then
        used without a label, where the method can, and its features are dropped.
    max_pending : events that may wait for their labels; one more, and the oldest expires.
    keep_events : labelled or expired events whose ids are remembered, so that what comes again is known.
    idle_ttl : seconds without a change after which a key is dropped; None keeps keys for ever.
    shards : groups of keys, each worked on by one core at a time: 4 to 8 a core. A checkpoint keeps its number.
    memory : bytes of models that a Python worker holds; what is beyond is built from its rows when it is needed.

    >>> Settings(label_timeout=3600).timed
    True
    """

    max_pending: int = 1_000
    keep_events: int = 100
    idle_ttl: float | None = None
    shards: int = 64
    memory: int = 2**30

    LEAST: ClassVar = {"max_pending": 1, "keep_events": 0, "shards": 1, "memory": 2**20}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.idle_ttl is not None and self.label_timeout is not None and self.idle_ttl <= self.label_timeout:
            raise InputError(
                f"idle_ttl={self.idle_ttl!r}: a key would be dropped before its events expire; "
                f"give more than label_timeout={self.label_timeout!r}"
            )

    @property
    def timed(self) -> bool:
        """Whether Spark's clock is needed."""
        return self.label_timeout is not None or self.idle_ttl is not None


class Rows(NamedTuple):
    """Rows that came in: instances have x, labels a label, both as Spark has them.

    x : lists of numbers, or the cells of a table as JSON. label : as text.
    """

    key: list[Any]
    kind: list[int]
    id: list[Any]
    order: list[int]
    x: pa.Array
    label: list[Any]

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        """The columns of a table."""
        columns = (table[name].combine_chunks() for name in cls._fields)
        return cls(*(c if name == "x" else c.to_pylist() for name, c in zip(cls._fields, columns, strict=True)))


class Result(NamedTuple):
    """One row that comes out.

    | kind          | label               | status                                    | right               | detail |
    |---------------|---------------------|-------------------------------------------|---------------------|--------|
    | `prediction`  | the predicted class | `new`, or `repeated`: the id came before  |                     |        |
    |               | or number           |                                           |                     |        |
    | `label`       | the label given     | as of a live model: `learned`,            | was it predicted?   | reason |
    |               |                     | `duplicate`, `conflict`, `expired`, ...   | (where learned)     |        |
    | `dead letter` |                     |                                           |                     | reason |

    `probability` is that of the predicted class; a number has an interval from `low` to `high` instead, of the first
    coverage of the base, and is right if its label is inside. `row` is what a dead letter brought, as JSON. Labels are
    text.
    """

    key: str | None
    kind: str
    id: str | None
    label: str | None = None
    probability: float | None = None
    status: str | None = None
    right: bool | None = None
    detail: str | None = None
    row: str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Query:
    """What all shards of a query share beside the base: how rows are read, and the settings.

    features : the names of the features, for reasons; None: rows are cells of a table. label : the type of the classes.
    ordered : whether rows have an order of their own; without one a batch's instances come first, then its labels in
    the order of their events.
    """

    features: tuple[str, ...] | None
    label: type
    ordered: bool
    settings: Settings = Settings()

    def text_of(self, label: Any) -> str | None:
        """A label as the text that Spark casts to its type."""
        return None if label is None else str(label).lower() if self.label is bool else str(plain(label))

    def label_of(self, text: object) -> Any:
        """The inverse; what is none (NaN, null) is None."""
        label = LABELS[self.label][1](text) if isinstance(text, str) else None
        return None if isinstance(label, float) and not np.isfinite(label) else label


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Tuples of Python's own values as a table."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)


def to_ipc(table: pa.Table) -> bytes:
    """A table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def of_ipc(streams: Iterable[Any]) -> pa.Table:
    """The rows of all tables, which have the same columns."""
    return pa.concat_tables([pa.ipc.open_stream(data).read_all() for data in streams])


class Part(NamedTuple):
    """One of the parts that Spark keeps of a shard, with its rows.

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

    token: bytes
    base: bytes
    about: dict[str, Any]
    rows: Iterable[tuple[Any, ...]]

    def to_bytes(self, schema: pa.Schema) -> bytes:
        """As the table above says."""
        about = json.dumps(self.about).encode()
        table = to_ipc(table_of(list(self.rows), schema))
        data = b"".join((HEAD.pack(MAGIC, self.token, self.base, len(about)), about, table))
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
        columns = of_ipc([pa.py_buffer(data)[HEAD.size + size : len(data) - 4]]).columns
        return cls(token, base, about, zip(*(column.to_pylist() for column in columns), strict=True))


def new_token() -> bytes:
    """No other part has it."""
    return uuid.uuid4().bytes


def token_of(data: bytes) -> bytes:
    """The token of a part."""
    return data[4:20]


class Log:
    """The keys of a shard as parts tell them: their events, their states, when they changed. It needs no base.

    `classes` are those of the base with this digest; one without has numbers as labels.
    """

    def __init__(self, limits: Limits, digest: bytes, classes: Sequence[Any]) -> None:
        self.limits, self.digest, self.token = limits, digest, b""
        self.codes = {label: code for code, label in enumerate(classes)}
        self.numbers = not self.codes
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
        for key, id, code, probability, row, text, *half in delta.rows:  # earlier deltas have no half
            ledger = self.ledger(key)
            keys.add(key)
            if text is None:
                ledger.add(id, now, code, probability, row, half=half[0] if half else None)
            else:
                event, label = ledger.pending[id], label_of_json(text)
                learned.append((key, event.row, label))
                ledger.resolve(event, label)
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
            if self.numbers:
                codes = [np.nan if label is None else label for _, label in own]
            else:
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


@dataclass(slots=True)
class Step:
    """One row of a key: that of an `instance`, which is predicted, or of an event that is learned; or both.

    `instance`, `answer`: places of the rows that came in. An event that is learned without an `answer` has expired.
    """

    key: str
    event: Event
    row: bytes
    instance: int | None = None
    answer: int | None = None
    learned: bool = False
    label: Any = None


class Shard(Log):
    """The keys of a shard: `take` and `wake` change them, `commit` says what Spark has to keep, `follow` reads it.

    `token` names the content; a shard that raised an error must not be used again.
    """

    def __init__(self, base: Base, query: Query) -> None:
        self.base, self.query, self.settings = base, query, query.settings
        super().__init__(self.settings, base.digest, base.classes.tolist())
        self._holder = Holder(base, self.states, self.settings.memory // self.settings.shards, threads=1)
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._now, self._woken, self._dropped = now, False, list[str]()
        self._asked: list[tuple[Any, ...]] = []
        self._resolved: list[tuple[Any, ...]] = []

    # -- what Spark keeps ----------------------------------------------------------------------------------------------

    def follow(self, parts: Sequence[bytes]) -> Shard:
        """The shard that these parts describe: this one where they go on from its token, else a new one."""
        tokens = [token_of(part) for part in parts]
        shard, start = Shard(self.base, self.query), 0
        if self.token in tokens:
            shard, start = self, len(tokens) - tokens[::-1].index(self.token)
        for data in parts[start:]:
            shard.read(data)
        return shard

    def commit(self) -> tuple[list[bytes], bool]:
        """The parts that Spark has to keep now, and whether they take the place of all others."""
        if not (self._asked or self._resolved or self._dropped):
            return [], False
        about = self.about(self._now) | {"dropped": self._dropped, "woken": self._woken}
        rows = [*self._asked, *self._resolved]
        self.changed |= dict.fromkeys((row[0] for row in rows), self._now)
        self.token = new_token()
        parts, whole = [Part(self.token, self.digest, about, rows).to_bytes(DELTA)], False
        self.since += len(parts[0])
        if self.since > max(PART_BYTES, 2 * self.dumped):
            self._drop_idle(list(self.changed))
            parts, whole = dump_parts(self.entries(), self.token, self.digest, about), True
            self.dumped, self.since = sum(map(len, parts)), 0
        self._begin(self._now)
        return parts, whole

    def about(self, now: float) -> dict[str, Any]:
        """What a part says of itself."""
        classes = labels_to_json(self.base.classes)
        return {"kind": "delta", "time": now, "classes": classes, "keep": self.settings.keep_events}

    def entries(self) -> Iterator[Entry]:
        """Of each key its state, its events and when it changed."""
        self._holder.write(list(self._holder.dirty))
        return super().entries()

    def drop(self, key: str) -> None:
        """All of a key."""
        super().drop(key)
        self._holder.drop(key)

    def _drop_idle(self, keys: Iterable[str]) -> None:
        """Drop those of the keys that nobody changed for too long."""
        ttl = self.settings.idle_ttl
        idle = [key for key in keys if ttl is not None and self._now - self.changed.get(key, self._now) >= ttl]
        for key in idle:
            self.drop(key)
        self._dropped += idle

    @property
    def deadline(self) -> float | None:
        """When the first of the pending events expires."""
        timeout, ledgers = self.settings.label_timeout, self.ledgers.values()
        if timeout is None:
            return None
        return min((next(iter(one.pending.values())).time + timeout for one in ledgers if one.pending), default=None)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def take(self, rows: Rows, now: float) -> list[Result]:
        """All rows of a batch, in an order that does not depend on how Spark brought them; what became of each."""
        self._begin(now)
        turn = self._turn(rows)
        self._drop_idle(turn.by_key)
        for key, error in self._holder.fetch(key for key in turn.by_key if self.states.parts(key)).items():
            for i in turn.by_key.pop(str(key)):  # its state cannot be read, and stays as it is
                turn.dead_letter(i, str(error))
        return self._run(turn)

    def wake(self, now: float) -> list[Result]:
        """Events of all keys that waited too long expire."""
        self._begin(now)
        self._woken = True
        return self._run(Turn(NO_ROWS, np.empty((0, 0)), by_key={key: [] for key in self.ledgers}))

    def _turn(self, rows: Rows) -> Turn:
        """The rows that can be used, by key and in order; the others are dead letters."""
        turn = Turn(rows, np.zeros((len(rows.key), self.base.n_features)))
        faults = self._faults(turn)
        places = range(len(rows.key))
        for i in sorted(faults):
            turn.dead_letter(i, faults[i])
        turn.order = [i for i in places if i not in faults] if faults else list(places)
        sorting = list(zip(rows.order, rows.kind, rows.id, [label or "" for label in rows.label], strict=True))
        turn.order.sort(key=sorting.__getitem__)
        for i in turn.order:
            turn.by_key.setdefault(rows.key[i], []).append(i)
        turn.order = [*sorted(faults), *turn.order]
        return turn

    def _faults(self, turn: Turn) -> dict[int, str]:
        """The rows that cannot be used, and why; X gets the numbers of the others."""
        rows, faults = turn.rows, dict[int, str]()
        instances, missing = [], rows.x.is_null().to_pylist()
        for i, (key, kind, id, order, without) in enumerate(
            zip(rows.key, rows.kind, rows.id, rows.order, missing, strict=True)
        ):
            if not isinstance(key, str):
                faults[i] = "the key is missing, or of another type than the column of keys; send it with its key"
            elif not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
                faults[i] = f"the id is missing, or is no text of 1 to {LONGEST_ID} characters"
            elif order == NO_ORDER and self.query.ordered:
                faults[i] = f"id {id!r}: the order is missing"
            elif kind == INSTANCE and without:
                faults[i] = f"id {id!r}: the features are missing"
            elif kind == INSTANCE:
                instances.append(i)
        if self.query.features is None:
            given: Any = [json.loads(text) for text in rows.x.take(pa.array(instances, pa.int64())).to_pylist()]
        else:
            width, widths = self.base.n_features, pc.list_value_length(rows.x).to_pylist()
            for i in (i for i in instances if widths[i] != width):
                faults[i] = (
                    f"id {rows.id[i]!r}: a row of {widths[i]} features, the base has {width}; send rows of its width"
                )
            instances = [i for i in instances if i not in faults]
            numbers = rows.x.take(pa.array(instances, pa.int64())).flatten()
            given = numbers.to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(instances), width)
        if instances:
            turn.X[instances], reasons = usable_rows(self.base.clf, given, self.query.features)
            faults |= {instances[k]: f"id {rows.id[instances[k]]!r}: {reason}" for k, reason in reasons.items()}
        return faults

    def _run(self, turn: Turn) -> list[Result]:
        """The steps of all keys, and then what became of the rows that came, and of events that expired."""
        steps, again = list[Step](), list[int]()
        for key, own in turn.by_key.items():
            more = list[Any]()  # new classes of this batch
            for i in self._in_order(turn, key, own):
                if turn.rows.kind[i] == INSTANCE:
                    self._ask(turn, i, steps, again)
                else:
                    self._answer(turn, i, steps, more)
            ledger = self.ledgers.get(key, NOTHING)
            for id in ledger.overdue(self._now):
                event = ledger.pending[id]
                steps.append(Step(key, event, event.row, learned=True))
                ledger.resolve(event, None)
        late = self._results(turn, steps)
        for i in again:
            key = turn.rows.key[i]
            if (asked := self.ledgers[key].find(turn.rows.id[i])) is not None:
                turn.results[i] = self._prediction(key, asked, REPEATED)
        for key in turn.by_key:
            self.ledgers.get(key, NOTHING).forget()
        return [*(turn.results[i] for i in turn.order), *late]

    def _in_order(self, turn: Turn, key: str, own: list[int]) -> Iterator[int]:
        """The rows of a key; those without an order: instances first, then labels by their events, known by then."""
        if self.query.ordered:
            yield from own
            return
        yield from (i for i in own if turn.rows.kind[i] == INSTANCE)
        ledger = self.ledgers.get(key, NOTHING)
        events = {i: ledger.find(turn.rows.id[i]) for i in own if turn.rows.kind[i] == ANSWER}
        yield from sorted(events, key=lambda i: getattr(events[i], "number", 0))

    def _ask(self, turn: Turn, i: int, steps: list[Step], again: list[int]) -> None:
        """An instance: a step, unless it was asked before."""
        key, id, row = turn.rows.key[i], turn.rows.id[i], turn.X[i].tobytes()
        ledger = self.ledger(key)
        try:
            if ledger.find(id) is None:  # what is predicted for it is known after the batch
                steps.append(Step(key, ledger.add(id, self._now, 0, 0.0, row), row, instance=i))
            elif ledger.predicted(id, digest_of(row)):
                again.append(i)
        except InputError as error:
            turn.dead_letter(i, str(error))

    def _answer(self, turn: Turn, i: int, steps: list[Step], more: list[Any]) -> None:
        """A label: a step where it can be learned, that of its instance if it follows it."""
        key, id, label = turn.rows.key[i], turn.rows.id[i], self.query.label_of(turn.rows.label[i])
        judged = self.ledgers.get(key, NOTHING).judge(id, label)
        if isinstance(judged, Event) and label not in self.codes:
            try:  # a class that no source has, after the others of this batch; or a number
                check_labels(self.base.clf if self.numbers else self._holder.model(key), objects([*more, label]))
                more += [] if self.numbers else [label]
            except InputError as error:
                judged = LabelResult(id, REFUSED, label, str(error))
        if isinstance(judged, LabelResult):
            text = self.query.text_of(label)
            turn.results[i] = Result(key, LABEL, id, text, None, judged.status, None, judged.detail or None)
            return
        # a block that brings a new class is predicted with room for it: such an instance is a step of its own
        if not (steps and steps[-1].event is judged and (self.numbers or label in self.codes)):
            steps.append(Step(key, judged, judged.row))
        steps[-1].answer, steps[-1].learned, steps[-1].label = i, True, label
        self.ledgers[key].resolve(judged, label)

    def _results(self, turn: Turn, steps: list[Step]) -> list[Result]:
        """What became of every step, once all were predicted and learned; events that expired are returned."""
        late = list[Result]()
        for step, code, share, half in zip(steps, *self._predictions(steps), strict=True):
            key, event = step.key, step.event
            id = str(event.id)
            if step.instance is not None:
                event.code, event.probability, event.half = code, share, half
                self._asked.append((key, id, code, share, step.row, None, half))
                turn.results[step.instance] = self._prediction(key, event, NEW)
            if step.learned:
                self._resolved.append((key, id, None, None, None, event.label, None))
            if step.answer is not None:
                right, text = self._is_right(key, event, step.label), self.query.text_of(step.label)
                turn.results[step.answer] = Result(key, LABEL, id, text, None, LEARNED, right)
            elif step.learned:
                late.append(Result(key, LABEL, id, None, None, EXPIRED, None, "no label came in time"))
        return late

    def _prediction(self, key: str, event: Event, status: str) -> Result:
        """The class, or number, that was predicted for an event."""
        if event.half is not None:
            number, half = event.probability, event.half
            said = Result(key, PREDICTION, event.id, self.query.text_of(number), status=status)
            return said._replace(low=number - half, high=number + half)
        classes = self.base.classes if event.code < len(self.codes) else classifier(self._holder.model(key)).classes_
        return Result(key, PREDICTION, event.id, self.query.text_of(classes[event.code]), event.probability, status)

    def _is_right(self, key: str, event: Event, label: Any) -> bool:
        """Whether a label that was learned is the class that was predicted, or inside the interval."""
        if event.half is not None:
            return bool(abs(label - event.probability) <= event.half)
        known = label in self.codes
        return event.code == (self.codes[label] if known else classifier(self._holder.model(key)).code_of(label))

    # -- models --------------------------------------------------------------------------------------------------------

    def learn(self, rows: Sequence[tuple[str, bytes, Any]]) -> None:
        """Keys, rows and labels in the order in which they were learned."""
        self._predictions([Step(key, NO_EVENT, row, learned=True, label=label) for key, row, label in rows])

    def _predictions(self, steps: Sequence[Step]) -> tuple[list[int], list[float], list[float | None]]:
        """The most likely class of each step's row by its code, and its probability, before it is learned.

        Or its number in place of the probability, and half the width of the interval.
        """
        if not steps:
            return [], [], []
        n = len(steps)
        codes, shares, halves = np.zeros(n, np.int64), np.empty(n), np.full(n, None, dtype=object)
        X = np.frombuffer(b"".join([step.row for step in steps])).reshape(n, self.base.n_features)
        labels, learned = objects([step.label for step in steps]), np.array([step.learned for step in steps], bool)
        for some in self._holder.run(Batch([step.key for step in steps], X, labels, np.ones(n), learned))[0]:
            if some.half is not None:
                shares[some.places], halves[some.places] = some.P, some.half[:, 0].tolist()
                continue
            best = some.P.argmax(axis=1)
            codes[some.places] = best
            shares[some.places] = some.P[np.arange(len(best)), best]
        return codes.tolist(), shares.tolist(), halves.tolist()

    # -- history -------------------------------------------------------------------------------------------------------

    def replay(self, rows: Rows) -> list[Result]:
        """Instances that have their labels, each predicted before its label is learned; `right` says how that went."""
        turn, steps = self._turn(rows), list[Step]()
        for key, own in turn.by_key.items():
            first = {rows.id[i]: i for i in reversed(own)}
            for i in own:
                if first[rows.id[i]] != i:
                    turn.dead_letter(i, f"id {rows.id[i]!r} stands there twice; give every instance an id of its own")
            some = [i for i in own if first[rows.id[i]] == i]
            labels = [self.query.label_of(rows.label[i]) for i in some]
            try:
                check_labels(self.base.clf, objects(labels))
            except InputError as error:
                for i in some:
                    turn.dead_letter(i, f"key {key!r}: {error}")
                continue
            for i, label in zip(some, labels, strict=True):
                event = Event(0, rows.id[i], 0.0, 0, 0.0, b"")
                steps.append(Step(key, event, turn.X[i].tobytes(), i, learned=True, label=label))
        for step, code, share, half in zip(steps, *self._predictions(steps), strict=True):
            event = step.event
            event.code, event.probability, event.half = code, share, half
            right = None if step.label is None else self._is_right(step.key, event, step.label)
            turn.results[step.instance or 0] = self._prediction(step.key, event, NEW)._replace(right=right)
            self.changed[step.key] = self._now
        return [turn.results[i] for i in turn.order]


@dataclass
class Turn:
    """The rows of a batch, their numbers, their places in order, also by key, and what became of each."""

    rows: Rows
    X: Array
    order: list[int] = field(default_factory=list)
    by_key: dict[str, list[int]] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)

    def dead_letter(self, i: int, reason: str) -> None:
        """A row that cannot be used, and why."""
        rows = self.rows
        x, order = rows.x[i].as_py(), rows.order[i]
        if isinstance(x, str):
            x = json.loads(x)
        elif x is not None:
            x = [value if np.isfinite(value) else str(value) for value in np.array(x, np.float64).tolist()]
        about = {
            "kind": "instance" if rows.kind[i] == INSTANCE else "label",
            "order": None if order == NO_ORDER else order,
            "x": x,
            "label": rows.label[i],
        }
        self.results[i] = Result(rows.key[i], DEAD_LETTER, rows.id[i], detail=reason, row=json.dumps(about))


NO_ROWS = Rows([], [], [], [], pa.array([], pa.string()), [])
NO_EVENT = Event(0, None, 0.0, 0, 0.0, b"")
NOTHING = MemoryLedger(Limits())  # of keys that were never asked about
