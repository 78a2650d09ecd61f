"""Two actors at every door of a folder: creators, copies, readers, a `replace` or `forget` meanwhile."""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from support.live_models import assert_same_model, make_model, make_rows, reopened

from hedgerow import Domain, OnlineTransferClassifier, OnlineTransferRegressor, store
from hedgerow.cli.journals import copy
from hedgerow.core.domains import Frame
from hedgerow.core.errors import InputError
from hedgerow.fleet import Fleet
from hedgerow.fleet.store import FleetStore
from hedgerow.live import JournalError, LiveModel, Owned, Settings
from hedgerow.live import look as looking
from hedgerow.live.journal import Journal
from hedgerow.live.look import look
from hedgerow.live.model import Request
from hedgerow.live.writer import Writer

X, Y = make_rows(7, 200, shift=1.0)


def once(monkeypatch, owner, name, work):
    """Something else happens just before a step of this process, once."""
    step = getattr(owner, name)

    def after(*args, **options):
        monkeypatch.setattr(owner, name, step)
        work()
        return step(*args, **options)

    monkeypatch.setattr(owner, name, after)


def found(folder, *secrets):
    """Which of these bytes are somewhere in a folder."""
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return [secret for secret in secrets if secret in content]


# -- creators ----------------------------------------------------------------------------------------------------------


def test_of_two_creators_the_second_is_refused_and_the_first_has_its_model(
    tmp_path, oddm, monkeypatch
):
    def first():
        with LiveModel.create(tmp_path / "live", oddm) as live:
            live.predict_then_learn(X[:20], Y[:20])

    once(monkeypatch, store, "Owner", first)
    with pytest.raises(InputError, match="has a live model already"):
        LiveModel.create(tmp_path / "live", make_model("pa"))
    with LiveModel.open(tmp_path / "live") as live:
        assert (live.stats()["method"], live.stats()["labels"]) == ("oddm", 20)


def test_of_two_creators_of_a_fleet_the_second_is_refused_too(tmp_path, monkeypatch):
    def first():
        with Fleet(make_model("hedgerow-linear"), path=tmp_path / "fleet") as fleet:
            fleet.learn("a", X[0], Y[0])

    once(monkeypatch, store, "Owner", first)
    with pytest.raises(InputError, match="has a fleet already"):
        Fleet(make_model("pa"), path=tmp_path / "fleet")
    with Fleet.open(tmp_path / "fleet") as fleet:
        assert fleet["a"].seen_ == 1
    (tmp_path / "fleet" / "fleet.sqlite").rename(tmp_path / "fleet" / "fleet.sqlite-wal")
    with pytest.raises(InputError, match="left of another fleet"):
        Fleet(make_model("pa"), path=tmp_path / "fleet")


# -- copies ------------------------------------------------------------------------------------------------------------


def test_a_backup_during_a_replace_is_one_moment_and_opens(live, tmp_path, monkeypatch):
    live.predict_then_learn(X[:30], Y[:30])
    once(monkeypatch, Journal, "copy", lambda: live.replace(make_model("pa")))
    live.backup(tmp_path / "copy")
    with LiveModel.open(tmp_path / "copy") as copied:
        assert_same_model(copied.clf, live.clf)


