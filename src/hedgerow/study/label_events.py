"""A stream as events: an instance arrives and asks for a prediction; later, perhaps, its label arrives.

    events(zip(X, y))        Arrival 0, Label 0, Arrival 1, Label 1, ..
    late(.., rounds=D)       the label of instance i comes after the arrival of instance i + D
    missing(.., rate=p)      a label never comes, with probability p
    batches(.., size=B)      labels wait until B of them are there

An adaptor takes events and gives events, so they compose in any order: `missing(late(events(pairs), 50), 0.1)`. What
the stream's end finds waiting is handed out then: every label that is not missing arrives exactly once. `play` runs a
model over events; a prediction is made when its instance arrives and is never taken back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.learners.base import BLOCK


@dataclass(frozen=True, eq=False)
class Arrival:
    """Instance number i is here: predict it."""

    i: int
    x: Any


@dataclass(frozen=True)
class Label:
    """The label of instance i is here: learn it."""

    i: int
    y: Any


Event = Arrival | Label


class Model(Protocol):
    """What `play` needs of a model."""

    def predict(self, X: Matrix) -> Array:
        """Predictions by the model as it is."""
        ...

    def partial_fit(self, X: Matrix, y: Any) -> Any:
        """Learn rows in order."""
        ...

    def predict_then_learn(self, X: Matrix, y: Any) -> Array:
        """Predictions made before each label was learned; a label None is not."""
        ...


def events(pairs: Iterable[tuple[Any, Any]]) -> Iterator[Event]:
    """Every label right after its instance. A row x is a 1-d array, or a sparse matrix of one row.

    >>> [type(event).__name__ for event in events([([0.0], "a"), ([1.0], "b")])]
    ['Arrival', 'Label', 'Arrival', 'Label']
    """
    for i, (x, y) in enumerate(pairs):
        yield Arrival(i, x)
        yield Label(i, y)


def late(stream: Iterable[Event], rounds: int) -> Iterator[Event]:
    """Each label `rounds` arrivals later than it would have come. late(late(s, a), b) is late(s, a + b).

    >>> [(type(e).__name__, e.i) for e in late(events(zip("xyz", "abc")), 1)][:4]
    [('Arrival', 0), ('Arrival', 1), ('Label', 0), ('Arrival', 2)]
    """
    _check_whole("rounds", rounds, 0)
    waiting: deque[tuple[int, Label]] = deque()
    arrived = 0
    for event in stream:
        if isinstance(event, Arrival):
            arrived += 1
            yield event
        else:
            waiting.append((arrived + rounds, event))
        while waiting and waiting[0][0] <= arrived:
            yield waiting.popleft()[1]
    for _, label in waiting:
        yield label


def missing(stream: Iterable[Event], rate: float, seed: int = 0) -> Iterator[Event]:
    """Each label is lost with probability `rate`, for good.

    Whether label i is lost depends on the seed and i alone: not on the other adaptors, and what is lost at a low rate
    is lost at every higher one.

    >>> sum(isinstance(e, Label) for e in missing(events(zip(range(1000), range(1000))), 0.9))
    104
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate={rate}: the share of missing labels must be in [0, 1]")
    for event in stream:
        if isinstance(event, Arrival) or np.random.default_rng([seed, event.i]).random() >= rate:
            yield event


def batches(stream: Iterable[Event], size: int) -> Iterator[Event]:
    """Labels wait until `size` of them are there, and come together; the last batch may be smaller.

    >>> [(type(e).__name__, e.i) for e in batches(events(zip("xyz", "abc")), 2)]
    [('Arrival', 0), ('Arrival', 1), ('Label', 0), ('Label', 1), ('Arrival', 2), ('Label', 2)]
    """
    _check_whole("size", size, 1)
    waiting: list[Label] = []
    for event in stream:
        if isinstance(event, Arrival):
            yield event
            continue
        waiting.append(event)
        if len(waiting) == size:
            yield from waiting
            waiting = []
    yield from waiting


def play(model: Model, stream: Iterable[Event], block: int = BLOCK) -> Iterator[tuple[int, Any]]:
    """Predict each instance when it arrives, learn each label when it arrives; yield (i, prediction).

    The x of an instance is kept until its label comes. Events between which nothing is learned, or each learned right
    after its own arrival, go to the model as one block of at most `block` rows: the predictions are those of one by
    one.

    >>> from hedgerow import OnlineTransferClassifier
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> clf = OnlineTransferClassifier("pa").fit(X, y)
    >>> [i for i, prediction in play(clf, late(events(zip(X, y)), 2))]
    [0, 1, 2, 3]
    """
    kept: dict[int, Any] = {}
    for steps in _blocks(stream, block):
        if isinstance(steps[0], Label):
            X = _stacked([kept.pop(label.i) for label in steps])
            model.partial_fit(X, _column([label.y for label in steps if isinstance(label, Label)]))
            continue
        arrivals = [step for step in steps if isinstance(step, Arrival)]
        labels = {step.i: step.y for step in steps if isinstance(step, Label)}
        X = _stacked([a.x for a in arrivals])
        kept |= {a.i: a.x for a in arrivals if a.i not in labels}
        if labels:
            predictions = model.predict_then_learn(X, _column([labels.get(a.i) for a in arrivals]))
        else:
            predictions = model.predict(X)
        yield from zip((a.i for a in arrivals), predictions, strict=True)


def _blocks(stream: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """Events that can go together: arrivals, some with their own label right behind; or labels of earlier arrivals."""
    held: list[Event] = []
    arrivals = 0
    for event in stream:
        own = isinstance(event, Label) and bool(held) and isinstance(held[-1], Arrival) and held[-1].i == event.i
        of_arrivals = isinstance(event, Arrival) or own
        full = arrivals == size or len(held) == 2 * size
        if held and not own and (full or of_arrivals != isinstance(held[0], Arrival)):
            yield held
            held, arrivals = [], 0
        held.append(event)
        arrivals += isinstance(event, Arrival)
    if held:
        yield held


def _stacked(rows: list[Any]) -> Matrix:
    if is_sparse(rows[0]):
        import scipy.sparse as sp

        return sp.vstack(rows, format="csr")
    return np.vstack(rows)


def _column(labels: list[Any]) -> Array:
    """Labels as they are, whatever they are: numpy must not turn a None among them into something else."""
    column = np.empty(len(labels), dtype=object)
    column[:] = labels
    return column


def _check_whole(name: str, value: int, least: int) -> None:
    if value != int(value) or value < least:
        raise InputError(f"{name}={value}: must be a whole number, at least {least}")
