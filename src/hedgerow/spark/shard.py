"""All keys of a shard in one batch: events by their ids, predictions and labels of many keys together.

Nothing of Spark is in here. The rows of a key become steps, in order: an instance is predicted, the row of an event
whose label came is learned; both are one step where the label follows its instance. The steps of all keys are one batch
of a fleet.

The rules of events (what is repeated, a duplicate, late or expired) are those of live models: `hedgerow.events.Ledger`.
What applies them is not `hedgerow.live.engine`, because the two recover in different ways. A live model has a journal
of its own and repeats, after a crash, the very blocks that it learned, so that it is equal to the last bit: its engine
keeps what a block was, and writes before it answers. Here Spark keeps the state, and repeats a whole batch from the
state before it: a batch is one step of many keys, written once at its end, and equal up to rounding. For the same
reason a live model has one ledger and one model in memory, a shard thousands, of which most are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.registry import Limits
from hedgerow.core.values import objects
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
from hedgerow.fleet.base import Base, Batch, usable_rows
from hedgerow.fleet.holder import Holder
from hedgerow.fleet.store import MemoryStates
from hedgerow.spark import records
from hedgerow.spark.records import (
    ANSWER,
    DEAD_LETTER,
    DELTA,
    INSTANCE,
    LABEL,
    NEW,
    NO_ORDER,
    PREDICTION,
    REPEATED,
    Entry,
    Part,
    Query,
    Result,
    Rows,
    Settings,
    dump_parts,
    new_token,
)


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


@dataclass
class Turn:
    """The rows of a batch, their numbers, the places of each key's rows in order, and what became of each."""

    rows: Rows
    X: Array
    by_key: dict[str, list[int]] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)

    def dead_letter(self, i: int, reason: str) -> None:
        """A row that cannot be used, and why."""
        rows = self.rows
        x = rows.x[i].as_py()
        if isinstance(x, str):
            x = json.loads(x)
        elif x is not None:
            x = [
                value if np.isfinite(value) else str(value)
                for value in np.array(x, np.float64).tolist()
            ]
        about = {
            "kind": "instance" if rows.kind[i] == INSTANCE else "label",
            "order": None if rows.order[i] == NO_ORDER else rows.order[i],
            "x": x,
            "label": rows.label[i],
        }
        self.results[i] = Result(
            rows.key[i], DEAD_LETTER, rows.id[i], detail=reason, row=json.dumps(about)
        )


NO_ROWS = Rows([], [], [], [], pa.array([], pa.string()), [])
NOTHING = MemoryLedger(Limits())  # of keys that were never asked about


