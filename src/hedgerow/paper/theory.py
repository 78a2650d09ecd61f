"""What is promised and what happened: the paper's Theorem 1 and the guarantees that hold, beside every run.

N experts (2n of them in HomOTL-ODDM), M mistakes of the combined prediction, M_min of the best expert, L Hedge's own
weighted loss sum_t p_t . l_t, all over one stream:

| claim           | says                                             | true?                                          |
|-----------------|--------------------------------------------------|------------------------------------------------|
| `theorem`       | M <= M_min + 3/2 sqrt(M_min ln N) + ln N         | no: Theorem 1 as printed (Eq. 14)              |
| `theorem, loss` | L <= the same                                    | for beta = sqrt M_min/(sqrt M_min + sqrt ln N) |
| `step`          | M <= (M_min ln(1/beta) + ln N)/(1 - beta)        | no: the first line of its proof (Eq. 15)       |
| `hedge`         | L <= the same                                    | yes (Freund and Schapire 1997)                 |
| `vote`          | M <= (M_min ln(1/beta) + ln N)/ln(2/(1 + beta))  | yes, if votes are counted                      |
| `simplex`       | M <= 4 min_e L_e + 8 ln N                        | yes, for averaged simplex points (half-Brier)  |
| `log-loss`      | M <= (min_e L_e + ln N)/ln 2                     | yes, for the Bayes mixture                     |

Hedge's theorem is about L. A mistake of a vote means that half the weight was wrong, so M <= 2 L: the factor 2 is what
the printed proof lacks. A mistake of summed scores says nothing about the weights at all: one expert with large scores
outvotes any number of others. `hedgerow.paper.counterexamples` has the streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.mix import Hedge, LogLoss, LossBased, horizon_beta

ROUNDING = 1e-9  # a sum of that many weights may be this much off


@dataclass(frozen=True)
class Claim:
    """An inequality: which quantity it bounds ("mistakes" or "weighted loss"), by what, and whether it is proved."""

    bounds: str
    formula: str
    proved: bool


CLAIMS = {
    "theorem": Claim("mistakes", "M_min + 3/2 sqrt(M_min ln N) + ln N", False),
    "theorem, loss": Claim("weighted loss", "M_min + 3/2 sqrt(M_min ln N) + ln N", False),
    "step": Claim("mistakes", "(M_min ln(1/beta) + ln N)/(1 - beta)", False),
    "hedge": Claim("weighted loss", "(M_min ln(1/beta) + ln N)/(1 - beta)", True),
    "vote": Claim("mistakes", "(M_min ln(1/beta) + ln N)/ln(2/(1 + beta))", True),
    "simplex": Claim("mistakes", "4 min L + 8 ln N", True),
    "log-loss": Claim("mistakes", "(min L + ln N)/ln 2", True),
}


def theorem_bound(best: float, experts: int) -> float:
    """M_min + 3/2 sqrt(M_min ln N) + ln N: Theorem 1 as printed (Eq. 14), N = 2n; what Eq. 16 is at its beta.

    >>> round(theorem_bound(25, 2), 2), round(theorem_bound(0, 2), 2)
    (31.94, 0.69)
    """
    return Hedge(proof="theorem").bound({"expert_loss": np.full(experts, float(best))}, 0)


def theorem_beta(best: float, experts: int) -> float:
    """sqrt M_min/(sqrt M_min + sqrt ln N), the discount that Theorem 1 asks for; 0, and so none at all, for M_min = 0.

    >>> round(theorem_beta(25, 2), 3), theorem_beta(0, 2)
    (0.857, 0.0)
    """
    return horizon_beta(best, experts) if best > 0 else 0.0


# -- what happened in the runs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run beside every claim that can be made about it."""

    task: str
    method: str
    variant: str
    split: int
    trial: int
    experts: int
    rounds: int
    mistakes: int
    best: int
    weighted_loss: float
    beta: float | None
    bounds: dict[str, float]

    def value(self, claim: str) -> float:
        """What the claim bounds."""
        return float(self.mistakes) if CLAIMS[claim].bounds == "mistakes" else self.weighted_loss

    def holds(self, claim: str) -> bool:
        """Whether this run kept it."""
        return self.value(claim) <= self.bounds[claim] + ROUNDING


