"""How the heads become one prediction: a Bayes mixture of experts, two stacks on top of it, and Bayes over these.

Experts: every head at every temperature c, softmax(c F), and pi, the running class frequencies, all of the same weight
before the first label. Their mixture is qbar: sum_t -ln qbar(y_t) <= min_e L_e + ln N.
One head repeats the newest label that was known when the row was predicted: that class by the share of labels that were
like it, any other by its frequency.
Stacks: softmax(sum_i a_i F_i) over the heads' scores, centred log qbar and centred log pi, fitted by one online Newton
step a label; one starts at qbar and remembers all labels, the other at the average of the heads, and forgets.
The prediction is the argmax of a Bayes mixture of four members, a quarter each: qbar, pi and the stacks.
So M <= (min_e L_e + ln N + ln 4)/ln 2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import TEMPERATURES

MEMBERS = 4  # qbar, pi, the stack that remembers, the stack that forgets
RIDGE = 3.0  # how slowly a stack leaves its start; three of them (1, 3, 10) were no better than one
AVERAGE = 4.0  # the temperature of the heads' average that the stack that forgets starts at


def initial(heads: int, K: int) -> dict[str, Array]:
    """The state of the mixture before any label."""
    from_mixture = np.concatenate([np.zeros(heads), [1.0, 0.0]])
    from_average = np.concatenate([np.full(heads, AVERAGE / max(heads, 1)), [0.5, 0.0]])
    starts = np.array([from_mixture, from_average])
    return {
        "mix.loss": np.zeros(heads * TEMPERATURES + 1),
        "mix.members": np.zeros(MEMBERS),
        "mix.a": starts,
        "mix.H": np.array([RIDGE * np.eye(heads + 2) for _ in starts]),
        "mix.counts": np.ones(K),
        "mix.order": np.array([1.0, max(K - 1.0, 1.0), -1.0]),
    }


def head_weights(state: Mapping[str, Array]) -> Array:
    """The first mixture's weight of each head now, its temperatures together; the last is that of pi."""
    loss = state["mix.loss"]
    w = np.exp(loss.min() - loss)
    w /= w.sum()
    return np.append(w[:-1].reshape(-1, TEMPERATURES).sum(axis=1), w[-1])


def bound(state: Mapping[str, Array]) -> float:
    """(min_e L_e + ln N + ln 4)/ln 2, on the mistakes of the prediction."""
    loss = state["mix.loss"]
    return float((loss.min() + np.log(len(loss)) + np.log(MEMBERS)) / np.log(2))
