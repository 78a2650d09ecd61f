"""Test, then train: the loop that every evaluation folds over.

What the stream does to its labels (delay, gaps, drift) belongs to whoever makes X and y, not to this loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.labels import as_labels, is_missing

EVERY = 25  # instances between checkpoints


class OnlineModel(Protocol):
    """What the loop needs of a model."""

    @property
    def weights_(self) -> Array:
        """One weight an expert."""
        ...

    @property
    def discrepancy_(self) -> Array:
        """One distance a source."""
        ...

    def predict_then_learn(self, X: Matrix, y: Any) -> Array:
        """Predictions made before each label was learned."""
        ...


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands after a chunk; counts are from the start of this stream.

    `seconds` is the time spent predicting and learning, without the time it takes to look at the model.
    """

    seen: int
    labelled: int
    mistakes: int
    predictions: Array
    weights: Array
    discrepancy: Array
    seconds: float

    @property
    def mistake_rate(self) -> float:
        """Mistakes per labelled instance so far; NaN before the first label."""
        return self.mistakes / self.labelled if self.labelled else float("nan")


def prequential(clf: OnlineModel, X: Matrix, y: Any, every: int = EVERY) -> Iterator[Checkpoint]:
    """Run a fitted model over a stream and stop by after every `every` instances. A missing label is not counted.

    >>> from hedgerow import OnlineTransferClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 4)); y = (X[:, 0] > 0).astype(int)
    >>> clf = OnlineTransferClassifier(method="homotlms").fit(X[:50], y[:50])
    >>> [(c.seen, len(c.weights)) for c in prequential(clf, X[50:], y[50:], every=25)]
    [(25, 2), (40, 2)]
    """
    if every < 1:
        raise InputError(f"every={every}: the number of instances between checkpoints must be at least 1")
    labels = as_labels(y, "y", X.shape[0])
    known = ~is_missing(labels)
    labelled = mistakes = 0
    seconds = 0.0
    for start in range(0, len(labels), every):
        rows = slice(start, start + every)
        began = time.perf_counter()
        predictions = clf.predict_then_learn(X[rows], labels[rows])
        seconds += time.perf_counter() - began
        wrong = np.asarray(predictions != labels[rows], dtype=bool) & known[rows]
        labelled, mistakes = labelled + int(known[rows].sum()), mistakes + int(wrong.sum())
        seen = min(start + every, len(labels))
        yield Checkpoint(seen, labelled, mistakes, predictions, clf.weights_, clf.discrepancy_, seconds)
