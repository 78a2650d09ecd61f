"""Experiments on a real Dask cluster: the rows of the local engine, also when workers are killed in mid-run."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.alike import alike
from support.command import FRESH, environment

from hedgerow import load
from hedgerow.core.errors import InputError
from hedgerow.dask.cluster import Place, connected
from hedgerow.lab import rows as results
from hedgerow.lab.compare import plan
from hedgerow.lab.compare import task_of as compared_task
from hedgerow.lab.runner import Folder, Unit, run
from hedgerow.lab.study import make_task, measure

TIMES = ("seconds_offline", "seconds_online")


def unit(target: str, method: str, point: str, orders: int) -> Unit:
    """What `hedgerow study delay` runs."""
    make = partial(make_task, "delay", point, "digits", target)
    return Unit("delay", f"digits/{target}", method, make, measure, point, orders=orders, options={"random_state": 0})


def units(orders: int) -> list[Unit]:
    return [unit("shifted", m, point, orders) for m in ("pa", "hedgerow-linear") for point in ("0", "10")]


def rows(out: Path) -> list[dict[str, Any]]:
    kept = [{key: value for key, value in row.items() if key not in TIMES} for row in results.read(out)[0]]
    return sorted(kept, key=lambda row: [str(row[name]) for name in results.KEY])


def differing(a: Path, b: Path) -> dict[str, tuple[Any, Any]]:
    """The first difference of each field that differs."""
    first: dict[str, tuple[Any, Any]] = {}
    for ours, theirs in zip(rows(a), rows(b), strict=True):
        for name in ours:
            if not alike(ours[name], theirs[name]):
                first.setdefault(name, (ours[name], theirs[name]))
    return first


def lines(out: Path) -> int:
    return (out / results.FILE).read_bytes().count(b"\n")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain")
    run(units(6), Folder(out, jobs=1))
    return out


def address(client: Any) -> str:
    return str(client.scheduler.address).replace("tcp://", "dask://")


@pytest.mark.slow
def test_the_rows_are_those_of_the_local_engine_and_a_run_goes_on(client: Any, plain: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    assert run(units(3), Folder(tmp_path, engine=address(client), jobs=-1, tell=lambda *each: told.append(each))) == 12
    assert told[-1] == (12, 12, "runs on 2 workers")
    assert run(units(6), Folder(tmp_path, engine="local", jobs=1)) == 12  # with another engine
    assert run(units(6), Folder(tmp_path, engine=address(client), jobs=-1)) == 0
    assert lines(tmp_path) == 24
    assert differing(tmp_path, plain) == {}


@pytest.mark.slow
def test_workers_killed_in_mid_run_change_nothing(tmp_path: Path, plain: Path) -> None:
    """Three times a worker is killed -9 while a run is under way; each order has one row, that of the local engine."""
    with connected(Place(workers=2)) as own:
        over, killed = threading.Event(), []

        def kill() -> None:
            while len(killed) < 3 and not over.wait(0.7):
                pids = [worker.process.pid for worker in own.cluster.workers.values() if worker.process is not None]
                pids = [pid for pid in pids if pid is not None]
                if pids:
                    os.kill(pids[len(killed) % len(pids)], signal.SIGKILL)
                    killed.append(pids)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            run(units(6), Folder(tmp_path, engine=address(own), jobs=-1))
        finally:
            over.set()
            thread.join()
    assert killed
    assert lines(tmp_path) == 24
    assert differing(tmp_path, plain) == {}


@pytest.mark.slow
def test_a_comparison_has_the_rows_of_the_local_engine(client: Any, tmp_path: Path) -> None:
    domains = load("digits")
    task = compared_task([domains["tilted"], domains["faded"]], domains["shifted"], warmup=0.3)
    for name, where, jobs in (("local", "local", 1), ("cluster", address(client), -1)):
        folder = Folder(tmp_path / name, jobs=jobs, engine=where)
        compared = plan(folder, [task], "pa,hedgerow-linear", orders=2, peers="none")
        assert run(compared, folder) == 8
    assert differing(tmp_path / "local", tmp_path / "cluster") == {}


def test_an_error_of_a_unit_is_that_of_the_local_engine(client: Any, tmp_path: Path) -> None:
    bad = [unit("nowhere", "pa", "0", 1)]
    messages = []
    for where, jobs in ((address(client), -1), ("local", 1)):
        with pytest.raises(InputError, match=r"pa on digits/nowhere.*unknown") as caught:
            run(bad, Folder(tmp_path, engine=where, jobs=jobs))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("name", "jobs", "words"),
    [
        ("dusk", -1, r"--engine 'dusk': use local, dask"),
        ("dask://", -1, r"--engine 'dask://'"),
        ("dask://host", -1, r"--engine 'dask://host'"),
        ("dask://local:0", -1, r"--engine 'dask://local:0'"),
        ("dask://10.0.0.1:8786", 4, r"--jobs 4: .* the scheduler tcp://10.0.0.1:8786 has its own"),
        ("dask://local:2", 4, r"--jobs 4: .*--engine says 2"),
        ("dask", 0, r"--jobs 0: at least one process"),
    ],
)
def test_an_engine_that_cannot_be_is_refused_before_anything_is_run(
    tmp_path: Path, name: str, jobs: int, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        run(units(1), Folder(tmp_path / "out", engine=name, jobs=jobs))
    assert not (tmp_path / "out").exists()


def test_a_scheduler_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.dask.cluster.REACHED", 1.0)
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9; start one with `dask sched"):
        run(units(1), Folder(tmp_path, engine="dask://127.0.0.1:9", jobs=-1))


@pytest.mark.slow
def test_the_command_runs_on_its_own_cluster_and_ctrl_c_says_how_to_go_on(tmp_path: Path, plain: Path) -> None:
    words = ["study", "delay", "--methods", "pa,hedgerow-linear", "--orders", "40", "--engine", "dask://local:2"]
    out = tmp_path / "out"
    process = subprocess.Popen(
        [*FRESH, *words, "--out", str(out)], text=True, start_new_session=True, stderr=subprocess.PIPE,
        stdout=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    end = time.monotonic() + 120
    while not ((out / results.FILE).exists() and lines(out) >= 5):
        assert time.monotonic() < end, "no rows"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C goes to every process of the terminal
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    kept = len(results.read(out)[0])
    assert kept == lines(out) < 320
    assert f"interrupted: {kept} finished runs are kept" in stderr
    command = shlex.split(stderr.strip().splitlines()[-1])
    assert command[-1] == "--resume"
    known = {tuple(row[name] for name in results.KEY): row for row in rows(plain)}
    both = [(row, known.get(tuple(row[name] for name in results.KEY))) for row in rows(out)]
    assert any(other for _, other in both)
    assert all(row["curve"] == other["curve"] for row, other in both if other is not None)
