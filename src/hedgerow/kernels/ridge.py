"""The step of our own learner: rows are prepared, mapped, predicted and learned in one compiled call.

A *record* is what one target has learned, in one stretch of memory (`Record`). Its regressions stand in all spaces side
by side, each as a base (P, M) and pending rows g_i, e_i: what is known is P - sum_i g_i g_i' and M + sum_i g_i e_i'. A
row z with targets y and r = 1/weight becomes one more of them,

    g = (P - G' G) z / root,   e = (y - M' z - E' G z) / root,   root^2 = r + z' (P - G' G) z.

`step` takes any number of rows, each of the target whose record it names: one row of a model, a block of them, or a
batch of many targets that share P and M. Rows go in parts of PART: what reads the large matrices (maps, products with
M, P and the kept rows of the sources) is done for a part at once, by the same sums as for one row, and the rest row by
row. So a block gives what its rows give, to the last bit. `ridge/plain.py` has the plain NumPy form, and tests hold the
two together.

P is known to some 16 digits. Where z' P z is 1e10 times r (a row far longer than usual, or of a very large weight), the
update would leave little but rounding in P, and z' P z < 0 later. So r is at least 1e-10 times what z' P z could be by
P's diagonal: such a row counts for less than it asks (`_learn_carefully`). Rows of unit length with a weight of 1 are
never among them.

Local heads compare rows of whole numbers: unit vectors times SCALE, rounded. Their products are exact, as none is
larger than about SCALE^2 = 2^22 by Cauchy-Schwarz.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import MOST as COUNT
from hedgerow.core.constants import SHORT, SUM, WHOLE, Spec
from hedgerow.kernels import FADE, NOW, SCALE, SUMS, TEMPERATURES
from hedgerow.kernels import PART as OUTSIDE
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.rows import (
    add_row_product,
    best,
    dot,
    prepare,
    product_row,
    rows_dots,
    rows_times,
    symmetric_rows,
    to_unit,
    weigh,
)
from hedgerow.kernels.trees import Trees, leaf_scores, level_scores, tree_row

PART = 16  # rows that are prepared and multiplied at once
LEAST = 1e-12  # a probability is never smaller where its logarithm is taken
MOST = 1e4  # scores beyond are brought down to it, all of a head alike: the stacks square them
ROUNDING = (
    1e-10  # of what z' P z could be by P's diagonal: one row takes no more digits from P than that
)
LOST = 1e-13  # of what z' P z could be: lost to rounding when pending rows are taken from P
LONGEST = 1e100  # a row is shortened where the root of z' P z could be larger
FAR = 1e12  # an inner product with a landmark counts as no larger, so that its square is a number to compute with
FAINT = 20.0  # a row votes if its vote is at least exp(-FAINT) times the largest of its domain
TRUST = 0.3  # votes of a source's row, against those of a row of the target
KEEP = (
    1.0,
    0.98,
)  # how much of its curvature a stack keeps from label to label: the second forgets
FLOOR = 0.3  # what the curvature of a stack that forgets does not fall below
REPEATED = 8.0  # scores of the head that repeats a label are log p / REPEATED
LOWEST = float(np.log(1e-4))  # of the log-probabilities that a model from outside says
NO_LOCAL = -2  # in the place of the space whose rows local heads compare: there are none
KEPT, NEXT, LABELS, PENDING, ROWS = range(5)  # places of a record's counters


class Mixture(NamedTuple):
    """The state of a mixture (`ridge/mixture.py`)."""

    loss: Annotated[Array, Spec(("experts",), low=0), "log-loss of each expert"]
    members: Annotated[Array, Spec((4,), low=0), "log-loss of qbar, pi and the two stacks"]
    a: Annotated[Array, Spec((2, "features")), "weights of the stacks"]
    H: Annotated[Array, Spec((2, "features", "features")), "their curvatures, lower triangles"]
    counts: Annotated[Array, Spec(("K",), low=1), "labels of each class, one more"]
    order: Annotated[
        Array,
        Spec((3,), low=-1),
        "labels like the newest that was known, other ones, and the newest that is known (-1: none)",
    ]


class Target(NamedTuple):
    """Moments of the target (`core/moments.py`)."""

    counts: Annotated[
        Array, Spec(("T",), low=0), "weight of the labelled rows, then of those of each class"
    ]
    totals: Annotated[Array, Spec(("T", "t"), low=-SUM, high=SUM), "sums of them"]


class Record(NamedTuple):
    """What a target has learned beside P and M, in one stretch of memory.

    G, E: pending rows of all regressions, space after space, as many places in each. From `target` on: what a model
    counts beside what it learns; records of many targets leave it out (`one`, t and T are 0).
    """

    counters: Annotated[
        Array,
        Spec((5,), WHOLE, 0, COUNT),
        "rows kept, place of the next, labels, pending rows, rows",
    ]
    running: Annotated[Array, Spec(("running",)), "statistics of the preprocessing"]
    mix: Mixture
    labels: Annotated[Array, Spec(("room",), WHOLE, 0, "K"), "class of each kept row"]
    weights: Annotated[Array, Spec(("room",), low=0), "how much it counts"]
    G: Annotated[Array, Spec(("places", "D")), "pending rows g"]
    E: Annotated[Array, Spec(("places", "Q")), "and e"]
    rows: Annotated[
        Array, Spec(("room", "W"), SHORT, -SCALE, SCALE), "kept rows as local heads compare them"
    ]
    leaves: Annotated[Array, Spec(("leaved", "trees"), SHORT), "where they fall in the forest"]
    target: Target
    seen: Annotated[Array, Spec(("one",), WHOLE, 0, COUNT), "labels"]
    mistakes: Annotated[Array, Spec(("one",), WHOLE, 0, COUNT), "mistakes of the prediction"]
    expert_mistakes: Annotated[
        Array, Spec(("tallied",), WHOLE, 0, COUNT), "mistakes of each head, and of pi"
    ]
    mixture_loss: Annotated[Array, Spec(("one",), low=0), "log-loss of the prediction"]


# the places of a record's parts in `at`, in the order of the fields above
(
    RUNNING, LOSS, MEMBERS, STACKS, CURVES, COUNTS, ORDER, CLASSES, WEIGHTS, G, E, COMPARED, LEAVES, TALLIED, TOTALS,
    SEEN, MISTAKES, EXPERTS, MIXTURE_LOSS, END,
) = range(1, 21)  # fmt: skip


class Fit(NamedTuple):
    """What all targets of a fit share.

    steps, shared, length: the preprocessing (`kernels/rows.py`). axes: directions of the input, where a rank was given.
    landmarks, matrices: the map of each space, without rows where it has none. spaces: of each space where its
    dimensions and its weights end, whose map it takes, dimensions of its map, and whether rows become unit vectors.
    keep: how much of its labels a space keeps when they fade. columns: of each head the first of its weights, how many,
    and where its class targets begin in `tables` (-1: one-hot). halves: |C_k|^2/2. class_rows: the targets of a row of
    each class (K x Q). near_*: kept rows of the sources (a column each), where those of each source start. near: the
    space whose rows local heads compare, -1: the input, -2: there are none; local: how many heads; kept: rows of a
    target. forest: trees, whose heads are `trees` of boosting, one of levels before them, and as many of leaves, which
    come last. level, centre, deviation: of the levels.
    """

    steps: Array
    shared: Array
    length: float
    axes: Array
    landmarks: tuple[Array, ...]
    matrices: tuple[Array, ...]
    spaces: Array
    keep: Array
    columns: Array
    tables: Array
    halves: Array
    class_rows: Array
    near_rows: Array
    near_starts: Array
    near_y: Array
    near_weight: Array
    near: int
    local: int
    kept: int
    sharpness: float
    forest: Trees
    level: Array
    centre: Array
    deviation: Array
    trees: int


class Base(NamedTuple):
    """P and M of each space, which no step writes; diagonals of P side by side, and of each its largest number (or
    infinity, if rounding has left one negative) and the root of it. counted: labels of a target in each leaf of the
    forest, which a step adds to; where there are none, the leaves of its kept rows stand in the record.
    """

    P: tuple[Array, ...]
    M: tuple[Array, ...]
    diagonal: Array
    sizes: Array
    counted: Array


class Work(NamedTuple):
    """Room for a part of rows: as they came, prepared, in fewer directions, against landmarks; in all spaces (Z), times
    M and P, by how much they were shortened; as local heads compare them, against the kept rows of the sources; their
    leaves, and the scores of all heads. last: whether the first row is there already, after how many labels and rows.
    """

    given: Array
    rows: Array
    reduced: Array
    kernel: Array
    Z: Array
    MZ: Array
    PZ: Array
    shorter: Array
    compared: Array
    by_source: Array
    leaves: Array
    F: Array
    fits: Array
    along: Array
    last: Array
    room: Array


class Outcome(NamedTuple):
    """Of each row: probabilities of the classes known, the first mixture's weights, the class that each head names, and
    the one that the mixture does."""

    probabilities: Array
    weights: Array
    votes: Array
    named: Array


# -- maps and products ----------------------------------------------------------------------------------------------


@compiled
def _maps(fit: Fit, work: Work, n: int) -> None:
    """The first n rows in all spaces."""
    rows = work.rows
    if len(fit.axes):
        for b in range(n):
            for j in range(fit.axes.shape[1]):
                work.reduced[b, j] = 0.0
        rows_times(work.rows, n, 0, fit.axes, work.reduced, 0)
        rows = work.reduced
    begin = 0
    for s in range(len(fit.spaces)):
        end = fit.spaces[s, 0]
        mapped = fit.spaces[s, 3]
        for b in range(n):
            for j in range(begin, end):
                work.Z[b, j] = 0.0
        of = fit.spaces[s, 2]
        landmarks = fit.landmarks[s]
        matrix = fit.matrices[s]
        if of >= 0:
            other = fit.spaces[of - 1, 0] if of else 0
            for b in range(n):
                for j in range(mapped):
                    work.Z[b, begin + j] = work.Z[b, other + j]
        elif len(landmarks):
            rows_dots(rows, n, landmarks, work.kernel)
            for b in range(n):
                for j in range(len(landmarks)):
                    c = min(max(work.kernel[b, j], -FAR), FAR)
                    work.kernel[b, j] = (c + c * c) / 2
            if len(matrix):
                rows_times(work.kernel, n, 0, matrix, work.Z, begin)
            else:
                for b in range(n):
                    for j in range(mapped):
                        work.Z[b, begin + j] = work.kernel[b, j]
        elif len(matrix):
            rows_times(rows, n, 0, matrix, work.Z, begin)
            if fit.spaces[s, 4]:
                for b in range(n):
                    to_unit(work.Z[b, begin : begin + mapped])
        else:
            for b in range(n):
                for j in range(mapped):
                    work.Z[b, begin + j] = rows[b, j]
        for b in range(n):
            own = end - begin - mapped  # columns that nothing is transferred for, the last ones
            for j in range(own):
                work.Z[b, begin + mapped + j] = work.rows[b, work.rows.shape[1] - own + j]
        begin = end
    if fit.near >= 0:
        begin = fit.spaces[fit.near - 1, 0] if fit.near else 0
        for b in range(n):
            _whole(work.Z[b, begin:], work.compared[b])
    elif fit.near == -1:
        for b in range(n):
            _whole(rows[b], work.compared[b])


@compiled
def _whole(z: Array, out: Array) -> None:
    """A row as a unit vector in whole numbers."""
    square = 0.0
    for j in range(len(out)):
        square += z[j] * z[j]
    scale = SCALE / np.sqrt(square) if square > 0.0 else 0.0
    for j in range(len(out)):
        out[j] = np.int16(np.rint(scale * z[j]))


@compiled
def _shorten(fit: Fit, base: Base, z: Array, shorter: Array) -> None:
    """Shorten a row so long that z' P z is no number to compute with, in place; by how much in each space."""
    begin = 0
    for s in range(len(fit.spaces)):
        end = fit.spaces[s, 0]
        largest = 0.0
        for j in range(begin, end):
            largest = max(largest, abs(z[j]))
        shorter[s] = 1.0 / max(largest / LONGEST * base.sizes[s, 1], 1.0)
        if shorter[s] < 1.0:
            for j in range(begin, end):
                z[j] *= shorter[s]
        begin = end


