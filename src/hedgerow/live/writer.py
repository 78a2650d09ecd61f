"""What the one writer of a live model does within a transaction."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.labels import labels_to_json, plain
from hedgerow.drift import last_alarm
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import answers
from hedgerow.live.answers import Answer, Labelled
from hedgerow.live.journal import Journal
from hedgerow.live.rows import (
    digest_of,
    label_of_json,
    label_to_json,
    labels_together,
    row_of_bytes,
    row_to_bytes,
    rows_apart,
    rows_together,
)
from hedgerow.live.settings import Settings
from hedgerow.live.steps import BLOCK, GIVEN_UP, LABEL, LABELS, SNAPSHOT, Steps
from hedgerow.live.tallies import Tallies

# The curves of a live model: a point every few labels, thinned out as the stream grows.
EVERY = 25  # labels between two points
MOST = 2000  # points; then every other one goes, and new ones come half as often


def finite(value: float) -> float | None:
    """A number that JSON can write, or None."""
    return float(value) if math.isfinite(value) else None


class History:
    """Points, oldest first; each is also a row of the journal."""

    def __init__(self, journal: Journal, start: dict[str, Any]) -> None:
        """`start` says what the experts' mistakes were before the first event."""
        self._journal, self._start = journal, {"labels": 0, **start}
        self.points: list[dict[str, Any]] = [
            json.loads(text) for (text,) in journal.rows("SELECT point FROM history ORDER BY number")
        ]

    def due(self, labels: int) -> bool:
        """Whether enough labels came since the last point."""
        if not self.points:
            return labels > 0
        every = EVERY
        while len(self.points) > 1 and every < self.points[1]["labels"] - self.points[0]["labels"]:
            every *= 2  # as far apart as the points that were left
        return bool(labels - self.points[-1]["labels"] >= every)

    def add(self, clf: OnlineTransferClassifier, tallies: Tallies, number: int, time: float) -> None:
        """A point of now."""
        learner = clf.learner_
        before = self.points[-1] if self.points else self._start
        mistakes = learner.state["expert_mistakes"].tolist()
        gained = max(tallies.labels - before["labels"], 1)
        point = {
            "number": number,
            "time": time,
            "labels": tallies.labels,
            "mistakes": tallies.mistakes,
            "windowed": sum(tallies.window) / max(len(tallies.window), 1),
            "seen": clf.seen_,
            "bound": finite(clf.bound_),
            "weights": [round(weight, 6) for weight in clf.weights_.values()],
            "expert_mistakes": mistakes,
            "expert_windowed": [
                max(now - then, 0) / gained for now, then in zip(mistakes, before["expert_mistakes"], strict=True)
            ],
            "discrepancy": [finite(value) for value in clf.discrepancy_.values()],
        }
        self._journal.add("history", (number, json.dumps(point)))
        self.points.append(point)
        if len(self.points) > MOST:
            for old in self.points[1::2]:
                self._journal.delete("history", "number = ?", (old["number"],))
            self.points = self.points[::2]


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


MADE = "#"  # ids that the journal makes: this and the number
LONGEST_ID = 200  # characters
T = TypeVar("T")
NONE = np.zeros((0, 0))
SEVERAL = 4  # late labels that are faster as a block than one by one


class Taken(NamedTuple):
    """Rows that were taken: their ids, numbers and probabilities, and which of them had been asked about before."""

    ids: list[str | None]
    numbers: list[int]
    P: Array
    repeated: list[bool]


class _Given(NamedTuple):
    ids: list[str | None]
    rows: list[bytes]
    texts: list[str]


class _Late(NamedTuple):
    place: int
    id: str
    number: int
    label: Any
    text: str


class _Known(NamedTuple):
    number: int
    shares: Array


