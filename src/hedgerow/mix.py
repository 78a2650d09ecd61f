"""Mixers: how the experts' scores become one prediction, who is trusted how much, and what can be guaranteed.

The first three keep one number an expert, its loss so far L_e, and weigh it by exp(-eta_t L_e). The losses do not
depend on the weights, so a block of instances is a running sum and one product: no loop. The others keep more, and take
one step for each label about which the experts differ.

| mixer               | loss of expert e                        | averaged advice           | eta                    |
|---------------------|-----------------------------------------|---------------------------|------------------------|
| `Hedge`             | [yhat_e != y]                           | scores f_e, or votes      | ln(1/beta), or anytime |
| `LossBased`         | 1/2 |q_e - e_y|^2 (HomOTL-I), or margin | points q_e, or scores     | 1/2                    |
| `LogLoss`           | -ln q_{e,y}, q_e = softmax(c f_e)       | points q_e                | 1                      |
| `AdaHedge`          | [yhat_e != y]                           | scores f_e, or votes      | ln N/sum of the gaps   |
| `Squint`            | [yhat_e != y]                           | scores f_e, or votes      | a grid                 |
| `FixedShare`        | [yhat_e != y]                           | scores f_e, or votes      | a grid                 |
| `FixedShareLogLoss` | -ln q_{e,y}                             | points q_e                | 1                      |
| `Single`            | [yhat != y]                             | scores of the only expert | -                      |

Anytime Hedge is the horizon rule with the labels so far in place of T: beta_t = sqrt t/(sqrt t + sqrt ln N) in round t.
For any non-increasing rate the weighted loss is at most M_min + ln N/eta_T + sum_t eta_t/8 (Györfi and Ottucsák 2007),
which is here at most M_min + 5/4 sqrt(T ln N) + ln N.

To add one, subclass `Exponential` or `Stepwise` and register it: `register_mixer("mine", Mine)`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.registry import Parts

__all__ = ["MIXERS", "Exponential", "Mixed", "Mixer", "Stepwise", "register_mixer"]
__all__ += ["AdaHedge", "FixedShare", "FixedShareLogLoss", "Hedge", "LogLoss", "LossBased", "Single", "Squint"]
__all__ += ["horizon_beta", "simplex_projection", "softmax", "votes"]

State = dict[str, Array]  # the mixer's part of a learner's state


class Mixed(NamedTuple):
    """A block of combined predictions.

    Attributes
    ----------
    scores : array of shape (rows, classes)
        Combined.
    weights : array of shape (rows, experts)
        Those used for them.
    losses : array of shape (rows, experts)
        What each expert suffered after them.
    expert_predictions : array of shape (rows, experts)
        The classes that the experts name, each for itself.
    """

    scores: Array
    weights: Array
    losses: Array
    expert_predictions: Array


class Mixer(ABC):
    """Weights over N experts; subclasses say what the loss, the advice, the weights and the guarantee are.

    The state is a flat dict of named arrays, made by `start` and changed in place by `run` only; it lives among a
    learner's own arrays. `seen` is the number of labels learned before.

    `combination` says what is averaged: the experts' "scores", one "vote" for the class that each names, or "simplex",
    the `points` that scores become; those of `combinations` are allowed.
    """

    combination: str = "scores"
    combinations: tuple[str, ...] = ("scores", "vote")

    def __post_init__(self) -> None:
        if self.combination not in self.combinations:
            raise unknown("combine", self.combination, self.combinations)

    @abstractmethod
    def losses(self, F: Array, y: Array) -> Array:
        """Loss of each expert (B x N, never negative); zero where the label is missing (y < 0).

        A label y >= K is one that no expert could have named.
        """

    def advice(self, F: Array) -> Array:
        """What is averaged (B x N x K)."""
        if self.combination == "scores":
            return F
        return votes(F) if self.combination == "vote" else self.points(F)

    def points(self, F: Array) -> Array:
        """Each expert's scores as a point of the simplex."""
        return softmax(F)

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
        return softmax(scores) if self.combination == "scores" else scores


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

    def losses(self, F: Array, y: Array) -> Array:
        """[argmax f_e != y]: z and r of Sec. 3.4."""
        wrong = (F.argmax(axis=2) != y[:, None]) & (y >= 0)[:, None]
        return np.asarray(wrong, dtype=np.float64)

    @property
    def guarantee(self) -> str:
        """A weighted vote has a bound on its mistakes; summed scores only on the mixer's own weighted loss."""
        own = f"{type(self).__name__}'s weighted loss, not the mistakes"
        return "mistakes of the vote" if self.combination == "vote" else own

    def _on_mistakes(self, weighted: float) -> float:
        """A bound on the weighted loss, for votes made one on mistakes: at a mistake half of the weight errs."""
        return 2 * weighted if self.combination == "vote" else weighted


