"""Predictions with their reasons: of one row, and of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.learners.base import OnlineLearner, Trace


class Explanation(NamedTuple):
    """One prediction with its reasons: label, probabilities by label, and each expert's own label and weight."""

    label: Any
    probabilities: dict[Any, float]
    votes: dict[str, Any]
    weights: dict[str, float]


class Explanations:
    """The predictions of a block, each made before its label was learned, with their reasons; a row an instance.

    `classes` are those known at the end of the block: one met within it has probability 0 until then.
    """

    def __init__(self, classes: Array, traces: Sequence[Trace], learner: OnlineLearner) -> None:
        self.classes, self._traces, self._learner = classes, traces, learner

    @property
    def codes(self) -> Array:
        """The place of each prediction in `classes`."""
        return np.concatenate([trace.predictions for trace in self._traces] or [np.empty(0, dtype=np.int64)])

    @property
    def labels(self) -> Array:
        """The predictions."""
        return np.asarray(self.classes[self.codes])

    @property
    def probabilities(self) -> Array:
        """A column a class."""
        parts = [self._learner.probabilities(trace.scores) for trace in self._traces]
        K = len(self.classes)
        padded = [np.pad(part, [(0, 0), (0, K - part.shape[1])]) if part.shape[1] < K else part for part in parts]
        return np.concatenate(padded) if padded else np.empty((0, K))

    @property
    def votes(self) -> Array:
        """The place in `classes` of what each expert says; a column an expert."""
        return np.concatenate([t.votes for t in self._traces] or [np.empty((0, len(self._learner.expert_names)), int)])

    @property
    def weights(self) -> Array:
        """Who was trusted; a column an expert."""
        return np.concatenate([t.weights for t in self._traces] or [np.empty((0, len(self._learner.expert_names)))])
