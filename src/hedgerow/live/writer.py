"""The one writer of a live model: within a transaction journal, model and scores change together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import is_row
from hedgerow.drift import last_alarm
from hedgerow.events import (
    OWN,
    Clock,
    Event,
    check_id,
    digest_of,
    label_of_json,
    label_to_json,
    row_to_bytes,
)
from hedgerow.files import write_whole
from hedgerow.live import Settings
from hedgerow.live.engine import SEVERAL, Engine, Rows, Taken
from hedgerow.live.journal import (
    FORGET,
    REPLACE,
    SNAPSHOT,
    Journal,
    ModelRow,
    Steps,
    id_of,
    model_at,
    model_file,
)
from hedgerow.live.report import History, Scores
from hedgerow.regressor import model_of_bytes
from hedgerow.store import JournalError
from hedgerow.task import Answer, Model, Predicted

FIND = (
    "SELECT event.number, id, event.time, code, shares, digest, x, label, votes, known FROM event "
    "LEFT JOIN answer USING (number) WHERE "
)
THERE = "SELECT id FROM event WHERE id IN (SELECT value FROM json_each(?))"
AT_ONCE = 2000  # events that leave the journal in one transaction: nobody waits long for it
LOOK_EVERY = 32  # commits between two looks at age and size


class Writer(Engine):
    """Journal, model and scores, changed together. `changed`: whether the model is ahead of the journal."""

    def __init__(
        self, journal: Journal, steps: Steps, scores: Scores, settings: Settings, clock: Clock
    ) -> None:
        self.journal = journal
        self.steps = steps
        self.scores = scores
        self.settings = settings
        self.clock = clock
        self.history = History(journal)
        self.models = journal.models()
        self.changed = False
        self._snapshot: tuple[int, bytes] | None = None
        now, pending = clock.now(), journal.rows(
            "SELECT event.number, event.time FROM event LEFT JOIN answer USING (number) WHERE step IS NULL "
            "ORDER BY event.number"
        )  # fmt: skip
        # events of a time that has not come (the clock was wrong) age from now on
        self.pending: dict[int, float] = {number: min(asked, now) for number, asked in pending}

    @property
    def limits(self) -> Settings:  # type: ignore[override]
        """The settings have them."""
        return self.settings

    @property
    def first(self) -> int:  # type: ignore[override]
        """The step at which the model was put in place."""
        return self.models[-1].number

    def find(self, id: str) -> Event | None:
        """The event of an id."""
        id = check_id(id, own=True)
        if id.startswith(OWN):
            digits = id[len(OWN) :]
            number = (
                int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1
            )
            row = self.journal.row(FIND + "number = ? AND id IS NULL", (number,))
        else:
            row = self.journal.row(FIND + "id = ?", (id,))
        if row is None:
            return None
        number, own, asked, code, shares, digest, x, label, votes, known = row
        P = np.frombuffer(shares)
        named = np.frombuffer(votes, self.task.vote_type)
        return Event(
            number, own, asked, code, float(P[code]), digest, x, label, P, named, known=known
        )

    def among(self, ids: list[str | None]) -> set[str]:
        """Which of these ids may be in the journal: one question for all of them, unless they are few."""
        named = [id for id in ids if id is not None]
        if len(named) < SEVERAL:
            return set(named)
        return {id for (id,) in self.journal.rows(THERE, (json.dumps(named),))}

    def key_of(self, event: Event) -> int:
        """Events are known by their numbers."""
        return event.number

    def number_of(self, key: int) -> int:
        """A key is a number."""
        return key

    def scale_at(self, number: int) -> list[Any]:
        """The classes, by code, or the coverages of the model that made a prediction."""
        return (
            self.task.scale(self.clf)
            if number >= self.first
            else model_at(self.models, number).scale
        )

    # -- the verbs ----------------------------------------------------------------------------------------------

    def predict(self, x: Any, id: str | None) -> Answer:
        """See `LiveModel.predict`."""
        return self.predict_together([(x, id)])[0]

    def predict_together(self, items: Sequence[tuple[Any, str | None]]) -> list[Answer]:
        """Several single instances, each with an id or none, as one block."""
        return self._answers(self._take(self._read_single(items), None), True)

    def predict_many(
        self, X: Any, ids: Sequence[str] | None, explain: bool = False
    ) -> list[Answer]:
        """See `LiveModel.predict`."""
        return self._answers(self.predict_rows(X, ids), explain)

    def predict_then_learn(self, X: Any, y: Any, ids: Any, explain: bool = False) -> Any:
        """See `LiveModel.predict_then_learn`."""
        answers = self._answers(self.learn_rows(X, y, ids), explain)
        return answers[0] if is_row(X) else answers

    def _answers(self, taken: Taken, explain: bool = False) -> list[Answer]:
        clf = self.clf
        task = self.task
        codes, P, votes, weights = taken.predicted
        codes = task.decided(clf, codes, P)
        scale = task.scale(clf)
        weights = (weights or dict(clf.weights_)) if explain else None
        new = iter(zip(taken.keys, codes.tolist(), P.tolist(), votes.tolist(), strict=True))
        answers = []
        for id, event in zip(taken.ids, taken.known, strict=True):
            if event is not None:
                shares = [] if event.probabilities is None else event.probabilities.tolist()
                code = event.code
                if shares:
                    code = int(task.decided(clf, np.array([code]), np.array([shares]))[0])
                name = id_of(event.id, event.number)
                of = self.scale_at(event.number)
                answers.append(task.answer(name, event.number, code, shares, of, None, None, True))
                continue
            number, code, shares, named = next(new)
            said = (
                dict(zip(clf.expert_names_, task.named(named, scale), strict=True))
                if explain
                else None
            )
            answers.append(
                task.answer(id_of(id, number), number, code, shares, scale, said, weights, False)
            )
        return answers

    # -- what the journal keeps ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.journal.begin()
        self.changed = True

    def _labels(self, y: Any) -> list[Any]:
        try:
            return [label_of_json(label_to_json(self.kept(label))) for label in y]
        except TypeError:
            raise InputError(
                f"y is {type(y).__name__}; give a list of labels, None where one is missing"
            ) from None

    def _add(
        self, rows: Rows, predicted: Predicted, now: float, known: str | None, waits: bool
    ) -> list[int]:
        self.journal.begin()
        numbers = [self.journal.next() for _ in rows.data]
        shares = [row.tobytes() for row in np.ascontiguousarray(predicted.P, dtype=np.float64)]
        named = [
            row.tobytes()
            for row in np.ascontiguousarray(predicted.votes, dtype=self.task.vote_type)
        ]
        parts = zip(
            numbers, rows.ids, predicted.codes.tolist(), shares, named, map(digest_of, rows.data),
            [known] * len(numbers), rows.data, rows.raw, strict=True,
        )  # fmt: skip
        self.journal.add_many("event", ((number, id, now, *rest) for number, id, *rest in parts))
        if waits:
            self.pending.update(dict.fromkeys(numbers, now))
        return numbers

    def _resolve(
        self, kind: str, keys: list[int], labels: list[Any], right: Sequence[bool | None] | Array
    ) -> None:
        step = self.journal.next()
        now = self.clock.now()
        self.journal.add("step", (step, kind, keys[0], keys[-1], now))
        answers = zip(keys, map(label_to_json, labels), right, strict=True)
        self.journal.add_many(
            "answer",
            ((n, step, text, None if ok is None else int(ok), now) for n, text, ok in answers),
        )
        for number in keys:
            self.pending.pop(number, None)
        self._look_at_drift(
            [number for number, label in zip(keys, labels, strict=True) if label is not None], now
        )

    def _look_at_drift(self, numbers: list[int], now: float) -> None:
        """Labels of these events were learned: which raised an alarm of drift; a point of the curves, if it is due."""
        last = last_alarm(self.clf.learner_.state)
        ago = self.clf.seen_ - last
        if last and ago < len(numbers):
            self.scores.change = [last, numbers[-1 - ago]]
        if self.history.due(self.scores.labels):
            self.history.add(self.clf, self.scores, self.journal.next(), now)

    def _data_of(self, key: int) -> bytes:
        row = self.journal.row("SELECT x FROM event WHERE number = ?", (key,))
        assert row is not None, "an event stays until its answer came"
        return bytes(row[0])

    # -- the rest -----------------------------------------------------------------------------------------------

    def together(self, work: Callable[[Writer], Any]) -> Any:
        """Several verbs in one transaction."""
        return work(self)

    def set_mark(self, name: str, value: bytes) -> None:
        """A place in an input or output, committed with what was done up to it."""
        self.journal.begin()
        self.journal.set_mark(name, value)

    def set_settings(self, settings: Settings) -> None:
        """Other settings from now on."""
        self.journal.begin()
        self.journal.set_meta("settings", asdict(settings))
        self.settings = settings

    def snapshot(self) -> bytes:
        """A snapshot is a step of its own: the model goes on as what can be read from it."""
        self.journal.begin()
        self.changed = True
        number = self.journal.next()
        self._snapshot = (number, self.steps.snapshot())
        newest = self.steps.newest
        self.journal.add("step", (number, SNAPSHOT, newest, newest, self.clock.now()))
        return self._snapshot[1]

    def snapshot_if_due(self) -> None:
        """After so many labels, counted, not timed: a model that was recovered takes them at the same places."""
        if self.steps.since >= self.settings.snapshot_every:
            self.snapshot()

    def newest_step(self, ids: Sequence[str]) -> int:
        """The newest step that used one of these events; 0 if none did."""
        numbers = [event.number for event in map(self.find, ids) if event is not None]
        steps = (
            self.journal.row("SELECT step FROM answer WHERE number = ?", (number,))
            for number in numbers
        )
        return max((row[0] for row in steps if row is not None), default=0)

    def forget(self, ids: Sequence[str]) -> list[str]:
        """See `LiveModel.forget`: no snapshot that is kept may need a step of these events."""
        events = {id: event for id in ids if (event := self.find(id)) is not None}
        if not events:
            return []
        now = self.clock.now()
        journal = self.journal
        journal.begin()
        journal.forgetting()
        for event in events.values():
            number = event.number
            for table in ("event", "answer"):
                journal.delete(table, "number = ?", (number,))
            journal.add("step", (journal.next(), FORGET, number, number, now))
            self.pending.pop(number, None)
        journal.forget_in_marks({id_of(e.id, e.number) for e in events.values()})
        return list(events)

    def replace(self, data: bytes, reason: str) -> ModelRow:
        """Another model from now on; what waits for a label is read again as the new model reads it."""
        clf = model_of_bytes(data, experts=self.clf.experts_)
        if type(clf) is not type(self.clf):
            raise InputError(
                f"the new model is an {type(clf).__name__}, this live model an {type(self.clf).__name__}: they predict "
                "different things; make another live model of it"
            )
        before = self.snapshot()
        number = self.journal.next()
        folder = self.journal.folder
        (folder / "models").mkdir(exist_ok=True)
        write_whole(model_file(folder, number), data, JournalError)
        write_whole(model_file(folder, number, before=True), before, JournalError)
        self._read_again(clf)
        model = model_of_bytes(data, experts=self.clf.experts_)
        self.steps = Steps(model, newest := self.steps.newest)
        now = self.clock.now()
        self.journal.add("step", (number, REPLACE, newest, newest, now))
        self.journal.set_model(
            ModelRow.of(clf, number, hashlib.sha256(data).hexdigest(), now, reason)
        )
        self.models = self.journal.models()
        self.scores.replaced()
        self.history.clear()
        self._snapshot = (number, data)
        return self.models[-1]

    def _read_again(self, clf: Model) -> None:
        """Rows that wait for their labels, as another model reads them."""
        old = self.clf
        names = [getattr(model, "feature_names_in_", np.zeros(0)).tolist() for model in (old, clf)]
        same = names[0] == names[1] and old.n_features_in_ == clf.n_features_in_
        for number in self.pending:
            *about, x, raw = self.journal.rows("SELECT * FROM event WHERE number = ?", (number,))[
                0
            ][1:]
            if raw is None and not (same and old.table_ is None and clf.table_ is None):
                raise InputError(
                    f"{len(self.pending)} events wait for labels, and event {number} cannot be read by the new model, "
                    "which has other features: label them first, or let them expire (label_timeout)"
                )
            row = clf.as_row(json.loads(raw) if raw is not None else self._row(x))
            self.journal.delete("event", "number = ?", (number,))
            self.journal.add("event", (*about, row_to_bytes(row), raw))

    def prune(self, floor: int) -> None:
        """Delete some of what may go, within the transaction that is open. Recovery needs all steps after `floor`."""
        journal = self.journal
        settings = self.settings
        if not journal.open_transaction:
            return
        excess = journal.totals["answer"][0] - settings.keep_events
        if excess > min(AT_ONCE // 2, settings.keep_events // 10):
            journal.prune(floor, min(excess, AT_ONCE))
        if journal.commits % LOOK_EVERY:
            return
        if settings.keep_seconds is not None:
            journal.prune(floor, AT_ONCE, self.clock.now() - settings.keep_seconds)
        if settings.max_bytes is not None and journal.used_bytes > settings.max_bytes:
            gone = journal.prune(floor, AT_ONCE)
            if not gone and self.steps.since:
                self.snapshot()  # so that the floor rises

    def probe(self) -> None:
        """Whether a transaction can be written, before the model is changed for one that cannot."""
        self.journal.begin()
        self._commit()

    def commit(self) -> tuple[int, bytes] | None:
        """Everything since the last commit; returns the snapshot that is to be written, if one was taken."""
        taken = self._snapshot
        self._snapshot = None
        if self.journal.open_transaction:
            self._commit()
        self.changed = False
        return taken

    def _commit(self) -> None:
        current = self.models[-1]
        clf = self.clf
        if len(self.task.scale(clf)) != len(
            current.labels["values"]
        ):  # for those who read the journal, not the model
            self.models[-1] = ModelRow.of(
                clf, current.number, current.digest, current.time, current.reason
            )
            self.journal.set_model(self.models[-1])
        self.journal.commit({"scores": vars(self.scores), "seen": self.clf.seen_})
