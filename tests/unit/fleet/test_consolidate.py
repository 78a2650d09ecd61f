"""Keys that teach keys: who may, what new keys start from, and that nothing is lost, learned twice or left over."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from hedgerow import Domain, InputError, OnlineTransferRegressor
from hedgerow.fleet import Base, Fleet
from hedgerow.fleet.teaching import fit
from hedgerow.live import JournalError

CENTRES = np.random.default_rng(5).normal(size=(3, 6))
LABELS = np.array(["a", "b", "c"])
ROWS = 40


def rows(seed, n=ROWS, exchanged=0):
    """Rows of a key; exchanged labels are those of a spoiled one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return CENTRES[y] + rng.normal(size=(n, 6)) + seed / 10, LABELS[(y + exchanged) % 3]


SOURCES = [Domain(f"source {i}", *rows(100 + i, 80)) for i in range(2)]
SOURCES = [Domain(each.name, each.X - 10, each.y) for each in SOURCES]
PROBE = rows(50, 9)[0] - 5


def taught(path=None, keys=range(4), method="hedgerow-linear", spoiled=(), **options):
    """A fleet in which these keys have learned."""
    fleet = Fleet(SOURCES, method, path=path, **{"consolidate": 0} | options)
    for i in keys:
        fleet.learn(f"key {i}", *rows(i, exchanged=int(i in spoiled)))
    return fleet


def answers(fleet, keys):
    return {key: fleet.predict_proba(key, PROBE).tobytes() for key in keys}


def crashed(fleet, folder):
    """A copy of the folder as a crash leaves it; the fleet goes on in it no longer."""
    shutil.copytree(fleet.folder, folder, ignore=shutil.ignore_patterns("lock"))
    fleet._let_go()
    return folder


@pytest.mark.parametrize("method", ["hedgerow", "hedgerow-linear"])
def test_the_rows_that_are_kept_of_sources_make_the_same_base(method):
    base = Base.fit(SOURCES, method, keep=True)
    assert fit(base, base.sources, {}).to_bytes() == base.to_bytes()


def test_so_do_those_of_tables_with_gaps():
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame(
            {"x": np.where(rng.random(60) < 0.2, np.nan, X[:60, 0]), "z": X[:60, 1], "u": y[::-1]}
        ).assign(y=y)
        for X, y in (rows(i, 60) for i in range(2))
    ]
    base = Base.fit({"north": tables[0], "south": tables[1]}, label="y", keep=True)
    assert fit(base, base.sources, {}).to_bytes() == base.to_bytes()


@pytest.mark.parametrize(("keys", "spoiled"), [((), ()), ((0, 1), (0, 1))])
def test_consolidating_nothing_changes_nothing(keys, spoiled):
    with taught(keys=keys, spoiled=spoiled) as fleet:
        fleet.learn("short", *rows(7, 9))  # too few rows to say anything
        names = ["key 0", "short", "new"]
        before = answers(fleet, names), fleet.base.digest
        assert fleet.consolidate() == 0
        assert (answers(fleet, names), fleet.base.digest) == before


def test_new_keys_start_from_what_others_have_learned_and_these_stay_as_they_are():
    with taught() as fleet, taught() as same:
        names = [f"key {i}" for i in range(4)]
        before = answers(same, names)
        assert fleet.consolidate() == 1
        assert fleet.consolidate() == 1  # nobody else could have joined
        assert answers(fleet, names) == before
        assert answers(fleet, ["new"]) != answers(same, ["new"])
        assert fleet.base.clf.source_names_[:2] == ["source 0", "source 1"]
        assert set(fleet.base.clf.source_names_[2:]) <= {f"keys {i}" for i in range(1, 5)}
        fleet.learn(["new", "key 0"], PROBE[:2], ["a", "b"])  # of two bases in one call
        same.learn("key 0", PROBE[1], "b")
        assert answers(fleet, ["key 0"]) == answers(same, ["key 0"])
        own = fleet.base.member(fleet.to_bytes("new"))
        assert own.predict_proba(PROBE).tolist() == pytest.approx(
            fleet.predict_proba("new", PROBE), abs=1e-9
        )


def test_a_spoiled_key_is_kept_out():
    with taught(keys=range(4)) as sound, taught(keys=range(5), spoiled=(4,)) as fleet:
        assert sound.consolidate() == fleet.consolidate() == 1
        assert fleet.base.digest == sound.base.digest


def test_the_mistakes_of_a_key_stay_within_its_bound():
    with taught(method="hedgerow") as fleet:
        fleet.consolidate()
        for key, exchanged in (("related", 0), ("spoiled", 1)):
            fleet.learn(key, *rows(9, 60, exchanged))
            model = fleet.model(key)
            assert model.mistakes_ <= model.bound_


def test_what_is_forgotten_is_in_no_base_and_in_no_file(tmp_path):
    with taught(tmp_path / "f", keys=range(5)) as fleet, taught(keys=(0, 2, 3, 4)) as without:
        fleet.consolidate()
        fleet.learn("old", *rows(8))
        fleet.learn("later", *rows(9))
        fleet.consolidate()
        without.consolidate()
        without.learn("old", *rows(8))
        without.learn("later", *rows(9))
        without.consolidate()
        files = set(os.listdir(tmp_path / "f" / "bases"))
        assert fleet.forget("key 1") == ["key 1"]
        assert files & set(os.listdir(tmp_path / "f" / "bases")) == {"sources"}
        assert fleet.base.digest == without.base.digest
        assert answers(fleet, ["old", "new"]) == answers(without, ["old", "new"])
        assert not any(b"key 1" in path.read_bytes() for path in (tmp_path / "f").glob("**/*.*"))
        fleet.forget(*(f"key {i}" for i in range(5)), "old", "later")
        assert fleet.base.digest == Base.fit(SOURCES, "hedgerow-linear").digest


