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
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.mix.base import Mistakes, State, Stepwise, softmax

_PLACES = np.arange(1, 17)
RATES = 2.0**-_PLACES
RATE_PRIOR = 1 / (_PLACES * (_PLACES + 1)) / (1 / (_PLACES * (_PLACES + 1))).sum()


@dataclass(frozen=True)
class AdaHedge(Mistakes, Stepwise):
    """Hedge whose rate falls only as fast as the experts' losses force it to.

    >>> mixer, F = AdaHedge(), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    >>> mixer.run(mixer.start(2), 0, F, np.array([0, 1, 0])).weights.round(3)
    array([[0.5, 0.5],
           [0.8, 0.2],
           [0.5, 0.5]])
    """

    combination: str = "scores"

    def __post_init__(self) -> None:
        self._check_combination()

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

    @property
    def guarantee(self) -> str:
        """As Hedge's."""
        return "mistakes of the vote" if self.combination == "vote" else "AdaHedge's weighted loss, not the mistakes"

    def _rate(self, state: State) -> float:
        gap = float(state["mixer.gap"][0])
        return math.log(len(state["expert_loss"])) / gap if gap > 0 else math.inf


@dataclass(frozen=True)
class Squint(Mistakes, Stepwise):
    """Weights by regret and its squares, over a grid of rates: fast where one expert is clearly better.

    >>> mixer, F = Squint(), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 3)
    >>> mixer.run(mixer.start(2), 0, F, np.array([0, 0, 0])).weights.round(3)
    array([[0.5  , 0.5  ],
           [0.609, 0.391],
           [0.716, 0.284]])
    """

    combination: str = "scores"

    def __post_init__(self) -> None:
        self._check_combination()

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

    @property
    def guarantee(self) -> str:
        """As Hedge's."""
        return "mistakes of the vote" if self.combination == "vote" else "Squint's weighted loss, not the mistakes"


def _softmin(loss: Array, eta: float) -> float:
    """-ln(mean e^{-eta l})/eta, and its limit for an infinite rate."""
    least = float(loss.min())
    return least if math.isinf(eta) else least - math.log(np.exp(-eta * (loss - least)).mean()) / eta
