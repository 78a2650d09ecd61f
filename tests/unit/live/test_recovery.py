"""Laws of a live model: whatever it was asked, and wherever it ended, it goes on as one that never stopped."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest
from support.laws import METHODS
from support.live_models import assert_same_model, make_model, make_rows

from hedgerow.live import LiveModel, Settings


def crashed(live, folder, where):
    """A copy of the folder as a process that ends now would leave it."""
    shutil.copytree(folder, where)
    (where / "lock").unlink()
    return LiveModel.open(where)


def do_something(live, rng, X, y, asked, i):
    kind = rng.integers(0, 6)
    if kind == 0:
        live.predict(X[i], ids=f"e{i}")
        asked.append((f"e{i}", y[i]))
    elif kind == 1:
        answers = live.predict(X[i : i + 3])
        asked += [(answer.id, label) for answer, label in zip(answers, y[i : i + 3], strict=True)]
    elif kind == 2:
        live.predict_then_learn(
            X[i : i + 5], [None if rng.random() < 0.2 else label for label in y[i : i + 5].tolist()]
        )
    elif kind == 3:
        live.label_many(
            [asked.pop(int(rng.integers(len(asked)))) for _ in range(min(len(asked), 7))]
        )
    elif asked:
        live.label(*asked.pop(int(rng.integers(len(asked)))))


@pytest.mark.parametrize("method", METHODS)
def test_a_crash_anywhere_is_as_if_there_was_none(method, tmp_path):
    X, y = make_rows(7, 400, K=4, shift=1.0)  # a class that no source has
    settings = Settings(snapshot_every=17, max_pending=30, keep_events=40)
    clf = make_model(method)
    rngs = [np.random.default_rng(5), np.random.default_rng(5)]
    asked = [[], []]
    steady = LiveModel.create(tmp_path / "steady", clf, settings)
    shaken = LiveModel.create(tmp_path / "shaken", copy.deepcopy(clf), settings)
    folder = tmp_path / "shaken"
    cuts = set(np.random.default_rng(1).choice(120, 12, replace=False).tolist())
    for step in range(120):
        for live, rng, waiting in zip((steady, shaken), rngs, asked, strict=True):
            do_something(live, rng, X, y, waiting, step * 3)
        if step in cuts:
            shaken._snapshots.wait()
            again = crashed(shaken, folder, tmp_path / f"cut{step}")
            assert_same_model(again.clf, shaken.clf)
            shaken._owner.release()
            shaken = again
            folder = tmp_path / f"cut{step}"
    assert_same_model(steady.clf, shaken.clf)
    first = steady.stats()
    second = shaken.stats()
    for name in (
        "events",
        "labels",
        "mistakes",
        "expired",
        "pending",
        "window",
        "calibration",
        "labelled",
    ):
        assert first[name] == second[name], name
    assert [p["weights"] for p in steady.history()] == [p["weights"] for p in shaken.history()]
    assert first["labels"] > 100
    steady.close()
    shaken.close()
    with LiveModel.open(tmp_path / "steady") as again:
        assert_same_model(again.clf, steady.clf)


def test_recovery_is_from_the_snapshot_before_if_the_newest_is_damaged(tmp_path, oddm, caplog):
    X, y = make_rows(7, 100, shift=1.0)
    live = LiveModel.create(tmp_path / "a", oddm, Settings(snapshot_every=20))
    for i in range(50):
        live.predict_then_learn(X[i : i + 1], y[i : i + 1])
    live._snapshots.wait()
    again = tmp_path / "b"
    shutil.copytree(tmp_path / "a", again)
    newest = sorted((again / "snapshots").iterdir())[-1]
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 4
    newest.write_bytes(data)
    with LiveModel.open(again) as recovered:
        assert_same_model(recovered.clf, live.clf)
    assert "damaged" in caplog.text
    live.close()


def test_what_was_not_needed_any_more_has_gone(tmp_path, oddm):
    X, y = make_rows(7, 300, shift=1.0)
    settings = Settings(snapshot_every=20, keep_events=30)
    with LiveModel.create(tmp_path / "a", oddm, settings) as live:
        for i in range(300):
            live.predict_then_learn(X[i : i + 1], y[i : i + 1], ids=[f"r{i}"])
            live._snapshots.wait()
        kept = live.stats()["journal"]
        assert 30 <= kept["events_kept"] <= 90
        assert live.label("r0", int(y[0])).status == "unknown"
        assert live.label("r299", int(y[299])).status == "duplicate"
        assert len(list((tmp_path / "a" / "snapshots").iterdir())) == 2
    with LiveModel.open(tmp_path / "a") as again:
        assert_same_model(again.clf, live.clf)
