"""Our learner at every scale of rows and weights that is accepted: P keeps its sign, and all is finite."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.laws import law, one_by_one, seeds
from support.ridge import NEVER, fold, learn

from hedgerow import OnlineTransferClassifier
from hedgerow.core.arrays import LARGEST
from hedgerow.core.linalg import from_upper
from hedgerow.kernels.ridge import ROUNDING
from hedgerow.ridge.maps import at_unit_length
from hedgerow.ridge.regression import Regression, deviation_prior, source_prior

OWN = ("hedgerow", "hedgerow-linear")
LONGEST = np.log10(LARGEST[np.dtype(np.float64)])
# (P - G' G) z is known to eps |P| |z|, and divided by a root of at least sqrt(ROUNDING P) |z|: so far g is off, times
# sqrt(P), and P by twice that times g, which is sqrt(P) at most
LOST_A_ROW = 2 * np.finfo(float).eps / np.sqrt(ROUNDING)
exponents = st.floats(-150, LONGEST - 1)
weights = st.floats(-6, 6)  # exponents of ten


def whole(P):
    return np.triu(P) + np.triu(P, 1).T


def run(P, M, Z, Y, noise, cuts):
    """Fits before each label, and P and M after all; P and M are not changed."""
    regression = Regression(P.copy(), M.copy())
    fits = []
    for begin, end in pairwise(cuts):
        fits.append(learn(regression, Z[begin:end], Y[begin:end], noise[begin:end]))
        fold(regression)
    return np.vstack(fits), whole(regression.P), regression.M


def assert_sound(P, before):
    """Still a covariance, and not larger than before, but for rounding."""
    size = np.linalg.eigvalsh(before).max()
    assert np.isfinite(P).all()
    assert np.linalg.eigvalsh(P).min() >= -1e-12 * size
    assert np.linalg.eigvalsh(before - P).min() >= -1e-12 * size


@given(seeds, st.integers(1, 7), st.lists(st.tuples(exponents, weights), min_size=2, max_size=14))
@example(0, 3, [(0.0, 0.0)] * 4 + [(8.0, 0.0)] * 4)
@example(1, 1, [(140.0, 6.0)] * 9)
@example(2, 5, [(140.0, 6.0), (-150.0, -6.0)] * 6)
@law(150)
def test_rows_of_any_length_and_weight(seed, d, sizes):
    rng = np.random.default_rng(seed)
    lengths, counts = 10.0 ** np.array(sizes).T
    B = len(sizes)
    root = rng.normal(size=(d, d))
    Z = rng.normal(size=(B, d)) * lengths[:, None] / np.sqrt(d)
    Y = rng.normal(size=(B, 2))
    Z[rng.random(B) < 0.3] = Z[0]  # the same again
    P = root @ root.T + np.eye(d)
    M = rng.normal(size=(d, 2))
    noise = np.where(rng.random(B) < 0.2, NEVER, 1 / counts)
    blocks = np.unique([0, *rng.integers(0, B + 1, size=2), B])
    together, P1, M1 = run(P, M, Z, Y, noise, blocks)
    apart, P2, M2 = run(P, M, Z, Y, noise, range(B + 1))
    for after in (P1, P2):
        assert_sound(after, P)
    np.testing.assert_allclose(P1, P2, atol=2 * B * LOST_A_ROW * np.linalg.norm(P))
    largest = max(abs(M1).max(), abs(M2).max(), abs(M).max())
    np.testing.assert_allclose(M1, M2, atol=1e-4 * largest)
    bound = 1e-4 * (1 + np.abs(Z).sum(axis=1, keepdims=True) * largest)
    assert (np.abs(together - apart) <= bound).all()


@given(seeds, st.integers(1, 6), exponents, weights)
@law(60)
def test_a_row_that_is_learned_is_known(seed, d, exponent, weight):
    """However long the row: what was learned of it is its target, as far as its weight goes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(1, d)) * 10.0**exponent
    y = rng.normal(size=(1, 2))
    P = 2 * np.eye(d)
    M = np.zeros((d, 2))
    regression = Regression(P, M)
    learn(regression, z, y, np.array([10.0**-weight]))
    fold(regression)
    share = 1 / (1 + 10.0**-weight / (2 * (z @ z.T).item())) if (z @ z.T).item() > 0 else 0.0
    np.testing.assert_allclose(z @ M, share * y, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("exponent", [-150, -10, 0, 3, 10, 100, 146])
def test_the_priors(exponent, rng):
    X = rng.normal(size=(8, 5)) * 10.0**exponent
    X[:, 4] = X[:, 3]  # no direction of its own
    sums = [np.stack([X[:4].sum(axis=0), X[4:].sum(axis=0)])]
    M = source_prior([X.T @ X], sums, np.ones(1), np.eye(2), 0.5, 0.3)
    P = deviation_prior([X.T @ X], 5, 0.5, 0.3, 0.05)
    assert np.isfinite(M).all()
    assert np.abs(X @ M).max() < 10
    assert np.linalg.eigvalsh(P).min() > 0.049
    assert np.linalg.eigvalsh(P).max() < 2.06


def test_landmarks_of_about_unit_length_are_kept_to_the_last_bit(rng):
    rows = rng.normal(size=(30, 5))
    kept, scale = at_unit_length(rows)
    assert kept is rows
    assert scale == 1
    for exponent in (-140, -20, 20, 146):
        brought, scale = at_unit_length(rows * 10.0**exponent)
        lengths = np.linalg.norm(brought, axis=1)
        assert 0.5 < np.median(lengths) < 2
        assert np.isfinite(brought / scale).all()


def stream(seed, exponent=0.0, jump=0.0, rows=130, m=6):
    """Two sources and warm-up rows, and a target whose rows after the half are `jump` powers of ten longer."""
    rng = np.random.default_rng(seed)
    n = 60 + rows
    y = rng.integers(3, size=n)
    X = (rng.normal(size=(n, m)) + 3 * np.eye(3, m)[y]) * 10.0**exponent
    X[60 + rows // 2 :] *= 10.0**jump
    return X, y, np.repeat([0, 1, -1], 20)


def both_ways(method, X, y, domain, weight):
    """The same stream in blocks and one by one, and both learners."""
    models = [
        OnlineTransferClassifier(method, preprocess=()).fit(X[:60], y[:60], sample_domain=domain)
        for _ in range(2)
    ]
    found = models[0].predict_then_learn(X[60:], y[60:], sample_weight=np.full(len(X) - 60, weight))
    return found, one_by_one(models[1], X[60:], y[60:], np.full(len(X) - 60, weight)), models


@pytest.mark.parametrize("method", OWN)
@given(seeds, exponents, st.floats(-150, 150), weights)
@example(0, 1.0, 0.0, 0.0)
@example(0, 0.0, 140.0, 0.0)
@example(0, 146.0, -290.0, 6.0)
@example(0, -150.0, 290.0, 6.0)
@law(12)
def test_our_learner_at_any_scale(method, seed, exponent, jump, weight):
    jump = min(jump, LONGEST - 1 - exponent)
    X, y, domain = stream(seed, exponent, jump)
    together, apart, models = both_ways(method, X, y, domain, 10.0**weight)
    if jump > -100:  # below, nothing is left of a row, and classes tie
        assert np.mean(together != apart) <= 0.02  # when P has learned all it can, rounding decides
    for model in models:
        P = model.predict_proba(X)
        assert np.isfinite(P).all()
        np.testing.assert_allclose(P.sum(axis=1), 1)
        for space in model.learner_.spaces:
            i = model.learner_.spaces.index(space)
            state = {**model.constants_, **model.learner_.arrays()}
            M = state.get(f"space.{i}.M", state.get(f"space.{i}.prior.M"))
            assert np.isfinite(M).all()
            P = from_upper(state.get(f"space.{i}.P", state.get(f"space.{i}.prior.P")))
            values = np.linalg.eigvalsh(whole(P))
            assert values.min() >= -1e-12 * max(values.max(), 10.0)


@pytest.mark.parametrize("method", OWN)
@pytest.mark.parametrize("exponent", [-150, -3, 0, 1, 2, 8, 100, 146])
def test_scale_costs_few_mistakes(method, exponent):
    X, y, domain = stream(3, exponent, rows=300)
    together, apart, _ = both_ways(method, X, y, domain, 1.0)
    np.testing.assert_array_equal(together, apart)
    assert np.mean(together != y[60:]) < 0.15


@pytest.mark.parametrize("method", OWN)
def test_one_enormous_row_does_not_spoil_the_rest(method):
    X, y, domain = stream(3, rows=300)
    X[100] *= 1e100
    together, apart, _ = both_ways(method, X, y, domain, 1.0)
    np.testing.assert_array_equal(together, apart)
    assert np.mean(together != y[60:]) < 0.15