@compiled
def _products(fit: Fit, base: Base, work: Work, n: int, fits: bool, learns: bool) -> None:
    """The rows times M, if they are not there yet, and where some are learned times P, space by space."""
    begin = 0
    first = 0
    for s in range(len(fit.spaces)):
        M = base.M[s]
        if fits:
            for b in range(n):
                for j in range(M.shape[1]):
                    work.MZ[b, first + j] = 0.0
            rows_times(work.Z, n, begin, M, work.MZ, first)
        if learns:
            symmetric_rows(base.P[s], work.Z, n, begin, work.PZ)
        begin = fit.spaces[s, 0]
        first = fit.spaces[s, 1]


@compiled
def _tree_heads(fit: Fit, work: Work, b: int, inside: int) -> None:
    """The scores of levels and boosting, and the leaves of the forest: what no label changes."""
    heads = fit.trees
    F = work.F[b]
    first = inside - 2 * heads - 2
    level_scores(fit.level, fit.centre, fit.deviation, work.given[b], F[first], work.room)
    tree_row(fit.forest, work.given[b], F[first + 1 : first + 1 + heads], work.leaves[b], work.room)


# -- regressions --------------------------------------------------------------------------------------------------


@compiled
def _fit(fit: Fit, record: Record, work: Work, b: int) -> None:
    """The fits of row b by all that was learned, and its products with pending rows."""
    z = work.Z[b]
    fits = work.fits
    places = len(record.G) // len(z)
    n = record.counters[PENDING]
    for j in range(len(fits)):
        fits[j] = work.MZ[b, j]
    d = 0
    q = 0
    for s in range(len(fit.spaces)):
        d_end = fit.spaces[s, 0]
        q_end = fit.spaces[s, 1]
        if n:
            along = work.along[s, :n]
            dims = d_end - d
            width = q_end - q
            G = record.G[places * d : places * d + n * dims].reshape((n, dims))
            E = record.E[places * q : places * q + n * width].reshape((n, width))
            product_row(G, z[d:d_end], along)
            add_row_product(along, E, 1.0, fits[q:q_end])
        if work.shorter[b, s] < 1.0:
            for j in range(q, q_end):
                fits[j] /= work.shorter[b, s]
        d = d_end
        q = q_end


