"""The same methods in plain NumPy, one instance at a time: what speed is measured against, and the twins of tests.

`jda` and `oddm` are the authors' operations with every matrix built by its definition: the n x n MMD matrix, the n x n
centring matrix, the dense m x m pencil and its generalised eigenproblem, all distances of the nearest-neighbour labels;
online, for every instance and source, two projections of the row and all class gaps rebuilt, and every `every` labels
the dense m x m matrix B = I + mu sum_k g_k g_k^T out of K + 1 outer products, its determinant, its inverse, B^{-1} A.

`NaiveOwn` is our own learner with its formulas as they are read and a new matrix each time:

    k = P z / (1 + z' P z),   M = M + k (y - z' M)',   P = P - k (z' P)

for every space after each label, some rows of a pool labelled anew every TURN rows, votes of all kept rows, and the
mixture row by row. Nothing is compiled, every space has the map of its definition. Rows are instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from hedgerow.align import kernel_root
from hedgerow.kernels import SCALE
from hedgerow.kernels.ridge import FLOOR, KEEP, LEAST, SHARE, START, TRUST
from hedgerow.kernels.trees import LARGE, Trees
from hedgerow.ridge import mixture
from hedgerow.ridge import pool as balance
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.near import Near, whole
from hedgerow.ridge.pool import ALONE, CIRCLE, TURN
from hedgerow.ridge.space import FADE, Space
from hedgerow.ridge.trees import FARTHEST

Array = np.ndarray[Any, Any]

# -- the offline stage ------------------------------------------------------------------------------------------------


class Solution(NamedTuple):
    """Projection (m x d), the largest values of a^T S a / a^T P a, and the pseudo-labels after every round."""

    A: Array
    values: Array
    pseudo_labels: list[Array]


def jda(
    source: Array,
    codes: Array,
    target: Array,
    dim: int,
    lam: float,
    rounds: int,
    eigenvectors: str = "unit",
    empty: str = "source",
) -> Solution:
    """JDA as its authors run it: always all rounds, each a dense generalised eigenproblem, then 1-NN pseudo-labels."""
    X = unit_rows(np.vstack([source, target]))
    ns, K = len(source), len(np.unique(codes))
    pseudo, history = None, []
    for _ in range(rounds):
        M = mmd_matrix(codes, pseudo, len(target), K, 1.0, empty)
        values, A = smallest(X, M, lam, dim)
        if eigenvectors == "S":
            A = A / np.sqrt(np.einsum("ij,ij->j", A, scatter(X) @ A))
        Z = unit_rows(X @ A)
        pseudo = codes[squared_distances(Z[ns:], Z[:ns]).argmin(axis=1)]
        history.append(pseudo)
    return Solution(A, values, history)


def mmd_matrix(
    codes: Array, pseudo: Array | None, nt: int, w0: float, wc: float, empty: str = "source", normalise: bool = True
) -> Array:
    """M = w_0 e_0 e_0^T + w_c sum_c e_c e_c^T, n x n, class by class, over its Frobenius norm.

    A class with no pseudo-label keeps only its source half ("source"), or is left out ("skip").
    """
    ns = len(codes)
    e0 = np.concatenate([np.full(ns, 1 / ns), np.full(nt, -1 / nt)])
    M = w0 * np.outer(e0, e0)
    for c in np.unique(codes) if pseudo is not None else ():
        e = np.zeros(ns + nt)
        e[:ns][codes == c] = 1 / (codes == c).sum()
        if (pseudo == c).any():
            e[ns:][pseudo == c] = -1 / (pseudo == c).sum()
        elif empty == "skip":
            continue
        M += wc * np.outer(e, e)
    return M / np.linalg.norm(M, "fro") if normalise else M


def scatter(X: Array) -> Array:
    """X^T H X with H = I - 1 1^T / n, by the definition."""
    H = np.eye(len(X)) - np.ones((len(X), len(X))) / len(X)
    return X.T @ H @ X


def smallest(X: Array, M: Array, lam: float, dim: int) -> tuple[Array, Array]:
    """The `dim` smallest Phi of (X^T M X + lam I) A = X^T H X A Phi, as values 1/Phi and unit vectors."""
    P = X.T @ M @ X + lam * np.eye(X.shape[1])
    phi, A = scipy.linalg.eig(P, scatter(X))
    finite = np.flatnonzero(np.isfinite(phi) & (phi.real > 0))  # a scatter of less than full rank has infinite ones
    best = finite[np.argsort(phi.real[finite])][:dim]
    A = A[:, best].real
    return 1 / phi.real[best], A / np.linalg.norm(A, axis=0)


def unit_rows(X: Array) -> Array:
    """x/|x|."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def squared_distances(A: Array, B: Array) -> Array:
    """|a - b|^2 for every pair, b by b."""
    return np.stack([((A - b) ** 2).sum(axis=1) for b in B], axis=1)


