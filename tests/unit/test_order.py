"""The head that repeats the last label: what was known when a row was predicted, in blocks, late, and in a journal."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from hedgerow import InputError, OnlineTransferClassifier
from hedgerow.live import LiveModel, Settings
from hedgerow.ridge.plain import PlainLearner

LAST = "last label"


def rows_of(n: int, run: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows that say little of their labels, which come in runs."""
    rng = np.random.default_rng(seed)
    y = np.array(["low", "mid", "high"])[(np.arange(n) + rng.integers(0, 2, n)) // run % 3]
    X = rng.normal(size=(n, 5))
    X[:, 0] += 0.3 * (y == "low")
    return X, y


@pytest.fixture(scope="module")
def fitted() -> OnlineTransferClassifier:
    """Sources whose order means nothing."""
    X, y = rows_of(240, seed=1)
    mixed = np.random.default_rng(2).permutation(240)
    return OnlineTransferClassifier(random_state=0).fit(
        X[mixed], y[mixed], sample_domain=np.repeat([0, 1, -1], 80)
    )


@pytest.fixture
def clf(fitted):
    return copy.deepcopy(fitted)


def test_labels_that_come_in_runs_are_found(clf):
    X, y = rows_of(400)
    told = clf.predict_then_learn(X, y)
    last = np.append("mid", y[:-1])
    assert np.mean(told != y) < np.mean(last != y) + 0.03
    assert LAST in clf.expert_names_
    assert clf.explain_one(X[0]).votes[LAST] == clf.known_ == y[-1]
    assert clf.mistakes_ <= clf.bound_


def test_labels_without_an_order_cost_next_to_nothing(clf):
    X, y = rows_of(600, seed=3)
    mixed = np.random.default_rng(4).permutation(600)
    clf.predict_then_learn(X[mixed], y[mixed])
    repeats = np.mean(y[mixed][1:] == y[mixed][:-1])
    same, other, _ = clf.learner_.state["mix.order"]
    assert same / (same + other) == pytest.approx(repeats, abs=0.02)
    frequent = clf.learner_.state["mix.counts"] / clf.learner_.state["mix.counts"].sum()
    heads = clf.learner_.expert_scores(X[:1])[0]
    p = np.exp(8 * heads[clf.expert_names_.index(LAST)])
    np.testing.assert_allclose(p / p.sum(), frequent, atol=0.05)


def test_the_plain_learner_knows_the_same(clf):
    X, y = rows_of(120)
    codes = clf.codes_of(y)
    plain = PlainLearner(clf.learner_)
    immediate = clf.codes_of(copy.deepcopy(clf).predict_then_learn(X, y))
    assert [plain.step(x, k) for x, k in zip(X, codes, strict=True)] == immediate.tolist()
    plain = PlainLearner(clf.learner_)
    late = [-1] * 5 + codes[:-5].tolist()  # labels five rows late
    trace = copy.deepcopy(clf.learner_).run(X, codes, before=np.array(late))
    told = [plain.step(x, k, b) for x, k, b in zip(X, codes, late, strict=True)]
    assert told == trace.predictions.tolist()
    order = clf.learner_.copy()
    order.run(X, codes, before=np.array(late))
    np.testing.assert_array_equal(order.state["mix.order"], plain.mix["order"])


def test_no_row_of_a_call_knew_the_label_of_another(clf):
    X, y = rows_of(60)
    block, said, rows = (copy.deepcopy(clf) for _ in range(3))
    for some in np.split(np.arange(60), 6):
        known = block.known_
        block.partial_fit(X[some], y[some])
        said.partial_fit(X[some], y[some], known=known)
        for i in some:
            rows.learn_one(X[i], y[i], known=known)
    assert block.to_bytes() == said.to_bytes() == rows.to_bytes()
    assert block.known_ == y[-1]
    one_by_one = copy.deepcopy(clf)
    for x, label in zip(X, y, strict=True):
        one_by_one.learn_one(x, label)
    at_once = copy.deepcopy(clf)
    at_once.predict_then_learn(X, y)
    assert one_by_one.to_bytes() == at_once.to_bytes() != block.to_bytes()


def test_each_row_has_what_was_known_for_it(clf):
    X, y = rows_of(40)
    known = [None, math.nan, *y[:38]]
    block, rows = copy.deepcopy(clf), copy.deepcopy(clf)
    block.partial_fit(X, y, known=np.array(known, dtype=object))
    for x, label, told in zip(X, y, known, strict=True):
        rows.learn_one(x, label, known=math.nan if told is None else told)
    assert block.to_bytes() == rows.to_bytes()
    with pytest.raises(InputError, match="known has 3 labels for 40 rows; give one, or one a row"):
        block.partial_fit(X, y, known=["low"] * 3)
    assert block.to_bytes() == rows.to_bytes()
    never = copy.deepcopy(rows).learn_one(X[0], y[0], known="never met")
    assert never.to_bytes() == rows.learn_one(X[0], y[0], known=math.nan).to_bytes()


def test_a_missing_label_is_no_label_and_a_new_class_is_one(clf):
    X, y = rows_of(30)
    clf.predict_then_learn(X, y)
    before = clf.known_, clf.learner_.state["mix.order"].copy()
    clf.learn_one(X[0], None)
    assert clf.known_ == before[0]
    np.testing.assert_array_equal(clf.learner_.state["mix.order"], before[1])
    clf.learn_one(X[0], "new")
    assert clf.known_ == "new"
    assert clf.predict_proba(X[:2]).shape == (2, 4)
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert again.known_ == "new"


def test_methods_without_such_a_head_know_none():
    clf = OnlineTransferClassifier("pa").partial_fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    twin = copy.deepcopy(clf)
    assert math.isnan(clf.known_)
    clf.learn_one([1.0, 0.5], "a", known="b")
    assert clf.to_bytes() == twin.learn_one([1.0, 0.5], "a").to_bytes()


@pytest.mark.parametrize("delay", [1, 4])
def test_a_journal_learns_late_labels_with_what_was_known(clf, tmp_path, delay):
    X, y = rows_of(50)
    twin = copy.deepcopy(clf)
    told = []
    with LiveModel.create(tmp_path / "live", clf, Settings(snapshot_every=16)) as live:
        for i in range(50):
            told.append(twin.known_)
            assert live.predict(X[i], str(i)).label == twin.predict_one(X[i])
            if i >= delay:
                j = i - delay
                live.label(str(j), str(y[j]))
                twin.learn_one(X[j], y[j], known=told[j])
        pending = [(str(j), str(y[j])) for j in range(50 - delay, 50)]
        arrays = live.clf.learner_.stored()
        for name, array in twin.learner_.stored().items():
            np.testing.assert_allclose(arrays[name], array, err_msg=name, rtol=1e-9, atol=1e-12)
        before = live.to_bytes()
    with LiveModel.open(tmp_path / "live") as live:
        assert live.to_bytes() == before
        live.label_many(pending[::-1])  # learned in the order of their events
        assert live.clf.known_ == y[-1]
        after = live.to_bytes()
    with LiveModel.open(tmp_path / "live") as live:
        assert live.to_bytes() == after


def test_the_newest_row_that_has_a_label_counts_not_the_last_arrival(clf, tmp_path):
    X, _ = rows_of(12)
    labels = ["low", "mid", "high"] * 4
    with LiveModel.create(tmp_path / "live", clf, Settings(snapshot_every=3)) as live:
        for i in range(12):
            live.predict(X[i], str(i))
        for i, newest in ((7, 7), (2, 7), (9, 9), (0, 9), (3, 9)):
            live.label(str(i), labels[i])
            assert live.clf.known_ == labels[newest]
        before = live.to_bytes()
    with LiveModel.open(tmp_path / "live") as live:
        assert live.to_bytes() == before
        live.label("5", labels[5])
        assert live.clf.known_ == labels[9]
        live.label("11", labels[11])
        assert live.clf.known_ == labels[11]


def test_another_model_goes_on_with_its_own_and_what_waits_keeps_what_was_known(clf, tmp_path):
    X, y = rows_of(30)
    other = copy.deepcopy(clf).partial_fit(X[:3], ["low", "low", "mid"])
    with LiveModel.create(tmp_path / "live", clf) as live:
        live.predict_then_learn(X[:5], [str(label) for label in y[:5]])
        known = live.clf.known_
        live.predict(X[5], "waits")
        live.replace(other.to_bytes(), reason="test")
        assert live.clf.known_ == "mid"
        live.label("waits", "high")
        twin = copy.deepcopy(other).learn_one(X[5], "high", known=known)
        np.testing.assert_array_equal(
            live.clf.learner_.state["mix.order"], twin.learner_.state["mix.order"]
        )
        before = live.to_bytes()
    with LiveModel.open(tmp_path / "live") as live:
        assert live.to_bytes() == before