def so_far(loss: Array, losses: Array) -> Array:
    """Sums before each row and after the last (B + 1 x N), added row by row: cutting into blocks changes no bit."""
    return np.cumsum(np.vstack([loss, losses]), axis=0)


def votes(F: Array) -> Array:
    """One-hot of each expert's own prediction; ties go to the lowest class.

    Examples
    --------
    >>> votes(np.array([[0.2, 0.7, 0.7]]))
    array([[0., 1., 0.]])
    """
    out = np.zeros_like(F)
    np.put_along_axis(out, F.argmax(axis=-1)[..., None], 1.0, axis=-1)
    return out


def softmax(F: Array) -> Array:
    r"""Scores as probabilities, safe for large scores.

    .. math:: p_k = e^{f_k} \Big/ \sum_j e^{f_j}

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    e = np.exp(F - F.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def simplex_projection(F: Array) -> Array:
    r"""The nearest point of the simplex, which HomOTL-I's loss is made of.

    .. math:: q_k = \max(f_k - \theta, 0) \quad \text{with the } \theta \text{ that makes } \textstyle\sum_k q_k = 1

    References
    ----------
    J. Duchi, S. Shalev-Shwartz, Y. Singer, T. Chandra. Efficient projections onto the l1-ball. ICML, 2008.

    Examples
    --------
    >>> simplex_projection(np.array([2.0, 0.5, 0.0])), simplex_projection(np.array([0.3, -0.3]))
    (array([1., 0., 0.]), array([0.8, 0.2]))
    """
    ordered = np.sort(F, axis=-1)[..., ::-1]
    excess = np.cumsum(ordered, axis=-1) - 1
    inside = ordered * np.arange(1, F.shape[-1] + 1) > excess
    last = inside.sum(axis=-1, keepdims=True)
    theta = np.take_along_axis(excess, last - 1, axis=-1) / last
    return np.asarray(np.maximum(F - theta, 0))


# -- Hedge on mistakes (Freund and Schapire 1997), with a horizon or anytime; and the mixer of a single expert ---------

GUARANTEES = ("proved", "theorem")


@dataclass(frozen=True)
class Hedge(Mistakes, Exponential):
    r"""Hedge on mistakes: the weight of an expert falls by beta with each of its mistakes (Eq. 8, 9).

    .. math:: p_e \propto \beta^{M_e}, \qquad
        \sum_t p_t \cdot \ell_t \le \frac{M_{\min} \ln(1/\beta) + \ln N}{1 - \beta}

    Use it where one expert is best throughout; `FixedShare` follows a best expert that changes, `AdaHedge` and `Squint`
    need no beta and adapt to easy streams.

    Parameters
    ----------
    beta : float in (0, 1), optional
        The discount; None is the anytime rule, beta_t = sqrt t/(sqrt t + sqrt ln N).
    combination : {"scores", "vote"}
        What is averaged. Only the vote has a bound on its mistakes.
    proof : {"proved", "theorem"}
        Which bound is shown: what can be proved, or the paper's Eq. 14 as printed.

    Raises
    ------
    InputError
        If beta is not between 0 and 1, or a word is unknown.

    References
    ----------
    Y. Freund, R. E. Schapire. A decision-theoretic generalization of on-line learning. JCSS 55, 1997.

    Examples
    --------
    >>> mixer, F = Hedge(beta=0.5), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    >>> mixer.run(mixer.start(2), 0, F, np.array([0, 0])).weights.round(3)
    array([[0.5  , 0.5  ],
           [0.667, 0.333]])
    """

    beta: float | None = None
    combination: str = "scores"
    proof: str = "proved"

    def __post_init__(self) -> None:
        if self.beta is not None and not 0 < self.beta < 1:
            raise InputError(f"beta={self.beta}: the discount must be between 0 and 1 (exclusive)")
        super().__post_init__()
        if self.proof not in GUARANTEES:
            raise unknown("guarantee", self.proof, GUARANTEES)

    def rates(self, seen: Array, n: int) -> Array:
        """ln(1/beta), or with the anytime rule ln(1 + sqrt(ln N / t)) in round t = seen + 1."""
        if self.beta is not None:
            return np.full(len(seen), math.log(1 / self.beta))
        return np.log1p(np.sqrt(math.log(max(n, 1)) / (seen + 1.0)))

    def bound(self, state: State, seen: int) -> float:
        """See `guarantee`. With beta: (M_min ln(1/beta) + ln N)/(1 - beta) (Eq. 15), for votes over ln(2/(1 + beta));
        anytime: M_min + 5/4 sqrt(T ln N) + ln N, for votes twice that; `proof="theorem"`: Eq. 14 as printed.

        >>> round(Hedge(beta=0.5).bound({"expert_loss": np.array([3.0, 9.0])}, 20), 3)
        5.545
        """
        loss = state["expert_loss"]
        best, log_n = float(loss.min()), math.log(len(loss))
        if self.proof == "theorem":
            return best + 1.5 * math.sqrt(log_n * best) + log_n
        if self.beta is None:
            return self._on_mistakes(best + 1.25 * math.sqrt(seen * log_n) + log_n)
        per_loss = math.log(2 / (1 + self.beta)) if self.combination == "vote" else 1 - self.beta
        return (best * math.log(1 / self.beta) + log_n) / per_loss

    @property
    def guarantee(self) -> str:
        """As of every mixer on mistakes, or the paper's."""
        if self.proof == "theorem":
            return "the paper's Theorem 1 on mistakes, as printed (not proved for summed scores)"
        return super().guarantee