class Writer:
    """Journal, model and counters, changed together. `changed`: whether the model is ahead of the journal."""

    def __init__(
        self, journal: Journal, steps: Steps, tallies: Tallies, history: History, settings: Settings, clock: Clock
    ) -> None:
        self.journal, self.steps, self.tallies, self.history, self.settings = journal, steps, tallies, history, settings
        self._clock = clock
        self.changed = False
        self._classes = 0  # as many as the journal is known to know of
        self._snapshot: tuple[int, bytes] | None = None
        unanswered = "SELECT event.number, event.time FROM event LEFT JOIN answer USING (number) WHERE step IS NULL"
        self._latest = clock.now()
        # events of a time that has not come (the clock was wrong) age from now on
        rows = journal.rows(unanswered + " ORDER BY event.number")
        self.waiting: dict[int, float] = {number: min(asked, self._latest) for number, asked in rows}

    def now(self) -> float:
        """The time of what is done now."""
        self._latest = self._clock.now()
        return self._latest

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict(self, x: Any, id: str | None) -> Answer:
        """See `LiveModel.predict`."""
        clf = self.steps.clf
        row = _numbers(clf.as_row, x)
        data = row_to_bytes(row)
        id = None if id is None else _checked_id(id)
        known = self._known(id, data)
        if known is not None:
            return self._answers(Taken([id], [known.number], self._with_known(NONE, [], [known], [0]), [True]))[0]
        found = clf.explain_one(row)
        shares = np.fromiter(found.probabilities.values(), dtype=np.float64)
        code = int(shares.argmax()) if len(shares) else 0
        number = self._asked([id], [data], np.array([clf.code_of(found.label)]), shares[None])[0]
        self.waiting[number] = self._latest
        return Answer(_id(id, number), number, found.label, float(shares[code]), *found[1:])

    def predict_many(self, X: Any, ids: Sequence[str] | None) -> list[Answer]:
        """See `LiveModel.predict_many`."""
        return self._answers(self.predict_rows(X, ids))

    def predict_rows(self, X: Any, ids: Sequence[str] | None) -> Taken:
        """As `predict_many`, in arrays."""

        def predict(X: Matrix, given: _Given) -> tuple[list[int], Array]:
            P = self.steps.clf.predict_proba(X)
            numbers = self._asked(given.ids, given.rows, P.argmax(axis=1), P)
            self.waiting.update(dict.fromkeys(numbers, self._latest))
            return numbers, P

        return self._taken(X, ids, None, predict)

    def _taken(
        self, X: Any, ids: Sequence[str] | None, texts: list[str] | None, take: Callable[[Matrix, _Given], Any]
    ) -> Taken:
        """Rows of which some were asked about before: their answers, and what `take` makes of the others."""
        X = _numbers(self.steps.clf.as_matrix, X)
        if not is_sparse(X):
            X = np.ascontiguousarray(X)  # as it is read back: in another order sums have other last digits
        rows = [row_to_bytes(row) for row in rows_apart(X)]
        if texts is not None and len(texts) != len(rows):
            raise InputError(f"{len(texts)} labels for {len(rows)} instances; give as many, None where one is missing")
        names = self._checked_ids(ids, len(rows))
        known: list[_Known | None] = [None] * len(rows)
        if ids is not None:
            known = [self._known(*pair) for pair in zip(names, rows, strict=True)]
            self._check_labels(names, known, texts)
        new = [i for i, found in enumerate(known) if found is None]
        whole = len(new) == len(rows)
        numbers, P = [0] * len(rows), np.zeros((0, len(self.steps.clf.classes_)))
        if new:
            given = _Given(_some(names, new), _some(rows, new), [] if texts is None else _some(texts, new))
            made, P = take(X if whole else X[new], given)
            for i, number in zip(new, made, strict=True):
                numbers[i] = number
        if not whole:
            P = self._with_known(P, new, known, numbers)
        return Taken(names, numbers, P, [found is not None for found in known])

    def _check_labels(self, ids: list[str | None], known: list[_Known | None], texts: list[str] | None) -> None:
        """Refuse a label that an event of before cannot learn, before anything is done."""
        for id, event, text in zip(ids, known, texts or (), strict=False):
            if event is None or text == "null":
                continue
            before = self.journal.row("SELECT label FROM answer WHERE number = ?", (event.number,))
            if before is None:
                self.steps.clf.check_labels(labels_together([label_of_json(text)]))
            elif before[0] == "null":
                raise InputError(f"id {id!r} no longer waits for a label: {text} comes too late; nothing was changed")
            elif before[0] != text:
                raise InputError(f"id {id!r} was learned with the label {before[0]}, not {text}; nothing was changed")

    def _with_known(self, P: Array, new: list[int], known: list[_Known | None], numbers: list[int]) -> Array:
        """Probabilities of all rows: those that were made now, and those that were kept."""
        full = np.zeros((len(known), len(self.steps.clf.classes_)))
        full[new, : P.shape[1]] = P
        for i, found in enumerate(known):
            if found is not None:
                numbers[i] = found.number
                full[i, : len(found.shares)] = found.shares
        return full

    def _asked(self, ids: Sequence[str | None], rows: list[bytes], codes: Array, P: Array) -> list[int]:
        """Events into the journal."""
        self.journal.begin()
        numbers, now = [self.journal.next() for _ in rows], self.now()
        shares = [row.tobytes() for row in np.ascontiguousarray(P, dtype=np.float64)]
        plain_codes = codes.tolist()
        self.journal.add_many(
            "event",
            (
                (number, id, now, code, share, digest_of(data))
                for number, id, code, share, data in zip(numbers, ids, plain_codes, shares, rows, strict=True)
            ),
        )
        self.journal.add_many("features", zip(numbers, rows, strict=True))
        self.tallies.asked(plain_codes, now)
        return numbers

    def _answers(self, taken: Taken) -> list[Answer]:
        labels = [plain(label) for label in self.steps.clf.classes_]
        codes, P = taken.P.argmax(axis=1).tolist(), taken.P.tolist()
        parts = zip(taken.ids, taken.numbers, codes, P, taken.repeated, strict=True)
        return [
            Answer(_id(id, n), n, labels[k], row[k], dict(zip(labels, row, strict=True)), repeated=repeated)
            for id, n, k, row, repeated in parts
        ]

    def _known(self, id: str | None, data: bytes) -> _Known | None:
        """What was answered to this id before, if it was asked about the same row."""
        if id is None:
            return None
        found = self.journal.row("SELECT number, shares, digest FROM event WHERE id = ?", (id,))
        if found is None:
            return None
        if found[2] != digest_of(data):
            raise InputError(f"id {id!r} was used for another instance; give every instance an id of its own")
        return _Known(found[0], np.frombuffer(found[1]))

    def _checked_ids(self, ids: Sequence[str] | None, n: int) -> list[str | None]:
        if ids is None:
            return [None] * n
        if len(ids) != n:
            raise InputError(f"{len(ids)} ids for {n} instances; give as many")
        names = [_checked_id(id) for id in ids]
        if len(set(names)) != n:
            twice = next(id for i, id in enumerate(names) if id in names[:i])
            raise InputError(f"id {twice!r} stands there twice; give every instance an id of its own")
        return list(names)

    # -- learning -----------------------------------------------------------------------------------------------

    def label(self, id: str, y: Any) -> Labelled:
        """See `LiveModel.label`."""
        return self.label_many([(id, y)])[0]

    def label_many(self, labels: Sequence[tuple[str, Any]]) -> list[Labelled]:
        """See `LiveModel.label_many`. Those that can be learned are learned together, in the order of their events."""
        try:
            pairs = [(id, y) for id, y in labels]
        except (TypeError, ValueError):
            raise InputError("labels are pairs of an id and a label: [('order-17', 'mug'), ..]") from None
        results: list[Labelled | None] = []
        given: dict[int, _Late] = {}
        for place, (id, y) in enumerate(pairs):
            found = self._looked_up(id, y, place)
            if isinstance(found, _Late) and found.number in given:  # twice in one call: the first counts
                self._learn_late(given, results)
                given, found = {}, self._looked_up(id, y, place)
            results.append(found if isinstance(found, Labelled) else None)
            if isinstance(found, _Late):
                given[found.number] = found
        self._learn_late(given, results)
        return [result for result in results if result is not None]

    def _looked_up(self, id: str, y: Any, place: int) -> Labelled | _Late:
        """A label that can be learned, or why not."""
        number = self._number_of(id)
        if number is None:
            self.tallies.unknown_labels += 1
            text = f"no event {id!r} is in the journal: it was never asked about, or is older than what is kept"
            return Labelled(id, answers.UNKNOWN, y, text)
        try:
            text = label_to_json(y)
            if text == "null":
                raise InputError("the label is missing; give one, or none at all")
        except InputError as error:
            return Labelled(id, answers.REFUSED, y, str(error))
        label = label_of_json(text)
        before = self.journal.row("SELECT label FROM answer WHERE number = ?", (number,))
        return _Late(place, id, number, label, text) if before is None else _again(id, label, label_of_json(before[0]))

    def _learn_late(self, given: dict[int, _Late], results: list[Labelled | None]) -> None:
        """Learn them, all together if there are several and none is refused; what became of each goes to its place."""
        late = [given[number] for number in sorted(given)]
        groups = [late] if len(late) >= SEVERAL else [[one] for one in late]
        while groups:
            group = groups.pop(0)
            try:
                self._learn(group)
            except InputError as error:
                if len(group) > 1:
                    groups = [[one] for one in group] + groups
                else:
                    one = group[0]
                    results[one.place] = Labelled(one.id, answers.REFUSED, one.label, str(error))
                continue
            for one in group:
                results[one.place] = Labelled(one.id, answers.LEARNED, one.label)

    def _learn(self, late: list[_Late]) -> None:
        rows, codes, shares = [], [], []
        for one in late:
            found = self.journal.row(
                "SELECT x, code, shares FROM features JOIN event USING (number) WHERE number = ?", (one.number,)
            )
            assert found is not None, "features stay until their answer came"
            rows.append(self._row(found[0]))
            codes.append(found[1])
            shares.append(float(np.frombuffer(found[2])[found[1]]))
        said = [plain(self.steps.clf.classes_[code]) for code in codes]
        self.journal.begin()
        self.changed = True
        if len(late) == 1:
            self.steps.label(rows[0], late[0].label)
        else:
            self.steps.labels(rows_together(rows), [one.label for one in late])
        right = [bool(guess == one.label) for guess, one in zip(said, late, strict=True)]
        kind = LABEL if len(late) == 1 else LABELS
        self._step(
            kind,
            late[0].number,
            late[-1].number,
            [(one.number, one.text, ok) for one, ok in zip(late, right, strict=True)],
        )
        for one in late:
            del self.waiting[one.number]
        truth = self.steps.clf.codes_of(labels_together([one.label for one in late])).tolist()
        self.tallies.answered(truth, right, shares, self._latest)
        self._note_change([one.number for one in late])
        self._point()

    def predict_then_learn(self, X: Any, y: Any, ids: Sequence[str] | None) -> list[Answer]:
        """See `LiveModel.predict_then_learn`."""
        return self._answers(self.learn_rows(X, y, ids))

    def learn_rows(self, X: Any, y: Any, ids: Sequence[str] | None) -> Taken:
        """As `predict_then_learn`, in arrays."""
        try:
            texts = [label_to_json(label) for label in y]
        except TypeError:
            raise InputError(f"y is {type(y).__name__}; give a list of labels, None where one is missing") from None
        taken = self._taken(X, ids, texts, self._learn_block)
        for id, text, repeated in zip(taken.ids, texts, taken.repeated, strict=True):
            if repeated and id is not None and text != "null":
                self.label(id, label_of_json(text))
        return taken

    def _learn_block(self, X: Matrix, given: _Given) -> tuple[list[int], Array]:
        labels = [label_of_json(text) for text in given.texts]
        self.journal.begin()
        self.changed = True
        found = self.steps.block(X, labels)
        codes, P = found.codes, found.probabilities
        numbers = self._asked(given.ids, given.rows, codes, P)
        truth = self.steps.clf.codes_of(labels_together(labels))
        right = (codes == truth).tolist()
        known = truth >= 0
        answers = [
            (number, text, ok if text != "null" else None)
            for number, text, ok in zip(numbers, given.texts, right, strict=True)
        ]
        self._step(BLOCK, numbers[0], numbers[-1], answers)
        if known.any():
            shares = P[np.arange(len(P)), codes]
            self.tallies.answered(
                truth[known].tolist(), (codes == truth)[known].tolist(), shares[known].tolist(), self._latest
            )
            self._note_change(list(compress(numbers, known)))
        self._point()
        return numbers, P

    def give_up_old(self) -> None:
        """The oldest events, if their time is over or there are too many of them."""
        timeout, now = self.settings.label_timeout, self.now()
        while self.waiting:
            number, asked = next(iter(self.waiting.items()))
            late = timeout is not None and now - asked > timeout
            if not late and len(self.waiting) <= self.settings.max_pending:
                return
            found = self.journal.row("SELECT x FROM features WHERE number = ?", (number,))
            assert found is not None, "features stay until their answer came"
            self.journal.begin()
            self.changed = True
            self.steps.give_up(self._row(found[0]))
            self._step(GIVEN_UP, number, number, [(number, "null", None)])
            del self.waiting[number]
            self.tallies.given_up += 1

    def _step(self, kind: str, first: int, last: int, found: Sequence[tuple[int, str, bool | None]]) -> None:
        step, now = self.journal.next(), self.now()
        self.journal.add("step", (step, kind, first, last, now))
        self.journal.add_many(
            "answer", ((n, step, text, None if right is None else int(right), now) for n, text, right in found)
        )

    def _note_change(self, numbers: list[int]) -> None:
        """Which of these events, in the order in which their labels were learned just now, raised an alarm of drift."""
        last = last_alarm(self.steps.clf.learner_.state)
        ago = self.steps.clf.seen_ - last
        if last and ago < len(numbers):
            self.tallies.change = [last, numbers[-1 - ago]]

    def _point(self) -> None:
        if self.history.due(self.tallies.labels):
            self.history.add(self.steps.clf, self.tallies, self.journal.next(), self._latest)

    def _row(self, data: bytes) -> Matrix:
        return row_of_bytes(data, self.steps.clf.n_features_in_, self.steps.clf.learner_.dtype)

    def _number_of(self, id: str) -> int | None:
        id = _checked_id(id, made=True)
        if id.startswith(MADE):
            digits = id[len(MADE) :]
            number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1
            found = self.journal.row("SELECT number FROM event WHERE number = ? AND id IS NULL", (number,))
        else:
            found = self.journal.row("SELECT number FROM event WHERE id = ?", (id,))
        return None if found is None else int(found[0])

    # -- the rest -----------------------------------------------------------------------------------------------

    def set_mark(self, name: str, value: bytes) -> None:
        """A place in an input or output, committed with what was done up to it."""
        self.journal.begin()
        self.journal.set_mark(name, value)

    def note_settings(self, settings: Settings) -> None:
        """Other settings from now on."""
        self.journal.begin()
        self.journal.set_meta("settings", settings.to_json())
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
        classes = self.steps.clf.classes_
        if len(classes) != self._classes:  # for those who read the journal and not the model
            self.journal.set_meta("classes", labels_to_json(classes))
            self._classes = len(classes)
        self.journal.commit({"tallies": self.tallies.to_json(), "seen": self.steps.clf.seen_})


