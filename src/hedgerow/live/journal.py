"""The journal: events, their answers, and the steps that changed the model, in one SQLite file (`hedgerow.store`).

Steps are taken when they happen and again, in the same way, when a model is recovered: from a snapshot, a model file
beside the journal.

| table      | a row is                                                                                       |
|------------|------------------------------------------------------------------------------------------------|
| `event`    | a prediction: class, probabilities, what each expert named, a digest of the row; of a          |
|            | regressor the number, half the widths of its intervals, the number of each expert; and the     |
|            | row: numbers as the model reads them and, where it encodes them, as it came (JSON)             |
| `answer`   | what became of an event: its label, or null where it expired                                   |
| `step`     | a call that changed the model: a block of events, late labels, an expiry, a snapshot, another  |
|            | model; `last` of these two is the newest event whose label was learned until then              |
| `model`    | the model that was created or put in place at a step: its rows, classes and digest             |
| `history`  | a point of the curves that people look at                                                      |
| `mark`     | a place in an input or output, in the same transaction as what was done up to it               |
| `meta`     | format, settings, totals                                                                       |

Events and steps share one row of numbers. An event goes after its label, when a snapshot has what was learned from it,
as far as the settings do not keep it.
"""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.core.values import labels_from_json, labels_to_json, objects, plain
from hedgerow.events import (
    EXPIRED,
    LEARNED,
    OWN,
    PENDING,
    label_of_json,
    labels_together,
    row_of_bytes,
    rows_together,
)
from hedgerow.files import read_header, write_whole
from hedgerow.given import ExpertsNeeded
from hedgerow.regressor import load_model
from hedgerow.store import JournalError, Store
from hedgerow.task import CLASSES, NUMBERS, TASKS, Model, Predicted, task_of

EVENTS = (
    "SELECT event.number, id, event.time, code, shares, x, raw, answer.label, correct, answer.time, answer.step "
    "FROM event LEFT JOIN answer USING (number) WHERE event.number <= ? ORDER BY event.number "
)
LAST = 2**63 - 1  # the largest number that an event can have
BLOCK = "block"
LABEL = "label"
LABELS = "labels"
SNAPSHOT = "snapshot"
REPLACE = "replace"
FORGET = "forget"
KEPT = 2  # newest snapshots that stay: the journal has what came after the older one
logger = logging.getLogger("hedgerow.live")


@dataclass(frozen=True)
class ModelRow:
    """A model of the journal, from the step `number` on: how its rows are read, what it predicts, where it came from.

    `labels` is its scale as JSON: the classes by code, or the coverages of its intervals. `encodes`: whether its rows
    are cells of a table that it makes numbers of.
    """

    number: int
    method: str
    width: int
    dtype: str
    names: list[str] | None
    labels: Any
    digest: str  # of the model file
    time: float
    reason: str = ""
    task: str = CLASSES.name
    encodes: bool | None = None  # not known of journals of format 4

    @classmethod
    def of(
        cls, clf: Model, number: int = 0, digest: str = "", time: float = 0.0, reason: str = ""
    ) -> ModelRow:
        """The row of a model."""
        task = task_of(clf)
        names = getattr(clf, "feature_names_in_", None)
        return cls(
            number=number,
            method=task.method(clf),
            width=clf.n_features_in_,
            dtype=str(clf.learner_.dtype),
            names=None if names is None else [str(name) for name in names],
            labels=labels_to_json(objects(task.scale(clf))),
            digest=digest,
            time=time,
            reason=reason,
            task=task.name,
            encodes=clf.table_ is not None and not clf.table_.only_numbers,
        )

    @classmethod
    def from_json(cls, text: str) -> ModelRow:
        """As the journal has it; journals of format 4 had no task, and the coverages apart."""
        about = json.loads(text)
        coverage = about.pop("coverage", None)
        if coverage is not None:
            about |= {"task": NUMBERS.name, "labels": labels_to_json(np.array(coverage))}
        return cls(**about)

    @property
    def scale(self) -> list[Any]:
        """The classes, by code, or the coverages."""
        labels: Array = labels_from_json(self.labels)
        return [plain(label) for label in labels]

    @property
    def classes(self) -> list[Any]:
        """The classes, by code; none of numbers."""
        return TASKS[self.task].classes_in(self.scale)


def model_at(models: Sequence[ModelRow], number: int | None) -> ModelRow:
    """The model that was in place at a number; None: the newest."""
    return (
        models[-1]
        if number is None
        else models[bisect_right([row.number for row in models], number) - 1]
    )