def runs(rows: Iterable[Mapping[str, Any]]) -> list[Run]:
    """Rows of the groups "table" and "mixers" about which something is claimed: mixtures of two experts or more.

    >>> row = {"group": "table", "task": "dslr", "method": "oddm", "variant": "", "split": 0, "trial": 0, "n": 110,
    ...     "mistakes": 30, "expert_mistakes": [21, 40], "expert_loss": [21, 40], "hedge_loss": 25.5, "beta": 0.9,
    ...     "bound": 29.1, "guarantee": "", "options": {}}
    >>> run = runs([row])[0]
    >>> {claim: (run.value(claim), round(bound, 1), run.holds(claim)) for claim, bound in run.bounds.items()}
    {'theorem': (30.0, 27.4, False), 'theorem, loss': (25.5, 27.4, True),
     'step': (30.0, 29.1, False), 'hedge': (25.5, 29.1, True)}
    """
    out = []
    for row in rows:
        bounds = _bounds(row) if row["group"] in ("table", "mixers") and len(row["expert_mistakes"]) > 1 else {}
        if bounds:
            key = {name: row[name] for name in ("task", "method", "variant", "split", "trial", "mistakes", "beta")}
            experts, best = len(row["expert_mistakes"]), int(min(row["expert_mistakes"]))
            loss = float(row["hedge_loss"])
            out.append(Run(**key, experts=experts, rounds=row["n"], best=best, weighted_loss=loss, bounds=bounds))
    return out


def _bounds(row: Mapping[str, Any]) -> dict[str, float]:
    """The bounds claimed for a row's mixer: Hedge's follow from its beta, a loss-based mixer states its own."""
    mistakes, T = np.asarray(row["expert_mistakes"], dtype=np.float64), int(row["n"])
    state = {"expert_loss": mistakes}
    beta, vote = row["beta"], row["options"].get("combine") == "vote"
    if beta is not None:
        printed = theorem_bound(float(mistakes.min()), len(mistakes))
        step = Hedge(beta).bound(state, T)
        found = {"theorem": printed, "theorem, loss": printed, "step": step, "hedge": step}
        return found | ({"vote": Hedge(beta, "vote").bound(state, T)} if vote else {})
    if row["options"].get("mixer") == "log-loss":
        return {"log-loss": LogLoss().bound({"expert_loss": np.asarray(row["expert_loss"])}, T)}
    if row["bound"] is None or row["guarantee"] != LossBased().guarantee:
        return {}
    return {"simplex": float(row["bound"])}


@dataclass(frozen=True)
class Verdict:
    """A claim over all runs of one task, method and variant; numbers are means over the runs.

    `value` is what the claim bounds, `nearest` the largest value/bound of a run: above 1 the claim was broken.
    """

    task: str
    method: str
    variant: str
    claim: str
    runs: int
    rounds: int
    mistakes: float
    best: float
    value: float
    bound: float
    nearest: float
    violations: int

    @property
    def holds(self) -> bool:
        """Whether every run kept it."""
        return self.violations == 0


def verdicts(rows: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """One line for each task, method, variant and claim, in the order of the rows."""
    groups: dict[tuple[str, str, str, str], list[Run]] = {}
    for run in runs(rows):
        for claim in run.bounds:
            groups.setdefault((run.task, run.method, run.variant, claim), []).append(run)
    return [_verdict(key, group) for key, group in groups.items()]


def _verdict(key: tuple[str, str, str, str], group: list[Run]) -> Verdict:
    claim = key[3]
    value = np.array([run.value(claim) for run in group])
    bound = np.array([run.bounds[claim] for run in group])
    return Verdict(
        *key,
        runs=len(group),
        rounds=group[0].rounds,
        mistakes=float(np.mean([run.mistakes for run in group])),
        best=float(np.mean([run.best for run in group])),
        value=float(value.mean()),
        bound=float(bound.mean()),
        nearest=float((value / bound).max()),
        violations=sum(not run.holds(claim) for run in group),
    )