def _numbers(read: Callable[[Any], Matrix], x: Any) -> Matrix:
    """Rows as the model reads them; what they are not is the caller's error, whoever found it."""
    try:
        return read(x)
    except HedgerowError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"not numbers that a model can read: {error}") from error


def _some(items: list[T], places: list[int]) -> list[T]:
    return [items[i] for i in places]


def _id(id: str | None, number: int) -> str:
    return f"{MADE}{number}" if id is None else id


def _checked_id(id: object, made: bool = False) -> str:
    """An id as Python's own text: of NumPy's the journal's checksums would not be those of what is read back."""
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
        raise InputError(f"id {str(id)[:40]!r}: an id is text of 1 to {LONGEST_ID} characters")
    if id.startswith(MADE) and not made:
        raise InputError(f"id {id!r}: ids that begin with {MADE!r} are made by the journal; choose another")
    if not id.isprintable():
        raise InputError(f"id {id!r}: an id has printable characters only")
    return str.__str__(id)


def _again(id: str, label: Any, before: Any) -> Labelled:
    if before is None:
        return Labelled(id, answers.GIVEN_UP, label, "it came too late: the event was given up, its features are gone")
    if before == label and type(before) is type(label):
        return Labelled(id, answers.ALREADY, label)
    return Labelled(id, answers.CONFLICT, label, f"{before!r} was learned for it before; nothing was changed")
