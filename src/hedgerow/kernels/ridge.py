"""The compiled loops of our own learner: rows of a record are predicted and learned, one after the other.

A *record* is what one target has learned. Its regressions stand in all spaces side by side, each as a base (P, M) and
pending rows g_i, e_i: what is known is P - sum_i g_i g_i' and M + sum_i g_i e_i'. A row z with targets y and r =
1/weight becomes one more of them,

    g = (P - G' G) z / root,   e = (y - M' z - E' G z) / root,   root^2 = r + z' (P - G' G) z.

A row comes with its products with the base (`Products`), made for many rows together, and the loop does the rest: fits,
scores, local heads, mixture, label. It is the same for a single model, for a block, and for a batch of many targets
(`run_slots`). `bench/naive.py` has the plain NumPy forms, and tests hold the two together.

P is known to some 16 digits. Where z' P z is 1e10 times r (a row far longer than usual, or of a very large weight), the
update would leave little but rounding in P, and z' P z < 0 later. So r is at least 1e-10 times what z' P z could be by
P's diagonal: such a row counts for less than it asks (`_learn_carefully`). Rows of unit length with a weight of 1 are
never among them.

Local heads compare rows of whole numbers: unit vectors times SCALE, rounded. By Cauchy-Schwarz no sum of products is
larger than about SCALE^2 = 2^22, so all are exact in single precision too, and a sum of whole numbers is the same in
every order: a block by the BLAS gives what its rows give one by one, to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SCALE, SUMS, TEMPERATURES
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.rows import add_row_product, best, dot, product_row, weigh
from hedgerow.kernels.trees import leaf_scores

LEAST = 1e-12  # a probability is never smaller where its logarithm is taken
MOST = 1e4  # scores beyond are brought down to it, all of a head alike: the stacks square them
ROUNDING = 1e-10  # of what z' P z could be by P's diagonal: one row takes no more digits from P than that
LOST = 1e-13  # of what z' P z could be: lost to rounding when pending rows are taken from P
MANY = 24  # rows of a block for which the BLAS is faster, the copies that it needs included
FAINT = 20.0  # a row votes if its vote is at least exp(-FAINT) times the largest of its domain
TRUST = 0.3  # votes of a source's row, against those of a row of the target
KEEP = (1.0, 0.98)  # how much of its curvature a stack keeps from label to label: the second forgets
FLOOR = 0.3  # what the curvature of a stack that forgets does not fall below
SHARE = 1.0  # SHARE/(t + 1) of the tracker's weight goes back to its start after label t
START = 0.25  # the tracker's start: as much for each of qbar, pi, the stacks


class Mixture(NamedTuple):
    """The state of a mixture (`ridge/mixture.py`): experts' prior and losses, tracker, pair, stacks, class counts."""

    log_w: Array
    loss: Array
    members: Array
    pair: Array
    a: Array
    H: Array
    counts: Array


class Heads(NamedTuple):
    """What all targets of a fit share.

    d_ends, q_ends: where the dimensions and the weights of each space end. keep: how much of its labels a space keeps
    when they fade. columns: of each head the first of its weights, how many, and where its class targets begin in
    `tables` (-1: one-hot). halves: |C_k|^2/2. class_rows: the targets of a row of each class (K x Q). near_*: local
    heads: where the columns of each kind end, its sharpness, the kept rows of the sources; local: heads of each kind;
    kept: rows of a target. tree_heads: heads of boosting, one of levels before them, and as many of leaves, which
    come last.
    """

    d_ends: Array
    q_ends: Array
    keep: Array
    columns: Array
    tables: Array
    halves: Array
    class_rows: Array
    near_ends: Array
    sharpness: Array
    near_y: Array
    near_domain: Array
    near_weight: Array
    local: int
    kept: int
    tree_heads: int


class Record(NamedTuple):
    """What a target has learned.

    pending: rows of G and E in each space; G, E: these rows, space after space, as many places in each. diagonal, top:
    the diagonal of each P and its largest number, infinity if rounding has left one negative. labels, weights, rows:
    the kept rows of the local heads, kind after kind. at: how many are kept, the place of the next, labels learned.
    """

    mix: Mixture
    pending: Array
    G: Array
    E: Array
    diagonal: Array
    top: Array
    labels: Array
    weights: Array
    rows: Array
    at: Array


