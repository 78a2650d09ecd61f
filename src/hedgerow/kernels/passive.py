"""The compiled loop of passive-aggressive regression under Hedge: rows are predicted and learned in their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.regression import LEAST, Outcome, track
from hedgerow.kernels.rows import dot, weigh

SHARE = 0.02  # of the running mean miss: its step
PA, PA_I, PA_II = 0, 1, 2


class Experts(NamedTuple):
    """W: weights (a row an expert, intercept first; the last one learns). L: losses in [0, 1] so far.

    range: of y so far. miss: its running mean. quantile, top: the tracker of each interval, in units of it. loss:
    squared loss of the prediction, then of each expert.
    """

    W: Array
    L: Array
    range: Array
    miss: Array
    quantile: Array
    top: Array
    loss: Array


@compiled(makes=True)
def run(
    Z: Array, rule: int, settings: Array, coverage: Array, experts: Experts, y: Array, weight: Array, out: Outcome
) -> None:
    """Rows with an intercept first; settings: C, the insensitivity epsilon, whether losses are squared, labels so far.

    An expert's loss is |f - y| over the length of the range of y, at most 1, or half its square. Weights are
    exp(-eta L), normalised, with eta = sqrt(8 ln N / t) at label t, or 1 for squared losses.
    """
    N, t = len(experts.W), settings[3] + 1
    p = np.empty(N)
    for b in range(len(Z)):
        weigh(experts.L, 1.0 if settings[2] == 1.0 else np.sqrt(8 * np.log(N) / t), p)
        value = 0.0
        for i in range(N):
            out.heads[b, i] = min(max(dot(experts.W[i], Z[b]), experts.range[0]), experts.range[1])
            value += p[i] * out.heads[b, i]
        out.prediction[b], out.usual[b] = value, experts.miss[0]
        for c in range(len(coverage)):
            out.half[b, c] = experts.quantile[c] * experts.miss[0]
        if not np.isnan(y[b]):
            _learn(Z[b], rule, settings, coverage, experts, y[b], weight[b], value, out.heads[b])
            t += 1


@compiled
def _learn(
    z: Array, rule: int, settings: Array, coverage: Array, experts: Experts, y: float, weight: float, value: float,
    f: Array,
) -> None:  # fmt: skip
    miss, length = abs(y - value), experts.range[1] - experts.range[0]
    track(coverage, miss / experts.miss[0], experts.quantile, experts.top)
    experts.miss[0] = max(experts.miss[0] + SHARE * (miss - experts.miss[0]), LEAST)
    experts.loss[0] += miss * miss
    for i in range(len(experts.W)):
        share = min(abs(y - f[i]) / length, 1.0)
        experts.L[i] += 0.5 * share * share if settings[2] == 1.0 else share
        experts.loss[1 + i] += (y - f[i]) ** 2
    _step(experts.W[-1], z, y, weight, rule, settings[0], settings[1])  # the target's, which alone learns
    experts.range[0], experts.range[1] = min(experts.range[0], y), max(experts.range[1], y)


@compiled
def _step(w: Array, z: Array, y: float, weight: float, rule: int, C: float, epsilon: float) -> None:
    """The passive-aggressive step of one row."""
    f, square = dot(w, z), dot(z, z)
    step = max(abs(y - f) - epsilon, 0.0)
    if rule == PA:
        step = step / square
    elif rule == PA_I:
        step = min(C * weight, step / square)
    else:
        step = step / (square + 0.5 / (C * weight))
    for j in range(len(w)):
        w[j] += (step if y > f else -step) * z[j]


@compiled
def averaged(
    Z: Array, y: Array, weight: Array, order: Array, last: int, rule: int, C: float, epsilon: float, w: Array
) -> None:
    """Steps over rows in this order: w[0] is where they end, w[1] the mean over the last ones."""
    for i in range(len(order)):
        _step(w[0], Z[order[i]], y[order[i]], weight[order[i]], rule, C, epsilon)
        if i >= len(order) - last:
            for j in range(w.shape[1]):
                w[1, j] += w[0, j] / last
