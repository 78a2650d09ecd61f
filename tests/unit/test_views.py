"""No view of a caller's array is kept: whatever happens to it afterwards, the model is what it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from support.laws import METHODS, assert_same_state, make_task, state_of

from hedgerow import Domain, OnlineTransferClassifier

STEPS = [(), "zscore+unit"]


def parts(X):
    return [X.data, X.indices, X.indptr] if hasattr(X, "indptr") else [X]


def spoil(*arrays):
    """Overwrite what the caller owns; indices only turn round, so that the matrix stays one."""
    for array in arrays:
        for part in parts(array):
            if part.dtype.kind == "f":
                part[...] = 1e3 * np.arange(1, part.size + 1).reshape(part.shape)
            elif part.dtype.kind == "O" or part.dtype.kind == "U":
                part[...] = "spoiled"


def assert_nothing_shared(clf, *arrays):
    for name, kept in clf.learner_.arrays().items():
        for array in arrays:
            assert not any(np.shares_memory(kept, part) for part in parts(array)), name


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_arrays_of_fit_domains_may_change(method, steps, sparse):
    task = make_task(3, sparse=sparse)
    own = [(d.X.copy(), d.y.copy()) for d in task.sources], task.warmup.X.copy()
    sources = [Domain(f"s{i}", X, y) for i, (X, y) in enumerate(own[0])]
    clf = OnlineTransferClassifier(method, preprocess=steps).fit_domains(
        sources, Domain("t", own[1])
    )
    twin = copy.deepcopy(clf)
    assert_nothing_shared(clf, own[1], *(X for X, _ in own[0]))
    spoil(own[1], *(array for pair in own[0] for array in pair))
    assert clf.classes_.tolist() == twin.classes_.tolist()
    np.testing.assert_array_equal(
        clf.predict_then_learn(task.X, task.y), twin.predict_then_learn(task.X, task.y)
    )
    assert_same_state(state_of(clf), state_of(twin))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_arrays_of_fit_and_of_blocks_may_change(method, steps, sparse):
    task = make_task(4, sparse=sparse)
    clf, twin = (OnlineTransferClassifier(method, preprocess=steps) for _ in range(2))
    domain = np.arange(len(task.y)) % 3 - 1
    X = task.X.copy()
    y = task.y.copy()
    weight = np.ones(len(task.y))
    clf.fit(X, y, sample_domain=domain, sample_weight=weight)
    twin.fit(task.X, task.y, sample_domain=domain.copy(), sample_weight=weight.copy())
    assert_nothing_shared(clf, X)
    spoil(X, y, weight)
    domain[:] = -1
    for cut in (0, 20, 40):
        X = task.X[cut : cut + 10].copy()
        y = task.y[cut : cut + 10].copy()
        weight = np.full(10, 0.5)
        clf.partial_fit(X, y, sample_weight=weight)
        twin.partial_fit(
            task.X[cut : cut + 10], task.y[cut : cut + 10], sample_weight=weight.copy()
        )
        spoil(X, y, weight)
        X = task.X[cut : cut + 10].copy()
        np.testing.assert_array_equal(clf.predict(X), twin.predict(task.X[cut : cut + 10]))
        spoil(X)
    np.testing.assert_array_equal(clf.predict(task.X), twin.predict(task.X))
    assert_same_state(state_of(clf), state_of(twin))


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_one_buffer_for_all_rows(method, steps):
    """A row read from a device comes in the same buffer each time, and a late label brings another row into it."""
    task = make_task(5)
    clf = OnlineTransferClassifier(method, preprocess=steps).fit_domains(task.sources, task.warmup)
    twin = copy.deepcopy(clf)
    buffer = np.empty(task.X.shape[1])
    for i in range(1, len(task.X)):
        buffer[:] = task.X[i - 1]
        assert clf.predict_one(buffer) == twin.predict_one(task.X[i - 1].copy())
        buffer[:] = task.X[i]
        clf.learn_one(buffer, task.y[i])
        twin.learn_one(task.X[i].copy(), task.y[i])
        if i % 5 == 0:
            buffer[:] = task.X[i - 1]
            clf.predict_proba_one(buffer)
            buffer[:] = 1e3
    np.testing.assert_array_equal(clf.predict_proba(task.X), twin.predict_proba(task.X))
    assert clf.mistakes_ == twin.mistakes_
    assert_same_state(state_of(clf), state_of(twin))


@pytest.mark.parametrize("method", ["oddm", "hedgerow"])
def test_one_row_of_a_block_in_the_same_buffer(method):
    task = make_task(6)
    clf = OnlineTransferClassifier(method, preprocess=()).fit_domains(task.sources, task.warmup)
    twin = copy.deepcopy(clf)
    buffer = np.empty((1, task.X.shape[1]))
    for i in range(1, 30):
        buffer[:] = task.X[i - 1]
        clf.predict(buffer)
        buffer[:] = task.X[i]
        clf.partial_fit(buffer, task.y[[i]])
        twin.partial_fit(task.X[[i]], task.y[[i]])
    np.testing.assert_allclose(clf.predict_proba(task.X), twin.predict_proba(task.X), atol=1e-12)
