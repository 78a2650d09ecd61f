"""What predicts and learns during a run: a model in memory, or a live model with its journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.labels import plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live import answers
from hedgerow.live.answers import Labelled
from hedgerow.live.journal import Journal
from hedgerow.live.model import LiveModel
from hedgerow.live.rows import labels_together
from hedgerow.live.settings import Settings
from hedgerow.live.writer import Taken, Writer

T = TypeVar("T")
Marks = dict[str, bytes]


class Said(NamedTuple):
    """Predictions of rows: places in `classes`, probabilities, and which rows were new (None: all)."""

    classes: Array
    codes: Array
    P: Array
    new: Array | None


class Engine(Protocol):
    """What a run needs of either."""

    @property
    def clf(self) -> OnlineTransferClassifier:
        """The model, to look at."""

    def learn(self, X: Array, labels: list[Any], ids: Sequence[str] | None) -> Said:
        """Predict rows, each before its label."""

    def predict(self, X: Array, ids: Sequence[str] | None) -> Said:
        """Predict rows whose labels may come later."""

    def label(self, id: str, label: Any) -> Labelled:
        """A label that came later."""

    def together(self, work: Callable[[], tuple[T, Marks]]) -> T:
        """Work, and the marks it made: all of it is kept, or nothing."""

    def mark(self, name: str) -> bytes | None:
        """What an earlier run kept."""

    def to_bytes(self) -> bytes:
        """The model as the content of a file."""

    def close(self) -> None:
        """Keep what is to be kept."""


class InMemory:
    """A model alone: what it learned is lost with the process, unless the run saves it."""

    def __init__(self, clf: OnlineTransferClassifier, max_pending: int) -> None:
        self.clf, self._most = clf, max_pending
        self._waiting: dict[str, tuple[Array, int]] = {}
        self._answered: dict[str, Any] = {}

    def learn(self, X: Array, labels: list[Any], ids: Sequence[str] | None) -> Said:
        """In one block."""
        found = self.clf.explain_then_learn(X, labels_together(labels))
        return Said(self.clf.classes_, found.codes, found.probabilities, None)

    def predict(self, X: Array, ids: Sequence[str] | None) -> Said:
        """Features wait for their labels, where they have an id."""
        P = self.clf.predict_proba(X)
        codes = P.argmax(axis=1)
        for i, id in enumerate(ids or ()):
            self._waiting[id] = (X[i], int(codes[i]))
            if len(self._waiting) > self._most:
                row, _ = self._waiting.pop(next(iter(self._waiting)))
                self.clf.learn_one(row, None)
        return Said(self.clf.classes_, codes, P, None)

    def label(self, id: str, label: Any) -> Labelled:
        """The first label of an id is learned."""
        if id in self._answered:
            same = self._answered[id] == label
            return Labelled(
                id, answers.ALREADY if same else answers.CONFLICT, label, "another label was learned for it"
            )
        if id not in self._waiting:
            return Labelled(id, answers.UNKNOWN, label, f"no row with the id {id!r} waits for a label")
        row, code = self._waiting[id]
        said = plain(self.clf.classes_[code])
        self.clf.learn_one(row, label)
        del self._waiting[id]
        self._answered[id] = label
        if len(self._answered) > self._most:
            del self._answered[next(iter(self._answered))]
        return Labelled(id, answers.LEARNED, label, "right" if said == label else "wrong")

    def together(self, work: Callable[[], tuple[T, Marks]]) -> T:
        """There is nothing to commit."""
        return work()[0]

    def mark(self, name: str) -> bytes | None:
        """Nothing is kept."""
        return None

    def to_bytes(self) -> bytes:
        """Of the model."""
        return self.clf.to_bytes()

    def close(self) -> None:
        """Nothing is kept."""


class Journalled:
    """A live model: a block, the places in input and output, and the predictions themselves are one transaction."""

    def __init__(self, live: LiveModel) -> None:
        self.live = live
        self._writer: Writer | None = None

    @property
    def clf(self) -> OnlineTransferClassifier:
        """Of the live model."""
        return self.live.clf

    def learn(self, X: Array, labels: list[Any], ids: Sequence[str] | None) -> Said:
        """Within `together`."""
        return self._said(self._now.learn_rows(X, labels, ids))

    def predict(self, X: Array, ids: Sequence[str] | None) -> Said:
        """Within `together`."""
        return self._said(self._now.predict_rows(X, ids))

    def label(self, id: str, label: Any) -> Labelled:
        """Within `together`."""
        before = self._now.tallies.mistakes
        found = self._now.label(id, label)
        if found.status != answers.LEARNED:
            return found
        wrong = self._now.tallies.mistakes > before
        return Labelled(id, found.status, label, "wrong" if wrong else "right")

    def together(self, work: Callable[[], tuple[T, Marks]]) -> T:
        """One transaction."""

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
        """As the journal has it."""
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

    def _said(self, taken: Taken) -> Said:
        new = None if not any(taken.repeated) else ~np.array(taken.repeated)
        return Said(self.clf.classes_, taken.P.argmax(axis=1), taken.P, new)


def live_model(folder: Path, model: Path, settings: Mapping[str, Any], accept_loss: bool) -> LiveModel:
    """The live model of a folder, opened if there is one, else created with the model of a file.

    Settings that are not named stay as they are stored.
    """
    if (folder / Journal.FILE).exists():
        return LiveModel.open(folder, settings, accept_loss=accept_loss)
    return LiveModel.create(folder, OnlineTransferClassifier.load(model), Settings(**settings))