class Forest(NamedTuple):
    """Rows of the sources in the leaves of a forest (`kernels/trees.py`), and those of a target.

    counts: labels in each leaf; where there are none, rows has the leaves of each kept row. A model without trees has
    None in its place: what is done with a forest is then not compiled.
    """

    sources: Array
    counts: Array
    rows: Array


class Products(NamedTuple):
    """Rows in all spaces (Z, B x D) and as local heads compare them (W), with what was computed for them.

    shorter: by how much a row was shortened in each space (`Regressions.shorten`), 1 if not at all. MZ, PZ: times M and
    P, the first `folded` pending rows of each space included. by_source: products of W with the kept rows of the
    sources (kinds x B x n); by_kept: with those of the target, or with none; `fresh` of these were learned since.
    known: after how many labels fits, products with pending rows (along) and scores F were computed; the scores of
    boosting are in F from the beginning. given: the rows as trees see them, leaves: where they fall in the forest.
    """

    rows: Array
    given: Array
    leaves: Array
    Z: Array
    shorter: Array
    MZ: Array
    PZ: Array
    folded: Array
    W: Array
    by_source: Array
    by_kept: Array
    fresh: Array
    known: Array
    fits: Array
    along: Array
    F: Array


class Outcome(NamedTuple):
    """Of each row: probabilities of the classes known, the first mixture's weights, and the class each head names.

    work: room for what a row needs meanwhile.
    """

    probabilities: Array
    weights: Array
    votes: Array
    work: Array


# -- regressions --------------------------------------------------------------------------------------------------


@compiled
def _fit(heads: Heads, record: Record, products: Products, r: int) -> None:
    """The fits of row r by all that was learned, and its products with pending rows."""
    z, fits = products.Z[r], products.fits[r]
    room = len(record.G) // len(z)
    for j in range(len(fits)):
        fits[j] = products.MZ[r, j]
    d, q = 0, 0
    for s in range(len(heads.d_ends)):
        first, n, d_end, q_end = products.folded[s], record.pending[s], heads.d_ends[s], heads.q_ends[s]
        along = products.along[r, s, : n - first]
        if n > first:
            dims, width = d_end - d, q_end - q
            G = record.G[room * d + first * dims : room * d + n * dims].reshape((n - first, dims))
            E = record.E[room * q + first * width : room * q + n * width].reshape((n - first, width))
            product_row(G, z[d:d_end], along)
            add_row_product(along, E, 1.0, fits[q:q_end])
        if products.shorter[r, s] < 1.0:
            for j in range(q, q_end):
                fits[j] /= products.shorter[r, s]
        d, q = d_end, q_end


@compiled
def learn_row(
    G: Array, E: Array, n: int, first: int, z: Array, pz: Array, missed: Array, noise: float, along: Array,
    diagonal: Array, top: float,
) -> None:  # fmt: skip
    """Row n of G and E of one space (both flat), from P z with `first` pending rows folded in and y - fit."""
    d, q = len(z), len(missed)
    g, e = G[n * d : (n + 1) * d], E[n * q : (n + 1) * q]
    for j in range(d):
        g[j] = pz[j]
    if n > first:
        add_row_product(along[: n - first], G[first * d : n * d].reshape((n - first, d)), -1.0, g)
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
    least, stored, rest, inner, ratio, spent = np.inf, 0.0, 0.0, 0.0, 0.0, False
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
        square = max(max(noise, ROUNDING * rest, LOST * stored) + max(inner, 0.0), (1.0 + ROUNDING) * ratio)
    else:
        spent = False
    root = np.sqrt(square) if square >= noise and square > 0.0 and not spent else np.inf
    for j in range(d):
        g[j] /= root
    for j in range(len(e)):
        e[j] = missed[j] / root


