"""What a mixer is: a state, weights over experts that follow from it, and a guarantee."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import unknown

State = dict[str, Array]  # the mixer's part of a learner's state


class Mixed(NamedTuple):
    """A block of combined predictions: scores B x K, weights B x N used for them, losses B x N suffered after them.

    `expert_predictions` (B x N) are the classes that the experts name, each for itself.
    """

    scores: Array
    weights: Array
    losses: Array
    expert_predictions: Array


class Mixer(ABC):
    """Weights over N experts; subclasses say what the loss, the advice, the weights and the guarantee are.

    The state is a flat dict of named arrays, made by `start` and changed in place by `run` only; it lives among a
    learner's own arrays. `seen` is the number of labels learned before.
    """

    @abstractmethod
    def losses(self, F: Array, y: Array) -> Array:
        """Loss of each expert (B x N, never negative); zero where the label is missing (y < 0).

        A label y >= K is one that no expert could have named.
        """

    @abstractmethod
    def advice(self, F: Array) -> Array:
        """What is averaged (B x N x K)."""

    @abstractmethod
    def weights(self, state: State, seen: int) -> Array:
        """Normalised weights (N) for the next row."""

    @abstractmethod
    def bound(self, state: State, seen: int) -> float:
        """The guarantee for what was observed so far."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What `bound` bounds, in words."""

    @abstractmethod
    def _weigh(self, state: State, labels: Array, losses: Array) -> Array:
        """Weights before each row (B x N), `labels` having been learned by then; the state learns the losses."""

    def start(self, n: int) -> State:
        """The state before the first label: every mixer keeps L_e, each expert's loss so far."""
        return {"expert_loss": np.zeros(n)}

    def combine(self, state: State, seen: int, F: Array) -> Array:
        """Scores of rows that are only predicted (B x K): all by the weights so far (Eq. 6; Alg. 1, line 4)."""
        return np.asarray(np.einsum("n,bnk->bk", self.weights(state, seen), self.advice(F)))

    def run(self, state: State, seen: int, F: Array, y: Array) -> Mixed:
        """A block of rows, each predicted (Eq. 6) by what was learned before it; then all labels are learned.

        A row without a label (y < 0) is only predicted: it changes nothing.
        """
        losses = self.losses(F, y)
        labels = seen + np.cumsum(y >= 0) - (y >= 0)
        p = self._weigh(state, labels, losses)
        return Mixed(np.einsum("bn,bnk->bk", p, self.advice(F)), p, losses, F.argmax(axis=2))

    def probabilities(self, scores: Array) -> Array:
        """Combined scores as probabilities: their softmax, or themselves where they are on the simplex."""
        return softmax(scores)


class Exponential(Mixer):
    """Weights exp(-eta_t L_e) with a rate that does not depend on the losses: a block is one running sum."""

    @abstractmethod
    def rates(self, seen: Array, n: int) -> Array:
        """eta for each row, `seen` labels having been learned before it."""

    def weights(self, state: State, seen: int) -> Array:
        """exp(-eta L_e)/sum."""
        loss = state["expert_loss"]
        return np.asarray(softmax(-self.rates(np.array([seen]), len(loss)) * loss))

    def _weigh(self, state: State, labels: Array, losses: Array) -> Array:
        total = so_far(state["expert_loss"], losses)
        state["expert_loss"][:] = total[-1]
        return softmax(-self.rates(labels, losses.shape[1])[:, None] * total[:-1])


class Stepwise(Mixer):
    """Weights that follow from a state of the mixer's own, label by label.

    A row in which all experts suffer the same changes nothing, so only the other rows are steps.
    """

    @abstractmethod
    def learn(self, state: State, p: Array, loss: Array) -> None:
        """One step: the weights p that were used, and the experts' losses (N); `expert_loss` is still that before."""

    def _weigh(self, state: State, labels: Array, losses: Array) -> Array:
        total = so_far(state["expert_loss"], losses)
        out, now, start = np.empty_like(losses), self.weights(state, 0), 0
        for t in np.flatnonzero(losses.max(axis=1) > losses.min(axis=1)).tolist():
            out[start : t + 1] = now
            state["expert_loss"][:] = total[t]
            self.learn(state, now, losses[t])
            state["expert_loss"][:] = total[t + 1]
            now, start = self.weights(state, 0), t + 1
        out[start:] = now
        state["expert_loss"][:] = total[-1]
        return out


class Mistakes(Mixer):
    """Experts that pay one for a mistake; their scores are summed, or their votes are counted."""

    combination: str  # "scores" or "vote"

    def losses(self, F: Array, y: Array) -> Array:
        """[argmax f_e != y]: z and r of Sec. 3.4."""
        wrong = (F.argmax(axis=2) != y[:, None]) & (y >= 0)[:, None]
        return np.asarray(wrong, dtype=np.float64)

    def advice(self, F: Array) -> Array:
        """The scores, or one vote for each expert's own prediction."""
        return F if self.combination == "scores" else votes(F)

    def probabilities(self, scores: Array) -> Array:
        """Shares of the vote are probabilities already."""
        return scores if self.combination == "vote" else softmax(scores)

    @property
    def guarantee(self) -> str:
        """A weighted vote has a bound on its mistakes; summed scores only on the mixer's own weighted loss."""
        own = f"{type(self).__name__}'s weighted loss, not the mistakes"
        return "mistakes of the vote" if self.combination == "vote" else own

    def __post_init__(self) -> None:
        if self.combination not in ("scores", "vote"):
            raise unknown("combine", self.combination, ("scores", "vote"))

    def _on_mistakes(self, weighted: float) -> float:
        """A bound on the weighted loss, for votes made one on mistakes: at a mistake half of the weight errs."""
        return 2 * weighted if self.combination == "vote" else weighted


def so_far(loss: Array, losses: Array) -> Array:
    """Sums before each row and after the last (B + 1 x N), added row by row: cutting into blocks changes no bit."""
    return np.cumsum(np.vstack([loss, losses]), axis=0)


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