def test_what_cannot_be_recovered_is_no_backup(live, tmp_path):
    live.predict_then_learn(X[:30], Y[:30])
    for path in (live.folder / "snapshots").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(JournalError, match="no snapshot can be used"):
        live.backup(tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live"]


def test_of_two_backups_to_one_place_one_is_refused_and_the_other_whole(
    live, tmp_path, monkeypatch
):
    live.predict_then_learn(X[:30], Y[:30])
    refused = []

    def second():
        with pytest.raises(Owned, match="in use by process") as caught:
            live.backup(tmp_path / "copy")
        refused.append(caught)

    once(monkeypatch, Journal, "copy", second)
    live.backup(tmp_path / "copy")
    assert len(refused) == 1
    with LiveModel.open(tmp_path / "copy") as copied:
        assert_same_model(copied.clf, live.clf)


def test_a_living_folder_is_not_restored_over_and_can_be_restored_from(live, tmp_path):
    live.predict_then_learn(X[:30], Y[:30])
    live.backup(tmp_path / "copy")
    with pytest.raises(JournalError, match="already exists"):
        copy(tmp_path / "copy", live.folder)
    copy(live.folder, tmp_path / "other")
    live.predict_then_learn(X[30:60], Y[30:60])
    with LiveModel.open(tmp_path / "other") as other:
        assert other.stats()["labels"] == 30


def test_a_live_model_is_copied_while_it_runs(tmp_path, oddm):
    settings = Settings(snapshot_every=20, keep_events=0)
    with LiveModel.create(tmp_path / "live", oddm, settings) as live:
        stop = threading.Event()

        def work():
            while not stop.is_set():
                live.predict_then_learn(X[:7], Y[:7])

        thread = threading.Thread(target=work)
        thread.start()
        for i in range(5):
            live.backup(tmp_path / f"copy{i}")
        stop.set()
        thread.join()
        labels = live.stats()["labels"]
    before = 0
    for i in range(5):
        with LiveModel.open(tmp_path / f"copy{i}") as copied:
            assert before <= copied.stats()["labels"] == copied.clf.seen_ <= labels
            before = copied.stats()["labels"]


def test_a_backup_is_restored_to_the_last_bit(tmp_path, live):
    live.predict_then_learn(X[:30], Y[:30])
    live.predict(X[30], ids="waits")
    copy(live.folder, tmp_path / "copy")
    live.predict_then_learn(X[31:60], Y[31:60])
    with pytest.raises(JournalError, match="already exists"):
        copy(live.folder, tmp_path / "copy")
    copy(tmp_path / "copy", tmp_path / "restored")
    with LiveModel.open(tmp_path / "restored") as restored:
        assert restored.stats()["labels"] == 30
        assert restored.label("waits", int(Y[30])).status == "learned"
        restored.predict_then_learn(X[31:60], Y[31:60])
    with LiveModel.open(tmp_path / "copy") as copied:
        assert copied.stats()["labels"] == 30
    with pytest.raises(InputError, match="neither a live model nor a fleet"):
        copy(tmp_path, tmp_path / "other")


def test_a_damaged_backup_is_not_restored(tmp_path, live):
    live.predict_then_learn(X[:30], Y[:30])
    live.backup(tmp_path / "copy")
    path = tmp_path / "copy" / "journal.sqlite"
    data = path.read_bytes()
    digest = live._journal.rows("SELECT digest FROM event")[3][0]
    path.write_bytes(data.replace(digest, bytes(8), 1))
    with pytest.raises(JournalError, match="damaged"):
        copy(tmp_path / "copy", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_fleet_is_copied_while_it_is_open(tmp_path):
    keys = [f"k{i % 9}" for i in range(200)]
    with Fleet(make_model("hedgerow-linear"), path=tmp_path / "fleet") as fleet:
        fleet.learn(keys[:100], X[:100], Y[:100])
        fleet.backup(tmp_path / "copy")
        fleet.learn(keys[100:], X[100:], Y[100:])
    copy(tmp_path / "copy", tmp_path / "restored")
    with Fleet.open(tmp_path / "restored") as restored, Fleet.open(tmp_path / "fleet") as fleet:
        assert restored["k1"].seen_ == keys[:100].count("k1")
        restored.learn(keys[100:], X[100:], Y[100:])
        assert restored.to_bytes("k1") == fleet.to_bytes("k1")


@pytest.fixture
def fleet(tmp_path):
    with Fleet(make_model("hedgerow-linear"), path=tmp_path / "fleet") as made:
        made.learn(["a", "b", "a"], X[:3], Y[:3])
        made.predict("a", X[3], "waits")
        yield made


@pytest.mark.parametrize("what", ["forget", "put", "learn"])
def test_a_copy_of_a_running_fleet_is_one_moment_whatever_happens_meanwhile(
    fleet, tmp_path, monkeypatch, what
):
    """`hedgerow backup` in another process takes no lock of the fleet's."""
    calls = {
        "forget": lambda: fleet.forget("a"),
        "put": lambda: fleet.put("a", fleet.to_bytes("b")),
        "learn": lambda: fleet.learn(["a"] * 30, X[10:40], Y[10:40]).flush(),
    }
    once(monkeypatch, FleetStore, "copy", calls[what])
    copy(fleet.folder, tmp_path / "copy")
    with Fleet.open(tmp_path / "copy") as copied:
        for key in "ab":
            assert copied.to_bytes(key) == fleet.to_bytes(key)
        assert copied.stats()["pending"] == fleet.stats()["pending"]


def test_of_two_backups_of_a_fleet_to_one_place_one_is_refused(fleet, tmp_path, monkeypatch):
    refused = []

    def second():
        with pytest.raises(Owned, match="in use by process") as caught:
            fleet.backup(tmp_path / "copy")
        refused.append(caught)

    once(monkeypatch, FleetStore, "copy", second)
    fleet.backup(tmp_path / "copy")
    assert len(refused) == 1
    with pytest.raises(JournalError, match="already exists"):
        copy(tmp_path / "copy", fleet.folder)
    with Fleet.open(tmp_path / "copy") as copied:
        assert copied["a"].seen_ == fleet["a"].seen_ == 2


def test_what_is_forgotten_during_an_export_is_in_it_whole_and_then_nowhere(
    live, tmp_path, monkeypatch
):
    """An export is of one moment, and of those who were there then."""
    monkeypatch.setattr("hedgerow.store.ERASE_EVERY", 0.0)
    live.predict(X[:20], [f"patient-{i:02}" for i in range(20)])
    answers = []
    once(
        monkeypatch,
        looking,
        "_record",
        lambda: answers.append(live.forget("patient-03", "patient-19")),
    )
    assert live.export(tmp_path / "events.jsonl") == 20
    assert (answers[0], answers[0].pending) == (["patient-03", "patient-19"], True)
    assert not live.forget().pending
    assert found(live.folder, b"patient-03", b"patient-19") == []
    assert live.export(tmp_path / "later.jsonl") == 18


@pytest.mark.parametrize("kind", ["live", "fleet"])
def test_a_reader_that_never_ends_keeps_nobody_waiting_and_the_log_shrinks_after_it(
    request, kind, monkeypatch
):
    monkeypatch.setattr("hedgerow.store.ERASE_EVERY", 0.0)
    it = request.getfixturevalue(kind)
    file = it.folder / ("journal.sqlite" if kind == "live" else "fleet.sqlite")
    rows = np.repeat(X, 20, axis=0)
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        seen = reader.execute("SELECT count(*) FROM event").fetchone()
        began = time.monotonic()
        for i in range(30):
            if kind == "live":
                it.predict(rows[:200], [f"{i} {k}" for k in range(200)])
            else:
                it.predict("a", rows[:200], [f"{i} {k}" for k in range(200)])
        it.forget(*([f"0 {k}" for k in range(200)] if kind == "live" else ["b"]))
        assert time.monotonic() - began < 30  # SQLite waits 5 s for each lock
        assert reader.execute("SELECT count(*) FROM event").fetchone() == seen
        log = file.with_name(f"{file.name}-wal")
        assert log.stat().st_size > 2**20
    assert not it.forget().pending
    assert log.stat().st_size == 0


# -- forgetting --------------------------------------------------------------------------------------------------------


def test_forget_with_a_reader_says_so_and_a_later_commit_finishes_it(live, tmp_path, monkeypatch):
    monkeypatch.setattr("hedgerow.store.ERASE_EVERY", 0.0)
    secret = X[3] * np.pi
    live.predict(secret, "patient-17")
    bytes_of_it = b"patient-17", secret.tobytes()
    with look(live.folder) as reader:  # an export that takes its time
        forgotten = live.forget("patient-17")
        assert (forgotten, forgotten.pending) == (["patient-17"], True)
        assert live.predict(X[4], "e4").number > 1  # nobody waits for the reader
        assert [event.id for event in reader.events()] == ["patient-17"]
    live.predict(X[5], "e5")
    assert not live.forget().pending
    assert found(live.folder, *bytes_of_it) == []


def test_what_was_left_in_the_log_by_a_process_that_ended_is_overwritten_too(
    live, tmp_path, monkeypatch
):
    live.predict(X[3], "patient-17")
    with look(live.folder):
        assert live.forget("patient-17").pending
        live._snapshots.wait()
        shutil.copytree(live.folder, tmp_path / "crashed", ignore=shutil.ignore_patterns("lock"))
    assert found(tmp_path / "crashed", b"patient-17")
    with LiveModel.open(tmp_path / "crashed") as again:
        again.predict(X[4], "e4")
        assert found(again.folder, b"patient-17") == []


def test_older_places_of_a_forgotten_row_are_overwritten(tmp_path):
    """It was moved when the model was replaced, and pages were freed when other rows went."""
    table = [{"x": float(x[0]), "kind": "ab"[i % 2]} for i, x in enumerate(X[:60])]
    labels = Y[:60].tolist()
    models = [
        OnlineTransferClassifier(method).fit_domains([Domain("a", Frame.of_rows(table), labels)])
        for method in ("pa", "paio")
    ]
    secret = {**table[0], "kind": "zebra-4711"}
    with LiveModel.create(tmp_path / "live", models[0], Settings(keep_events=0)) as live:
        live.predict(secret, "patient-17")
        live.predict_then_learn(table, labels, [f"e{i}" for i in range(60)])
        live.replace(models[1])
        live.snapshot()
        live.predict(table[1], "e")
        assert not live.forget("patient-17").pending
        assert found(live.folder, b"patient-17", b"zebra-4711") == []


def test_forgetting_does_not_make_the_journal_grow(live):
    sizes = []
    for turn in range(30):
        ids = [f"{turn} {i}" for i in range(20)]
        live.predict_then_learn(X[:20], Y[:20], ids)
        assert live.forget(*ids) == ids
        sizes.append(live.stats()["journal"]["bytes"])
    assert max(sizes) <= 2 * sizes[0]


def test_a_look_at_a_model_that_goes_on_meanwhile_says_so_and_not_that_something_is_lost(
    live, caplog
):
    live.predict_then_learn(X[:10], Y[:10])
    with look(live.folder) as reader:
        assert reader.model().seen_ == 10
        for i in range(3):
            live.predict_then_learn(X[10 + i : 11 + i], Y[10 + i : 11 + i])
            live.snapshot()
        with pytest.raises(JournalError, match="changed while it was read"):
            reader.model()
    assert caplog.messages == []


# -- what is answered is what the disk holds ---------------------------------------------------------------------------


def test_what_is_committed_is_acknowledged_though_the_head_cannot_be_written(
    live, tmp_path, monkeypatch
):
    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(live._journal.head, "write", fails)
        live.predict_then_learn(X[:5], Y[:5])
        with pytest.raises(JournalError, match="nothing of this was kept"):
            live.predict_then_learn(X[5:9], Y[5:9])
    live.predict_then_learn(X[5:9], Y[5:9])
    with reopened(live, tmp_path / "again") as again:
        assert again.stats()["labels"] == live.stats()["labels"] == 9
        assert_same_model(again.clf, live.clf)


def test_one_request_that_fails_inside_fails_alone(live):
    def fails(writer):
        writer.predict_then_learn(X[:3], Y[:3], None)
        raise ZeroDivisionError("inside")

    batch = [Request(Writer.predict, (X[i], f"e{i}")) for i in range(5)]
    batch.insert(2, Request(fails))
    live._work(batch)
    errors = [type(request.error) for request in batch]
    assert errors == [type(None)] * 2 + [ZeroDivisionError] + [type(None)] * 3
    assert [r.answer.id for r in batch if r.answer] == [f"e{i}" for i in range(5)]
    assert (live.stats()["events"], live.stats()["seen"]) == (5, 0)


def test_a_label_that_no_model_can_learn_is_refused_alone(tmp_path):
    clf = OnlineTransferRegressor().fit_domains([Domain("a", X, X[:, 0] + Y)])
    with LiveModel.create(tmp_path / "live", clf) as live:
        live.predict(X[:5], [f"e{i}" for i in range(5)])
        labels = [10**400 if i == 2 else float(Y[i]) for i in range(5)]
        results = live.label_many([(f"e{i}", label) for i, label in enumerate(labels)])
        assert [r.status for r in results] == ["learned"] * 2 + ["refused"] + ["learned"] * 2
        with pytest.raises(InputError, match="label"):
            live.predict_then_learn(X[5:7], [1.0, 10**400])
        assert live.stats()["labels"] == 4


def test_a_replace_that_is_refused_leaves_the_undo_of_the_one_before(live):
    live.predict_then_learn(X[:30], Y[:30])
    live.replace(make_model("pa"))
    live.predict(X[30], "waits")
    before = sorted((live.folder / "models").iterdir())
    narrow = OnlineTransferClassifier("pa").fit_domains([Domain("a", X[:, :3], Y)])
    with pytest.raises(InputError, match="has other features"):
        live.replace(narrow)
    assert sorted((live.folder / "models").iterdir()) == before
    live.replace_back()
    assert live.stats()["method"] == "oddm"
    assert live.clf.seen_ == 30
