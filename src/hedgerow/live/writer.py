"""What the one writer of a live model does within a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.live import answers
from hedgerow.live.answers import Answer, Labelled
from hedgerow.live.history import History
from hedgerow.live.journal import Journal
from hedgerow.live.rows import digest_of, label_of_json, label_to_json, row_of_bytes, row_to_bytes, rows_apart
from hedgerow.live.settings import Settings
from hedgerow.live.steps import BLOCK, GIVEN_UP, LABEL, SNAPSHOT, Steps
from hedgerow.live.tallies import Tallies

MADE = "#"  # ids that the journal makes: this and the number
LONGEST_ID = 200  # characters
T = TypeVar("T")


class Writer:
    """Journal, model and counters, changed together. `changed`: whether the model is ahead of the journal."""

    def __init__(self, journal: Journal, steps: Steps, tallies: Tallies, history: History, settings: Settings) -> None:
        self.journal, self.steps, self.tallies, self.history, self.settings = journal, steps, tallies, history, settings
        self.changed = False
        self._snapshot: tuple[int, bytes] | None = None
        unanswered = "SELECT event.number, event.time FROM event LEFT JOIN answer USING (number) WHERE step IS NULL"
        self.waiting: dict[int, float] = dict(journal.rows(unanswered + " ORDER BY event.number"))
        newest = [journal.row(f"SELECT max(time) FROM {table}") for table in ("event", "step")]
        self._latest = max(float(found[0] or 0) for found in newest if found is not None)

    def now(self) -> float:
        """The time, which never goes back though the clock may."""
        self._latest = max(self._latest, time.time())
        return self._latest

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict(self, x: Any, id: str | None) -> Answer:
        """See `LiveModel.predict`."""
        clf = self.steps.clf
        row = clf.as_row(x)
        data = row_to_bytes(row)
        repeated = self._repeated(id, data)
        if repeated is not None:
            return repeated
        found = clf.explain_one(row)
        shares = np.fromiter(found.probabilities.values(), dtype=np.float64)
        code = int(shares.argmax()) if len(shares) else 0
        number = self._asked([id], [data], np.array([clf.code_of(found.label)]), shares[None])[0]
        self.waiting[number] = self._latest
        return Answer(_id(id, number), number, found.label, float(shares[code]), *found[1:])

    def predict_many(self, X: Any, ids: Sequence[str] | None) -> list[Answer]:
        """See `LiveModel.predict_many`."""
        clf = self.steps.clf
        X = clf.as_matrix(X)
        names, rows = self._checked_ids(ids, X.shape[0]), [row_to_bytes(row) for row in rows_apart(X)]
        known = [self._repeated(id, data) for id, data in zip(names, rows, strict=True)]
        new = [i for i, answer in enumerate(known) if answer is None]
        if new:
            P = clf.predict_proba(X[new] if len(new) < len(rows) else X)
            codes = P.argmax(axis=1)
            numbers = self._asked([names[i] for i in new], [rows[i] for i in new], codes, P)
            self.waiting.update(dict.fromkeys(numbers, self._latest))
            made = self._answers([names[i] for i in new], numbers, codes, P)
            for i, answer in zip(new, made, strict=True):
                known[i] = answer
        return [answer for answer in known if answer is not None]

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

    def _answers(self, ids: Sequence[str | None], numbers: list[int], codes: Array, P: Array) -> list[Answer]:
        labels = [plain(label) for label in self.steps.clf.classes_]
        return [
            Answer(_id(id, number), number, labels[code], row[code], dict(zip(labels, row, strict=True)))
            for id, number, code, row in zip(ids, numbers, codes.tolist(), P.tolist(), strict=True)
        ]

    def _repeated(self, id: str | None, data: bytes) -> Answer | None:
        """What was answered to this id before, if it was asked about the same row."""
        if id is None:
            return None
        _check_id(id)
        found = self.journal.row("SELECT number, code, shares, digest FROM event WHERE id = ?", (id,))
        if found is None:
            return None
        number, code, shares, digest = found
        if digest != digest_of(data):
            raise InputError(f"id {id!r} was used for another instance; give every instance an id of its own")
        labels = [plain(label) for label in self.steps.clf.classes_]
        P = np.frombuffer(shares).tolist()
        probabilities = dict(zip(labels, P, strict=False))  # classes that came later are not among them
        return Answer(id, number, labels[code], P[code], probabilities, repeated=True)

    def _checked_ids(self, ids: Sequence[str] | None, n: int) -> list[str | None]:
        if ids is None:
            return [None] * n
        if len(ids) != n:
            raise InputError(f"{len(ids)} ids for {n} instances; give as many")
        for id in ids:
            _check_id(id)
        if len(set(ids)) != n:
            twice = next(id for i, id in enumerate(ids) if id in ids[:i])
            raise InputError(f"id {twice!r} stands there twice; give every instance an id of its own")
        return list(ids)

    # -- learning -----------------------------------------------------------------------------------------------

    def label(self, id: str, y: Any) -> Labelled:
        """See `LiveModel.label`."""
        number = self._number_of(id)
        if number is None:
            self.tallies.unknown_labels += 1
            text = f"no event {id!r} is in the journal: it was never asked about, or is older than what is kept"
            return Labelled(id, answers.UNKNOWN, y, text)
        try:
            text = label_to_json(y)
            if text == "null":
                raise InputError("the label is missing; give one, or none at all")
            label = label_of_json(text)
            before = self.journal.row("SELECT label FROM answer WHERE number = ?", (number,))
            if before is not None:
                return _again(id, label, label_of_json(before[0]))
            self._learn(number, label, text)
        except InputError as error:
            return Labelled(id, answers.REFUSED, y, str(error))
        return Labelled(id, answers.LEARNED, label)

    def _learn(self, number: int, label: Any, text: str) -> None:
        found = self.journal.row(
            "SELECT x, code, shares FROM features JOIN event USING (number) WHERE number = ?", (number,)
        )
        assert found is not None, "features stay until their answer came"
        row, code, shares = self._row(found[0]), found[1], np.frombuffer(found[2])
        said = plain(self.steps.clf.classes_[code])
        self.journal.begin()
        self.changed = True
        self.steps.label(row, label)
        right = bool(said == label)
        self._step(LABEL, number, number, [(number, text, right)])
        del self.waiting[number]
        self.tallies.answered([self.steps.clf.code_of(label)], [right], [float(shares[code])], self._latest)
        self._point()

    def predict_then_learn(
        self,
        X: Any,
        y: Any,
        ids: Sequence[str] | None,
        marks: Callable[[list[Answer]], Mapping[str, bytes]] | None = None,
    ) -> list[Answer]:
        """See `LiveModel.predict_then_learn`."""
        X = self.steps.clf.as_matrix(X)
        names, rows = self._checked_ids(ids, X.shape[0]), [row_to_bytes(row) for row in rows_apart(X)]
        texts = [label_to_json(label) for label in y]
        if len(texts) != len(rows):
            raise InputError(f"{len(texts)} labels for {len(rows)} instances; give as many, None where one is missing")
        known = [self._repeated(id, data) for id, data in zip(names, rows, strict=True)]
        new = [i for i, answer in enumerate(known) if answer is None]
        if new:
            block = X[new] if len(new) < len(rows) else X
            made = self._learn_block(block, _some(names, new), _some(rows, new), _some(texts, new))
            for i, answer in zip(new, made, strict=True):
                known[i] = answer
        for found, text in zip(known, texts, strict=True):
            if found is not None and found.repeated and text != "null":
                self.label(found.id, label_of_json(text))
        done = [answer for answer in known if answer is not None]
        for name, value in (marks(done) if marks is not None else {}).items():
            self.set_mark(name, value)
        return done

    def _learn_block(self, X: Matrix, ids: list[str | None], rows: list[bytes], texts: list[str]) -> list[Answer]:
        labels = [label_of_json(text) for text in texts]
        self.journal.begin()
        self.changed = True
        found = self.steps.block(X, labels)
        codes, P = found.codes, found.probabilities
        numbers = self._asked(ids, rows, codes, P)
        made = self._answers(ids, numbers, codes, P)
        right = [None if text == "null" else bool(a.label == y) for a, y, text in zip(made, labels, texts, strict=True)]
        self._step(BLOCK, numbers[0], numbers[-1], list(zip(numbers, texts, right, strict=True)))
        given = [i for i, ok in enumerate(right) if ok is not None]
        if given:
            self.tallies.answered(
                [self.steps.clf.code_of(labels[i]) for i in given],
                [bool(right[i]) for i in given],
                [made[i].probability for i in given],
                self._latest,
            )
        self._point()
        return made

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

    def _point(self) -> None:
        if self.history.due(self.tallies.labels):
            self.history.add(self.steps.clf, self.tallies, self.journal.next(), self._latest)

    def _row(self, data: bytes) -> Matrix:
        return row_of_bytes(data, self.steps.clf.n_features_in_, self.steps.clf.learner_.dtype)

    def _number_of(self, id: str) -> int | None:
        _check_id(id, made=True)
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
        self.journal.commit({"tallies": self.tallies.to_json(), "seen": self.steps.clf.seen_})


def _some(items: list[T], places: list[int]) -> list[T]:
    return [items[i] for i in places]


def _id(id: str | None, number: int) -> str:
    return f"{MADE}{number}" if id is None else id


def _check_id(id: object, made: bool = False) -> None:
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID:
        raise InputError(f"id {str(id)[:40]!r}: an id is text of 1 to {LONGEST_ID} characters")
    if id.startswith(MADE) and not made:
        raise InputError(f"id {id!r}: ids that begin with {MADE!r} are made by the journal; choose another")
    if not id.isprintable():
        raise InputError(f"id {id!r}: an id has printable characters only")


def _again(id: str, label: Any, before: Any) -> Labelled:
    if before is None:
        return Labelled(id, answers.GIVEN_UP, label, "it came too late: the event was given up, its features are gone")
    if before == label and type(before) is type(label):
        return Labelled(id, answers.ALREADY, label)
    return Labelled(id, answers.CONFLICT, label, f"{before!r} was learned for it before; nothing was changed")
