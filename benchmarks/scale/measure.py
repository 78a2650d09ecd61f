"""One and two local workers, measured: real processes, each with a fleet and its share of the keys by their hash.

    python benchmarks/scale/measure.py [--only linear-20,own-20] [--runs 5]

A feeder (this process) cuts a stream into batches, a worker's rows together, and keeps at most WINDOW batches of a
worker under way. Rows go to scale/measured/workers.jsonl, one a run; what is there of the same setting is replaced.
Other programs may use the machine: each row says how many there were (load) and what share of a core a process had.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from scale.setting import BY_NAME, SETTINGS, Setting, drawn_keys, drawn_rows, sources, worker_of
from scale.worker import Clock, main

MEASURED = Path(__file__).parent / "measured" / "workers.jsonl"
WINDOW = 2  # batches of a worker under way: one is worked on, one waits
PIPE = 2**20  # bytes that a pipe holds: the batch that waits, so that the feeder need not
POOL = 2_000  # different rows of a stream
PARTS = 4  # of a run's batches, so that the cost of keys with few and with many labels is seen


class Worker:
    """The feeder's side of a worker: its pipe, and the batches that are under way."""

    def __init__(self) -> None:
        context = get_context("spawn")
        theirs, self.to = context.Pipe(duplex=False)
        self.pipe, answers = context.Pipe(duplex=False)
        fcntl.fcntl(self.to.fileno(), fcntl.F_SETPIPE_SZ, PIPE)
        self.process = context.Process(target=main, args=(theirs, answers), daemon=True)
        self.process.start()
        theirs.close()
        answers.close()
        self.sent, self.under_way, self.bytes = list[float](), 0, 0

    def ask(self, message: bytes) -> Any:
        self.to.send_bytes(message)
        return json.loads(self.pipe.recv_bytes())

    def begin(self, setting: Setting) -> Any:
        self.sent, self.under_way, self.bytes = [], 0, 0
        return self.ask(b"r" + str(setting.memory).encode())

    def give(self, message: bytes) -> None:
        while self.under_way >= WINDOW:
            self.take()
        self.sent.append(time.perf_counter())
        self.under_way += 1
        self.bytes += len(message)
        self.to.send_bytes(message)

    def take(self) -> None:
        """A reply, which is waited for."""
        self.bytes += len(self.pipe.recv_bytes())
        self.under_way -= 1

    def quit(self) -> None:
        self.to.send_bytes(b"q")
        self.process.join(60)


def feed(setting: Setting, workers: list[Worker], seed: int) -> None:
    """The whole stream; returns when all replies are there."""
    from hedgerow.fleet.batch import Batch

    X, y = drawn_rows(setting, POOL, seed)
    keys = drawn_keys(setting, len(workers), seed)
    owner = worker_of(keys, len(workers))
    waiting: list[list[int]] = [[] for _ in workers]

    def send(w: int, places: list[int]) -> None:
        rows = np.array(places) % POOL
        labels = np.array(y[rows], dtype=object)
        batch = Batch(keys[places].tolist(), X[rows], labels, np.ones(len(rows)))
        workers[w].give(b"b" + batch.to_bytes())

    for i, w in enumerate(owner.tolist()):
        waiting[w].append(i)
        if len(waiting[w]) == setting.batch:
            send(w, waiting[w])
            waiting[w] = []
            for pipe in wait([worker.pipe for worker in workers if worker.under_way], 0):
                next(worker for worker in workers if worker.pipe is pipe).take()
    for w, places in enumerate(waiting):
        if places:
            send(w, places)
    for worker in workers:
        while worker.under_way:
            worker.take()


