"""The compiled loop of passive-aggressive regression under Hedge: rows are predicted and learned in their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.regression import FADE, LEAST, STEP

SHARE = 0.02  # of the running mean miss: its step
PA, PA_I, PA_II = 0, 1, 2


class Experts(NamedTuple):
    """W: weights (a row an expert, intercept first). L: losses in [0, 1] so far. learns: which experts learn.

    range: of y so far. miss: its running mean. quantile, top: the tracker of each interval, in units of it. loss:
    squared loss of the prediction, then of each expert.
    """

    W: Array
    L: Array
    learns: Array
    range: Array
    miss: Array
    quantile: Array
    top: Array
    loss: Array


@compiled
def run(
    Z: Array, rule: int, settings: Array, coverage: Array, experts: Experts, y: Array, weight: Array,
    prediction: Array, half: Array, F: Array, usual: Array,
) -> None:  # fmt: skip
    """Rows with an intercept first; settings: C, the insensitivity epsilon, whether losses are squared, labels so far.

    An expert's loss is |f - y| over the length of the range of y, at most 1, or half its square. Weights are
    exp(-eta L), normalised, with eta = sqrt(8 ln N / t) at label t, or 1 for squared losses.
    """
    N, D = experts.W.shape
    p, t = np.empty(N), settings[3] + 1
    for b in range(len(Z)):
        least, total = experts.L[0], 0.0
        eta = 1.0 if settings[2] == 1.0 else np.sqrt(8 * np.log(N) / t)
        for i in range(N):
            least = min(least, experts.L[i])
        for i in range(N):
            p[i] = np.exp(-eta * (experts.L[i] - least))
            total += p[i]
        value = 0.0
        for i in range(N):
            f = 0.0
            for j in range(D):
                f += experts.W[i, j] * Z[b, j]
            F[b, i] = min(max(f, experts.range[0]), experts.range[1])
            value += p[i] / total * F[b, i]
        prediction[b], usual[b] = value, experts.miss[0]
        for c in range(len(coverage)):
            half[b, c] = experts.quantile[c] * experts.miss[0]
        if not np.isnan(y[b]):
            _learn(Z[b], rule, settings, coverage, experts, y[b], weight[b], value, F[b])
            t += 1


@compiled
def _learn(
    z: Array, rule: int, settings: Array, coverage: Array, experts: Experts, y: float, weight: float, value: float,
    f: Array,
) -> None:  # fmt: skip
    N = len(experts.W)
    miss, length = abs(y - value), experts.range[1] - experts.range[0]
    score = miss / experts.miss[0]
    experts.top[0] = max(FADE * experts.top[0], score)
    for c in range(len(coverage)):
        missed = 1.0 if score > experts.quantile[c] else 0.0
        experts.quantile[c] = max(experts.quantile[c] + STEP * experts.top[0] * (missed - (1 - coverage[c])), 0.0)
    experts.miss[0] = max(experts.miss[0] + SHARE * (miss - experts.miss[0]), LEAST)
    experts.loss[0] += miss * miss
    for i in range(N):
        share = min(abs(y - f[i]) / length, 1.0)
        experts.L[i] += 0.5 * share * share if settings[2] == 1.0 else share
        experts.loss[1 + i] += (y - f[i]) ** 2
        if experts.learns[i]:
            _step(experts.W[i], z, y, weight, rule, settings[0], settings[1])
    experts.range[0], experts.range[1] = min(experts.range[0], y), max(experts.range[1], y)


@compiled
def _step(w: Array, z: Array, y: float, weight: float, rule: int, C: float, epsilon: float) -> None:
    """The passive-aggressive step of one row."""
    f = square = 0.0
    for j in range(len(w)):
        f += w[j] * z[j]
        square += z[j] * z[j]
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