def test_a_fleet_that_was_cut_off_goes_on_to_the_bit(tmp_path):
    keys = ["key 0", "first", "second", "new"]
    with taught(tmp_path / "f") as fleet:
        fleet.predict("waits", PROBE[0], "order-1")
        fleet.consolidate()
        fleet.learn("first", *rows(8))
        fleet.label("waits", "order-1", "a")
        fleet.consolidate()
        fleet.learn("second", *rows(9))
        before = answers(fleet, [*keys, "waits"])
        fleet.backup(tmp_path / "backup")
        folder = crashed(fleet, tmp_path / "again")
    for place in (folder, tmp_path / "backup"):
        with Fleet.open(place) as again:
            assert answers(again, [*keys, "waits"]) == before
            assert again.consolidate() == 3
            assert answers(again, keys[:3]) == {key: before[key] for key in keys[:3]}


KILLED = """
import os, signal, sys
from hedgerow.fleet import Fleet
folder, step, where = sys.argv[1:]
fleet = Fleet.open(folder)
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if where == "before":  # the new file is durable, and the store does not name it yet
    fleet._store.set_meta = die
else:
    fleet._holder.add = die
fleet.consolidate() if step == "consolidate" else fleet.forget("key 1")
"""


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("step", ["consolidate", "forget"])
def test_a_kill_between_the_steps_leaves_the_old_base_or_the_new_one(tmp_path, step, where):
    folder = tmp_path / "f"
    keys = ["key 0", "key 1", "key 2", "key 3", "old", "new"]
    with taught(folder) as fleet:
        if step == "forget":
            fleet.consolidate()
            fleet.learn("old", *rows(8))
        old = answers(fleet, keys)
    shutil.copytree(folder, tmp_path / "whole", ignore=shutil.ignore_patterns("lock"))
    with Fleet.open(tmp_path / "whole") as whole:
        whole.consolidate() if step == "consolidate" else whole.forget("key 1")
        new = answers(whole, keys)
    command = [sys.executable, "-c", KILLED, str(folder), step, where]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with Fleet.open(folder) as fleet:
        if (
            step == "forget" and where == "after"
        ):  # the base has been fitted, the key is still there
            assert fleet.forget("key 1") == ["key 1"]
        assert answers(fleet, keys) == (old if where == "before" else new)
        assert len(os.listdir(folder / "bases")) == 1 + fleet.stats()["bases"]


def test_numbers_teach_too():
    rng = np.random.default_rng(0)
    weights = np.array([1.0, -2.0, 3.0])

    def numbers(level, sign=1.0):
        X = rng.normal(size=(ROWS, 3))
        return X, sign * X @ weights + level

    sources = [Domain(str(i), *numbers(i)) for i in range(2)]
    with Fleet(sources, OnlineTransferRegressor(), consolidate=0) as fleet:
        for i in range(3):
            fleet.learn(f"key {i}", *numbers(i / 2))
        fleet.learn("spoiled", *numbers(0, -1.0))
        assert fleet.consolidate() == 1
        assert fleet._taught[0].rows == [[f"key {i}", ROWS] for i in range(3)]
        fleet.learn("new", *numbers(0.5))
        assert fleet["new"].rmse_ < 1


def test_a_base_is_fitted_by_itself_when_enough_keys_are_new(tmp_path):
    with taught(tmp_path / "f", keys=range(3), consolidate=4) as fleet:
        assert fleet.stats()["bases"] == 0
        fleet.learn("key 3", *rows(3))
        until = time.monotonic() + 60
        while not fleet.stats()["bases"] and time.monotonic() < until:
            time.sleep(0.05)
        assert fleet.stats()["bases"] == 1
        fleet.learn("first", *rows(4))
    with Fleet.open(tmp_path / "f", consolidate=2) as fleet:
        fleet.learn("second", *rows(5))
        until = time.monotonic() + 60
        while fleet.stats()["bases"] < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert fleet.stats()["bases"] == 2


def test_what_cannot_be_is_refused(tmp_path):
    with Fleet(SOURCES, "hedgerow-linear", path=tmp_path / "none") as fleet:
        with pytest.raises(InputError, match=r"has not kept the rows .* consolidate=0"):
            fleet.consolidate()
        fleet.learn(["hot"] * 600, *rows(1, 600))
        snapshot = fleet.to_bytes("hot")
    with pytest.raises(InputError, match=r"has not kept the rows .* consolidate=0"):
        Fleet.open(tmp_path / "none", consolidate=8)
    for number in (-1, True, 2.5):
        with pytest.raises(InputError, match="consolidate="):
            Fleet(SOURCES, consolidate=number)
    with taught(tmp_path / "f") as fleet:
        with pytest.raises(InputError, match="its state is a snapshot"):
            fleet.put("hot", snapshot)
        fleet.learn(["hot"] * 600, *rows(1, 600))  # of a key that may teach all rows stay
        fleet.flush()
        assert len(fleet._holder.state("hot")[1]) == 600
        fleet.consolidate()
    (file,) = (tmp_path / "f" / "bases").glob("*.safetensors")
    content = file.read_bytes()
    file.write_bytes((tmp_path / "f" / "base.safetensors").read_bytes())
    with pytest.raises(JournalError, match="is not the base that keys belong to"):
        Fleet.open(tmp_path / "f")
    file.unlink()
    with pytest.raises(InputError, match=file.name):
        Fleet.open(tmp_path / "f")
    file.write_bytes(content)
    Fleet.open(tmp_path / "f").close()
