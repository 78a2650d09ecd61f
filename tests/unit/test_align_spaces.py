"""The spaces of our own learner as aligners: their formulas, their laws, and that any method takes them by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import assert_same_state, fitted, law, make_task, projections, seeds

from hedgerow import OnlineTransferClassifier, checks
from hedgerow.align import (
    WIDE,
    Landmarks,
    Projection,
    WhitenedPCA,
    Whitening,
    drawn,
    kernel_root,
    kernel_rows,
    whitened_axes,
    within_class_root,
)
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import unit
from hedgerow.core.source_rows import ClassMoments, Gram, InMemory
from hedgerow.ridge import maps

NAMES = ("whitening", "whitened-pca", "landmarks")
SPACES = [Whitening(), WhitenedPCA(), WhitenedPCA(dim=3), Landmarks(), Landmarks(dim=4, count=9, seed=3)]


def domains(seed, ns=30, nt=20, m=6, K=3):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(ns) % K)
    return rng.normal(size=(ns, m)) + 2 * np.eye(K, m)[codes], codes, rng.normal(size=(nt, m)) + 0.5


@pytest.mark.parametrize("aligner", SPACES, ids=repr)
def test_the_laws_of_an_aligner(aligner):
    checks.check_aligner(aligner)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["oddm-fixed", "homotlms", "paio"])
def test_a_method_takes_them_by_name(method, name):
    checks.check_method(method, aligner=name)


@pytest.mark.parametrize("name", ["whitening", "whitened-pca"])
def test_the_refresh_moves_the_linear_ones(name):
    checks.check_method("oddm", aligner=name)


def test_the_refresh_refuses_landmarks():
    with pytest.raises(InputError, match=r"linear projection.*oddm-fixed"):
        fitted(make_task(0), "oddm", aligner="landmarks")


@given(seeds)
@law(15)
def test_whitening_is_its_formula(seed):
    source, codes, target = domains(seed)
    means = np.array([source[codes == k].mean(axis=0) for k in range(3)])
    D = source - means[codes]
    C = D.T @ D / len(D)
    H = Whitening().fit(source, codes, target).projection.A
    np.testing.assert_allclose(H, H.T, atol=1e-10)
    np.testing.assert_allclose(H @ (C + np.trace(C) / 6 * np.eye(6)) @ H, np.eye(6), atol=1e-9)


def test_whitening_where_the_classes_are_points():
    source = np.eye(3, 5)[[0, 1, 2, 0, 1, 2]]
    H = Whitening().fit(source, np.array([0, 1, 2, 0, 1, 2]), source[:0]).projection.A
    assert np.isfinite(H).all()
    np.testing.assert_allclose(H, H[0, 0] * np.eye(5), atol=1e-9)


@given(seeds, st.integers(1, 8), st.sampled_from([6, 60]))
@law(20)
def test_whitened_axes_have_second_moment_one(seed, dim, m):
    source, codes, target = domains(seed, ns=8, nt=5, m=m)
    A = WhitenedPCA(dim).fit(source, codes, target).projection.A
    rows = np.vstack([source, target])
    assert A.shape == (m, min(dim, m, 13))
    np.testing.assert_allclose((rows @ A).T @ (rows @ A), np.eye(A.shape[1]), atol=1e-6)
    _, _, Vt = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(
        Vt[: A.shape[1]] @ A / np.linalg.norm(A, axis=0), np.diag(np.sign(np.diag(Vt @ A))), atol=1e-6
    )


@given(seeds)
@law(15)
def test_the_small_gram_matrix_gives_the_same_axes(seed):
    source, _, target = domains(seed, ns=6, nt=4, m=10 * WIDE + 1)
    few, values = whitened_axes([InMemory(source)], target, 5)
    padded = np.zeros((10, source.shape[1]))
    many, same = whitened_axes(
        [InMemory(source), InMemory(padded)], target, 5
    )  # rows of zeros turn the shape, not the axes
    np.testing.assert_allclose(values, same, rtol=1e-9)
    np.testing.assert_allclose(few * np.sign((few * many).sum(axis=0)), many, atol=1e-9)


def test_axes_along_which_nothing_varies_are_left_out():
    source, codes, target = domains(1)
    for X in (source, target):
        X[:, 4:] = 0
    alignment = WhitenedPCA().fit(source, codes, target)
    assert alignment.projection.A.shape == (6, 4)
    assert alignment.info.rank == 4
    row = np.eye(6)[5:]  # new in a direction never seen: no weight at all, instead of 1/0
    np.testing.assert_allclose(alignment.projection(row), 0, atol=1e-9)


@given(seeds)
@law(15)
def test_landmark_features_have_the_kernel_as_inner_product(seed):
    source, codes, target = domains(seed)
    projection = Landmarks(dim=1000, count=90).fit(source, codes, target).projection
    c = unit(source) @ unit(source).T
    Z = projection(source)
    np.testing.assert_allclose(Z @ Z.T, (c + c * c) / 2, atol=1e-4)
    np.testing.assert_allclose(projection(7 * source), Z, atol=1e-9)


@given(seeds, st.integers(1, 40))
@law(15)
def test_fewer_features_are_the_leading_ones(seed, dim):
    source, codes, target = domains(seed)
    every = Landmarks(dim=1000).fit(source, codes, target)
    some = Landmarks(dim=dim).fit(source, codes, target)
    kept = min(dim, every.info.rank)
    assert some.info.rank == kept
    np.testing.assert_array_equal(some.projection.A, every.projection.A[:, -kept:])


def test_landmarks_are_drawn_from_the_target_and_from_every_source_alike():
    parts = [np.full((20, 1), i) for i in range(3)]
    rows = drawn([InMemory(part) for part in parts[:2]], parts[2], 12, np.random.default_rng(0)).ravel()
    assert np.bincount(rows).tolist() == [4, 4, 4]
    alone = drawn([InMemory(part) for part in parts[:2]], parts[2][:0], 12, np.random.default_rng(0))
    assert np.bincount(alone.ravel()).tolist() == [6, 6]


def test_the_seed_chooses_the_landmarks():
    task = make_task(3, rows=60)
    a, b, c = (
        fitted(task, "oddm-fixed", aligner="landmarks", random_state=seed).learner_.constants["A"] for seed in (0, 0, 5)
    )
    # all rows fit into the default count: by name only their order is drawn
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    few = [
        fitted(task, "oddm-fixed", aligner=Landmarks(count=8, seed=seed)).learner_.constants["landmarks.0"]
        for seed in (0, 1)
    ]
    assert not np.array_equal(*few)


def test_equal_landmarks_count_once():
    L = unit(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    A, values = kernel_root(L)
    assert A.shape == (3, 2)
    np.testing.assert_allclose(A.T @ kernel_rows(L, L, None) @ A, np.eye(2), atol=1e-9)
    assert (values > 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_saved_and_loaded(tmp_path, name, dtype):
    task = make_task(5, dtype=dtype)
    clf = fitted(task, "oddm-fixed", aligner=name)
    assert projections(clf).dtype == dtype
    clf.predict_then_learn(task.X[:20], task.y[:20])
    clf.save(tmp_path / "model")
    again = OnlineTransferClassifier.load(tmp_path / "model")
    assert_same_state(clf.learner_.arrays(), again.learner_.arrays())
    np.testing.assert_array_equal(clf.predict(task.X), again.predict(task.X))
    for model in (clf, again):
        model.partial_fit(task.X[20:], task.y[20:])
    assert_same_state(clf.learner_.arrays(), again.learner_.arrays())


@pytest.mark.parametrize("name", NAMES)
def test_sparse_rows_give_what_dense_rows_give(name):
    task = make_task(2, sparse=True)
    as_dense = make_task(2, sparse=True)
    for i, domain in enumerate(as_dense.sources):
        as_dense.sources[i] = type(domain)(domain.name, domain.X.toarray(), domain.y)
    dense_warmup = type(task.warmup)("t", task.warmup.X.toarray())
    options = {"aligner": name, "preprocess": "unit"}
    a = fitted(task, "oddm-fixed", **options)
    b = OnlineTransferClassifier("oddm-fixed", **options).fit_domains(as_dense.sources, dense_warmup)
    p = a.predict_then_learn(task.X, task.y)
    np.testing.assert_array_equal(p, b.predict_then_learn(task.X.toarray(), task.y))


def test_wide_sparse_rows():
    X = sp.random_array((60, 20_000), density=2e-3, format="csr", rng=np.random.default_rng(0))
    codes = np.arange(40) % 2
    for aligner in (WhitenedPCA(dim=5), Landmarks(dim=5)):
        assert aligner.fit(X[:40], codes, X[40:]).projection(X).shape == (60, 5)
    with pytest.raises(InputError, match=r"20000 x 20000.*3\.0 GiB.*whitened-pca"):
        Whitening().fit(X[:40], codes, X[40:])


@pytest.mark.parametrize("aligner", [WhitenedPCA(), Landmarks()], ids=repr)
def test_rows_of_zeros_have_no_direction(aligner):
    with pytest.raises(InputError, match=r"n_samples = 6.*no direction"):
        aligner.fit(np.zeros((4, 3)), np.arange(4) % 2, np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("aligner", "words"),
    [(WhitenedPCA(dim=0), "dim=0"), (Landmarks(dim=-1), "dim=-1"), (Landmarks(count=0), "count=0")],
    ids=repr,
)
def test_options_that_cannot_be(aligner, words):
    with pytest.raises(InputError, match=words):
        aligner.fit(*domains(0))


def test_our_own_learner_uses_the_same_maps():
    source, codes, target = domains(4)
    rows, pool = unit(source), unit(target)
    m = rows.shape[1]
    given = InMemory(rows, codes)
    gram, moments = given.totals(Gram(), ClassMoments(3))
    root = within_class_root(gram, moments)[0]
    np.testing.assert_allclose(maps.whitening([given], pool, gram, moments, m).A, root, rtol=1e-6)
    assert maps.whitening([given], pool, gram, moments, m - 1).A.shape == (m, m - 1)
    linear = Projection(WhitenedPCA().fit(rows, codes, pool).projection.A)
    np.testing.assert_allclose(maps.whitened_pca([given], pool, 100)(pool), unit(linear(pool)), atol=1e-6)
    kernel = Landmarks(dim=1000).fit(rows, codes, pool).projection
    own = maps.landmarks([given], pool, np.random.default_rng(0), 1000)
    np.testing.assert_allclose(own(pool) @ own(pool).T, kernel(pool) @ kernel(pool).T, atol=1e-5)