@dataclass(frozen=True)
class EventRow:
    """A prediction, its row, its label if it came; `step`: when, among all numbers. `x`: as the model reads it."""

    number: int
    id: str
    time: float
    prediction: Any
    measured: dict[str, Any]  # the probability of the class, or the interval of the number
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
        names = ("id", "number", "time", "prediction", "label", "correct", "status")
        return {name: getattr(self, name) for name in names} | self.measured


class Journal(Store):
    """The file of a live model. Rows are added within a transaction: `begin`, then `commit` or `rollback`."""

    FILE = "journal.sqlite"
    FORMAT = "hedgerow journal 5"
    WHAT = "live model"
    MADE = "LiveModel.create, or `hedgerow run --journal`,"
    LEFT = ("journal.sqlite-wal", "snapshots/*[1-9]*.safetensors")
    ALONG = ("snapshots", "models")
    RENEWED = "snapshots"
    TABLES = ("event", "answer", "step", "model", "history", "mark")
    REMEDY = (
        "restore the folder from a copy, or start a new journal from its last good snapshot "
        "(snapshots/*.safetensors is a model like any other)"
    )
    MOVE = (
        "its model cannot be recovered, since predictions are computed in another way now; `hedgerow export` writes "
        "its events to a file, and `hedgerow fit --from-journal` makes a model that has learned them"
    )
    SCHEMA = """
    CREATE TABLE event ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, id TEXT UNIQUE, time REAL NOT NULL,
        code INTEGER NOT NULL, shares BLOB NOT NULL, votes BLOB NOT NULL, digest BLOB NOT NULL, known TEXT,
        x BLOB NOT NULL, raw TEXT);
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

    @classmethod
    def check_copy(cls, folder: Path) -> None:
        """The same, and the model is recovered."""
        with closing(cls(folder, read_only=True)) as journal, journal.errors():
            about = journal.verify()
            with suppress(ExpertsNeeded):  # only who has them can open it
                recovered(journal, Snapshots(folder), about)

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
        return [
            ModelRow.from_json(text)
            for (text,) in self.rows("SELECT about FROM model ORDER BY number")
        ]

    def events(self, newest: int | None = None, until: int = LAST) -> Iterator[EventRow]:
        """Every event that is kept, oldest first; or so many of the newest up to a number, newest first."""
        models = self.models()
        task = TASKS[models[-1].task]
        scales = {model.number: model.scale for model in models}
        order, values = ("", (until,)) if newest is None else ("DESC LIMIT ?", (until, newest))
        rows = self.stream(EVENTS + order, values)
        for number, id, asked, code, shares, x, raw, label, correct, labelled, step in rows:
            model = model_at(
                models, step
            )  # by which the row was learned: it was read again for another one
            scale = scales[model_at(models, number).number]
            P = np.frombuffer(shares)
            yield EventRow(
                number=number,
                id=id_of(id, number),
                time=asked,
                prediction=task.value(code, P, scale),
                measured=task.measured(code, P),
                x=row_of_bytes(x, model.width, np.dtype(model.dtype)),
                raw=raw,
                names=model.names,
                label=None if label is None else label_of_json(label),
                correct=None if correct is None else bool(correct),
                labelled=labelled,
                step=step,
            )

    def forget_in_marks(self, ids: set[str]) -> None:
        """Lines about these events go from the newest lines of a run's outputs; `line_mark` says what is left then."""
        for name, value in self.rows(
            "SELECT name, value FROM mark WHERE name IN ('output', 'dead')"
        ):
            text, *lines = bytes(value).split(b"\n")
            kept = [b"" if _is_about(line, ids) else line for line in lines]
            if kept != lines:
                about = {"length": len(value) - len(text) - 1, **json.loads(text)}
                self.set_mark(name, line_mark(about, b"\n".join(kept)))

    def prune(self, floor: int, most: int, before: float | None = None) -> int:
        """Delete at most so many answered events whose steps are not after `floor`; how many there were.

        `before`: only those that are older. Age goes by the order of events: one whose time has not come yet (the
        clock was wrong) is not younger than those after it. Recovery needs all steps after `floor`.
        """
        age = (
            ""
            if before is None
            else "AND number <= (SELECT max(number) FROM answer WHERE time < ?)"
        )
        values = () if before is None else (before,)
        # "+step": by number, not by the index of steps, which would look at every answer
        query = f"SELECT number FROM answer WHERE +step <= ? {age} ORDER BY number LIMIT ?"
        numbers = self.rows(query, (floor, *values, most))
        if not numbers:
            return 0
        last = numbers[-1][0]
        gone = f"FROM answer WHERE +step <= ? AND number <= ? {age}"
        given = (floor, last, *values)
        self.delete("event", f"number IN (SELECT number {gone})", given)
        # a block of which some events stay is still needed to tell them apart
        self.delete("step", f"number IN (SELECT step {gone}) AND last <= ?", (*given, last))
        old = f"number < (SELECT max(step) {gone}) AND kind = 'snapshot' AND number < ?"
        self.delete("step", old, (*given, floor))
        self.delete("answer", f"+step <= ? AND number <= ? {age}", given)
        return len(numbers)


