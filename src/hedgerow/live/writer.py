"""What the one writer of a live model does within a transaction: journal, model and counters change together."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.domains import as_frame
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.values import cells, plain
from hedgerow.drift import last_alarm
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.events import (
    EXPIRED,
    NO_LABEL,
    OWN,
    UNKNOWN,
    Event,
    LabelResult,
    Ledger,
    check_id,
    check_ids,
    digest_of,
    label_of_json,
    label_to_json,
    labels_together,
    row_of_bytes,
    row_to_bytes,
)
from hedgerow.files import write_whole
from hedgerow.live.journal import VOTE, Journal, Model, ModelRow, interval_of, model_at
from hedgerow.live.report import History, NumberTallies, Tallies
from hedgerow.live.settings import Settings
from hedgerow.live.steps import BLOCK, FORGET, LABEL, LABELS, REPLACE, SNAPSHOT, Steps, model_file, predict_block
from hedgerow.regressor import OnlineTransferRegressor, model_of_bytes
from hedgerow.regressor import numbers as checked_numbers

FIND = (
    "SELECT event.number, id, event.time, code, shares, digest, x, label, votes FROM event "
    "LEFT JOIN features USING (number) LEFT JOIN answer USING (number) WHERE "
)
THERE = "SELECT id FROM event WHERE id IN (SELECT value FROM json_each(?))"
SEVERAL = 4  # rows, or late labels, that are faster as a block than one by one
AT_ONCE = 2000  # events that leave the journal in one transaction: nobody waits long for it
LOOK_EVERY = 32  # commits between two looks at age and size


class Clock:
    """Wall time when it is made, then by the seconds that pass: a clock that is set meanwhile ages no event.

    Seconds include those that the machine slept, where the system counts them.
    """

    def __init__(self) -> None:
        self._start = time.time() - self.elapsed()

    @staticmethod
    def elapsed() -> float:
        """Seconds since some moment, which only pass."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if boot is None else time.clock_gettime(boot)

    def now(self) -> float:
        """The time."""
        return self._start + self.elapsed()


@dataclass(frozen=True, slots=True)
class Answer:
    """A prediction that is in the journal. `id` is what its label is given by; `number` its place among all events.

    `repeated`: the same id was predicted before, and this is what was answered then (votes and weights are not kept).
    """

    id: str
    number: int
    label: Any
    probability: float
    probabilities: dict[Any, float]
    votes: dict[str, Any] | None = None
    weights: dict[str, float] | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class NumberAnswer(Answer):
    """The same of a regressor: `label` is the number that it predicts, `votes` are the numbers of its experts.

    It has no probabilities but an interval for each coverage of the model.
    """

    intervals: dict[float, tuple[float, float]] = field(default_factory=dict)

    @property
    def prediction(self) -> float:
        """The number."""
        return float(self.label)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the model's first coverage."""
        return next(iter(self.intervals.values()))


class Encoded(NamedTuple):
    """Rows (or one) that were made numbers before, beside them as they came, which is what the journal keeps."""

    X: Array
    rows: Any  # mappings, or lists of numbers

    def one(self, i: int) -> Encoded:
        """One row."""
        return Encoded(self.X[i], self.rows[i])


class Taken(NamedTuple):
    """Rows that were predicted: ids, numbers, and the events of those that had been predicted before.

    `P` and `votes` (a column an expert) have zeros for these.
    """

    ids: list[str | None]
    numbers: list[int]
    known: list[Event | None]
    P: Array
    votes: Array

    @property
    def repeated(self) -> list[bool]:
        """Which rows had been predicted before."""
        return [event is not None for event in self.known]


class _Rows(NamedTuple):
    """New rows: as the model reads them, as bytes, as they came (None: these are it), their ids and labels."""

    X: Matrix
    data: list[bytes]
    raw: list[str | None]
    ids: list[str | None]
    labels: list[str]


