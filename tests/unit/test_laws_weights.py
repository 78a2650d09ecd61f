"""Laws of instance weights: one is one, zero is no label, what they scale and what they leave alone."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import (
    METHODS,
    PAPER,
    assert_close_state,
    assert_same_state,
    fitted,
    law,
    make_task,
    one_by_one,
    seeds,
)

from hedgerow.core.errors import InputError
from hedgerow.core.moments import class_sums


def drawn(seed, size, zeros=0.3):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(size) < zeros, 0.0, rng.exponential(size=size))


def twins(task, method, count=2, **options):
    clf = fitted(task, method, **options)
    return [copy.deepcopy(clf) for _ in range(count)]


@pytest.mark.parametrize("method", METHODS)
@given(seeds)
@law(4)
def test_weights_of_one_change_no_bit(method, seed):
    task = make_task(seed, missing=0.2, new_classes=1)
    a, b = twins(task, method, refresh_every=7)
    expected = a.predict_then_learn(task.X, task.y)
    np.testing.assert_array_equal(
        b.predict_then_learn(task.X, task.y, np.ones(len(task.y))), expected
    )
    assert_same_state(a.learner_.arrays(), b.learner_.arrays())


@pytest.mark.parametrize("method", METHODS)
@given(seeds)
@law(4)
def test_a_weight_of_zero_is_a_missing_label(method, seed):
    task = make_task(seed, new_classes=1)
    keep = np.random.default_rng(seed).random(len(task.y)) < 0.6
    blank = np.where(keep, task.y, None)
    a, b, c = twins(task, method, 3, refresh_every=7)
    expected = a.predict_then_learn(task.X, blank)
    np.testing.assert_array_equal(
        b.predict_then_learn(task.X, task.y, keep.astype(float)), expected
    )
    assert_same_state(a.learner_.arrays(), b.learner_.arrays())
    np.testing.assert_array_equal(a.classes_, b.classes_)
    for x, label, kept in zip(task.X, task.y, keep, strict=True):
        c.learn_one(x, label, weight=float(kept))
    assert_close_state(c.learner_.arrays(), a.learner_.arrays())


@pytest.mark.parametrize("method", METHODS)
@given(seeds, st.booleans())
@law(5)
def test_one_by_one_is_any_blocks_with_weights(method, seed, sparse):
    task = make_task(seed, sparse=sparse, missing=0.2, new_classes=1)
    weight = drawn(seed, len(task.y))
    a, b, c = twins(task, method, 3, refresh_every=7)
    expected = a.predict_then_learn(task.X, task.y, weight)
    learn = b.partial_fit if method in PAPER else b.predict_then_learn  # labels are known at once
    learn(task.X[:19], task.y[:19], sample_weight=weight[:19])
    learn(task.X[19:], task.y[19:], sample_weight=weight[19:].tolist())
    assert_close_state(b.learner_.arrays(), a.learner_.arrays())
    np.testing.assert_array_equal(one_by_one(c, task.X, task.y, weight), expected)
    assert_close_state(c.learner_.arrays(), a.learner_.arrays())


@pytest.mark.parametrize("method", METHODS)
def test_mistakes_losses_and_bounds_count_every_label_as_one(method):
    task = make_task(3, missing=0.2)
    (clf,) = twins(task, method, 1)
    weight = 5 * drawn(3, len(task.y), zeros=0.0) + 0.1
    predictions = clf.predict_then_learn(task.X, task.y, weight)
    labelled = np.array([label is not None for label in task.y])
    assert clf.seen_ == labelled.sum()
    assert clf.mistakes_ == (predictions[labelled] != task.y[labelled]).sum()
    assert (clf.learner_.state["expert_mistakes"] <= clf.seen_).all()
    loss = clf.mistakes_ if clf.guarantee_.startswith("mistakes") else clf.hedge_loss_
    assert loss <= clf.bound_ + 1e-9


def test_the_moments_are_those_of_rows_counted_so_many_times():
    task = make_task(5)
    (clf,) = twins(task, "oddm", 1, preprocess=(), refresh_every=1000)
    before = copy.deepcopy(clf.learner_.target)
    times = np.random.default_rng(0).integers(0, 4, len(task.y))
    clf.partial_fit(task.X, task.y, sample_weight=times)
    after = clf.learner_.target
    codes = np.searchsorted(clf.classes_, task.y)
    counts, totals = class_sums(np.repeat(task.X, times, axis=0), np.repeat(codes, times), 3)
    np.testing.assert_allclose(after.class_counts, counts)
    np.testing.assert_allclose(after.class_totals, totals, atol=1e-12)
    np.testing.assert_allclose(after.total, before.total + totals.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(after.count, before.count + counts.sum())


@pytest.mark.parametrize("bad", ["heavy", [1.0, 2.0], [[1.0]]])
def test_bad_weights_are_refused_and_nothing_changes(bad):
    task = make_task(0)
    clf, twin = twins(task, "oddm")
    message = "sample_weight"
    with pytest.raises(InputError, match=message):
        clf.learn_one(task.X[0], task.y[0], weight=bad)
    for call in (clf.partial_fit, clf.predict_then_learn):
        with pytest.raises(InputError, match=message):
            call(task.X[:1], task.y[:1], sample_weight=bad)
    assert_same_state(clf.learner_.arrays(), twin.learner_.arrays())