@dataclass(frozen=True)
class Single(Hedge):
    """One expert, nothing to mix: its scores are the prediction, and its mistakes the bound (Hedge's for N = 1).

    >>> Single().bound({"expert_loss": np.array([7.0])}, 20)
    7.0
    """

    guarantee = "mistakes (the only expert's own)"


def horizon_beta(horizon: float, experts: float) -> float:
    r"""The discount tuned for a stream of T labels and N experts (Sec. 4.3 of the paper, where N = 2).

    .. math:: \beta = \frac{\sqrt T}{\sqrt T + \sqrt{\ln N}}

    Parameters
    ----------
    horizon : float
        T, the expected number of labels.
    experts : float
        N.

    Returns
    -------
    float
        For `Hedge(beta=...)`.

    Raises
    ------
    InputError
        If the horizon is not positive.

    Examples
    --------
    >>> round(horizon_beta(110, 2), 4)
    0.9265
    """
    if not horizon > 0:
        raise InputError(f"horizon={horizon}: the expected length of the stream must be positive")
    return math.sqrt(horizon) / (math.sqrt(horizon) + math.sqrt(math.log(experts)))


# -- points of the simplex: the loss-based weights of HomOTL-I, and the Bayes mixture ----------------------------------

LOSSES = ("projection", "softmax", "margin")
LEAST_PROBABILITY = 1e-12  # keeps a log-loss finite


