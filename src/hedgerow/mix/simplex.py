"""Mixers that average points of the simplex: HomOTL-I's loss-based weights, and the Bayes mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.mix.base import Exponential, Mixer, State, simplex_projection, softmax, votes

COMBINE = ("scores", "vote", "simplex")
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
        if self.loss == "margin":
            rivals = np.where(np.arange(K) == y[:, None, None], -np.inf, F).max(axis=2)
            margin = np.clip((_of_label(F, y) - rivals + 1) / 2, 0, 1)
            out = np.where((y < K)[:, None], (margin - 1) ** 2, 1.0)
        else:
            q = self._simplex(F)
            out = 0.5 * ((q * q).sum(axis=2) - 2 * _of_label(q, y) + 1)
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def advice(self, F: Array) -> Array:
        """Points of the simplex, or scores, or votes."""
        if self.combination == "simplex":
            return self._simplex(F)
        return F if self.combination == "scores" else votes(F)

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

    def probabilities(self, scores: Array) -> Array:
        """Averaged simplex points and votes are probabilities already."""
        return softmax(scores) if self.combination == "scores" else scores

    def _simplex(self, F: Array) -> Array:
        return softmax(F) if self.loss == "softmax" else simplex_projection(F)


def _of_label(Q: Array, y: Array) -> Array:
    """What each expert gives the label (B x N of B x N x K); 0 for a class that it does not know, or for none."""
    known = (y >= 0) & (y < Q.shape[2])
    own = np.take_along_axis(Q, np.where(known, y, 0)[:, None, None], axis=2)[:, :, 0]
    return np.where(known[:, None], own, 0.0)


class Likelihood(Mixer):
    """Experts that pay -ln q_e(y), q_e = softmax(c f_e); their probabilities are averaged."""

    temperature: float  # c

    def losses(self, F: Array, y: Array) -> Array:
        """-ln q_y; for a class that no expert knew, the same large number for every expert."""
        out = -np.log(np.maximum(_of_label(self.advice(F), y), LEAST_PROBABILITY))
        return np.asarray(out * (y >= 0)[:, None], dtype=np.float64)

    def advice(self, F: Array) -> Array:
        """Each expert's probabilities."""
        return softmax(self.temperature * F)

    def probabilities(self, scores: Array) -> Array:
        """A mixture of probabilities is one."""
        return scores


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

    @property
    def guarantee(self) -> str:
        """The mistakes of the mixture."""
        return "mistakes"
