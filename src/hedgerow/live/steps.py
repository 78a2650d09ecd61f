"""The steps that change a model, taken when they happen and again, in the same way, when it is recovered; snapshots."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.events import EXPIRED, label_of_json, labels_together, row_of_bytes, rows_together
from hedgerow.files import read_header, write_whole
from hedgerow.live.journal import Journal, Model
from hedgerow.regressor import OnlineTransferRegressor, load_model
from hedgerow.store import JournalError

BLOCK, LABEL, LABELS, SNAPSHOT, REPLACE, FORGET = "block", "label", "labels", "snapshot", "replace", "forget"
KEPT = 2  # newest snapshots that stay: the journal has what came after the older one
logger = logging.getLogger("hedgerow.live")


class Predicted(NamedTuple):
    """Of a block of rows: codes, probabilities (rows x classes) and the class that each expert named.

    Of a regressor: zeros, the number with half the width of each interval, and the number of each expert.
    """

    codes: Array
    P: Array
    votes: Array
    weights: dict[str, float] | None = None  # of the experts, where they were asked for


def predict_block(model: Model, X: Matrix, labels: list[Any] | None = None) -> Predicted:
    """Rows in order by the model as it is or, with labels, each before its label is learned."""
    y = None if labels is None else labels_together(labels)
    if isinstance(model, OnlineTransferRegressor):
        trace = model.trace(X) if y is None else model.trace_then_learn(X, y)
        P = np.column_stack([trace.predictions, trace.half])
        return Predicted(np.zeros(len(P), int), P, trace.experts)
    if y is not None:
        learned = model.explain_then_learn(X, y)
        return Predicted(learned.codes, learned.probabilities, learned.votes)
    if X.shape[0] == 1:  # the compiled step of one row, which makes its label cheap
        one = model.explain_one(X if is_sparse(X) else X[0])
        votes = [[model.code_of(label) for label in one.votes.values()]]
        shares = [list(one.probabilities.values())]
        return Predicted(np.array([model.code_of(one.label)]), np.array(shares), np.array(votes), one.weights)
    explained = model.explain(X)
    return Predicted(explained.probabilities.argmax(axis=1), explained.probabilities, explained.votes)


class Steps:
    """A model, and every way in which a live model changes it. `since`: labels since the last snapshot."""

    def __init__(self, clf: Model) -> None:
        self.clf, self.since = clf, 0

    def block(self, X: Matrix, labels: list[Any]) -> Predicted:
        """Rows in order, each predicted before its label."""
        predicted = predict_block(self.clf, X, labels)
        self.since += len(labels)
        return predicted

    def late(self, rows: list[Matrix], labels: list[Any]) -> None:
        """Labels that came after their predictions; several at once, since a block costs less than its rows."""
        if len(rows) == 1:
            self.clf.learn_one(rows[0], labels[0])
        else:
            self.clf.partial_fit(rows_together(rows), labels_together(labels))
        self.since += len(labels)

    def snapshot(self) -> bytes:
        """The model as a file. It goes on as what can be read from there, so that recovery is not another path."""
        data = self.clf.to_bytes()
        self.clf = type(self.clf).from_bytes(data, constants=self.clf.constants_)
        self.since = 0
        return data

    def repeat(self, journal: Journal, after: int) -> None:
        """Every step of a journal after a number."""
        for number, kind in journal.rows("SELECT number, kind FROM step WHERE number > ? ORDER BY number", (after,)):
            if kind == SNAPSHOT:
                self.snapshot()
            elif kind == REPLACE:
                self.clf, self.since = load_model(model_file(journal.folder, number)), 0
            elif kind != FORGET:
                rows = journal.rows(
                    "SELECT x, label FROM answer LEFT JOIN event USING (number) WHERE step = ? ORDER BY answer.number",
                    (number,),
                )
                if not rows or any(x is None for x, _ in rows):
                    raise JournalError(f"{journal.path}: step {number} cannot be repeated, its features are not there")
                width, dtype = self.clf.n_features_in_, self.clf.learner_.dtype
                X, labels = [row_of_bytes(x, width, dtype) for x, _ in rows], [label_of_json(text) for _, text in rows]
                if kind == BLOCK:
                    self.block(rows_together(X), labels)
                else:
                    assert kind in (LABEL, LABELS, EXPIRED)
                    self.late(X, labels)


def model_file(folder: Path, number: int, before: bool = False) -> Path:
    """The model that was put in place at a step; `before`: the one that it replaced, as it was then."""
    return folder / "models" / f"{number:015d}{'-before' if before else ''}.safetensors"


class Snapshots:
    """Model files in a folder, named by the number of the step that they were taken at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "snapshots"
        self.error: str | None = None  # why the newest could not be written
        self.time: float | None = None
        self.bytes = 0
        self._damaged: set[int] = set()  # those that are there and cannot be read
        self._pool = ThreadPoolExecutor(1, "hedgerow-snapshot")  # its thread starts when it is needed
        self._last: Future[None] | None = None
        numbers = self.numbers
        self.oldest, self.newest_number = (numbers[0], numbers[-1]) if numbers else (0, 0)

    @property
    def numbers(self) -> list[int]:
        """Of the files that are there, oldest first."""
        return sorted(int(path.stem) for path in self.folder.glob("*.safetensors") if path.stem.isdigit())

    def path(self, number: int) -> Path:
        """Where a snapshot is."""
        return self.folder / f"{number:015d}.safetensors"

    def about(self) -> dict[str, Any]:
        """The newest snapshot."""
        return {"number": self.newest_number, "time": self.time, "bytes": self.bytes, "error": self.error}

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
            self.oldest, self.newest_number = kept[0], kept[-1]
        except (InputError, OSError) as error:
            self.error = str(error)
            logger.error(
                "snapshot %d was not written: %s; the journal has everything since the last one", number, error
            )
            return
        self.error, self.time, self.bytes = None, time.time(), len(data)

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

    def _check_older(self, numbers: list[int], used: int) -> None:
        """Whether those that are kept in reserve are whole: one that is not is logged, and no longer counted on."""
        self.oldest = used
        for number in reversed(numbers):
            try:
                read_header(self.path(number).read_bytes(), str(self.path(number)))
            except (InputError, OSError) as error:
                logger.error("%s; it was kept in reserve, and is not needed now", error)
                self._damaged.add(number)
                return
            self.oldest = number

    def newest(self, last: int) -> tuple[int, Model]:
        """The newest snapshot that is whole. One that is newer than the journal's last number is refused."""
        numbers = self.numbers
        if numbers and numbers[-1] > last:
            raise JournalError(
                f"{self.path(numbers[-1])} is newer than the journal, which ends with number {last}: the journal has "
                "lost its end; restore the folder from a copy, or start a new journal from this snapshot"
            )
        wrong = []
        for number in reversed(numbers):
            try:
                clf = load_model(self.path(number))
            except InputError as error:
                logger.error("%s; going on from the one before", error)
                wrong.append(str(error))
                self._damaged.add(number)
                continue
            stat = self.path(number).stat()
            self.time, self.bytes, self.newest_number = stat.st_mtime, stat.st_size, number
            self._check_older([other for other in numbers if other < number], number)
            return number, clf
        reasons = "; ".join(wrong) or "there is none"
        raise JournalError(f"{self.folder}: no snapshot can be used ({reasons}); restore the folder from a copy")
