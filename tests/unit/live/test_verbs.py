"""What a live model answers: late, repeated, unknown and refused labels, ids, threads, tasks, owners."""

from __future__ import annotations

import asyncio
import copy
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from support.live_models import assert_same_model, make_rows

from hedgerow import events
from hedgerow.core.errors import InputError
from hedgerow.live import Busy, Closed, LiveModel, Owned, Settings

X, Y = make_rows(7, 200, shift=1.0)


def test_predictions_are_the_models_own(live, oddm):
    twin = copy.deepcopy(oddm)
    for x, label in zip(X[:60], Y[:60], strict=True):
        answer = live.predict(x)
        expected = twin.explain_one(x)
        assert (answer.label, answer.probabilities, answer.votes, answer.weights) == expected[:4]
        assert live.label(answer.id, label).status == "learned"
        twin.learn_one(x, label)
    assert_same_model(live.clf, twin)
    assert live.stats()["mistakes"] == twin.mistakes_


def test_labels_late_twice_other_unknown_and_bad(live):
    ids = [live.predict(x).id for x in X[:5]]
    results = live.label_many([(ids[3], 1), (ids[0], 2), (ids[3], 1)])
    assert [result.status for result in results] == ["learned", "learned", "duplicate"]
    assert live.label(ids[0], 1).status == "conflict"
    assert live.label("nobody", 1).status == live.label("#999999", 1).status == "unknown"
    refused = live.label(ids[1], "text")
    assert refused.status == "refused"
    assert "text" in refused.detail
    assert live.label(ids[1], None).status == "refused"
    assert live.label(ids[1], 0).status == "learned"
    assert live.stats()["labels"] == 3
    assert live.stats()["pending"] == 2


def test_the_same_id_is_the_same_event(live):
    first = live.predict(X[0], ids="a")
    again = live.predict(X[0], ids="a")
    assert again.repeated
    assert (again.number, again.label, again.probabilities) == (
        first.number,
        first.label,
        first.probabilities,
    )
    with pytest.raises(InputError, match="another instance"):
        live.predict(X[1], ids="a")
    assert live.stats()["events"] == 1
    made = live.predict_then_learn(X[:3], Y[:3], ids=["a", "b", "c"])
    assert [answer.repeated for answer in made] == [True, False, False]
    assert live.stats()["labels"] == 3  # the waiting one was labelled by it
    assert [a.repeated for a in live.predict_then_learn(X[:3], Y[:3], ids=["a", "b", "c"])] == [
        True
    ] * 3
    assert live.stats()["labels"] == 3


@pytest.mark.parametrize("id", ["", "#3", "x" * 201, "a\nb", 7])
def test_ids_that_cannot_be_are_refused(live, id):
    with pytest.raises(InputError, match="id"):
        live.predict(X[0], ids=id)
    assert live.stats()["events"] == 0


def test_bad_input_changes_nothing(live):
    live.predict_then_learn(X[:20], Y[:20])
    before = copy.deepcopy(live.clf)
    for bad in (X[:3, :4], np.full((2, 6), np.nan)):
        with pytest.raises(ValueError, match=r"feature|NaN"):
            live.predict_then_learn(bad, [0] * len(bad))
    with pytest.raises(InputError, match="labels for"):
        live.predict_then_learn(X[:3], [1])
    with pytest.raises(InputError, match="twice"):
        live.predict(X[:2], ids=["a", "a"])
    assert_same_model(live.clf, before)
    assert live.stats()["events"] == 20


def test_labels_that_do_not_come_expire(tmp_path, oddm, monkeypatch):
    passed = [0.0]
    wall = [1000.0]
    monkeypatch.setattr(events.time, "time", lambda: wall[0])
    monkeypatch.setattr(events.Clock, "elapsed", staticmethod(lambda: passed[0]))
    with LiveModel.create(
        tmp_path / "live", oddm, Settings(label_timeout=60, max_pending=5)
    ) as live:
        ids = [live.predict(x).id for x in X[:7]]
        assert live.stats()["pending"] == 5
        assert live.stats()["expired"] == 2
        for wall[0] in (
            500.0,
            4e8,
        ):  # the clock is set back, and ten years ahead: nothing is given up
            live.predict(X[7], ids="later")
            assert live.latest(1)[0]["time"] == 1000.0
            assert live.stats()["pending"] == 5
        passed[0] = 61.0
        assert (
            live.label(ids[-1], 1).status == "learned"
        )  # asked in time's last moment: what is there is used
        assert live.stats()["pending"] == 0
        answer = live.label("later", 1)
        assert (answer.status, "too late" in answer.detail) == ("expired", True)
        assert live.latest(1)[0]["status"] == "expired"


