"""A target that changes: a small problem, and a model fitted for it."""

from __future__ import annotations

import numpy as np

from hedgerow import OnlineTransferClassifier


def problem(n: int = 420, change: int | None = 240, seed: int = 0):
    """A source, unlabelled rows and a stream whose labels nobody can know from `change` on."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 160, 6))
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
    if change is not None:
        y[160 + change :] = rng.integers(0, 2, size=n - change)
    return X[:120], y[:120], X[120:160], X[160:], y[160:]


def fitted(method: str, change: int | None = 240, seed: int = 0, n: int = 420):
    Xs, ys, Xu, X, y = problem(n, change, seed)
    domain = np.r_[np.zeros(len(Xs)), -np.ones(len(Xu))]
    clf = OnlineTransferClassifier(method).fit(
        np.vstack([Xs, Xu]), np.r_[ys, np.zeros(len(Xu))], sample_domain=domain
    )
    return clf, X, y