class Writer(Ledger):
    """Journal, model and counters, changed together. `changed`: whether the model is ahead of the journal."""

    def __init__(self, journal: Journal, steps: Steps, tallies: Tallies, settings: Settings, clock: Clock) -> None:
        self.journal, self.steps, self.tallies, self.settings = journal, steps, tallies, settings
        self.history, self.models = History(journal), journal.models()
        self._clock, self._latest, self.changed = clock, clock.now(), False
        self._snapshot: tuple[int, bytes] | None = None
        pending = journal.rows(
            "SELECT event.number, event.time FROM event LEFT JOIN answer USING (number) WHERE step IS NULL "
            "ORDER BY event.number"
        )
        # events of a time that has not come (the clock was wrong) age from now on
        self.pending: dict[int, float] = {number: min(asked, self._latest) for number, asked in pending}

    @property
    def limits(self) -> Settings:  # type: ignore[override]
        """The settings have them."""
        return self.settings

    @property
    def clf(self) -> Model:
        """The model as it is now."""
        return self.steps.clf

    def now(self) -> float:
        """The time of what is done now."""
        self._latest = self._clock.now()
        return self._latest

    def asked(self, key: int) -> float:
        """When a pending event was predicted."""
        return self.pending[key]

    def find(self, id: str) -> Event | None:
        """The event of an id."""
        id = check_id(id, own=True)
        if id.startswith(OWN):
            digits = id[len(OWN) :]
            number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1
            row = self.journal.row(FIND + "number = ? AND id IS NULL", (number,))
        else:
            row = self.journal.row(FIND + "id = ?", (id,))
        if row is None:
            return None
        number, own, asked, code, shares, digest, x, label, votes = row
        P = np.frombuffer(shares)
        named = np.frombuffer(votes, self._vote_type)
        return Event(number, own, asked, code, float(P[code]), digest, x, label, P, named)

    @property
    def _vote_type(self) -> np.dtype[Any]:
        return VOTE if self.models[-1].coverage is None else np.dtype(np.float64)

    @property
    def _no_predictions(self) -> Array:
        """The probabilities of no row: a column a class, or the number and its intervals."""
        clf = self.clf
        return np.zeros((0, len(clf.classes_) if isinstance(clf, OnlineTransferClassifier) else 1 + len(clf.coverage_)))

    def labels_at(self, number: int) -> list[Any]:
        """The classes, by code, of the model that made a prediction."""
        if number >= self.models[-1].number and isinstance(self.clf, OnlineTransferClassifier):
            return [plain(label) for label in self.clf.classes_]
        return model_at(self.models, number).classes

    def label_at(self, number: int, code: int) -> Any:
        """The class that a prediction named."""
        if number >= self.models[-1].number and isinstance(self.clf, OnlineTransferClassifier):
            return plain(self.clf.classes_[code])
        return self.labels_at(number)[code]

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict(self, x: Any, id: str | None) -> Answer:
        """See `LiveModel.predict`."""
        clf, id = self.clf, None if id is None else check_id(id)
        row = _numbers(clf.as_row, x)
        if isinstance(clf, OnlineTransferRegressor):
            rows = row if is_sparse(row) else row[None]
            return self._answers(self._taken(rows, [id], self._raw(x, 1), None), True)[0]
        data = row_to_bytes(row)
        known = None if id is None else self.predicted(id, digest_of(data))
        if known is not None:
            return self._repeated(known)
        explained = clf.explain_one(row)
        P = np.fromiter(explained.probabilities.values(), dtype=np.float64)
        votes = np.array([[clf.code_of(label) for label in explained.votes.values()]])
        code = int(P.argmax()) if len(P) else 0
        rows = _Rows(row, [data], self._raw(x, 1), [id], [])
        number = self._add(rows, np.array([clf.code_of(explained.label)]), P[None], votes, waits=True)[0]
        return Answer(_id(id, number), number, explained.label, float(P[code]), *explained[1:4])

    def predict_many(self, X: Any, ids: Sequence[str] | None, explain: bool = False) -> list[Answer]:
        """See `LiveModel.predict_many`."""
        return self._answers(self.predict_rows(X, ids), explain)

    def predict_together(self, items: Sequence[tuple[Any, str | None]]) -> list[Answer]:
        """Several single instances, each with an id or none, as one block."""
        rows = [_numbers(self.clf.as_row, x) for x, _ in items]
        raw = [self._raw(x, 1)[0] for x, _ in items]
        if any(is_sparse(row) for row in rows):
            raise InputError("sparse rows are predicted one by one")
        named = [id for _, id in items if id is not None]
        check_ids(named, len(named))
        ids = [id if id is None else check_id(id) for _, id in items]
        return self._answers(self._taken(np.stack(rows), ids, raw, None), True)

    def predict_rows(self, X: Any, ids: Sequence[str] | None) -> Taken:
        """As `predict_many`, in arrays."""
        return self._read(X, ids, None)

    def _read(self, X: Any, ids: Sequence[str] | None, labels: list[str] | None) -> Taken:
        numbers = _numbers(self.clf.as_matrix, X)
        if not is_sparse(numbers):
            numbers = np.ascontiguousarray(numbers)  # as it is read back: in another order sums have other last digits
        n = numbers.shape[0]
        if labels is not None and len(labels) != n:
            raise InputError(f"{len(labels)} labels for {n} instances; give as many, None where one is missing")
        return self._taken(numbers, check_ids(ids, n), self._raw(X, n), labels)

    def _taken(self, X: Matrix, ids: list[str | None], raw: list[str | None], labels: list[str] | None) -> Taken:
        """Rows of which some were predicted before; the others are predicted and, with labels, learned."""
        n, data = X.shape[0], [row_to_bytes(X[i]) for i in range(X.shape[0])]
        there = self._there(ids)
        known = [
            None if id is None or id not in there else self.predicted(id, digest_of(row))
            for id, row in zip(ids, data, strict=True)
        ]
        if labels is not None:
            self._check_labels(known, labels)
        new = [i for i, event in enumerate(known) if event is None]
        numbers = [0 if event is None else event.number for event in known]
        if not new:
            nothing = _spread(self._no_predictions, [], n)
            return Taken(ids, numbers, known, nothing, nothing)
        rows = _Rows(X, data, raw, ids, labels or [])
        if len(new) < n:
            parts: list[list[Any]] = [[part[i] for i in new] if part else [] for part in rows[1:]]
            rows = _Rows(X[new], *parts)
        if labels is None:
            codes, P, votes = predict_block(self.clf, rows.X)
            made = self._add(rows, codes, P, votes, waits=True)
        else:
            made, P, votes = self._learn_rows(rows)
        for i, number in zip(new, made, strict=True):
            numbers[i] = number
        return Taken(ids, numbers, known, _spread(P, new, n), _spread(votes, new, n))

    def _there(self, ids: list[str | None]) -> set[str]:
        """Which of these ids are in the journal: one question for all of them."""
        named = json.dumps([id for id in ids if id is not None])
        return {id for (id,) in self.journal.rows(THERE, (named,))} if named != "[]" else set()

    def _check_labels(self, known: list[Event | None], labels: list[str]) -> None:
        """Refuse a label that an event of before cannot learn, before anything is done."""
        for event, text in zip(known, labels, strict=True):
            if event is None or text == NO_LABEL:
                continue
            if event.label is None:
                self._check_label(label_of_json(text))
            elif event.label == NO_LABEL:
                raise InputError(
                    f"id {event.id!r} no longer waits for a label: {text} comes too late; nothing was changed"
                )
            elif event.label != text:
                raise InputError(
                    f"id {event.id!r} was learned with the label {event.label}, not {text}; nothing was changed"
                )

    def _check_label(self, label: Any) -> None:
        if isinstance(self.clf, OnlineTransferClassifier):
            self.clf.check_labels(labels_together([label]))
        else:
            checked_numbers(labels_together([label]), "y")

    def _label(self, label: Any) -> Any:
        """A label as it is kept: of a regressor 1 and 1.0 are one label."""
        label = plain(label)
        return float(label) if isinstance(self.clf, OnlineTransferRegressor) and type(label) is int else label

    def _add(self, rows: _Rows, codes: Array, P: Array, votes: Array, waits: bool) -> list[int]:
        """Events into the journal; their numbers."""
        self.journal.begin()
        numbers, now = [self.journal.next() for _ in rows.data], self.now()
        shares = [row.tobytes() for row in np.ascontiguousarray(P, dtype=np.float64)]
        named = [row.tobytes() for row in np.ascontiguousarray(votes, dtype=self._vote_type)]
        plain_codes = codes.tolist()
        parts = zip(numbers, rows.ids, plain_codes, shares, named, rows.data, strict=True)
        self.journal.add_many(
            "event", ((number, id, now, code, p, vote, digest_of(data)) for number, id, code, p, vote, data in parts)
        )
        self.journal.add_many("features", zip(numbers, rows.data, rows.raw, strict=True))
        self.tallies.asked(plain_codes, now)
        if waits:
            self.pending.update(dict.fromkeys(numbers, now))
        return numbers

    def _raw(self, X: Any, n: int) -> list[str | None]:
        """Rows as they came, where the model encodes them; None for what is numbers as the model reads them."""
        if self.clf.table_ is None or isinstance(X, np.ndarray) or is_sparse(X):
            return [None] * n
        if isinstance(X, Encoded):
            rows = X.rows if X.X.ndim == 2 else [X.rows]
            return [_text(row) if isinstance(row, Mapping) else None for row in rows]
        if isinstance(X, Mapping):
            return [_text(X)]
        if isinstance(X, list) and all(isinstance(row, Mapping) for row in X):
            return [_text(row) for row in X]
        frame = as_frame(X, "X")
        if frame is None:  # a Series, or a list of numbers
            return [_text(dict(X.items()))] if hasattr(X, "items") else [None] * n
        cells_of_rows = zip(*(column.tolist() for column in frame.columns), strict=True)
        return [_text(dict(zip(frame.names, row, strict=True))) for row in cells_of_rows]

    def _answers(self, taken: Taken, explain: bool = False) -> list[Answer]:
        if isinstance(self.clf, OnlineTransferRegressor):
            return self._number_answers(self.clf, taken, explain)
        labels, experts = [plain(label) for label in self.clf.classes_], self.clf.expert_names_
        weights = dict(self.clf.weights_) if explain else None
        answers = []
        for i, (id, number, event, row) in enumerate(zip(*taken[:3], taken.P.tolist(), strict=True)):
            if event is not None:
                answers.append(self._repeated(event))
                continue
            code, shares = int(taken.P[i].argmax()), dict(zip(labels, row, strict=True))
            votes = {name: labels[k] for name, k in zip(experts, taken.votes[i], strict=True)} if explain else None
            answers.append(Answer(_id(id, number), number, labels[code], row[code], shares, votes, weights))
        return answers

    def _number_answers(self, model: OnlineTransferRegressor, taken: Taken, explain: bool) -> list[Answer]:
        names, weights = model.expert_names_, dict(model.weights_) if explain else None
        answers: list[Answer] = []
        for i, (id, number, event) in enumerate(zip(*taken[:3], strict=True)):
            P = taken.P[i] if event is None or event.probabilities is None else event.probabilities
            levels = model_at(self.models, number).coverage or []
            intervals = {level: interval_of(P[[0, 1 + j]]) for j, level in enumerate(levels)}
            new = explain and event is None
            votes = dict(zip(names, taken.votes[i].tolist(), strict=True)) if new else None
            about = _id(id if event is None else event.id, number), number, float(P[0]), math.nan, dict[Any, float]()
            answers.append(NumberAnswer(*about, votes, weights if new else None, event is not None, intervals))
        return answers

    def _repeated(self, event: Event) -> Answer:
        labels, P = self.labels_at(event.number), [] if event.probabilities is None else event.probabilities.tolist()
        shares = dict(zip(labels, P + [0.0] * (len(labels) - len(P)), strict=True))
        label, probability = labels[event.code], event.probability
        return Answer(_id(event.id, event.number), event.number, label, probability, shares, repeated=True)

    # -- learning -----------------------------------------------------------------------------------------------

    def label(self, id: str, y: Any) -> LabelResult:
        """See `LiveModel.label`."""
        return self.label_all([(id, y)])[0]

    def label_all(self, labels: Sequence[tuple[str, Any]]) -> list[LabelResult]:
        """See `LiveModel.label_many`. Those that can be learned are learned together, in the order of their events."""
        try:
            pairs = [(id, self._label(y)) for id, y in labels]
        except (TypeError, ValueError):
            raise InputError("labels are pairs of an id and a label: [('order-17', 'mug'), ..]") from None
        results = self.label_many(pairs, self._learn_late, block=SEVERAL, by_event=True)
        self.tallies.unknown_labels += sum(result.status == UNKNOWN for result in results)
        return results

    def _learn_late(self, events: list[Event], labels: list[Any]) -> list[bool]:
        self.journal.begin()
        self.changed = True
        self.steps.late([self._row(event.row) for event in events], labels)
        votes = [event.votes if event.number >= self.models[-1].number else None for event in events]
        if isinstance(self.clf, OnlineTransferClassifier):
            predictions = [self.label_at(event.number, event.code) for event in events]
            right = [bool(guess == label) for guess, label in zip(predictions, labels, strict=True)]
            truth = self.clf.codes_of(labels_together(labels))
            self.tallies.answered(truth, right, [event.probability for event in events], votes, self.now())
        else:
            P = np.stack([event.probabilities[:2] for event in events if event.probabilities is not None])
            right = self._measured(np.array(labels, np.float64), P, votes)
        numbers = [event.number for event in events]
        answers = list(zip(numbers, map(label_to_json, labels), right, strict=True))
        self._step(LABEL if len(events) == 1 else LABELS, answers)
        for number in numbers:
            del self.pending[number]
        self._after(numbers)
        return right

    def _measured(self, y: Array, P: Array, votes: Sequence[Array | None]) -> list[bool]:
        assert isinstance(self.tallies, NumberTallies)
        return self.tallies.measured(y, P, votes, self.now())

    def predict_then_learn(self, X: Any, y: Any, ids: Sequence[str] | None) -> list[Answer]:
        """See `LiveModel.predict_then_learn`."""
        return self._answers(self.learn_rows(X, y, ids))

    def learn_rows(self, X: Any, y: Any, ids: Sequence[str] | None) -> Taken:
        """As `predict_then_learn`, in arrays."""
        try:
            labels = [label_to_json(self._label(label)) for label in y]
        except TypeError:
            raise InputError(f"y is {type(y).__name__}; give a list of labels, None where one is missing") from None
        taken = self._read(X, ids, labels)
        for event, text in zip(taken.known, labels, strict=True):
            if event is not None and event.id is not None and text != NO_LABEL:
                self.label(event.id, label_of_json(text))
        return taken

    def _learn_rows(self, rows: _Rows) -> tuple[list[int], Array, Array]:
        labels = [label_of_json(text) for text in rows.labels]
        self.journal.begin()
        self.changed = True
        codes, P, votes = self.steps.block(rows.X, labels)
        numbers = self._add(rows, codes, P, votes, waits=False)
        known = np.array([label is not None for label in labels])
        there = labels_together([label for label in labels if label is not None])
        if known.any() and isinstance(self.clf, OnlineTransferClassifier):
            truth, shares = self.clf.codes_of(there), P[np.arange(len(P)), codes][known].tolist()
            correct = (codes[known] == truth).tolist()
            self.tallies.answered(truth, correct, shares, list(votes[known]), self._latest)
        elif known.any():
            correct = self._measured(there.astype(np.float64), P[known], list(votes[known]))
        right = iter(correct if known.any() else ())
        answers = [
            (n, text, next(right) if k else None) for n, text, k in zip(numbers, rows.labels, known, strict=True)
        ]
        self._step(BLOCK, answers)
        self._after(list(compress(numbers, known)))
        return numbers, P, votes

    def expire(self) -> None:
        """The events that are due; their rows are used without a label, where the method can."""
        for number in self.overdue(self.now()):
            row = self.journal.row("SELECT x FROM features WHERE number = ?", (number,))
            assert row is not None, "features stay until their answer came"
            self.journal.begin()
            self.changed = True
            self.steps.late([self._row(row[0])], [None])
            self._step(EXPIRED, [(number, NO_LABEL, None)])
            del self.pending[number]
            self.tallies.expired += 1

    def _step(self, kind: str, answers: Sequence[tuple[int, str, bool | None]]) -> None:
        step, now = self.journal.next(), self.now()
        self.journal.add("step", (step, kind, answers[0][0], answers[-1][0], now))
        self.journal.add_many(
            "answer", ((n, step, text, None if right is None else int(right), now) for n, text, right in answers)
        )

    def _after(self, numbers: list[int]) -> None:
        """Labels of these events were learned: which raised an alarm of drift; a point of the curves, if it is due."""
        last = last_alarm(self.clf.learner_.state)
        ago = self.clf.seen_ - last
        if last and ago < len(numbers):
            self.tallies.change = [last, numbers[-1 - ago]]
        if self.history.due(self.tallies.labels):
            self.history.add(self.clf, self.tallies, self.journal.next(), self._latest)

    def _row(self, data: bytes) -> Matrix:
        return row_of_bytes(data, self.clf.n_features_in_, self.clf.learner_.dtype)

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
        self.journal.add("step", (number, SNAPSHOT, 0, 0, self.now()))
        return self._snapshot[1]

    def snapshot_if_due(self) -> None:
        """After so many labels, counted, not timed: a model that was recovered takes them at the same places."""
        if self.steps.since >= self.settings.snapshot_every:
            self.snapshot()

    def newest_step(self, ids: Sequence[str]) -> int:
        """The newest step that used one of these events; 0 if none did."""
        numbers = [event.number for event in map(self.find, ids) if event is not None]
        steps = (self.journal.row("SELECT step FROM answer WHERE number = ?", (number,)) for number in numbers)
        return max((row[0] for row in steps if row is not None), default=0)

    def forget(self, ids: Sequence[str]) -> list[str]:
        """See `LiveModel.forget`: no snapshot that is kept may need a step of these events."""
        forgotten = []
        for id in ids:
            event = self.find(id)
            if event is None:
                continue
            self.journal.begin()
            self.journal.overwrite_deleted()
            for table in ("features", "event", "answer"):
                self.journal.delete(table, "number = ?", (event.number,))
            self.journal.add("step", (self.journal.next(), FORGET, event.number, event.number, self.now()))
            self.pending.pop(event.number, None)
            forgotten.append(id)
        return forgotten

    def replace(self, data: bytes, reason: str) -> ModelRow:
        """Another model from now on; what waits for a label is read again as the new model reads it."""
        clf = model_of_bytes(data)
        if type(clf) is not type(self.clf):
            raise InputError(
                f"the new model is an {type(clf).__name__}, this live model an {type(self.clf).__name__}: they predict "
                "different things; make another live model of it"
            )
        before = self.snapshot()
        number, folder = self.journal.next(), self.journal.folder
        for old in folder.glob("models/*.safetensors"):
            if old != model_file(folder, self.models[-1].number):
                old.unlink()
        (folder / "models").mkdir(exist_ok=True)
        write_whole(model_file(folder, number), data)
        write_whole(model_file(folder, number, before=True), before)
        self._read_again(clf)
        self.steps = Steps(model_of_bytes(data))
        self.journal.add("step", (number, REPLACE, 0, 0, self.now()))
        self.journal.set_model(ModelRow.of(clf, number, hashlib.sha256(data).hexdigest(), self._latest, reason))
        self.models = self.journal.models()
        self.tallies.replaced()
        self.history.clear()
        self._snapshot = (number, data)
        return self.models[-1]

    def _read_again(self, clf: Model) -> None:
        """Rows that wait for their labels, as another model reads them."""
        old = self.clf
        names = [getattr(model, "feature_names_in_", np.zeros(0)).tolist() for model in (old, clf)]
        same = names[0] == names[1] and old.n_features_in_ == clf.n_features_in_
        for number in self.pending:
            x, raw = self.journal.rows("SELECT x, raw FROM features WHERE number = ?", (number,))[0]
            if raw is None and not (same and old.table_ is None and clf.table_ is None):
                raise InputError(
                    f"{len(self.pending)} events wait for labels, and event {number} cannot be read by the new model, "
                    "which has other features: label them first, or let them expire (label_timeout)"
                )
            row = clf.as_row(json.loads(raw) if raw is not None else self._row(x))
            self.journal.delete("features", "number = ?", (number,))
            self.journal.add("features", (number, row_to_bytes(row), raw))

    def prune(self, floor: int) -> None:
        """Delete some of what may go, within the transaction that is open. Recovery needs all steps after `floor`."""
        journal, settings = self.journal, self.settings
        if not journal.open_transaction:
            return
        excess = journal.totals["answer"][0] - settings.keep_events
        if excess > min(AT_ONCE // 2, settings.keep_events // 10):
            journal.prune(floor, min(excess, AT_ONCE))
        if journal.commits % LOOK_EVERY:
            return
        if settings.keep_seconds is not None:
            journal.prune(floor, AT_ONCE, self.now() - settings.keep_seconds)
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
        taken, self._snapshot = self._snapshot, None
        if self.journal.open_transaction:
            self._commit()
        self.changed = False
        return taken

    def _commit(self) -> None:
        current, clf = self.models[-1], self.clf
        # for those who read the journal, not the model
        if isinstance(clf, OnlineTransferClassifier) and len(clf.classes_) != len(current.labels["values"]):
            self.models[-1] = ModelRow.of(self.clf, current.number, current.digest, current.time, current.reason)
            self.journal.set_model(self.models[-1])
        self.journal.commit({"tallies": self.tallies.to_json(), "seen": self.clf.seen_})


def _numbers(read: Callable[[Any], Matrix], x: Any) -> Matrix:
    """Rows as the model reads them; what they are not is the caller's error, whoever found it."""
    try:
        return read(x.X if isinstance(x, Encoded) else x)
    except HedgerowError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"not numbers that a model can read: {error}") from error


def _spread(part: Array, places: list[int], n: int) -> Array:
    """Rows at their places among n, zeros elsewhere."""
    if len(places) == n:
        return part
    full = np.zeros((n, part.shape[1]), dtype=part.dtype)
    full[places] = part
    return full


def _text(row: Mapping[Any, Any]) -> str:
    """A row as JSON: names and values; a gap is null, a moment is as ISO 8601 writes it."""
    values = cells(list(row.values())).tolist()
    return json.dumps(dict(zip(map(str, row), values, strict=True)), default=str)


def _id(id: str | None, number: int) -> str:
    return f"{OWN}{number}" if id is None else id
