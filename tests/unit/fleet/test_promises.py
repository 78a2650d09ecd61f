"""What a fleet promises when something fails: nothing lost, nothing learned twice, nothing silent."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from support.laws import make_task

from hedgerow import InputError
from hedgerow.fleet import Fleet, Settings
from hedgerow.fleet.store import FleetStore
from hedgerow.live import Closed, JournalError, Owned

TASK = make_task(4, warmup=0, m=40, stream=600)


def small_fleet(folder, **options):
    return Fleet(TASK.sources, "hedgerow-linear", path=folder, **options)


def crashed(fleet, folder):
    """A copy of the folder as a crash leaves it; the fleet goes on in it no longer."""
    shutil.copytree(fleet.folder, folder, ignore=shutil.ignore_patterns("lock"))
    fleet._let_go()
    return folder


def test_a_disk_that_is_full_at_an_eviction_makes_nobody_learn_twice(tmp_path):
    """SQLite refuses more pages, first at the journal, then later and later."""
    fleet = small_fleet(tmp_path / "f", memory=2**20)
    taught = Counter()
    refused = beyond = 0
    for turn in range(40):
        keys = [f"key {turn % 3} {i}" for i in range(200)]
        (pages,) = fleet._store.rows("PRAGMA page_count")[0]
        fleet._store.rows(f"PRAGMA max_page_count = {pages + 4 * (turn % 20)}")
        try:
            fleet.learn(keys, TASK.X[:200], TASK.y[:200])
        except JournalError:
            refused += 1
        else:
            taught.update(keys)
            beyond += fleet.stats()["bytes"] > 2**20
        fleet._store.rows("PRAGMA max_page_count = 1000000")
    assert refused > 3
    assert beyond > 0
    assert {key: fleet[key].seen_ for key in taught} == dict(taught)
    with Fleet.open(crashed(fleet, tmp_path / "again")) as again:
        assert {key: again[key].seen_ for key in taught} == dict(taught)


def damage(folder, key):
    """Flip a bit of a key's state; twice is not at all."""
    with closing(sqlite3.connect(folder / "fleet.sqlite")) as db:
        (data,) = db.execute("SELECT data FROM state WHERE key = ?", (key,)).fetchone()
        data = data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        db.execute("UPDATE state SET data = ? WHERE key = ?", (data, key))
        db.commit()


@pytest.fixture
def damaged(tmp_path):
    """A folder in which the state of `a` cannot be read; a, b and c have learned more, which is in the journal."""
    fleet = small_fleet(tmp_path / "f")
    fleet.learn(["a", "b"], TASK.X[:2], TASK.y[:2]).flush()
    fleet.learn(["a", "b", "c", "a"], TASK.X[2:6], TASK.y[2:6])
    folder = crashed(fleet, tmp_path / "damaged")
    damage(folder, "a")
    return folder


def test_a_batch_is_learned_once_by_its_id_which_leaves_the_mark_alone(tmp_path):
    X, y = TASK.X[:3], TASK.y[:3]
    with small_fleet(tmp_path / "fleet") as fleet:
        assert len(fleet.learn("k", X, y, mark=3).predict_then_learn("k", X, y, id="one")) == 3
        assert fleet.predict_then_learn("k", X, y, id="one") is None
    with Fleet.open(tmp_path / "fleet") as fleet:
        assert fleet.learn("k", X, y, id="one")["k"].seen_ == 6
        assert fleet.mark == 3
        with pytest.raises(InputError, match="an id is text"):
            fleet.learn("k", X, y, id=7)


def test_the_journal_keeps_what_a_key_has_learned_whose_state_cannot_be_read(damaged, caplog):
    for _ in range(2):
        with Fleet.open(damaged) as fleet:
            assert "key 'a': its state is damaged" in caplog.text
            assert fleet.stats()["unreadable"] == 1
            fleet.learn(["b"], TASK.X[:1], TASK.y[:1]).flush()
            with pytest.raises(InputError, match="key 'a': its state is damaged"):
                fleet.learn(["a"], TASK.X[:1], TASK.y[:1])
    damage(damaged, "a")
    with Fleet.open(damaged) as fleet:
        assert fleet.stats()["unreadable"] == 0
        assert {key: fleet[key].seen_ for key in "abc"} == {"a": 3, "b": 4, "c": 1}
        fleet.flush()
        assert fleet.stats()["journal_bytes"] == 0


@pytest.mark.parametrize("how", ["forget", "put"])
def test_a_key_that_was_exchanged_does_not_come_back_from_the_journal(damaged, how):
    with Fleet.open(damaged) as fleet:
        fleet.forget("b")
        state = fleet.to_bytes("c")
        fleet.put("a", state) if how == "put" else fleet.forget("a")
        assert fleet.stats()["unreadable"] == fleet.stats()["journal_bytes"] == 0
    with Fleet.open(damaged) as fleet:
        assert sorted(fleet.keys()) == (["a", "c"] if how == "put" else ["c"])
        assert fleet["a"].seen_ == (how == "put")


