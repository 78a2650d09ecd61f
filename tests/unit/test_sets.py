"""Prediction sets of the classifier: the rule and its bound, the same in blocks, rows, files, copies and fleets."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.laws import METHODS, fitted, law, make_task

from hedgerow import OnlineTransferClassifier, coverage
from hedgerow.core.errors import InputError
from hedgerow.fleet import Fleet

LEVELS = (0.9, 0.6)


def bound(level, T):
    """Misses that the rule allows in T labels, in the letters of `hedgerow.coverage`."""
    alpha = 1 - level
    return alpha * T + alpha / coverage.STEP + 1 - alpha


@law(100)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 6),
    st.sampled_from([0.5, 0.8, 0.9, 0.99]),
    st.integers(0, 3),
)
def test_misses_stay_below_the_bound_on_any_sequence(seed, K, level, kind):
    """Labels: the class of least probability that is outside the set, of most, at random, in bursts."""
    rng = np.random.default_rng(seed)
    T = 400
    state = coverage.initial([level])
    misses = 0
    for t in range(T):
        p = rng.dirichlet(np.full(K, 10.0 ** rng.uniform(-2, 1)))
        q = state[coverage.QUANTILE][0]
        inside = coverage.sets(q, p[None], np.array([p.argmax()]))[0]
        assert inside[p.argmax()]
        assert q < 1 or inside.all()
        outside = np.flatnonzero(~inside)
        hostile = kind < 2 or (kind == 3 and t % 100 > 50)
        if hostile and len(outside):
            label = outside[p[outside].argmin() if kind == 0 else p[outside].argmax()]
        else:
            label = rng.integers(K)
        misses += not inside[label]
        coverage.learned(state, p[None], np.array([p.argmax()]), np.array([label]))
        assert misses <= bound(level, t + 1) + 1e-9
    assert state[coverage.COUNTS][0].tolist()[:2] == [T, T - misses]


def test_the_bound_is_reached_up_to_one_miss():
    state = coverage.initial([0.9])
    misses = 0
    T = 1000
    p = np.array([[1.0, 0.0]])
    for _ in range(T):
        label = 0 if coverage.sets(state[coverage.QUANTILE][0], p, np.array([0]))[0, 1] else 1
        misses += label
        coverage.learned(state, p, np.array([0]), np.array([label]))
    assert bound(0.9, T) - 1 < misses <= bound(0.9, T)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_are_rows_and_the_counts_are_those_of_the_sets(method):
    task = make_task(1, K=3, stream=120, missing=0.2)
    plain = fitted(task, method).predict_then_learn(task.X, task.y)
    clf = fitted(task, method, coverage=LEVELS)
    rows = copy.deepcopy(clf)
    blocks = clf.predict_then_learn(task.X, task.y)
    np.testing.assert_array_equal(blocks, plain)  # sets change no prediction
    inside = dict.fromkeys(LEVELS, 0)
    sizes = dict.fromkeys(LEVELS, 0)
    labels = 0
    for x, y in zip(task.X, task.y, strict=True):
        for level in LEVELS if y is not None else ():
            members = rows.predict_set_one(x, level)
            assert rows.predict_one(x) in members
            whole = rows.predict_set(x[None], level)[0]
            assert set(rows.classes_[whole]) == set(members)
            inside[level] += y in members
            sizes[level] += len(members)
        labels += y is not None
        rows.learn_one(x, y)
    for each in (clf, rows):
        assert each.coverage_ == {level: inside[level] / labels for level in LEVELS}
        assert each.set_size_ == {level: sizes[level] / labels for level in LEVELS}
        assert all(
            labels * (1 - share) <= bound(level, labels) for level, share in each.coverage_.items()
        )


@law(15)
@given(
    st.integers(0, 99),
    st.sampled_from(["hedgerow", "pa", "homotl-1", "oddm"]),
    st.lists(st.integers(1, 79)),
)
def test_any_cut_files_and_copies_go_on_alike(seed, method, cuts):
    task = make_task(seed, K=4, stream=80, missing=0.1, new_classes=1)
    clf = fitted(task, method, coverage=LEVELS)
    cut = copy.deepcopy(clf)
    clf.partial_fit(task.X, task.y)
    for part in np.split(np.arange(80), sorted(set(cuts))):
        cut.partial_fit(task.X[part], task.y[part])
        cut = OnlineTransferClassifier.from_bytes(cut.to_bytes())
    assert cut.coverage_ == clf.coverage_
    assert cut.set_size_ == clf.set_size_
    np.testing.assert_array_equal(cut.predict_set(task.X, 0.6), clf.predict_set(task.X, 0.6))
    again = OnlineTransferClassifier(**cut.get_params(deep=False))
    assert tuple(again.coverage) == LEVELS


@pytest.mark.parametrize("method", ["hedgerow", "pa", "oddm"])
def test_a_class_met_for_the_first_time_is_not_counted(method):
    task = make_task(0, stream=30)
    clf = fitted(task, method, coverage=0.9).partial_fit(task.X, task.y)
    quantile, counts = (
        clf.learner_.state[name].copy() for name in (coverage.QUANTILE, coverage.COUNTS)
    )
    clf.learn_one(task.X[0], "new")
    clf.partial_fit(task.X[1:2], ["newer"])
    clf.partial_fit(task.X[1:2], [None])
    np.testing.assert_array_equal(clf.learner_.state[coverage.QUANTILE], quantile)
    np.testing.assert_array_equal(clf.learner_.state[coverage.COUNTS], counts)
    assert clf.predict_set(task.X[:2]).shape == (2, 5)
    clf.learn_one(task.X[0], "new")
    assert clf.learner_.state[coverage.COUNTS][0, 0] == counts[0, 0] + 1


def test_a_coverage_that_is_not_tracked_is_refused_by_name():
    task = make_task(0)
    clf = fitted(task, "pa", coverage=LEVELS)
    with pytest.raises(InputError, match=r"coverage=0.8 is not tracked, 0.9, 0.6 is"):
        clf.predict_set(task.X, 0.8)
    with pytest.raises(InputError, match=r"no coverage is tracked; fit with coverage=0.8"):
        fitted(task, "pa").predict_set_one(task.X[0], 0.8)
    assert fitted(task, "pa").coverage_ == {}
    assert np.isnan(clf.set_size_[0.9])
    for bad in (0, 1, 1.5, "0.9", (), (0.9, 0.9), [True]):
        with pytest.raises(InputError, match="coverage="):
            OnlineTransferClassifier("pa", coverage=bad).fit(task.X, np.arange(len(task.y)) % 2)


def test_keys_of_a_fleet_have_sets_of_their_own(tmp_path):
    task = make_task(2, stream=60)
    rows = np.arange(60)
    with Fleet(task.sources, "hedgerow-linear", path=tmp_path / "fleet", coverage=0.9) as fleet:
        fleet.learn([int(t % 2) for t in rows], task.X, task.y)
        own = fitted(task._replace(warmup=None), "hedgerow-linear", coverage=0.9)
        own.partial_fit(task.X[::2], task.y[::2])
        assert fleet[0].coverage_ == own.coverage_
        np.testing.assert_array_equal(fleet[0].predict_set(task.X), own.predict_set(task.X))
    with Fleet.open(tmp_path / "fleet") as fleet:
        assert fleet[0].coverage_ == own.coverage_
