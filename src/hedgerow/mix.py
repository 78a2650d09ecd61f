"""Mixers: how the experts' scores become one prediction, who is trusted how much, and what can be guaranteed.

All mixers here keep one number an expert, its loss so far L_e, and weigh it by exp(-eta_t L_e). The losses do not
depend on the weights, so a block of instances is a running sum and one product: no loop.

| mixer       | loss of expert e                             | averaged advice               | eta                    |
|-------------|----------------------------------------------|-------------------------------|------------------------|
| `Hedge`     | [yhat_e != y]                                | scores f_e, or votes          | ln(1/beta), or anytime |
| `LossBased` | 1/2 |q_e - e_y|^2 (HomOTL-I), or of a margin | q_e on the simplex, or scores | 1/2                    |
| `LogLoss`   | -ln q_{e,y}, q_e = softmax(c f_e)            | q_e on the simplex            | 1                      |
| `Single`    | [yhat != y]                                  | scores of the only expert     | -                      |

Anytime Hedge is the horizon rule with the labels so far in place of T: beta_t = sqrt t/(sqrt t + sqrt ln N) in round t.
For any non-increasing rate the weighted loss is at most M_min + ln N/eta_T + sum_t eta_t/8 (Györfi and Ottucsák 2007),
which is here at most M_min + 5/4 sqrt(T ln N) + ln N.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import Array
from hedgerow.errors import InputError, unknown

COMBINE = ("scores", "vote", "simplex")
LOSSES = ("projection", "softmax", "margin")
GUARANTEES = ("proved", "theorem")
LEAST_PROBABILITY = 1e-12  # keeps a log-loss finite


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


@dataclass(frozen=True)
class Hedge(Mixer):
    """Freund and Schapire 1997 on mistakes: w_e = beta^{mistakes of e}. `beta=None` is the anytime rule.

    >>> F = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> Hedge(beta=0.5).run(np.array([0.0, 1.0]), 1, F, np.array([0])).weights.round(3)
    array([[0.667, 0.333]])
    """

    beta: float | None = None
    combination: str = "scores"
    proof: str = "proved"

    def __post_init__(self) -> None:
        if self.beta is not None and not 0 < self.beta < 1:
            raise InputError(f"beta={self.beta}: the discount must be between 0 and 1 (exclusive)")
        if self.combination not in ("scores", "vote"):
            raise unknown("combine", self.combination, ("scores", "vote"))
        if self.proof not in GUARANTEES:
            raise unknown("guarantee", self.proof, GUARANTEES)

    def losses(self, F: Array, y: Array) -> Array:
        """[argmax f_e != y]."""
        wrong = (F.argmax(axis=2) != y[:, None]) & (y >= 0)[:, None]
        return np.asarray(wrong, dtype=np.float64)

    def advice(self, F: Array) -> Array:
        """The scores, or one vote for each expert's own prediction."""
        return F if self.combination == "scores" else votes(F)

    def rates(self, seen: Array, n: int) -> Array:
        """ln(1/beta), or ln(1 + sqrt(ln N / t)) in round t = seen + 1."""
        if self.beta is not None:
            return np.full(len(seen), math.log(1 / self.beta))
        return np.log1p(np.sqrt(math.log(max(n, 1)) / (seen + 1.0)))

    def bound(self, loss: Array, seen: int) -> float:
        """See `guarantee`. With beta: (M_min ln(1/beta) + ln N)/(1 - beta), for votes over ln(2/(1 + beta));
        anytime: M_min + 5/4 sqrt(T ln N) + ln N, for votes twice that.

        >>> round(Hedge(beta=0.5).bound(np.array([3.0, 9.0]), 20), 3)
        5.545
        """
        best, log_n = float(loss.min()), math.log(len(loss))
        if self.proof == "theorem":
            return best + 1.5 * math.sqrt(log_n * best) + log_n
        if self.beta is None:
            weighted = best + 1.25 * math.sqrt(seen * log_n) + log_n
            return 2 * weighted if self.combination == "vote" else weighted
        per_loss = math.log(2 / (1 + self.beta)) if self.combination == "vote" else 1 - self.beta
        return (best * math.log(1 / self.beta) + log_n) / per_loss

    @property
    def guarantee(self) -> str:
        """A weighted vote has a bound on its mistakes; summed scores only on Hedge's own weighted loss."""
        if self.proof == "theorem":
            return "the paper's Theorem 1 on mistakes, as printed (not proved for summed scores)"
        return "mistakes of the vote" if self.combination == "vote" else "Hedge's weighted loss, not the mistakes"

    def probabilities(self, scores: Array) -> Array:
        """Shares of the vote are probabilities already."""
        return scores if self.combination == "vote" else softmax(scores)


