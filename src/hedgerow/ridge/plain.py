"""Our own learner in plain NumPy, one row at a time: what its compiled kernels are tested against.

Every formula is as it is read, nothing postponed or shared. A label moves P and M of a space by

    k = P z / (1 + z' P z),   M = M + k (y - z' M),   P = P - k (z' P).

Every TURN rows some rows of a pool are labelled again, every FADE labels a fading space goes some way back.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from scipy.special import log_softmax, softmax

from hedgerow.core.arrays import Array
from hedgerow.kernels import FADE, FARTHEST, PART, SCALE, TEMPERATURES
from hedgerow.kernels import FLOOR as LEAST_SHARE
from hedgerow.kernels.ridge import FLOOR, KEEP, LEAST, REPEATED, TRUST
from hedgerow.kernels.trees import LARGE, OTHERS, Trees
from hedgerow.learner import under
from hedgerow.ridge import pool as balance
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.near import INPUT, whole
from hedgerow.ridge.space import OWN_MAP, Space
from hedgerow.ridge.trees import columns_of, scaled

SCALES = 2.0 ** np.arange(1, TEMPERATURES + 1)


class PlainLearner:
    """Starts at a fitted learner's state (copied) and goes its own way."""

    def __init__(self, learner: RidgeLearner) -> None:
        self.learner = learner.copy()
        self.mix = under("mix.", self.learner.state)
        self.spaces = [PlainSpace(space) for space in self.learner.spaces]
        self.near = PlainNear(self.learner) if self.learner.plan.near else None
        trees = self.learner.trees
        self.leaves = None if trees is None else trees.counts.copy()
        self.seen = 0

    def step(self, x: Array, y: int, before: int | None = None) -> int:
        """The class predicted for a raw row, before its label is learned; `before`: the newest label that was known."""
        F, z = self.scores(x, y, before)
        said, _ = mix_row(self.mix, F, y, self.learner.n_classes)
        self.learn(z, y, before)
        return int(said.argmax())

    def scores(self, x: Array, y: int, before: int | None = None) -> tuple[Array, list[Array]]:
        """Heads x K scores, and the row in every space; local heads and leaves then have the label."""
        learner = self.learner
        row = learner.pre.fold(x[None], np.array([True]))[0]
        z: list[Array] = []
        for space in self.spaces:
            of = space.settings.of
            z.append(space.map(row[None])[0] if of == OWN_MAP else z[of])
        spaces = zip(self.spaces, z, strict=True)
        F = [space.targets.scores((v @ space.M)[None])[0] for space, v in spaces]
        if self.near is not None:
            of = self.near.settings.of
            F.append(self.near.votes(row if of == INPUT else z[of], y, learner.n_classes))
        if learner.trees is not None and self.leaves is not None:
            F += tree_heads(learner.trees.trees, learner.constants, x, self.leaves, y)
        F.append(repeat_scores(self.mix, self.last(before)))
        return centred(np.vstack(F)), z

    def last(self, before: int | None) -> int:
        """The newest label that was known when the row was predicted."""
        return int(self.mix["order"][2]) if before is None else before

    def learn(self, z: list[Array], y: int, before: int | None = None) -> None:
        """What is left to do with a label once the mixture has it."""
        count_repeat(self.mix, self.last(before), y)
        self.seen += 1
        for space, v in zip(self.spaces, z, strict=True):
            space.learn(v, y)
            if space.settings.keep < 1 and self.seen % FADE == 0:
                space.fade()
            if space.pool is not None and self.seen % balance.TURN == 0:
                space.label(self.mix["counts"] - 1)


