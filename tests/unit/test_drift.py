"""Drift: the same in blocks and rows, exact after save and load, alarms after changes and hardly ever without."""

from __future__ import annotations

import numpy as np
import pytest
from support.drifting import fitted
from support.laws import one_by_one

from hedgerow import InputError, OnlineTransferClassifier
from hedgerow.drift import EVERY, Change, DriftDetector, evidence

METHODS = ["hedgerow-linear", "oddm", "homotlms", "pa"]


def drift_arrays(clf) -> dict[str, np.ndarray]:
    return {
        name: array for name, array in clf.learner_.arrays().items() if name.startswith("drift.")
    }


def same(a, b) -> bool:
    first = drift_arrays(a)
    second = drift_arrays(b)
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name]) for name in first
    )


@pytest.mark.parametrize("method", METHODS)
def test_blocks_and_single_rows_agree(method):
    blocks, X, y = fitted(method)
    rows, _, _ = fitted(method)
    uneven, _, _ = fitted(method)
    blocks.predict_then_learn(X, y)
    for a, b in ((0, 7), (7, 100), (100, 101), (101, 420)):
        uneven.predict_then_learn(X[a:b], y[a:b])
    one_by_one(rows, X, y)
    assert blocks.mistakes_ == rows.mistakes_
    assert same(blocks, rows)
    assert same(blocks, uneven)
    assert repr(blocks.drift_) == repr(rows.drift_)


@pytest.mark.parametrize("method", METHODS)
def test_a_change_is_found_and_a_steady_stream_raises_no_alarm(method):
    changed, X, y = fitted(method)
    changed.predict_then_learn(X[:240], y[:240])
    assert changed.drift_.alarms == 0
    found = next(t for t in range(240, 420) if changed.learn_one(X[t], y[t]).drift_.detected)
    assert found < 240 + 6 * EVERY
    assert changed.drift_.last == found + 1
    steady, X, y = fitted(method, change=None)
    steady.predict_then_learn(X, y)
    assert steady.drift_.alarms == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("at", [33, 250, 300])
def test_saved_and_loaded_it_goes_on_exactly(method, at):
    clf, X, y = fitted(method)
    clf.predict_then_learn(X[:at], y[:at])
    again = OnlineTransferClassifier.from_bytes(clf.to_bytes())
    assert same(clf, again)
    for one in (clf, again):
        one.predict_then_learn(X[at:], y[at:])
    assert same(clf, again)
    assert clf.drift_.alarms == again.drift_.alarms > 0


def test_a_row_without_a_label_says_nothing():
    clf, X, y = fitted("hedgerow-linear")
    clf.predict_then_learn(X[:100], y[:100])
    before = drift_arrays(clf)
    clf.partial_fit(X[100:160], [None] * 60)
    assert all(np.array_equal(before[name], array) for name, array in drift_arrays(clf).items())


# -- the rule itself --------------------------------------------------------------------------------------------


def alarms(wrong, experts=None) -> list[int]:
    detector = DriftDetector(0 if experts is None else experts.shape[1])
    found = []
    for t, x in enumerate(wrong):
        detector.update(x, () if experts is None else experts[t])
        if detector.drift_detected:
            found.append(t + 1)
    return found


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_few_false_alarms_on_steady_mistakes(rate):
    rng = np.random.default_rng(1)
    assert sum(len(alarms(rng.random(2000) < rate)) for _ in range(10)) <= 2


def test_a_learner_that_improves_raises_no_alarm_and_a_late_change_is_found():
    rng = np.random.default_rng(2)
    rates = np.r_[np.linspace(0.6, 0.05, 400), np.full(600, 0.05), np.full(200, 0.35)]
    found = alarms(rng.random(len(rates)) < rates)
    assert found
    assert 1000 < found[0] < 1100


def test_the_comparator_explains_less_than_a_bad_mixture():
    """The prediction was always bad, an expert was good: a change is judged by the expert."""
    rng = np.random.default_rng(3)
    wrong = rng.random(400) < 0.2
    expert = rng.random((400, 1)) < 0.02
    assert alarms(wrong) == []
    assert alarms(wrong, expert) != []


def test_an_alarm_keeps_the_numbers_of_its_window():
    detector = DriftDetector()
    assert detector.drift_.change is None
    for t in range(600):
        detector.update(t % 10 == 0 if t < 400 else t % 2 == 0)
    drift = detector.drift_
    assert (drift.alarms, drift.last) == (1, 432)
    assert drift.change == Change(evidence(40, 400, 16, 32), 32, recent=0.5, explained=0.1)
    assert drift.change.evidence > detector.threshold


def test_evidence_is_symmetric_in_its_sign_and_zero_for_equal_rates():
    assert evidence(5, 50, 10, 100) == pytest.approx(0)
    assert evidence(0, 50, 0, 10) == 0
    assert evidence(2, 50, 9, 50) == pytest.approx(-evidence(9, 50, 2, 50))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DriftDetector(experts=-1), "experts=-1"),
        (lambda: DriftDetector(threshold=0), "threshold=0"),
        (lambda: DriftDetector().update(0.5), "1 or True"),
        (lambda: DriftDetector(experts=2).update(1, [0]), "2 experts"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_in_river_it_is_a_drift_detector():
    base = pytest.importorskip("river.base", reason="pip install river")
    from river.drift import DriftRetrainingClassifier
    from river.tree import HoeffdingTreeClassifier

    from hedgerow.river import MistakesDrift

    detector = MistakesDrift()
    assert isinstance(detector, base.DriftDetector)
    wrong = [t % 10 == 0 if t < 400 else t % 2 == 0 for t in range(600)]
    found = []
    for t, x in enumerate(wrong):
        detector.update(x)
        if detector.drift_detected:
            found.append(t + 1)
    assert found == alarms(wrong) == [432]
    fresh = detector.clone()
    assert (fresh.drift_.alarms, fresh.threshold) == (0, detector.threshold)
    model = DriftRetrainingClassifier(HoeffdingTreeClassifier(), drift_detector=MistakesDrift())
    for t in range(60):
        model.learn_one({"a": t % 7}, t % 2)


def test_river_is_not_imported_by_the_detector():
    import subprocess
    import sys

    code = "import sys, hedgerow.drift; print('river' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
