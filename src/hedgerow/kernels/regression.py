r"""The compiled loop of the regressor: rows are predicted and learned, one after the other.

What needs no label (scaled rows, feature maps, outputs of the trees, votes of the sources' rows) is computed for a
block at once (`Rows`); the loop does the rest in the order of the rows: heads, mixture, interval, label. All numbers
are in units of the sources: :math:`y` less their mean, over their deviation within a domain.

`step` is the NumPy twin of one row: the same quantities by name, whole arrays at a time.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.rows import dot, weigh

KEEP = (1.0, 1.0, 1.0, 0.98)  # how much each regression keeps from label to label
KEEP_LEVEL = (1.0, 0.97)  # and each regression of a level and a scale,
LARGEST_LEVEL = 1.1  # whose covariance has no larger trace where labels fade
NARROW = 0.1  # the width of the local heads, over the median squared distance; the second is a fifth of it
HUBER = 8.0  # a row whose miss is larger than 8 mean misses counts for less
MARGIN = 0.25  # heads stay within the range of y so far, and a quarter of it on both sides
RECENT = 50.0  # labels of the running mean of the misses
STEP, FADE = 0.05, 0.99  # of the quantile tracker: its step over the largest score, and how fast that is forgotten
SMOOTH = 5.0  # how many votes of close rows the mean miss counts in an interval's width
LEAST = 1e-9  # a mean miss is never smaller: the sources have a deviation of one
ROUNDING = 1e-10  # of what a square could be by P's diagonal: one row takes no more digits from P than that
MIXTURES = 4  # ML-Poly, exponential weights, two stacks


class Rows(NamedTuple):
    """A block of rows as far as no label is needed.

    x: scaled (B x m). linear, kernel: the feature maps, with an intercept first. trees: the outputs of the frozen
    trees. source: the frozen kernel regression. votes: of the sources' rows nearby, their sum of w y and of w (B x 2).
    """

    x: Array
    linear: Array
    kernel: Array
    trees: Array
    source: Array
    votes: Array


class Memory(NamedTuple):
    """What a target has learned.

    P, M: covariance and weights (a row a head) of each regression. level_P, level_a: regressions of y - g on [1, g]
    for each frozen output g. offsets: running means of the residuals of trees and kernel. running: labels, their
    sum, their moving average, the sum of their squares. kept_x, kept_y: the newest rows, with y, the two residuals
    and the miss of the prediction. place: how many rows are kept, and where the next one goes. range: of y so far.
    miss: its running mean, and of how many. quantile, top: the tracker of each interval, the decayed largest score.
    R, S, L, stack_P, stack_a, last_R, last_S: ML-Poly, exponential weights, stacks, and ML-Poly over these four.
    loss: squared loss of the prediction, of every head; the length of the range at the first label.
    """

    P: tuple[Array, ...]
    M: tuple[Array, ...]
    level_P: Array
    level_a: Array
    offsets: Array
    running: Array
    kept_x: Array
    kept_y: Array
    place: Array
    range: Array
    miss: Array
    quantile: Array
    top: Array
    R: Array
    S: Array
    L: Array
    stack_P: Array
    stack_a: Array
    last_R: Array
    last_S: Array
    loss: Array


class Outcome(NamedTuple):
    """For each row the prediction, half the width of each interval, what all heads predict, what is a usual miss."""

    prediction: Array
    half: Array
    heads: Array
    usual: Array


@compiled(threads=True, makes=True)
def run(rows: Rows, settings: Array, coverage: Array, memory: Memory, y: Array, weight: Array, out: Outcome) -> None:
    """Predict rows in order and learn those that have a label (y is not NaN).

    settings: the kernel's width, how far beyond the range of y a prediction may go, the largest trace of the recent
    regression. By as much as the linear head goes beyond the range, that is added to all predictions and taken from y:
    the mixture never leaves its range.
    """
    width, farthest = settings[0], settings[1]
    B, H, most = len(y), out.heads.shape[1], out.heads.shape[1]
    for P in memory.P:
        most = max(most, len(P))
    gain, near, raw, weights = np.empty(most), np.empty(len(memory.kept_x)), np.empty(H), np.empty((2, H))
    mixed, last = np.empty(MIXTURES), np.empty(MIXTURES)
    for b in range(B):
        f = out.heads[b]
        _heads(rows, b, width, memory, raw, near)
        margin = MARGIN * (memory.range[1] - memory.range[0])
        low, high = memory.range[0] - margin, memory.range[1] + margin
        beyond = min(max(raw[0] - min(max(raw[0], low), high), -farthest), farthest)
        for h in range(H):
            f[h] = min(max(raw[h], low), high)
        _mix(memory, f, low, high, weights, mixed, last)
        prediction = dot(last, mixed)
        spread = _spread(memory, near)
        out.prediction[b] = prediction + beyond
        for c in range(len(coverage)):
            out.half[b, c] = memory.quantile[c] * spread
        out.usual[b] = _usual(memory)
        if not np.isnan(y[b]):
            inner = y[b] - beyond
            miss = abs(inner - prediction)
            noise = max(1.0, miss / (HUBER * max(memory.miss[0], LEAST))) / weight[b]
            track(coverage, miss / spread, memory.quantile, memory.top)
            memory.miss[1] += 1
            memory.miss[0] += (miss - memory.miss[0]) / min(memory.miss[1], RECENT)
            _weigh(memory, f, mixed, prediction, inner, low, high, noise, gain)
            _learn(rows, b, memory, raw, y[b], noise, settings[2], gain)
            _remember(rows, b, memory, y[b], inner, miss)
        for h in range(H):
            f[h] += beyond


@compiled(fastmath=SUMS)
def _squared_distance(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(a)):
        total += (a[i] - b[i]) ** 2
    return total


@compiled
def _heads(rows: Rows, b: int, width: float, memory: Memory, f: Array, near: Array) -> None:
    """What every head predicts, in the order of `RegressionPlan.heads`; and the votes of the kept rows."""
    h, trees, first = 0, rows.trees[b], rows.trees[b, 0]
    for s in range(len(memory.M)):
        z, M = rows.linear[b] if s == 0 else rows.kernel[b], memory.M[s]
        for i in range(len(M)):
            f[h] = dot(M[i], z)
            h += 1
        f[h - 1] += first  # the last of a space predicts the residual of the trees
    for k in range(len(KEEP_LEVEL)):
        for g in range(len(trees) + 1):
            value = trees[g] if g < len(trees) else rows.source[b]
            f[h] = value + memory.level_a[k, g, 0] + memory.level_a[k, g, 1] * value
            h += 1
    two = (first, rows.source[b])
    for value in two:
        f[h] = value
        h += 1
    for k in range(len(memory.offsets)):
        for j in range(2):
            f[h] = two[j] + memory.offsets[k, j]
            h += 1
    n = memory.place[0]
    mean = memory.running[1] / (memory.running[0] + 1)
    for i in range(n):
        near[i] = exp(-_squared_distance(rows.x[b], memory.kept_x[i]) / (NARROW * width))
    for power in (1, 5):
        total = sum_y = sum_first = sum_second = 0.0
        for i in range(n):
            w = near[i] if power == 1 else near[i] ** 5
            total += w
            sum_y += w * memory.kept_y[i, 0]
            sum_first += w * memory.kept_y[i, 1]
            sum_second += w * memory.kept_y[i, 2]
        f[h] = two[0] + sum_first / (total + 0.5)
        f[h + 1] = two[1] + sum_second / (total + 0.5)
        f[h + 2] = (sum_y + 0.3 * mean) / (total + 0.3)
        h += 3
    f[h] = (sum_y + rows.votes[b, 0] + 0.05 * mean) / (total + rows.votes[b, 1] + 0.05)
    f[h + 1], f[h + 2] = mean, memory.running[2]


@compiled
def _polynomial(R: Array, S: Array, length: float, w: Array) -> None:
    """The weights of ML-Poly."""
    total = 0.0
    for h in range(len(R)):
        w[h] = max(R[h], 0.0) / (4 * length**4 + S[h])
        total += w[h]
    for h in range(len(R)):
        w[h] = w[h] / total if total > 0 else 1 / len(R)


@compiled
def _mix(memory: Memory, f: Array, low: float, high: float, weights: Array, mixed: Array, last: Array) -> None:
    """What the two mixtures and the two stacks predict, and the weights of these four."""
    length = high - low
    _polynomial(memory.R, memory.S, length, weights[0])
    weigh(memory.L, 1 / (2 * length**2), weights[1])
    base = min(max(dot(weights[0], f), low), high)
    mixed[0], mixed[1] = base, min(max(dot(weights[1], f), low), high)
    for k in range(len(memory.stack_a)):
        value = base
        for h in range(len(f)):
            value += memory.stack_a[k, h] * (f[h] - base)
        mixed[2 + k] = min(max(value, low), high)
    _polynomial(memory.last_R, memory.last_S, length, last)


@compiled
def _usual(memory: Memory) -> float:
    """Half the deviation of the labels so far; the sources' counts as ten labels."""
    n, total = memory.running[0], memory.running[1]
    squares = memory.running[3] - total * total / max(n, 1.0)
    return 0.5 * sqrt((max(squares, 0.0) + 10.0) / (n + 10.0))


