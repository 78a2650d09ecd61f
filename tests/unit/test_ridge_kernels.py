"""Our learner against its plain NumPy form (`bench/naive.py`): the compiled mixture, and whole streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds
from support.ridge import fits, learn, mix

from bench.naive import NaiveOwn, centred, mix_row
from hedgerow.kernels.rows import symmetric_row
from hedgerow.ridge import mixture
from hedgerow.ridge.regression import Regression


@given(seeds, st.integers(1, 4), st.integers(2, 6), st.booleans())
@law(25)
def test_the_compiled_mixture_is_its_twin(seed, heads, K, new_class):
    rng = np.random.default_rng(seed)
    known = K - 1 if new_class and K > 2 else K
    F = centred(rng.normal(scale=rng.choice([0.1, 1.0]), size=(12, heads, K)))
    y = rng.integers(-1, K, size=12)
    compiled, plain = mixture.initial(heads, K), mixture.initial(heads, K)
    P, weights = mix(compiled, F, y, known)
    expected = [mix_row(plain, f, label, known) for f, label in zip(F, y, strict=True)]
    np.testing.assert_allclose(P, [p for p, _ in expected], atol=1e-9)
    np.testing.assert_allclose(weights, [w for _, w in expected], atol=1e-9)
    for name, array in plain.items():
        lower = np.tril(np.ones(array.shape[-2:], bool)) if name == "mix.H" else np.ones(array.shape, bool)
        np.testing.assert_allclose((compiled[name] * lower), array * lower, rtol=1e-7, atol=1e-7, err_msg=name)


@given(seeds, st.integers(1, 23))
@law(25)
def test_the_compiled_product_is_its_twin(seed, d):
    rng = np.random.default_rng(seed)
    upper, x, y = np.triu(rng.normal(size=(d, d))), rng.normal(size=d), np.full(d, np.nan)
    symmetric_row(upper + np.tril(rng.normal(size=(d, d)), -1), x, y)  # what is below the diagonal is not read
    np.testing.assert_allclose(y, (upper + np.triu(upper, 1).T) @ x, atol=1e-12)


@given(seeds, st.integers(1, 9), st.integers(0, 4))
@law(25)
def test_the_compiled_row_of_a_regression_is_its_twin(seed, d, n):
    rng = np.random.default_rng(seed)
    z, y, before = rng.normal(size=(1, d)), rng.normal(size=(1, 3)), rng.uniform(size=(n, d))
    regression = Regression(9 * np.eye(d), np.zeros((d, 3)), before.copy(), np.zeros((n, 3)))
    learn(regression, z, y, [0.7])
    Pz = 9 * z[0] - before.T @ (before @ z[0])
    root = np.sqrt(0.7 + z[0] @ Pz)
    np.testing.assert_allclose(regression.G[n], Pz / root, atol=1e-12)
    np.testing.assert_allclose(regression.E[n], y[0] / root, atol=1e-12)
    np.testing.assert_array_equal(regression.G[:n], before)


def test_a_stack_that_forgets_follows_a_change():
    """Two heads; the one that is right changes. The tracker must come to believe the stack that forgot."""
    rng = np.random.default_rng(0)
    state, late = mixture.initial(2, 3), []
    for t in range(400):
        y = int(rng.integers(3))
        right, wrong = 0.2 * np.eye(3)[y], 0.2 * np.eye(3)[(y + 1) % 3]
        F = centred(np.array([right, wrong] if t < 200 else [wrong, right]))
        late.append(mix(state, F[None], [y])[0].argmax() != y)
    assert np.mean(late[:200]) < 0.1
    assert np.mean(late[300:]) < 0.1


@pytest.mark.parametrize(
    ("method", "m", "rooted"), [("hedgerow", 9, True), ("hedgerow", 40, False), ("hedgerow-linear", 9, None)]
)
def test_a_stream_in_blocks_is_the_plain_form_one_by_one(method, m, rooted):
    task = make_task(11, n=3, m=m, stream=170)
    clf = fitted(task, method)
    y = np.searchsorted(clf.classes_, task.y)
    naive = NaiveOwn(clf.learner_)
    expected = [naive.step(x, label) for x, label in zip(task.X, y, strict=True)]
    np.testing.assert_array_equal(clf.learner_.run(task.X, y).predictions, expected)
    for space, plain in zip(clf.learner_.spaces, naive.spaces, strict=True):
        weights = plain.M
        if space.settings.name == "kernel":
            assert (space.map.A is not None) == rooted
            weights = weights if rooted else plain.root @ weights
        np.testing.assert_allclose(fits(space.regression, np.eye(space.dim)), weights, atol=1e-7)
