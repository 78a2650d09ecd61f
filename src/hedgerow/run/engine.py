"""What predicts and learns during a run: a model in memory, or a live model with its journal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.events import (
    DUPLICATE,
    Event,
    LabelResult,
    Limits,
    MemoryLedger,
    check_ids,
    digest_of,
    labels_together,
    row_to_bytes,
)  # fmt: skip
from hedgerow.live.journal import Journal
from hedgerow.live.model import LiveModel
from hedgerow.live.settings import Settings
from hedgerow.live.writer import Clock, Taken, Writer
from hedgerow.regressor import OnlineTransferRegressor, load_model
from hedgerow.rows.wanted import NUMBERS
from hedgerow.run.job import Job
from hedgerow.run.tally import Say, count

T = TypeVar("T")
Marks = dict[str, bytes]
Model = OnlineTransferClassifier | OnlineTransferRegressor


class Predictions(NamedTuple):
    """Predictions of those rows that are new (None: of all): places in the model's classes, and probabilities.

    Of a regressor all codes are 0, and P has the number predicted and half the width of its interval.
    """

    new: Array | None
    codes: Array
    P: Array


class InMemory:
    """A model alone: what it learned is lost with the process, unless the run saves it."""

    def __init__(self, clf: Model, limits: Limits) -> None:
        self.clf, self._ledger, self._clock = clf, MemoryLedger(limits), Clock()

    def learn(self, X: Array, labels: list[Any], ids: Sequence[str] | None) -> Predictions:
        """Predict rows, each before its label."""
        new, rows = self._new(X, ids, labels)
        given = labels if new is None else [labels[i] for i in new]
        codes, P = self._explained(rows, given)
        for event, label in zip(self._predicted(rows, ids, new, codes, P), given, strict=False):
            self._ledger.resolve(event, label)
        self._expire()
        return Predictions(new, codes, P)

    def predict(self, X: Array, ids: Sequence[str] | None) -> Predictions:
        """Predict rows whose labels may come later, by their ids."""
        new, rows = self._new(X, ids, None)
        codes, P = self._explained(rows, None)
        self._predicted(rows, ids, new, codes, P)
        self._expire()
        return Predictions(new, codes, P)

    def _explained(self, rows: Array, labels: list[Any] | None) -> tuple[Array, Array]:
        """Codes and P of rows, each predicted before its label, if there are labels."""
        clf = self.clf
        if isinstance(clf, OnlineTransferRegressor):
            y = np.full(len(rows), np.nan) if labels is None else labels_together(labels)
            trace = clf.trace_then_learn(rows, y)
            return np.zeros(len(rows), np.intp), np.column_stack([trace.predictions, trace.half[:, 0]])
        if not len(rows):
            return np.empty(0, np.intp), np.empty((0, len(clf.classes_)))
        if labels is None:
            P = clf.predict_proba(rows)
            return P.argmax(axis=1), P
        learned = clf.explain_then_learn(rows, labels_together(labels))
        return learned.codes, learned.probabilities

    def interval(self, id: str) -> Array | None:
        """The number that a regressor has predicted for an id, and half the width of its interval."""
        event = self._ledger.find(id)
        return None if event is None else event.probabilities

    def label(self, id: str, label: Any) -> LabelResult:
        """A label that came later."""
        return self._ledger.label_many([(id, label)], self._learn)[0]

    def together(self, work: Callable[[], tuple[T, Marks]]) -> T:
        """Work; there is nothing to commit."""
        return work()[0]

    def mark(self, name: str) -> bytes | None:
        """What an earlier run kept: nothing."""
        return None

    def to_bytes(self) -> bytes:
        """The model as the content of a file."""
        return self.clf.to_bytes()

    def close(self) -> None:
        """Nothing is kept."""

    def _new(self, X: Array, ids: Sequence[str] | None, labels: list[Any] | None) -> tuple[Array | None, Array]:
        """Which rows were not predicted before, and these; labels of the others are learned, if they all can be."""
        if ids is None:
            return None, X
        check_ids(ids, len(X))
        digests = (digest_of(row_to_bytes(row)) for row in X)
        known = [self._ledger.predicted(id, digest) is not None for id, digest in zip(ids, digests, strict=True)]
        if not any(known):
            return None, X
        late = [(ids[i], label) for i, label in enumerate(labels or ()) if known[i] and label is not None]
        for result in (self._ledger.judge(*each) for each in late):
            if isinstance(result, LabelResult) and result.status != DUPLICATE:
                raise InputError(f"label of {result.id!r}: {result.detail}")
        self._ledger.label_many(late, self._learn)
        new = np.flatnonzero(~np.array(known))
        return new, X[new]

    def _predicted(self, X: Array, ids: Sequence[str] | None, new: Array | None, codes: Array, P: Array) -> list[Event]:
        """Rows with an id wait for their labels."""
        now = self._clock.now()
        names = [] if ids is None else ids if new is None else [ids[i] for i in new]
        numbers = isinstance(self.clf, OnlineTransferRegressor)
        return [
            self._ledger.add(
                id, now, int(codes[i]), float(P[i, codes[i]]), X[i].copy(), digest_of(row_to_bytes(X[i])),
                P[i] if numbers else None,
            )
            for i, id in enumerate(names)
        ]  # fmt: skip

    def _expire(self) -> None:
        """Rows that have waited too long, or are too many, are used without their labels."""
        ledger = self._ledger
        for id in ledger.overdue(self._clock.now()):
            event = ledger.pending[id]
            self.clf.learn_one(event.row, None)
            ledger.resolve(event, None)
        if len(ledger.resolved) > ledger.limits.keep_events:
            ledger.forget()

    def _learn(self, events: list[Event], labels: list[Any]) -> list[bool]:
        for event, label in zip(events, labels, strict=True):
            self.clf.learn_one(event.row, label)
            self._ledger.resolve(event, label)
        return [self._is_right(event, label) for event, label in zip(events, labels, strict=True)]

    def _is_right(self, event: Event, label: Any) -> bool:
        if event.probabilities is not None:
            value, half = event.probabilities
            return bool(abs(label - value) <= half)
        assert isinstance(self.clf, OnlineTransferClassifier)
        return bool(plain(self.clf.classes_[event.code]) == label)


class Journalled:
    """A live model: a block, the places in input and output, and the predictions themselves are one transaction."""

    def __init__(self, live: LiveModel) -> None:
        self.live = live
        self._writer: Writer | None = None

    @property
    def clf(self) -> Model:
        """The model, to look at."""
        return self.live.clf

    def learn(self, X: Array, labels: list[Any], ids: Sequence[str] | None) -> Predictions:
        """Predict rows, each before its label; within `together`."""
        return self._predictions(self._now.learn_rows(X, labels, ids))

    def predict(self, X: Array, ids: Sequence[str] | None) -> Predictions:
        """Predict rows whose labels may come later; within `together`."""
        return self._predictions(self._now.predict_rows(X, ids))

    def label(self, id: str, label: Any) -> LabelResult:
        """A label that came later; within `together`."""
        return self._now.label(id, label)

    def interval(self, id: str) -> Array | None:
        """As of a model in memory; within `together`."""
        event = self._now.find(id)
        if event is None or event.probabilities is None or not isinstance(self.clf, OnlineTransferRegressor):
            return None
        return event.probabilities[:2]

    def together(self, work: Callable[[], tuple[T, Marks]]) -> T:
        """Work, and the marks it made, in one transaction: all of it is kept, or nothing."""

        def within(writer: Writer) -> T:
            self._writer = writer
            try:
                result, marks = work()
                for name, value in marks.items():
                    writer.set_mark(name, value)
                return result
            finally:
                self._writer = None

        return self.live.do_together(within)

    def mark(self, name: str) -> bytes | None:
        """What an earlier run kept."""
        return self.live.mark(name)

    def to_bytes(self) -> bytes:
        """Of a snapshot, which is taken: to write a model to a file must not change its last digits unnoticed."""
        return self.live.to_bytes()

    def close(self) -> None:
        """With a snapshot."""
        self.live.close()

    @property
    def _now(self) -> Writer:
        assert self._writer is not None, "only within `together`"
        return self._writer

    def _predictions(self, taken: Taken) -> Predictions:
        new = np.flatnonzero(~np.array(taken.repeated)) if any(taken.repeated) else None
        P = taken.P if new is None else taken.P[new]
        if isinstance(self.clf, OnlineTransferRegressor):
            return Predictions(new, np.zeros(len(P), np.intp), P[:, :2])
        return Predictions(new, P.argmax(axis=1), P)


Engine = InMemory | Journalled


def label_classes(model: Model) -> Any:
    """What labels are read as: the classes, or numbers."""
    return NUMBERS if isinstance(model, OnlineTransferRegressor) else model.classes_


def model_mark(data: bytes) -> Marks:
    """Which model a journal was begun with: the same command must not go on with another one unnoticed."""
    return {"model": hashlib.sha256(data).hexdigest().encode()}


def _checked(model: Model, job: Job) -> Model:
    if isinstance(model, OnlineTransferRegressor) and (job.proba or job.new_classes != "learn"):
        raise InputError(f"--proba and --new-classes are about classes, and {job.model} predicts numbers")
    return model


def open_engine(job: Job, say: Say) -> Engine:
    """The model of a file; or the live model of a folder, which is created with it. Stored settings stay."""
    if job.journal is not None and (job.journal / Journal.FILE).exists():
        live = LiveModel.open(job.journal, job.settings, accept_loss=job.accept_loss)
    else:
        model = load_model(job.model)
        if job.journal is None:
            return InMemory(_checked(model, job), Settings(**job.settings))
        live = LiveModel.create(job.journal, _checked(model, job), Settings(**job.settings))
    engine = Journalled(live)
    try:
        known, given = engine.mark("model"), model_mark(job.model.read_bytes())
        if known is None:
            engine.together(lambda: (None, given))
        elif given["model"] not in known.split() and not live.made_from(job.model):
            raise InputError(
                f"the journal {job.journal} was begun with another model than {job.model} is now; give that model, put "
                f"this one in its place (hedgerow replace {job.journal} {job.model}), or begin another journal"
            )
    except BaseException:
        engine.close()
        raise
    stats = live.stats()
    if stats["events"]:
        counts = f"{count(stats['events'], 'row')}, {count(stats['labels'], 'label')}"
        say(f"going on with the journal {job.journal}: {counts}")
    return engine