@dataclass(frozen=True)
class LossBased(Exponential):
    """HomOTL-I's weights (Zhao, Hoi, Wang, Li 2014) for any number of classes.

    q_e is the Euclidean projection of f_e onto the simplex, the loss 1/2 |q_e - e_y|^2. With two classes q is
    Pi(f) = clip((f + 1)/2, 0, 1) of the score difference and the loss (Pi(f) - Pi(y))^2: the original, exactly.

    Parameters
    ----------
    eta : float
        The learning rate; the bound is proved for 1/2.
    loss : {"projection", "softmax", "margin"}
        How scores become a loss: by the projection above, by q = softmax(f), or by the original's loss of the margin
        f_y - max f_s.
    combination : {"simplex", "scores", "vote"}
        What is averaged: the points q_e, the scores, or votes.

    References
    ----------
    P. Zhao, S. C. H. Hoi, J. Wang, B. Li. Online transfer learning. Artificial Intelligence 216, 2014.

    Examples
    --------
    >>> LossBased().losses(np.array([[[0.0, 1.0]]]), np.array([1]))
    array([[0.]])
    """

    eta: float = 0.5
    loss: str = "projection"
    combination: str = "simplex"
    combinations = ("scores", "vote", "simplex")

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise unknown("loss", self.loss, LOSSES)
        if not self.eta > 0:
            raise InputError(f"eta={self.eta}: the learning rate must be positive")
        super().__post_init__()

    def losses(self, F: Array, y: Array) -> Array:
        """1/2 |q - e_y|^2, or (Pi(margin) - 1)^2."""
        K = F.shape[2]
        if self.loss == "margin":
            rivals = np.where(np.arange(K) == y[:, None, None], -np.inf, F).max(axis=2)
            margin = np.clip((_of_label(F, y) - rivals + 1) / 2, 0, 1)
            out = np.where((y < K)[:, None], (margin - 1) ** 2, 1.0)
        else:
            q = self.points(F)
            out = 0.5 * ((q * q).sum(axis=2) - 2 * _of_label(q, y) + 1)
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def points(self, F: Array) -> Array:
        """q_e."""
        return softmax(F) if self.loss == "softmax" else simplex_projection(F)

    def rates(self, seen: Array, n: int) -> Array:
        """eta, always."""
        return np.full(len(seen), self.eta)

    def bound(self, state: State, seen: int) -> float:
        """4 min_e L_e + 8 ln N for eta = 1/2 and averaged simplex points; otherwise nothing is known.

        >>> LossBased().bound({"expert_loss": np.array([2.0])}, 10)
        8.0
        """
        loss = state["expert_loss"]
        return 4 * float(loss.min()) + 8 * math.log(len(loss)) if self._proved else math.inf

    @property
    def guarantee(self) -> str:
        """The mistakes of the averaged simplex points."""
        return "mistakes" if self._proved else "none is known for this combination"

    @property
    def _proved(self) -> bool:
        return self.combination == "simplex" and self.loss != "margin" and self.eta == 0.5


def _of_label(Q: Array, y: Array) -> Array:
    """What each expert gives the label (B x N of B x N x K); 0 for a class that it does not know, or for none."""
    known = (y >= 0) & (y < Q.shape[2])
    own = np.take_along_axis(Q, np.where(known, y, 0)[:, None, None], axis=2)[:, :, 0]
    return np.where(known[:, None], own, 0.0)


class Likelihood(Mixer):
    """Experts that pay -ln q_e(y), q_e = softmax(c f_e); their probabilities are averaged."""

    temperature: float  # c
    combination = "simplex"
    combinations = ("simplex",)

    def losses(self, F: Array, y: Array) -> Array:
        """-ln q_y; for a class that no expert knew, the same large number for every expert."""
        out = -np.log(np.maximum(_of_label(self.points(F), y), LEAST_PROBABILITY))
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def points(self, F: Array) -> Array:
        """Each expert's probabilities."""
        return softmax(self.temperature * F)


