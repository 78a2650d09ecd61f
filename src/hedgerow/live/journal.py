"""The journal: events, their answers, and the steps that changed the model, in one SQLite file (`hedgerow.store`).

| table      | a row is                                                                                       |
|------------|------------------------------------------------------------------------------------------------|
| `event`    | a prediction: class, probabilities, what each expert named, a digest of the row; of a          |
|            | regressor the number, half the widths of its intervals, the number of each expert; and the     |
|            | row: numbers as the model reads them and, where it encodes them, as it came (JSON)             |
| `answer`   | what became of an event: its label, or null where it expired                                   |
| `step`     | a call that changed the model: a block of events, late labels, an expiry, a snapshot, another  |
|            | model                                                                                          |
| `model`    | the model that was created or put in place at a step: its rows, classes and digest             |
| `history`  | a point of the curves that people look at                                                      |
| `mark`     | a place in an input or output, in the same transaction as what was done up to it               |
| `meta`     | format, settings, totals                                                                       |

Events and steps share one row of numbers. An event goes after its label, when a snapshot has what was learned from it,
as far as the settings do not keep it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.values import labels_from_json, labels_to_json, plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.events import EXPIRED, LEARNED, OWN, PENDING, label_of_json, row_of_bytes
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.store import Store

Model = OnlineTransferClassifier | OnlineTransferRegressor
EVENTS = (
    "SELECT event.number, id, event.time, code, shares, x, raw, answer.label, correct, answer.time, answer.step "
    "FROM event LEFT JOIN answer USING (number) WHERE event.number <= ? ORDER BY event.number "
)
LAST = 2**63 - 1  # the largest number that an event can have


@dataclass(frozen=True)
class ModelRow:
    """A model of the journal, from the step `number` on: how its rows are read, its classes, where it came from.

    A regressor has the coverages of its intervals instead of classes.
    """

    number: int
    method: str
    width: int
    dtype: str
    names: list[str] | None
    labels: Any  # as JSON
    digest: str  # of the model file
    time: float
    reason: str = ""
    coverage: list[float] | None = None

    @classmethod
    def of(cls, clf: Model, number: int = 0, digest: str = "", time: float = 0.0, reason: str = "") -> ModelRow:
        """The row of a model."""
        names = getattr(clf, "feature_names_in_", None)
        if isinstance(clf, OnlineTransferClassifier):
            method, classes, coverage = clf.method_, clf.classes_, None
        else:
            method, classes, coverage = "regression", np.empty(0), list(clf.coverage_)
        return cls(
            number, method, clf.n_features_in_, str(clf.learner_.dtype),
            None if names is None else [str(name) for name in names], labels_to_json(classes), digest, time, reason,
            coverage,
        )  # fmt: skip

    @property
    def classes(self) -> list[Any]:
        """The classes, by code."""
        labels: Array = labels_from_json(self.labels)
        return [plain(label) for label in labels]


def model_at(models: Sequence[ModelRow], number: int | None) -> ModelRow:
    """The model that was in place at a number; None: the newest."""
    return models[-1] if number is None else models[bisect_right([row.number for row in models], number) - 1]


@dataclass(frozen=True)
class EventRow:
    """A prediction, its row, its label if it came; `step`: when, among all numbers. `x`: as the model reads it."""

    number: int
    id: str
    time: float
    prediction: Any
    probability: float | None  # of the class; a number has an interval
    interval: tuple[float, float] | None
    x: Matrix
    raw: str | None
    names: list[str] | None
    label: Any
    correct: bool | None
    labelled: float | None
    step: int | None

    @property
    def status(self) -> str:
        """pending, learned or expired."""
        return PENDING if self.step is None else EXPIRED if self.label is None else LEARNED

    @property
    def features(self) -> dict[str, Any] | list[Any]:
        """The row as it came, by name where there are names; a gap is None."""
        if self.raw is not None:
            by_name: dict[str, Any] = json.loads(self.raw)
            return by_name
        numbers = (self.x.toarray()[0] if is_sparse(self.x) else self.x).tolist()
        values = [None if value != value else value for value in numbers]
        return values if self.names is None else dict(zip(self.names, values, strict=True))

    def about(self) -> dict[str, Any]:
        """All but the row, as plain values."""
        interval = {"probability": self.probability} if self.interval is None else {"interval": self.interval}
        names = ("id", "number", "time", "prediction", "label", "correct", "status")
        return {name: getattr(self, name) for name in names} | interval


class Journal(Store):
    """The file of a live model. Rows are added within a transaction: `begin`, then `commit` or `rollback`."""

    FILE = "journal.sqlite"
    FORMAT = "hedgerow journal 4"
    TABLES = ("event", "answer", "step", "model", "history", "mark")
    REMEDY = (
        "restore the folder from a copy, or start a new journal from its last good snapshot "
        "(snapshots/*.safetensors is a model like any other)"
    )
    SCHEMA = """
    CREATE TABLE event ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, id TEXT UNIQUE, time REAL NOT NULL,
        code INTEGER NOT NULL, shares BLOB NOT NULL, votes BLOB NOT NULL, digest BLOB NOT NULL, x BLOB NOT NULL,
        raw TEXT);
    CREATE TABLE answer ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, step INTEGER NOT NULL,
        label TEXT NOT NULL, correct INTEGER, time REAL NOT NULL);
    CREATE INDEX answer_by_step ON answer (step);
    CREATE TABLE step ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, kind TEXT NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, time REAL NOT NULL);
    CREATE TABLE model ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, about TEXT NOT NULL);
    CREATE TABLE history ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, point TEXT NOT NULL);
    CREATE TABLE mark ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,
        value BLOB NOT NULL);
    """

    def set_mark(self, name: str, value: bytes) -> None:
        """A place in an input or output: what is committed with it was done up to there."""
        before = self.row("SELECT number FROM mark WHERE name = ?", (name,))
        if before is None:
            before = self.rows("SELECT coalesce(max(number), 0) + 1 FROM mark")[0]
        else:
            self.delete("mark", "name = ?", (name,))
        self.add("mark", (before[0], name, value))

    def mark(self, name: str) -> bytes | None:
        """What `set_mark` kept."""
        row = self.row("SELECT value FROM mark WHERE name = ?", (name,))
        return None if row is None else bytes(row[0])

    def set_model(self, model: ModelRow) -> None:
        """A model, or what has changed of one: its classes."""
        self.delete("model", "number = ?", (model.number,))
        self.add("model", (model.number, json.dumps(asdict(model))))

    def models(self) -> list[ModelRow]:
        """All models that were in place, oldest first."""
        return [ModelRow(**json.loads(text)) for (text,) in self.rows("SELECT about FROM model ORDER BY number")]

    def events(self, newest: int | None = None, until: int = LAST) -> Iterator[EventRow]:
        """Every event that is kept, oldest first; or so many of the newest up to a number, newest first."""
        models = self.models()
        classes = {model.number: model.classes for model in models}
        order, values = ("", (until,)) if newest is None else ("DESC LIMIT ?", (until, newest))
        rows = self.stream(EVENTS + order, values)
        for number, id, time, code, shares, x, raw, label, correct, labelled, step in rows:
            model = model_at(models, step)  # by which the row was learned: it was read again for another one
            made_by, P = model_at(models, number), np.frombuffer(shares)
            if made_by.coverage is None:
                prediction, probability, interval = classes[made_by.number][code], float(P[code]), None
            else:
                prediction, probability, interval = float(P[0]), None, interval_of(P)
            yield EventRow(
                number, id_of(id, number), time, prediction, probability, interval,
                row_of_bytes(x, model.width, np.dtype(model.dtype)), raw, model.names,
                None if label is None else label_of_json(label), None if correct is None else bool(correct),
                labelled, step,
            )  # fmt: skip

    def prune(self, floor: int, most: int, before: float | None = None) -> int:
        """Delete at most so many answered events whose steps are not after `floor`; how many there were.

        `before`: only those that are older. Age goes by the order of events: one whose time has not come yet (the
        clock was wrong) is not younger than those after it. Recovery needs all steps after `floor`.
        """
        age = "" if before is None else "AND number <= (SELECT max(number) FROM answer WHERE time < ?)"
        values = () if before is None else (before,)
        # "+step": by number, not by the index of steps, which would look at every answer
        query = f"SELECT number FROM answer WHERE +step <= ? {age} ORDER BY number LIMIT ?"
        numbers = self.rows(query, (floor, *values, most))
        if not numbers:
            return 0
        last = numbers[-1][0]
        gone, given = f"FROM answer WHERE +step <= ? AND number <= ? {age}", (floor, last, *values)
        self.delete("event", f"number IN (SELECT number {gone})", given)
        # a block of which some events stay is still needed to tell them apart
        self.delete("step", f"number IN (SELECT step {gone}) AND last <= ?", (*given, last))
        old = f"number < (SELECT max(step) {gone}) AND kind = 'snapshot' AND number < ?"
        self.delete("step", old, (*given, floor))
        self.delete("answer", f"+step <= ? AND number <= ? {age}", given)
        return len(numbers)


def id_of(id: str | None, number: int) -> str:
    """The id that an event is known by: the caller's own, or one made of its number."""
    return f"{OWN}{number}" if id is None else id


def interval_of(P: Array) -> tuple[float, float]:
    """The interval of the first coverage: P has the number that was predicted, then half the width of each interval."""
    return float(P[0] - P[1]), float(P[0] + P[1])
