"""Run units in parallel and report progress; each row is on disk before it is counted, so a run can be resumed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from hedgerow.experiment import results
from hedgerow.experiment.engines import LOCAL, ORPHAN_CHECK, Rows, Work, engine_of
from hedgerow.experiment.plugins import load_plugin

TASK = results.KEY.index("task")
BY_TURNS = 2  # tasks; a process keeps the data of as many
CHUNK = 5  # orders a worker takes at once: enough to share one fit, few enough to keep all workers busy


class Unit(Protocol):
    """What can be run: so many orders, each with a key of its own in the results."""

    @property
    def orders(self) -> int:
        """How many."""
        ...

    def key(self, trial: int) -> tuple[object, ...]:
        """What makes a row of the results unique."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far a run is, and where it is done, if not in processes of this machine."""

    done: int
    total: int
    seconds: float
    where: str = ""

    @property
    def left(self) -> float:
        """Estimated seconds left, if the rest takes as long as what is done."""
        return self.seconds / self.done * (self.total - self.done) if self.done else float("nan")


def run(
    units: Sequence[Unit],
    rows: Rows,
    out: str | Path,
    *,
    engine: str = LOCAL,
    jobs: int = 2,
    data_dir: str | None = None,
    plugins: Sequence[str] = (),
    progress: Callable[[Progress], None] = lambda _: None,
) -> int:
    """Run every order whose row is not in the directory yet, with `rows`; return the number of new rows.

    Interrupted, everything finished is in the directory, and the next call goes on from there, with any engine.
    """
    chosen = engine_of(engine, jobs)
    directory = Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    there = results.read(directory).keys()
    results.mend(directory)
    chunks = _in_turn([chunk for unit in units for chunk in _chunks(unit, there)])
    total, done, start = sum(len(trials) for _, trials in chunks), 0, time.perf_counter()
    progress(Progress(0, total, 0.0))
    if chunks:
        for finished in chosen.run(chunks, Work(rows, data_dir, tuple(plugins)), directory):
            done += finished
            progress(Progress(done, total, time.perf_counter() - start, chosen.where))
    return total


def _chunks(unit: Unit, there: set[tuple[object, ...]]) -> list[tuple[Unit, list[int]]]:
    todo = [trial for trial in range(unit.orders) if unit.key(trial) not in there]
    return [(unit, todo[i : i + CHUNK]) for i in range(0, len(todo), CHUNK)]


def _in_turn(chunks: Sequence[tuple[Unit, list[int]]]) -> list[tuple[Unit, list[int]]]:
    """Chunks of two tasks by turns: two workers that begin together do not solve the same alignments."""
    of_task: dict[object, list[tuple[Unit, list[int]]]] = {}
    for unit, trials in chunks:
        of_task.setdefault(unit.key(0)[TASK], []).append((unit, trials))
    queues = list(of_task.values())
    pairs = [queues[i : i + BY_TURNS] for i in range(0, len(queues), BY_TURNS)]
    return [chunk for pair in pairs for each in zip_longest(*pair) for chunk in each if chunk is not None]


__all__ = ["CHUNK", "ORPHAN_CHECK", "Progress", "Rows", "Unit", "load_plugin", "run"]
