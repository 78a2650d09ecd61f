r"""The compiled loop of the regressor: rows of targets are predicted and learned, one after the other.

It is the same for a row, a block of rows, and a batch of many targets. A *record* is what one target has learned, one
stretch of memory with the parts of `Memory`. Its regressions stand side by side, each as a base (P, M), which targets
may share, and pending rows: recursive least squares as the classifier has them (`kernels/ridge.py`). All numbers of a
record are in units of the sources: :math:`y` less their mean, over their deviation within a domain. What the mixture
remembers is in lengths of the range of :math:`y`, and is converted when the range grows: its powers then neither
overflow nor vanish.

A single label widens the range by GROWTH of its lengths at the most, and what lies beyond is learned as if it lay at
the end. So an outlier costs its own error and little afterwards, and a new level is reached within a few labels.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import Annotated, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import MOST, WHOLE, Spec
from hedgerow.kernels import FARTHEST_Z, LARGEST_Z, SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.ridge import learn_row
from hedgerow.kernels.rows import (
    add_row_product,
    dot,
    product_row,
    row_product,
    symmetric_rows,
    weigh,
)
from hedgerow.kernels.trees import Trees, boosted_row

FADED = 0.97  # how much of its labels a regression of a recent level and scale keeps from label to label;
LARGEST_LEVEL = 1.1  # its covariance has no larger trace
NARROW = 0.1  # the width of local scales, over the median squared distance; that of local heads is a fifth of it
HUBER = 8.0  # a row whose miss is larger than 8 mean misses counts for less
MARGIN = 0.25  # heads stay within the range of y so far, and a quarter of it on both sides
GROWTH = 3.0  # lengths by which one label may widen the range
RECENT = 50.0  # labels of the running mean of the misses
STEP = 0.05  # of the quantile tracker: its step over the largest score,
FADE = 0.99  # and how fast that is forgotten
SMOOTH = 5.0  # how many votes of close rows the mean miss counts in an interval's width
LEAST = 1e-9  # a mean miss is never smaller: the sources have a deviation of one
PRIOR_REGRET = 1e-4  # of ML-Poly's members before any label, in squared lengths of the range: see docs/theory.md
MIXTURES = 3  # ML-Poly, exponential weights, the stack
STACK = 3  # the last of the regressions
ORDERED = 8  # columns of the third: see `_order`
OF_A_ROW = 8  # numbers kept with a row, from THEN on the running means that its label left
THEN = 5
NOW = np.inf  # in the place of the newest label that was known: the newest that is known now


class Fixed(NamedTuple):
    """What all targets of a fit share: the constants of a model beside priors."""

    mean: Annotated[Array, Spec(("m",)), "mean of each column"]
    deviation: Annotated[Array, Spec(("m",), low=1e-300), "its deviation within a source"]
    y_mean: Annotated[Array, Spec((1,)), "the same of the labels"]
    y_deviation: Annotated[Array, Spec((1,), low=5e-324), ""]
    width: Annotated[Array, Spec((1,), low=5e-324), "of the kernel: a median squared distance"]
    farthest: Annotated[Array, Spec((1,), low=0), "how far beyond the range a prediction may go"]
    landmarks: Annotated[Array, Spec(("l", "m")), "rows of the kernel map"]
    A: Annotated[Array, Spec(("l", "r")), "what its values at landmarks are multiplied with"]
    source: Annotated[Array, Spec(("d1",)), "weights of the frozen kernel regression"]
    trees: Trees


class Targets(NamedTuple):
    """The records of targets (a row of `records` each) and the regressions that they start from.

    P, M, diagonal, top: as in `ridge/regression.py`, of the linear regression, the kernel's, that of the order, the
    stack; d, q: where the dimensions and the weights of each begin, and where the last end. at: where the parts of a
    record begin, in the order of `Memory`. kept: rows that are kept at the most. slots: of each row of a block its
    target's record.
    """

    P: tuple[Array, ...]
    M: tuple[Array, ...]
    diagonal: Array
    top: Array
    d: Array
    q: Array
    at: Array
    kept: int
    records: Array
    slots: Array


class Memory(NamedTuple):
    """What a target has learned: the parts of its record."""

    counts: Annotated[
        Array, Spec(("counts",), WHOLE, 0, MOST), "labels, large misses: prediction, heads"
    ]
    covered: Annotated[Array, Spec(("levels",), WHOLE, 0, MOST), "labels inside of each interval"]
    place: Annotated[Array, Spec((3,), WHOLE, 0, MOST), "rows kept, where the next goes, rows of G"]
    range: Annotated[Array, Spec((2,)), "of y so far"]
    miss: Annotated[Array, Spec((2,), low=5e-324), "running mean of the misses, and of how many"]
    running: Annotated[Array, Spec((4,)), "labels, sum, moving average, sum of squares"]
    offsets: Annotated[Array, Spec((2,)), "running means of the residuals of trees and kernel"]
    quantile: Annotated[Array, Spec(("levels",), low=0), "the tracker of each interval"]
    top: Annotated[Array, Spec((1,), low=0), "its decayed largest score"]
    mix: Annotated[
        Array, Spec((3, "heads")), "ML-Poly over heads: regrets, squares; squared losses"
    ]
    last: Annotated[Array, Spec((2, 3)), "ML-Poly over the mixtures: regrets, squares"]
    loss: Annotated[
        Array, Spec(("losses",), low=0), "squared loss, first range, labels beyond it, heads"
    ]
    level: Annotated[
        Array, Spec(("levelled", 5)), "of each level and scale P (3 numbers), and weights"
    ]
    known: Annotated[Array, Spec((2,)), "the newest label that is known, and whether there is one"]
    rows: Annotated[
        Array,
        Spec(("kept", "columns")),
        "newest rows, y, two residuals, miss, the label as it was given; then moving average, offsets",
    ]
    G: Annotated[Array, Spec(("places", "D")), "pending rows, regression after regression"]
    E: Annotated[Array, Spec(("places", "Q")), "and what they missed"]


class Block(NamedTuple):
    """Rows with labels (NaN: none), weights and the newest label that was known when they were predicted (NaN: none, or
    NOW); and, for each, the prediction with half the width of each interval, and what every head predicts.
    """

    X: Array
    y: Array
    weight: Array
    before: Array
    said: Array
    heads: Array


class Work(NamedTuple):
    """Room for what a row needs meanwhile; of the row before it is kept, so that a label costs no second prediction.

    known: the record and the labels that it was made for, -1 for none; the row whose label was known. x: the row and
    the label that was known. Z, fits, along: as each regression has it, its fits, its products with the pending rows.
    kernel, columns, outputs: values of the kernel at landmarks, columns of trees, the frozen outputs (the kernel
    regression, then trees). near: votes of kept rows. raw: heads before they are clipped. mixed, last: what the
    mixtures predict, and their weights. weights, Pz: room.
    """

    known: Array
    x: Array
    Z: Array
    fits: Array
    along: Array
    kernel: Array
    columns: Array
    outputs: Array
    near: Array
    raw: Array
    mixed: Array
    last: Array
    weights: Array
    Pz: Array


@compiled(threads=True)
def run(
    fixed: Fixed, coverage: Array, targets: Targets, block: Block, work: Work, begin: int, stop: int
) -> int:
    """Predict rows in order, from `begin` on, and learn those that have a label; after how many it has stopped.

    It stops after a label that makes their number a multiple of `stop`, if that is above 0.

    By as much as the linear head goes beyond the range, that is added to all predictions and taken from y: the mixture
    never leaves its range.
    """
    at = targets.at
    mean = fixed.y_mean[0]
    deviation = fixed.y_deviation[0]
    for b in range(begin, len(block.X)):
        s = targets.records[targets.slots[b]]
        whole = s[: at[3]].view(np.int64)
        memory = Memory(
            whole[at[0] : at[1]], whole[at[1] : at[2]], whole[at[2] :], s[at[3] : at[4]], s[at[4] : at[5]],
            s[at[5] : at[6]], s[at[6] : at[7]], s[at[7] : at[8]], s[at[8] : at[9]],
            s[at[9] : at[10]].reshape((3, -1)), s[at[10] : at[11]].reshape((2, -1)), s[at[11] : at[12]],
            s[at[12] : at[13]].reshape((-1, 5)), s[at[13] : at[14]],
            s[at[14] : at[15]].reshape((-1, len(block.X[b]) + OF_A_ROW)), s[at[15] : at[16]], s[at[16] :],
        )  # fmt: skip
        x = block.X[b]
        f = block.heads[b]
        said = block.said[b]
        newest = block.before[b]
        if newest == NOW:
            newest = memory.known[0] if memory.known[1] > 0 else np.nan
        if not _is_known(work, targets.slots[b], memory.counts[0], x, newest):
            _map(fixed, x, work)
            _order(targets, memory, newest, (newest - mean) / deviation, work)
            _heads(targets, fixed.width[0], memory, work)
        margin = MARGIN * (memory.range[1] - memory.range[0])
        low = memory.range[0] - margin
        high = memory.range[1] + margin
        beyond = work.raw[0] - min(max(work.raw[0], low), high)
        beyond = min(max(beyond, -fixed.farthest[0]), fixed.farthest[0])
        for h in range(len(f)):
            f[h] = min(max(work.raw[h], low), high)
        _mix(targets, memory, f, low, high, work)
        prediction = dot(work.last, work.mixed)
        spread = _spread(memory, work.near)
        said[0] = mean + deviation * (prediction + beyond)
        for c in range(len(coverage)):
            said[1 + c] = deviation * memory.quantile[c] * spread
        if not np.isnan(block.y[b]):
            inner = (block.y[b] - mean) / deviation - beyond
            _count(memory, coverage, f, prediction, spread, inner)
            learned = _widen(memory.range, inner)
            miss = abs(learned - prediction)
            missed = abs(inner - prediction)
            noise = max(1.0, missed / (HUBER * max(memory.miss[0], LEAST))) / block.weight[b]
            track(coverage, missed / spread, miss / spread, memory.quantile, memory.top)
            _weigh(memory, f, work.mixed, prediction, inner, learned, low, high)
            _learn(targets, memory, work, learned, learned + beyond, noise)
            _remember(memory, work, targets.kept, learned + beyond, miss, block.y[b])
        for h in range(len(f)):
            f[h] = mean + deviation * (f[h] + beyond)
        if stop > 0 and not np.isnan(block.y[b]) and memory.counts[0] % stop == 0:
            return b + 1
    return len(block.X)


# -- what is computed for a row ------------------------------------------------------------------------------------


@compiled
def _is_known(work: Work, slot: int, labels: int, x: Array, newest: float) -> bool:
    """Whether what is in the room is of this row and record; if not, it will be."""
    last = len(x)
    same = work.known[0] == slot and work.known[1] == labels and work.x[last] == newest
    work.x[last] = newest
    for j in range(len(x)):
        same = same and work.x[j] == x[j]
        work.x[j] = x[j]
    work.known[0] = slot
    work.known[1] = labels
    return bool(same)


@compiled(fastmath=SUMS)
def _squared_distance(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(a)):
        total += (a[i] - b[i]) ** 2
    return total


@compiled
def _map(fixed: Fixed, x: Array, work: Work) -> None:
    """The row as the regressions have it, and the frozen outputs."""
    m = len(x)
    Z = work.Z
    near = Z[m + 2 : 2 * m + 2]
    Z[0] = 1.0
    Z[m + 1] = 1.0
    for j in range(m):
        value = (x[j] - fixed.mean[j]) / fixed.deviation[j]
        if np.isnan(value):
            value = 0.0
        Z[1 + j] = min(max(value, -FARTHEST_Z), FARTHEST_Z)
        near[j] = min(max(value, -LARGEST_Z), LARGEST_Z)
    for i in range(len(fixed.landmarks)):
        work.kernel[i] = exp(-_squared_distance(near, fixed.landmarks[i]) / fixed.width[0])
    end = m + 1 + len(fixed.source)
    row_product(work.kernel, fixed.A, Z[2 * m + 2 : end])
    work.outputs[0] = dot(Z[m + 1 : end], fixed.source)
    boosted_row(fixed.trees, x, work.columns, work.outputs[1:].reshape((-1, 1)))


@compiled
def _order(targets: Targets, memory: Memory, newest: float, scaled: float, work: Work) -> None:
    """The row as the regression of the order has it: 1, trees and kernel, then of the row whose label was the newest:
    label, the label before it, moving average, trees and kernel.

    A label that is no longer among the kept rows stands for all of them, and where there is none the sources' mean.
    """
    m = memory.rows.shape[1] - OF_A_ROW
    z = work.Z[targets.d[2] : targets.d[3]]
    z[0] = 1.0
    value = min(max(scaled, memory.range[0]), memory.range[1]) if scaled == scaled else 0.0
    for j in range(2):
        z[1 + j] = z[6 + j] = work.outputs[1 - j]
    for j in range(3, 6):
        z[j] = value
    count = memory.place[0]
    oldest = memory.place[1] if count == targets.kept else 0
    work.known[2] = -1
    for i in range(count):
        at = (oldest + count - 1 - i) % count
        row = memory.rows[at, m:]
        if row[4] == newest:
            z[3] = row[0]
            z[4] = memory.rows[at if at == oldest else (at - 1) % count, m]
            z[5] = row[THEN]
            z[6] = row[0] - row[1]
            z[7] = row[0] - row[2]
            work.known[2] = at
            return


@compiled
def _fit(targets: Targets, memory: Memory, work: Work, s: int) -> None:
    """The fits of regression s, and its products with pending rows."""
    z = work.Z[targets.d[s] : targets.d[s + 1]]
    fits = work.fits[targets.q[s] : targets.q[s + 1]]
    n = memory.place[2]
    row_product(z, targets.M[s], fits)
    if n > 0:
        room = len(memory.G) // targets.d[STACK + 1]
        G = memory.G[room * targets.d[s] :][: n * len(z)].reshape((n, len(z)))
        E = memory.E[room * targets.q[s] :][: n * len(fits)].reshape((n, len(fits)))
        product_row(G, z, work.along[s, :n])
        add_row_product(work.along[s, :n], E, 1.0, fits)


@compiled
def _heads(targets: Targets, width: float, memory: Memory, work: Work) -> None:
    """What every head predicts, in the order of `RegressionPlan.heads`; and the votes of the kept rows.

    Running means and votes are as they were when the label that was known was the newest: by labels that came in
    between a late one would be judged too well.
    """
    f = work.raw
    outputs = work.outputs
    source = outputs[0]
    first = outputs[1]
    h = 0
    for s in range(STACK):
        _fit(targets, memory, work, s)
        for i in range(targets.q[s], targets.q[s + 1]):
            f[h] = work.fits[i]
            h += 1
        f[h - 1] += first  # the last of a regression predicts the residual of the trees
    m = memory.rows.shape[1] - OF_A_ROW
    at = work.known[2]
    count = memory.place[0]
    newer = (memory.place[1] - 1 - at) % count if at >= 0 else count
    for i in range(len(memory.level)):
        value = outputs[i % len(outputs)]
        f[h] = value + memory.level[i, 3] + memory.level[i, 4] * value
        h += 1
    order = work.Z[targets.d[2] : targets.d[3]]
    x = work.Z[m + 2 : 2 * m + 2]
    total = 0.0
    sum_y = 0.0
    sum_first = 0.0
    sum_source = 0.0
    for i in range(count):
        row = memory.rows[i]
        work.near[i] = exp(-_squared_distance(x, row[:m]) / (NARROW * width))
        if at < 0 or 0 < (i - at) % count <= newer:
            work.near[i] = 0.0
        vote = work.near[i] ** 5
        total += vote
        sum_y += vote * row[m]
        sum_first += vote * row[m + 1]
        sum_source += vote * row[m + 2]
    mean = memory.running[1] / (memory.running[0] + 1)
    f[h] = first + (memory.rows[at, m + THEN + 1] if at >= 0 else 0.0)
    f[h + 1] = source + (memory.rows[at, m + THEN + 2] if at >= 0 else 0.0)
    f[h + 2] = first + sum_first / (total + 0.5)
    f[h + 3] = source + sum_source / (total + 0.5)
    f[h + 4] = (sum_y + 0.3 * mean) / (total + 0.3)
    f[h + 5] = memory.rows[at, m + THEN] if at >= 0 else 0.0
    f[h + 6] = order[3]
    f[h + 7] = first + order[3] - order[6]
    f[h + 8] = source + order[3] - order[7]


@compiled
def _polynomial(mix: Array, w: Array) -> None:
    """The weights of ML-Poly by regrets and their squares, every regret PRIOR_REGRET of the squared range ahead.

    Regrets that are none but for rounding then give equal weights but for rounding.
    """
    total = 0.0
    for h in range(len(w)):
        w[h] = max(mix[0, h] + PRIOR_REGRET, 0.0) / (4.0 + mix[1, h])
        total += w[h]
    for h in range(len(w)):
        w[h] = w[h] / total if total > 0 else 1 / len(w)


@compiled
def _mix(targets: Targets, memory: Memory, f: Array, low: float, high: float, work: Work) -> None:
    """What the two mixtures and the stack predict, and the weights of these three."""
    _polynomial(memory.mix, work.weights)
    base = min(max(dot(work.weights, f), low), high)
    away = work.Z[targets.d[STACK] :]
    for h in range(len(f)):
        away[h] = f[h] - base
    _fit(targets, memory, work, STACK)
    weigh(memory.mix[2], 0.5, work.weights)
    work.mixed[0] = base
    work.mixed[1] = min(max(dot(work.weights, f), low), high)
    work.mixed[2] = min(max(base + work.fits[targets.q[STACK]], low), high)
    _polynomial(memory.last, work.last)


@compiled
def _spread(memory: Memory, near: Array) -> float:
    """The local scale of a miss: those of close rows, drawn to the mean miss."""
    total = SMOOTH * float(memory.miss[0])
    votes = SMOOTH
    miss = memory.rows.shape[1] - OF_A_ROW + 3
    for i in range(memory.place[0]):
        total += near[i] * memory.rows[i, miss]
        votes += near[i]
    return float(max(total / votes, LEAST))


# -- what is learned of a label --------------------------------------------------------------------------------------


@compiled
def _count(
    memory: Memory, coverage: Array, f: Array, prediction: float, spread: float, y: float
) -> None:
    """Labels, those inside of intervals, and large misses: beyond half the deviation of the labels so far.

    Of that deviation the sources' counts as ten labels.
    """
    n = memory.running[0]
    total = memory.running[1]
    squares = memory.running[3] - total * total / max(n, 1.0)
    usual = 0.5 * sqrt((max(squares, 0.0) + 10.0) / (n + 10.0))
    memory.counts[0] += 1
    if abs(prediction - y) > usual:
        memory.counts[1] += 1
    for h in range(len(f)):
        if abs(f[h] - y) > usual:
            memory.counts[2 + h] += 1
    for c in range(len(coverage)):
        if abs(prediction - y) <= memory.quantile[c] * spread:
            memory.covered[c] += 1


@compiled
def track(coverage: Array, score: float, counted: float, quantile: Array, top: Array) -> None:
    """Quantiles of the scores (a miss over its usual size): up where an interval missed, down by less elsewhere.

    Steps are in proportion to the largest score, in which a score counts as `counted`.
    """
    top[0] = max(FADE * top[0], counted)
    for c in range(len(coverage)):
        missed = 1.0 if score > quantile[c] else 0.0
        quantile[c] = max(quantile[c] + STEP * top[0] * (missed - (1 - coverage[c])), 0.0)


@compiled
def _widen(limits: Array, y: float) -> float:
    """y, or the end of what the range of y (low, high) may become by one label."""
    most = GROWTH * (limits[1] - limits[0])
    return float(min(max(y, limits[0] - most), limits[1] + most))


@compiled
def _regret(
    mix: Array, f: Array, prediction: float, y: float, length: float, change: float
) -> None:
    """Regrets and their squares, in lengths of the range; change: how many old lengths the new one has."""
    for h in range(len(f)):
        r = 2 * ((prediction - y) / length) * ((prediction - f[h]) / length)
        mix[0, h] = (mix[0, h] + r) / (change * change)
        mix[1, h] = (mix[1, h] + r * r) / (change * change) / (change * change)


@compiled
def _weigh(
    memory: Memory, f: Array, mixed: Array, prediction: float, y: float, learned: float, low: float, high: float
) -> None:  # fmt: skip
    """The mixtures learn y, clipped to the range that was known before it; the range grows to `learned`."""
    length = high - low
    if memory.running[0] == 0:
        memory.loss[1] = length
    inside = min(max(y, low), high)
    memory.loss[0] += (y - prediction) ** 2
    memory.loss[2] += 2 * abs(y - inside) * length
    memory.range[0] = min(memory.range[0], learned)
    memory.range[1] = max(memory.range[1], learned)
    change = (1 + 2 * MARGIN) * (memory.range[1] - memory.range[0]) / length
    for h in range(len(f)):
        memory.mix[2, h] = (memory.mix[2, h] + ((f[h] - inside) / length) ** 2) / (change * change)
        memory.loss[3 + h] += (f[h] - y) ** 2
    _regret(memory.mix, f, mixed[0], inside, length, change)
    _regret(memory.last, mixed, prediction, inside, length, change)


@compiled
def _learn(
    targets: Targets, memory: Memory, work: Work, learned: float, y: float, noise: float
) -> None:
    """A pending row of every regression (the stack's is of the mixture, `learned`), and those of levels and scales."""
    room = len(memory.G) // targets.d[STACK + 1]
    h = 0
    for s in range(STACK + 1):
        d = targets.d[s]
        q = targets.q[s]
        d_end = targets.d[s + 1]
        q_end = targets.q[s + 1]
        z = work.Z[d:d_end]
        symmetric_rows(targets.P[s], work.Z.reshape((1, -1)), 1, d, work.Pz.reshape((1, -1)))
        for i in range(q, q_end):  # in the place of the fits, which are not asked for again
            if s == STACK:
                work.fits[i] = learned - work.mixed[0] - work.fits[i]
            else:
                work.fits[i] = y - work.raw[h]
                h += 1
        learn_row(
            memory.G[room * d : room * d_end], memory.E[room * q : room * q_end], memory.place[2], z,
            work.Pz[d:d_end], work.fits[q:q_end], noise, work.along[s], targets.diagonal[d:d_end], targets.top[s],
        )  # fmt: skip
    memory.place[2] += 1
    outputs = work.outputs
    for i in range(len(memory.level)):
        keep = 1.0 if i < len(outputs) else FADED
        _learn_level(memory.level[i], outputs[i % len(outputs)], y, noise, keep)


@compiled
def _learn_level(level: Array, g: float, y: float, noise: float, keep: float) -> None:
    """Recursive least squares of [1, g]; with keep < 1 labels fade: P grows by 1/keep, up to a trace."""
    missed = y - (g + level[3] + level[4] * g)
    first = level[0] + level[1] * g
    second = level[1] + level[2] * g
    s = keep * noise + max(first + second * g, 0.0)
    level[0] -= first * first / s
    level[1] -= first * second / s
    level[2] -= second * second / s
    if keep < 1:
        scale = min(1 / keep, LARGEST_LEVEL / (level[0] + level[2]))
        for i in range(3):
            level[i] *= scale
    level[3] += missed / s * first
    level[4] += missed / s * second


@compiled
def _remember(memory: Memory, work: Work, kept: int, y: float, miss: float, given: float) -> None:
    """Running means and the kept rows."""
    memory.known[0] = given
    memory.known[1] = 1.0
    memory.miss[1] += 1
    memory.miss[0] += (miss - memory.miss[0]) / min(memory.miss[1], RECENT)
    running = memory.running
    first = y - work.outputs[1]
    second = y - work.outputs[0]
    running[0] += 1
    running[1] += y
    running[3] += y * y
    running[2] += max(0.2, 1 / (running[0] + 0.5)) * (y - running[2])
    rate = max(0.05, 1 / (running[0] + 2))
    memory.offsets[0] += rate * (first - memory.offsets[0])
    memory.offsets[1] += rate * (second - memory.offsets[1])
    at = memory.place[1]
    row = memory.rows[at]
    m = len(row) - OF_A_ROW
    for j in range(m):
        row[j] = work.Z[m + 2 + j]
    row[m] = y
    row[m + 1] = first
    row[m + 2] = second
    row[m + 3] = miss
    row[m + 4] = given
    row[m + THEN] = running[2]
    for i in range(2):
        row[m + THEN + 1 + i] = memory.offsets[i]
    memory.place[0] = max(memory.place[0], at + 1)
    memory.place[1] = (at + 1) % kept