def line_mark(about: dict[str, Any], lines: bytes) -> bytes:
    """The mark of an output: where it is, and its newest lines, which are empty where an event was forgotten.

    `about["length"]`: how many bytes the lines had before that.
    """
    return json.dumps(about).encode() + b"\n" + lines


def _is_about(line: bytes, ids: set[str]) -> bool:
    """Whether a line of an output is about one of these events: as a prediction, or as a label that was refused."""
    record = json.loads(line or b"{}")
    return record.get("id") in ids or record.get("row") in ids


def id_of(id: str | None, number: int) -> str:
    """The id that an event is known by: the caller's own, or one made of its number."""
    return f"{OWN}{number}" if id is None else id


# -- what changes a model, and recovery -------------------------------------------------------------------------------


class Steps:
    """A model, and every way in which a live model changes it. `since`: labels since the last snapshot.

    `newest`: the number of the newest event whose label was learned.
    """

    def __init__(self, clf: Model, newest: int = 0) -> None:
        self.clf = clf
        self.task = task_of(clf)
        self.newest = newest
        self.since = 0

    def block(self, X: Matrix, labels: list[Any]) -> Predicted:
        """Rows in order, each predicted before its label."""
        predicted = self.task.learn(self.clf, X, labels_together(labels))
        self.since += len(labels)
        return predicted

    def late(
        self, rows: list[Matrix], labels: list[Any], known: list[str | None], numbers: list[int]
    ) -> None:
        """Labels that came after their predictions, in the order of their events, whose numbers these are.

        Several at once, since a block costs less than its rows. `known`: the newest label at each prediction, as JSON.
        """
        X, y = (
            (rows[0], labels[0])
            if len(rows) == 1
            else (rows_together(rows), labels_together(labels))
        )
        told = [None if text is None else label_of_json(text) for text in known]
        own = [n for n, label in zip(numbers, labels, strict=True) if label is not None]
        self.task.late(self.clf, X, y, told, max(own, default=LAST) > self.newest)
        self.learned(numbers, labels)
        self.since += len(labels)

    def learned(self, numbers: list[int], labels: list[Any]) -> None:
        """Labels of these events, None where there is none."""
        own = (n for n, label in zip(numbers, labels, strict=False) if label is not None)
        self.newest = max([self.newest, *own])

    def snapshot(self) -> bytes:
        """The model as a file. It goes on as what can be read from there, so that recovery is not another path."""
        data = self.clf.to_bytes()
        clf = self.clf
        self.clf = type(clf).from_bytes(data, constants=clf.constants_, experts=clf.experts_)
        self.since = 0
        return data

    def repeat(self, journal: Journal, after: int) -> None:
        """Every step of a journal after a number."""
        for number, kind in journal.rows(
            "SELECT number, kind FROM step WHERE number > ? ORDER BY number", (after,)
        ):
            if kind == SNAPSHOT:
                self.snapshot()
            elif kind == REPLACE:
                self.clf = load_model(model_file(journal.folder, number), experts=self.clf.experts_)
                self.since = 0
            elif kind != FORGET:
                rows = journal.rows(
                    "SELECT x, label, known, answer.number FROM answer LEFT JOIN event USING (number) WHERE step = ? "
                    "ORDER BY answer.number",
                    (number,),
                )
                if not rows or any(row[0] is None for row in rows):
                    raise JournalError(
                        f"{journal.path}: step {number} cannot be repeated, its features are not there"
                    )
                width = self.clf.n_features_in_
                dtype = self.clf.learner_.dtype
                X = [row_of_bytes(row[0], width, dtype) for row in rows]
                labels = [label_of_json(row[1]) for row in rows]
                numbers = [row[3] for row in rows]
                if kind == BLOCK:
                    self.block(rows_together(X), labels)
                    self.learned(numbers, labels)
                else:
                    assert kind in (LABEL, LABELS, EXPIRED)
                    self.late(X, labels, [row[2] for row in rows], numbers)


def model_file(folder: Path, number: int, before: bool = False) -> Path:
    """The model that was put in place at a step; `before`: the one that it replaced, as it was then."""
    return folder / "models" / f"{number:015d}{'-before' if before else ''}.safetensors"


