"""What predicts, learns and counts, over a ledger of events, wherever the events are kept.

| what runs                       | rules of events | what applies them                                          |
|---------------------------------|-----------------|------------------------------------------------------------|
| a live model, and `hedgerow run | `Ledger`        | this engine, over SQLite: `live/writer.py`                 |
| --journal`, `hedgerow serve`    |                 |                                                            |
| `hedgerow run` without one      | `MemoryLedger`  | this engine, over memory: `run/engine.py`                  |
| Spark                           | `MemoryLedger`  | `spark/shard.py`, with models from `fleet/holder.py`       |
| a fleet                         | none            | `fleet/holder.py`: labels come with their rows             |

Spark cannot use this engine, for two reasons. An engine has one model, and a row is predicted when it is asked for. A
shard has thousands of keys in a batch, and is fast only if their rows are one compiled call: it first decides by the
rules what becomes of every row, then predicts and learns them all. And recovery is another. A live model must equal
one that never stopped, to the last bit, so its journal keeps the steps, in blocks as they were, and repeats them after
a snapshot. Spark gives a shard its state after the last whole batch and brings the next batch again, so that a shard
keeps rows and labels, and no steps. A fleet, too, learns again the rows that no state of a key has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.domains import as_frame
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.values import cells, is_row
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
    label_to_json,
    labels_together,
    row_of_bytes,
    rows_to_bytes,
    rows_together,
)
from hedgerow.live.journal import BLOCK, LABEL, LABELS, Steps
from hedgerow.live.report import Scores
from hedgerow.task import Model, Predicted, Task

SEVERAL = 4  # rows, or late labels, that are faster as a block than one by one


class Encoded(NamedTuple):
    """Rows (or one) that were made numbers before, beside them as they came, which is what the journal keeps."""

    X: Array
    rows: Any  # mappings, or lists of numbers

    @property
    def ndim(self) -> int:
        """1: it is one row."""
        return self.X.ndim

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

    @property
    def task(self) -> Task:
        """Whether it predicts classes or numbers."""
        return self.steps.task

    def _begin(self) -> None:
        """The model is about to be changed."""

    def _add(
        self, rows: Rows, predicted: Predicted, now: float, known: str | None, waits: bool
    ) -> list[Any]:
        """Keep predictions, made when `known` was the newest label (JSON); the keys of their events."""
        raise NotImplementedError

    def _resolve(
        self, kind: str, keys: list[Any], labels: list[Any], right: Sequence[bool | None] | Array
    ) -> None:
        """Keep what became of events, in a step of this kind: their labels, or that they expired (None)."""
        raise NotImplementedError

    def scale_at(self, number: int) -> list[Any]:
        """The classes, by code, or the coverages of the model that made a prediction."""
        raise NotImplementedError

    # -- predicting ---------------------------------------------------------------------------------------------

    def predict_rows(self, X: Any, ids: Sequence[str] | None) -> Taken:
        """Rows by the model as it is."""
        return self._take(self._read(X, ids), None)

    def learn_rows(self, X: Any, y: Any, ids: Sequence[str] | None) -> Taken:
        """Rows with their labels, each predicted before it is learned; None where a label is missing."""
        one = is_row(X)
        if isinstance(y, str) and not one:
            raise InputError(f"y is the text {y[:40]!r}; give a list of labels, one for each row")
        labels = self._labels([y] if one else y)
        rows = self._read(X, ids)
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
        return [self.kept(label) for label in y]

    def _read(self, X: Any, ids: Sequence[str] | None) -> Rows:
        """Rows with their ids; of one row `ids` is its own."""
        if is_row(X):
            return self._read_single([(X, ids)])
        numbers = as_numbers(self.clf.as_matrix, X)
        if not is_sparse(numbers):
            numbers = np.ascontiguousarray(
                numbers
            )  # as it is read back: in another order sums have other last digits
        n = numbers.shape[0]
        keeps = self.keeps_all or ids is not None
        data = rows_to_bytes(numbers) if keeps else []
        return Rows(numbers, check_ids(ids, n), data, self._raw(X, n) if keeps else [])

    def _read_single(self, items: Sequence[tuple[Any, Any]]) -> Rows:
        """Several single instances, each with an id or none, as one block."""
        rows = [as_numbers(self.clf.as_row, x) for x, _ in items]
        if len({is_sparse(row) for row in rows}) > 1:
            raise InputError("sparse and dense rows are not predicted together")
        named = [id for _, id in items if id is not None]
        check_ids(named, len(named))
        X = rows_together(rows)
        raw = [self._raw(x, 1)[0] for x, _ in items]
        return Rows(
            X, [id if id is None else check_id(id) for _, id in items], rows_to_bytes(X), raw
        )

    def _take(self, rows: Rows, labels: list[Any] | None) -> Taken:
        """Rows of which some were predicted before; the others are predicted and, with labels, learned."""
        ids = rows.ids
        known = self._known(rows, labels)
        if any(known):
            new = [i for i, event in enumerate(known) if event is None]
            rows = rows.at(new)
            labels = None if labels is None else [labels[i] for i in new]
        if not rows.ids:
            nothing = np.empty((0, 0))
            return Taken(ids, known, [], Predicted(np.empty(0, np.intp), nothing, nothing))
        newest = None
        if labels is not None:
            self._begin()
            predicted = self.steps.block(rows.X, labels)
        else:
            predicted = self.task.predict(self.clf, rows.X)
            label = self.task.known(self.clf)
            newest = None if label is None else label_to_json(label)
        now = self.clock.now()
        self.scores.asked(predicted.codes, now)
        keys = self._add(rows, predicted, now, newest, waits=labels is None)
        if labels is not None:
            self.steps.learned([self.number_of(key) for key in keys], labels)
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
                    self.task.check(self.clf, labels_together([label]))
                elif judged.status != DUPLICATE:
                    raise InputError(f"id {judged.id!r}: {judged.detail}")
        return known

    def among(self, ids: list[str | None]) -> set[str]:
        """Which of these ids may be known; the others are not."""
        return {id for id in ids if id is not None and self.find(id) is not None}

    def _raw(self, X: Any, n: int) -> list[str | None]:
        """Rows as they came, where the model encodes them; None for what is numbers as the model reads them."""
        if self.clf.table_ is None or isinstance(X, np.ndarray) or is_sparse(X):
            return [None] * n
        rows = X.rows if isinstance(X, Encoded) else X
        if is_row(X):
            rows = [rows]
        elif not isinstance(rows, list) and (frame := as_frame(rows, "X")) is not None:
            cells_of_rows = zip(*(column.tolist() for column in frame.columns), strict=True)
            rows = [dict(zip(frame.names, row, strict=True)) for row in cells_of_rows]
        return [_text(dict(row.items())) if hasattr(row, "items") else None for row in rows]

    # -- learning -----------------------------------------------------------------------------------------------

    def label(self, id: str, y: Any) -> LabelResult:
        """The label of an event."""
        return self.label_all([(id, y)])[0]

    def label_all(self, labels: Sequence[tuple[str, Any]]) -> list[LabelResult]:
        """Labels of events. Those that can be learned are learned together, in the order of their events."""
        try:
            pairs = [(id, y) for id, y in labels]
        except (TypeError, ValueError):
            raise InputError(
                "labels are pairs of an id and a label: [('order-17', 'mug'), ..]"
            ) from None
        results = self.label_many(pairs, self._learn_late, block=SEVERAL, by_event=True)
        self.scores.unknown_labels += sum(result.status == UNKNOWN for result in results)
        return results

    def kept(self, label: Any) -> Any:
        """A label as it is learned and kept; InputError if it cannot be."""
        return self.task.label(label)

    def _learn_late(self, events: list[Event], labels: list[Any]) -> list[bool]:
        self._begin()
        known = [event.known for event in events]
        numbers = [event.number for event in events]
        self.steps.late([self._row(event.row) for event in events], labels, known, numbers)
        own = [
            i
            for i, event in enumerate(events)
            if event.number >= self.first and event.votes is not None
        ]
        votes = np.stack([events[i].votes for i in own]) if own else None  # type: ignore[misc]
        said = [
            self.task.said(np.array([event.code]), np.array([event.probabilities]))
            for event in events
        ]
        codes = np.array([self._code_now(event) for event in events])
        right = self._score(labels, codes, np.concatenate(said), votes, own, self.clock.now())
        keys = [self.key_of(event) for event in events]
        self._resolve(LABEL if len(events) == 1 else LABELS, keys, labels, right)
        return right.tolist()  # type: ignore[no-any-return]

    def _code_now(self, event: Event) -> int:
        """The code of what was predicted for an event, for the model as it is."""
        if event.number >= self.first:
            return event.code
        return self.task.code_now(self.clf, self.scale_at(event.number), event.code)

    def key_of(self, event: Event) -> Any:
        """Where an event is in `pending`."""
        return event.id

    def number_of(self, key: Any) -> int:
        """The number of the event of a key in `pending`."""
        raise NotImplementedError

    def _score_block(self, labels: list[Any], predicted: Predicted, now: float) -> Array:
        """Whether each was right; None where there is no label."""
        codes, P, votes, _ = predicted
        said = self.task.said(codes, P)
        known = [i for i, label in enumerate(labels) if label is not None]
        right = np.full(len(labels), None)
        if known:
            right[known] = self._score(
                [labels[i] for i in known], codes[known], said[known], votes[known], None, now
            )
        return right

    def _score(self, labels: list[Any], *predicted: Any) -> Array:
        """Count labels and what was predicted for them: see `Scores.learned`."""
        return self.scores.learned(self.task.codes(self.clf, labels_together(labels)), *predicted)

    def expire(self) -> None:
        """The events that are due; their rows are used without a label, where the method can."""
        for key in self.overdue(self.clock.now()):
            self._begin()
            self.steps.late([self._row(self._data_of(key))], [None], [None], [0])
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
    text = json.dumps(
        dict(zip(map(str, row), values, strict=True)), default=str, ensure_ascii=False
    )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(
            "a cell has half of a surrogate pair, which UTF-8 cannot write; decode the text as what it is"
        ) from None
    return text