@compiled
def _learn(
    heads: Heads, record: Record, products: Products, forest: Forest | None, r: int, label: int, weight: float
) -> None:
    """Row r with its label becomes a pending row of every space, and one of the kept rows of the local heads."""
    z, pz, missed = products.Z[r], products.PZ[r], products.fits[r]
    room = len(record.G) // len(z)
    for j in range(len(missed)):  # in the place of the fits, which are not asked for again
        missed[j] = heads.class_rows[label, j] - missed[j]
    d, q = 0, 0
    for s in range(len(heads.d_ends)):
        d_end, q_end, scale = heads.d_ends[s], heads.q_ends[s], products.shorter[r, s]
        if scale < 1.0:  # the target and the noise as the row
            for j in range(q, q_end):
                missed[j] *= scale
        learn_row(
            record.G[room * d : room * d_end], record.E[room * q : room * q_end], record.pending[s],
            products.folded[s], z[d:d_end], pz[d:d_end], missed[q:q_end], scale * scale / weight, products.along[r, s],
            record.diagonal[d:d_end], record.top[s],
        )  # fmt: skip
        record.pending[s] += 1
        d, q = d_end, q_end
    if len(heads.near_ends):
        place, room, a = record.at[1], len(record.labels), 0
        record.labels[place], record.weights[place] = label, weight
        for kind in range(len(heads.near_ends)):
            b = heads.near_ends[kind]
            for j in range(a, b):
                record.rows[a * room + place * (b - a) + j - a] = products.W[r, j]
            a = b
        record.at[0], record.at[1] = max(record.at[0], place + 1), (place + 1) % heads.kept
        products.fresh[0] += 1
    if forest is not None:
        for t in range(products.leaves.shape[1]):
            if len(forest.counts):
                forest.counts[products.leaves[r, t], label] += weight
            else:
                forest.rows[record.at[0] - 1, t] = products.leaves[r, t]
    record.at[2] += 1


@compiled(fastmath=SUMS)
def _scores(columns: Array, tables: Array, halves: Array, fits: Array, F: Array) -> None:
    """Scores of the regressions' heads: one number a class, or C_k . f - |C_k|^2/2 with C from `tables`."""
    K = F.shape[1]
    for h in range(len(columns)):
        first, width, place = columns[h, 0], columns[h, 1], columns[h, 2]
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
def row_products(S: Array, q: Array, out: Array) -> None:
    """out = S q, of whole numbers of 16 bits."""
    for i in range(S.shape[0]):
        total, row = np.int32(0), S[i]
        for j in range(len(q)):
            total += np.int32(row[j]) * np.int32(q[j])
        out[i] = np.int32(total)  # the compiler then needs no wider sums


def inner_products(S: Array, Q: Array) -> Array:
    """Q S' (B x n, float32), of whole numbers of 16 bits.

    >>> inner_products(np.array([[2, 1]], np.int16), np.array([[3, 4]], np.int16)).tolist()
    [[10.0]]
    """
    if len(Q) >= MANY:
        return np.asarray(Q.astype(np.float32) @ S.astype(np.float32).T)
    out = np.empty((len(Q), len(S)), np.float32)
    for q, row in zip(Q, out, strict=True):
        row_products(S, q, row)
    return out


@compiled
def votes(D: Array, y: Array, domain: Array, weight: Array, g: float, V: Array, largest: Array) -> None:
    """V[domain, y] += weight exp(g (c - 1)) over one row of inner products D, c = D/SCALE^2; no domain: all are one."""
    unit, several = 1.0 / (SCALE * SCALE), len(domain) > 0
    for s in range(len(largest)):
        largest[s] = -2.0
    for i in range(len(D)):
        c, s = D[i] * unit, domain[i] if several else 0
        if c > largest[s]:
            largest[s] = c
    for i in range(len(D)):
        c, s = D[i] * unit, domain[i] if several else 0
        if g * (largest[s] - c) <= FAINT:
            V[s, y[i]] += weight[i] * np.exp(g * (c - 1.0))


