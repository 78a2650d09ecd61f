"""The same methods in plain NumPy, one instance at a time: what speed is measured against, and the twins of tests.

`jda` and `oddm` are the authors' operations with every matrix built by its definition: the n x n MMD matrix, the n x n
centring matrix, the dense m x m pencil and its generalised eigenproblem, all distances of the nearest-neighbour labels;
online, for every instance and source, two projections of the row and all class gaps rebuilt, and every `every` labels
the dense m x m matrix B = I + mu sum_k g_k g_k^T out of K + 1 outer products, its determinant, its inverse, B^{-1} A.

The plain form of our own learner is `hedgerow.ridge.plain`. Rows are instances.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

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
    ns = len(source)
    K = len(np.unique(codes))
    pseudo = None
    history = []
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
    codes: Array,
    pseudo: Array | None,
    nt: int,
    w0: float,
    wc: float,
    empty: str = "source",
    normalise: bool = True,
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
    finite = np.flatnonzero(
        np.isfinite(phi) & (phi.real > 0)
    )  # a scatter of less than full rank has infinite ones
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
        n = self.target_count
        n_k = self.target_class_counts[label]
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


def oddm(
    sources: list[Source], X: Array, y: Array, beta: float, C: float, mu: float, every: int
) -> Array:
    """The predictions of HomOTL-ODDM over a stream, each made before its label; the sources are changed."""
    n = len(sources)
    u = np.full(n, 0.5 / n)
    v = np.full(n, 0.5 / n)
    predictions = np.empty(len(X), dtype=np.int64)
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        Z = [source.project(x) for source in sources]
        Fs = [source.frozen @ z for source, z in zip(sources, Z, strict=True)]
        Ft = [source.online @ z for source, z in zip(sources, Z, strict=True)]
        total = u.sum() + v.sum()
        u = u / total
        v = v / total
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
            mean=learner.source(i).means[0],
            class_means=learner.source(i).means[1:],
            target_mean=target.means[0],
            target_count=float(target.count[0]),
        )
        for i in range(learner.n_sources)
    ]


def replay(learner: Any, X: Array, y: Array) -> Array:
    """The predictions of the naive form from where a fitted learner stands, with its options."""
    plan = learner.plan
    return oddm(
        of_learner(learner), X, y, plan.mixer.beta, plan.head.C, plan.refresh.mu, plan.refresh.every
    )


# -- the regressor -----------------------------------------------------------------------------------------------------


class NaiveRegressor:
    """`hedgerow.kernels.regression.run` as it is read: one row at a time, whole arrays, nothing compiled.

    Made of a fitted learner, of whose state it has a copy by name, and every P and M as matrices.
    """

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        twin = learner.copy()
        twin.fold()
        self.s = {name: array.copy() for name, array in twin.state.items()}
        for name, each in zip(learner.plan.regressions, twin.regressions, strict=True):
            self.s[f"{name}.P"] = np.triu(each.P) + np.triu(each.P, 1).T
            self.s[f"{name}.M"] = each.M.copy()

    def rows(self, x: Array) -> tuple[list[Array], Array]:
        """The row as the linear and the kernel regression have it, and the frozen outputs: the kernel's, the trees'."""
        from hedgerow.kernels import FARTHEST_Z, LARGEST_Z
        from hedgerow.regression.build import kernel_map
        from hedgerow.ridge.trees import columns_of, scaled

        constants = self.learner.constants
        mean, sd = constants["mean"], constants["deviation"]
        linear = np.append(1.0, scaled(x, mean, sd, FARTHEST_Z))
        z = scaled(x, mean, sd, LARGEST_Z)[None]
        width = constants["width"][0]
        kernel = kernel_map(z, constants["landmarks"], width, constants["A"])[0]
        trees = self.learner.fixed.trees
        columns = columns_of(trees._asdict(), x[None])[0]
        sums = trees.baseline[:, 0].copy()
        for head, node in zip(trees.head, trees.starts, strict=True):
            while trees.feature[node] >= 0:
                value = columns[trees.feature[node]]
                left = trees.missing[node] if np.isnan(value) else value <= trees.threshold[node]
                node += 1 if left else trees.right[node]
            sums[head] += trees.threshold[node]
        return [linear, kernel], np.append(kernel @ constants["source"], sums)

    def kept(self) -> Array:
        """The kept rows, the oldest first."""
        rows = self.s["rows"][: int(self.s["place"][0])]
        return (
            np.roll(rows, -int(self.s["place"][1]), axis=0)
            if len(rows) == len(self.s["rows"])
            else rows
        )

    def order(self, g: Array, known: float, scaled: float) -> tuple[list[float], int, Array]:
        """Of the row whose label is known: label, the one before, moving average, trees and kernel; how many kept rows
        were there then, and the running means."""
        rows = self.kept()[:, -8:]
        same = np.flatnonzero(rows[:, 4] == known)
        if len(same):
            y, trees, kernel, _, _, average = rows[same[-1], :6]
            then = [y, rows[max(same[-1] - 1, 0), 0], average, y - trees, y - kernel]
            return then, int(same[-1]) + 1, rows[same[-1], 5:]
        value = 0.0 if np.isnan(known) else float(np.clip(scaled, *self.s["range"]))
        return [value, value, value, g[1], g[0]], 0, np.zeros(3)

    def step(
        self, x: Array, y: float, weight: float = 1.0, known: float | None = None
    ) -> tuple[float, Array, Array]:
        """The prediction, half the width of each interval and what every head predicts, before y is learned."""
        from hedgerow.kernels import regression as k

        s = self.s
        constants = self.learner.constants
        (c,), (sd,) = constants["y_mean"], constants["y_deviation"]
        (width,), (farthest,) = constants["width"], constants["farthest"]
        given = y
        y = (y - c) / sd
        Z, g = self.rows(x)
        if known is None:
            known = s["known"][0] if s["known"][1] else np.nan
        then, there, fast = self.order(g, known, (known - c) / sd)
        Z.append(np.concatenate([[1.0], g[[1, 0]], then]))
        last, _, _, trees_then, kernel_then = then
        M, P = ([s[f"{name}.{which}"] for name in ("linear", "kernel", "order")] for which in "MP")
        spaces = [z @ m for m, z in zip(M, Z, strict=True)]
        for f in spaces:
            f[-1] += g[1]
        two = g[[1, 0]]
        G = len(g)
        g = np.append(g, g[: len(s["level"]) - G])
        levels = g + s["level"][:, 3] + s["level"][:, 4] * g
        n, total, average, squares = s["running"]
        kept = int(s["place"][0])
        rows, kept_y = self.kept()[:there, :-8], self.kept()[:there, -8:]
        distance = ((rows - Z[1][1 : 1 + len(x)]) ** 2).sum(axis=1)
        w = np.exp(-distance / (k.NARROW / 5 * width))
        raw = np.concatenate(
            [
                *spaces,
                levels,
                two + fast[1:3],
                two + w @ kept_y[:, 1:3] / (w.sum() + 0.5),
                [(w @ kept_y[:, 0] + 0.3 * total / (n + 1)) / (w.sum() + 0.3), fast[0]],
                [last, two[0] + last - trees_then, two[1] + last - kernel_then],
            ]
        )
        first, end = s["range"]
        margin = k.MARGIN * (end - first)
        low, high = first - margin, end + margin
        f = np.clip(raw, low, high)
        W = high - low
        beyond = float(np.clip(raw[0] - f[0], -farthest, farthest))
        # the mixture
        base = float(np.clip(_polynomial_weights(s["mix"]) @ f, low, high))
        exponential = np.exp(-(s["mix"][2] - s["mix"][2].min()) / 2)
        stacked = base + (f - base) @ s["stack.M"][:, 0]
        mixed = np.clip([base, exponential @ f / exponential.sum(), stacked], low, high)
        prediction = float(_polynomial_weights(s["last"]) @ mixed)
        w = np.exp(-distance / (k.NARROW * width))
        spread = (w @ kept_y[:, 3] + k.SMOOTH * s["miss"][0]) / (w.sum() + k.SMOOTH)
        said = c + sd * (prediction + beyond), sd * s["quantile"] * spread, c + sd * (f + beyond)
        if np.isnan(y):
            return said
        # what is learned of the label: no more than one label may widen the range
        inner = y - beyond
        learned = np.clip(inner, first - k.GROWTH * (end - first), end + k.GROWTH * (end - first))
        y = learned + beyond
        # the interval
        miss = abs(learned - prediction)
        missed = abs(inner - prediction)
        noise = max(1.0, missed / (k.HUBER * s["miss"][0])) / weight
        s["top"][0] = max(k.FADE * s["top"][0], miss / spread)
        outside = (missed / spread > s["quantile"]) - (1 - np.array(self.learner.plan.coverage))
        s["quantile"] = np.maximum(s["quantile"] + k.STEP * s["top"] * outside, 0)
        s["miss"][1] += 1
        s["miss"][0] += (miss - s["miss"][0]) / min(s["miss"][1], k.RECENT)
        # the weights, in lengths of the range, which grows
        s["range"][:] = min(first, learned), max(end, learned)
        change = (s["range"][1] - s["range"][0]) / (end - first)
        inside = np.clip(inner, low, high)
        for state, values, at in ((s["last"], mixed, prediction), (s["mix"], f, base)):
            r = 2 * (at - inside) * (at - values) / W**2
            state[0] = (state[0] + r) / change**2
            state[1] = (state[1] + r**2) / change**4
        s["mix"][2] = (s["mix"][2] + (f - inside) ** 2 / W**2) / change**2
        # the regressions
        _least_squares(s["stack.P"], s["stack.M"], f - base, np.array([learned - stacked]), noise)
        for p, m, z, fit in zip(P, M, Z, spaces, strict=True):
            _least_squares(p, m, z, y - fit, noise)
        for i, (level, value, before) in enumerate(zip(s["level"], g, levels, strict=True)):
            p = np.array([[level[0], level[1]], [level[1], level[2]]])
            a = level[3:, None].copy()
            keep = 1.0 if i < G else k.FADED
            _least_squares(p, a, np.array([1.0, value]), np.array([y - before]), noise, keep)
            if keep < 1:
                p *= min(1 / keep, k.LARGEST_LEVEL / np.trace(p))
            level[:] = p[0, 0], p[0, 1], p[1, 1], *a[:, 0]
        s["running"][:] = (
            n + 1,
            total + y,
            average + max(0.2, 1 / (n + 1.5)) * (y - average),
            squares + y * y,
        )
        s["offsets"] += max(0.05, 1 / (n + 3)) * (y - two - s["offsets"])
        forgets = [s["running"][2], *s["offsets"]]
        row = [*Z[1][1 : 1 + len(x)], y, *(y - two), miss, given, *forgets]
        s["rows"][int(s["place"][1])] = row
        s["known"][:] = given, 1.0
        s["place"][:2] = min(kept + 1, len(s["rows"])), (s["place"][1] + 1) % len(s["rows"])
        return said


def _polynomial_weights(mix: Array) -> Array:
    from hedgerow.kernels.regression import PRIOR_REGRET

    w = np.maximum(mix[0] + PRIOR_REGRET, 0) / (4 + mix[1])
    return w / w.sum() if w.sum() > 0 else np.full(len(w), 1 / len(w))


def _least_squares(
    P: Array, M: Array, z: Array, missed: Array, noise: float, keep: float = 1.0
) -> None:
    """A row z whose heads (columns of M) missed by so much."""
    gain = P @ z
    variance = keep * noise + z @ gain
    M += np.outer(gain, missed) / variance
    P -= np.outer(gain, gain) / variance
