"""A stream as a model sees it: predict, then learn; labels at once, late, in batches or never.

    events(zip(X, y))        Arrival 0, Label 0, Arrival 1, Label 1, ..
    late(.., rounds=D)       the label of instance i comes after the arrival of instance i + D
    missing(.., rate=p)      a label is given up, with probability p: Label(i, None) in its place
    batches(.., size=B)      labels wait until B of them are there

An adaptor takes events and gives events, so they compose in any order: `missing(late(events(pairs), 50), 0.1)`. What
the stream's end finds waiting is handed out then: every label, or that it is given up, arrives exactly once. `play`
runs a model over events; a prediction is made when its instance arrives and is never taken back. `cut` makes blocks
of a stream whose labels come at once. Blocks of rows go to the one loop, `run`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Protocol

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import InputError
from hedgerow.learner import BLOCK

CHECKPOINTS = 40  # points of a curve in a results file


class OnlineModel(Protocol):
    """What the loop needs of a model."""

    def predict(self, X: Matrix) -> Array:
        """Predictions by the model as it is."""
        ...

    def partial_fit(self, X: Matrix, y: Any) -> Any:
        """Learn rows in order."""
        ...

    def predict_then_learn(self, X: Matrix, y: Any) -> Array:
        """Predictions made before each label was learned; a missing label is not learned."""
        ...


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a stream that go to the model in one call; `numbers` are their places in the stream.

    With labels `y` the rows are learned, one missing label aside; `arriving` rows are predicted first. Rows whose
    label comes late arrive in one block without labels and are learned in a later one that is not `arriving`.
    """

    numbers: Sequence[int]
    X: Matrix
    y: Any = None
    arriving: bool = True


def run(model: OnlineModel, blocks: Iterable[Block]) -> Iterator[tuple[Block, Array | None, float]]:
    """Give a model one block after the other; yield each with its predictions, None where no row of it arrived.

    The number is the model's seconds so far: the clock runs while it works, not while others look at it.
    """
    seconds = 0.0
    for block in blocks:
        predictions = None
        began = time.perf_counter()
        if not block.arriving:
            model.partial_fit(block.X, block.y)
        elif block.y is None:
            predictions = model.predict(block.X)
        else:
            predictions = model.predict_then_learn(block.X, block.y)
        seconds += time.perf_counter() - began
        yield block, predictions, seconds


# -- labels at once ---------------------------------------------------------------------------------------------


def cut(X: Matrix, y: Any, ends: Sequence[int]) -> Iterator[Block]:
    """A stream whose labels come at once as blocks up to each of the `ends`, where a caller of `run` may look.

    >>> [(block.numbers, block.y) for block in cut(np.eye(3), np.array([0, 1, 0]), [2, 3])]
    [(range(0, 2), array([0, 1])), (range(2, 3), array([0]))]
    """
    for start, end in pairwise([0, *ends]):
        yield Block(range(start, end), X[start:end], y[start:end])


def evenly(n: int, count: int = CHECKPOINTS) -> list[int]:
    """`count` places spread evenly over n instances, fewer where there are fewer instances.

    >>> evenly(10, 4), evenly(2, 4)
    ([2, 5, 7, 10], [1, 2])
    """
    places: list[int] = np.unique(np.linspace(0, n, count + 1).astype(int))[1:].tolist()
    return places


# -- labels as events -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arrival:
    """Instance number i is here: predict it."""

    i: int
    x: Any


@dataclass(frozen=True)
class Label:
    """The label of instance i is here: learn it. None says that it will never come."""

    i: int
    y: Any


Event = Arrival | Label


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
    """Each label is given up with probability `rate`: None comes in its place, when it would have come.

    Whether label i is lost depends on the seed and i alone: not on the other adaptors, and what is lost at a low rate
    is lost at every higher one.

    >>> sum(isinstance(e, Label) and e.y is not None for e in missing(events(zip(range(1000), range(1000))), 0.9))
    104
    """
    if not 0 <= rate <= 1:
        raise InputError(f"rate={rate}: the share of missing labels must be in [0, 1]")
    for event in stream:
        lost = isinstance(event, Label) and np.random.default_rng([seed, event.i]).random() < rate
        yield Label(event.i, None) if lost else event


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


def play(model: OnlineModel, stream: Iterable[Event], size: int = BLOCK) -> Iterator[tuple[int, Any]]:
    """Predict each instance when it arrives, learn each label when it arrives; yield (i, prediction).

    >>> from hedgerow import OnlineTransferClassifier
    >>> X, y = np.eye(4), [0, 1, 0, 1]
    >>> clf = OnlineTransferClassifier("pa").fit(X, y)
    >>> [i for i, prediction in play(clf, late(events(zip(X, y)), 2))]
    [0, 1, 2, 3]
    """
    for block, predictions, _ in run(model, blocks(stream, size)):
        if predictions is not None:
            yield from zip(block.numbers, predictions, strict=True)


def blocks(stream: Iterable[Event], size: int = BLOCK) -> Iterator[Block]:
    """Events as blocks of at most `size` rows for the model, which predicts the same as if they came one by one.

    Together go arrivals whose own labels come right behind them, or of which none does; and labels of earlier arrivals.
    The x of an instance is kept until its label comes, or is given up.
    """
    kept: dict[int, Any] = {}
    for group in _grouped(stream, size):
        arrivals = [event for event in group if isinstance(event, Arrival)]
        labels = {event.i: event.y for event in group if isinstance(event, Label)}
        if not arrivals:
            rows = [kept.pop(i) for i in labels]
            yield Block(list(labels), _stacked(rows), _column(list(labels.values())), arriving=False)
            continue
        kept |= {arrival.i: arrival.x for arrival in arrivals if arrival.i not in labels}
        for known, some in groupby(zip(arrivals, (arrival.i in labels for arrival in arrivals), strict=True), _second):
            part = [arrival for arrival, _ in some]
            numbers, X = [arrival.i for arrival in part], _stacked([arrival.x for arrival in part])
            yield Block(numbers, X, _column([labels[i] for i in numbers]) if known else None)


def _second(pair: tuple[Arrival, bool]) -> bool:
    return pair[1]


def _grouped(stream: Iterable[Event], size: int) -> Iterator[list[Event]]:
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