@compiled
def _near(heads: Heads, record: Record, products: Products, r: int, F: Array, work: Array) -> None:
    """The scores of the local heads: shares of one in the votes, minus their mean.

    One head counts all sources, and one each source alone; the target's rows count in all.
    """
    kinds, each, first, K = len(heads.near_ends), heads.local, len(heads.columns), F.shape[1]
    sources = max(1, each - 1)
    used, at, room, stored = record.at[0], record.at[1], len(record.labels), products.by_kept.shape[2]
    past, largest, a = work[:K].reshape((1, K)), work[K : K + sources], K + sources
    own = work[a : a + sources * K].reshape((sources, K))
    D = work[a + sources * K :].view(np.float32)[:used]
    a = 0
    for kind in range(kinds):
        b = heads.near_ends[kind]
        rows, q = record.rows[a * room : b * room].reshape((room, b - a)), products.W[r, a:b]
        if stored:
            for j in range(min(used, stored)):
                D[j] = products.by_kept[kind, r, j]
            for i in range(min(products.fresh[0], used)):
                j = (at - 1 - i) % heads.kept
                row_products(rows[j : j + 1], q, D[j : j + 1])
        else:
            row_products(rows[:used], q, D)
        for k in range(K):
            past[0, k] = 0.0
            for s in range(sources):
                own[s, k] = 0.0
        votes(
            products.by_source[kind, r], heads.near_y, heads.near_domain, heads.near_weight, heads.sharpness[kind],
            own, largest,
        )  # fmt: skip
        votes(D, record.labels, record.labels[:0], record.weights, heads.sharpness[kind], past, largest[:1])
        for h in range(each):
            V, total = F[first + kind * each + h], 0.0
            for k in range(K):
                by_sources = 0.0
                for s in range(sources):
                    if h == 0 or h == s + 1:
                        by_sources += own[s, k]
                V[k] = past[0, k] + TRUST * by_sources
                total += V[k]
            total = max(total, 1e-300)
            for k in range(K):
                V[k] = V[k] / total - 1.0 / K
        a = b


# -- the mixture --------------------------------------------------------------------------------------------------


@compiled(fastmath=SUMS)
def _experts(F: Array, pi: Array, y: int, temperatures: int, w: Array, loss: Array, q: Array, e: Array) -> None:
    """qbar into q; with a label y >= 0 also -log of each expert's probability of it into loss. `e`: room for K.

    Experts are heads x temperatures (2, 4, 8, ...).

    exp(2 c f) is the square of exp(c f), so every head costs one exponential a class for all its temperatures.
    """
    heads, K = F.shape
    priors = heads * temperatures
    for k in range(K):
        q[k] = w[2 * priors] * pi[k]
    if y >= 0:
        loss[2 * priors] = -np.log(pi[y])
    for i in range(heads):
        top = F[i, 0]
        for k in range(1, K):
            top = max(top, F[i, k])
        for k in range(K):
            e[k] = np.exp(2.0 * (F[i, k] - top))
        c = 2.0
        for j in range(temperatures):
            plain, prior = 0.0, 0.0
            for k in range(K):
                plain += e[k]
                prior += e[k] * pi[k]
            at = i * temperatures + j
            if y >= 0:
                own = c * (top - F[i, y])
                loss[at] = own + np.log(plain)
                loss[priors + at] = own - np.log(pi[y]) + np.log(prior)
            share, share_prior = w[at] / plain, w[priors + at] / prior
            for k in range(K):
                q[k] += e[k] * (share + share_prior * pi[k])
                e[k] *= e[k]
            c *= 2.0


@compiled(fastmath=SUMS)
def _log_softmax(s: Array, out: Array) -> None:
    top, total = s[0], 0.0
    for k in range(1, len(s)):
        top = max(top, s[k])
    for k in range(len(s)):
        total += np.exp(s[k] - top)
    for k in range(len(s)):
        out[k] = s[k] - top - np.log(total)


@compiled(fastmath=SUMS)
def _newton(a: Array, H: Array, X: Array, log_p: Array, y: int, keep: float, ridge: float, work: Array) -> None:
    """One step of a stack with features X (f x K): a -= H^-1 X (p - e_y).

    H = keep H + (1 - keep) ridge I + X (diag p - p p') X': old labels fade, the ridge stays.
    """
    f, K = X.shape
    p, row, rest = work[:K], work[K : 2 * K], work[2 * K :]
    mean, g, L = rest[:f], rest[f : 2 * f], rest[2 * f : (2 + f) * f].reshape((f, f))
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
    f, n = heads + 2, 2 + len(KEEP)
    return 2 * (2 * heads * TEMPERATURES + 1) + (2 + f + n) * K + n + 2 * K + (2 + f) * f


