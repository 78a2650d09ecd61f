"""All keys of a shard in one batch: events by their ids, predictions and labels of many keys together.

Nothing of Spark is in here. A key's rows become runs of instances and of labels, in turn; the first runs of all keys go
together as one batch of a fleet, then the second ones, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hedgerow.core.arrays import LARGEST, Array
from hedgerow.core.errors import InputError
from hedgerow.core.registry import Limits
from hedgerow.core.values import labels_to_json, plain
from hedgerow.events import (
    EXPIRED,
    LEARNED,
    LONGEST_ID,
    REFUSED,
    Event,
    LabelResult,
    MemoryLedger,
    digest_of,
    label_to_json,
    labels_together,
)  # fmt: skip
from hedgerow.fleet.base import Base
from hedgerow.fleet.batch import Batch
from hedgerow.fleet.holder import Holder, in_parts
from hedgerow.inputs import usable
from hedgerow.spark.parts import (
    DELTA,
    PART_BYTES,
    Log,
    Part,
    dump_parts,
    new_token,
    part_of_bytes,
    part_to_bytes,
    table_of,
    token_of,
)

INSTANCE, ANSWER = 0, 1  # the kinds of rows that come in
NO_ORDER = -(2**63)  # stands for an order that is missing
PREDICTION, LABEL, DEAD_LETTER = "prediction", "label", "dead letter"
NEW, REPEATED = "new", "repeated"
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
    """Rows that came in, a list a column: instances have x, labels a label, both as Spark has them.

    x : an array of numbers, or the cells of a table as JSON. label : as text.
    """

    key: list[Any]
    kind: list[int]
    id: list[Any]
    order: list[int]
    x: list[Any]
    label: list[Any]


class Result(NamedTuple):
    """One row that comes out.

    | kind          | label               | status                                    | right               | detail |
    |---------------|---------------------|-------------------------------------------|---------------------|--------|
    | `prediction`  | the predicted class | `new`, or `repeated`: the id came before  |                     |        |
    | `label`       | the label given     | as of a live model: `learned`,            | was it predicted?   | reason |
    |               |                     | `duplicate`, `conflict`, `expired`, ...   | (where learned)     |        |
    | `dead letter` |                     |                                           |                     | reason |

    `probability` is that of the predicted class; `row` is what a dead letter brought, as JSON. Labels are text.
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


Round = tuple[list[int], list[tuple[int | None, int]]]  # instances, labels


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


