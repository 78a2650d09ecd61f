"""Throughput on local[1] and local[2] beside the same members in one process, where the time goes, and one hot key.

python -m spark.speed --events 100000 --out speed.json
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from spark import events

HERE = Path(__file__).parent
WARM = 1  # batches at the start that are not counted: workers start, loops are loaded


def in_one_process(made, base):
    """The same members, the same batches: a key's instances are predicted at once, then its labels learned at once."""
    members, learned = {}, set()
    labels, spent, wall = made.labels, 0.0, 0.0
    for f in range(int(made.batch.max()) + 1):
        began, began_wall = time.process_time(), time.monotonic()
        for places in by_key(made.key, np.flatnonzero(made.batch == f)):
            member = members.setdefault(int(made.key[places[0]]), None) or base.member()
            members[int(made.key[places[0]])] = member
            member.predict_proba(made.X[places])
        at = np.flatnonzero((labels["batch"] == f) & (labels["event"] >= 0))
        new = [i for i in at.tolist() if labels["event"][i] not in learned and not learned.add(labels["event"][i])]
        new = np.array(new, dtype=int)
        for places in by_key(made.key[labels["event"]], new):
            event = labels["event"][places]
            members[int(made.key[event[0]])].learn(made.X[event], labels["label"][places])
        if f >= WARM:
            spent, wall = spent + time.process_time() - began, wall + time.monotonic() - began_wall
    return spent, wall


def by_key(keys, places):
    order = places[np.argsort(keys[places], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if len(order) else []


def on_spark(made, base, master, timed):
    folder = Path(tempfile.mkdtemp(prefix="spark-speed-"))
    (folder / "base").write_bytes(base.to_bytes())
    events.write(made, folder)
    words = [sys.executable, "-m", "spark.job", str(folder), "--master", master, *(["--timed"] if timed else [])]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = json.loads((folder / "job.json").read_text())
    found["clocks"] = Counter()
    for path in (folder / "timings").glob("*.json"):
        found["clocks"].update(json.loads(path.read_text()))
    shutil.rmtree(folder)
    return found


def row_of(name, found, n, batches):
    """Events a second of the batches after the first, by the wall; processor time of the whole job, with its start."""
    counted = [batch for batch in found["batches"] if batch["id"] >= WARM and batch["rows"]]
    seconds = sum(batch["triggerExecution"] for batch in counted) / 1000
    return {
        "what": name,
        "events a second": round(n * (batches - WARM) / batches / seconds),
        "ms of processor an event": round(1000 * sum(found["cpu"].values()) / n, 3),  # with all that starts
        "seconds a batch": round(seconds / len(counted), 2),
        "longest batch": round(max(batch["triggerExecution"] for batch in counted) / 1000, 2),
    }


def main(n, keys, files):
    made, base = events.make(n, keys, files), events.base()
    spent, wall = in_one_process(made, base)
    counted = n * (files - WARM) / files
    alone = {"what": "one process", "events a second": round(counted / wall)}
    rows = [{**alone, "ms of processor an event": round(1000 * spent / counted, 3)}]
    two = on_spark(made, base, "local[2]", timed=True)
    rows.append(row_of("local[2]", two, n, files))
    rows.append(row_of("local[1]", on_spark(made, base, "local[1]", timed=False), n, files))
    skewed = events.make(n, keys, files, hot=0.5)
    rows.append(row_of("local[2], one key has half of all events", on_spark(skewed, base, "local[2]", False), n, files))
    clocks = two["clocks"]
    python = two["cpu"]["python workers"]
    inside = clocks["learner"] + clocks["rebuilding"] + clocks["state"]
    goes = {
        "Java (plan, shuffle, RocksDB, files)": two["cpu"]["java"],
        "Python: Arrow, pandas, starting": python - clocks["handler"],
        "Python: events by id, rows, frames": clocks["handler"] - inside,
        "Python: calls for states": clocks["state"],
        "Python: learners built from states": clocks["rebuilding"],
        "Python: the learner": clocks["learner"],
    }
    about = {"events": n, "keys": keys, "batches": files, "load": os.getloadavg()[0], "cores": os.cpu_count()}
    groups = clocks["keys"]
    moved = {
        "bytes in a key a batch": round(clocks["bytes in"] / groups),
        "bytes out a key a batch": round(clocks["bytes out"] / groups),
        "state calls a key a batch": round(clocks["state, calls"] / groups, 2),
    }
    return {**about, "rows": rows, "processor seconds": {k: round(v, 1) for k, v in goes.items()}, "moved": moved}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--files", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = main(given.events, given.keys or max(10, given.events // 50), given.files)
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
