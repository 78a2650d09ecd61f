"""How the heads become one prediction: a Bayes mixture, stacks on top of it, and a last mixture that keeps the bound.

First mixture: experts are (head, temperature c, prior power j) with q = softmax(c F + j log pi), and pi itself, the
running class frequencies. Weights are products of q(y): sum_t -ln qbar(y_t) <= min_e L_e + ln(1/w_e).
Stacks: softmax(sum_i a_i F_i) over the heads' scores, centred log qbar and centred log pi, fitted by one online Newton
step a label; one starts at qbar and remembers all labels, the other at the average of the heads, and forgets.
Tracker: fixed share over qbar, pi and the stacks, so that after a change the one that is good now is soon believed.
Last mixture: Bayes over qbar and the tracker, half each: qbar's bound costs ln 2 more and no more. Its argmax is
the prediction: M <= (min_e L_e + ln(1/w_e) + ln 2)/ln 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import HedgerowError

TEMPERATURES = 5  # 2, 4, 8, 16, 32
PRIOR_WEIGHT = 0.05  # of an expert that multiplies in the class frequencies, against 1 of one that does not
RIDGE = 3.0  # how slowly a stack leaves its start; three of them (1, 3, 10) were no better than one
KEEP = np.array([1.0, 0.98])  # how much of its curvature a stack keeps from label to label: the second forgets
FLOOR = 0.3  # what the curvature of a stack that forgets does not fall below
MEMBERS = np.full(4, 0.25)  # the tracker's start: qbar, pi, the stacks
SHARE = 1.0  # SHARE/(t + 1) of the tracker's weight goes back to its start after label t
PARTS = ("log_w", "loss", "members", "pair", "a", "H", "counts")


@dataclass(frozen=True)
class Mixed:
    """A block: probabilities B x K of the last mixture, the first's weight of each head (B x heads + 1), log-loss."""

    probabilities: Array
    weights: Array
    loss: float


def initial(heads: int, K: int) -> dict[str, Array]:
    """The state of the mixture before any label."""
    experts = heads * TEMPERATURES
    log_w = np.concatenate([np.zeros(experts), np.full(experts, np.log(PRIOR_WEIGHT)), [0.0]])
    from_mixture = np.concatenate([np.zeros(heads), [1.0, 0.0]])
    from_average = np.concatenate([np.full(heads, 4.0 / max(heads, 1)), [0.5, 0.0]])
    starts = np.array([from_mixture, from_average])
    return {
        "mix.log_w": log_w - np.log(np.exp(log_w).sum()),
        "mix.loss": np.zeros(len(log_w)),
        "mix.members": MEMBERS.copy(),
        "mix.pair": np.zeros(2),
        "mix.a": starts,
        "mix.H": np.array([RIDGE * np.eye(heads + 2) for _ in starts]),
        "mix.counts": np.ones(K),
    }


def run(state: dict[str, Array], F: Array, y: Array, known: int | None = None) -> Mixed:
    """Rows in order, each predicted by what came before it; the labelled ones (y >= 0) are learned. F is B x heads x K.

    A label y >= known is a class that nobody could name: the prediction leaves it out, and every expert pays for it.
    """
    from hedgerow.kernels.ridge import mix_rows

    known = F.shape[2] if known is None else known
    shipped, by_head = np.empty((len(F), known)), np.empty((len(F), F.shape[1] + 1))
    parts = {name: state[f"mix.{name}"] for name in PARTS}
    s = {name: a if a.flags.writeable else a.copy() for name, a in parts.items()}  # one that is only read predicts
    try:
        loss = mix_rows(
            np.ascontiguousarray(F), y, known, TEMPERATURES, s["log_w"], s["loss"], s["counts"], s["a"], s["H"],
            KEEP, FLOOR, MEMBERS, s["members"], s["pair"], SHARE, shipped, by_head,
        )  # fmt: skip
    except ZeroDivisionError as error:
        raise HedgerowError(
            "scores so large that no expert is believed any more; scale the rows, or fit again"
        ) from error
    return Mixed(shipped, by_head, loss)


def predict(state: dict[str, Array], F: Array) -> Mixed:
    """Rows that are only predicted, all by the state as it is."""
    return run(state, F, np.full(len(F), -1))


def head_weights(state: dict[str, Array], heads: int) -> Array:
    """The first mixture's weight of each head now, its temperatures and priors together; the last is pi's."""
    none = np.zeros((1, heads, len(state["mix.counts"])))
    return np.asarray(run(state, none, np.array([-1])).weights[0])


def bound(state: dict[str, Array]) -> float:
    """(min_e L_e + ln(1/w_e) + ln 2)/ln 2, on the mistakes of the prediction."""
    return float(((state["mix.loss"] - state["mix.log_w"]).min() + np.log(2)) / np.log(2))


def counts_before(state: dict[str, Array], y: Array) -> Array:
    """1 + labels of each class, before each row."""
    counts = state["mix.counts"]
    if len(y) == 1:
        return counts[None]
    seen = np.zeros((len(y), len(counts)))
    rows = np.flatnonzero(y >= 0)
    seen[rows, y[rows]] = 1.0
    return np.asarray(counts + np.cumsum(seen, axis=0) - seen)
