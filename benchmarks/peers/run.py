"""Our learner against what people would use instead, on streams whose labels come after the predictions.

    python benchmarks/peers.py [--tasks dslr,webcam] [--methods "river ARF,VW --oaa"] [--limit 60] [--orders 1]
    python benchmarks/peers.py --methods hedgerow,hedgerow-linear --again     # ours anew
    python benchmarks/peers.py --list                                         # tasks, peers, what is installed
    python benchmarks/peers.py --table                                        # RESULTS.md and peers.svg

A row a finished run goes to peers/rows.jsonl; what is there is skipped. Each run is a process of its own
with one thread, one at a time. Peers whose package is not installed are named and left out: `make bench-peers` installs
all, in two environments, because CapyMOA wants another pandas than we have pinned. HEDGEROW_DATA is the folder of the
data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers import cell
from peers.peer import DEFAULT, REASONABLE, SOURCES, TARGET
from peers.registry import PEERS, is_there
from peers.rows import KEY, Row, append, compact, read
from peers.streams import DEFAULT as TASKS

DOOR = Path(__file__).parent.parent / "peers.py"
SPLIT = 20
GRACE = 60  # seconds above four times the limit after which a process that does not look at the clock is ended
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "POT_BACKEND_DISABLE_TENSORFLOW": "1",  # else skada loads it unasked
    "JAVA_TOOL_OPTIONS": "-XX:ActiveProcessorCount=1 -Xmx6g",
}


def jobs(given: argparse.Namespace) -> Iterator[Row]:
    """What was asked for: quick peers on all tasks first, so that a run that is stopped has much to show."""
    wanted = names(given.methods, PEERS, "peer")
    tasks = names(given.tasks, None, "task") or list(TASKS)
    trainings = names(given.trainings, (SOURCES, TARGET), "training")
    variants = names(given.variants, (DEFAULT, REASONABLE), "setting")
    chosen = [name for name in PEERS if name in wanted] if wanted else list(PEERS)
    for slow in (False, True):
        for task in tasks:
            for name in (n for n in chosen if PEERS[n].slow is slow):
                for training in PEERS[name].trainings:
                    for variant in PEERS[name].settings:
                        if training not in trainings or variant not in variants:
                            continue
                        for trial in range(given.orders):
                            values = (task, name, variant, training, given.split, trial)
                            yield {**dict(zip(KEY, values, strict=True)), "limit": given.limit}


def names(given: str, known: Any, what: str) -> list[str]:
    """Names joined by ';' (some have a comma in them) or, where that is clear, by ','."""
    found = [part.strip() for part in given.split(";") if part.strip()]
    if known is None or any(part not in known for part in found):
        found = [part.strip() for part in given.split(",") if part.strip()]
    for part in found:
        if known is not None and part not in known:
            sys.exit(f"no {what} {part!r}; there are: {'; '.join(known)}")
    return found


def work(job: Row) -> Row:
    """The row of a job, from a process of its own."""
    command = [sys.executable, str(DOOR), "--cell", json.dumps(job)]
    environment, patience = {**os.environ, **ENVIRONMENT}, 4 * job["limit"] + GRACE
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return {**job, "finished": False, "n": 0, "error": "did not look at the clock and was ended"}
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if last.startswith("{"):
        return dict(json.loads(last))
    why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {**job, "finished": False, "n": 0, "error": why[:300]}


def said(row: Row) -> str:
    """A row as a line on the screen."""
    name = f"{row['task']}, {row['method']} ({row['variant']}, {row['training']})"
    if "error" in row:
        return f"{name}: {row['error']}"
    reached = "" if row["finished"] else f", time up at {row['n']} of {row['stream']}"
    if row["source_rows"] < row["source_total"]:
        reached += f", {row['source_rows']} of {row['source_total']} source rows"
    share = f"{100 * row['mistakes'] / row['n']:.1f} %" if row["n"] else "-"
    return f"{name}: {share} of {row['n']}{reached}, {row['seconds_wall']:.0f} s"


def go(given: argparse.Namespace) -> None:
    """Run what is not there yet, one after the other."""
    there = set() if given.again else {tuple(row[name] for name in KEY) for row in read()}
    todo = [job for job in jobs(given) if tuple(job[name] for name in KEY) not in there]
    missing = {job["method"] for job in todo if not is_there(job["method"])}
    if missing:
        print(f"left out, because the package is not installed here: {'; '.join(sorted(missing))}", flush=True)
    todo = [job for job in todo if job["method"] not in missing]
    began = time.perf_counter()
    for number, job in enumerate(todo, 1):
        row = work(job)
        append(row)
        print(f"{number}/{len(todo)} {time.perf_counter() - began:.0f} s  {said(row)}", flush=True)
    if given.again:
        compact()


def show() -> None:
    """Tasks, peers, and whether they are installed."""
    print("tasks:", ", ".join(TASKS))
    for name, entry in PEERS.items():
        print(f"{name}: {entry.package}{'' if is_there(name) else ', not installed here'}")


def main() -> None:
    """The door."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="", help="joined by ','; watch/1 to watch/10 for the wearers")
    parser.add_argument("--methods", default="", help="joined by ';' or ','")
    parser.add_argument("--variants", default=f"{DEFAULT},{REASONABLE}")
    parser.add_argument("--trainings", default=f"{SOURCES},{TARGET}")
    parser.add_argument("--split", type=int, default=SPLIT)
    parser.add_argument("--orders", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds of a run")
    parser.add_argument("--again", action="store_true", help="also what is there already")
    parser.add_argument("--list", action="store_true", help="tasks and peers")
    parser.add_argument("--table", action="store_true", help="fold the rows, run nothing")
    parser.add_argument("--cell", help=argparse.SUPPRESS)  # one run, in this process
    given = parser.parse_args()
    if given.cell:
        cell.main(given.cell)
    elif given.table:
        from peers.table import write  # needs matplotlib, which no run should carry

        write()
    elif given.list:
        show()
    else:
        go(given)