def test_many_threads_are_one_order(live):
    answers = {}
    n = 160

    def work(part):
        for i in range(part, n, 8):
            answers[i] = live.predict(X[i], ids=f"t{i}")
            assert live.label(f"t{i}", int(Y[i])).status == "learned"

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer.number for answer in answers.values()}) == n
    stats = live.stats()
    assert (stats["events"], stats["labels"], stats["pending"]) == (n, n, 0)
    assert live.clf.seen_ == n


def test_many_tasks_share_commits(live):
    async def one(i):
        answer = await live.aio.predict(X[i], ids=f"t{i}")
        return (await live.aio.label(answer.id, int(Y[i]))).status

    async def everything():
        return await asyncio.gather(*(one(i) for i in range(150)))

    before = live.stats()["last_commit"]
    assert asyncio.run(everything()) == ["learned"] * 150
    assert live.stats()["last_commit"] - before < 100  # of 300 requests


def test_tasks_and_threads_together(live):
    async def tasks():
        return await asyncio.gather(*(live.aio.predict(x) for x in X[:100]))

    def thread():
        for x in X[100:200]:
            live.predict(x)

    worker = threading.Thread(target=thread)
    worker.start()
    found = asyncio.run(asyncio.wait_for(tasks(), 30))
    worker.join()
    assert len(found) == 100
    assert live.stats()["events"] == 200


def test_too_many_tasks_are_told_so(live):
    live.aio.most_waiting = 10

    async def everything():
        return await asyncio.gather(*(live.aio.predict(x) for x in X[:100]), return_exceptions=True)

    found = asyncio.run(everything())
    refused = [error for error in found if isinstance(error, Busy)]
    assert refused
    assert live.stats()["events"] == 100 - len(refused)


def test_an_error_of_ours_reaches_everybody_and_nobody_waits(live, monkeypatch):
    live.predict_then_learn(X[:30], Y[:30])
    before = copy.deepcopy(live.clf)

    def broken(*_):
        live.clf.learn_one(X[0], 0)
        raise RuntimeError("broken")

    monkeypatch.setattr(live._writer.steps, "block", broken)
    with pytest.raises(RuntimeError, match="broken"):
        live.predict_then_learn(X[30:40], Y[30:40])
    assert_same_model(live.clf, before)  # read back from what is on disk
    live.predict_then_learn(X[30:40], Y[30:40])
    assert live.clf.seen_ == 40


def test_a_second_owner_is_refused_by_name(live, tmp_path):
    import os

    with pytest.raises(Owned, match=f"process {os.getpid()}"):
        LiveModel.open(tmp_path / "live")
    live.close()
    with pytest.raises(Closed):
        live.predict(X[0])
    with LiveModel.open(tmp_path / "live") as again:
        again.predict(X[0])


def test_a_folder_is_made_once_and_opened_if_it_is_there(tmp_path, live, oddm):
    with pytest.raises(InputError, match="already"):
        LiveModel.create(tmp_path / "live", oddm)
    with pytest.raises(InputError, match="no live model"):
        LiveModel.open(tmp_path / "nothing")


def test_settings_are_checked_and_kept(tmp_path, oddm):
    for bad in (
        {"snapshot_every": 0},
        {"sync": "never"},
        {"label_timeout": -1.0},
        {"max_pending": True},
    ):
        with pytest.raises(InputError, match=next(iter(bad))):
            Settings(**bad)
    first = Settings(keep_events=7, label_timeout=5.0, sync="normal")
    LiveModel.create(tmp_path / "a", oddm, first).close()
    LiveModel.open(tmp_path / "a", {"snapshot_every": 3}).close()  # the others stay
    with LiveModel.open(tmp_path / "a") as live:
        assert live.settings == replace(first, snapshot_every=3)
    LiveModel.open(tmp_path / "a", Settings(keep_events=9)).close()
    with LiveModel.open(tmp_path / "a") as live:
        assert live.settings == Settings(keep_events=9)