# -- the online stage -------------------------------------------------------------------------------------------------


@dataclass
class Source:
    """One source's space: A (m x d), its frozen and its online classifier (K x d), its means, the target's means."""

    A: Array
    frozen: Array
    mean: Array
    class_means: Array
    target_mean: Array
    target_count: float
    online: Array = field(init=False)
    target_class_means: Array = field(init=False)
    target_class_counts: Array = field(init=False)

    def __post_init__(self) -> None:
        self.online = np.zeros_like(self.frozen)
        self.target_class_means = np.zeros_like(self.class_means)
        self.target_class_counts = np.zeros(len(self.class_means))

    def project(self, x: Array) -> Array:
        """x A, scaled to unit length."""
        z = x @ self.A
        return np.asarray(z / np.sqrt((z**2).sum()))

    def learn(self, z: Array, f: Array, label: int, C: float) -> None:
        """PA-I."""
        rivals = f.copy()
        rivals[label] = -np.inf
        s = int(rivals.argmax())
        loss = max(0.0, 1 - (f[label] - f[s]))
        if loss > 0:
            tau = min(C, loss / (2 * np.linalg.norm(z) ** 2))
            self.online[label] += tau * z
            self.online[s] -= tau * z

    def count(self, x: Array, label: int) -> tuple[Array, Array]:
        """The target's means with x, and all gaps."""
        n, n_k = self.target_count, self.target_class_counts[label]
        self.target_mean = (self.target_mean * n + x) / (n + 1)
        self.target_count = n + 1
        self.target_class_means[label] = (self.target_class_means[label] * n_k + x) / (n_k + 1)
        self.target_class_counts[label] = n_k + 1
        return self.mean - self.target_mean, self.class_means - self.target_class_means

    def refresh(self, gap: Array, class_gaps: Array, mu: float) -> None:
        """A <- B^{-1} A, all dense."""
        B = np.eye(len(gap)) + mu * np.outer(gap, gap)
        for g in class_gaps:
            B = B + mu * np.outer(g, g)
        inverse = np.linalg.inv(B) if np.linalg.det(B) != 0 else np.linalg.pinv(B)
        self.A = inverse @ self.A


def oddm(sources: list[Source], X: Array, y: Array, beta: float, C: float, mu: float, every: int) -> Array:
    """The predictions of HomOTL-ODDM over a stream, each made before its label; the sources are changed."""
    n = len(sources)
    u, v = np.full(n, 0.5 / n), np.full(n, 0.5 / n)
    predictions = np.empty(len(X), dtype=np.int64)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        Z = [source.project(x) for source in sources]
        Fs = [source.frozen @ z for source, z in zip(sources, Z, strict=True)]
        Ft = [source.online @ z for source, z in zip(sources, Z, strict=True)]
        total = u.sum() + v.sum()
        u, v = u / total, v / total
        F = np.zeros(len(Fs[0]))
        for i in range(n):
            F = F + u[i] * Fs[i] + v[i] * Ft[i]
        predictions[t] = F.argmax()
        for i, source in enumerate(sources):
            u[i] *= beta ** float(Fs[i].argmax() != label)
            v[i] *= beta ** float(Ft[i].argmax() != label)
            source.learn(source.project(x), Ft[i], int(label), C)
            gaps = source.count(x, int(label))
            if (t + 1) % every == 0:
                source.refresh(*gaps, mu)
    return predictions


