"""Moments are a monoid: merging and one pass give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import law, seeds

from hedgerow import Moments
from hedgerow.core.errors import InputError
from hedgerow.core.moments import class_sums, discrepancy, gap

offsets = st.sampled_from([0.0, 1.0, 1e6])


def rows(seed, offset, K=4, m=3, sparse=False):
    rng = np.random.default_rng(seed)
    N = int(rng.integers(3, 30))
    X = rng.normal(size=(N, m)) + offset
    if sparse:
        X = np.where(rng.random(X.shape) < 0.5, 0, X)
    return X, rng.integers(-1, K, size=N)


def assert_close(a: Moments, b: Moments) -> None:
    np.testing.assert_array_equal(a.count, b.count)
    np.testing.assert_array_equal(a.class_counts, b.class_counts)
    np.testing.assert_allclose(a.total, b.total, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(a.class_totals, b.class_totals, rtol=1e-12, atol=1e-9)


@given(seeds, offsets, st.booleans())
@law(40)
def test_one_pass_equals_the_definition(seed, offset, sparse):
    X, y = rows(seed, offset, sparse=sparse)
    moments = Moments.of(sp.csr_array(X) if sparse else X, y, 4)
    assert moments.count[0] == len(X)
    np.testing.assert_allclose(moments.means[0], X.mean(axis=0), rtol=1e-12, atol=1e-12)
    for k in range(4):
        assert moments.class_counts[k] == (y == k).sum()
        mean = X[y == k].mean(axis=0) if (y == k).any() else np.zeros(3)
        np.testing.assert_allclose(moments.means[1 + k], mean, rtol=1e-12, atol=1e-9)


@given(seeds, offsets, st.booleans(), st.integers(1, 7))
@law(40)
def test_merging_blocks_equals_one_pass(seed, offset, sparse, size):
    X, y = rows(seed, offset, sparse=sparse)
    Y = sp.csr_array(X) if sparse else X
    folded = Moments.empty(3, 4)
    for i in range(0, len(X), size):
        folded = folded.merge(Moments.of(Y[i : i + size], y[i : i + size], 4))
    assert_close(folded, Moments.of(X, y, 4))


@given(seeds, offsets)
@law(40)
def test_merging_is_associative_and_commutative_and_has_a_neutral_element(seed, offset):
    parts = [Moments.of(*rows(seed + i, offset * (i + 1)), 4) for i in range(3)]
    a, b, c = parts
    assert_close(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_close(a.merge(b), b.merge(a))
    assert_close(a.merge(Moments.empty(3, 4)), a)
    assert_close(Moments.empty(3, 4).merge(a), a)


def test_rows_without_labels_count_for_no_class():
    moments = Moments.of(np.ones((5, 2)), None, 3)
    assert moments.count[0] == 5
    assert moments.class_counts.tolist() == [0, 0, 0]


def test_float32_rows_are_summed_in_double_precision():
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    expected = 100_000 * float(np.float32(0.1))
    for M in (X, sp.csr_array(X)):
        moments = Moments.of(M, np.zeros(len(X), dtype=np.int64), 1)
        assert moments.total[0] == pytest.approx(expected, rel=1e-10)
        assert moments.class_totals[0, 0] == pytest.approx(expected, rel=1e-10)


def test_moments_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"\(2, 3\).*\(2, 4\)"):
        Moments.empty(2, 3).merge(Moments.empty(2, 4))


@given(seeds)
@law()
def test_gaps(seed):
    X, y = rows(seed, 1.0)
    U, v = rows(seed + 1, 0.0)
    y[0] = 3  # the target never shows class 3
    v[v == 3] = 2
    s = Moments.of(X, y, 4)
    t = Moments.of(U, v, 4)
    for unseen in ("zero", "skip", "shrink"):
        G = gap(s, t, unseen, kappa=5.0)
        np.testing.assert_allclose(G[0], X.mean(axis=0) - U.mean(axis=0), atol=1e-12)
        for k in range(4):
            n = (v == k).sum()
            if not (y == k).any() or (not n and unseen != "zero"):
                expected = np.zeros(3)
            else:
                expected = X[y == k].mean(axis=0) - (U[v == k].mean(axis=0) if n else 0)
                expected = expected * (n / (n + 5.0) if unseen == "shrink" else 1)
            np.testing.assert_allclose(G[k + 1], expected, atol=1e-12)
        assert discrepancy(np.eye(3), G) == pytest.approx(discrepancy(None, G))
    assert gap(s, Moments.empty(3, 4), "skip").any() == False  # noqa: E712 (an array's answer)


def test_an_unknown_rule_for_unseen_classes():
    with pytest.raises(InputError, match="did you mean 'shrink'"):
        gap(Moments.empty(1, 1), Moments.empty(1, 1), "shrinks")


@pytest.mark.parametrize(
    "weight", [None, np.linspace(0.1, 2.0, 60)], ids=["counted once", "weighed"]
)
def test_rows_stored_column_by_column_have_the_same_class_sums(weight):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    codes = rng.integers(0, 3, 60)
    for ours, theirs in zip(
        class_sums(np.asfortranarray(X), codes, 3, weight),
        class_sums(X, codes, 3, weight),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