@compiled
def learn_row(
    G: Array, E: Array, n: int, z: Array, pz: Array, missed: Array, noise: float, along: Array, diagonal: Array,
    top: float,
) -> None:  # fmt: skip
    """Row n of G and E of one space (both flat), from P z, y - fit, and its products with the n rows before it."""
    d = len(z)
    q = len(missed)
    g = G[n * d : (n + 1) * d]
    e = E[n * q : (n + 1) * q]
    for j in range(d):
        g[j] = pz[j]
    if n:
        add_row_product(along[:n], G[: n * d].reshape((n, d)), -1.0, g)
    if not ROUNDING * top * dot(z, z) <= noise:
        _learn_carefully(G, n, z, g, missed, noise, diagonal, e)
        return
    square = noise + dot(g, z)
    if square < noise:  # by rounding: P has nothing left along z
        for j in range(d):
            g[j] = 0.0
        square = noise
    root = np.sqrt(square)
    for j in range(d):
        g[j] /= root
    for j in range(q):
        e[j] = missed[j] / root


@compiled
def _learn_carefully(
    G: Array, n: int, z: Array, g: Array, missed: Array, noise: float, diagonal: Array, e: Array
) -> None:
    """g, which is (P - G' G) z, and e of one row, so that P keeps its sign whatever rounding does.

    No g_j^2 may be larger than P_jj, which holds by itself, but for rounding: then the diagonal, and with it all of
    P, never grows. A row for which P has nothing left is not learned.
    """
    d = len(z)
    least = np.inf
    stored = 0.0
    rest = 0.0
    inner = 0.0
    ratio = 0.0
    spent = False
    for j in range(d):
        left = diagonal[j]
        least = min(least, left)
        for i in range(n):
            left -= G[i * d + j] * G[i * d + j]
        stored += z[j] * z[j] * diagonal[j]
        rest += z[j] * z[j] * left
        inner += g[j] * z[j]
        if g[j] != 0.0:
            if left > 0.0:
                ratio = max(ratio, g[j] / left * g[j])
            else:
                spent = True
    square = noise + inner
    if ROUNDING * stored > noise or least <= 0.0:
        square = max(
            max(noise, ROUNDING * rest, LOST * stored) + max(inner, 0.0), (1.0 + ROUNDING) * ratio
        )
    else:
        spent = False
    root = np.sqrt(square) if square >= noise and square > 0.0 and not spent else np.inf
    for j in range(d):
        g[j] /= root
    for j in range(len(e)):
        e[j] = missed[j] / root


