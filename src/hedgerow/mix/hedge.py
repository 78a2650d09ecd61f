"""Hedge on mistakes (Freund and Schapire 1997), with a horizon or anytime; and the mixer of a single expert."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.mix.base import Exponential, Mistakes, State

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
    """One expert, nothing to mix: its scores are the prediction, and its mistakes the bound.

    >>> Single().bound({"expert_loss": np.array([7.0])}, 20)
    7.0
    """

    def bound(self, state: State, seen: int) -> float:
        """The mistakes so far: there is no better expert to compare with."""
        return float(state["expert_loss"].min())

    @property
    def guarantee(self) -> str:
        """Trivial."""
        return "mistakes (the only expert's own)"


def horizon_beta(horizon: float, experts: float) -> float:
    """sqrt T/(sqrt T + sqrt ln N), the discount tuned for a stream of T labels and N experts (Sec. 4.3, where N = 2).

    >>> round(horizon_beta(110, 2), 4)
    0.9265
    """
    if not horizon > 0:
        raise InputError(f"horizon={horizon}: the expected length of the stream must be positive")
    return math.sqrt(horizon) / (math.sqrt(horizon) + math.sqrt(math.log(experts)))