def test_what_was_forgotten_is_nowhere_in_the_folder_once_readers_have_closed(tmp_path):
    secret = "somebody-9f31"
    x = TASK.X[0].tobytes()

    def traces():
        texts = [path.read_bytes() for path in (tmp_path / "f").iterdir()]
        return any(secret.encode() in text or x in text for text in texts)

    with small_fleet(tmp_path / "f") as fleet:
        fleet.learn([secret, "b"], TASK.X[[0, 0]], TASK.y[:2]).flush()
        fleet.forget("b")
        fleet.learn(secret, TASK.X[0], TASK.y[0])
        fleet.predict(secret, TASK.X[0], f"id of {secret}")
        reader = sqlite3.connect(tmp_path / "f" / "fleet.sqlite")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM state").fetchone()
        forgotten = fleet.forget(secret, "nobody")
        assert (forgotten, forgotten.pending) == ([secret], True)
        assert traces()
        reader.close()
        assert not fleet.forget().pending
        assert not traces()


def test_forgetting_does_not_make_the_file_grow(tmp_path):
    """What is freed is used again, however often something is forgotten."""
    with small_fleet(tmp_path / "f") as fleet:
        sizes = []
        for _ in range(30):
            keys = [f"k{i}" for i in range(20)]
            fleet.learn(keys, TASK.X[:20], TASK.y[:20])
            assert fleet.forget(*keys) == keys
            sizes.append(fleet.stats()["file_bytes"])
        assert max(sizes) <= 2 * sizes[0]


def test_a_folder_is_owned_before_anything_in_it_is_written(tmp_path, monkeypatch):
    with small_fleet(tmp_path / "f") as first:
        first.learn(["a"], TASK.X[:1], TASK.y[:1])
        # the second one looked before the first had made its file
        monkeypatch.setattr(FleetStore, "_check_new", lambda folder: None)
        before = (tmp_path / "f" / "base.safetensors").read_bytes()
        with pytest.raises(Owned):
            Fleet(make_task(5, warmup=0, m=40).sources, "pa", path=tmp_path / "f")
        assert (tmp_path / "f" / "base.safetensors").read_bytes() == before
    with Fleet.open(tmp_path / "f") as again:
        assert again["a"].seen_ == 1


def test_a_fresh_fleet_logs_nothing(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "hedgerow")
    small_fleet(tmp_path / "f").close()
    Fleet.open(tmp_path / "f").close()
    assert caplog.messages == []


def test_more_keys_at_once_than_memory_and_threads_have_room_for():
    with small_fleet(None, memory=2**20) as fleet:
        fleet._holder.threads = 8
        keys = [f"key {i % 3000}" for i in range(6000)]
        X = np.tile(TASK.X, (10, 1))
        fleet.learn(keys, X, np.tile(TASK.y, 10))
        assert fleet["key 0"].seen_ == 2


def test_a_key_in_the_place_of_a_list_is_one_key():
    with small_fleet(None, settings=Settings(max_pending=2)) as fleet:
        assert fleet.predict("k1", TASK.X[0]) == fleet.predict(["k1"], TASK.X[:1])[0]
        assert (
            fleet.predict("k1", TASK.X[:3]).tolist()
            == fleet.predict(["k1"] * 3, TASK.X[:3]).tolist()
        )
        assert fleet.predict_proba("k1", TASK.X[0]).shape == (len(fleet.classes_),)
        assert fleet.predict_then_learn("k1", TASK.X[0], TASK.y[0]) in fleet.classes_
        fleet.learn(7, TASK.X[0].tolist(), TASK.y[0]).learn(7, TASK.X[:2], TASK.y[:2])
        assert sorted(map(str, fleet.keys())) == ["7", "k1"]
        assert (fleet["k1"].seen_, fleet[7].seen_) == (1, 3)