class PlainSpace:
    """A regression, and the labels of its pool."""

    def __init__(self, space: Space) -> None:
        self.settings = space.settings
        self.targets = space.targets
        self.map = space.map
        upper = np.triu(space.regression.P)
        self.P = upper + np.triu(upper, 1).T
        self.M = space.regression.M.copy()
        self.start = self.P, self.M
        self.pool = space.pool
        if self.pool is not None:
            self.labels = self.pool.labels.copy()
            self.h = self.pool.h.astype(float)
            self.bias = self.pool.bias
            self.at = 0

    def learn(self, z: Array, y: int) -> None:
        """One rank-one update."""
        Pz = self.P @ z
        k = Pz / (1.0 + z @ Pz)
        missed = self.targets.rows(np.array([y]))[0] - z @ self.M
        self.M = self.M + np.outer(k, missed)
        self.P = self.P - np.outer(k, Pz)

    def fade(self) -> None:
        """Back some way to the start."""
        keep = self.settings.keep
        P, M = self.start
        self.P = keep**2 * self.P + (1 - keep**2) * P
        self.M = keep * self.M + (1 - keep) * M

    def label(self, counts: Array) -> None:
        """The next rows of the pool are labelled again, each by what is said of it without it."""
        assert self.pool is not None
        n = len(self.pool.U)
        w = self.settings.pool
        rows = (self.at + np.arange(-(-n // balance.CIRCLE))) % n
        self.at = (self.at + len(rows)) % n
        U = self.pool.U[rows].astype(float)
        h = self.h[rows, None]
        old = self.targets.of_labels(self.labels[rows])
        F = self.targets.scores((U @ self.M - h * old) / np.maximum(1 - h, balance.ALONE))
        pi = balance.expected(self.pool.sources, counts)
        self.bias = balance.biases(F, self.bias, pi, balance.AGAIN)
        labels = (F - self.bias).argmax(axis=2)
        moved = (labels != self.labels[rows]).any(axis=1)
        self.M = self.M + w * self.P @ (U.T @ (self.targets.of_labels(labels) - old))
        self.labels[rows] = labels
        self.h[rows[moved]] = w * np.einsum("ij,jk,ik->i", U[moved], self.P, U[moved])


class PlainNear:
    """All kept rows, of the sources and of the target, and the votes of every one of them."""

    def __init__(self, learner: RidgeLearner) -> None:
        (self.settings,) = learner.plan.near
        self.limit = learner.plan.kept
        self.sources = under("near.", learner.constants)
        self.rows: list[Array] = []
        self.labels: list[int] = []

    def votes(self, row: Array, y: int, K: int) -> Array:
        """Heads x classes: the share of each class in the votes; then the row is kept."""
        q = whole(row[None])[0].astype(float)

        def vote(rows: Array) -> Array:
            cosines = rows.astype(float) @ q / SCALE**2
            return np.asarray(np.exp(self.settings.sharpness * (cosines - 1)))

        kept = np.array(self.labels[-self.limit :], np.int64)
        past = np.bincount(kept, [vote(row) for row in self.rows[-self.limit :]], K)
        by_source = self.sources["weight"] * vote(self.sources["rows"].T)
        parts = [slice(a, b) for a, b in pairwise(self.sources["starts"])]
        own = [np.bincount(self.sources["y"][part], by_source[part], K) for part in parts]
        heads = [np.sum(own, axis=0), *own] if len(own) > 1 else own
        V = past + TRUST * np.array(heads)
        self.rows.append(q)
        self.labels.append(y)
        return np.asarray(V / np.maximum(V.sum(axis=1, keepdims=True), 1e-300))


def mix_row(mix: Mapping[str, Array], F: Array, y: int, known: int) -> tuple[Array, Array]:
    """One row of the mixture: the probabilities, and the first mixture's weight of each head.

    A label y >= 0 is learned. One beyond `known` is a class that no head could name, for which all pay alike.
    """
    F = F[:, :known]
    log_pi = np.log(mix["counts"] / mix["counts"].sum())[:known]
    experts = log_softmax(F[:, None] * SCALES[:, None], axis=2).reshape(-1, known)
    experts = np.vstack([experts, log_pi])
    w = softmax(-mix["loss"])
    log_q = np.log(w @ np.exp(experts) + LEAST)
    X = np.vstack([F, centred(log_q), centred(log_pi)])
    members = np.vstack([log_softmax(log_q), log_pi, log_softmax(mix["a"] @ X, axis=1)])
    said = softmax(-mix["members"]) @ np.exp(members)
    if y >= known:
        mix["loss"][:] -= np.log(LEAST)
        mix["members"][:] -= np.log(LEAST)
    elif y >= 0:
        mix["loss"][:] -= experts[:, y]
        mix["members"][:] -= members[:, y]
        for a, H, keep, log_p in zip(mix["a"], mix["H"], KEEP, members[2:], strict=True):
            newton(a, H, X, np.exp(log_p), y, keep)
    if y >= 0:
        mix["counts"][y] += 1
    return said, np.append(w[:-1].reshape(len(F), -1).sum(axis=1), w[-1])


def repeat_scores(mix: Mapping[str, Array], last: int) -> Array:
    """log p / 8 of the head that repeats a label: p of it is the share of labels that did; the others have pi."""
    p = mix["counts"] / mix["counts"].sum()
    if last >= 0:
        repeats = mix["order"][0] / mix["order"][:2].sum()
        p = p * (1 - repeats) / max(1 - p[last], LEAST)
        p[last] = repeats
    return np.asarray(np.log(np.maximum(p, LEAST)) / REPEATED)


def count_repeat(mix: Mapping[str, Array], last: int, y: int) -> None:
    """A label that came when `last` was the newest that was known."""
    if last >= 0:
        mix["order"][int(y != last)] += 1
    mix["order"][2] = y


def newton(a: Array, H: Array, X: Array, p: Array, y: int, keep: float) -> None:
    """One step of a stack."""
    covariance = np.diag(p) - np.outer(p, p)
    H[:] = keep * H + (1 - keep) * FLOOR * np.eye(len(H)) + X @ covariance @ X.T
    a -= np.linalg.solve(H, X @ (p - np.eye(len(p))[y]))


def centred(F: Array) -> Array:
    """Minus its mean over the classes."""
    return np.asarray(F - F.mean(axis=-1, keepdims=True))


def tree_heads(
    trees: Trees, fixed: Mapping[str, Array], x: Array, own: Array, y: int
) -> list[Array]:
    """The scores of `level`, `boost` and `leaves` for a row; then its label is counted in its leaves (leaves x K)."""
    columns = columns_of(trees._asdict(), x[None])
    leaves = forest_leaves(trees, columns)[0]
    boost = softmax(boosted_raw(trees, columns)[0], axis=1)
    W, centre, sd = (fixed[f"trees.level.{name}"] for name in ("W", "centre", "sd"))
    level = softmax(W[:, 0] + W[:, 1:] @ scaled(x, centre, sd, FARTHEST))
    shares = [level[None], boost, leaf_shares(trees, leaves, own)]
    scores = [log_scores(p, own.shape[1]) for p in shares]
    own[leaves, y] += 1
    return scores


def leaf_nodes(trees: Trees, columns: Array, roots: Array) -> Array:
    """The node of the leaf that each row falls into, in each of these trees (B x trees)."""
    node = np.tile(roots, (len(columns), 1))
    rows = np.arange(len(columns))[:, None]
    while (inner := trees.feature[node] >= 0).any():
        value = columns[rows, np.maximum(trees.feature[node], 0)]
        left = np.where(np.isnan(value), trees.missing[node] == 1, value <= trees.threshold[node])
        node = node + np.where(inner, np.where(left, 1, trees.right[node]), 0)
    return node


def boosted_raw(trees: Trees, columns: Array) -> Array:
    """What boosting sums for each head and class (B x heads x K0)."""
    raw = np.tile(trees.baseline, (len(columns), 1, 1))
    values = trees.threshold[leaf_nodes(trees, columns, trees.starts[: len(trees.head)])]
    for t, (h, k) in enumerate(zip(trees.head, trees.label, strict=True)):
        raw[:, h, k] += values[:, t]
    return raw


def forest_leaves(trees: Trees, columns: Array) -> Array:
    """The number of each row's leaf in every tree of the forest, which compares in single precision."""
    single = np.clip(columns, -LARGE, LARGE).astype(np.float32)
    nodes = leaf_nodes(trees, single, trees.starts[len(trees.head) :])
    return np.asarray(trees.threshold[nodes].astype(np.int64))


def log_scores(p: Array, K: int) -> Array:
    """log p / 4 less its mean, of classes beyond those of p too."""
    padded = np.pad(p, [*[(0, 0)] * (p.ndim - 1), (0, K - p.shape[-1])])
    return centred(np.log(np.maximum(padded, LEAST_SHARE)) / PART)


def leaf_shares(trees: Trees, leaves: Array, own: Array) -> Array:
    """p_h(k|x): mean over trees of (.3 sum_i w_hi N_i + n + 1/K0), normalised, for one row (heads x K)."""
    _, sources, known = trees.counts.shape
    heads = np.vstack([np.ones(sources), np.where(np.eye(sources) == 1, 1.0, OTHERS)])
    heads = heads if sources > 1 else heads[:1]
    prior = TRUST * np.einsum("hi,tik->htk", heads, trees.counts[leaves]) + 1 / known
    n = np.pad(prior, [(0, 0), (0, 0), (0, own.shape[1] - known)]) + own[leaves]
    return np.asarray((n / n.sum(axis=-1, keepdims=True)).mean(axis=1))
