"""Preprocessing steps: formulas, sparse like dense, running statistics that never look ahead."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import STEPS, law, seeds

from hedgerow import OnlineTransferClassifier, PaperOptions, Reading
from hedgerow.core import arrays, preprocess
from hedgerow.core.errors import InputError
from hedgerow.core.preprocess import INSTANCE_STEPS, Preprocess, parse
from hedgerow.core.source_rows import InMemory


def rows(seed, sign=True, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 5)) if sign else rng.random((12, 5))
    if sparse:
        X[rng.random(X.shape) < 0.5] = 0
        X[3] = 0
    return X


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("step", sorted(INSTANCE_STEPS))
@given(seeds, st.booleans())
@law(15)
def test_sparse_rows_give_what_dense_rows_give(step, kind, seed, sign):
    X = rows(seed, sign, sparse=True)
    out = INSTANCE_STEPS[step](kind(X))
    assert sp.issparse(out)
    np.testing.assert_allclose(out.toarray(), INSTANCE_STEPS[step](X), atol=1e-12)


@given(seeds)
@law(15)
def test_formulas(seed):
    X = rows(seed)
    low = X.min(axis=1, keepdims=True)
    high = X.max(axis=1, keepdims=True)
    np.testing.assert_allclose(preprocess.row_minmax(X), (X - low) / (high - low))
    np.testing.assert_allclose(np.linalg.norm(preprocess.unit(X), axis=1), 1)
    np.testing.assert_allclose(preprocess.signed_sqrt(X) * np.abs(preprocess.signed_sqrt(X)), X)


@pytest.mark.parametrize("step", sorted(INSTANCE_STEPS))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept_and_awkward_rows_stay_finite(step, dtype):
    X = np.array([[0, 0, 0], [2, 2, 2], [-1, 0, 5]], dtype=dtype)
    for M in (X, sp.csr_array(X)):
        out = INSTANCE_STEPS[step](M)
        assert out.dtype == dtype
        assert np.isfinite(out.toarray() if sp.issparse(out) else out).all()
    np.testing.assert_array_equal(preprocess.unit(X)[0], 0)
    np.testing.assert_array_equal(preprocess.row_minmax(X)[1], 0)


def fit_arrays(pre, sources, warmup):
    """Matrices in and out."""
    behind, warmup = pre.fit([InMemory(X) for X in sources], warmup)
    return [source.gathered() for source in behind], warmup


@pytest.mark.parametrize("step", ["zscore", "centre"])
@given(seeds, st.floats(-1e6, 1e6))
@law(15)
def test_each_source_is_scaled_by_its_own_statistics(step, seed, offset):
    a = rows(seed) + offset
    b = 3 * rows(seed + 1)
    u = rows(seed + 2) - 5
    scaled, warmup = fit_arrays(Preprocess(step), [a, b], u)
    for raw, out in zip((a, b, u), (*scaled, warmup), strict=True):
        sd = raw.std(axis=0) if step == "zscore" else 1
        np.testing.assert_allclose(out, (raw - raw.mean(axis=0)) / sd, atol=1e-7)


@pytest.mark.parametrize("step", ["zscore", "centre"])
@given(seeds, st.sampled_from([0.0, 1e4]))
@law(20)
def test_a_row_is_scaled_by_what_was_learned_before_it_and_no_more(step, seed, offset):
    rng = np.random.default_rng(seed)
    U = rows(seed) + offset
    X = rows(seed + 1) + offset
    learned = rng.random(len(X)) < 0.6
    pre = Preprocess(step)
    fit_arrays(pre, [rows(seed + 2)], U)
    out = pre.fold(X, learned)
    known = U
    for t in range(len(X)):
        sd = known.std(axis=0) if step == "zscore" else 1
        np.testing.assert_allclose(out[t], (X[t] - known.mean(axis=0)) / sd, atol=1e-6)
        known = np.vstack([known, X[t : t + 1]]) if learned[t] else known


def test_without_unlabelled_rows_the_sources_stand_in_with_the_weight_of_one_instance():
    a = rows(0)
    b = 2 * rows(1) + 3
    pre = Preprocess("zscore")
    fit_arrays(pre, [a, b], np.empty((0, 5)))
    mean = (a.mean(axis=0) + b.mean(axis=0)) / 2
    variance = (a.var(axis=0) + b.var(axis=0)) / 2
    x = rows(2)[:1]
    np.testing.assert_allclose(pre.apply(x), (x - mean) / np.sqrt(variance))
    assert pre.all[0].stats.n[0] == 1


def test_a_constant_feature_becomes_zero_whatever_its_size_and_others_are_scaled_whatever_theirs():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(50, 1))
    X = np.hstack([np.full((50, 1), 0.1), np.full((50, 1), 1e12 / 3), 1e-14 * noise, 1.7e9 + noise])
    out = fit_arrays(Preprocess("zscore"), [X], X[:0])[0][0]
    np.testing.assert_allclose(out[:, :2], 0, atol=1e-3)
    np.testing.assert_allclose(out[:, 2:].std(axis=0), 1, rtol=1e-3)


def test_statistics_of_float32_rows_are_kept_in_double_precision():
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32) + 1000
    pre = Preprocess("zscore")
    out = fit_arrays(pre, [X], X)[1]
    assert out.dtype == np.float32
    assert pre.fold(X, np.ones(20, dtype=bool)).dtype == np.float32
    assert all(a.dtype == np.float64 for part in pre.arrays() for a in part.values())
    np.testing.assert_allclose(pre.all[0].stats.variance, X.astype(float).var(axis=0), rtol=1e-6)


def test_centring_makes_sparse_rows_dense_up_to_a_limit(monkeypatch):
    X = sp.csr_array(rows(0, sparse=True))
    assert isinstance(fit_arrays(Preprocess("centre"), [X], X)[0][0], np.ndarray)
    monkeypatch.setattr(arrays, "DENSE_LIMIT", 100)
    with pytest.raises(InputError, match=r"'centre'.*12 x 5.*preprocess='unit'"):
        fit_arrays(Preprocess("centre"), [X], X)


def test_names_of_steps():
    assert parse("zscore + unit") == ("zscore", "unit")
    assert parse(None) == parse("none") == parse("") == parse(()) == ()
    assert parse(list(STEPS)) == STEPS
    with pytest.raises(InputError, match="did you mean 'zscore'"):
        parse("zscor")
    with pytest.raises(InputError, match="preprocessing step '3'"):
        parse([3])


@pytest.mark.parametrize(
    "steps", ["centre+target-only-1", "target-only-3", "fill+centre", ["fill"]]
)
def test_internal_steps_are_not_accepted_from_users(steps):
    with pytest.raises(InputError, match="comes with a table; write 'table' in its place"):
        parse(steps)
    with pytest.raises(InputError, match="comes with a table"):
        OnlineTransferClassifier(preprocess=steps if isinstance(steps, str) else tuple(steps)).fit(
            rows(0), [0, 1] * 6
        )
    with pytest.raises(
        InputError, match=r"comes with a table.*known: row-minmax, unit, .*, table\)"
    ):
        OnlineTransferClassifier(options=PaperOptions(reading=Reading(preprocess=steps))).fit(
            rows(0), [0, 1] * 6
        )
    with pytest.raises(InputError, match="'target-only-1' comes with a table"):
        Preprocess(("centre", "target-only-1"))


@pytest.mark.parametrize(
    "steps",
    ["centre", "zscore", "fill", "signed-sqrt+unit+fill+centre", "target-only-2+fill+scale+unit"],
)
@given(seeds)
@law(10)
def test_rows_with_gaps_in_a_block_and_one_by_one(steps, seed):
    rng = np.random.default_rng(seed)
    source, U, X = (rng.normal(3, 2, size=(n, 5)) for n in (9, 4, 20))
    if "fill" in steps:
        for domain in (source, U, X):
            domain[rng.random(domain.shape) < 0.3] = np.nan
    learned = rng.random(len(X)) < 0.7
    block = Preprocess(steps)
    live = Preprocess(steps)
    for pre in (block, live):
        fit_arrays(pre, [source], U)
    one_by_one = np.vstack([live.fold(X[t : t + 1], learned[t : t + 1]) for t in range(len(X))])
    np.testing.assert_allclose(block.fold(X, learned), one_by_one, atol=1e-9)
    assert np.isfinite(one_by_one).all()
    for name, array in block.arrays()[1].items():
        np.testing.assert_allclose(array, live.arrays()[1][name], atol=1e-9)
