"""The online stage with the authors' operations, in plain NumPy: yardstick of the benchmarks and oracle in tests.

For every instance and every source: two projections of the row (one to predict, one to learn), the running means of
the target kept once a source, all class gaps rebuilt. Every `every` labels, source by source: the dense m x m matrix
B = I + mu sum_k g_k g_k^T out of K + 1 outer products, its determinant, its inverse, and B^{-1} A.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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
