"""The maps of our own learner's spaces: their formulas, and the rows that landmarks are drawn from."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds

from hedgerow.core.preprocess import unit
from hedgerow.core.source_rows import ClassMoments, Gram, InMemory
from hedgerow.ridge import maps
from hedgerow.ridge.maps import (
    drawn,
    kernel_root,
    quadratic,
    within_class_root,
)


def domains(seed, ns=30, nt=20, m=6, K=3):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(ns) % K)
    return rng.normal(size=(ns, m)) + 2 * np.eye(K, m)[codes], codes, rng.normal(size=(nt, m)) + 0.5


def root(source, codes):
    return within_class_root(
        *InMemory(source, codes).totals(Gram(), ClassMoments(3, weighed=False))
    )[0]


@given(seeds)
@law(15)
def test_whitening_is_its_formula(seed):
    source, codes, _ = domains(seed)
    means = np.array([source[codes == k].mean(axis=0) for k in range(3)])
    D = source - means[codes]
    C = D.T @ D / len(D)
    H = root(source, codes)
    np.testing.assert_allclose(H, H.T, atol=1e-10)
    np.testing.assert_allclose(H @ (C + np.trace(C) / 6 * np.eye(6)) @ H, np.eye(6), atol=1e-9)


def test_whitening_where_the_classes_are_points():
    codes = np.array([0, 1, 2, 0, 1, 2])
    H = root(np.eye(3, 5)[codes], codes)
    assert np.isfinite(H).all()
    np.testing.assert_allclose(H, H[0, 0] * np.eye(5), atol=1e-9)


@given(seeds)
@law(15)
def test_landmark_features_have_the_kernel_as_inner_product(seed):
    source, codes, target = domains(seed)
    rows = unit(source)
    pool = unit(target)
    own = maps.landmarks([InMemory(rows, codes)], pool, np.random.default_rng(0), 1000)
    c = rows @ rows.T
    np.testing.assert_allclose(own(rows) @ own(rows).T, (c + c * c) / 2, atol=1e-4)


@given(seeds, st.integers(1, 40))
@law(15)
def test_fewer_features_are_the_leading_ones(seed, dim):
    L = unit(domains(seed)[0])
    every, values = kernel_root(L)
    some, kept = kernel_root(L, dim)
    assert len(kept) == min(dim, len(values))
    np.testing.assert_array_equal(some, every[:, -len(kept) :])


def test_landmarks_are_drawn_from_the_target_and_from_every_source_alike():
    parts = [np.full((20, 1), i) for i in range(3)]
    rows = drawn(
        [InMemory(part) for part in parts[:2]], parts[2], 12, np.random.default_rng(0)
    ).ravel()
    assert np.bincount(rows).tolist() == [4, 4, 4]
    alone = drawn(
        [InMemory(part) for part in parts[:2]], parts[2][:0], 12, np.random.default_rng(0)
    )
    assert np.bincount(alone.ravel()).tolist() == [6, 6]


def test_equal_landmarks_count_once():
    L = unit(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    A, values = kernel_root(L)
    assert A.shape == (3, 2)
    np.testing.assert_allclose(A.T @ quadratic(L @ L.T) @ A, np.eye(2), atol=1e-9)
    assert (values > 0).all()


def test_the_whitening_of_all_directions_is_the_root():
    source, codes, target = domains(4)
    rows = unit(source)
    pool = unit(target)
    m = rows.shape[1]
    given = InMemory(rows, codes)
    gram, moments = given.totals(Gram(), ClassMoments(3))
    np.testing.assert_allclose(
        maps.whitening([given], pool, gram, moments, m).A, root(rows, codes), rtol=1e-6
    )
    assert maps.whitening([given], pool, gram, moments, m - 1).A.shape == (m, m - 1)