def run(setting: Setting, workers: list[Worker], seed: int, constants: dict[str, Any]) -> dict[str, Any]:
    shapes = [worker.begin(setting) for worker in workers]
    load, clock, cpu = os.getloadavg()[0], Clock(), time.process_time()
    feed(setting, workers, seed)
    seconds = clock.read()[0]
    feeder = {"seconds": time.process_time() - cpu, "waited": clock.read()[0] - clock.read()[1]}
    ends = [worker.ask(b"e") for worker in workers]
    # all processes have one clock; from a batch being sent to its answer being sent
    done = [np.array([batch[3] for batch in end["batches"]]) for end in ends]
    latencies = np.concatenate([end - worker.sent for end, worker in zip(done, workers, strict=True)])
    return {
        "setting": setting.to_json(),
        "workers": len(workers),
        "seed": seed,
        "load": round(load, 2),
        "seconds": seconds,
        "rows_a_second": setting.rows * len(workers) / seconds,
        "moved_bytes": sum(worker.bytes for worker in workers),
        "latency_mean": float(latencies.mean()),
        "latency_p50": float(np.quantile(latencies, 0.5)),
        "latency_p99": float(np.quantile(latencies, 0.99)),
        "feeder": {**feeder, "share": feeder["seconds"] / (feeder["seconds"] + feeder["waited"])},
        "shape": shapes[0],
        "constants": constants,
        "each": [folded(end) for end in ends],
    }


def folded(end: dict[str, Any]) -> dict[str, Any]:
    """A worker's batches in PARTS of a run: seconds on a core of its own, by the wall, and what was counted."""
    batches = end.pop("batches")
    parts = []
    for some in np.array_split(np.arange(len(batches)), min(PARTS, len(batches))):
        own = [batches[i] for i in some]
        counts = {name: sum(batch[2][name] for batch in own) for name in own[0][2]}
        wall, alone = sum(batch[0] for batch in own), sum(batch[1] for batch in own)
        parts.append({"batches": len(own), "wall": wall, "seconds": alone, **counts})
    each = np.array([[batch[0] / batch[2]["rows"], batch[1]] for batch in batches])
    spread = {
        "sd_log_wall_a_row": float(np.log(each[:, 0]).std()),
        "median_batch_seconds": float(np.median(each[:, 1])),
    }
    share = sum(part["seconds"] for part in parts) / sum(part["wall"] for part in parts)
    return {"parts": parts, "share": share, **spread, **end}


def measure(setting: Setting, runs: int) -> list[dict[str, Any]]:
    from hedgerow.fleet import Base

    data = Base.fit(sources(setting), setting.method, **setting.options).to_bytes()
    workers = [Worker(), Worker()]
    loads = [worker.ask(b"c" + data)["load_seconds"] for worker in workers]
    constants = {"bytes": len(data), "load_seconds": loads}
    found = []
    try:
        for n in (1, 2):  # once, so that everything is compiled and read
            run(BY_NAME[setting.name], workers[:n], 99, constants)
        for seed in range(runs):
            for n in (1, 2) if seed % 2 == 0 else (2, 1):
                found.append(run(setting, workers[:n], seed, constants))
                row = found[-1]
                print(
                    f"{setting.name:22s} {n} worker(s) {row['rows_a_second']:9,.0f} rows/s"
                    f"  p50 {row['latency_p50']:.3f} s"
                    f"  share of a core {np.mean([w['share'] for w in row['each']]):.2f}  load {row['load']}",
                    flush=True,
                )
    finally:
        for worker in workers:
            worker.quit()
    return found


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(setting.name for setting in SETTINGS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=MEASURED)
    given = parser.parse_args()
    for name in given.only.split(","):
        if name not in BY_NAME:
            parser.error(f"no setting {name!r}; there are {', '.join(BY_NAME)}")
        rows = measure(BY_NAME[name], given.runs)
        old = given.out.read_text().splitlines() if given.out.exists() else []
        kept = [line for line in old if json.loads(line)["setting"]["name"] != name]
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("\n".join([*kept, *(json.dumps(row) for row in rows)]) + "\n")


if __name__ == "__main__":
    command()
