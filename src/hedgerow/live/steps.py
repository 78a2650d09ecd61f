"""The steps that change a model: taken when they happen, and taken again, in the same way, when it is recovered."""

from __future__ import annotations

from typing import Any

from hedgerow.core.arrays import Array, Matrix
from hedgerow.estimator import Explanations, OnlineTransferClassifier
from hedgerow.live.journal import Journal
from hedgerow.live.rows import label_of_json, labels_together, row_of_bytes, rows_together
from hedgerow.store import JournalError, Row

BLOCK, LABEL, LABELS, GIVEN_UP, SNAPSHOT = "block", "label", "labels", "given up", "snapshot"


class Steps:
    """A model, and every way in which a live model changes it. `since`: labels since the last snapshot."""

    def __init__(self, clf: OnlineTransferClassifier) -> None:
        self.clf, self.since = clf, 0

    def block(self, X: Matrix, labels: list[Any]) -> Explanations:
        """Rows in order, each predicted before its label."""
        found = self.clf.explain_then_learn(X, labels_together(labels))
        self.since += len(labels)
        return found

    def label(self, row: Matrix, label: Any) -> None:
        """A label that came after its prediction."""
        self.clf.learn_one(row, label)
        self.since += 1

    def labels(self, X: Matrix, labels: list[Any]) -> None:
        """Several labels that came after their predictions, at once: a block costs less than its rows."""
        self.clf.partial_fit(X, labels_together(labels))
        self.since += len(labels)

    def give_up(self, row: Matrix) -> None:
        """A row whose label is no longer awaited; of some methods it changes nothing."""
        self.clf.learn_one(row, None)
        self.since += 1

    def snapshot(self) -> bytes:
        """The model as a file. It goes on as what can be read from there, so that recovery is not another path."""
        data = self.clf.to_bytes()
        self.clf = OnlineTransferClassifier.from_bytes(data, constants=self.clf.constants_)
        self.since = 0
        return data

    def repeat(self, journal: Journal, after: int) -> int:
        """Every step of a journal after a number; how many there were."""
        steps = journal.rows("SELECT number, kind FROM step WHERE number > ? ORDER BY number", (after,))
        for number, kind in steps:
            if kind == SNAPSHOT:
                self.snapshot()
                continue
            found = journal.rows(
                "SELECT answer.number, x, label FROM answer LEFT JOIN features USING (number) WHERE step = ? "
                "ORDER BY answer.number",
                (number,),
            )
            if not found or any(x is None for _, x, _ in found):
                raise JournalError(f"{journal.path}: step {number} cannot be repeated, its features are not there")
            self._repeat(kind, found)
        return len(steps)

    def _repeat(self, kind: str, found: list[Row]) -> None:
        width, dtype = self.clf.n_features_in_, self.clf.learner_.dtype
        rows: list[Array] = [row_of_bytes(x, width, dtype) for _, x, _ in found]
        labels = [label_of_json(label) for _, _, label in found]
        if kind == BLOCK:
            self.block(rows_together(rows), labels)
        elif kind == LABELS:
            self.labels(rows_together(rows), labels)
        elif kind == LABEL:
            self.label(rows[0], labels[0])
        else:
            self.give_up(rows[0])