def test_a_clock_that_was_ahead_keeps_nothing_for_ever(tmp_path, oddm, monkeypatch):
    """Events of a year that has not come age from the next opening on, and go with those after them."""
    passed = [0.0]
    wall = [4e9]
    monkeypatch.setattr(events.time, "time", lambda: wall[0])
    monkeypatch.setattr(events.Clock, "elapsed", staticmethod(lambda: passed[0]))
    settings = Settings(label_timeout=60, keep_seconds=60, snapshot_every=1, keep_events=100)
    with LiveModel.create(tmp_path / "a", oddm, settings) as live:
        live.predict(X[0], ids="waits")
        live.predict_then_learn(X[1:3], [1, 1], ids=["b", "c"])
    wall[0] = 1000.0  # corrected
    with LiveModel.open(tmp_path / "a") as live:
        passed[0] += 10
        live.predict_then_learn(X[3:5], [1, 1], ids=["d", "e"])
        assert live.label("waits", 1).status == "learned"
        passed[0] += 120
        for i in range(40):  # age is looked at now and then
            live.predict_then_learn(X[5 + i : 6 + i], [1], ids=[f"n{i}"])
        left = {event["id"] for event in live.latest(100)}
    assert not left & {"waits", "b", "c", "d", "e"}


def test_a_label_that_an_event_of_before_cannot_learn_is_refused_in_a_block(tmp_path, oddm):
    with LiveModel.create(tmp_path / "a", oddm, Settings(max_pending=1)) as live:
        live.predict(X[:2], ids=["expired", "waits"])
        before = live.stats()["labels"]
        with pytest.raises(InputError, match="id 'expired': it came too late"):
            live.predict_then_learn(X[:2], [1, 1], ids=["expired", "waits"])
        with pytest.raises(InputError, match="label 'a word' is of type str"):
            live.predict_then_learn(X[1:3], ["a word", 1], ids=["waits", "new"])
        assert live.stats()["labels"] == before
        live.predict_then_learn(X[1:3], [1, 1], ids=["waits", "new"])
        assert live.stats()["labels"] == before + 2


# -- forgetting


def test_a_forgotten_event_is_nowhere_in_the_folder_and_the_model_recovers(tmp_path, oddm):
    secret = X[3] * np.pi  # bytes that nothing else has
    with LiveModel.create(tmp_path / "live", oddm) as live:
        live.predict(X[:3], [f"e{i}" for i in range(3)])
        live.predict(secret, "patient-17")
        live.predict(secret, "patient-18")
        live.label_many([("e0", Y[0]), ("patient-17", Y[3]), ("e1", Y[1])])
        live.predict_then_learn(X[4:20], Y[4:20])
        labels = live.stats()["labels"]
        before = live.to_bytes()
        assert live.forget("patient-17", "patient-18", "nobody") == ["patient-17", "patient-18"]
        assert live.forget("patient-17") == []
        stats = live.stats()
        assert (stats["labels"], stats["pending"]) == (labels, 1)
        assert (
            live.label("patient-17", Y[3]).status
            == live.label("patient-18", Y[3]).status
            == "unknown"
        )
        for file in (tmp_path / "live").rglob("*"):
            if file.is_file():
                assert b"patient-17" not in file.read_bytes()
                assert secret.tobytes() not in file.read_bytes()
        shutil.copytree(
            tmp_path / "live", tmp_path / "copy", ignore=shutil.ignore_patterns("owner*")
        )
        assert live.to_bytes() == before
        assert not live.predict(secret, "patient-17").repeated  # as any new id
    newest = max((tmp_path / "copy" / "snapshots").iterdir())
    newest.write_bytes(b"damaged")  # also from the one before
    with LiveModel.open(tmp_path / "copy") as again:
        assert again.to_bytes() == before
        assert again.stats()["labels"] == labels
        again.export(tmp_path / "events.jsonl")
    assert "patient" not in (tmp_path / "events.jsonl").read_text()


def test_the_discrepancy_is_not_known_before_the_first_label_and_a_mean_after_it(live):
    live.predict(X[:20])
    assert set(live.stats()["discrepancy"].values()) == {None}
    live.predict_then_learn(X[20:60], Y[20:60])
    means = 1 + len(set(Y[20:60].tolist()))
    shown = live.stats()["discrepancy"]
    assert shown == pytest.approx({name: d / means for name, d in live.clf.discrepancy_.items()})
    assert live.history()[-1]["discrepancy"] == pytest.approx(list(shown.values()))
