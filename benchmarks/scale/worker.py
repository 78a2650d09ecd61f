"""One worker: a process with a fleet of its own, which gets the constants once and then batches of keyed rows.

A message starts with a letter: `c` constants, `r` a new run, `b` a batch, `e` the end of the run, `q` quit.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy: threads of BLAS would run beside what is timed
IN_MEMORY = "/dev/shm"  # for the fleets' files: a disk that others use too stops a run at random


def waited() -> float:
    """Seconds for which this process could have run and other processes had its core."""
    with open("/proc/self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


class Clock:
    """Seconds since the start: by the wall, and those on a core (or waiting for the disk) alone."""

    def __init__(self) -> None:
        self.wall, self.waited = time.perf_counter(), waited()

    def read(self) -> tuple[float, float]:
        wall = time.perf_counter() - self.wall
        return wall, wall - (waited() - self.waited)


def main(pipe: Connection, answers: Connection) -> None:
    from hedgerow.fleet import Base, Fleet
    from hedgerow.fleet.batch import Batch
    from scale.counting import Counter, shape_of

    if os.path.isdir(IN_MEMORY):
        tempfile.tempdir = IN_MEMORY
    base: Any = None
    fleet: Any = None
    while True:
        message = pipe.recv_bytes()
        kind = message[:1]
        if kind == b"c":
            clock = Clock()
            base = Base.from_bytes(message[1:])
            answers.send_bytes(json.dumps({"load_seconds": clock.read()[1]}).encode())
        elif kind == b"r":
            if fleet is not None:
                fleet.close()
            fleet = Fleet(base, memory=int(message[1:]), sync="normal")
            counter, found = Counter(fleet), []
            answers.send_bytes(json.dumps(shape_of(fleet)).encode())
        elif kind == b"b":
            clock = Clock()
            batch = Batch.from_bytes(message[1:])
            counts = counter.before(batch.keys)
            said = fleet.predict_then_learn(batch.keys, batch.X, batch.labels)
            answers.send_bytes(json.dumps(said.tolist()).encode())
            found.append([*clock.read(), counts, time.perf_counter()])
        elif kind == b"e":
            answers.send_bytes(json.dumps({"batches": found, **ended(fleet, counter)}).encode())
        else:
            if fleet is not None:
                fleet.close()
            return


def ended(fleet: Any, counter: Any) -> dict[str, Any]:
    """What the run left: bytes of a key, and what writing all states costs (a checkpoint)."""
    dirty, stats = len(fleet._holder.dirty), fleet.stats()
    rows = sum(held.rows - held.stored for held in fleet._holder.held.values())
    clock = Clock()
    fleet.flush()
    checkpoint = {"keys": dirty, "rows": rows, "seconds": clock.read()[1]}
    some = list(counter.labels)[:50]
    state = {"keys": len(some), "labels": sum(counter.labels[k] for k in some)}
    state["bytes"] = sum(len(fleet.to_bytes(key)) for key in some)
    memory = {"keys": stats["held"], "bytes": stats["bytes"]}
    return {"checkpoint": checkpoint, "state": state, "memory": memory, "misses": stats["misses"]}