def of_learner(learner: Any) -> list[Source]:
    """The sources of a fitted `oddm` learner of the library, before its stream."""
    target = learner.target
    return [
        Source(
            A=np.array(learner.projection(i)),
            frozen=learner.W[i].copy(),
            mean=learner.source(i).mean,
            class_means=learner.source(i).class_means,
            target_mean=target.mean,
            target_count=float(target.count[0]),
        )
        for i in range(learner.n_sources)
    ]


def replay(learner: Any, X: Array, y: Array) -> Array:
    """The predictions of the naive form from where a fitted learner stands, with its options."""
    plan = learner.plan
    return oddm(of_learner(learner), X, y, plan.mixer.beta, plan.head.C, plan.refresh.mu, plan.refresh.every)


# -- our own learner --------------------------------------------------------------------------------------------------

TEMPERATURES = 2.0 ** np.arange(1, mixture.TEMPERATURES + 1)
State = dict[str, np.ndarray]


class NaiveOwn:
    """Starts at a fitted learner's state (copied) and goes its own way."""

    def __init__(self, learner: RidgeLearner) -> None:
        self.learner = learner.copy()
        self.mix = {name: array for name, array in self.learner.state.items() if name.startswith("mix.")}
        self.spaces = [NaiveSpace(space) for space in self.learner.spaces]
        self.near = NaiveNear(self.learner.near) if self.learner.near.settings else None
        self.leaves = np.zeros(()) if self.learner.trees is None else self.learner.trees.counts.copy()
        self.seen = 0

    def step(self, x: np.ndarray, y: int) -> int:
        """The class predicted for a raw row, before its label is learned."""
        row = self.learner.pre.fold(x[None], np.array([True]))
        z = [space.map(row[0]) for space in self.spaces]
        heads = [space.scores(v) for space, v in zip(self.spaces, z, strict=True)]
        if self.near is not None:
            compared = [row[0] if settings.of < 0 else z[settings.of] for settings in self.near.near.settings]
            heads += [self.near.votes(compared, self.learner.n_classes)]
            self.near.keep(compared, y)
        if self.learner.trees is not None:
            trees = self.learner.trees.trees
            columns = tree_columns(trees, x[None])
            raw, leaves = boosted_raw(trees, columns)[0], forest_leaves(trees, columns)[0]
            p = np.exp(raw - raw.max(axis=1, keepdims=True))
            boost, own = p / p.sum(axis=1, keepdims=True), leaf_shares(trees, leaves, self.leaves)
            level = level_shares(self.learner.constants, x)[None]
            heads += [log_scores(each, self.learner.n_classes) for each in (level, boost, own)]
            self.leaves[leaves, y] += 1
        F = centred(np.vstack(heads))
        shipped, _ = mix_row(self.mix, F, y, F.shape[1])
        self.seen += 1
        for i, (space, v) in enumerate(zip(self.spaces, z, strict=True)):
            space.learn(v, y)
            if space.space.settings.keep < 1 and self.seen % FADE == 0:
                space.fade()
            if space.pool is not None and (self.seen + TURN * i // len(self.spaces)) % TURN == 0:
                space.label()
        return int(shipped.argmax())


class NaiveNear:
    """All kept rows, of the sources and of the target, and the votes of every one of them."""

    def __init__(self, near: Near) -> None:
        self.near, self.rows, self.labels = near, [[] for _ in near.settings], []  # type: ignore[var-annotated]

    def votes(self, compared: list[np.ndarray], K: int) -> Any:
        """Heads x classes: the share of each class in the votes."""
        near, heads = self.near, []
        for i, settings in enumerate(near.settings):
            q = whole(compared[i][None])[0].astype(float)
            past = np.zeros(K)
            for row, label in zip(self.rows[i][-near.limit :], self.labels[-near.limit :], strict=True):
                past[label] += np.exp(settings.sharpness * (row @ q / SCALE**2 - 1))
            votes = near.weight * np.exp(settings.sharpness * (near.sources[i].astype(float) @ q / SCALE**2 - 1))
            own = [np.bincount(near.y, votes * (near.domain == s), K) for s in range(near.domain.max() + 1)]
            own = [sum(own), *own] if len(own) > 1 else own  # type: ignore[list-item]
            heads += [past + TRUST * each for each in own]
        V = np.array(heads)
        return V / np.maximum(V.sum(axis=1, keepdims=True), 1e-300)

    def keep(self, compared: list[np.ndarray], y: int) -> None:
        """One more row of the target."""
        for rows, row in zip(self.rows, compared, strict=True):
            rows.append(whole(row[None])[0].astype(float))
        self.labels.append(y)


class NaiveSpace:
    """One space: its regression, its pool, and what fades."""

    def __init__(self, space: Space) -> None:
        self.space, self.targets, self.root, self.pool = space, space.targets, space.map.A, space.pool
        upper = np.triu(space.regression.P)
        self.P, self.M = upper + np.triu(upper, 1).T, space.regression.M.copy()
        self.start = self.P, self.M
        if self.pool is not None:
            self.U, self.labels, self.h = self.pool.U.astype(float), self.pool.labels.copy(), self.pool.h.astype(float)
            self.at, self.counts, self.bias = 0, None, np.zeros(())
            if self.pool.sources is not None:
                self.counts, self.bias = np.stack([self.pool.sources, self.pool.counts]), self.pool.bias
        if space.map.landmarks is not None and self.root is None:
            self.back_to_its_definition(space.map.landmarks.astype(float))

    def back_to_its_definition(self, landmarks: np.ndarray) -> None:
        """The library leaves out the root of the kernel matrix, z = k(x) A, and has A P A' and A M instead."""
        assert self.space.settings.keep == 1  # P0 and M0 would have to go back too
        self.root, values = kernel_root(landmarks)
        inverse = values[:, None] * self.root.T
        self.P, self.M = inverse @ self.P @ inverse.T, inverse @ self.M
        if self.pool is not None:
            self.U = self.U @ self.root

    def map(self, x: np.ndarray) -> np.ndarray:
        """z of one row x."""
        landmarks, axes = self.space.map.landmarks, self.space.map.axes
        if landmarks is not None:
            c = landmarks.astype(float) @ x
            return np.asarray(((c + c**2) / 2) @ self.root)
        if axes is not None or self.root is None:
            return x if axes is None else x @ axes.astype(float)
        z = x @ self.root.astype(float)
        return np.asarray(z / (np.linalg.norm(z) or 1.0))

    def scores(self, z: np.ndarray) -> Any:
        """Heads x classes."""
        return self.targets.scores((z @ self.M)[None])[0]

    def learn(self, z: np.ndarray, y: int) -> None:
        """One rank-one update."""
        Pz = self.P @ z
        k = Pz / (1.0 + z @ Pz)
        self.P, self.M = (
            self.P - np.outer(k, Pz),
            self.M + np.outer(k, self.targets.rows(np.array([y]))[0] - z @ self.M),
        )
        if self.pool is not None and self.counts is not None:
            self.counts = self.counts + np.outer([0, 1], np.eye(self.counts.shape[1])[y])

    def fade(self) -> None:
        """Old labels fade where they do."""
        keep, (P0, M0) = self.space.settings.keep, self.start
        self.P, self.M = keep**2 * self.P + (1 - keep**2) * P0, keep * self.M + (1 - keep) * M0

    def label(self) -> None:
        """The next rows of the pool are labelled again, each by what is said of it without it."""
        assert self.pool is not None
        n, w = len(self.U), self.pool.weight
        rows = (self.at + np.arange(-(-n // CIRCLE))) % n
        self.at = (self.at + len(rows)) % n
        U, h, old = self.U[rows], self.h[rows, None], self.targets.of_labels(self.labels[rows])
        F = self.targets.scores((U @ self.M - h * old) / np.maximum(1 - h, ALONE))
        if self.counts is not None:
            self.bias = balanced(F, self.bias, balance.expected(*self.counts))
        labels = (F - self.bias).argmax(axis=2)
        moved = (labels != self.labels[rows]).any(axis=1)
        self.M = self.M + w * self.P @ (U.T @ (self.targets.of_labels(labels) - old))
        self.labels[rows] = labels
        self.h[rows[moved]] = w * np.einsum("ij,jk,ik->i", U[moved], self.P, U[moved])


def balanced(F: np.ndarray, b: np.ndarray, pi: np.ndarray) -> Any:
    """The bias of each head and class after some steps towards the expected frequencies."""
    n, added = len(F), balance.ROWS * len(pi)
    for _ in range(balance.AGAIN):
        shares = (np.exp(log_softmax(balance.SHARPNESS * (F - b))).sum(axis=0) + added * pi) / (n + added)
        b = b + balance.STEP * np.log(shares / pi) / balance.SHARPNESS
    return centred(b)


def mix_row(state: State, F: np.ndarray, y: int, known: int) -> tuple[np.ndarray, np.ndarray]:
    """One row of the mixture: the shipped probabilities, and the first mixture's weight of each head."""
    s = {name[4:]: array for name, array in state.items()}
    F = F[:, :known]
    log_pi = np.log(s["counts"] / s["counts"].sum())[:known]
    log_p = experts(F, log_pi)
    w = posterior(s["log_w"], s["loss"])
    log_q = np.log(w @ np.exp(log_p) + LEAST)
    X = np.vstack([F, centred(log_q), centred(log_pi)])
    log_f = np.vstack([log_softmax(log_q), log_pi, log_softmax(s["a"] @ X)])
    tracked = s["members"] @ np.exp(log_f)
    lead = posterior(np.zeros(2), s["pair"])
    shipped = lead[0] * np.exp(log_f[0]) + lead[1] * tracked
    if y >= known:
        s["loss"] -= np.log(LEAST)
        s["pair"] -= np.log(LEAST)
    elif y >= 0:
        s["loss"] -= log_p[:, y]
        s["pair"] -= [log_f[0, y], np.log(tracked[y])]
        believed = s["members"] * np.exp(log_f[:, y])
        share = SHARE / (s["counts"].sum() - len(s["counts"]) + 2)
        s["members"][:] = (1 - share) * believed / believed.sum() + share * START
        for a, H, keep, f in zip(s["a"], s["H"], KEEP, log_f[2:], strict=True):
            newton(a, H, X, np.exp(f), y, keep)
    if y >= 0:
        s["counts"][y] += 1
    heads = w[:-1].reshape(2, len(F), -1).sum(axis=(0, 2))
    return shipped, np.append(heads, w[-1])


def experts(F: np.ndarray, log_pi: np.ndarray) -> np.ndarray:
    """log q of every expert: heads x temperatures, the same with the class frequencies, the frequencies."""
    G = (F[:, None] * TEMPERATURES[:, None]).reshape(-1, F.shape[1])
    return np.vstack([log_softmax(G), log_softmax(G + log_pi), log_pi])


def newton(a: np.ndarray, H: np.ndarray, X: np.ndarray, p: np.ndarray, y: int, keep: float) -> None:
    """One step of a stack."""
    covariance = np.diag(p) - np.outer(p, p)
    H[:] = keep * H + (1 - keep) * FLOOR * np.eye(len(H)) + X @ covariance @ X.T
    a -= np.linalg.solve(H, X @ (p - np.eye(len(p))[y]))


def posterior(log_prior: np.ndarray, loss: np.ndarray) -> Any:
    """Normalised prior times exp(-loss)."""
    w = np.exp(log_prior - loss - (log_prior - loss).max())
    return w / w.sum()


def log_softmax(F: np.ndarray) -> Any:
    """log of the softmax over the last axis."""
    top = F - F.max(axis=-1, keepdims=True)
    return top - np.log(np.exp(top).sum(axis=-1, keepdims=True))


def centred(F: np.ndarray) -> Any:
    """Minus its mean over the classes."""
    return F - F.mean(axis=-1, keepdims=True)


# -- trees -------------------------------------------------------------------------------------------------------------


def tree_columns(trees: Trees, X: Array) -> Array:
    """The columns that trees see: numbers as they are, a category as its code."""
    out = np.empty((len(X), len(trees.first)))
    for c, (first, width, place) in enumerate(zip(trees.first, trees.width, trees.place, strict=True)):
        block = X[:, first : first + width]
        if width == 1:
            out[:, c] = block[:, 0]
            continue
        at = np.abs(block).argmax(axis=1)
        value = block[np.arange(len(X)), at]
        codes = trees.codes[place + np.where(value == 0, 2 * width, 2 * at + (value < 0))]
        out[:, c] = np.where(np.isnan(block).any(axis=1), np.nan, codes)
    return out


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
    """log max(p, FLOOR)/4 less its mean, of classes beyond those of p too."""
    padded = np.concatenate([p, np.zeros((*p.shape[:-1], K - p.shape[-1]))], axis=-1)
    scores = np.log(np.maximum(padded, 1e-3)) / 4
    return np.asarray(scores - scores.mean(axis=-1, keepdims=True))


def leaf_shares(trees: Trees, leaves: Array, own: Array) -> Array:
    """p_h(k|x): mean over trees of (.3 sum_i w_hi N_i + n + 1/K0), normalised, for one row (heads x K)."""
    sources, K = trees.counts.shape[1], own.shape[1]
    heads = [np.ones(sources)]
    if sources > 1:
        heads += [np.where(np.arange(sources) == i, 1.0, 0.03) for i in range(sources)]
    known = trees.counts.shape[2]
    prior = 0.3 * np.einsum("hi,tik->htk", np.array(heads), trees.counts[leaves]) + 1 / known
    n = np.pad(prior, [(0, 0), (0, 0), (0, K - known)]) + own[leaves]
    return np.asarray((n / n.sum(axis=-1, keepdims=True)).mean(axis=1))


def level_shares(constants: Mapping[str, Array], x: Array) -> Array:
    """p(k|x) of the logistic regression whose rows are not centred by domain."""
    W, centre, sd = (constants[f"trees.level.{name}"] for name in ("W", "centre", "sd"))
    z = np.clip(np.nan_to_num((x - centre) / sd, nan=0.0), -FARTHEST, FARTHEST)
    f = W[:, 0] + W[:, 1:] @ z
    p = np.exp(f - f.max())
    return np.asarray(p / p.sum())


# -- the regressor -----------------------------------------------------------------------------------------------------


class NaiveRegressor:
    """`hedgerow.kernels.regression.run` as it is read: one row at a time, whole arrays, nothing compiled.

    Made of a fitted learner, of whose state it has a copy by name.
    """

    def __init__(self, learner: Any) -> None:
        self.learner, self.s = learner, {name: array.copy() for name, array in learner.state.items()}

    def step(self, x: Array, y: float, weight: float = 1.0) -> tuple[float, Array, Array]:
        """The prediction, half the width of each interval and what every head predicts, before y is learned."""
        from hedgerow.kernels import regression as k

        s, constants = self.s, self.learner.constants
        (c,), (sd,), (width, farthest, largest) = constants["y.mean"], constants["y.sd"], constants["settings"]
        rows, y = self.learner._rows(x[None]), (y - c) / sd
        Z = [rows.linear[0], rows.kernel[0], rows.kernel[0], rows.kernel[0]]
        M, P = ([s[f"regression.{i}.{name}"] for i in range(4)] for name in "MP")
        spaces = [m @ z for m, z in zip(M, Z, strict=True)]
        for f in spaces:
            f[-1] += rows.trees[0, 0]
        g = np.append(rows.trees[0], rows.source[0])
        U = np.stack([np.ones_like(g), g], axis=1)
        levels = [g + (U * a).sum(axis=1) for a in s["level_a"]]
        two = np.array([rows.trees[0, 0], rows.source[0]])
        n, total, average, squares = s["running"]
        mean = total / (n + 1)
        kept = int(s["place"][0])
        kept_y = s["kept_y"][:kept]
        distance = ((s["kept_x"][:kept] - rows.x[0]) ** 2).sum(axis=1)
        near: list[float] = []
        for share in (k.NARROW, k.NARROW / 5):
            w = np.exp(-distance / (share * width))
            near += [*(two + w @ kept_y[:, 1:3] / (w.sum() + 0.5)), (w @ kept_y[:, 0] + 0.3 * mean) / (w.sum() + 0.3)]
        near.append((w @ kept_y[:, 0] + rows.votes[0, 0] + 0.05 * mean) / (w.sum() + rows.votes[0, 1] + 0.05))
        raw = np.concatenate([*spaces, *levels, two, *(two + offset for offset in s["offsets"]), near, [mean, average]])
        low, high = s["range"]
        low, high = low - k.MARGIN * (high - low), high + k.MARGIN * (high - low)
        f, W = np.clip(raw, low, high), high - low
        beyond = float(np.clip(raw[0] - f[0], -farthest, farthest))
        # the mixture
        base = float(np.clip(_polynomial_weights(s["R"], s["S"], W) @ f, low, high))
        exponential = np.exp(-(s["L"] - s["L"].min()) / (2 * W**2))
        mixed = np.array([base, exponential @ f / exponential.sum(), *(base + s["stack_a"] @ (f - base))])
        mixed = np.clip(mixed, low, high)
        prediction = float(_polynomial_weights(s["last_R"], s["last_S"], W) @ mixed)
        w = np.exp(-distance / (k.NARROW * width))
        spread = (w @ kept_y[:, 3] + k.SMOOTH * s["miss"][0]) / (w.sum() + k.SMOOTH)
        said = c + sd * (prediction + beyond), sd * s["quantile"] * spread, c + sd * (f + beyond)
        if np.isnan(y):
            return said
        # the interval
        inner = y - beyond
        miss = abs(inner - prediction)
        noise = max(1.0, miss / (k.HUBER * s["miss"][0])) / weight
        s["top"][0] = max(k.FADE * s["top"][0], miss / spread)
        missed = (miss / spread > s["quantile"]) - (1 - np.array(self.learner.plan.coverage))
        s["quantile"] = np.maximum(s["quantile"] + k.STEP * s["top"] * missed, 0)
        s["miss"][1] += 1
        s["miss"][0] += (miss - s["miss"][0]) / min(s["miss"][1], k.RECENT)
        # the weights
        inside = np.clip(inner, low, high)
        for R, S, values, at in (("last_R", "last_S", mixed, prediction), ("R", "S", f, base)):
            r = 2 * (at - inside) * (at - values)
            s[R] += r
            s[S] += r**2
        for a, Q in zip(s["stack_a"], s["stack_P"], strict=True):
            _least_squares(Q, a[None], f - base, np.array([inner - base - a @ (f - base)]), noise)
        s["L"] += (f - inside) ** 2
        # the heads
        for p, m, z, fit, keep in zip(P, M, Z, spaces, k.KEEP, strict=True):
            _least_squares(p, m, z, y - fit, noise, keep)
            if keep < 1:
                p *= min(1 / keep, largest / np.trace(p))
        for i, keep in enumerate(k.KEEP_LEVEL):
            for j, u in enumerate(U):
                p = s["level_P"][i, j]
                _least_squares(p, s["level_a"][i, j][None], u, np.array([y - levels[i][j]]), noise, keep)
                if keep < 1:
                    p *= min(1 / keep, 1.1 / np.trace(p))
        s["running"][:] = n + 1, total + y, average + max(0.2, 1 / (n + 1.5)) * (y - average), squares + y * y
        rates = np.array([1 / (n + 3), max(0.05, 1 / (n + 3))])
        s["offsets"] += rates[:, None] * (y - two - s["offsets"])
        at = int(s["place"][1])
        s["kept_x"][at], s["kept_y"][at] = rows.x[0], [y, *(y - two), miss]
        s["place"][:] = min(kept + 1, len(s["kept_x"])), (at + 1) % len(s["kept_x"])
        s["range"][:] = min(s["range"][0], inner), max(s["range"][1], inner)
        return said


def _polynomial_weights(R: Array, S: Array, W: float) -> Array:
    w = np.maximum(R, 0) / (4 * W**4 + S)
    return w / w.sum() if w.sum() > 0 else np.full(len(w), 1 / len(w))


def _least_squares(P: Array, M: Array, z: Array, missed: Array, noise: float, keep: float = 1.0) -> None:
    """A row z whose heads (rows of M) missed by so much."""
    gain = P @ z
    variance = keep * noise + z @ gain
    M += np.outer(missed, gain) / variance
    P -= np.outer(gain, gain) / variance
