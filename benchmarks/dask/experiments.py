"""The paper's tasks on a Dask cluster: two workers against one, and workers that are killed with -9 while they run.

    python benchmarks/dask/experiments.py speed --tasks all --trials 20
    python benchmarks/dask/experiments.py kills --kills 10

Every task is run by the local engine, on one worker and on two, one after the other, on clusters that stay up; the rows
of all three are compared. What was measured goes to benchmarks/dask/measured/, from where results.py takes it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.dask.cluster import Place, connected
from hedgerow.experiment import engine, results
from hedgerow.experiment.command import find_methods
from hedgerow.paper import published
from hedgerow.paper.experiments import Unit, units
from hedgerow.paper.run import run_unit
from hedgerow.paper.tasks import TASKS, find_tasks

MEASURED = Path(__file__).parent / "measured"
TOGETHER = 9  # tasks: fewer at a time would leave a worker idle at the end of each group
TIMES = ("seconds_offline", "seconds_online")


def table(tasks: str, methods: str, trials: int) -> list[Unit]:
    return units(["table"], find_tasks(tasks), find_methods(methods, published.METHODS), "table", trials, 1)


def run(work: list[Unit], out: Path, name: str) -> float:
    began = time.perf_counter()
    engine.run(work, run_unit, out, engine=name, jobs=-1)
    return time.perf_counter() - began


def name_of(client: Any) -> str:
    return str(client.scheduler.address).replace("tcp://", "dask://")


def compared(run: Path, other: Path) -> dict[str, Any]:
    """How the rows of two runs differ: rows, lines, fields that are not the same to the last bit, and by how much."""
    a, b = ({tuple(row[k] for k in results.KEY): row for row in results.read(out).rows} for out in (run, other))
    differ: dict[str, int] = {}
    worst = 0.0
    for key in a.keys() & b.keys():
        for field in a[key]:
            if field not in TIMES and a[key][field] != b[key][field]:
                differ[field] = differ.get(field, 0) + 1
                ours, theirs = (np.asarray(each[key][field], dtype=float) for each in (a, b))
                worst = max(worst, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
    lines = (run / results.FILE).read_bytes().count(b"\n")
    return {
        "rows": len(a),
        "lines": lines,
        "same_keys": a.keys() == b.keys(),
        "fields_that_differ": differ,
        "largest_relative_difference": worst,
    }


def speed(tasks: str, methods: str, trials: int) -> dict[str, Any]:
    """Some tasks at a time, on one worker and on two in turn: a machine that others use too is fair to both."""
    found: list[dict[str, Any]] = []
    with connected(Place(workers=1)) as one, connected(Place(workers=2)) as two:
        names = {1: name_of(one), 2: name_of(two)}
        for name in names.values():  # every worker has imported and compiled everything
            with tempfile.TemporaryDirectory() as folder:
                run(table("dslr", "pa,oddm", 20), Path(folder), name)
        every = [task.name for task in find_tasks(tasks)]
        for number, first in enumerate(range(0, len(every), TOGETHER)):
            with tempfile.TemporaryDirectory() as folder:
                group = ",".join(every[first : first + TOGETHER])
                row: dict[str, Any] = {"tasks": group, "load": os.getloadavg()[0]}
                work = table(group, methods, trials)
                for workers in (1, 2) if number % 2 else (2, 1):  # so that nobody is always first
                    row[f"seconds_{workers}"] = run(work, Path(folder) / str(workers), names[workers])
                row["seconds_local"] = run(work, Path(folder) / "local", "local")
                for workers in (1, 2):
                    row[f"compared_{workers}"] = compared(Path(folder) / str(workers), Path(folder) / "local")
                found.append(row)
                print(json.dumps(row), flush=True)
    return {"trials": trials, "methods": methods, "cores": os.cpu_count(), "groups": found}


def kills(tasks: str, methods: str, trials: int, count: int, seed: int) -> dict[str, Any]:
    """A run on two workers of which one is killed every so often, `count` times in all."""
    rng, work, killed = random.Random(seed), table(tasks, methods, trials), []
    with tempfile.TemporaryDirectory() as folder:
        plain, out = Path(folder) / "plain", Path(folder) / "killed"
        whole = run(work, plain, "local")
        with connected(Place(workers=2)) as client:
            over = threading.Event()

            def killer() -> None:
                for _ in range(count):
                    if over.wait(rng.uniform(0.5, 1.5) * whole / count):
                        return
                    processes = [worker.process for worker in client.cluster.workers.values()]
                    pids = [each.pid for each in processes if each is not None and each.pid is not None]
                    if pids:
                        victim = rng.choice(pids)
                        os.kill(victim, signal.SIGKILL)
                        killed.append(victim)

            thread = threading.Thread(target=killer)
            thread.start()
            seconds = run(work, out, name_of(client))
            over.set()
            thread.join()
        found = {"kills": len(killed), "seconds": seconds, "seconds_local": whole, **compared(out, plain)}
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "kills"))
    parser.add_argument("--tasks", default="all")
    parser.add_argument("--methods", default="all")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=MEASURED)
    given = parser.parse_args()
    subprocess.run([sys.executable, "-m", "hedgerow", "warm"], check=True)  # or the first to come would compile
    assert set(find_tasks(given.tasks)) <= set(TASKS.values())
    if given.what == "speed":
        found = speed(given.tasks, given.methods, given.trials)
    else:
        found = kills(given.tasks, given.methods, given.trials, given.kills, given.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{given.what}.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
