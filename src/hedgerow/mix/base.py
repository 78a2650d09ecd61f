"""What a mixer is: weights exp(-eta_t L_e) over experts, as one running sum over a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import Array


@dataclass(frozen=True)
class Mixed:
    """A block of combined predictions: scores B x K, weights B x N used for them, losses B x N suffered after them."""

    scores: Array
    weights: Array
    losses: Array


class Mixer(ABC):
    """Weights exp(-eta_t L_e) over N experts; subclasses say what the loss, the advice and the rate are."""

    @abstractmethod
    def losses(self, F: Array, y: Array) -> Array:
        """Loss of each expert (B x N, never negative); zero where the label is missing (y < 0).

        A label y >= K is one that no expert could have named.
        """

    @abstractmethod
    def advice(self, F: Array) -> Array:
        """What is averaged (B x N x K)."""

    @abstractmethod
    def rates(self, seen: Array, n: int) -> Array:
        """eta for each row, `seen` labels having been learned before it."""

    @abstractmethod
    def bound(self, loss: Array, seen: int) -> float:
        """The guarantee, as a function of the experts' losses so far."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What `bound` bounds, in words."""

    def weights(self, loss: Array, seen: Array) -> Array:
        """Normalised weights (B x N) for losses so far (B x N)."""
        log_w = -self.rates(seen, loss.shape[1])[:, None] * loss
        w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        return np.asarray(w / w.sum(axis=1, keepdims=True))

    def combine(self, loss: Array, seen: int, F: Array) -> Array:
        """Scores of rows that are only predicted (B x K): all by the weights so far."""
        p = self.weights(loss[None], np.array([seen]))[0]
        return np.asarray(np.einsum("n,bnk->bk", p, self.advice(F)))

    def run(self, loss: Array, seen: int, F: Array, y: Array) -> Mixed:
        """A block of rows, each predicted by the losses before it."""
        losses = self.losses(F, y)
        before = np.cumsum(np.vstack([loss, losses]), axis=0)[:-1]
        labels = seen + np.concatenate([[0], np.cumsum(y >= 0)[:-1]])
        p = self.weights(before, labels)
        return Mixed(np.einsum("bn,bnk->bk", p, self.advice(F)), p, losses)

    def probabilities(self, scores: Array) -> Array:
        """Combined scores as probabilities: their softmax, or themselves where they are on the simplex."""
        return softmax(scores)


def votes(F: Array) -> Array:
    """One-hot of each expert's own prediction; ties go to the lowest class."""
    out = np.zeros_like(F)
    np.put_along_axis(out, F.argmax(axis=-1)[..., None], 1.0, axis=-1)
    return out


def softmax(F: Array) -> Array:
    """exp(f_k)/sum exp(f), safe for large scores.

    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    e = np.exp(F - F.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def simplex_projection(F: Array) -> Array:
    """The nearest point of the simplex, max(f - theta, 0) with the theta that makes it sum to one.

    >>> simplex_projection(np.array([2.0, 0.5, 0.0])), simplex_projection(np.array([0.3, -0.3]))
    (array([1., 0., 0.]), array([0.8, 0.2]))
    """
    ordered = np.sort(F, axis=-1)[..., ::-1]
    excess = np.cumsum(ordered, axis=-1) - 1
    inside = ordered * np.arange(1, F.shape[-1] + 1) > excess
    last = inside.sum(axis=-1, keepdims=True)
    theta = np.take_along_axis(excess, last - 1, axis=-1) / last
    return np.asarray(np.maximum(F - theta, 0))
