"""One row through projections, heads and mixer, for the live path.

Their twins are `ExpertsLearner.scores` and `ExpertsLearner.run` on a block of one row; `tests/unit/test_instance.py`
holds the two together.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.heads import best, learn_row, squared
from hedgerow.kernels.hedge import rate, weigh
from hedgerow.kernels.rows import product_row, row_product


@compiled
def predict(
    x: Array,
    H: Array,
    project: bool,
    last: Array,
    raw: Array,
    z: Array,
    W: Array,
    space: Array,
    p: Array,
    to_unit: bool,
    vote: bool,
    F: Array,
    f: Array,
) -> int:
    """The class of one row x (Eq. 6, 7; Alg. 1, lines 3 and 4); x is copied to `last`, so that its label is recognised.

    With `project` the projections x H are computed into `raw` (nd), otherwise they are there already. They go to z,
    scaled to unit length if asked; the experts' scores go to F (N x K), and their average by the weights p, or that of
    their votes, to f (K).
    """
    N, K, d = W.shape
    if project:
        row_product(x, H, raw)
    for j in range(len(x)):
        last[j] = x[j]
    for start in range(0, len(z), d):
        scale = z.dtype.type(1)
        if to_unit:
            length = np.sqrt(squared(raw[start : start + d]))
            scale = z.dtype.type(1.0 / length if length > 0.0 else 0.0)
        for j in range(start, start + d):
            z[j] = scale * raw[j]
    for k in range(K):
        f[k] = 0.0
    for e in range(N):
        product_row(W[e], z[space[e] * d : (space[e] + 1) * d], F[e])
        if vote:
            f[best(F[e])] += p[e]
        else:
            for k in range(K):
                f[k] += p[e] * F[e, k]
    return best(f)


@compiled
def same(x: Array, last: Array) -> bool:
    """Whether x is the row that `predict` scored last."""
    different = 0
    for j in range(len(x)):
        different += x[j] != last[j]
    return different == 0


@compiled
def learn(
    label: int,
    weight: float,
    z: Array,
    W: Array,
    which: Array,
    space: Array,
    rule: int,
    C: float,
    F: Array,
    f: Array,
    p: Array,
    beta: float,
    seen: Array,
    mistakes: Array,
    mixture_loss: Array,
    expert_loss: Array,
    expert_mistakes: Array,
    votes: Array,
) -> None:
    """The label of the row that `predict` scored: counters, Hedge's weights p for the next row (Eq. 8, 9), the online
    heads (Eq. 4). beta = 0 is the anytime rule. What each expert said goes to `votes`.
    """
    d = W.shape[2]
    seen[0] += 1
    mistakes[0] += best(f) != label
    for e in range(len(W)):
        votes[e] = best(F[e])
        if votes[e] != label:
            expert_mistakes[e] += 1
            expert_loss[e] += 1.0
            mixture_loss[0] += p[e]
    weigh(expert_loss, rate(beta, seen[0], len(p)), p)
    for e in which:
        learn_row(W[e], z[space[e] * d : (space[e] + 1) * d], F[e], label, rule, C * weight)


@compiled
def keep(
    x: Array, z: Array, label: int, weight: float, at: int, rows: Array, Z: Array, labels: Array, weights: Array
) -> None:
    """A labelled row, multiplied by its weight, and its projections, into place `at` among the pending rows."""
    labels[at], weights[at] = label, weight
    times = x.dtype.type(weight)
    for j in range(len(x)):
        rows[at, j] = times * x[j]
    for j in range(len(z)):
        Z[at, j] = z[j]


@compiled
def count(x: Array, label: int, weight: float, n: Array, total: Array, class_n: Array, class_totals: Array) -> None:
    """A labelled row is added to the target's moments (Eq. 10, 11)."""
    n[0] += weight
    class_n[label] += weight
    for j in range(len(x)):
        share = weight * x[j]
        total[j] += share
        class_totals[label, j] += share
