"""Reading a model changes and rebuilds nothing, and copies do not share what they learn."""

from __future__ import annotations

import numpy as np
import pytest
from support.laws import METHODS, assert_same_state, fitted, make_task

from hedgerow import spaces


def read_everything(clf, X):
    learner = clf.learner_
    return [
        clf.weights_, clf.discrepancy_, clf.bound_, clf.guarantee_, clf.mistakes_, clf.seen_, clf.hedge_loss_,
        clf.predict(X), clf.predict_proba(X), clf.decision_function(X), clf.predict_proba_one(X[0]),
        clf.constants_.digest, learner.arrays(), learner.weights, learner.target, learner.discrepancies(),
        [learner.projection(i) for i in range(learner.n_sources)],
    ]  # fmt: skip


@pytest.mark.parametrize("live", [True, False], ids=["rows", "blocks"])
@pytest.mark.parametrize("method", METHODS)
def test_reading_changes_nothing(method, live):
    """Every prediction and the state itself are the same to the last bit, whether or not somebody looks on."""
    task = make_task(3, stream=130)
    watched, alone = (fitted(task, method) for _ in range(2))
    shown = []
    for clf in (watched, alone):
        scores = []
        for t, (x, label) in enumerate(zip(task.X, task.y, strict=True)):
            if live:
                scores.append(list(clf.predict_proba_one(x).values()))
                clf.learn_one(x, label)
            else:
                clf.partial_fit(task.X[t : t + 1], [label])
                scores.append(clf.decision_function(task.X[:2]).ravel().tolist())
            if clf is watched:
                before = {name: array.copy() for name, array in clf.learner_.state.items()}
                read_everything(clf, task.X[:2])
                assert_same_state(clf.learner_.state, before)
        shown.append(scores)
    assert shown[0] == shown[1]
    assert_same_state(watched.learner_.arrays(), alone.learner_.arrays())


@pytest.mark.parametrize("looks", [True, False], ids=["watched", "alone"])
def test_reading_rebuilds_nothing(looks, monkeypatch):
    """The products that the next refresh needs are made once, however often somebody asks for the discrepancy."""
    made = []

    class Counted(spaces.LowRankRefresh):
        def __init__(self, *args, **kwargs):
            made.append(1)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(spaces, "LowRankRefresh", Counted)
    task = make_task(0, stream=120)
    clf = fitted(task, "oddm", refresh_every=10)
    for x, label in zip(task.X, task.y, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
        if looks:
            assert np.isfinite(clf.discrepancy_).all()
            read_everything(clf, task.X[:2])
    assert len(made) == 1


@pytest.mark.parametrize("method", ["oddm", "hedgerow"])
def test_a_copy_is_as_independent_as_it_looks(method):
    """Copies share the constants and a lock only with themselves: learning in one is not seen by the other."""
    from copy import deepcopy

    task = make_task(1)
    clf = fitted(task, method).partial_fit(task.X[:20], task.y[:20])
    twin = deepcopy(clf)
    before = twin.learner_.arrays()
    clf.partial_fit(task.X[20:], task.y[20:])
    assert_same_state(twin.learner_.arrays(), before)
    assert clf._lock is not twin._lock
