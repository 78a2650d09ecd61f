"""Laws of the pool's labels: classes as frequent as expected, as far as the pool can tell."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds

from hedgerow.ridge import pool as balance
from hedgerow.ridge.pool import biases, expected


def frequencies(F, b):
    E = np.exp(balance.SHARPNESS * (F - b))
    return (E / E.sum(axis=2, keepdims=True)).mean(axis=0)


@given(seeds, st.integers(2, 6), st.integers(5, 60))
@law(40)
def test_steps_lead_to_the_expected_frequencies(seed, K, n):
    rng = np.random.default_rng(seed)
    F = 0.2 * rng.normal(size=(n, 2, K)) + 0.1 * rng.normal(size=K)
    pi = rng.dirichlet(np.full(K, 5.0))
    off = [
        np.abs(frequencies(F, biases(F, np.zeros((2, K)), pi, steps)) - pi).max()
        for steps in (0, 20, 2000)
    ]
    assert off[2] < 1e-3
    assert off[1] <= off[0] + 1e-3


@given(seeds, st.integers(2, 6), st.integers(0, 9))
@law(30)
def test_steps_go_on_from_where_they_ended(seed, K, first):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(20, 3, K))
    pi = rng.dirichlet(np.ones(K) * 3)
    none = np.zeros((3, K))
    np.testing.assert_allclose(
        biases(F, biases(F, none, pi, first), pi, 9 - first), biases(F, none, pi, 9), atol=1e-10
    )


@given(seeds, st.integers(2, 6))
@law(30)
def test_frequencies_that_are_right_change_nothing(seed, K):
    """Classes that can be exchanged: every row comes with all its rotations."""
    row = np.random.default_rng(seed).normal(size=K)
    F = np.stack([np.roll(row, k) for k in range(K)])[:, None]
    np.testing.assert_allclose(biases(F, np.zeros((1, K)), np.full(K, 1 / K), 20), 0, atol=1e-12)


@given(seeds, st.integers(2, 5))
@law(30)
def test_expected_frequencies_go_from_the_sources_to_the_target(seed, K):
    rng = np.random.default_rng(seed)
    sources = rng.integers(0, 50, K).astype(float)
    target = rng.integers(1, 50, K).astype(float)
    np.testing.assert_allclose(expected(sources, 0 * target), (sources + 1) / (sources + 1).sum())
    np.testing.assert_allclose(expected(sources, 1e6 * target), target / target.sum(), atol=1e-4)
    assert abs(expected(sources, target).sum() - 1) < 1e-12


def test_the_labels_of_the_target_are_counted_where_the_pool_is_labelled():
    task = make_task(3, n=2, m=6, stream=130)
    clf = fitted(task, "hedgerow")
    space = next(s for s in clf.learner_.spaces if s.pool is not None)
    y = np.searchsorted(clf.classes_, task.y)
    clf.learner_.run(task.X, y)
    np.testing.assert_array_equal(
        space.pool.sources,
        np.bincount(
            np.concatenate([np.searchsorted(clf.classes_, d.y) for d in task.sources]),
            minlength=len(clf.classes_),
        ),
    )
    counts = np.bincount(y[:128], minlength=len(clf.classes_))  # up to the last turn
    np.testing.assert_array_equal(space.pool.pi, expected(space.pool.sources, counts))
