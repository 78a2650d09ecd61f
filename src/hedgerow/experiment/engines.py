"""Where chunks of a run are worked on: in processes of this machine, or on a Dask cluster. The work is the same.

An engine takes chunks (a unit and some of its orders) and puts their rows into the results file. In a process of this
machine a row is written as soon as it is there. Workers of a cluster may not see the folder: they send a chunk's rows
back, and whoever started the run writes them. So a chunk that was begun twice, as a worker died, is written once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.experiment import results
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.plugins import load_plugin

ORPHAN_CHECK = 0.5  # seconds between two looks whether the owner is still there
CACHE = "cache"  # the folder of alignments within that of the results
LOCAL = "local"

Chunk = tuple[Any, list[int]]  # a unit, and the orders to run
Rows = Callable[[Any, list[int], AlignmentCache, str | None], Iterator[dict[str, Any]]]  # of a unit, for these orders


@dataclass(frozen=True)
class Work:
    """What is done with a chunk, wherever that is."""

    rows: Rows
    data_dir: str | None
    plugins: tuple[str, ...]

    def run(self, unit: Any, trials: list[int], cache: Path, keep: Callable[[dict[str, Any]], None]) -> None:
        """Each row of these orders goes to `keep` as soon as it is there."""
        from threadpoolctl import threadpool_limits

        for plugin in self.plugins:
            load_plugin(plugin)
        try:
            with threadpool_limits(1):  # the same sums, in the same order, for any number of workers
                for row in self.rows(unit, trials, AlignmentCache(cache), self.data_dir):
                    keep(row)
        except HedgerowError as error:
            raise InputError(f"{unit}: {error}") from error
        except Exception as error:
            error.add_note(f"while running {unit}")
            raise


class Engine(ABC):
    """Where chunks are worked on."""

    where = ""  # for progress: "", or "on 2 workers"

    @abstractmethod
    def run(self, chunks: Sequence[Chunk], work: Work, out: Path) -> Iterator[int]:
        """How many rows each chunk had, as soon as they are in the results file of the folder."""


@dataclass(frozen=True)
class Processes(Engine):
    """Processes of this machine; -1: one a core."""

    jobs: int = -1

    def run(self, chunks: Sequence[Chunk], work: Work, out: Path) -> Iterator[int]:
        """They write into the folder themselves."""
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", n_jobs=self.jobs, inner_max_num_threads=1):
            calls = (delayed(_in_process)(work, unit, trials, str(out), os.getpid()) for unit, trials in chunks)
            yield from Parallel(return_as="generator_unordered")(calls)


class OnDask(Engine):
    """A Dask cluster: `hedgerow.dask.cluster` says what it can be called. `jobs` as for processes."""

    def __init__(self, name: str, jobs: int = -1) -> None:
        from hedgerow.dask.cluster import Place

        self._place = Place.of(name).with_jobs(jobs)
        require("distributed", extra="dask")

    def run(self, chunks: Sequence[Chunk], work: Work, out: Path) -> Iterator[int]:
        """They send their rows; what the scheduler says is finished is written here."""
        from hedgerow.dask.cluster import as_finished, connected

        here = work.data_dir or os.environ.get("HEDGEROW_DATA")  # workers may have another environment
        work = replace(work, data_dir=here and str(Path(here).resolve()))
        with connected(self._place) as client:
            calls = [(work, unit, trials, str(out.resolve())) for unit, trials in chunks]
            for found in as_finished(client, _on_worker, calls, [str(unit) for unit, _ in chunks]):
                workers = len(client.scheduler_info(n_workers=-1)["workers"])
                self.where = f"on {workers} worker{'s' * (workers != 1)}"
                for row in found:
                    results.append(out, row)
                yield len(found)


def engine_of(name: str, jobs: int) -> Engine:
    """An engine by its name: local, or one of `hedgerow.dask.cluster`.

    >>> engine_of("local", 2)
    Processes(jobs=2)
    """
    return Processes(jobs) if name == LOCAL else OnDask(name, jobs)


def _in_process(work: Work, unit: Any, trials: list[int], out: str, owner: int) -> int:
    if os.getpid() != owner:
        _belong_to(owner)
    work.run(unit, trials, Path(out) / CACHE, lambda row: results.append(out, row))
    return len(trials)


def _on_worker(work: Work, unit: Any, trials: list[int], out: str) -> list[dict[str, Any]]:
    """The rows of a chunk. Alignments are kept in the run's folder where it can be seen, else beside the worker."""
    from distributed import get_worker

    found: list[dict[str, Any]] = []
    folder = Path(out) if Path(out).is_dir() else Path(get_worker().local_directory)
    work.run(unit, trials, folder / CACHE, found.append)
    return found


@cache
def _belong_to(owner: int) -> None:
    """A worker ignores Ctrl-C, which its owner handles, and ends soon after its owner: nobody writes after a kill."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(ORPHAN_CHECK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
