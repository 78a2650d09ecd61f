"""Mixers: how the experts' scores become one prediction, who is trusted how much, and what can be guaranteed.

Each keeps one number an expert, its loss so far L_e, and weighs it by exp(-eta_t L_e). The losses do not depend on the
weights, so a block of instances is a running sum and one product: no loop.

| mixer               | loss of expert e                        | averaged advice           | eta                    |
|---------------------|-----------------------------------------|---------------------------|------------------------|
| `Hedge`             | [yhat_e != y]                           | scores f_e, or votes      | ln(1/beta), or anytime |
| `LossBased`         | 1/2 |q_e - e_y|^2 (HomOTL-I), or margin | points q_e, or scores     | 1/2                    |
| `LogLoss`           | -ln q_{e,y}, q_e = softmax(c f_e)       | points q_e                | 1                      |
| `Single`            | [yhat != y]                             | scores of the only expert | -                      |

Anytime Hedge is the horizon rule with the labels so far in place of T: beta_t = sqrt t/(sqrt t + sqrt ln N) in round t.
For any non-increasing rate the weighted loss is at most M_min + ln N/eta_T + sum_t eta_t/8 (Györfi and Ottucsák 2007),
which is here at most M_min + 5/4 sqrt(T ln N) + ln N.

To add one, subclass `Mixer` and register it: `register_mixer("mine", Mine)`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.registry import Parts

__all__ = [
    "MIXERS",
    "Hedge",
    "LogLoss",
    "LossBased",
    "Mixed",
    "Mixer",
    "Single",
    "horizon_beta",
    "register_mixer",
]
__all__ += ["simplex_projection", "softmax", "votes"]

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

    >>> mixer = Hedge(beta=0.5)
    >>> state = mixer.start(2)
    >>> scores = np.array([[[1.0, 0.0], [0.0, 1.0]]])  # one row, two experts, two classes
    >>> block = mixer.run(state, 0, scores, np.array([0]))
    >>> mixer.weights(state, 1).round(2).tolist()  # the second expert was wrong
    [0.67, 0.33]
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
    def rates(self, seen: Array, n: int) -> Array:
        """eta for each row, `seen` labels having been learned before it; it does not depend on the losses."""

    def weights(self, state: State, seen: int) -> Array:
        """Normalised weights (N) for the next row: exp(-eta L_e)/sum."""
        loss = state["expert_loss"]
        return np.asarray(softmax(-self.rates(np.array([seen]), len(loss)) * loss))

    def weigh(self, state: State, labels: Array, losses: Array) -> Array:
        """Weights before each row (B x N), `labels` having been learned by then; the state learns the losses."""
        total = so_far(state["expert_loss"], losses)
        state["expert_loss"][:] = total[-1]
        return softmax(-self.rates(labels, losses.shape[1])[:, None] * total[:-1])

    @abstractmethod
    def bound(self, state: State, seen: int) -> float:
        """The guarantee for what was observed so far."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What `bound` bounds, in words."""

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
        p = self.weigh(state, labels, losses)
        return Mixed(np.einsum("bn,bnk->bk", p, self.advice(F)), p, losses, F.argmax(axis=2))

    def probabilities(self, scores: Array) -> Array:
        """Combined scores as probabilities: their softmax, or themselves where they are on the simplex."""
        return softmax(scores) if self.combination == "scores" else scores


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
class Hedge(Mixer):
    r"""Hedge on mistakes: the weight of an expert falls by beta with each of its mistakes (Eq. 8, 9).

    .. math:: p_e \propto \beta^{M_e}, \qquad
        \sum_t p_t \cdot \ell_t \le \frac{M_{\min} \ln(1/\beta) + \ln N}{1 - \beta}

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

    def losses(self, F: Array, y: Array) -> Array:
        """[argmax f_e != y]: z and r of Sec. 3.4."""
        wrong = (F.argmax(axis=2) != y[:, None]) & (y >= 0)[:, None]
        return np.asarray(wrong, dtype=np.float64)

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
        best = float(loss.min())
        log_n = math.log(len(loss))
        if self.proof == "theorem":
            return best + 1.5 * math.sqrt(log_n * best) + log_n
        if self.beta is None:
            weighted = best + 1.25 * math.sqrt(seen * log_n) + log_n
            # at a mistake of a vote half of the weight errs
            return 2 * weighted if self.combination == "vote" else weighted
        per_loss = math.log(2 / (1 + self.beta)) if self.combination == "vote" else 1 - self.beta
        return (best * math.log(1 / self.beta) + log_n) / per_loss

    @property
    def guarantee(self) -> str:
        """A weighted vote has a bound on its mistakes; summed scores only on the mixer's own weighted loss."""
        if self.proof == "theorem":
            return "the paper's Theorem 1 on mistakes, as printed (not proved for summed scores)"
        own = f"{type(self).__name__}'s weighted loss, not the mistakes"
        return "mistakes of the vote" if self.combination == "vote" else own


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
class LossBased(Mixer):
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


@dataclass(frozen=True)
class LogLoss(Mixer):
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
    combination = "simplex"
    combinations = ("simplex",)

    def losses(self, F: Array, y: Array) -> Array:
        """-ln q_y; for a class that no expert knew, the same large number for every expert."""
        out = -np.log(np.maximum(_of_label(self.points(F), y), LEAST_PROBABILITY))
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def points(self, F: Array) -> Array:
        """Each expert's probabilities."""
        return softmax(self.temperature * F)

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


# -- the table ---------------------------------------------------------------------------------------------------------

MIXERS: Parts[Mixer] = Parts(
    "mixer",
    Mixer,
    {
        "hedge": Hedge,
        "loss": LossBased,
        "log-loss": LogLoss,
        "single": Single,
    },
)


def register_mixer(name: str, mixer: type[Mixer], *, replace: bool = False) -> type[Mixer]:
    """Make a mixer class known by a name, for `PaperOptions(mixer=name)` and for model files.

    Parameters
    ----------
    name : str
        What users write.
    mixer : type
        A subclass of `Mixer`, a frozen dataclass of its options; `hedgerow.testing.check_mixer` tests its laws.
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
