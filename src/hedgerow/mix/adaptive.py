"""Mixers on mistakes that find their own learning rate: AdaHedge and Squint. No horizon, no parameter.

AdaHedge (de Rooij, van Erven, Grünwald, Koolen 2014): Hedge with eta = ln N / D, where D is the sum so far of the
mixability gaps, what the weighted loss p . l lost against the mix loss -ln(p . e^{-eta l})/eta. The mix losses add up
to at most L_min + ln N/eta = L_min + D, because eta only falls; so the weighted loss H is at most L_min + 2 D, and

    H <= L_min + 2 sqrt(L_min (T - L_min)/T ln N) + 16/3 ln N + 2.

Squint (Koolen, van Erven 2015): with r_e = p . l - l_e, R_e = sum r_e, V_e = sum r_e^2 and a prior pi over rates eta_i,

    p_e proportional to sum_i pi_i eta_i exp(eta_i R_e - eta_i^2 V_e).

Because e^{x - x^2} <= 1 + x for x >= -1/2, sum_{e,i} pi_i exp(eta_i R_e - eta_i^2 V_e)/N never grows beyond 1; so

    H <= L_e + eta_i V_e + ln(N/pi_i)/eta_i     for every expert e and every rate i.

The rates are 1/2, 1/4, ..., 2^-16, good for V up to 10^9, with pi_i proportional to 1/(i (i + 1)).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.mix.base import Mistakes, State, Stepwise, softmax
from hedgerow.mix.simplex import Likelihood

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
        if self.combination == "vote":
            return "mistakes of the vote (the best sequence of experts, its changes paid for)"
        return "the weighted loss (the best sequence of experts, its changes paid for), not the mistakes"


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

    @property
    def guarantee(self) -> str:
        """Against the best sequence of experts."""
        return "mistakes (the best sequence of experts, its changes paid for)"


@lru_cache
def _transitions(n: int) -> tuple[Array, Array]:
    """-ln of the probability to stay with an expert, and to come to it from any other."""
    with np.errstate(divide="ignore"):
        return -np.log1p(SHARES / n - SHARES), -np.log(SHARES / n)
