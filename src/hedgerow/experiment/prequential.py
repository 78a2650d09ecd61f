"""Predict, then learn: the one loop that every run over a stream goes through.

`run` hands blocks of rows to a model and keeps the time. `prequential` cuts a stream whose labels come at once into
such blocks and counts mistakes; `hedgerow.study.label_events` makes blocks of streams whose labels come late or never.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.labels import as_labels, is_missing

EVERY = 25  # instances between checkpoints
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


@dataclass(frozen=True, eq=False)
class Step:
    """What came of a block: predictions of the rows that arrived, and the model's seconds so far in this run."""

    block: Block
    predictions: Array | None
    seconds: float


def run(model: OnlineModel, blocks: Iterable[Block]) -> Iterator[Step]:
    """Give a model one block after the other. The clock runs while the model works, not while others look at it."""
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
        yield Step(block, predictions, seconds)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run stands: counts from the start of this stream, and the predictions since the last checkpoint.

    `seconds` is the time spent predicting and learning, without the time it takes to look at the model.
    """

    seen: int
    labelled: int
    mistakes: int
    predictions: Array
    seconds: float


def prequential(model: OnlineModel, X: Matrix, y: Any, ends: Sequence[int] | None = None) -> Iterator[Checkpoint]:
    """Run a fitted model over a stream; yield after each of the `ends`, where the caller may look at the model.

    Without `ends`, that is every 25 instances. A missing label is neither learned nor counted.

    >>> from hedgerow import OnlineTransferClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 4)); y = (X[:, 0] > 0).astype(int)
    >>> clf = OnlineTransferClassifier(method="homotlms").fit(X[:50], y[:50])
    >>> [(c.seen, len(clf.weights_)) for c in prequential(clf, X[50:], y[50:])]
    [(25, 2), (40, 2)]
    """
    labels = as_labels(y, "y", X.shape[0])
    places = every(len(labels), EVERY) if ends is None else list(ends)
    if places and (np.diff([0, *places]).min() < 1 or places[-1] > len(labels)):
        raise InputError(f"checkpoints at {places} of {len(labels)} instances: they must rise, from 1 to the last")
    known = ~is_missing(labels)
    labelled = mistakes = 0
    for step in run(model, _cut(X, labels, places)):
        here = slice(step.block.numbers[0], step.block.numbers[-1] + 1)
        wrong = np.asarray(step.predictions != labels[here], dtype=bool) & known[here]
        labelled, mistakes = labelled + int(known[here].sum()), mistakes + int(wrong.sum())
        assert step.predictions is not None
        yield Checkpoint(here.stop, labelled, mistakes, step.predictions, step.seconds)


def _cut(X: Matrix, y: Array, ends: Sequence[int]) -> Iterator[Block]:
    for start, end in zip([0, *ends], ends, strict=False):
        yield Block(range(start, end), X[start:end], y[start:end])


def every(n: int, step: int) -> list[int]:
    """Ends of the chunks when n instances are looked at after every `step` of them, and at the last.

    >>> every(60, 25)
    [25, 50, 60]
    """
    if step < 1:
        raise InputError(f"every={step}: the number of instances between checkpoints must be at least 1")
    return [min(start + step, n) for start in range(0, n, step)]


def evenly(n: int, count: int = CHECKPOINTS) -> list[int]:
    """`count` places spread evenly over n instances, fewer where there are fewer instances.

    >>> evenly(10, 4), evenly(2, 4)
    ([2, 5, 7, 10], [1, 2])
    """
    places: list[int] = np.unique(np.linspace(0, n, count + 1).astype(int))[1:].tolist()
    return places
