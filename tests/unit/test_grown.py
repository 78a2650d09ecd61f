"""Laws of a start without sources: its trees grow from own rows, and labels alone decide when."""

from __future__ import annotations

import copy
import time

import numpy as np
import pandas as pd
import pytest
from support.live_models import assert_same_model

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.core.errors import InputError
from hedgerow.fleet import Base
from hedgerow.live import LiveModel, Settings
from hedgerow.ridge import grown

HEADS = ["kernel: target only", "free: target only", "near input: target only", "last label"]
EVERY = [*HEADS, grown.HEAD, "class frequencies"]


def rows(seed, n):
    """A table whose classes are stripes, with a category and with gaps."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, size=(2, n))
    kind = rng.choice(["oak", "ash", "elm"], size=n)
    y = np.where(kind == "elm", "c", np.where(np.floor(3 * a) % 2 == 0, "a", "b")).astype(object)
    X = pd.DataFrame({"a": a, "b": np.where(rng.random(n) < 0.1, np.nan, b), "kind": kind})
    return X, y


def cold(seed=0, **options):
    clf = OnlineTransferClassifier(classes=["a", "b", "c"], **options)
    return clf.fit_domains([], Domain("t", rows(seed, 60)[0]))


def test_trees_of_own_rows_find_what_no_line_finds():
    X, y = rows(1, 600)
    clf = cold()
    assert clf.expert_names_ == EVERY
    wrong = clf.predict_then_learn(X, y) != y
    assert wrong[300:].mean() < 0.15
    assert clf.mistakes_ == wrong.sum() <= clf.bound_
    plain = cold(trees=False)
    assert grown.HEAD not in plain.expert_names_
    plain.predict_then_learn(X, y)
    assert clf.mistakes_ < plain.mistakes_ - 20


@pytest.mark.parametrize("cut", [1, 7, 33, 200])
def test_blocks_give_what_rows_give_to_the_last_bit(cut):
    X, y = rows(2, 200)
    y[::9] = None
    one = cold()
    many = cold()
    numbers = one.as_matrix(X)
    for x, label in zip(numbers, y, strict=True):
        one.predict_one(x)
        one.learn_one(x, label)
    for begin in range(0, len(y), cut):
        many.predict_then_learn(X[begin : begin + cut], y[begin : begin + cut])
    assert_same_model(one, many)
    np.testing.assert_array_equal(one.predict_proba(X), many.predict_proba(X))


@pytest.mark.parametrize("n", [31, 32, 35, 36, 100])
def test_a_file_written_while_a_fit_is_under_way_goes_on_the_same(n):
    X, y = rows(3, 160)
    clf = cold()
    clf.partial_fit(X[:n], y[:n])
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    twin = copy.deepcopy(clf)
    said = [m.predict_then_learn(X[n:], y[n:]) for m in (clf, again, twin)]
    np.testing.assert_array_equal(said[0], said[1])
    np.testing.assert_array_equal(said[0], said[2])
    assert_same_model(clf, again)
    assert clf.to_bytes() == again.to_bytes() == twin.to_bytes()


def test_a_fit_that_takes_long_is_waited_for(monkeypatch):
    X, y = rows(4, 80)
    quick = cold()
    quick.predict_then_learn(X, y)
    fitted = grown.fitted

    def slow(*arguments):
        time.sleep(0.3)
        return fitted(*arguments)

    monkeypatch.setattr(grown, "fitted", slow)
    late = cold()
    late.predict_then_learn(X, y)
    assert_same_model(quick, late)


def test_rows_are_bounded_and_the_newest_stay(monkeypatch):
    monkeypatch.setattr(grown, "MOST", 64)
    X, y = rows(5, 400)
    one, many = cold(), cold()
    one.predict_then_learn(X, y)
    for begin in range(0, 400, 11):
        many.predict_then_learn(X[begin : begin + 11], y[begin : begin + 11])
    state = one.learner_.stored()
    assert len(state["grown.y"]) < grown.due(64)
    own = one.as_matrix(X)[-len(state["grown.y"]) :]
    np.testing.assert_array_equal(state["grown.rows"], np.nan_to_num(own))
    assert_same_model(one, many)
    OnlineTransferClassifier.from_bytes(one.to_bytes())


def test_a_live_model_that_stops_anywhere_goes_on_as_one_that_did_not(tmp_path):
    X, y = rows(6, 120)
    steady = LiveModel.create(tmp_path / "a", cold(), Settings(snapshot_every=33))
    shaken = LiveModel.create(tmp_path / "b", cold(), Settings(snapshot_every=33))
    for begin in range(0, 120, 8):
        for live in (steady, shaken):
            live.predict_then_learn(X[begin : begin + 8], list(y[begin : begin + 8]))
        if begin % 24 == 0:
            shaken._let_go()  # without the snapshot of a proper end
            shaken = LiveModel.open(tmp_path / "b")
    assert_same_model(steady.clf, shaken.clf)
    steady.close()
    shaken.close()


def test_a_damaged_state_of_own_rows_is_refused():
    X, y = rows(7, 60)
    clf = cold().partial_fit(X, y)
    learner = clf.learner_
    for name, array in (
        ("grown.next", np.array([48])),
        ("grown.gaps", np.array([10**6])),
        ("grown.y", np.full(60, 9)),
        ("grown.trees.label", learner.stored()["grown.trees.label"] + 3),
    ):
        with pytest.raises(InputError):
            learner.plan.layout().check(
                learner.constants,
                learner.stored() | {name: array},
                {"K": 3, "m": clf.n_features_in_},
            )


def test_a_fleet_refuses_it_by_name():
    with pytest.raises(InputError, match=r"trees of own rows'.*trees=False"):
        Base(cold())
    Base(cold(trees=False))


def test_nothing_grows_where_columns_are_many_or_of_one_kind():
    pixels = np.random.default_rng(0).random((80, 64))
    clf = OnlineTransferClassifier().fit_domains([], Domain("t", pixels))
    assert clf.expert_names_ == [*HEADS, "class frequencies"]
    with pytest.raises(InputError, match="trees take at most"):
        OnlineTransferClassifier(trees=True).fit_domains([], Domain("t", np.ones((3, 40_000))))