class Shard:
    """The keys of a shard: `take` and `wake` change them, `commit` says what Spark has to keep, `follow` reads it.

    `token` names the content; a shard that raised an error must not be used again.
    """

    def __init__(self, base: Base, query: Query) -> None:
        self.base = base
        self.query = query
        self.settings = query.settings
        self.digest = base.digest
        self.token = ""
        self.codes = {label: code for code, label in enumerate(base.classes.tolist())}
        self.ledgers: dict[str, MemoryLedger] = {}
        self.states = MemoryStates()
        self.changed: dict[str, float] = {}
        self.dumped = 0  # bytes of the last dump,
        self.since = 0  # and of the deltas after it
        self._holder = Holder(
            [base], self.states, self.settings.memory // self.settings.shards, threads=1
        )
        self._begin(0.0)

    def _begin(self, now: float, woken: bool = False) -> None:
        self._now = now
        self._woken = woken
        self._dropped: list[str] = []
        self._asked: list[tuple[Any, ...]] = []  # rows of DELTA
        self._resolved: list[tuple[Any, ...]] = []

    # -- what Spark keeps ----------------------------------------------------------------------------------------------

    def follow(self, parts: Sequence[bytes]) -> Shard:
        """The shard that these parts describe: this one where they go on from its token, else a new one."""
        shard = self
        behind: list[Part] = []
        for data in reversed(parts):
            part = Part.from_bytes(data, self.digest)
            if part.token == self.token:
                break
            behind.append(part)
        else:
            shard = Shard(self.base, self.query)
        for part in reversed(behind):
            if part.about["kind"] == "dump":
                shard._load(part)
                shard.dumped += part.size
            else:
                shard._replay(part)
                shard.since += part.size
            shard.token = part.token
        return shard

    def _load(self, dump: Part) -> None:
        for key, state, events, time in dump.rows:
            self.changed[key] = time
            if state:
                self.states.put([(key, 0, 0, state)])
            if events:
                self.ledgers[key] = MemoryLedger.from_bytes(
                    events, self.settings, self.digest, f"key {key!r}"
                )

    def _replay(self, delta: Part) -> None:
        now = delta.about["time"]
        learned: list[Step] = []
        keys: set[str] = set()
        for key in delta.about["dropped"]:
            self.drop(key)
        for key, id, code, probability, row, text, half in delta.rows:
            ledger = self.ledger(key)
            keys.add(key)
            if text is None:
                ledger.add(id, now, code, probability, row, half=half)
            else:
                event = ledger.pending[id]
                label = label_of_json(text)
                learned.append(Step(key, event, event.row, learned=True, label=label))
                ledger.resolve(event, label)
        for key in self.ledgers if delta.about["woken"] else keys:
            self.ledgers[key].overdue(now)  # for its clock: what expired then is among the rows
            self.ledgers[key].forget()
        self.changed |= dict.fromkeys(keys, now)
        self._predictions(learned)

    def commit(self) -> tuple[list[bytes], bool]:
        """The parts that Spark has to keep now, and whether they take the place of all others."""
        rows = [*self._asked, *self._resolved]
        if not (rows or self._dropped):
            return [], False
        about = self.about(self._now) | {"dropped": self._dropped, "woken": self._woken}
        self.changed |= dict.fromkeys((row[0] for row in rows), self._now)
        self.token = new_token()
        parts = [Part(self.token, self.digest, about, rows).to_bytes(DELTA)]
        self.since += len(parts[0])
        whole = self.since > max(records.PART_BYTES, 2 * self.dumped)
        if whole:
            self._drop_idle(list(self.changed))
            parts = dump_parts(self.entries(), self.token, self.digest, about)
            self.dumped = sum(map(len, parts))
            self.since = 0
        self._begin(self._now)
        return parts, whole

    def about(self, now: float) -> dict[str, Any]:
        """What a part says of itself."""
        return {"kind": "delta", "time": now, "keep": self.settings.keep_events}

    def entries(self) -> Iterator[Entry]:
        """Of each key its state, its events and when it changed."""
        self._holder.write(list(self._holder.dirty))
        for key, time in self.changed.items():
            events = self.ledgers[key].to_bytes(self.digest) if key in self.ledgers else b""
            yield key, self.states.joined(key, self.digest), events, time

    def ledger(self, key: str) -> MemoryLedger:
        """The events of a key."""
        if key not in self.ledgers:
            self.ledgers[key] = MemoryLedger(self.settings)
        return self.ledgers[key]

    def drop(self, key: str) -> None:
        """All of a key."""
        self.ledgers.pop(key, None)
        self.changed.pop(key, None)
        self.states.forget(key)
        self._holder.drop(key)

    def _drop_idle(self, keys: Iterable[str]) -> None:
        """Drop those of the keys that nobody changed for too long."""
        ttl = self.settings.idle_ttl
        idle = [
            key
            for key in keys
            if ttl is not None and self._now - self.changed.get(key, self._now) >= ttl
        ]
        for key in idle:
            self.drop(key)
        self._dropped += idle

    @property
    def deadline(self) -> float | None:
        """When the first of the pending events expires."""
        timeout = self.settings.label_timeout
        if timeout is None:
            return None
        first = (
            next(iter(ledger.pending.values()))
            for ledger in self.ledgers.values()
            if ledger.pending
        )
        return min((event.time + timeout for event in first), default=None)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def take(self, rows: Rows, now: float) -> list[Result]:
        """All rows of a batch, in an order that does not depend on how Spark brought them; what became of each."""
        self._begin(now)
        turn = self._turn(rows)
        self._drop_idle(turn.by_key)
        for key, error in self._holder.fetch(
            key for key in turn.by_key if self.states.parts(key)
        ).items():
            for i in turn.by_key.pop(str(key)):  # its state cannot be read, and stays as it is
                turn.dead_letter(i, str(error))
        return self._run(turn)

    def wake(self, now: float) -> list[Result]:
        """Events of all keys that waited too long expire."""
        self._begin(now, woken=True)
        return self._run(Turn(NO_ROWS, np.empty((0, 0)), {key: [] for key in self.ledgers}))

    def _turn(self, rows: Rows) -> Turn:
        """The rows that can be used, by key and in order; the others are dead letters."""
        turn = Turn(rows, np.zeros((len(rows.key), self.base.n_features)))
        faults = self._faults(rows)
        faults |= self._read_numbers(
            turn, [i for i, kind in enumerate(rows.kind) if kind == INSTANCE and i not in faults]
        )
        for i, reason in faults.items():
            turn.dead_letter(i, reason)
        good = [i for i in range(len(rows.key)) if i not in faults]
        sorting = list(
            zip(rows.order, rows.kind, rows.id, [label or "" for label in rows.label], strict=True)
        )
        for i in sorted(good, key=sorting.__getitem__):
            turn.by_key.setdefault(rows.key[i], []).append(i)
        return turn

    def _faults(self, rows: Rows) -> dict[int, str]:
        """The rows without a key, an id, an order or features."""
        faults: dict[int, str] = {}
        missing = rows.x.is_null().to_pylist()
        for i, (key, id) in enumerate(zip(rows.key, rows.id, strict=True)):
            if not isinstance(key, str):
                faults[i] = (
                    "the key is missing, or of another type than the column of keys; send it with its key"
                )
            elif not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
                faults[i] = f"the id is missing, or is no text of 1 to {LONGEST_ID} characters"
            elif rows.order[i] == NO_ORDER and self.query.ordered:
                faults[i] = f"id {id!r}: the order is missing"
            elif rows.kind[i] == INSTANCE and missing[i]:
                faults[i] = f"id {id!r}: the features are missing"
        return faults

    def _read_numbers(self, turn: Turn, instances: list[int]) -> dict[int, str]:
        """X gets the numbers of these instances; those that cannot be used, and why."""
        rows = turn.rows
        width = self.base.n_features
        faults = dict[int, str]()
        if self.query.features is None:
            given: Any = [
                json.loads(text)
                for text in rows.x.take(pa.array(instances, pa.int64())).to_pylist()
            ]
        else:
            widths = pc.list_value_length(rows.x).to_pylist()
            for i in instances:
                if widths[i] != width:
                    faults[i] = (
                        f"a row of {widths[i]} features, the base has {width}; send rows of its width"
                    )
            instances = [i for i in instances if i not in faults]
            numbers = rows.x.take(pa.array(instances, pa.int64())).flatten()
            given = (
                numbers.to_numpy(zero_copy_only=False)
                .astype(np.float64)
                .reshape(len(instances), width)
            )
        if instances:
            turn.X[instances], reasons = usable_rows(self.base.clf, given, self.query.features)
            faults |= {instances[k]: reason for k, reason in reasons.items()}
        return {i: f"id {rows.id[i]!r}: {reason}" for i, reason in faults.items()}

    def _run(self, turn: Turn) -> list[Result]:
        """The steps of all keys, and then what became of the rows that came, and of events that expired."""
        steps: list[Step] = []
        again: list[int] = []
        for key, own in turn.by_key.items():
            more: list[Any] = []  # new classes of this batch
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
        return [*(turn.results[i] for i in sorted(turn.results)), *late]

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
        key = turn.rows.key[i]
        id = turn.rows.id[i]
        row = turn.X[i].tobytes()
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
        key = turn.rows.key[i]
        id = turn.rows.id[i]
        label = self.query.label_of(turn.rows.label[i])
        judged = self.ledgers.get(key, NOTHING).judge(id, label)
        if isinstance(judged, Event) and label not in self.codes:
            try:  # a class that no source has, after the others of this batch; or a number
                self.base.task.check(
                    self._holder.model(key) if self.codes else self.base.clf,
                    objects([*more, label]),
                )
                more += [label] if self.codes else []
            except InputError as error:
                judged = LabelResult(id, REFUSED, label, str(error))
        if isinstance(judged, LabelResult):
            text = self.query.text_of(label)
            turn.results[i] = Result(
                key, LABEL, id, text, None, judged.status, None, judged.detail or None
            )
            return
        # a block that brings a new class is predicted with room for it: such an instance is a step of its own
        if not (steps and steps[-1].event is judged and (label in self.codes or not self.codes)):
            steps.append(Step(key, judged, judged.row))
        step = steps[-1]
        step.answer = i
        step.learned = True
        step.label = label
        self.ledgers[key].resolve(judged, label)

    def _results(self, turn: Turn, steps: list[Step]) -> list[Result]:
        """What became of every step, once all were predicted and learned; events that expired are returned."""
        late: list[Result] = []
        for step, code, share, half in zip(steps, *self._predictions(steps), strict=True):
            key = step.key
            event = step.event
            id = str(event.id)
            if step.instance is not None:
                event.code = code
                event.probability = share
                event.half = half
                self._asked.append((key, id, code, share, step.row, None, half))
                turn.results[step.instance] = self._prediction(key, event, NEW)
            if step.learned:
                self._resolved.append((key, id, None, None, None, event.label, None))
            if step.answer is not None:
                right = self._is_right(key, event, step.label)
                text = self.query.text_of(step.label)
                turn.results[step.answer] = Result(key, LABEL, id, text, None, LEARNED, right)
            elif step.learned:
                late.append(
                    Result(key, LABEL, id, None, None, EXPIRED, None, "no label came in time")
                )
        return late

    def _scale(self, key: str, event: Event) -> Any:
        """The classes that an event's code is a place of."""
        known = event.code < len(self.codes) or not self.codes
        return self.base.classes if known else self.base.task.classes(self._holder.model(key))

    def _prediction(self, key: str, event: Event, status: str) -> Result:
        """What was predicted for an event, as a result."""
        task = self.base.task
        said = _said(event)
        label = self.query.text_of(task.value(event.code, said, self._scale(key, event)))
        measured: dict[str, Any] = task.columns(task.measured(event.code, said))
        return Result(key, PREDICTION, event.id, label, status=status, **measured)

    def _is_right(self, key: str, event: Event, label: Any) -> bool:
        """Whether a label that was learned is the class that was predicted, or inside the interval."""
        return self.base.task.is_right(label, event.code, _said(event), self._scale(key, event))

    # -- models --------------------------------------------------------------------------------------------------------

    def _predictions(
        self, steps: Sequence[Step]
    ) -> tuple[list[int], list[float], list[float | None]]:
        """The most likely class of each step's row by its code, and its probability, before it is learned.

        Or its number in place of the probability, and half the width of the interval.
        """
        if not steps:
            return [], [], []
        n = len(steps)
        codes = np.zeros(n, np.int64)
        shares = np.empty(n)
        halves = np.full(n, None, dtype=object)
        X = np.frombuffer(b"".join([step.row for step in steps])).reshape(n, self.base.n_features)
        labels = objects([step.label for step in steps])
        learned = np.array([step.learned for step in steps], bool)
        for some in self._holder.run(
            Batch([step.key for step in steps], X, labels, np.ones(n), learned)
        )[0]:
            at = some.places
            codes[at], shares[at], halves[at] = some.task.noted(some.P)
        return codes.tolist(), shares.tolist(), halves.tolist()


def _said(event: Event) -> dict[int, Any]:
    """P of an event's row as far as it is kept: the probability of its class, or its number and half the interval."""
    return {event.code: event.probability, event.code + 1: event.half}


def states_in(parts: Sequence[bytes], base: Base) -> Iterator[tuple[str, bytes, bytes]]:
    """Of each key of a shard of this base its state and its events."""
    if parts:
        keep = Part.from_bytes(parts[-1], base.digest).about["keep"]
        shard = Shard(base, Query(None, str, False, Settings(keep_events=keep)))
        for key, state, events, _ in shard.follow(parts).entries():
            yield key, state, events
