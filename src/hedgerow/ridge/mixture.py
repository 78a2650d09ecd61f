"""How the heads become one prediction: a Bayes mixture, stacks on top of it, and a last mixture that keeps the bound.

First mixture: experts are (head, temperature c, prior power j) with q = softmax(c F + j log pi), and pi itself, the
running class frequencies. Weights are products of q(y): sum_t -ln qbar(y_t) <= min_e L_e + ln(1/w_e).
Stacks: softmax(sum_i a_i F_i) over the heads' scores, centred log qbar and centred log pi, fitted by one online Newton
step a label; one starts at qbar and remembers all labels, the other at the average of the heads, and forgets.
Tracker: fixed share over qbar, pi and the stacks, so that after a change the one that is good now soon has the weight.
Last mixture: Bayes over qbar and the tracker, half each: qbar's bound costs ln 2 more and no more. Its argmax is
the prediction: M <= (min_e L_e + ln(1/w_e) + ln 2)/ln 2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import TEMPERATURES

PRIOR_WEIGHT = 0.05  # of an expert that multiplies in the class frequencies, against 1 of one that does not
RIDGE = 3.0  # how slowly a stack leaves its start; three of them (1, 3, 10) were no better than one
PARTS = ("log_w", "loss", "members", "pair", "a", "H", "counts")  # the fields of `kernels.ridge.Mixture`


def initial(heads: int, K: int, evidence: tuple[Array, Array] | None = None) -> dict[str, Array]:
    """The state of the mixture before any label.

    `evidence`: what is added to the log-weights of the heads' temperatures, and the shares of the tracker (`build`).
    """
    experts = heads * TEMPERATURES
    log_w = np.concatenate([np.zeros(experts), np.full(experts, np.log(PRIOR_WEIGHT)), [0.0]])
    members = np.full(4, 0.25)
    if evidence is not None:
        added, members = evidence
        log_w += np.concatenate([added, added, [added.min()]])
    from_mixture = np.concatenate([np.zeros(heads), [1.0, 0.0]])
    from_average = np.concatenate([np.full(heads, 4.0 / max(heads, 1)), [0.5, 0.0]])
    starts = np.array([from_mixture, from_average])
    return {
        "mix.log_w": log_w - np.log(np.exp(log_w).sum()),
        "mix.loss": np.zeros(len(log_w)),
        "mix.members": members,
        "mix.pair": np.zeros(2),
        "mix.a": starts,
        "mix.H": np.array([RIDGE * np.eye(heads + 2) for _ in starts]),
        "mix.counts": np.ones(K),
    }


def parts(state: Mapping[str, Array]) -> list[Array]:
    """The state as compiled loops take it; one that can only be read is copied, as it can only predict."""
    arrays = [state[f"mix.{name}"] for name in PARTS]
    return [array if array.flags.writeable else array.copy() for array in arrays]


def head_weights(state: Mapping[str, Array]) -> Array:
    """The first mixture's weight of each head now, its temperatures and priors together; the last is pi's."""
    w = state["mix.log_w"] - state["mix.loss"]
    w = np.exp(w - w.max())
    w /= w.sum()
    return np.append(w[:-1].reshape(2, -1, TEMPERATURES).sum(axis=(0, 2)), w[-1])


def bound(state: Mapping[str, Array]) -> float:
    """(min_e L_e + ln(1/w_e) + ln 2)/ln 2, on the mistakes of the prediction."""
    return float(((state["mix.loss"] - state["mix.log_w"]).min() + np.log(2)) / np.log(2))
