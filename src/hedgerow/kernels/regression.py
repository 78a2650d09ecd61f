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

KEEP = (1.0, 1.0, 1.0, 0.98)  # how much each regression keeps from label to label
KEEP_LEVEL = (1.0, 0.97)  # and each regression of a level and a scale
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


@compiled(threads=True)
def run(rows: Rows, settings: Array, coverage: Array, memory: Memory, y: Array, weight: Array, out: Outcome) -> None:
    """Predict rows in order and learn those that have a label (y is not NaN).

    settings: the kernel's width, how far beyond the range of y a prediction may go, the largest trace of the recent
    regression. By as much as the linear head goes beyond the range, that is added to all predictions and taken from y:
    the mixture never leaves its range.
    """
    width, farthest = settings[0], settings[1]
    most = 1
    for P in memory.P:
        most = max(most, len(P))
    B, H = len(y), out.heads.shape[1]
    work, near = np.empty(max(most, H)), np.empty(len(memory.kept_x))
    mixed, weights = np.empty(MIXTURES), np.empty((2, H))
    last = np.empty(MIXTURES)
    raw = np.empty(H)
    for b in range(B):
        f = out.heads[b]
        _heads(rows, b, width, memory, raw, near)
        margin = MARGIN * (memory.range[1] - memory.range[0])
        low, high = memory.range[0] - margin, memory.range[1] + margin
        beyond = min(max(raw[0] - min(max(raw[0], low), high), -farthest), farthest)
        for h in range(H):
            f[h] = min(max(raw[h], low), high)
        _mix(memory, f, low, high, weights, mixed, last)
        prediction = _dot(last, mixed)
        spread = _spread(memory, near)
        out.prediction[b] = prediction + beyond
        for c in range(len(coverage)):
            out.half[b, c] = memory.quantile[c] * spread
        out.usual[b] = _usual(memory)
        if not np.isnan(y[b]):
            inner = y[b] - beyond
            miss = abs(inner - prediction)
            noise = max(1.0, miss / (HUBER * max(memory.miss[0], LEAST))) / weight[b]
            _track(memory, coverage, miss, spread)
            _weigh(memory, f, mixed, prediction, inner, low, high, noise, work)
            _learn(rows, b, memory, raw, y[b], noise, settings[2], work)
            _remember(rows, b, memory, y[b], inner, miss)
        for h in range(H):
            f[h] += beyond


@compiled(fastmath=SUMS)
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(b)):
        total += a[i] * b[i]
    return total


@compiled(fastmath=SUMS)
def _squared_distance(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(a)):
        total += (a[i] - b[i]) ** 2
    return total


@compiled
def _heads(rows: Rows, b: int, width: float, memory: Memory, f: Array, near: Array) -> None:
    """What every head predicts, in the order of `regression.plan.head_names`; and the votes of the kept rows."""
    h, trees, first = 0, rows.trees[b], rows.trees[b, 0]
    for s in range(len(memory.M)):
        z, M = rows.linear[b] if s == 0 else rows.kernel[b], memory.M[s]
        for i in range(len(M)):
            f[h] = _dot(M[i], z)
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
    least, total = memory.L[0], 0.0
    for h in range(len(f)):
        least = min(least, memory.L[h])
    for h in range(len(f)):
        weights[1, h] = exp(-(memory.L[h] - least) / (2 * length**2))
        total += weights[1, h]
    for h in range(len(f)):
        weights[1, h] /= total
    base = min(max(_dot(weights[0], f), low), high)
    mixed[0], mixed[1] = base, min(max(_dot(weights[1], f), low), high)
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
def _track(memory: Memory, coverage: Array, miss: float, spread: float) -> None:
    """Quantiles of miss/spread: up where an interval missed, down by less where it did not."""
    score = miss / spread
    memory.top[0] = max(FADE * memory.top[0], score)
    for c in range(len(coverage)):
        missed = 1.0 if score > memory.quantile[c] else 0.0
        memory.quantile[c] = max(memory.quantile[c] + STEP * memory.top[0] * (missed - (1 - coverage[c])), 0.0)
    memory.miss[1] += 1
    memory.miss[0] += (miss - memory.miss[0]) / min(memory.miss[1], RECENT)