@compiled
def _learn(
    fit: Fit, base: Base, record: Record, work: Work, b: int, label: int, weight: float
) -> None:
    """Row b with its label becomes a pending row of every space, and one of the kept rows of the local heads."""
    z = work.Z[b]
    pz = work.PZ[b]
    missed = work.fits
    places = len(record.G) // len(z)
    n = record.counters[PENDING]
    for j in range(len(missed)):  # in the place of the fits, which are not asked for again
        missed[j] = fit.class_rows[label, j] - missed[j]
    d = 0
    q = 0
    for s in range(len(fit.spaces)):
        d_end = fit.spaces[s, 0]
        q_end = fit.spaces[s, 1]
        scale = work.shorter[b, s]
        if scale < 1.0:  # the target and the noise as the row
            for j in range(q, q_end):
                missed[j] *= scale
        learn_row(
            record.G[places * d : places * d_end], record.E[places * q : places * q_end], n, z[d:d_end], pz[d:d_end],
            missed[q:q_end], scale * scale / weight, work.along[s], base.diagonal[d:d_end], base.sizes[s, 0],
        )  # fmt: skip
        d = d_end
        q = q_end
    record.counters[PENDING] = n + 1
    if fit.near != NO_LOCAL or fit.trees:
        place = record.counters[NEXT]
        record.labels[place] = label
        record.weights[place] = weight
        for j in range(work.compared.shape[1]):
            record.rows[place, j] = work.compared[b, j]
        for t in range(work.leaves.shape[1]):
            if len(base.counted):
                base.counted[work.leaves[b, t], label] += weight
            else:
                record.leaves[place, t] = work.leaves[b, t]
        record.counters[KEPT] = max(record.counters[KEPT], place + 1)
        record.counters[NEXT] = (place + 1) % fit.kept
    record.counters[LABELS] += 1


@compiled(fastmath=SUMS)
def _scores(columns: Array, tables: Array, halves: Array, fits: Array, F: Array) -> None:
    """Scores of the regressions' heads: one number a class, or C_k . f - |C_k|^2/2 with C from `tables`."""
    K = F.shape[1]
    for h in range(len(columns)):
        first = columns[h, 0]
        width = columns[h, 1]
        place = columns[h, 2]
        if place < 0:
            for k in range(K):
                F[h, k] = fits[first + k]
            continue
        for k in range(K):
            total = -halves[h, k]
            for j in range(width):
                total += fits[first + j] * tables[place + k * width + j]
            F[h, k] = total


@compiled
def _centre(F: Array) -> None:
    """Minus the mean over the classes."""
    heads, K = F.shape
    for h in range(heads):
        total = 0.0
        for k in range(K):
            total += F[h, k]
        for k in range(K):
            F[h, k] -= total / K


# -- local heads --------------------------------------------------------------------------------------------------