@compiled
def mix_row(mix: Mixture, F: Array, label: int, shipped: Array, by_head: Array, work: Array) -> float:
    """The probabilities of one row with the heads' scores F into `shipped`, the first mixture's weights into `by_head`.

    A label >= 0 is learned; its log-loss. One beyond `shipped` is a class that no head could name: the prediction
    leaves it out, and every expert pays for it. `work` is room for `mixing_room` numbers.
    """
    heads, known, n, stacks, experts = len(F), len(shipped), len(mix.members), len(mix.a), len(mix.loss)
    w, losses, rest = work[:experts], work[experts : 2 * experts], work[2 * experts :]
    last, rest = rest[:n], rest[n:]
    q, pi, rest = rest[:known], rest[known : 2 * known], rest[2 * known :]
    X, rest = rest[: (heads + 2) * known].reshape((heads + 2, known)), rest[(heads + 2) * known :]
    logs, rest = rest[: n * known].reshape((n, known)), rest[n * known :]
    named = 0 <= label < known
    at = label if named else -1
    for e in range(len(w)):
        losses[e] = mix.loss[e] - mix.log_w[e]
    weigh(losses, 1.0, w)
    whole = _total(mix.counts)
    for k in range(known):
        pi[k] = mix.counts[k] / whole
    for i in range(heads):
        size = 0.0
        for k in range(known):
            size = max(size, abs(F[i, k]))
        scale = MOST / size if size > MOST else 1.0
        for k in range(known):
            X[i, k] = scale * F[i, k]
    _experts(X[:heads], pi, at, TEMPERATURES, w, losses, q, rest)
    for k in range(known):
        X[heads, k] = np.log(q[k] + LEAST)
        logs[1, k] = X[heads + 1, k] = np.log(pi[k])
    _log_softmax(X[heads], logs[0])
    for i in range(heads, heads + 2):
        mean = _total(X[i]) / known
        for k in range(known):
            X[i, k] -= mean
    for s in range(stacks):
        for k in range(known):
            q[k] = 0.0
        for i in range(heads + 2):
            for k in range(known):
                q[k] += mix.a[s, i] * X[i, k]
        _log_softmax(q, logs[2 + s])
    for k in range(known):
        tracked = 0.0
        for e in range(n):
            tracked += mix.members[e] * np.exp(logs[e, k])
        q[k] = tracked
    lead = 1.0 / (1.0 + np.exp(mix.pair[0] - mix.pair[1]))  # weight of qbar against that of the tracker
    for k in range(known):
        shipped[k] = lead * np.exp(logs[0, k]) + (1.0 - lead) * q[k]
    for i in range(heads):
        by_head[i] = 0.0
        for j in range(i * TEMPERATURES, (i + 1) * TEMPERATURES):
            by_head[i] += w[j] + w[heads * TEMPERATURES + j]
    by_head[heads] = w[-1]
    if label < 0:
        return 0.0
    mix.counts[label] += 1.0
    if not named:
        for e in range(len(losses)):
            mix.loss[e] -= np.log(LEAST)
        mix.pair[0] -= np.log(LEAST)
        mix.pair[1] -= np.log(LEAST)
        return float(-np.log(LEAST))
    for e in range(len(losses)):
        mix.loss[e] += losses[e]
    mix.pair[0] -= logs[0, at]
    mix.pair[1] -= np.log(max(q[at], LEAST))
    for e in range(n):
        last[e] = mix.members[e] * np.exp(logs[e, at])
    seen = whole - len(mix.counts) + 1.0
    alpha, evidence = SHARE / (seen + 1.0), _total(last)
    for e in range(n):
        mix.members[e] = (1.0 - alpha) * (last[e] / evidence) + alpha * START
    for s in range(stacks):
        _newton(mix.a[s], mix.H[s], X, logs[2 + s], at, KEEP[s], FLOOR, rest)
    return float(-np.log(max(shipped[at], LEAST)))


# -- rows ---------------------------------------------------------------------------------------------------------


