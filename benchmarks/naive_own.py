"""Our own learner one instance at a time in plain NumPy: the formulas as they are read, with a new matrix each time.

The yardstick of the speed benchmark and the oracle of the tests: the same start as the library's learner, then

    k = P z / (1 + z' P z),   M = M + k (y - z' M)',   P = P - k (z' P)

for every space and its pool copy after each label, all pool rows labelled anew every RELABEL labels, and the mixture of
`hedgerow.learners.ridge.mixture` written row by row. Nothing is compiled, every space has the map of its definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.align.spaces import kernel_root
from hedgerow.kernels.ridge import LEAST
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge import pool_labels as balance
from hedgerow.learners.ridge.learner import RidgeLearner
from hedgerow.learners.ridge.space import RELABEL, Space

TEMPERATURES = 2.0 ** np.arange(1, mixture.TEMPERATURES + 1)
State = dict[str, np.ndarray]


class NaiveOwn:
    """Starts at a fitted learner's state (copied) and goes its own way."""

    def __init__(self, learner: RidgeLearner) -> None:
        self.learner = learner.copy()
        self.mix = {name: array for name, array in self.learner.state.items() if name.startswith("mix.")}
        self.spaces = [NaiveSpace(space) for space in self.learner.spaces]
        self.seen = 0

    def step(self, x: np.ndarray, y: int) -> int:
        """The class predicted for a raw row, before its label is learned."""
        row = self.learner.pre.fold(x[None], np.array([True]))
        z = [space.map(row[0]) for space in self.spaces]
        F = centred(np.vstack([space.scores(v) for space, v in zip(self.spaces, z, strict=True)]))
        shipped, _ = mix_row(self.mix, F, y, F.shape[1])
        for space, v in zip(self.spaces, z, strict=True):
            space.learn(v, y)
        self.seen += 1
        if self.seen % RELABEL == 0:
            for space in self.spaces:
                space.turn()
        return int(shipped.argmax())


class NaiveSpace:
    """One space: its regression, the pool's copy of it, and what fades."""

    def __init__(self, space: Space) -> None:
        self.space, self.targets, self.root = space, space.targets, space.map.A
        self.pairs = [(each.P.copy(), each.M.copy()) for each in space.regressions]
        self.start = space.constants["prior.P"], space.constants["prior.M"]
        if space.pooled is not None:
            self.U, self.labels, self.counts, self.bias = space.U, space.labels, None, np.zeros(())
            if space.settings.balanced:
                self.counts, self.bias = np.stack([space.source_counts, space.counts]), space.bias
        if space.map.landmarks is not None and self.root is None:
            self.back_to_its_definition(space.map.landmarks)

    def back_to_its_definition(self, landmarks: np.ndarray) -> None:
        """The library leaves out the root of the kernel matrix, z = k(x) A, and has A P A' and A M instead."""
        assert self.space.settings.keep == 1  # P0 and M0 would have to go back too
        self.root, values = kernel_root(landmarks)
        inverse = values[:, None] * self.root.T
        self.pairs = [(inverse @ P @ inverse.T, inverse @ M) for P, M in self.pairs]
        if len(self.pairs) > 1:
            self.U = self.U @ self.root

    def map(self, x: np.ndarray) -> np.ndarray:
        """z of one row x."""
        landmarks, H = self.space.map.landmarks, self.space.map.H
        if landmarks is not None:
            c = landmarks @ x
            return np.asarray(((c + c**2) / 2) @ self.root)
        if H is None and self.root is None:
            return x
        z = x @ (self.root if H is None else H)
        return np.asarray(z / (np.linalg.norm(z) or 1.0))

    def scores(self, z: np.ndarray) -> Any:
        """Heads x classes, by the last of the copies."""
        return self.space.scores((z @ self.pairs[-1][1])[None])[0]

    def learn(self, z: np.ndarray, y: int) -> None:
        """One rank-one update of each copy."""
        for i, (P, M) in enumerate(self.pairs):
            Pz = P @ z
            k = Pz / (1.0 + z @ Pz)
            self.pairs[i] = P - np.outer(k, Pz), M + np.outer(k, self.targets[y] - z @ M)
        if len(self.pairs) > 1 and self.counts is not None:
            self.counts = self.counts + np.outer([0, 1], np.eye(self.counts.shape[1])[y])

    def turn(self) -> None:
        """Old labels fade where they do, and the pool is labelled again."""
        keep, (P, M), (P0, M0) = self.space.settings.keep, self.pairs[0], self.start
        if keep < 1:
            self.pairs[0] = keep**2 * P + (1 - keep**2) * P0, keep * M + (1 - keep) * M0
        if len(self.pairs) > 1:
            F = self.space.scores(self.U @ M)
            if self.counts is not None:
                self.bias = balanced(F, self.bias, balance.expected(*self.counts))
            labels = (F - self.bias).argmax(axis=2)
            change = self.space._targets(labels) - self.space._targets(self.labels)
            pooled, M1 = self.pairs[1]
            self.pairs[1] = pooled, M1 + self.space.settings.pool * pooled @ (self.U.T @ change)
            self.labels = labels


def balanced(F: np.ndarray, b: np.ndarray, pi: np.ndarray) -> Any:
    """The bias of each head and class after some steps towards the expected frequencies."""
    n, added = len(F), balance.ROWS * len(pi)
    for _ in range(balance.AGAIN):
        found = (np.exp(log_softmax(balance.SHARPNESS * (F - b))).sum(axis=0) + added * pi) / (n + added)
        b = b + balance.STEP * np.log(found / pi) / balance.SHARPNESS
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
        share = mixture.SHARE / (s["counts"].sum() - len(s["counts"]) + 2)
        s["members"][:] = (1 - share) * believed / believed.sum() + share * mixture.MEMBERS
        for a, H, keep, f in zip(s["a"], s["H"], mixture.KEEP, log_f[2:], strict=True):
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
    H[:] = keep * H + (1 - keep) * mixture.FLOOR * np.eye(len(H)) + X @ covariance @ X.T
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
