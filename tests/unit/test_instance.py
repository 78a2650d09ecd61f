"""Laws of the path of one row: what a block gives, whatever comes between a prediction and its label."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import METHODS, assert_close_state, fitted, law, make_task, projections, seeds


def disturb(clf, rng, x, task):
    """Anything that must not matter between a prediction and its label."""
    what = rng.integers(0, 8)
    if what == 0:
        clf.predict_one(task.X[0])
    elif what == 1:
        clf.predict(task.X[:3])
    elif what == 2:
        clf.learner_.arrays()
    elif what == 3:
        clf.explain_one(x)
    elif what == 4:
        clf.weights_, clf.discrepancy_, clf.bound_  # noqa: B018
    elif what == 5:  # a row that is changed after its prediction is another row
        buffer = 0.5 * x
        clf.predict_one(buffer)
        buffer[:] = x
        x = buffer
    elif what == 6:
        clf.predict_proba_one(x)
    return x


@pytest.mark.parametrize("method", METHODS)
@given(
    seeds,
    st.sampled_from([None, 0.8]),
    st.sampled_from(["scores", "vote"]),
    st.sampled_from([(), "zscore+unit"]),
)
@law(6)
def test_one_by_one_with_disturbances_is_a_block(method, seed, beta, combine, steps):
    task = make_task(seed, stream=60, missing=0.2, new_classes=1)
    clf = fitted(task, method, refresh_every=7, beta=beta, combine=combine, preprocess=steps)
    block = copy.deepcopy(clf)
    rng = np.random.default_rng(seed)
    predictions = []
    for x, label in zip(task.X, task.y, strict=True):
        predictions.append(clf.predict_one(x))
        clf.learn_one(disturb(clf, rng, x, task), label)
    np.testing.assert_array_equal(block.predict_then_learn(task.X, task.y), predictions)
    assert_close_state(clf.learner_.arrays(), block.learner_.arrays(), 1e-8)
    np.testing.assert_allclose(clf.weights_, block.weights_, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_predictions_change_no_bit_of_what_is_learned(method):
    """A model that is rebuilt from its labels alone must be the one that also answered questions."""
    task = make_task(4, stream=90, K=4)
    asked = fitted(task, method)
    silent = copy.deepcopy(asked)
    rng = np.random.default_rng(0)
    for x, label in zip(task.X, task.y, strict=True):
        silent.learn_one(x, label)
        for other in (*task.X[rng.integers(0, 90, rng.integers(0, 3))], x)[: rng.integers(0, 4)]:
            asked.predict_one(other)
        asked.predict(task.X[: rng.integers(1, 3)])
        asked.learn_one(x, label)
    expected = silent.learner_.stored()
    for name, array in asked.learner_.stored().items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_as_they_come(dtype):
    """Read-only, strided, of the other precision, whole numbers, lists, a buffer that is used again."""
    task = make_task(2, dtype=dtype, stream=40)
    X = np.round(task.X * 8).astype(dtype)
    clf = fitted(task, "oddm", refresh_every=5, dtype=dtype, preprocess=())
    expected = copy.deepcopy(clf).predict_then_learn(X, task.y)
    strided = np.asfortranarray(X)
    buffer = np.empty(X.shape[1], dtype=dtype)
    frozen = X.copy()
    frozen.setflags(write=False)
    kinds = [
        lambda i: X[i],
        lambda i: frozen[i],
        lambda i: strided[i],
        lambda i: X[i].astype("float32" if dtype == "float64" else "float64"),
        lambda i: X[i].astype(int),
        lambda i: X[i].tolist(),
        lambda i: np.copyto(buffer, X[i]) or buffer,
    ]
    got = []
    for i, label in enumerate(task.y):
        x = kinds[i % len(kinds)](i)
        got.append(clf.predict_one(x))
        clf.learn_one(x, label)
    np.testing.assert_array_equal(got, expected)


def test_a_long_live_stream_stays_with_the_replay():
    """Over many refreshes, with rounding kept from adding up in different ways."""
    task = make_task(8, stream=3000, K=3, m=5)
    clf = fitted(task, "oddm", refresh_every=2, mu=0.2)
    block = copy.deepcopy(clf)
    for x, label in zip(task.X, task.y, strict=True):
        clf.learn_one(x, label)
    block.partial_fit(task.X, task.y)
    np.testing.assert_allclose(projections(clf), projections(block), atol=1e-9)
    assert_close_state(clf.learner_.arrays(), block.learner_.arrays(), 1e-6)


def test_dense_rows_after_sparse_ones_find_the_means_in_their_order():
    task = make_task(6, sparse=True, stream=60)
    clf = fitted(task, "oddm")
    other = fitted(task, "oddm")
    X = task.X.toarray()
    clf.predict_then_learn(task.X[:20], task.y[:20])
    for x, label in zip(X[20:], task.y[20:], strict=True):
        clf.learn_one(x, label)
    other.predict_then_learn(X, task.y)
    assert_close_state(clf.learner_.arrays(), other.learner_.arrays())


@pytest.mark.parametrize("method", METHODS)
def test_a_block_explained_is_its_rows_explained(method):
    task = make_task(5, stream=40, K=4)
    block = fitted(task, method)
    rows = copy.deepcopy(block)
    found = block.explain_then_learn(task.X, task.y)
    for i, (x, label) in enumerate(zip(task.X, task.y, strict=True)):
        one = rows.explain_one(x)
        assert found.labels[i] == one.label
        known = len(one.probabilities)
        np.testing.assert_allclose(
            found.probabilities[i, :known], list(one.probabilities.values()), atol=1e-9
        )
        assert not found.probabilities[i, known:].any()
        np.testing.assert_allclose(found.weights[i], list(one.weights.values()), atol=1e-9)
        rows.learn_one(x, label)
    assert found.probabilities.shape == (40, len(block.classes_))
    assert block.explain_then_learn(task.X[:0], task.y[:0]).probabilities.shape == (
        0,
        len(block.classes_),
    )