@compiled
def source_products(rows: Array, compared: Array, n: int, out: Array) -> None:
    """Inner products of n rows with the kept rows of the sources (a column each), all of whole numbers."""
    d, kept = rows.shape
    for b in range(n):
        for i in range(kept):
            out[b, i] = np.int32(0)
    for j in range(0, d - 3, 4):
        r = rows[j]
        s = rows[j + 1]
        t = rows[j + 2]
        u = rows[j + 3]
        for b in range(n):
            o = out[b]
            a0 = np.int32(compared[b, j])
            a1 = np.int32(compared[b, j + 1])
            a2 = np.int32(compared[b, j + 2])
            a3 = np.int32(compared[b, j + 3])
            for i in range(kept):
                o[i] += np.int32(
                    a0 * np.int32(r[i])
                    + a1 * np.int32(s[i])
                    + a2 * np.int32(t[i])
                    + a3 * np.int32(u[i])
                )
    for j in range(d // 4 * 4, d):
        r = rows[j]
        for b in range(n):
            o = out[b]
            a0 = np.int32(compared[b, j])
            for i in range(kept):
                o[i] += np.int32(a0 * np.int32(r[i]))


@compiled
def row_products(S: Array, q: Array, out: Array) -> None:
    """out = S q, of whole numbers of 16 bits."""
    for i in range(len(out)):
        total = np.int32(0)
        row = S[i]
        for j in range(len(q)):
            total += np.int32(row[j]) * np.int32(q[j])
        out[i] = np.int32(total)  # the compiler then needs no wider sums


@compiled
def votes(D: Array, y: Array, weight: Array, g: float, V: Array) -> None:
    """V[y] += weight exp(g (c - 1)) over inner products D, c = D/SCALE^2."""
    unit = 1.0 / (SCALE * SCALE)
    largest = np.int32(-(2**30))
    for i in range(len(D)):
        largest = max(largest, D[i])
    least = largest * unit - FAINT / g
    for i in range(len(D)):
        c = D[i] * unit
        if c >= least:
            V[y[i]] += weight[i] * np.exp(g * (c - 1.0))


@compiled
def _near(fit: Fit, record: Record, work: Work, b: int, F: Array) -> None:
    """The scores of the local heads: shares of one in the votes, minus their mean.

    One head counts all sources, and one each source alone; the target's rows count in all.
    """
    each = fit.local
    K = F.shape[1]
    sources = len(fit.near_starts) - 1
    past = work.room[:K]
    own = work.room[K : (1 + sources) * K].reshape((sources, K))
    used = record.counters[KEPT]
    D = work.room[(1 + sources) * K :].view(np.int32)[:used]
    for k in range(K):
        past[k] = 0.0
        for s in range(sources):
            own[s, k] = 0.0
    for s in range(sources):
        i = fit.near_starts[s]
        j = fit.near_starts[s + 1]
        if i < j:
            votes(
                work.by_source[b, i:j], fit.near_y[i:j], fit.near_weight[i:j], fit.sharpness, own[s]
            )
    row_products(record.rows, work.compared[b], D)
    votes(D, record.labels, record.weights, fit.sharpness, past)
    for h in range(each):
        V = F[h]
        total = 0.0
        for k in range(K):
            by_sources = 0.0
            for s in range(sources):
                if h == 0 or h == s + 1:
                    by_sources += own[s, k]
            V[k] = past[k] + TRUST * by_sources
            total += V[k]
        total = max(total, 1e-300)
        for k in range(K):
            V[k] = V[k] / total - 1.0 / K


# -- the mixture --------------------------------------------------------------------------------------------------


@compiled(fastmath=SUMS)
def _experts(F: Array, y: int, w: Array, loss: Array, q: Array, e: Array) -> None:
    """Adds what the experts say, by their weights, to q; with a label y >= 0 also -log of what each says of it to loss.

    Experts are heads x temperatures (2, 4, 8, ...). exp(2 c f) is the square of exp(c f), so every head costs one
    exponential a class for all its temperatures. `e`: room for K numbers.
    """
    heads, K = F.shape
    for i in range(heads):
        top = F[i, 0]
        for k in range(1, K):
            top = max(top, F[i, k])
        for k in range(K):
            e[k] = np.exp(2.0 * (F[i, k] - top))
        c = 2.0
        for at in range(i * TEMPERATURES, (i + 1) * TEMPERATURES):
            total = 0.0
            for k in range(K):
                total += e[k]
            if y >= 0:
                loss[at] = c * (top - F[i, y]) + np.log(total)
            share = w[at] / total
            for k in range(K):
                q[k] += e[k] * share
                e[k] *= e[k]
            c *= 2.0


@compiled(fastmath=SUMS)
def _log_softmax(s: Array, out: Array) -> None:
    top = s[0]
    total = 0.0
    for k in range(1, len(s)):
        top = max(top, s[k])
    for k in range(len(s)):
        total += np.exp(s[k] - top)
    for k in range(len(s)):
        out[k] = s[k] - top - np.log(total)


@compiled(fastmath=SUMS)
def _newton(
    a: Array, H: Array, X: Array, log_p: Array, y: int, keep: float, ridge: float, work: Array
) -> None:
    """One step of a stack with features X (f x K): a -= H^-1 X (p - e_y).

    H = keep H + (1 - keep) ridge I + X (diag p - p p') X': old labels fade, the ridge stays.
    """
    f, K = X.shape
    p = work[:K]
    row = work[K : 2 * K]
    rest = work[2 * K :]
    mean = rest[:f]
    g = rest[f : 2 * f]
    L = rest[2 * f : (2 + f) * f].reshape((f, f))
    for k in range(K):
        p[k] = np.exp(log_p[k])
    for i in range(f):
        for k in range(K):
            row[k] = p[k] * X[i, k]
        total = 0.0
        for k in range(K):
            total += row[k]
        mean[i] = total
        g[i] = total - X[i, y]
        for j in range(i + 1):
            product = 0.0
            for k in range(K):
                product += row[k] * X[j, k]
            H[i, j] = keep * H[i, j] + product - total * mean[j]
        H[i, i] += (1.0 - keep) * ridge
    for i in range(f):  # Cholesky, with the forward substitution on the way
        for j in range(i + 1):
            left = H[i, j]
            for k in range(j):
                left -= L[i, k] * L[j, k]
            L[i, j] = np.sqrt(left) if i == j else left / L[j, j]
        left = g[i]
        for j in range(i):
            left -= L[i, j] * g[j]
        g[i] = left / L[i, i]
    for i in range(f - 1, -1, -1):
        left = g[i]
        for j in range(i + 1, f):
            left -= L[j, i] * g[j]
        g[i] = left / L[i, i]
        a[i] -= g[i]


@compiled
def _total(x: Array) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


def mixing_room(heads: int, K: int) -> int:
    """How many numbers `mix_row` needs room for."""
    f = heads + 2
    n = 2 + len(KEEP)
    return 2 * (heads * TEMPERATURES + 1) + n + (2 + f + n) * K + 2 * K + (2 + f) * f


@compiled
def _stacked(mix: Mixture, X: Array, q: Array, logs: Array) -> None:
    """What each stack says of the classes, as logarithms."""
    features, K = X.shape
    for s in range(len(mix.a)):
        for k in range(K):
            q[k] = 0.0
        for i in range(features):
            for k in range(K):
                q[k] += mix.a[s, i] * X[i, k]
        _log_softmax(q, logs[s])


@compiled
def _features(F: Array, X: Array) -> None:
    """The scores of the heads, those beyond MOST brought down to it."""
    heads = len(F)
    K = X.shape[1]
    for i in range(heads):
        size = 0.0
        for k in range(K):
            size = max(size, abs(F[i, k]))
        scale = MOST / size if size > MOST else 1.0
        for k in range(K):
            X[i, k] = scale * F[i, k]


@compiled
def mix_row(mix: Mixture, F: Array, label: int, said: Array, by_head: Array, work: Array) -> float:
    """The probabilities of one row with the heads' scores F into `said`, the first mixture's weights into `by_head`.

    A label >= 0 is learned; its log-loss. One beyond `said` is a class that no head could name: the prediction leaves
    it out, and every expert pays for it. `work` is room for `mixing_room` numbers.
    """
    heads = len(F)
    known = len(said)
    members = len(mix.members)
    experts = len(mix.loss)
    w = work[:experts]
    losses = work[experts : 2 * experts]
    rest = work[2 * experts :]
    lead = rest[:members]
    rest = rest[members:]
    q = rest[:known]
    pi = rest[known : 2 * known]
    rest = rest[2 * known :]
    X = rest[: (heads + 2) * known].reshape((heads + 2, known))
    rest = rest[(heads + 2) * known :]
    logs = rest[: members * known].reshape((members, known))
    rest = rest[members * known :]
    at = label if label < known else -1
    weigh(mix.loss, 1.0, w)
    weigh(mix.members, 1.0, lead)
    whole = _total(mix.counts)
    for k in range(known):
        pi[k] = mix.counts[k] / whole
        q[k] = w[experts - 1] * pi[k]
    _features(F, X)
    _experts(X[:heads], at, w, losses, q, rest)
    for k in range(known):
        X[heads, k] = np.log(q[k] + LEAST)
        logs[1, k] = X[heads + 1, k] = np.log(pi[k])
    _log_softmax(X[heads], logs[0])
    for i in range(heads, heads + 2):
        mean = _total(X[i]) / known
        for k in range(known):
            X[i, k] -= mean
    _stacked(mix, X, q, logs[2:])
    for k in range(known):
        said[k] = 0.0
        for e in range(members):
            said[k] += lead[e] * np.exp(logs[e, k])
    for i in range(heads):
        by_head[i] = _total(w[i * TEMPERATURES : (i + 1) * TEMPERATURES])
    by_head[heads] = w[experts - 1]
    if label < 0:
        return 0.0
    mix.counts[label] += 1.0
    if at < 0:
        for e in range(experts):
            mix.loss[e] -= np.log(LEAST)
        for e in range(members):
            mix.members[e] -= np.log(LEAST)
        return float(-np.log(LEAST))
    losses[experts - 1] = -logs[1, at]
    for e in range(experts):
        mix.loss[e] += losses[e]
    for e in range(members):
        mix.members[e] -= logs[e, at]
    for s in range(len(mix.a)):
        _newton(mix.a[s], mix.H[s], X, logs[2 + s], at, KEEP[s], FLOOR, rest)
    return float(-np.log(max(said[at], LEAST)))


# -- rows ---------------------------------------------------------------------------------------------------------


@compiled
def record_of(s: Array, at: Array, compared: int, trees: int) -> Record:
    """The parts of a record; its kept rows have `compared` numbers and `trees` leaves each."""
    f = int(np.sqrt((at[COUNTS] - at[CURVES]) // 2))
    room = at[WEIGHTS] - at[CLASSES]
    rows = s[at[COMPARED] : at[LEAVES]].view(np.int16)
    leaves = s[at[LEAVES] : at[TALLIED]].view(np.int16)
    leaved = len(leaves) // trees if trees else 0
    tallied = at[TOTALS] - at[TALLIED]
    columns = (at[SEEN] - at[TOTALS]) // tallied if tallied else 0
    mix = Mixture(
        s[at[LOSS] : at[MEMBERS]], s[at[MEMBERS] : at[STACKS]], s[at[STACKS] : at[CURVES]].reshape((2, f)),
        s[at[CURVES] : at[COUNTS]].reshape((2, f, f)), s[at[COUNTS] : at[ORDER]],
        s[at[ORDER] : at[CLASSES]],
    )  # fmt: skip
    target = Target(
        s[at[TALLIED] : at[TOTALS]], s[at[TOTALS] : at[SEEN]].reshape((tallied, columns))
    )
    return Record(
        s[: at[RUNNING]].view(np.int64), s[at[RUNNING] : at[LOSS]], mix, s[at[CLASSES] : at[WEIGHTS]].view(np.int64),
        s[at[WEIGHTS] : at[G]], s[at[G] : at[E]], s[at[E] : at[COMPARED]],
        rows[: room * compared].reshape((room, compared)), leaves[: leaved * trees].reshape((leaved, trees)), target,
        s[at[SEEN] : at[MISTAKES]].view(np.int64), s[at[MISTAKES] : at[EXPERTS]].view(np.int64),
        s[at[EXPERTS] : at[MIXTURE_LOSS]].view(np.int64), s[at[MIXTURE_LOSS] : at[END]],
    )  # fmt: skip


@compiled
def _fade(fit: Fit, record: Record) -> None:
    """Where labels fade and P is not the target's own, all pending rows of the space become shorter."""
    D = fit.spaces[len(fit.spaces) - 1, 0]
    places = len(record.G) // D
    d = 0
    for s in range(len(fit.spaces)):
        end = fit.spaces[s, 0]
        keep = fit.keep[s]
        if keep < 1.0:
            for j in range(places * d, places * d + record.counters[PENDING] * (end - d)):
                record.G[j] *= keep
        d = end


@compiled
def _count(
    record: Record, x: Array, y: int, weight: float, votes: Array, named: int, loss: float
) -> None:
    """A label in what a model counts."""
    target = record.target
    target.counts[0] += weight
    target.counts[1 + y] += weight
    for j in range(target.totals.shape[1]):
        target.totals[0, j] += weight * x[j]
        target.totals[1 + y, j] += weight * x[j]
    record.seen[0] += 1
    record.mistakes[0] += named != y
    for h in range(len(votes)):
        record.expert_mistakes[h] += votes[h] != y
    record.mixture_loss[0] += loss


@compiled
def repeat_scores(mix: Mixture, last: int, F: Array) -> None:
    """Scores of the head that repeats the label `last` as often as labels did; else the class frequencies."""
    K = len(F)
    whole = _total(mix.counts)
    there = 0 <= last < K
    repeats = mix.order[0] / (mix.order[0] + mix.order[1])
    rest = (1.0 - repeats) / max(1.0 - mix.counts[last] / whole, LEAST) if there else 1.0
    total = 0.0
    for k in range(K):
        p = repeats if there and k == last else rest * mix.counts[k] / whole
        F[k] = np.log(max(p, LEAST)) / REPEATED
        total += F[k]
    for k in range(K):
        F[k] -= total / K


@compiled
def _outside_scores(mix: Mixture, said: Array, F: Array) -> None:
    """Scores of a head from outside; where it abstains (NaN), those of the class frequencies."""
    K = len(F)
    whole = _total(mix.counts)
    abstains = np.isnan(said[0])
    total = 0.0
    for k in range(K):
        F[k] = np.log(mix.counts[k] / whole) / OUTSIDE if abstains else said[k]
        total += F[k]
    for k in range(K):
        F[k] -= total / K


@compiled
def given_scores(
    logs: Array, codes: Array, a: Array, H: Array, y: Array, F: Array, work: Array
) -> None:
    """Rows in order: scores of a model by its log-probabilities, as they are and adapted (F: rows x 2 x K).

    Adapted: softmax(a_k,0 log p_k + a_k,1), learned by an online Newton step a label; H is its curvature. codes: the
    class of each number in a row of `logs`, below 0 for none; a row of zeros is no answer. `work`: room for
    `given_room` numbers.
    """
    n, K = len(F), F.shape[2]
    f = 2 * K
    X = work[: f * K].reshape((f, K))
    said = work[f * K : (f + 1) * K]
    rest = work[(f + 1) * K :]
    for b in range(n):
        silent = True
        for k in range(K):
            said[k] = LOWEST
        for v in range(len(codes)):
            if logs[b, v] < 0.0:
                silent = False
            if codes[v] >= 0 and logs[b, v] > LOWEST:
                said[codes[v]] = min(logs[b, v], 0.0)
        if silent:
            for k in range(K):
                F[b, 0, k] = np.nan
                F[b, 1, k] = np.nan
            continue
        mean = _total(said) / K
        for k in range(K):
            said[k] -= mean
            F[b, 0, k] = said[k] / OUTSIDE
            F[b, 1, k] = (a[2 * k] * said[k] + a[2 * k + 1]) / OUTSIDE
        if y[b] < 0:
            continue
        for i in range(f):
            for k in range(K):
                X[i, k] = 0.0
        for k in range(K):
            X[2 * k, k] = said[k]
            X[2 * k + 1, k] = 1.0
            said[k] = F[b, 1, k] * OUTSIDE
        _log_softmax(said, rest[:K])
        for k in range(K):
            said[k] = rest[k]
        _newton(a, H, X, said, y[b], 1.0, 0.0, rest)


def given_room(K: int) -> int:
    """How many numbers `given_scores` needs room for."""
    f = 2 * K
    return f * K + K + 2 * K + 2 * f + f * f


@compiled
def count_repeat(mix: Mixture, last: int, label: int) -> None:
    """A label that came when `last` was the newest that was known."""
    if last >= 0:
        mix.order[0 if label == last else 1] += 1.0
    mix.order[2] = label


@compiled
def _row(
    fit: Fit, base: Base, record: Record, work: Work, b: int, scored: bool, y: int, weight: float, before: int,
    outside: Array, out: Outcome, t: int,
) -> None:  # fmt: skip
    """Row b of a part, row t of all: predicted and, with a label >= 0, learned."""
    every = work.F[b]
    F = every[: len(every) - len(outside)]
    said = out.probabilities[t]
    votes = out.votes[t]
    known = len(said)
    others = len(F) - 1 - (2 * fit.trees + 1 if fit.trees else 0)
    last = int(record.mix.order[2]) if before == NOW else before
    if not scored:
        _fit(fit, record, work, b)
        _scores(fit.columns, fit.tables, fit.halves, work.fits, F)
        if fit.near != NO_LOCAL:
            _near(fit, record, work, b, F[len(fit.columns) : others])
        _centre(F[:others])
        if fit.trees:
            leaf_scores(
                fit.forest.counts, base.counted, record.leaves, record.labels, record.weights, record.counters[KEPT],
                work.leaves[b], F[len(F) - 1 - fit.trees : len(F) - 1], work.room,
            )  # fmt: skip
    repeat_scores(record.mix, last, F[len(F) - 1])
    for h in range(len(outside)):
        _outside_scores(record.mix, outside[h], every[len(F) + h])
    for h in range(len(every)):
        votes[h] = best(every[h, :known])
    votes[len(every)] = best(record.mix.counts[:known])
    loss = mix_row(record.mix, every, y, said, out.weights[t], work.room)
    out.named[t] = best(said)
    if y >= 0:
        count_repeat(record.mix, last, y)
        if len(record.seen):
            _count(record, work.rows[b], y, weight, votes, out.named[t], loss)
        _learn(fit, base, record, work, b, y, weight)
        if not len(record.seen) and record.counters[LABELS] % FADE == 0:
            _fade(fit, record)


@compiled
def _is_there(work: Work, counters: Array, x: Array) -> bool:
    """Whether the first row of the room is this one, by what is known now."""
    last = work.last
    if last[0] == 0 or last[1] != counters[LABELS] or last[2] != counters[ROWS]:
        return False
    for j in range(len(x)):
        if x[j] != work.given[0, j] and (x[j] == x[j] or work.given[0, j] == work.given[0, j]):
            return False
    return True


@compiled(threads=True)
def step(
    fit: Fit, base: Base, R: Array, slots: Array, at: Array, X: Array, y: Array, weight: Array, before: Array,
    learned: Array, outside: Array, work: Work, out: Outcome,
) -> None:  # fmt: skip
    """Rows in order, each of the target whose record in R `slots` names (`at`: where the parts of a record are).

    Each is predicted, and learned where `learned` says so; a label below 0 is none. `before`: the newest label that was
    known when the row was predicted, -1 if there was none, NOW for what the record knows when its turn comes.
    `outside`: what the last heads, which are not computed here, say of each row (rows x heads x K).
    """
    inside = work.F.shape[1] - outside.shape[1]
    compared = work.compared.shape[1]
    trees = work.leaves.shape[1]
    for begin in range(0, len(X), PART):
        n = min(PART, len(X) - begin)
        there = len(X) == 1 and _is_there(work, R[slots[0], : at[RUNNING]].view(np.int64), X[0])
        learns = False
        for b in range(n):
            t = begin + b
            s = R[slots[t]]
            learns |= learned[t] and y[t] >= 0
            for j in range(X.shape[1]):
                work.given[b, j] = X[t, j]
            running = s[at[RUNNING] : at[LOSS]]
            prepare(fit.steps, fit.shared, fit.length, running, X[t], work.rows[b], learned[t])
        if not there:
            _maps(fit, work, n)
            if fit.near != NO_LOCAL:
                source_products(fit.near_rows, work.compared, n, work.by_source)
            for b in range(n):
                _shorten(fit, base, work.Z[b], work.shorter[b])
                if fit.trees:
                    _tree_heads(fit, work, b, inside)
        _products(fit, base, work, n, not there, learns)
        for b in range(n):
            t = begin + b
            record = record_of(R[slots[t]], at, compared, trees)
            label = y[t] if learned[t] else -1
            _row(fit, base, record, work, b, there, label, weight[t], before[t], outside[t], out, t)
            record.counters[ROWS] += learned[t]
            work.last[0] = not learned[t]
            work.last[1] = record.counters[LABELS]
            work.last[2] = record.counters[ROWS]