@compiled
def _regret(R: Array, S: Array, f: Array, prediction: float, y: float) -> None:
    for h in range(len(R)):
        r = 2 * (prediction - y) * (prediction - f[h])
        R[h] += r
        S[h] += r * r


@compiled
def _weigh(
    memory: Memory, f: Array, mixed: Array, prediction: float, y: float, low: float, high: float, noise: float,
    work: Array,
) -> None:  # fmt: skip
    """The mixtures learn y, clipped to the range that was known before it; the stacks learn it as it is."""
    if memory.running[0] == 0:
        memory.loss[1] = high - low
    memory.loss[0] += (y - prediction) ** 2
    inside = min(max(y, low), high)
    _regret(memory.last_R, memory.last_S, mixed, prediction, inside)
    H, base = len(f), mixed[0]
    for k in range(len(memory.stack_a)):
        a, P, missed = memory.stack_a[k], memory.stack_P[k], y - base
        for h in range(H):
            missed -= a[h] * (f[h] - base)
        for h in range(H):
            total = 0.0
            for j in range(H):
                total += P[h, j] * (f[j] - base)
            work[h] = total
        square = reach = 0.0
        for h in range(H):
            square += work[h] * (f[h] - base)
            reach += sqrt(max(P[h, h], 0.0)) * abs(f[h] - base)
        # a row that would leave little but rounding in P counts for less; by rounding the square can be below zero
        s = max(noise, ROUNDING * reach * reach) + max(square, 0.0)
        for h in range(H):
            a[h] += work[h] / s * missed
            for j in range(H):
                P[h, j] -= work[h] * work[j] / s
    _regret(memory.R, memory.S, f, base, inside)
    for h in range(H):
        memory.L[h] += (f[h] - inside) ** 2
        memory.loss[2 + h] += (f[h] - y) ** 2


@compiled
def _learn(rows: Rows, b: int, memory: Memory, f: Array, y: float, noise: float, largest: float, k: Array) -> None:
    """Recursive least squares of all regressions, and of levels and scales; f: heads that are not clipped."""
    h, G = 0, rows.trees.shape[1] + 1
    for s in range(len(memory.P)):
        z, P, M = rows.linear[b] if s == 0 else rows.kernel[b], memory.P[s], memory.M[s]
        D, variance = len(P), KEEP[s] * noise
        for i in range(D):
            k[i] = _dot(P[i], z)
        variance += max(_dot(k, z), 0.0)
        for i in range(len(M)):
            step = (y - f[h]) / variance
            for j in range(D):
                M[i, j] += step * k[j]
            h += 1
        for i in range(D):
            for j in range(D):
                P[i, j] -= k[i] * k[j] / variance
        if KEEP[s] < 1:
            trace = 0.0
            for i in range(D):
                trace += P[i, i]
            scale = min(1 / KEEP[s], largest / trace)
            for i in range(D):
                for j in range(D):
                    P[i, j] *= scale
    for s in range(len(KEEP_LEVEL)):
        for g in range(G):
            u = rows.trees[b, g] if g < G - 1 else rows.source[b]
            P, a = memory.level_P[s, g], memory.level_a[s, g]
            k0, k1 = P[0, 0] + P[0, 1] * u, P[1, 0] + P[1, 1] * u
            variance = KEEP_LEVEL[s] * noise + max(k0 + k1 * u, 0.0)
            step = (y - f[h]) / variance
            a[0] += step * k0
            a[1] += step * k1
            P[0, 0] -= k0 * k0 / variance
            P[0, 1] -= k0 * k1 / variance
            P[1, 0] = P[0, 1]
            P[1, 1] -= k1 * k1 / variance
            if KEEP_LEVEL[s] < 1:
                scale = min(1 / KEEP_LEVEL[s], 1.1 / (P[0, 0] + P[1, 1]))
                for i in range(2):
                    for j in range(2):
                        P[i, j] *= scale
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
