"""Our own learner: its regressions, its pool, its mixture and its bound, as laws."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import fitted, law, make_task, seeds
from support.ridge import NEVER, fits, fold, learn, mix

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core import source_rows
from hedgerow.core.errors import InputError
from hedgerow.kernels import FADE
from hedgerow.ridge import build, maps, mixture, trees
from hedgerow.ridge.regression import Regression, add_gram, symmetric_product

OWN = ("hedgerow", "hedgerow-linear")


def one_by_one(P, M, Z, Y, noise):
    """The textbook recursion, row by row."""
    fits = []
    for z, y, r in zip(Z, Y, noise, strict=True):
        fits.append(z @ M)
        if r < NEVER:
            k = P @ z / (r + z @ P @ z)
            M = M + np.outer(k, y - z @ M)
            P = P - np.outer(k, z @ P)
    return np.array(fits), P, M


@given(seeds, st.integers(1, 12), st.integers(1, 6))
@law(30)
def test_pending_rows_and_rows_at_once_are_the_textbook_recursion(seed, B, d):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(B, d))
    Y = rng.normal(size=(B, 2))
    root = rng.normal(size=(d, d))
    P = root @ root.T + np.eye(d)
    M = rng.normal(size=(d, 2))
    noise = np.where(rng.random(B) < 0.3, NEVER, rng.uniform(0.2, 3.0, B))
    expected, P1, M1 = one_by_one(P, M, Z, Y, noise)
    regression = Regression(P, M)
    at_once = Regression(P.copy(), M.copy())
    np.testing.assert_allclose(learn(regression, Z, Y, noise), expected, atol=1e-8)
    np.testing.assert_allclose(fits(regression, Z), Z @ M1, atol=1e-8)
    fold(regression)
    np.testing.assert_allclose(np.triu(P), np.triu(P1), atol=1e-8)
    np.testing.assert_allclose(M, M1, atol=1e-8)
    same = one_by_one(at_once.P, at_once.M, Z, Y, np.full(B, 0.7))[1:]
    assert at_once.update(Z, Y, 0.7)
    np.testing.assert_allclose(np.triu(at_once.P), np.triu(same[0]), atol=1e-8)
    np.testing.assert_allclose(at_once.M, same[1], atol=1e-8)


def test_only_the_upper_triangle_is_read_and_written(rng):
    root = rng.normal(size=(6, 6))
    G = rng.normal(size=(3, 6))
    Z = rng.normal(size=(4, 6))
    P = root @ root.T
    upper = np.triu(P)
    np.testing.assert_allclose(symmetric_product(Z, upper), Z @ P, atol=1e-12)
    add_gram(upper, G, -1.0)
    np.testing.assert_allclose(upper, np.triu(P - G.T @ G), atol=1e-12)
    with pytest.raises(ValueError, match="C-contiguous"):
        add_gram(np.asfortranarray(P), G, -1.0)


def with_rows(P, M, U, targets, weight):
    """P and M after these rows, learned at once."""
    regression = Regression(P.copy(), M.copy())
    assert regression.update(U, targets, 1 / weight)
    return np.triu(regression.P) + np.triu(regression.P, 1).T, regression.M


def test_targets_that_change_later_change_the_weights_as_if_they_had_been_so(rng):
    """The rows of the pool were learned first, with a weight; in between labels were learned, and some of them wait."""
    U = rng.normal(size=(7, 4))
    old = rng.normal(size=(7, 2))
    new = rng.normal(size=(7, 2))
    Z = rng.normal(size=(5, 4))
    Y = rng.normal(size=(5, 2))
    once = np.ones(5)
    ends = []
    for targets in (old, new):
        regression = Regression(*with_rows(np.eye(4), np.zeros((4, 2)), U, targets, 0.3))
        learn(regression, Z[:2], Y[:2], once[:2])
        fold(regression)
        learn(regression, Z[2:], Y[2:], once[2:])
        fold(regression)
        if targets is old:
            regression.move(U, 0.3 * (new - old))
        ends.append(fits(regression, np.eye(4)))
    np.testing.assert_allclose(*ends, atol=1e-10)


@given(seeds, st.integers(1, 5), st.integers(2, 5))
@law(30)
def test_the_prediction_never_makes_more_mistakes_than_its_bound(seed, heads, K):
    """An adversary names the class that the mixture believes in least, or at times what the first head says."""
    rng = np.random.default_rng(seed)
    state = mixture.initial(heads, K)
    mistakes = 0
    scale = rng.choice([0.1, 0.5, 2.0])
    for _ in range(60):
        F = rng.normal(scale=scale, size=(1, heads, K))
        believed = mix(state, F, [-1])[0][0]
        label = int(believed.argmin()) if rng.random() < 0.5 else int(F[0, 0].argmax())
        mistakes += int(believed.argmax() != label)
        mix(state, F, [label])
        assert mistakes <= mixture.bound(state) + 1e-9


def test_the_bound_can_be_close():
    """Two classes, one head that is always sure and right, after a mixture that starts undecided."""
    state = mixture.initial(1, 2)
    for _ in range(30):
        mix(state, np.array([[[1.0, -1.0]]]), [0])
    assert mixture.bound(state) < 8


@pytest.mark.parametrize("method", OWN)
def test_it_learns_from_useless_sources_no_worse_than_without(method):
    """Source labels permuted: what the target teaches must win, at the price of a few mistakes."""
    rng = np.random.default_rng(0)
    task = make_task(5, n=2, m=8, rows=60, stream=200)
    for source in task.sources:
        source.y[:] = rng.permutation(source.y)
    spoiled = fitted(task, method)
    alone = OnlineTransferClassifier(method).partial_fit(
        task.X[:1], task.y[:1], classes=["c0", "c1", "c2"]
    )
    wrong = (spoiled.predict_then_learn(task.X, task.y) != task.y).mean()
    wrong_alone = (alone.predict_then_learn(task.X[1:], task.y[1:]) != task.y[1:]).mean()
    assert wrong <= wrong_alone + 0.05


@pytest.mark.parametrize("method", OWN)
def test_counts_get_square_roots_and_signed_data_a_scale(method):
    signed = make_task(2, m=40)
    assert fitted(signed, method).learner_.plan.steps == ("scale", "centre", "unit")
    counts = signed._replace(
        sources=[type(s)(s.name, abs(s.X), s.y) for s in signed.sources],
        warmup=type(signed.warmup)("t", abs(signed.warmup.X)),
    )
    assert fitted(counts, method).learner_.plan.steps == ("signed-sqrt", "unit", "centre", "unit")
    few = counts._replace(
        sources=[type(s)(s.name, s.X[:, :8], s.y) for s in counts.sources],
        warmup=type(signed.warmup)("t", counts.warmup.X[:, :8]),
    )
    assert fitted(few, method).learner_.plan.steps[:2] == ("scale", "centre")


@pytest.mark.parametrize("method", OWN)
def test_rank_limits_every_space(method):
    task = make_task(6, m=12, rows=40, stream=80)
    lean = fitted(task, method, rank=5)
    full = fitted(task, method)
    assert lean.dim_ == 5 < full.dim_
    wrong = (lean.predict_then_learn(task.X, task.y) != task.y).mean()
    assert wrong <= (full.predict_then_learn(task.X, task.y) != task.y).mean() + 0.2


def test_what_was_learned_fades_back_to_the_sources():
    """Old labels lose their say in the space `fading`, and in no other."""
    task = make_task(7, stream=4 * FADE)
    clf = fitted(task, "hedgerow-linear")
    space = next(s for s in clf.learner_.spaces if s.settings.name == "fading")
    kept = space.settings.keep
    clf.partial_fit(task.X[:16], task.y[:16])
    moved = space.regression.M.copy()
    start = space.constants["prior.M"]
    space.fade()
    np.testing.assert_allclose(space.regression.M - start, kept * (moved - start), atol=1e-12)
    assert all(s.settings.keep == 1 for s in clf.learner_.spaces if s is not space)


@pytest.mark.parametrize("method", OWN)
def test_what_is_kept_grows_with_the_classes_and_not_with_their_square(method):
    """200, 400 and 600 classes of two rows in every source: the steps are alike."""
    rng = np.random.default_rng(0)
    bytes_of = []
    for K in (200, 400, 600):
        y = np.arange(2 * K) % K
        centres = rng.normal(size=(K, 20))
        domains = [
            Domain(f"s{i}", centres[y] + 0.1 * rng.normal(size=(2 * K, 20)), y) for i in range(2)
        ]
        clf = OnlineTransferClassifier(method).fit_domains(domains)
        clf.partial_fit(centres[:40], y[:40])
        bytes_of.append(len(clf.to_bytes()))
    first, second = np.diff(bytes_of)
    assert second <= 1.1 * first


def wide(m, rows=30):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, m))
    y = np.arange(rows) % 3
    return Domain("wide", centres[y] + 0.5 * rng.normal(size=(rows, m)), y), centres


@pytest.mark.parametrize("method", OWN)
def test_wide_rows_that_are_few_go_through_their_inner_products(method):
    source, centres = wide(100_000)
    clf = OnlineTransferClassifier(method).fit_domains([source])
    assert clf.constants_["axes"].shape[1] < 30  # centred: one direction fewer than rows
    assert clf.predict(centres).tolist() == [0, 1, 2]


@pytest.mark.parametrize("method", OWN)
def test_too_many_features_are_refused_before_anything_is_made_with_the_remedy(method, monkeypatch):
    monkeypatch.setattr(build, "WIDE", 10**6)  # as if there were more rows than features
    source, centres = wide(100_000)
    with pytest.raises(
        InputError, match=r"100000 features: fitting needs about \d+ GiB .* rank=200"
    ):
        OnlineTransferClassifier(method).fit_domains([source])
    clf = OnlineTransferClassifier(method, rank=10).fit_domains(
        [source]
    )  # without a matrix of features x features
    assert clf.predict(centres).tolist() == [0, 1, 2]


def test_a_fit_that_will_take_long_is_announced(monkeypatch):
    monkeypatch.setattr(build, "LONG", 1e-9)
    with pytest.warns(UserWarning, match=r"20 features: fitting takes about .* rank=200"):
        OnlineTransferClassifier("hedgerow-linear").fit_domains([wide(20)[0]])
    monkeypatch.setattr(build, "LONG", 1)
    with pytest.warns(
        UserWarning,
        match=r"rows of 20 features: fitting takes about .* GiB; method='hedgerow-linear'",
    ):
        OnlineTransferClassifier().fit_domains([wide(20)[0]])


def test_heads_that_see_a_sample_of_the_rows_are_named(monkeypatch, rng):
    X = rng.normal(size=(400, 3)) * [1, 100, 1e4]
    domains = [Domain("a", X[:300], X[:300, 0] > 0), Domain("b", X[300:], X[300:, 0] > 0)]
    assert OnlineTransferClassifier().fit_domains(domains).info_ == []
    monkeypatch.setattr(trees, "MOST_ROWS", 300)
    clf = OnlineTransferClassifier().fit_domains(domains)
    assert clf.info_[0].note.startswith(
        "of 400 rows of the sources trees were fitted on 250; the other"
    )


def test_statistics_of_many_rows_are_taken_in_parts(monkeypatch, rng):
    X = rng.normal(size=(300, 3)) * [1, 100, 1e4]
    y = np.arange(300) % 2
    whole = OnlineTransferClassifier().fit_domains([Domain("a", X, y)])
    monkeypatch.setattr(source_rows, "AT_ONCE", 64)
    parts = OnlineTransferClassifier().fit_domains([Domain("a", X, y)])
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-9)


def test_hashed_words_are_fitted_in_seconds_and_little_memory(rng):
    words = sp.random(800, 2**14, density=0.005, format="csr", random_state=0)
    tracemalloc.start()
    began = time.process_time()
    y = np.arange(400) % 2
    OnlineTransferClassifier().fit_domains(
        [Domain("a", words[:400], y), Domain("b", words[400:], y)]
    )
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 60
    assert peak < 2**31


def test_the_directions_of_wide_rows_are_those_of_their_gram_matrix(monkeypatch, rng):
    X = rng.normal(size=(40, 25)) * 0.7 ** np.arange(25)
    exact = maps.input_axes([], X, 4)
    monkeypatch.setattr(maps, "WIDE", 10)
    by_rows = maps.input_axes([], X, 4)
    monkeypatch.setattr(maps, "FEW_ROWS", 0)
    by_passes = maps.input_axes([], X, 4)
    np.testing.assert_allclose(by_rows @ by_rows.T, exact @ exact.T, atol=1e-9)
    np.testing.assert_allclose(by_passes @ by_passes.T, exact @ exact.T, atol=1e-6)


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear"])
@pytest.mark.parametrize("preprocess", ["auto", (), ("zscore",)], ids=str)
def test_a_model_of_rows_in_single_precision_is_read_back(method, preprocess):
    task = make_task(3, m=8)
    sources = [Domain(d.name, d.X.astype(np.float32), d.y) for d in task.sources]
    clf = OnlineTransferClassifier(method, preprocess=preprocess).fit_domains(sources, task.warmup)
    X = task.X.astype(np.float32)
    y = task.y
    clf.predict_then_learn(X[:40], y[:40])
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(X[40:]), clf.predict_proba(X[40:]))
