"""Weights of source rows: `fit(sample_weight=)`, and the laws of the parts that it reaches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from support.laws import METHODS, assert_same_state, law, make_task, seeds, state_of
from support.plain_heads import step

from hedgerow import OnlineTransferClassifier
from hedgerow.core.constants import RULES
from hedgerow.core.errors import InputError
from hedgerow.core.moments import Moments
from hedgerow.heads import AROW_RULES, StepwiseHead, make_head, train


def rows(seed, n=30, K=3, m=5):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, m)) < 0.3, 0.0, rng.normal(size=(n, m)))
    return X, rng.integers(0, K, n), rng.integers(1, 5, n).astype(float)


# -- heads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source_pass", ["last", "average"])
@pytest.mark.parametrize("rule", [*sorted(RULES), *AROW_RULES])
@given(seeds, st.floats(0.01, 3))
@law(10)
def test_a_weight_scales_the_aggressiveness_of_a_pass(rule, source_pass, seed, C):
    Z, y, weight = rows(seed)
    head = make_head(rule, C)
    W = np.zeros((3, 5))
    total = np.zeros((3, 5))
    memory = head.memory(5)
    for z, label, w in zip(Z, y, weight, strict=True):
        step(W, z, int(label), rule, C * w, memory)
        total += W
    expected = W if source_pass == "last" else total / len(Z)
    np.testing.assert_allclose(train(head, Z, y, 3, source_pass, weight), expected, atol=1e-9)
    np.testing.assert_allclose(
        train(head, sp.csr_array(Z), y, 3, source_pass, weight), expected, atol=1e-9
    )


@dataclass(frozen=True)
class Plain(StepwiseHead):
    """A head that knows nothing of weights."""

    rule: str = "mine"
    C: float = 5.0

    def step(self, W, z, y, f):
        W[y] += z


@pytest.mark.parametrize("source_pass", ["last", "average"])
def test_a_head_of_ones_own_takes_that_many_times_its_step(source_pass):
    Z, y, weight = rows(0)
    found = train(Plain("plain", 1.0), Z, y, 3, source_pass, weight)
    steps = np.cumsum(weight[:, None, None] * np.eye(3)[y][:, :, None] * Z[:, None], axis=0)
    np.testing.assert_allclose(found, steps[-1] if source_pass == "last" else steps.mean(axis=0))


# -- moments and priors ----------------------------------------------------------------------------------------------


@given(seeds, st.booleans(), st.booleans())
@law(20)
def test_moments_are_those_of_rows_repeated(seed, sparse, labelled):
    X, y, weight = rows(seed)
    times = weight.astype(int)
    codes, again = (y, np.repeat(y, times)) if labelled else (None, None)
    wrap = sp.csr_array if sparse else np.asarray
    found = Moments.of(wrap(X), codes, 3, weight)
    expected = Moments.of(wrap(np.repeat(X, times, axis=0)), again, 3)
    for name, array in expected.arrays("").items():
        np.testing.assert_allclose(found.arrays("")[name], array, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("sources", [1, 2])
@given(seeds)
@law(5)
def test_a_prior_is_that_of_rows_repeated(sources, seed):
    """In the spaces that are the input itself; the maps of the others see each row once."""
    X, y, weight = rows(seed)
    domain = np.arange(30) % sources
    times = weight.astype(int)
    a, b = (
        OnlineTransferClassifier("hedgerow-linear", preprocess=(), classes=[0, 1, 2])
        for _ in range(2)
    )
    a.fit(X, y, domain, weight)
    b.fit(np.repeat(X, times, axis=0), np.repeat(y, times), np.repeat(domain, times))
    assert a.expert_names_ == b.expert_names_
    own = [i for i, name in enumerate(a.expert_names_) if name.startswith(("input:", "free:"))]
    assert len(own) == (2 if sources == 1 else 6)
    found, expected = (clf.learner_.expert_scores(X)[:, own] for clf in (a, b))
    np.testing.assert_allclose(found, expected, atol=1e-8)


# -- fit -------------------------------------------------------------------------------------------------------------

TASK = make_task(1, stream=60)
DOMAIN = np.tile([0, 1, -1], 20)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_weights_of_one_change_nothing(method, sparse):
    X = sp.csr_array(TASK.X) if sparse else TASK.X
    plain = OnlineTransferClassifier(method).fit(X, TASK.y, DOMAIN)
    for ones in (np.ones(60), 1.0, [1] * 60):
        even = OnlineTransferClassifier(method).fit(X, TASK.y, DOMAIN, sample_weight=ones)
        assert even.classes_.tolist() == plain.classes_.tolist()
        for name, array in state_of(plain).items():
            np.testing.assert_allclose(state_of(even)[name], array, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
def test_a_row_of_weight_zero_is_left_out(method):
    weight = np.where(np.arange(60) % 4 == 0, 0.0, 2.0)
    y = TASK.y.copy()
    y[(weight == 0) & (DOMAIN >= 0)] = None  # not even looked at
    kept = (weight > 0) | (DOMAIN < 0)
    found = OnlineTransferClassifier(method).fit(TASK.X, y, DOMAIN, weight)
    expected = OnlineTransferClassifier(method).fit(
        TASK.X[kept], y[kept], DOMAIN[kept], weight[kept]
    )
    assert_same_state(state_of(found), state_of(expected))


@pytest.mark.parametrize("method", METHODS)
def test_weights_of_unlabelled_rows_are_never_looked_at(method):
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    expected = OnlineTransferClassifier(method).fit(TASK.X, TASK.y, DOMAIN, weight)
    for garbage in (np.nan, -1.0, 0.0, 1e300):
        spoiled = np.where(DOMAIN < 0, garbage, weight)
        found = OnlineTransferClassifier(method).fit(TASK.X, TASK.y, DOMAIN, spoiled)
        assert_same_state(state_of(found), state_of(expected))


@pytest.mark.parametrize("method", METHODS)
def test_the_moments_of_the_sources_are_weighted(method):
    times = np.random.default_rng(0).integers(1, 4, 60)
    found = OnlineTransferClassifier(method, preprocess=()).fit(TASK.X, TASK.y, DOMAIN, times)
    codes = np.searchsorted(found.classes_, TASK.y.astype(str))
    for i in (0, 1):
        own = np.flatnonzero(np.equal(DOMAIN, i))
        at = np.repeat(own, times[own])
        expected = Moments.of(TASK.X[at], codes[at], len(found.classes_))
        np.testing.assert_allclose(
            found.learner_.source(i).class_totals, expected.class_totals, atol=1e-9
        )
        np.testing.assert_allclose(found.learner_.source(i).counts, expected.counts)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "method", [method for method in METHODS if method != "pa"]
)  # it starts from nothing
def test_wrong_labels_of_next_to_no_weight_do_no_harm(method, sparse):
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    X = rng.normal(size=(120, 4)) + np.outer(4 * y - 2.0, [1, 1, 0, 0])
    both = np.vstack([X, X])
    labels = np.concatenate([y, 1 - y])
    both = sp.csr_array(both) if sparse else both
    weight = np.repeat([1.0, 1e-6], 120)
    clf = OnlineTransferClassifier(method, preprocess=()).fit(both, labels, sample_weight=weight)
    assert (clf.predict(X) == y).mean() > 0.95
    clf = OnlineTransferClassifier(method, preprocess=()).fit(
        both, labels, sample_weight=weight[::-1]
    )
    assert (clf.predict(X) == y).mean() < 0.05


def test_what_is_refused_changes_nothing():
    clf = OnlineTransferClassifier("oddm").fit(TASK.X, TASK.y, DOMAIN)
    before = state_of(clf)
    for weight, words in (
        (
            np.where(DOMAIN == 1, 0.0, 1.0),
            "every weight of source '1' is zero; leave its rows out, or weigh one",
        ),
        (np.ones(59), r"shape \(59,\) for 60 rows"),
        ("heavy", "not numbers"),
    ):
        with pytest.raises(InputError, match=f"sample_weight: .*{words}"):
            clf.fit(TASK.X, TASK.y, DOMAIN, weight)
        assert_same_state(state_of(clf), before)
