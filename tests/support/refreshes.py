"""Refreshed projections by their definitions, row by row, and small problems for them."""

from __future__ import annotations

import copy

import numpy as np
from hypothesis import strategies as st

from hedgerow.align import refreshed
from hedgerow.core.moments import UNSEEN, Moments, class_sums, gap
from hedgerow.spaces import Refresh

rules = st.builds(
    Refresh,
    every=st.sampled_from([1, 3, 10, 100]),
    mu=st.sampled_from([0.0, 0.3, 2.0]),
    unseen=st.sampled_from(sorted(UNSEEN)),
)


def setting(seed, n=2, K=4, m=7, d=3, N=60, missing=0.2, warmup=5):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, m, d))
    sources = [
        Moments.of(rng.normal(size=(9, m)), rng.integers(0, K - (i > 0), 9), K) for i in range(n)
    ]
    target = Moments.of(rng.normal(size=(warmup, m)), None, K)
    X = rng.normal(size=(N, m))
    y = rng.integers(0, K, N)
    return A, sources, target, X, np.where(rng.random(N) < missing, -1, y), rng.exponential(size=N)


def plainly(A, sources, target, X, y, weight, rule):
    """Row by row: project, learn the label, refresh when it is due, all by the definitions."""
    A = A.copy()
    target = copy.deepcopy(target)
    seen = 0
    Z = []
    for x, label, w in zip(X, y, weight, strict=True):
        Z.append(x @ A)
        if label < 0:
            continue
        counts, totals = class_sums(
            x[None], np.array([label]), len(target.class_counts), np.array([w])
        )
        target = target.merge(
            Moments(np.append(counts.sum(), counts), np.vstack([totals.sum(axis=0), totals]))
        )
        seen += 1
        if seen % rule.every == 0:
            A = np.stack(
                [
                    refreshed(a, gap(s, target, rule.unseen, rule.kappa), rule.mu)
                    for a, s in zip(A, sources, strict=True)
                ]
            )
    return np.stack(Z), A, target


def assert_same_moments(a, b):
    for name in ("count", "total", "class_counts", "class_totals"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-9)