@dataclass(frozen=True)
class LogLoss(Likelihood, Exponential):
    r"""The Bayes mixture of the experts' probabilities. A mistake costs at least ln 2.

    .. math:: w_e = \prod_t q_{e,t}(y_t), \qquad q_e = \mathrm{softmax}(c f_e)

    Parameters
    ----------
    temperature : float
        c: how sure the experts' scores are taken to be.

    Examples
    --------
    >>> LogLoss().losses(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.array([0])).round(3)
    array([[0.313, 1.313]])
    """

    temperature: float = 1.0

    def rates(self, seen: Array, n: int) -> Array:
        """One: Bayes' rule."""
        return np.ones(len(seen))

    def bound(self, state: State, seen: int) -> float:
        """(min_e L_e + ln N)/ln 2.

        >>> round(LogLoss().bound({"expert_loss": np.array([2.0, 3.0])}, 9), 3)
        3.885
        """
        loss = state["expert_loss"]
        return (float(loss.min()) + math.log(len(loss))) / math.log(2)

    guarantee = "mistakes"


# -- mixers that find their own learning rate --------------------------------------------------------------------------
#
# Mixers on mistakes that find their own learning rate: AdaHedge and Squint. No horizon, no parameter.
#
# AdaHedge (de Rooij, van Erven, Grünwald, Koolen 2014): Hedge with eta = ln N / D, where D is the sum so far of the
# mixability gaps, what the weighted loss p . l lost against the mix loss -ln(p . e^{-eta l})/eta. The mix losses add up
# to at most L_min + ln N/eta = L_min + D, because eta only falls; so the weighted loss H is at most L_min + 2 D, and
#
#     H <= L_min + 2 sqrt(L_min (T - L_min)/T ln N) + 16/3 ln N + 2.
#
# Squint (Koolen, van Erven 2015): with r_e = p . l - l_e, R_e = sum r_e, V_e = sum r_e^2 and a prior pi over rates,
#
#     p_e proportional to sum_i pi_i eta_i exp(eta_i R_e - eta_i^2 V_e).
#
# Because e^{x - x^2} <= 1 + x for x >= -1/2, sum_{e,i} pi_i exp(eta_i R_e - eta_i^2 V_e)/N never grows beyond 1; so
#
#     H <= L_e + eta_i V_e + ln(N/pi_i)/eta_i     for every expert e and every rate i.
#
# The rates are 1/2, 1/4, ..., 2^-16, good for V up to 10^9, with pi_i proportional to 1/(i (i + 1)).
_PLACES = np.arange(1, 17)
RATES = 2.0**-_PLACES
RATE_PRIOR = 1 / (_PLACES * (_PLACES + 1)) / (1 / (_PLACES * (_PLACES + 1))).sum()


@dataclass(frozen=True)
class AdaHedge(Mistakes, Stepwise):
    r"""Hedge whose rate falls only as fast as the experts' losses force it to (de Rooij and others 2014).

    .. math:: \eta_t = \frac{\ln N}{\sum_{s<t} \delta_s}, \qquad
        \delta_s = p_s \cdot \ell_s + \tfrac{1}{\eta_s} \ln\big(p_s \cdot e^{-\eta_s \ell_s}\big)

    No horizon, no parameter: the regret is small where few mistakes are made.

    Parameters
    ----------
    combination : {"scores", "vote"}
        What is averaged. Only the vote has a bound on its mistakes.

    Examples
    --------
    >>> mixer, F = AdaHedge(), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    >>> mixer.run(mixer.start(2), 0, F, np.array([0, 1, 0])).weights.round(3)
    array([[0.5, 0.5],
           [0.8, 0.2],
           [0.5, 0.5]])
    """

    combination: str = "scores"

    def start(self, n: int) -> State:
        """No loss, no gap: the rate is infinite, only leaders count."""
        return super().start(n) | {"mixer.gap": np.zeros(1)}

    def weights(self, state: State, seen: int) -> Array:
        """exp(-eta L_e)/sum; while there is no gap, equal shares for those with the least loss."""
        loss, eta = state["expert_loss"], self._rate(state)
        behind = loss - loss.min()
        return softmax(np.where(behind > 0, -np.inf, 0.0) if math.isinf(eta) else -eta * behind)

    def learn(self, state: State, p: Array, loss: Array) -> None:
        """D grows by the gap p . l - m, m = softmin(L + l) - softmin(L)."""
        eta, behind = self._rate(state), state["expert_loss"] - state["expert_loss"].min()
        mix = _softmin(behind + loss, eta) - _softmin(behind, eta)
        state["mixer.gap"] += max(float(p @ loss) - mix, 0.0)

    def bound(self, state: State, seen: int) -> float:
        """L_min + 2 D, for votes twice that.

        >>> AdaHedge().bound({"expert_loss": np.array([3.0, 9.0]), "mixer.gap": np.array([1.5])}, 20)
        6.0
        """
        return self._on_mistakes(float(state["expert_loss"].min() + 2 * state["mixer.gap"][0]))

    def _rate(self, state: State) -> float:
        gap = float(state["mixer.gap"][0])
        return math.log(len(state["expert_loss"])) / gap if gap > 0 else math.inf