@compiled
def _spread(memory: Memory, near: Array) -> float:
    """The local scale of a miss: those of close rows, drawn to the mean miss."""
    total, votes = SMOOTH * float(memory.miss[0]), SMOOTH
    for i in range(memory.place[0]):
        total += near[i] * memory.kept_y[i, 3]
        votes += near[i]
    return max(total / votes, LEAST)


@compiled
def track(coverage: Array, score: float, quantile: Array, top: Array) -> None:
    """Quantiles of the scores (a miss over its usual size): up where an interval missed, down by less elsewhere."""
    top[0] = max(FADE * top[0], score)
    for c in range(len(coverage)):
        missed = 1.0 if score > quantile[c] else 0.0
        quantile[c] = max(quantile[c] + STEP * top[0] * (missed - (1 - coverage[c])), 0.0)


@compiled
def _regret(R: Array, S: Array, f: Array, prediction: float, y: float) -> None:
    for h in range(len(R)):
        r = 2 * (prediction - y) * (prediction - f[h])
        R[h] += r
        S[h] += r * r


@compiled
def _recursive_step(P: Array, z: Array, noise: float, keep: float, largest: float, gain: Array) -> float:
    """Recursive least squares of one row: P z into `gain`, P -= P z z' P/s, and s = keep noise + z' P z.

    With keep < 1 labels fade: P grows by 1/keep, up to the trace `largest`. By rounding z' P z can be below zero.
    """
    D = len(P)
    for i in range(D):
        gain[i] = dot(P[i], z)
    s = keep * noise + max(dot(z, gain), 0.0)
    for i in range(D):
        for j in range(D):
            P[i, j] -= gain[i] * gain[j] / s
    if keep < 1:
        trace = 0.0
        for i in range(D):
            trace += P[i, i]
        scale = min(1 / keep, largest / trace)
        for i in range(D):
            for j in range(D):
                P[i, j] *= scale
    return s


