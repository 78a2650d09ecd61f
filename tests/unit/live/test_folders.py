"""Folders of live models and fleets: a process that forks or is killed, and a folder that another one replaces."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest
from support.laws import make_task

from hedgerow import OnlineTransferClassifier
from hedgerow.fleet import Fleet
from hedgerow.live import JournalError, LiveModel
from hedgerow.store import checksum


@pytest.fixture
def task():
    return make_task(3)


def live_model(task, folder):
    return LiveModel.create(folder, OnlineTransferClassifier("homotlms").fit_domains(task.sources))


def fleet_of(task, folder):
    return Fleet(task.sources, "hedgerow-linear", path=folder)


def in_a_fork(work):
    """The error that work ends with in a forked process, as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            work()
            os.write(writer, b"nothing was refused")
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        return file.read()


def crashed(folder, copy):
    """The folder as a process that is killed now leaves it."""
    shutil.copytree(folder, copy)
    return copy


def test_a_checksum_is_the_same_on_every_python():
    """Folders move between machines: this number was the same on Python 3.6 to 3.13."""
    assert checksum((1, None, b"x", 0.5, "é", "key", 2**40, -1, -(2**62))) == 3436147234


@pytest.mark.parametrize("verb", ["predict", "label", "predict_then_learn", "close"])
def test_a_forked_copy_of_a_live_model_writes_nothing(task, tmp_path, verb):
    with live_model(task, tmp_path / "m") as live:
        live.predict(task.X[0], ids="a")
        works = {
            "predict": lambda: live.predict(task.X[1], ids="b"),
            "label": lambda: live.label("a", task.y[0]),
            "predict_then_learn": lambda: live.predict_then_learn(task.X[1:3], task.y[1:3]),
            "close": live.close,
        }
        told = in_a_fork(works[verb])
        assert told.startswith("Owned") or verb == "close", told
        assert live.label("a", task.y[0]).status == "learned"
        assert live.predict(task.X[1], ids="b").repeated is False
    with LiveModel.open(tmp_path / "m") as live:
        assert live.clf.seen_ == 1


def test_a_forked_copy_of_a_fleet_writes_nothing(task, tmp_path):
    with fleet_of(task, tmp_path / "f") as fleet:
        assert in_a_fork(lambda: fleet.learn(["a"], task.X[:1], task.y[:1])).startswith("Owned")
        fleet.learn(["a"], task.X[:1], task.y[:1])
    with Fleet.open(tmp_path / "f") as fleet:
        assert fleet["a"].seen_ == 1


@pytest.mark.parametrize("stored", [False, True])
def test_what_was_forgotten_is_not_learned_again_after_a_kill(task, tmp_path, stored):
    """Neither from the journal, nor from a state; and the journal does not have the rows any more."""
    with fleet_of(task, tmp_path / "f") as fleet:
        fleet.learn(["a"] * 10 + ["b"] * 3, task.X[:13], task.y[:13])
        if stored:
            fleet.flush()
        fleet.learn(["a"], task.X[13:14], task.y[13:14])
        empty = fleet.to_bytes("never")
        fleet.forget("a")
        fleet.put("b", empty)
        copy = crashed(tmp_path / "f", tmp_path / "killed")
    with sqlite3.connect(copy / "fleet.sqlite") as db:
        assert db.execute("SELECT count(*) FROM journal").fetchone() == (0,)
    db.close()
    with Fleet.open(copy) as again:
        assert again.keys() == []
        assert again["a"].seen_ == again["b"].seen_ == 0
        assert again.learn(["a"], task.X[:1], task.y[:1])["a"].seen_ == 1


def test_a_folder_that_was_replaced_is_not_written_to(task, tmp_path):
    with live_model(task, tmp_path / "m") as other:
        other.predict_then_learn(task.X[:5], task.y[:5])
    restored = crashed(tmp_path / "m", tmp_path / "restored")
    live = LiveModel.open(tmp_path / "m")
    live.predict_then_learn(task.X[5:9], task.y[5:9])
    shutil.rmtree(tmp_path / "m")
    restored.rename(tmp_path / "m")
    before = {path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()}
    for work in (live.snapshot, lambda: live.predict(task.X[9])):
        with pytest.raises(JournalError, match="was replaced while it was open"):
            work()
    live.close()
    assert {
        path: path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file()
    } == before
    with LiveModel.open(tmp_path / "m") as again:
        assert again.clf.seen_ == 5


def test_a_fleet_that_lost_its_newest_batches_is_opened_if_that_is_accepted(task, tmp_path):
    with fleet_of(task, tmp_path / "f") as fleet:
        fleet.learn(["a"], task.X[:1], task.y[:1])
        fleet.flush()
        copy = crashed(tmp_path / "f", tmp_path / "cut")
        fleet.learn(["a"] * 2, task.X[1:3], task.y[1:3])
        shutil.copy(tmp_path / "f" / "head", copy / "head")
    with pytest.raises(JournalError, match=r"newest part is missing.*accept_loss=True"):
        Fleet.open(copy)
    with Fleet.open(copy, accept_loss=True) as fleet:
        assert fleet["a"].seen_ == 1
        fleet.learn(["a"], task.X[:1], task.y[:1])
    with Fleet.open(copy) as fleet:
        assert fleet["a"].seen_ == 2


@pytest.mark.parametrize("kind", ["live", "fleet"])
def test_another_version_of_a_file_is_refused_with_the_remedy(task, tmp_path, kind):
    (live_model if kind == "live" else fleet_of)(task, tmp_path / "x").close()
    (path,) = (tmp_path / "x").glob("*.sqlite")
    with sqlite3.connect(path) as db:
        text = '"hedgerow 9"'
        db.execute(
            'UPDATE meta SET "check" = ?, value = ? WHERE key = ?',
            (checksum(("format", text)), text, "format"),
        )
    db.close()
    before = {path: path.read_bytes() for path in (tmp_path / "x").rglob("*") if path.is_file()}
    with pytest.raises(
        JournalError,
        match=r"format is 'hedgerow 9'.*nothing was changed.*upgrade",
    ):
        (LiveModel if kind == "live" else Fleet).open(tmp_path / "x")
    assert {
        path: path.read_bytes() for path in (tmp_path / "x").rglob("*") if path.is_file()
    } == before