class Shard:
    """The keys of a shard: `take` and `wake` change them, `commit` says what Spark has to keep, `follow` reads it.

    `token` names the content; a shard that raised an error must not be used again.
    """

    def __init__(self, base: Base, query: Query) -> None:
        self.base, self.query, self.settings = base, query, query.settings
        self.token = b""
        self._log = Log(self.settings, base.digest)
        self._holder = Holder(base, self._log, self.settings.memory // self.settings.shards)
        self._holder.threads = 1
        self._dumped = self._since = 0  # bytes of the last dump, and of the deltas after it
        self._codes = {label: code for code, label in enumerate(base.classes.tolist())}
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
            shard._read(data)
        return shard

    def _read(self, data: bytes) -> None:
        part, digest = part_of_bytes(data), self.base.digest
        if part.base != digest:
            raise InputError(
                f"the state of its shard belongs to other sources (digest {part.base.hex()[:12]}, these have "
                f"{digest.hex()[:12]}); use the base that it was learned with, or another checkpoint"
            )
        if part.about["kind"] == "dump":
            self._log.load(part)
            self._dumped += len(data)
        else:
            learned = self._log.replay(part)
            self._leave(part.about["dropped"])
            if learned.keys:
                self._learn_rows(*learned)
            self._since += len(data)
        self.token = part.token

    def commit(self) -> tuple[list[bytes], bool]:
        """The parts that Spark has to keep now, and whether they take the place of all others."""
        if not (self._asked or self._resolved or self._dropped):
            return [], False
        about = self.about(self._now) | {"dropped": self._dropped, "woken": self._woken}
        self.token = new_token()
        rows = [*self._asked, *self._resolved]
        self._log.changed |= dict.fromkeys((row[0] for row in rows), self._now)
        parts, whole = [part_to_bytes(Part(self.token, self.base.digest, about, table_of(rows, DELTA)))], False
        self._since += len(parts[0])
        if self._since > max(PART_BYTES, 2 * self._dumped):
            parts, whole = self._dump(about), True
            self._dumped, self._since = sum(map(len, parts)), 0
        leaving = self._holder.too_many()
        self._holder.written(self._holder.write(leaving))
        self._holder.leave(leaving)
        self._begin(self._now)
        return parts, whole

    def about(self, now: float) -> dict[str, Any]:
        """What a part says of itself."""
        classes = labels_to_json(self.base.classes)
        return {"kind": "delta", "time": now, "classes": classes, "keep": self.settings.keep_events}

    def _dump(self, about: dict[str, Any]) -> list[bytes]:
        log = self._log
        self._drop_idle(list(log.changed))
        self._holder.written(self._holder.write(list(self._holder.dirty)))
        rows = (
            (key, log.states.get(key, b""), log.ledgers[key].to_bytes(log.digest) if key in log.ledgers else b"", time)
            for key, time in log.changed.items()
        )
        return dump_parts(rows, self.token, about, log.digest)

    def _drop_idle(self, keys: Iterable[str]) -> None:
        """Drop those of the keys that nobody changed for too long."""
        ttl, changed = self.settings.idle_ttl, self._log.changed
        if ttl is not None:
            idle = [key for key in keys if key in changed and self._now - changed[key] >= ttl]
            for key in idle:
                self._log.drop(key)
            self._leave(idle)
            self._dropped += idle

    def _leave(self, keys: Sequence[str]) -> None:
        held = [key for key in keys if key in self._holder.held]
        self._holder.leave(held)
        for key in held:
            self._holder.dirty.pop(key, None)

    @property
    def deadline(self) -> float | None:
        """When the first of the pending events expires."""
        timeout, ledgers = self.settings.label_timeout, self._log.ledgers.values()
        if timeout is None:
            return None
        return min((next(iter(one.pending.values())).time + timeout for one in ledgers if one.pending), default=None)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def take(self, rows: Rows, now: float) -> list[Result]:
        """All rows of a batch, in an order that does not depend on how Spark brought them; what became of each."""
        self._begin(now)
        turn = self._turn(rows)
        self._drop_idle(turn.by_key)
        self._refuse_unreadable(turn)
        for asked, labelled in self._rounds(turn):
            self._predict(turn, asked)
            self._learn(turn, labelled)
        return [*(turn.results[i] for i in turn.order), *self._expire(turn.by_key)]

    def wake(self, now: float) -> list[Result]:
        """Events of all keys that waited too long expire."""
        self._begin(now)
        self._woken = True
        return self._expire(list(self._log.ledgers))

    def _turn(self, rows: Rows) -> Turn:
        """The rows that can be used, by key and in order; the others are dead letters."""
        turn = Turn(rows, np.zeros((len(rows.key), self.base.n_features)))
        faults = self._faults(turn)
        places = range(len(rows.key))
        for i in sorted(faults):
            turn.dead_letter(i, faults[i])
        turn.order = sorted(
            (i for i in places if i not in faults) if faults else places,
            key=lambda i: (rows.order[i], rows.kind[i], rows.id[i], str(rows.label[i])),
        )
        for i in turn.order:
            turn.by_key.setdefault(rows.key[i], []).append(i)
        turn.order = [*sorted(faults), *turn.order]
        return turn

    def _faults(self, turn: Turn) -> dict[int, str]:
        """The rows that cannot be used, and why; X gets the numbers of the others."""
        rows, faults = turn.rows, dict[int, str]()
        instances = []
        for i, (key, kind, id, order, x) in enumerate(
            zip(rows.key, rows.kind, rows.id, rows.order, rows.x, strict=True)
        ):
            if not isinstance(key, str):
                faults[i] = "the key is missing, or of another type than the column of keys; send it with its key"
            elif not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
                faults[i] = f"the id is missing, or is no text of 1 to {LONGEST_ID} characters"
            elif order == NO_ORDER and self.query.ordered:
                faults[i] = f"id {id!r}: the order is missing"
            elif kind == INSTANCE and (x is None or isinstance(x, float)):
                faults[i] = f"id {id!r}: the features are missing"
            elif kind == INSTANCE:
                instances.append(i)
        names, clf, X = self.query.features, self.base.clf, turn.X
        if names is None and clf.table_ is not None:
            names = tuple(clf.table_.feature_names)
            numbers, reasons = usable(clf.table_, [json.loads(rows.x[i]) for i in instances]) or (X[:0], {})
            X[instances] = numbers.astype(clf.learner_.dtype)
            faults |= {instances[k]: f"id {rows.id[instances[k]]!r}: {reason}" for k, reason in reasons.items()}
        else:
            wide = [i for i in instances if len(rows.x[i]) != self.base.n_features]
            for i in wide:
                faults[i] = (
                    f"id {rows.id[i]!r}: a row of {len(rows.x[i])} features, the base has {self.base.n_features}; "
                    "send rows of its width"
                )
            instances = [i for i in instances if i not in faults] if wide else instances
            if instances:
                X[instances] = np.array([rows.x[i] for i in instances], np.float64)
        good = np.abs(X) <= LARGEST[np.dtype(np.float64)]
        if clf.learner_.gaps:
            good |= np.isnan(X)
        for i in np.flatnonzero(~good.all(axis=1)).tolist():
            bad = ", ".join((names or ())[k] for k in np.flatnonzero(~good[i])[:3].tolist())
            faults[i] = f"id {rows.id[i]!r}: missing or not finite: {bad}; fill it before, or leave the row out"
        return faults

    def _refuse_unreadable(self, turn: Turn) -> None:
        """Rows of keys whose state cannot be read are dead letters; the state stays as it is."""
        for key, error in self._holder.fetch(key for key in turn.by_key if key in self._log.states).items():
            for i in turn.by_key.pop(str(key)):
                turn.dead_letter(i, str(error))

    def _rounds(self, turn: Turn) -> list[Round]:
        """Of every key a run of instances and then one of labels, again and again: the first ones of all keys, ...

        A label is (None, its place). An instance whose label follows at once is (its place, that of its label) in a run
        of labels: both are one step of a model, so that a key whose rows alternate takes one run.
        """
        rows, rounds = turn.rows, list[Round]()
        for key, own in turn.by_key.items():
            ledger = self._log.ledgers.get(key, NOTHING)
            asked, labelled, r = set[str](), False, 0
            places = iter(zip(own, [*own[1:], -1], strict=True))
            for i, following in places:
                instance = rows.kind[i] == INSTANCE
                pair = instance and following >= 0 and self._are_pair(rows, i, following, asked, ledger)
                r += instance and labelled and not pair
                labelled = pair or not instance
                asked.add(rows.id[i])
                if r == len(rounds):
                    rounds.append(([], []))
                if pair:
                    rounds[r][1].append((i, following))
                    next(places)
                elif instance:
                    rounds[r][0].append(i)
                else:
                    rounds[r][1].append((None, i))
        return rounds

    def _are_pair(self, rows: Rows, i: int, following: int, asked: set[str], ledger: MemoryLedger) -> bool:
        """Whether a new instance is followed by its label, one of the base's classes."""
        id, ordered = rows.id[i], self.query.ordered
        new = ordered and rows.id[following] == id and id not in asked and ledger.find(id) is None
        return new and rows.kind[following] == ANSWER and self.query.label_of(rows.label[following]) in self._codes

    # -- instances -----------------------------------------------------------------------------------------------------

    def _predict(self, turn: Turn, places: list[int]) -> None:
        rows, new, again = turn.rows, dict[tuple[str, str], int](), []
        for i in places:
            key, id = rows.key[i], rows.id[i]
            known = (key, id) in new or self._log.ledgers.get(key, NOTHING).find(id) is not None
            if known:
                again.append(i)
            else:
                new[key, id] = i
        if new:
            some = list(new.values())
            batch = Batch(
                [key for key, _ in new], turn.X[some], labels_together([None] * len(some)), np.ones(len(some))
            )
            self._holder.begin_prediction()
            for i, code, share in zip(some, *self._predictions(batch, learn=False), strict=True):
                key, id, row = rows.key[i], rows.id[i], turn.X[i].tobytes()
                self._log.ledger(key).add(id, self._now, code, share, row)
                self._asked.append((key, id, code, share, row, None))
                turn.results[i] = Result(key, PREDICTION, id, self._label(key, code), share, NEW)
        for i in again:
            key, id = rows.key[i], rows.id[i]
            try:
                event = self._log.ledgers[key].predicted(id, digest_of(turn.X[i].tobytes()))
                assert event is not None
                label = self._label(key, event.code)
                turn.results[i] = Result(key, PREDICTION, id, label, event.probability, REPEATED)
            except InputError as error:
                turn.dead_letter(i, str(error))

    def _label(self, key: str, code: int) -> str | None:
        """The class of a key that has this code."""
        if code < len(self._codes):
            return self.query.text_of(self.base.classes[code])
        self._holder.fetch([key])
        clf = self._holder.held[key].clf
        assert clf is not None
        return self.query.text_of(clf.classes_[code])

    # -- labels --------------------------------------------------------------------------------------------------------

    def _learn(self, turn: Turn, labelled: list[tuple[int | None, int]]) -> None:
        rows, ledgers = turn.rows, self._log.ledgers
        if not self.query.ordered:  # by their events
            found = [ledgers.get(rows.key[i], NOTHING).find(rows.id[i]) for _, i in labelled]
            number = [0 if event is None else event.number for event in found]
            labelled = [labelled[k] for k in sorted(range(len(labelled)), key=number.__getitem__)]
        taken: list[tuple[int | None, int, Event, Any]] = []
        more: dict[str, list[Any]] = {}  # new classes of this round, by key
        for instance, i in labelled:
            key, id, label = rows.key[i], rows.id[i], self.query.label_of(rows.label[i])
            if instance is None:
                judged = ledgers.get(key, NOTHING).judge(id, label)
                if isinstance(judged, Event) and label not in self._codes:
                    judged = self._judge_new(key, judged, label, more.setdefault(key, []))
            else:
                judged = self._log.ledger(key).add(id, self._now, 0, 0.0, turn.X[instance].tobytes())
            if isinstance(judged, LabelResult):
                turn.results[i] = Result(
                    key, LABEL, id, self.query.text_of(label), None, judged.status, None, judged.detail or None
                )
                continue
            ledgers[key].resolve(judged, label)
            taken.append((instance, i, judged, label))
        if not taken:
            return
        keys = [rows.key[i] for _, i, _, _ in taken]
        labels = [label for *_, label in taken]
        predicted = self._learn_rows(keys, [event.row for _, _, event, _ in taken], labels)
        for (instance, i, event, label), key, code, share in zip(taken, keys, *predicted, strict=True):
            assert event.id is not None
            if instance is not None:
                done = ledgers[key].resolved[event.id]
                event = ledgers[key].resolved[event.id] = done._replace(code=code, probability=share)
                self._asked.append((key, event.id, code, share, turn.X[instance].tobytes(), None))
                turn.results[instance] = Result(key, PREDICTION, event.id, self._label(key, code), share, NEW)
            self._resolved.append((key, event.id, None, None, None, label_to_json(label)))
            right = event.code == self._code(key, label)
            turn.results[i] = Result(key, LABEL, event.id, self.query.text_of(label), None, LEARNED, right)

    def _code(self, key: str, label: Any) -> int:
        """The code that a class which was learned has for a key."""
        if label in self._codes:
            return self._codes[label]
        clf = self._holder.held[key].clf
        assert clf is not None
        return clf.code_of(label)

    def _judge_new(self, key: str, event: Event, label: Any, more: list[Any]) -> Event | LabelResult:
        """Whether a key can learn a class that no source has, after the others of this round."""
        self._holder.fetch([key])
        clf = self._holder.held[key].clf
        try:
            (self.base.clf if clf is None else clf).check_labels([*more, label])
        except InputError as error:
            return LabelResult(str(event.id), REFUSED, label, str(error))
        more.append(label)
        return event

    def _expire(self, keys: Iterable[str]) -> list[Result]:
        """The events that waited too long, or are too many; their rows are used without a label."""
        late: list[tuple[str, Event]] = []
        for key in keys:
            ledger = self._log.ledgers.get(key)
            if ledger is not None:
                late += [(key, ledger.pending[id]) for id in ledger.overdue(self._now)]
        for key, event in late:
            self._log.ledgers[key].resolve(event, None)
            self._resolved.append((key, event.id, None, None, None, label_to_json(None)))
        for key in keys:
            self._log.ledgers.get(key, NOTHING).forget()
        if late:
            self._learn_rows([key for key, _ in late], [event.row for _, event in late], [None] * len(late))
        return [Result(key, LABEL, event.id, None, None, EXPIRED, None, "no label came in time") for key, event in late]

    # -- models --------------------------------------------------------------------------------------------------------

    def _learn_rows(self, keys: list[str], rows: list[bytes], labels: list[Any]) -> tuple[list[int], list[float]]:
        """Learn rows in order; what was predicted for each before."""
        X = np.frombuffer(b"".join(rows)).reshape(len(rows), -1)
        return self._predictions(Batch(list(keys), X, labels_together(labels), np.ones(len(rows))), learn=True)

    def _predictions(self, batch: Batch, learn: bool) -> tuple[list[int], list[float]]:
        """The most likely class of each row by its code, and its probability; the rows are learned too."""
        codes, shares, holder = np.empty(len(batch), np.int64), np.empty(len(batch)), self._holder
        holder.fetch(batch.by_key)
        for part in in_parts(batch.by_key.items()):
            for some in holder.learn(batch, [part], 0) if learn else holder.predict(batch, [part]):
                best = some.P.argmax(axis=1)
                codes[some.places] = best
                shares[some.places] = some.P[np.arange(len(best)), best]
        return codes.tolist(), shares.tolist()

    # -- history -------------------------------------------------------------------------------------------------------

    def replay(self, rows: Rows) -> list[Result]:
        """Instances that have their labels, each predicted before its label is learned; `right` says how that went."""
        turn = self._turn(rows)
        places: list[int] = []
        labels = [self.query.label_of(text) for text in rows.label]
        for key, own in turn.by_key.items():
            first = {rows.id[i]: i for i in reversed(own)}
            for i in own:
                if first[rows.id[i]] != i:
                    turn.dead_letter(i, f"id {rows.id[i]!r} stands there twice; give every instance an id of its own")
            try:
                self.base.clf.check_labels(labels_together([labels[i] for i in first.values()]))
                places += sorted(first.values(), key=own.index)
            except InputError as error:
                for i in first.values():
                    turn.dead_letter(i, f"key {key!r}: {error}")
        if places:
            keys, given = [rows.key[i] for i in places], [labels[i] for i in places]
            predicted = self._learn_rows(keys, [turn.X[i].tobytes() for i in places], given)
            for i, key, label, code, share in zip(places, keys, given, *predicted, strict=True):
                right = None if label is None else code == self._code(key, label)
                turn.results[i] = Result(key, PREDICTION, rows.id[i], self._label(key, code), share, NEW, right)
        return [turn.results[i] for i in turn.order]

    def states(self) -> dict[str, bytes]:
        """What every key has learned."""
        self._holder.written(self._holder.write(list(self._holder.dirty)))
        return self._log.states


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
        key, kind, id, order, x, label = (column[i] for column in self.rows)
        if isinstance(x, str):
            x = json.loads(x)
        elif x is not None and not isinstance(x, float):
            x = [value if np.isfinite(value) else str(value) for value in np.asarray(x, np.float64).tolist()]
        about = {
            "kind": "instance" if kind == INSTANCE else "label",
            "order": None if order == NO_ORDER else order,
            "x": None if isinstance(x, float) else x,
            "label": label if isinstance(label, str) else None,
        }
        key, id = (value if isinstance(value, str) else None for value in (key, id))
        self.results[i] = Result(key, DEAD_LETTER, id, detail=reason, row=json.dumps(about))


NOTHING = MemoryLedger(Limits())  # of keys that were never asked about
