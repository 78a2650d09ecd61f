"""Aligners reach their stated objective: compared with dense oracles that build every matrix by its definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from support.laws import law, seeds

from bench import naive
from hedgerow import align
from hedgerow.align import BDA, CORAL, JDA, TCA, nearest_row, refreshed
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import shrink_along

shapes = st.sampled_from([(30, 20, 6), (30, 20, 50), (8, 5, 40)])  # N > m, N = m, N < m


def domains(seed, shape, K=3):
    rng = np.random.default_rng(seed)
    ns, nt, m = shape
    codes = rng.permutation(np.arange(ns) % K)
    centres = 1.5 * rng.normal(size=(K, m))
    return (
        rng.normal(size=(ns, m)) + centres[codes],
        codes,
        rng.normal(size=(nt, m)) + centres[rng.integers(0, K, nt)] + 0.7,
    )


def oracle(X, M, lam, dim):
    """Top eigenpairs of S a = value (X M X^T + lam I) a."""
    P = X.T @ M @ X + lam * np.eye(X.shape[1])
    values, A = scipy.linalg.eigh(naive.scatter(X), P)
    return values[::-1][:dim], A[:, ::-1][:, :dim], P


@given(seeds, shapes, st.sampled_from([0.1, 1.0, 10.0]))
@law(30)
def test_tca_reaches_its_objective(seed, shape, lam):
    source, codes, target = domains(seed, shape)
    dim = 4
    out = TCA(dim=dim, lam=lam).fit(source, codes, target)
    X = np.vstack([source, target])
    values, A, P = oracle(
        X, naive.mmd_matrix(codes, None, len(target), 1.0, 0.0, normalise=False), lam, dim
    )
    np.testing.assert_allclose(out.info.eigenvalues, values, rtol=1e-8)
    B = out.projection.A
    reached = np.trace(np.linalg.solve(B.T @ P @ B, B.T @ naive.scatter(X) @ B))
    assert reached == pytest.approx(values.sum(), rel=1e-8)
    assert np.sin(subspace_angles(A, B)).max() < 1e-6
    assert not out.info.changed


@given(seeds, shapes, st.sampled_from(["source", "skip"]), st.sampled_from([0.1, 1.0]))
@law(30)
def test_jda_is_the_naive_jda(seed, shape, empty, lam):
    source, codes, target = domains(seed, shape)
    out = JDA(dim=3, lam=lam, rounds=5, empty=empty).fit(source, codes, target)
    A, values, labels = naive.jda(source, codes, target, 3, lam, 5, empty=empty)
    np.testing.assert_array_equal(out.info.pseudo_labels, labels[-1])
    np.testing.assert_allclose(out.info.eigenvalues, values, rtol=1e-8)
    assert np.sin(subspace_angles(A, out.projection.A)).max() < 1e-6
    signs = np.sign((A * out.projection.A).sum(axis=0))
    np.testing.assert_allclose(out.projection.A, A * signs, atol=1e-7)


@pytest.mark.parametrize("empty", ["source", "skip"])
def test_a_class_without_pseudo_labels(empty):
    """Class 2 sits far from the target, so that no target row gets its label in the first round."""
    source, codes, target = domains(5, (30, 20, 6))
    source = source + 60.0 * (codes == 2)[:, None] * np.eye(6)[0]
    assert 2 not in JDA(dim=2, rounds=1).fit(source, codes, target).info.pseudo_labels
    out = JDA(dim=2, rounds=2, empty=empty).fit(source, codes, target)
    _, values, _ = naive.jda(source, codes, target, 2, 1.0, 2, empty=empty)
    np.testing.assert_allclose(out.info.eigenvalues, values, rtol=1e-9)
    other = JDA(dim=2, rounds=2, empty="skip" if empty == "source" else "source").fit(
        source, codes, target
    )
    assert not np.allclose(other.info.eigenvalues, out.info.eigenvalues)


@pytest.mark.parametrize("shape", [(30, 20, 6), (8, 5, 40)])
def test_an_empty_class_with_fewer_rows_than_features_uses_the_whole_gap(shape):
    source, codes, target = domains(3, shape)
    target = source[codes == 0][np.arange(shape[1]) % (codes == 0).sum()] * 1.01 + 0.01
    A, values, _ = naive.jda(source, codes, target, 2, 0.5, 3)
    out = JDA(dim=2, lam=0.5, rounds=3).fit(source, codes, target)
    np.testing.assert_allclose(out.info.eigenvalues, values, rtol=1e-8)
    assert np.sin(subspace_angles(A, out.projection.A)).max() < 1e-6


@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
@law(15)
def test_bda_balances_the_two_gaps(seed, mu):
    source, codes, target = domains(seed, (30, 20, 6))
    out = BDA(dim=3, rounds=2, balance=mu, normalise=False).fit(source, codes, target)
    X = naive.unit_rows(np.vstack([source, target]))
    first = BDA(dim=3, rounds=1, balance=mu, normalise=False).fit(source, codes, target)
    M = naive.mmd_matrix(codes, first.info.pseudo_labels, 20, 1 - mu, mu, normalise=False)
    np.testing.assert_allclose(out.info.eigenvalues, oracle(X, M, 1.0, 3)[0], rtol=1e-8)


@given(seeds)
@law(20)
def test_stopping_when_the_labels_repeat_is_exact(seed):
    source, codes, target = domains(seed, (30, 20, 6))
    short = JDA(dim=3, rounds=12).fit(source, codes, target)
    changed = short.info.changed
    assert len(short.info.discrepancy) == len(changed)
    assert changed[0] == 20
    if changed[-1] == 0:
        assert len(changed) < 12 or changed[:-1].count(0) == 0
        _A, values, _ = naive.jda(source, codes, target, 3, 1.0, 12)
        np.testing.assert_allclose(short.info.eigenvalues, values, rtol=1e-9)
        longer = JDA(dim=3, rounds=50).fit(source, codes, target)
        np.testing.assert_array_equal(longer.projection.A, short.projection.A)


def test_early_exit_happens():
    assert any(
        len(JDA(dim=3, rounds=12).fit(*domains(s, (30, 20, 6))).info.changed) < 12 for s in range(5)
    )


def test_the_dimension_is_an_upper_limit():
    source, codes, target = domains(1, (8, 5, 40))
    out = JDA(dim=100).fit(source, codes, target)
    assert out.info.rank == 12
    assert out.projection.A.shape == (40, 12)
    flat = np.outer(np.arange(1.0, 9), np.ones(3)) + np.arange(3)
    assert TCA(dim=100).fit(flat, np.zeros(8, dtype=int), flat[:4]).projection.A.shape[1] == 1


def test_a_gap_that_drowns_the_scatter_leaves_finite_vectors():
    rng = np.random.default_rng(0)
    source = rng.normal(size=(30, 4))
    target = rng.normal(size=(20, 4)) + 1e9
    for eigenvectors in ("unit", "S"):
        out = TCA(dim=4, lam=1.0, eigenvectors=eigenvectors).fit(
            source, np.zeros(30, dtype=int), target
        )
        assert np.isfinite(out.projection.A).all()
        assert (out.info.eigenvalues > 0).all()


def test_without_target_rows_the_leading_axes_of_the_source():
    source, codes, target = domains(1, (30, 20, 6))
    A = JDA(dim=2).fit(source, codes, target[:0]).projection.A
    D = naive.unit_rows(source)
    axes = np.linalg.svd(D - D.mean(axis=0))[2][:2].T
    assert np.sin(subspace_angles(A, axes)).max() < 1e-7


def test_the_weight_of_the_overall_gap_is_the_number_of_classes_that_the_source_has():
    source, codes, target = domains(1, (30, 20, 6))
    gapped = np.array([0, 2, 5])[codes]
    a = JDA(dim=3).fit(source, codes, target)
    b = JDA(dim=3).fit(source, gapped, target)
    np.testing.assert_allclose(a.projection.A, b.projection.A, atol=1e-9)
    np.testing.assert_array_equal(np.array([0, 2, 5])[a.info.pseudo_labels], b.info.pseudo_labels)


@pytest.mark.parametrize(
    ("aligner", "words"),
    [
        (JDA(eigenvectors="s"), "Known: S, unit"),
        (JDA(empty="skipp"), "did you mean 'skip'"),
        (JDA(lam=0.0), "lam=0.0"),
        (JDA(dim=0), "dim=0"),
        (JDA(rounds=0), "rounds=0"),
        (BDA(balance=2), r"balance=2.*\[0, 1\]"),
    ],
)
def test_options_that_cannot_be(aligner, words):
    with pytest.raises(InputError, match=words):
        aligner.fit(*domains(0, (30, 20, 6)))


@given(seeds)
@law(10)
def test_coral_recolours_the_source_as_the_ridge_goes_to_zero(seed):
    source, codes, target = domains(seed, (60, 50, 4))
    previous = np.inf
    for ridge in (1.0, 1e-2, 1e-4, 1e-8):
        projection = CORAL(ridge).fit(source, codes, target).projection
        mapped = projection.mapped(source)
        np.testing.assert_array_equal(projection(target), target)
        distance = np.linalg.norm(np.cov(mapped.T) - np.cov(target.T))
        assert distance < previous
        previous = distance
    assert distance < 1e-6


def test_coral_with_one_feature_or_one_row():
    rng = np.random.default_rng(0)
    mapped = CORAL(1e-12).fit(
        rng.normal(size=(30, 1)), np.zeros(30, int), 3 * rng.normal(size=(20, 1))
    )
    assert mapped.projection.source_map.shape == (1, 1)
    alone = CORAL().fit(rng.normal(size=(30, 2)), np.zeros(30, int), rng.normal(size=(1, 2)))
    assert alone.projection.source_map is None
    assert "stays" in alone.info.note


@given(seeds, st.floats(0, 100), st.integers(0, 5))
@law(30)
def test_the_refresh_by_woodbury_inverse_and_pseudo_inverse(seed, mu, k):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(7, 3))
    G = rng.normal(size=(k + 2, 7))
    G[1] = 0
    expected = np.linalg.inv(np.eye(7) + mu * G.T @ G) @ A
    for how in ("woodbury", "pinv"):
        np.testing.assert_allclose(refreshed(A, G, mu, how), expected, atol=1e-9)
    B = refreshed(A, G, mu)

    def objective(C):
        return ((C - A) ** 2).sum() + mu * ((G @ C) ** 2).sum()

    assert objective(B) <= objective(B + 1e-3 * rng.normal(size=B.shape)) + 1e-12
    assert ((G @ B) ** 2).sum() <= ((G @ A) ** 2).sum() + 1e-12


def test_the_refresh_without_gaps_or_strength_is_the_identity():
    A = np.eye(3)
    np.testing.assert_array_equal(shrink_along(A, np.empty((0, 3)), 1.0), A)
    np.testing.assert_array_equal(refreshed(A, np.zeros((2, 3)), 1.0), A)
    np.testing.assert_array_equal(refreshed(A, np.ones((2, 3)), 0.0), A)
    with pytest.raises(InputError, match="did you mean 'woodbury'"):
        refreshed(A, np.ones((1, 3)), 1.0, "woodbry")


def test_the_nearest_row_ties_to_the_lowest():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert nearest_row(np.array([[1.0, 0.0], [0.6, 0.8]]), rows).tolist() == [0, 1]


def test_nearest_rows_are_found_some_at_a_time(monkeypatch, rng):
    """Target x source is never built whole."""
    queries = rng.normal(size=(50, 3))
    rows = rng.normal(size=(40, 3))
    expected = ((queries[:, None] - rows) ** 2).sum(axis=2).argmin(axis=1)
    monkeypatch.setattr(align, "PRODUCTS", 130)
    np.testing.assert_array_equal(nearest_row(queries, rows), expected)
    assert nearest_row(queries[:0], rows).shape == (0,)
