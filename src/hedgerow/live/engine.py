"""What predicts, learns and counts, over a ledger of events, wherever the events are kept.

`Writer` keeps them in a journal, `hedgerow run` without a journal (`run/engine.py`) in memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.domains import as_frame
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.values import cells, plain
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.events import (
    DUPLICATE,
    EXPIRED,
    UNKNOWN,
    Clock,
    Event,
    LabelResult,
    Ledger,
    check_id,
    check_ids,
    digest_of,
    labels_together,
    row_of_bytes,
    rows_to_bytes,
    rows_together,
)
from hedgerow.live.journal import Model
from hedgerow.live.report import Scores
from hedgerow.live.steps import BLOCK, LABEL, LABELS, Predicted, Steps, predict_block
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.regressor import numbers as checked_numbers

SEVERAL = 4  # rows, or late labels, that are faster as a block than one by one


class Encoded(NamedTuple):
    """Rows (or one) that were made numbers before, beside them as they came, which is what the journal keeps."""

    X: Array
    rows: Any  # mappings, or lists of numbers

    def one(self, i: int) -> Encoded:
        """One row."""
        return Encoded(self.X[i], self.rows[i])


class Rows(NamedTuple):
    """Rows as the model reads them, their ids, as bytes (none: nothing keeps them), as they came (None: as bytes)."""

    X: Matrix
    ids: list[str | None]
    data: list[bytes]
    raw: list[str | None]

    def at(self, places: list[int]) -> Rows:
        """Some of them."""
        parts: list[list[Any]] = [[part[i] for i in places] if part else [] for part in self[1:]]
        return Rows(self.X[places], *parts)


class Taken(NamedTuple):
    """Rows that were predicted: the event of each that had been predicted before, and what is said of the others."""

    ids: list[str | None]
    known: list[Event | None]
    keys: list[Any]  # of the new events
    predicted: Predicted


class Engine(Ledger):
    """A model and its events. A subclass keeps them: `_begin`, `_add`, `_resolve`, and which model predicted what.

    `first` is the number of the first event that the model as it is could predict: after that it was put in place.
    """

    first = 0
    keeps_all = True  # whether events without an id are kept
    steps: Steps
    scores: Scores
    clock: Clock

    @property
    def clf(self) -> Model:
        """The model as it is now."""
        return self.steps.clf

    def _begin(self) -> None:
        """The model is about to be changed."""

    def _add(self, rows: Rows, predicted: Predicted, now: float, waits: bool) -> list[Any]:
        """Keep predictions; the keys of their events."""
        raise NotImplementedError

    def _resolve(self, kind: str, keys: list[Any], labels: list[Any], right: Sequence[bool | None] | Array) -> None:
        """Keep what became of events, in a step of this kind: their labels, or that they expired (None)."""
        raise NotImplementedError

    def label_at(self, number: int, code: int) -> Any:
        """The class that a prediction named."""
        raise NotImplementedError

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict_rows(self, X: Any, ids: Sequence[str] | None) -> Taken:
        """Rows by the model as it is."""
        return self._take(self._read(X, ids), None)

    def learn_rows(self, X: Any, y: Any, ids: Sequence[str] | None) -> Taken:
        """Rows with their labels, each predicted before it is learned; None where a label is missing."""
        labels, rows = self._labels(y), self._read(X, ids)
        if len(labels) != len(rows.ids):
            raise InputError(
                f"{len(labels)} labels for {len(rows.ids)} instances; give as many, None where one is missing"
            )
        taken = self._take(rows, labels)
        for event, label in zip(taken.known, labels, strict=True):
            if event is not None and event.id is not None and label is not None:
                self.label(event.id, label)
        return taken

    def _labels(self, y: Any) -> list[Any]:
        """Labels as they are learned and kept."""
        return [self._label(label) for label in y]

    def _label(self, label: Any) -> Any:
        """A label as it is kept: of a regressor 1 and 1.0 are one label."""
        label = plain(label)
        return float(label) if isinstance(self.clf, OnlineTransferRegressor) and type(label) is int else label

    def _read(self, X: Any, ids: Sequence[str] | None) -> Rows:
        numbers = as_numbers(self.clf.as_matrix, X)
        if not is_sparse(numbers):
            numbers = np.ascontiguousarray(numbers)  # as it is read back: in another order sums have other last digits
        n = numbers.shape[0]
        keeps = self.keeps_all or ids is not None
        data = rows_to_bytes(numbers) if keeps else []
        return Rows(numbers, check_ids(ids, n), data, self._raw(X, n) if keeps else [])

    def _read_single(self, items: Sequence[tuple[Any, str | None]]) -> Rows:
        """Several single instances, each with an id or none, as one block."""
        rows = [as_numbers(self.clf.as_row, x) for x, _ in items]
        if len({is_sparse(row) for row in rows}) > 1:
            raise InputError("sparse and dense rows are not predicted together")
        named = [id for _, id in items if id is not None]
        check_ids(named, len(named))
        X, raw = rows_together(rows), [self._raw(x, 1)[0] for x, _ in items]
        return Rows(X, [id if id is None else check_id(id) for _, id in items], rows_to_bytes(X), raw)

    def _take(self, rows: Rows, labels: list[Any] | None) -> Taken:
        """Rows of which some were predicted before; the others are predicted and, with labels, learned."""
        ids, known = rows.ids, self._known(rows, labels)
        if any(known):
            new = [i for i, event in enumerate(known) if event is None]
            rows, labels = rows.at(new), None if labels is None else [labels[i] for i in new]
        if not rows.ids:
            nothing = np.empty((0, 0))
            return Taken(ids, known, [], Predicted(np.empty(0, np.intp), nothing, nothing))
        if labels is not None:
            self._begin()
            predicted = self.steps.block(rows.X, labels)
        else:
            predicted = predict_block(self.clf, rows.X)
        now = self.clock.now()
        self.scores.asked(predicted.codes, now)
        keys = self._add(rows, predicted, now, waits=labels is None)
        if labels is not None:
            self._resolve(BLOCK, keys, labels, self._score_block(labels, predicted, now))
        return Taken(ids, known, keys, predicted)

    def _known(self, rows: Rows, labels: list[Any] | None) -> list[Event | None]:
        """The events of rows that were predicted before; an error, before anything is done, if a label is refused."""
        if not rows.data:
            return [None] * len(rows.ids)
        there = self.among(rows.ids)
        known = [
            self.predicted(id, digest_of(rows.data[i])) if id is not None and id in there else None
            for i, id in enumerate(rows.ids)
        ]
        for event, label in zip(known, labels or (), strict=False):
            if event is not None and label is not None:
                judged = self.judge(str(event.id), label)
                if isinstance(judged, Event):
                    self._check_label(label)
                elif judged.status != DUPLICATE:
                    raise InputError(f"id {judged.id!r}: {judged.detail}")
        return known

    def among(self, ids: list[str | None]) -> set[str]:
        """Which of these ids may be known; the others are not."""
        return {id for id in ids if id is not None and self.find(id) is not None}

    def _check_label(self, label: Any) -> None:
        if isinstance(self.clf, OnlineTransferClassifier):
            self.clf.check_labels(labels_together([label]))
        else:
            checked_numbers(labels_together([label]), "y")

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

    # -- learning -----------------------------------------------------------------------------------------------

    def label(self, id: str, y: Any) -> LabelResult:
        """The label of an event."""
        return self.label_all([(id, y)])[0]

    def label_all(self, labels: Sequence[tuple[str, Any]]) -> list[LabelResult]:
        """Labels of events. Those that can be learned are learned together, in the order of their events."""
        try:
            pairs = [(id, self._label(y)) for id, y in labels]
        except (TypeError, ValueError):
            raise InputError("labels are pairs of an id and a label: [('order-17', 'mug'), ..]") from None
        results = self.label_many(pairs, self._learn_late, block=SEVERAL, by_event=True)
        self.scores.unknown_labels += sum(result.status == UNKNOWN for result in results)
        return results

    def _learn_late(self, events: list[Event], labels: list[Any]) -> list[bool]:
        self._begin()
        self.steps.late([self._row(event.row) for event in events], labels)
        own = [i for i, event in enumerate(events) if event.number >= self.first and event.votes is not None]
        votes = np.stack([events[i].votes for i in own]) if own else None  # type: ignore[misc]
        if isinstance(self.clf, OnlineTransferClassifier):
            codes = [
                event.code if event.number >= self.first else self.clf.code_of(self.label_at(event.number, event.code))
                for event in events
            ]
            said = np.array([event.probability for event in events])
            right = self._score(labels, np.array(codes), said, votes, own, self.clock.now())
        else:
            said = np.stack([event.probabilities[:2] for event in events if event.probabilities is not None])
            right = self._score(labels, np.empty(0), said, votes, own, self.clock.now())
        keys = [self.key_of(event) for event in events]
        self._resolve(LABEL if len(events) == 1 else LABELS, keys, labels, right)
        return right.tolist()  # type: ignore[no-any-return]

    def key_of(self, event: Event) -> Any:
        """Where an event is in `pending`."""
        return event.id

    def _score_block(self, labels: list[Any], predicted: Predicted, now: float) -> Array:
        """Whether each was right; None where there is no label."""
        codes, P, votes, _ = predicted
        known = [i for i, label in enumerate(labels) if label is not None]
        said = P[np.arange(len(P)), codes] if isinstance(self.clf, OnlineTransferClassifier) else P[:, :2]
        if len(known) == len(labels):
            return self._score(labels, codes, said, votes, None, now)
        right = np.full(len(labels), None)
        if known:
            right[known] = self._score([labels[i] for i in known], codes[known], said[known], votes[known], None, now)
        return right

    def _score(
        self, labels: list[Any], codes: Array, said: Array, votes: Array | None, own: list[int] | None, now: float
    ) -> Array:
        """Count labels: of classes by codes and their probabilities, of numbers by these and their intervals."""
        y = labels_together(labels)
        if isinstance(self.clf, OnlineTransferClassifier):
            return self.scores.classes(self.clf.codes_of(y), codes, said, votes, own, now)
        return self.scores.numbers(y.astype(np.float64), said, votes, own, now)

    def expire(self) -> None:
        """The events that are due; their rows are used without a label, where the method can."""
        for key in self.overdue(self.clock.now()):
            self._begin()
            self.steps.late([self._row(self._data_of(key))], [None])
            self._resolve(EXPIRED, [key], [None], [None])
            self.scores.expired += 1

    def _data_of(self, key: Any) -> bytes:
        """The row of a pending event."""
        raise NotImplementedError

    def _row(self, data: bytes) -> Matrix:
        return row_of_bytes(data, self.clf.n_features_in_, self.clf.learner_.dtype)


def as_numbers(read: Callable[[Any], Matrix], x: Any) -> Matrix:
    """Rows as the model reads them; what they are not is the caller's error, whoever found it."""
    try:
        return read(x.X if isinstance(x, Encoded) else x)
    except HedgerowError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"not numbers that a model can read: {error}") from error


def _text(row: Mapping[Any, Any]) -> str:
    """A row as JSON: names and values; a gap is null, a moment is as ISO 8601 writes it."""
    values = cells(list(row.values())).tolist()
    return json.dumps(dict(zip(map(str, row), values, strict=True)), default=str)
