"""Whether probabilities mean what they say: Brier score, log-loss, and confidence against how often it was right.

| measure  | of the probabilities p of a row and its class y            | best |
|----------|------------------------------------------------------------|------|
| Brier    | sum_k (p_k - [k = y])^2, mean over the rows                 | 0    |
| log-loss | -ln max(p_y, 1e-6), mean over the rows                      | 0    |
| ECE      | |share right - mean confidence| of ten bins, mean over rows | 0    |

The confidence of a prediction is its largest probability. A class that was not known when a row was predicted has
probability 0; the floor of the log-loss keeps one such row from drowning all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array

BINS = 10
FLOOR = 1e-6


def brier(p: Array, codes: Array) -> float:
    """The mean squared distance between the probabilities (a column a class) and what came.

    >>> brier(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]))
    0.25
    """
    came = np.zeros_like(p)
    came[np.arange(len(codes)), codes] = 1.0
    return float(((p - came) ** 2).sum(axis=1).mean())


def log_loss(p: Array, codes: Array) -> float:
    """The mean of -ln of the probability of the class that came, which counts as at least 1e-6.

    >>> round(log_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])), 3)
    7.254
    """
    own = p[np.arange(len(codes)), codes]
    return float(-np.log(np.maximum(own, FLOOR)).mean())


@dataclass(frozen=True)
class Reliability:
    """Predictions in bins of confidence: how many, the sum of their confidences, how many were right."""

    count: Array
    confidence: Array
    right: Array

    @classmethod
    def of(cls, p: Array, codes: Array) -> Reliability:
        """The bins of these probabilities.

        >>> Reliability.of(np.array([[0.95, 0.05], [0.45, 0.55]]), np.array([0, 0])).right.tolist()
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        """
        sure, right = p.max(axis=1), p.argmax(axis=1) == codes
        bins = np.minimum((sure * BINS).astype(int), BINS - 1)
        return cls(
            np.bincount(bins, minlength=BINS),
            np.bincount(bins, weights=sure, minlength=BINS),
            np.bincount(bins[right], minlength=BINS),
        )

    @classmethod
    def pooled(cls, parts: Iterable[Reliability]) -> Reliability:
        """The bins of several runs together."""
        every = list(parts)
        return cls(*(np.sum([getattr(part, name) for part in every], axis=0) for name in cls.__dataclass_fields__))

    @property
    def error(self) -> float:
        """The expected calibration error.

        >>> Reliability.of(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])).error
        0.25
        """
        return float(np.abs(self.right - self.confidence).sum() / max(self.count.sum(), 1))