class Snapshots:
    """Model files in a folder, named by the number of the step that they were taken at."""

    def __init__(self, folder: Path, experts: Mapping[str, Any] | None = None) -> None:
        """`experts`: models of the user's own, which the files name."""
        self.folder = folder / "snapshots"
        self.experts = experts
        self.error: str | None = None  # why the newest could not be written
        self.time: float | None = None
        self.bytes = 0
        self._damaged: set[int] = set()  # those that are there and cannot be read
        self._pool = ThreadPoolExecutor(
            1, "hedgerow-snapshot"
        )  # its thread starts when it is needed
        self._last: Future[None] | None = None
        numbers = self.numbers
        self.oldest, self.newest_number = (numbers[0], numbers[-1]) if numbers else (0, 0)

    @property
    def numbers(self) -> list[int]:
        """Of the files that are there, oldest first."""
        return sorted(
            int(path.stem) for path in self.folder.glob("*.safetensors") if path.stem.isdigit()
        )

    def path(self, number: int) -> Path:
        """Where a snapshot is."""
        return self.folder / f"{number:015d}.safetensors"

    def about(self) -> dict[str, Any]:
        """The newest snapshot."""
        return {
            "number": self.newest_number,
            "time": self.time,
            "bytes": self.bytes,
            "error": self.error,
        }

    def write(self, number: int, data: bytes) -> None:
        """Write one aside and rename it; only then the oldest go. An error is kept in `error`, and all files are."""
        try:
            self.folder.mkdir(exist_ok=True)
            write_whole(self.path(number), data)
            self._damaged.discard(number)
            kept = [other for other in self.numbers if other not in self._damaged][-KEPT:]
            for old in self.numbers:
                if old not in kept:
                    self.path(old).unlink(missing_ok=True)
            self.oldest = kept[0]
            self.newest_number = kept[-1]
        except (InputError, OSError) as error:
            self.error = str(error)
            logger.error(
                "snapshot %d was not written: %s; the journal has everything since the last one",
                number,
                error,
            )
            return
        self.error = None
        self.time = time.time()
        self.bytes = len(data)

    def write_later(self, number: int, data: bytes) -> None:
        """Write one in a thread of its own, after those that were given before, while the model goes on."""
        self._last = self._pool.submit(self.write, number, data)

    def wait(self) -> None:
        """Until everything given so far is written."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Finish, and end the thread."""
        self._pool.shutdown(wait=True)

    def newest(self, last: int) -> tuple[int, Model]:
        """The newest snapshot that is whole. One that is newer than the journal's last number is refused.

        Older ones are in reserve: one that is damaged is logged, and no longer counted on.
        """
        numbers = self.numbers
        if numbers and numbers[-1] > last:
            raise JournalError(
                f"{self.path(numbers[-1])} is newer than the journal, which ends with number {last}: the journal has "
                "lost its end; restore the folder from a copy, or start a new journal from this snapshot"
            )
        wrong = []
        clf = None
        for number in reversed(numbers):
            path = self.path(number)
            try:
                if clf is not None:
                    read_header(path.read_bytes(), str(path))
                else:
                    clf = load_model(path, experts=self.experts)
                    self.time = path.stat().st_mtime
                    self.bytes = path.stat().st_size
                    self.newest_number = number
            except ExpertsNeeded:
                raise
            except (InputError, OSError) as error:
                if path.exists():  # it was not replaced meanwhile
                    logger.error("%s; another one is used", error)
                wrong.append(str(error))
                self._damaged.add(number)
                if clf is not None:
                    break
            else:
                self.oldest = number
        if clf is not None:
            return self.newest_number, clf
        reasons = "; ".join(wrong) or "there is none"
        raise JournalError(
            f"{self.folder}: no snapshot can be used ({reasons}); restore the folder from a copy"
        )


def recovered(journal: Journal, snapshots: Snapshots, about: dict[str, Any]) -> Steps:
    """The model of a journal as its totals have it: the newest snapshot that is whole, and every step after it."""
    number, clf = snapshots.newest(about["last"])
    row = journal.row("SELECT last FROM step WHERE number = ?", (number,))
    steps = Steps(clf, 0 if row is None else row[0])
    steps.repeat(journal, number)
    if steps.clf.seen_ != about["seen"]:
        raise JournalError(
            f"{journal.folder}: the snapshot and the journal do not belong together ({steps.clf.seen_} labels "
            f"learned, {about['seen']} acknowledged); restore the folder from a copy"
        )
    return steps
