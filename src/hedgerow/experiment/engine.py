"""Run units in parallel and report progress; each row is on disk before it is counted, so a run can be resumed."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.experiment import results
from hedgerow.experiment.alignment_cache import AlignmentCache

CHUNK = 5  # orders a worker takes at once: enough to share one fit, few enough to keep all workers busy

ORPHAN_CHECK = 0.5  # seconds between two looks whether the owner is still there


class Unit(Protocol):
    """What can be run: so many orders, each with a key of its own in the results."""

    @property
    def orders(self) -> int:
        """How many."""
        ...

    def key(self, trial: int) -> tuple[object, ...]:
        """What makes a row of the results unique."""
        ...


Rows = Callable[[Any, list[int], AlignmentCache, str | None], Iterator[dict[str, Any]]]  # of a unit, for these orders


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    total: int
    seconds: float

    @property
    def left(self) -> float:
        """Estimated seconds left, if the rest takes as long as what is done."""
        return self.seconds / self.done * (self.total - self.done) if self.done else float("nan")


def load_plugin(path: str | Path) -> None:
    """Run a file that registers a method, an aligner or a head; a second call for the same file does nothing."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InputError(f"no plugin at {path}")
    name = f"hedgerow_plugin_{file.stem}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def run(
    units: Sequence[Unit],
    rows: Rows,
    out: str | Path,
    *,
    jobs: int = 2,
    data_dir: str | None = None,
    plugins: Sequence[str] = (),
    progress: Callable[[Progress], None] = lambda _: None,
) -> int:
    """Run every order whose row is not in the directory yet, with `rows`; return the number of new rows.

    Interrupted, everything finished is in the directory, and the next call goes on from there.
    """
    from joblib import Parallel, delayed, parallel_config

    directory = Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    there = results.read(directory).keys()
    results.mend(directory)
    chunks = [chunk for unit in units for chunk in _chunks(unit, there)]
    total, done, start = sum(len(trials) for _, trials in chunks), 0, time.perf_counter()
    progress(Progress(0, total, 0.0))
    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        fixed = str(directory), data_dir, tuple(plugins), os.getpid(), rows
        work = (delayed(_run_chunk)(unit, trials, *fixed) for unit, trials in chunks)
        for finished in Parallel(return_as="generator_unordered")(work):
            done += finished
            progress(Progress(done, total, time.perf_counter() - start))
    return total


def _chunks(unit: Unit, there: set[tuple[object, ...]]) -> list[tuple[Unit, list[int]]]:
    todo = [trial for trial in range(unit.orders) if unit.key(trial) not in there]
    return [(unit, todo[i : i + CHUNK]) for i in range(0, len(todo), CHUNK)]


def _run_chunk(
    unit: Unit,
    trials: list[int],
    out: str,
    data_dir: str | None,
    plugins: tuple[str, ...],
    owner: int,
    rows: Rows,
) -> int:
    from threadpoolctl import threadpool_limits

    if os.getpid() != owner:
        _belong_to(owner)
    for plugin in plugins:
        load_plugin(plugin)
    try:
        with threadpool_limits(1):  # the same sums, in the same order, for any number of jobs
            for row in rows(unit, trials, AlignmentCache(Path(out) / "cache"), data_dir):
                results.append(out, row)
    except HedgerowError as error:
        raise InputError(f"{unit}: {error}") from error
    except Exception as error:
        error.add_note(f"while running {unit}")
        raise
    return len(trials)


@cache
def _belong_to(owner: int) -> None:
    """A worker ignores Ctrl-C, which its owner handles, and ends soon after its owner: nobody writes after a kill."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(ORPHAN_CHECK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