@dataclass(frozen=True)
class Squint(Mistakes, Stepwise):
    r"""Weights by regret and its squares, over a grid of rates: fast where one expert is clearly better.

    .. math:: p_e \propto \sum_i \pi_i \eta_i \exp(\eta_i R_e - \eta_i^2 V_e)

    R_e is the regret against expert e and V_e the sum of its squares (Koolen, van Erven 2015).

    Parameters
    ----------
    combination : {"scores", "vote"}
        What is averaged. Only the vote has a bound on its mistakes.

    Examples
    --------
    >>> mixer, F = Squint(), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    >>> mixer.run(mixer.start(2), 0, F, np.array([0, 0, 0])).weights.round(3)
    array([[0.5  , 0.5  ],
           [0.609, 0.391],
           [0.716, 0.284]])
    """

    combination: str = "scores"

    def start(self, n: int) -> State:
        """No regret."""
        return super().start(n) | {"mixer.regret": np.zeros(n), "mixer.square": np.zeros(n)}

    def weights(self, state: State, seen: int) -> Array:
        """sum_i pi_i eta_i exp(eta_i R_e - eta_i^2 V_e), as shares."""
        R, V = state["mixer.regret"][:, None], state["mixer.square"][:, None]
        exponents = RATES * R - RATES**2 * V
        w = np.exp(exponents - exponents.max()) @ (RATE_PRIOR * RATES)
        return np.asarray(w / w.sum())

    def learn(self, state: State, p: Array, loss: Array) -> None:
        """R += r, V += r^2, r = p . l - l."""
        r = p @ loss - loss
        state["mixer.regret"] += r
        state["mixer.square"] += r * r

    def bound(self, state: State, seen: int) -> float:
        """min over e and i of L_e + eta_i V_e + ln(N/pi_i)/eta_i, for votes twice that.

        >>> state = {"expert_loss": np.array([3.0, 9.0]), "mixer.square": np.array([1.0, 1.0])}
        >>> round(Squint().bound(state, 20), 3)
        6.151
        """
        loss, V = state["expert_loss"], state["mixer.square"]
        regret = (RATES * V[:, None] + np.log(len(loss) / RATE_PRIOR) / RATES).min(axis=1)
        return self._on_mistakes(float((loss + regret).min()))


def _softmin(loss: Array, eta: float) -> float:
    """-ln(mean e^{-eta l})/eta, and its limit for an infinite rate."""
    least = float(loss.min())
    return least if math.isinf(eta) else least - math.log(np.exp(-eta * (loss - least)).mean()) / eta