@dataclass(frozen=True)
class LossBased(Mixer):
    """HomOTL-I's weights (Zhao, Hoi, Wang, Li 2014) for any number of classes.

    q_e is the Euclidean projection of f_e onto the simplex, the loss 1/2 |q_e - e_y|^2. With two classes q is
    Pi(f) = clip((f + 1)/2, 0, 1) of the score difference and the loss (Pi(f) - Pi(y))^2: the original, exactly.
    `loss="softmax"` takes q = softmax(f); `loss="margin"` the original's loss of the margin f_y - max f_s.

    >>> LossBased().losses(np.array([[[0.0, 1.0]]]), np.array([1]))
    array([[0.]])
    """

    eta: float = 0.5
    loss: str = "projection"
    combination: str = "simplex"

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise unknown("loss", self.loss, LOSSES)
        if not self.eta > 0:
            raise InputError(f"eta={self.eta}: the learning rate must be positive")
        if self.combination not in COMBINE:
            raise unknown("combine", self.combination, COMBINE)

    def losses(self, F: Array, y: Array) -> Array:
        """1/2 |q - e_y|^2, or (Pi(margin) - 1)^2."""
        K = F.shape[2]
        known = np.where((y >= 0) & (y < K), y, 0)
        if self.loss == "margin":
            own = np.take_along_axis(F, known[:, None, None], axis=2)[:, :, 0]
            rivals = F.copy()
            np.put_along_axis(rivals, np.broadcast_to(known[:, None, None], (*F.shape[:2], 1)), -np.inf, axis=2)
            margin = np.clip((own - rivals.max(axis=2) + 1) / 2, 0, 1)
            out = np.where((y < K)[:, None], (margin - 1) ** 2, 1.0)
        else:
            q = self._simplex(F)
            own = np.take_along_axis(q, known[:, None, None], axis=2)[:, :, 0] * (y < K)[:, None]
            out = 0.5 * ((q * q).sum(axis=2) - 2 * own + 1)
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def advice(self, F: Array) -> Array:
        """Points of the simplex, or scores, or votes."""
        if self.combination == "simplex":
            return self._simplex(F)
        return F if self.combination == "scores" else votes(F)

    def rates(self, seen: Array, n: int) -> Array:
        """eta, always."""
        return np.full(len(seen), self.eta)

    def bound(self, loss: Array, seen: int) -> float:
        """4 min_e L_e + 8 ln N for eta = 1/2 and averaged simplex points; otherwise nothing is known.

        >>> LossBased().bound(np.array([2.0]), 10)
        8.0
        """
        proved = self.combination == "simplex" and self.loss != "margin" and self.eta == 0.5
        return 4 * float(loss.min()) + 8 * math.log(len(loss)) if proved else math.inf

    @property
    def guarantee(self) -> str:
        """The mistakes of the averaged simplex points."""
        proved = self.combination == "simplex" and self.loss != "margin" and self.eta == 0.5
        return "mistakes" if proved else "none is known for this combination"

    def probabilities(self, scores: Array) -> Array:
        """Averaged simplex points and votes are probabilities already."""
        return softmax(scores) if self.combination == "scores" else scores

    def _simplex(self, F: Array) -> Array:
        return softmax(F) if self.loss == "softmax" else simplex_projection(F)


@dataclass(frozen=True)
class LogLoss(Mixer):
    """The Bayes mixture: w_e = prod_t q_{e,t}(y_t), q_e = softmax(c f_e). A mistake costs at least ln 2.

    >>> LogLoss().run(np.zeros(2), 0, np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([0])).losses.round(3)
    array([[0.313, 1.313]])
    """

    temperature: float = 1.0

    def losses(self, F: Array, y: Array) -> Array:
        """-ln q_y; for a class that nobody knew the same large number for all."""
        K = F.shape[2]
        known = np.where((y >= 0) & (y < K), y, 0)
        own = np.take_along_axis(self.advice(F), known[:, None, None], axis=2)[:, :, 0]
        out = -np.log(np.maximum(np.where((y < K)[:, None], own, 0.0), LEAST_PROBABILITY))
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def advice(self, F: Array) -> Array:
        """Each expert's probabilities."""
        return softmax(self.temperature * F)

    def rates(self, seen: Array, n: int) -> Array:
        """One: Bayes' rule."""
        return np.ones(len(seen))

    def bound(self, loss: Array, seen: int) -> float:
        """(min_e L_e + ln N)/ln 2.

        >>> round(LogLoss().bound(np.array([2.0, 3.0]), 9), 3)
        3.885
        """
        return (float(loss.min()) + math.log(len(loss))) / math.log(2)

    @property
    def guarantee(self) -> str:
        """The mistakes of the mixture."""
        return "mistakes"

    def probabilities(self, scores: Array) -> Array:
        """A mixture of probabilities is one."""
        return scores


@dataclass(frozen=True)
class Single(Hedge):
    """One expert, nothing to mix: its scores are the prediction, and its mistakes the bound.

    >>> Single().bound(np.array([7.0]), 20)
    7.0
    """

    def bound(self, loss: Array, seen: int) -> float:
        """The mistakes so far: there is no better expert to compare with."""
        return float(loss.min())

    @property
    def guarantee(self) -> str:
        """Trivial."""
        return "mistakes (the only expert's own)"


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


def horizon_beta(horizon: float, experts: float) -> float:
    """sqrt T/(sqrt T + sqrt ln N), the discount tuned for a stream of T labels and N experts.

    >>> round(horizon_beta(110, 2), 4)
    0.9265
    """
    if not horizon > 0:
        raise InputError(f"horizon={horizon}: the expected length of the stream must be positive")
    return math.sqrt(horizon) / (math.sqrt(horizon) + math.sqrt(math.log(experts)))