@compiled
def run_rows(
    heads: Heads, record: Record, products: Products, forest: Forest | None, begin: int, end: int, y: Array,
    weight: Array, out: Outcome,
) -> float:  # fmt: skip
    """Rows begin..end-1 of one target: predicted and, with a label >= 0, learned; the sum of their log-losses.

    Scores: first the regressions', then the local heads'; those of further heads stand in `products.F` already.
    """
    total, known = 0.0, out.probabilities.shape[1]
    for r in range(begin, end):
        F, votes = products.F[r], out.votes[r]
        if products.known[r] != record.at[2]:
            others = len(F) - 2 * heads.tree_heads - (1 if heads.tree_heads else 0)
            _fit(heads, record, products, r)
            _scores(heads.columns, heads.tables, heads.halves, products.fits[r], F)
            if len(heads.near_ends):
                _near(heads, record, products, r, F[:others], out.work)
            _centre(F[:others])
            if forest is not None:
                leaf_scores(
                    forest.sources, forest.counts, forest.rows, record.labels, record.weights, record.at[0],
                    products.leaves[r], F[len(F) - heads.tree_heads :], out.work,
                )  # fmt: skip
            products.known[r] = record.at[2]
        for h in range(len(F)):
            votes[h] = best(F[h, :known])
        votes[len(F)] = best(record.mix.counts[:known])
        total += mix_row(record.mix, F, y[r], out.probabilities[r], out.weights[r], out.work)
        if y[r] >= 0:
            _learn(heads, record, products, forest, r, y[r], weight[r])
    return total


# -- rows of many targets, each by its own record -----------------------------------------------------------------
# A record is one stretch of memory (`fleet/holder.py` has its parts), whose base is the prior that all targets share:
# what a target has of its own are pending rows, which are never folded.
LOSS, MEMBERS, PAIR, STACKS, CURVES, COUNTS, ROWS = range(7)  # places of `at`


@compiled
def _fade(heads: Heads, record: Record, D: int) -> None:
    """Where labels fade, all pending rows of the space become shorter: P and M go back to their start."""
    room, d = len(record.G) // D, 0
    for s in range(len(heads.d_ends)):
        end, keep = heads.d_ends[s], heads.keep[s]
        if keep < 1.0:
            for j in range(room * d, room * d + record.pending[s] * (end - d)):
                record.G[j] *= keep
        d = end


@compiled(threads=True)
def run_slots(
    heads: Heads, products: Products, sources: Array | None, R: Array, slots: Array, rows: Array, room: int, at: Array,
    log_w: Array, diagonal: Array, top: Array, pending: Array, fade_every: int, y: Array, weight: Array, out: Outcome,
) -> None:  # fmt: skip
    """Rows of a batch in order: `rows` are their places, `slots` their targets' records in R.

    A label below 0 is none: the row is predicted only. `room`: rows that a record has places for; `sources`: those of
    the forest (`Forest`), if there is one, whose leaves come last in a record; `pending` is written over.
    """
    D, Q, near, trees = products.Z.shape[1], products.MZ.shape[1], products.W.shape[1], products.leaves.shape[1]
    f, own = int(np.sqrt((at[COUNTS] - at[CURVES]) // 2)), at[ROWS]
    G, E, kept = own + 2 * room, own + (2 + D) * room, own + (2 + D + Q) * room
    for t in range(len(rows)):
        r, s = rows[t], R[slots[t]]
        mix = Mixture(
            log_w, s[at[LOSS] : at[MEMBERS]], s[at[MEMBERS] : at[PAIR]], s[at[PAIR] : at[STACKS]],
            s[at[STACKS] : at[CURVES]].reshape((2, f)), s[at[CURVES] : at[COUNTS]].reshape((2, f, f)),
            s[at[COUNTS] : own],
        )  # fmt: skip
        counters = s[:3].view(np.int64)
        for i in range(len(pending)):
            pending[i] = counters[2]
        record = Record(
            mix, pending, s[G:E], s[E:kept], diagonal, top,
            s[own : own + room].view(np.int64), s[own + room : G], s[kept:].view(np.int16), counters,
        )  # fmt: skip
        if sources is None:
            run_rows(heads, record, products, None, r, r + 1, y, weight, out)
        else:
            leaves = record.rows[near * room : (near + trees) * room].reshape((room, trees))
            forest = Forest(sources, s[:0].reshape((0, 1)), leaves)
            run_rows(heads, record, products, forest, r, r + 1, y, weight, out)
        if y[r] >= 0 and counters[2] % fade_every == 0:
            _fade(heads, record, D)