# Fixed share (Herbster, Warmuth 1998): mixers that follow the best expert when it changes. No parameter.
#
# After each step, a share alpha of the weight is dealt out evenly, as if the best expert changed with that
# probability. Which alpha is right is not known, so all of a grid are kept, none at all among them, and the stream
# chooses. With v_{e,i,j} for expert e, rate eta_i and share alpha_j (sum 1 at the start, by the priors):
#
#     p_e proportional to sum_{i,j} eta_i v_{e,i,j}
#     v_{e,i,j} <- v_{e,i,j} g_{e,i},     then     v_{e,i,j} <- (1 - alpha_j) v_{e,i,j} + alpha_j mean_e v_{e,i,j}
#
# - On mistakes, g = 1 + eta_i r_e with r_e = p . l - l_e, and the rates of Squint.
# - On the log-loss, g = q_e(y)/qbar(y), and the only rate is 1.
#
# Either way the sum of v stays 1, and v is the sum over all sequences of experts of (prior of the sequence under
# alpha_j) x (product of g along it). Because ln(1 + x) >= x - x^2 for x >= -1/2, it follows for every sequence, rate
# and share, with V the sum of r^2 along the sequence (for the log-loss without it), that
#
#     loss of the mixer <= loss of the sequence + eta_i V + ln(1/prior)/eta_i,
#     ln(1/prior) = ln(N/(pi_i rho_j)) + S ln(N/alpha_j) + (T - S) ln(1/(1 - alpha_j + alpha_j/N)) for S changes.
#
# A step is a label about which the experts differ. The least right-hand side is found as the stream goes, by the same
# recursion with minima in place of sums (the best path): it is the bound.
SHARES = np.concatenate([[0.0], 4.0 ** -np.arange(1, 13)])  # a factor 2 off costs at most 0.31 a change
SHARE_PRIOR = np.concatenate([[0.5], np.full(12, 0.5 / 12)])
SEQUENCE = "the best sequence of experts, its changes paid for"
LEAST_WEIGHT = 1e-250  # a weight of 0 could never grow again; this one changes the sum by less than rounding does


class Sharing(Stepwise):
    """The recursion over experts x rates x shares; subclasses say what a step multiplies by and what it costs."""

    rates: Array
    rate_prior: Array

    @abstractmethod
    def gains(self, p: Array, loss: Array) -> tuple[Array, Array]:
        """g of one step (N x rates), and what the step adds to the cost of a path, expert 0's loss taken off."""

    def start(self, n: int) -> State:
        """The priors, and what they cost a path."""
        prior = np.broadcast_to(self.rate_prior[:, None] * SHARE_PRIOR / n, (n, len(self.rates), len(SHARES)))
        return super().start(n) | {"mixer.v": prior.copy(), "mixer.path": -np.log(prior) / self.rates[:, None]}

    def weights(self, state: State, seen: int) -> Array:
        """sum_{i,j} eta_i v_{e,i,j}, as shares."""
        w = state["mixer.v"].sum(axis=2) @ self.rates
        return np.asarray(w / w.sum())

    def learn(self, state: State, p: Array, loss: Array) -> None:
        """Gains, then sharing; and the cheapest path to each expert."""
        v, path = state["mixer.v"], state["mixer.path"]
        gain, cost = self.gains(p, loss)
        v *= gain[:, :, None]
        mean = v.mean(axis=0)
        v *= 1 - SHARES
        v += SHARES * mean
        np.maximum(v, LEAST_WEIGHT, out=v)
        stay, change = _transitions(len(loss))
        path += cost[:, :, None]
        best = path.min(axis=0) + change / self.rates[:, None]
        path += stay / self.rates[:, None]
        np.minimum(path, best, out=path)

    def best_path(self, state: State) -> float:
        """The least of loss of a sequence + eta V + ln(1/prior)/eta."""
        return float(state["expert_loss"][0] + state["mixer.path"].min())