def test_an_id_belongs_to_its_key(tmp_path):
    fleet = small_fleet(tmp_path / "f", settings=Settings(max_pending=2, keep_events=3))
    first, second = fleet.predict(["a", "b"], TASK.X[:2], ["one", "one"])
    assert (first.id, first.repeated, second.id) == ("one", False, "one")
    assert first.label == fleet.predict("a", TASK.X[0])
    assert fleet.predict("a", TASK.X[0], "one").repeated
    with pytest.raises(InputError, match="key 'a': id 'one' was used for another instance"):
        fleet.predict("a", TASK.X[3], "one")
    with pytest.raises(InputError, match="key 'a': id 'x' occurs twice"):
        fleet.predict("a", TASK.X[:2], ["x", "x"])
    with pytest.raises(InputError, match=r"ids=\['x'\] for 2 keys"):
        fleet.predict(["a", "b"], TASK.X[:2], ["x"])
    with pytest.raises(InputError, match="labels are triples"):
        fleet.label_many([("a", "one")])
    letters = []
    said = fleet.predict(["a", "a", "a"], TASK.X[3:6], ["one", "two", 3], dead_letters=letters)
    assert [answer is None for answer in said] == [True, False, True]
    assert sorted(letter.row for letter in letters) == [0, 2]
    assert fleet.label("b", "one", TASK.y[1]).status == "learned"
    assert fleet.label("b", "one", TASK.y[1]).status == "duplicate"
    with Fleet.open(crashed(fleet, tmp_path / "again"), {"max_pending": 5}) as again:
        assert again.settings == Settings(max_pending=5, keep_events=3)
        assert again.stats()["pending"] == 2
        assert again.predict("a", TASK.X[0], "one") == again.predict(["a"], TASK.X[:1], ["one"])[0]
        again.backup(tmp_path / "copy")
        again.forget("a")
        assert again.stats()["pending"] == 0
        told = again.label_many([("a", "one", "c0"), ("b", "one", TASK.y[1])])
        assert [result.status for result in told] == ["unknown", "duplicate"]
    with Fleet.open(tmp_path / "copy") as copy:
        assert copy.label("a", "one", "c0").status == "learned"
        assert copy["a"].seen_ == copy["b"].seen_ == 1


def test_a_key_or_id_that_is_none_is_refused_alone():
    with small_fleet(None) as fleet:
        fleet.predict("a", TASK.X[:2], ["1", "2"])
        given = [("a", "1", TASK.y[0]), (None, "1", "c0"), ("a", 7, "c0"), ("a", "2", TASK.y[1])]
        told = fleet.label_many(given)
        assert [result.status for result in told] == ["learned", "refused", "refused", "learned"]
        assert fleet["a"].seen_ == 2


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda fleet: fleet.predict(None, TASK.X[0]), "keys=None"),
        (lambda fleet: fleet.predict("a", TASK.X[:2], "xy"), "ids='xy' for 2 keys"),
        (lambda fleet: fleet.predict("a", TASK.X[:2], 7), "ids=7 for 2 keys"),
        (lambda fleet: fleet.predict("a", TASK.X[0], ["x"]), "an id is text"),
        (lambda fleet: fleet.learn(["a", "b"], TASK.X[:2], "c0"), "y is the text 'c0'"),
    ],
)
def test_one_in_the_place_of_several_is_refused_in_its_own_terms(call, says):
    with small_fleet(None) as fleet:
        with pytest.raises(InputError, match=says):
            call(fleet)
        assert fleet.keys() == []
        assert fleet.stats()["pending"] == 0


def test_a_fleet_that_is_closed_meanwhile_says_so_to_those_who_wait(tmp_path):
    """Whoever waited for it while it was closed is told that, and nothing of theirs is half done."""
    fleet = small_fleet(tmp_path / "f", sync="normal")
    done = Counter()
    errors = []

    def work(key):
        for i in range(10_000):
            try:
                fleet.learn(key, TASK.X[i % 100], TASK.y[i % 100])
            except Exception as error:
                errors.append(error)
                return
            done[key] += 1

    threads = [threading.Thread(target=work, args=(f"k{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    while done.total() < 20:
        time.sleep(0.001)
    fleet.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [Closed] * 4
    with Fleet.open(tmp_path / "f") as again:
        assert {key: again[key].seen_ for key in done} == dict(done)


def test_a_label_that_its_key_cannot_learn_is_refused_alone():
    classes = sorted(set(TASK.y))
    with Fleet(TASK.sources, "hedgerow-linear", max_classes=len(classes)) as fleet:
        fleet.predict(["a", "b", "a"], TASK.X[:3], ["1", "1", "2"])
        given = [
            ("a", "1", "another"),
            ("b", "1", classes[0]),
            ("a", "2", classes[1]),
            ("a", "2", "x"),
        ]
        told = fleet.label_many(given)
        assert [result.status for result in told] == ["refused", "learned", "learned", "conflict"]
        assert "key 'a'" in told[0].detail
        assert fleet.label("a", "1", classes[0]).status == "learned"


def test_many_waiting_rows_are_not_in_memory(tmp_path):
    """Events are read from the file; memory knows how many wait."""
    with small_fleet(tmp_path / "f", settings=Settings(max_pending=10_000), sync="normal") as fleet:
        for turn in range(20):
            fleet.predict("a", TASK.X[:500], [f"{turn} {i}" for i in range(500)])
        assert fleet.stats()["pending"] == 10_000
        assert fleet.stats()["bytes"] < 100_000
        assert fleet.label("a", "0 3", TASK.y[3]).status == "learned"