@compiled(makes=True)
def _weigh(
    memory: Memory, f: Array, mixed: Array, prediction: float, y: float, low: float, high: float, noise: float,
    gain: Array,
) -> None:  # fmt: skip
    """The mixtures learn y, clipped to the range that was known before it; the stacks learn it as it is."""
    if memory.running[0] == 0:
        memory.loss[1] = high - low
    memory.loss[0] += (y - prediction) ** 2
    inside = min(max(y, low), high)
    _regret(memory.last_R, memory.last_S, mixed, prediction, inside)
    H, base = len(f), mixed[0]
    away = np.empty(H)
    for h in range(H):
        away[h] = f[h] - base
    for k in range(len(memory.stack_a)):
        a, P, missed, reach = memory.stack_a[k], memory.stack_P[k], y - base, 0.0
        for h in range(H):
            missed -= a[h] * away[h]
            reach += sqrt(max(P[h, h], 0.0)) * abs(away[h])
        # a row that would leave little but rounding in P counts for less
        s = _recursive_step(P, away, max(noise, ROUNDING * reach * reach), 1.0, 0.0, gain)
        for h in range(H):
            a[h] += gain[h] / s * missed
    _regret(memory.R, memory.S, f, base, inside)
    for h in range(H):
        memory.L[h] += (f[h] - inside) ** 2
        memory.loss[2 + h] += (f[h] - y) ** 2


@compiled(makes=True)
def _learn(rows: Rows, b: int, memory: Memory, f: Array, y: float, noise: float, largest: float, gain: Array) -> None:
    """All regressions, and those of levels and scales; f: heads that are not clipped."""
    h, G, line = 0, rows.trees.shape[1] + 1, np.ones(2)
    for s in range(len(memory.P)):
        z, M = rows.linear[b] if s == 0 else rows.kernel[b], memory.M[s]
        variance = _recursive_step(memory.P[s], z, noise, KEEP[s], largest, gain)
        for i in range(len(M)):
            step = (y - f[h]) / variance
            for j in range(len(z)):
                M[i, j] += step * gain[j]
            h += 1
    for s in range(len(KEEP_LEVEL)):
        for g in range(G):
            line[1] = rows.trees[b, g] if g < G - 1 else rows.source[b]
            variance = _recursive_step(memory.level_P[s, g], line, noise, KEEP_LEVEL[s], LARGEST_LEVEL, gain)
            for j in range(2):
                memory.level_a[s, g, j] += (y - f[h]) / variance * gain[j]
            h += 1


@compiled
def _remember(rows: Rows, b: int, memory: Memory, y: float, inner: float, miss: float) -> None:
    """Offsets, running means, the kept rows, the range of y."""
    running, at, first, second = memory.running, memory.place[1], y - rows.trees[b, 0], y - rows.source[b]
    running[0] += 1
    running[1] += y
    running[3] += y * y
    running[2] += max(0.2, 1 / (running[0] + 0.5)) * (y - running[2])
    for k in range(2):
        rate = 1 / (running[0] + 2) if k == 0 else max(0.05, 1 / (running[0] + 2))
        memory.offsets[k, 0] += rate * (first - memory.offsets[k, 0])
        memory.offsets[k, 1] += rate * (second - memory.offsets[k, 1])
    for j in range(rows.x.shape[1]):
        memory.kept_x[at, j] = rows.x[b, j]
    memory.kept_y[at, 0], memory.kept_y[at, 1], memory.kept_y[at, 2], memory.kept_y[at, 3] = y, first, second, miss
    memory.place[0] = min(memory.place[0] + 1, len(memory.kept_x))
    memory.place[1] = (at + 1) % len(memory.kept_x)
    memory.range[0], memory.range[1] = min(memory.range[0], inner), max(memory.range[1], inner)