@dataclass(frozen=True)
class FixedShare(Mistakes, Sharing):
    r"""Fixed share on mistakes, over rates and shares: it follows the best expert when that changes.

    .. math:: v_{e,i,j} \leftarrow (1 - \alpha_j) v_{e,i,j} (1 + \eta_i r_e) + \alpha_j \overline{v_{\cdot,i,j}}

    Use it where the target drifts; where it does not, a grid of shares with 0 in it costs at most ln 2 more.

    Parameters
    ----------
    combination : {"scores", "vote"}
        What is averaged. Only the vote has a bound on its mistakes.

    Examples
    --------
    >>> mixer, F = FixedShare(), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 60)
    >>> mixer.run(mixer.start(2), 0, F, np.repeat([0, 1], 30)).weights[[0, 30, 45, 59], 0].round(2)
    array([0.5 , 0.99, 0.4 , 0.05])
    """

    combination: str = "scores"
    rates = RATES
    rate_prior = RATE_PRIOR

    def gains(self, p: Array, loss: Array) -> tuple[Array, Array]:
        """1 + eta r, and l - l_0 + eta r^2."""
        r = (p @ loss - loss)[:, None]
        return 1 + RATES * r, (loss - loss[0])[:, None] + RATES * r * r

    def bound(self, state: State, seen: int) -> float:
        """The best path, for votes twice that."""
        return self._on_mistakes(self.best_path(state))

    @property
    def guarantee(self) -> str:
        """Against the best sequence of experts."""
        return f"{super().guarantee} ({SEQUENCE})"


@dataclass(frozen=True)
class FixedShareLogLoss(Likelihood, Sharing):
    """Fixed share on the log-loss: the Bayes mixture over sequences of experts. A mistake costs at least ln 2.

    Use it in place of `FixedShare` where the experts' scores make good probabilities.

    Parameters
    ----------
    temperature : float
        c in q_e = softmax(c f_e).

    Examples
    --------
    >>> mixer, F = FixedShareLogLoss(), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 60)
    >>> mixer.run(mixer.start(2), 0, F, np.repeat([0, 1], 30)).weights[[0, 30, 45, 59], 0].round(2)
    array([0.5 , 1.  , 0.04, 0.03])
    """

    temperature: float = 1.0
    rates = np.ones(1)
    rate_prior = np.ones(1)

    def gains(self, p: Array, loss: Array) -> tuple[Array, Array]:
        """q_e(y)/qbar(y), and l - l_0."""
        q = np.exp(loss.min() - loss)
        return (q / (p @ q))[:, None], (loss - loss[0])[:, None]

    def bound(self, state: State, seen: int) -> float:
        """The best path, over ln 2."""
        return self.best_path(state) / math.log(2)

    guarantee = f"mistakes ({SEQUENCE})"


@lru_cache
def _transitions(n: int) -> tuple[Array, Array]:
    """-ln of the probability to stay with an expert, and to come to it from any other."""
    with np.errstate(divide="ignore"):
        return -np.log1p(SHARES / n - SHARES), -np.log(SHARES / n)


# -- the table ---------------------------------------------------------------------------------------------------------

MIXERS: Parts[Mixer] = Parts(
    "mixer",
    Mixer,
    {
        "hedge": Hedge,
        "adahedge": AdaHedge,
        "squint": Squint,
        "fixed-share": FixedShare,
        "fixed-share-log-loss": FixedShareLogLoss,
        "loss": LossBased,
        "log-loss": LogLoss,
        "single": Single,
    },
)


def register_mixer(name: str, mixer: type[Mixer], *, replace: bool = False) -> type[Mixer]:
    """Make a mixer class known by a name, for `OnlineTransferClassifier(mixer=name)` and for model files.

    Parameters
    ----------
    name : str
        What users write.
    mixer : type
        A subclass of `Mixer`, a frozen dataclass of its options; `hedgerow.checks.check_mixer` tests its laws.
    replace : bool
        Whether a mixer that has this name already may be replaced.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InputError
        If the name is taken by another and `replace` is False.

    Examples
    --------
    >>> register_mixer("hedge", Hedge) is MIXERS["hedge"]
    True
    """
    MIXERS.register(name, mixer, replace=replace)
    return mixer
