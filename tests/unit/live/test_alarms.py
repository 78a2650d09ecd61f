"""The alarm of drift: raised when `clf.drift_` finds a change, shown for a while, gone again, kept over a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.drifting import fitted

from hedgerow import OnlineTransferClassifier
from hedgerow.drift import LONGEST, THRESHOLD
from hedgerow.live import LiveModel, Settings

CHANGE = 240
LENGTH = 1000
METHODS = ["oddm", "hedgerow-linear"]


def drift_of(live):
    """The alarm, or None."""
    found = [alarm for alarm in live.alarms() if alarm["rule"] == "drift"]
    assert len(found) <= 1
    return found[0] if found else None


def live_model(folder, method="oddm", change=CHANGE, **settings):
    clf, X, y = fitted(method, change, n=LENGTH)
    return LiveModel.create(folder, clf, Settings(sync="normal", **settings)), X, y


def until_raised(live, X, y, begin=CHANGE):
    """Row by row until the alarm is there: the alarm, the event whose label raised it, and how many rows that took."""
    for t in range(begin, len(y)):
        (answer,) = live.predict_then_learn(X[t : t + 1], y[t : t + 1])
        if alarm := drift_of(live):
            return alarm, answer.number, t + 1
    raise AssertionError("no alarm")


@pytest.mark.parametrize("method", METHODS)
def test_a_change_raises_it_with_its_numbers_and_a_remedy(method, tmp_path):
    live, X, y = live_model(tmp_path / "live", method)
    with live:
        live.predict_then_learn(X[:CHANGE], y[:CHANGE])
        assert drift_of(live) is None
        alarm, number, labels = until_raised(live, X, y)
        change = live.clf.drift_.change
        assert live.clf.drift_.last == labels
        assert labels < CHANGE + 100
        assert alarm["since"] == number
        assert alarm["values"]["label"] == labels
        assert alarm["values"]["evidence"] == change.evidence > THRESHOLD
        assert change.recent > change.explained
        for words in (
            f"label {labels}",
            f"{change.recent:.0%}",
            f"{change.explained:.0%}",
            f"{change.evidence:.1f}",
        ):
            assert words in alarm["text"]
        assert "fit again" in alarm["text"]


@pytest.mark.parametrize("method", METHODS)
def test_a_steady_target_raises_none(method, tmp_path):
    live, X, y = live_model(tmp_path / "live", method, change=None)
    with live:
        for a in range(0, 600, 20):
            live.predict_then_learn(X[a : a + 20], y[a : a + 20])
            assert drift_of(live) is None


@pytest.mark.parametrize("method", METHODS)
def test_it_stays_unchanged_for_so_many_labels_and_goes(method, tmp_path):
    live, X, y = live_model(tmp_path / "live", method)
    with live:
        live.predict_then_learn(X[:CHANGE], y[:CHANGE])
        first, _, at = until_raised(live, X, y)
        seen = {}
        while at < LENGTH - 5:
            live.predict_then_learn(X[at : at + 5], y[at : at + 5])
            at += 5
            seen[at] = drift_of(live)
        last = live.clf.drift_.last
        assert last + LONGEST < LENGTH - 5
        assert all(
            (alarm is not None) == (now - last < LONGEST)
            for now, alarm in seen.items()
            if now >= last
        )
        assert all(alarm is not None for now, alarm in seen.items() if now < last)
        texts = {alarm["text"] for alarm in seen.values() if alarm is not None} | {first["text"]}
        assert len(texts) == live.clf.drift_.alarms  # one that stays says the same all the time


def test_unlabelled_events_do_not_wear_it_out(tmp_path):
    live, X, y = live_model(tmp_path / "live")
    with live:
        live.predict_then_learn(X[:CHANGE], y[:CHANGE])
        alarm, _, at = until_raised(live, X, y)
        live.predict(X[:190])
        live.predict_then_learn(X[at : at + 1], y[at : at + 1])
        live.predict(X[190:380])
        assert drift_of(live) == alarm


@pytest.mark.parametrize("snapshot_every", [10, 5000])
def test_after_a_crash_it_is_the_same(snapshot_every, tmp_path):
    live, X, y = live_model(tmp_path / "live", snapshot_every=snapshot_every)
    live.predict_then_learn(X[:CHANGE], y[:CHANGE])
    _, _, at = until_raised(live, X, y)
    live.predict_then_learn(X[at : at + 30], y[at : at + 30])
    alarm = drift_of(live)
    live._snapshots.wait()
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    (tmp_path / "crashed" / "lock").unlink()
    live.close()
    for folder in ("crashed", "live"):
        with LiveModel.open(tmp_path / folder) as again:
            assert drift_of(again) == alarm


def test_within_a_block_it_names_the_event_whose_label_raised_it(tmp_path):
    rows, X, y = live_model(tmp_path / "rows")
    block, _, _ = live_model(tmp_path / "block")
    with rows, block:
        rows.predict_then_learn(X[:CHANGE], y[:CHANGE])
        _, _, at = until_raised(rows, X, y)
        truth = [None, *y.tolist()]  # a row without a label counts as an event and not as a label
        answers = block.predict_then_learn(np.vstack([X[:1], X])[: at + 41], truth[: at + 41])
        alarm = drift_of(block)
        assert alarm["values"]["label"] == at
        assert alarm["since"] == answers[at].number


def test_late_labels_raise_it_too(tmp_path):
    live, X, y = live_model(tmp_path / "live")
    with live:
        live.predict_then_learn(X[:CHANGE], y[:CHANGE])
        asked = live.predict(X[CHANGE : CHANGE + 128])
        for a in range(0, 128, 16):
            group = asked[a : a + 16]
            live.label_many(
                zip(
                    [one.id for one in group], y[CHANGE + a : CHANGE + a + 16].tolist(), strict=True
                )
            )
            if alarm := drift_of(live):
                break
        assert alarm is not None
        assert alarm["since"] == group[-1].number  # windows end at multiples of 16 labels


def test_it_is_the_same_when_its_event_is_no_longer_kept(tmp_path):
    live, X, y = live_model(tmp_path / "live", keep_events=0)
    with live:
        live.predict_then_learn(X[:CHANGE], y[:CHANGE])
        alarm, number, at = until_raised(live, X, y)
        for t in range(at, at + 40, 10):
            live.predict_then_learn(X[t : t + 10], y[t : t + 10])
            live.snapshot()
        assert live.stats()["journal"]["first"] > number
        assert drift_of(live) == alarm


def test_an_alarm_of_before_the_journal_is_since_its_beginning(tmp_path):
    clf, X, y = fitted("oddm", CHANGE, n=LENGTH)
    at = next(t for t in range(LENGTH) if clf.learn_one(X[t], y[t]).drift_.detected) + 1
    with LiveModel.create(tmp_path / "live", clf, Settings(sync="normal")) as live:
        alarm = drift_of(live)
        assert alarm["since"] == 0
        assert "Before the first label of this journal" in alarm["text"]
        live.predict_then_learn(X[at : at + 20], y[at : at + 20])
        assert drift_of(live) == alarm


def test_a_model_that_learned_before_has_none_until_it_finds_a_change(tmp_path):
    clf = OnlineTransferClassifier.load(
        Path(__file__).parents[2] / "files" / "oddm-mid-stream.safetensors"
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, clf.n_features_in_))
    with LiveModel.create(tmp_path / "live", clf, Settings(sync="normal")) as live:
        labels = live.clf.predict(X[:200])
        live.predict_then_learn(X[:200], labels)
        assert drift_of(live) is None
        live.predict_then_learn(X[200:300], rng.permutation(clf.predict(X[200:300])))
        assert drift_of(live) is not None
