"""Where the work is done: a cluster of processes of this machine, or a Dask scheduler that is there already.

| engine             | what it means                                                                   |
|--------------------|---------------------------------------------------------------------------------|
| `dask`             | a cluster of processes for this command, one a core                             |
| `dask://local:2`   | the same with two processes                                                     |
| `dask://HOST:PORT` | the scheduler that listens there, with the workers it has                       |
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import hedgerow
from hedgerow.core.errors import HedgerowError, InputError, require

ENGINES = "local, dask, dask://local:2 (so many processes) or dask://HOST:PORT (a Dask scheduler)"
REACHED = 10.0  # seconds until a scheduler has to answer
WORKERS = 30.0  # seconds until it has to have a worker
HERE = "127.0.0.1:0"  # what a scheduler tells about itself can be read on this machine only
DEATHS = 10  # workers of our own cluster that may die at the same piece of work before it is given up
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1)
# a block's arrays go back to the process, not to the system: with Dask's own setting every one is made of new pages
KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**25}


@dataclass(frozen=True)
class Place:
    """A scheduler's address, or so many processes of this machine (0: one a core).

    >>> Place.of("dask://local:2"), Place.of("dask://10.0.0.7:8786")
    (Place(scheduler=None, workers=2), Place(scheduler='tcp://10.0.0.7:8786', workers=0))
    """

    scheduler: str | None = None
    workers: int = 0

    @classmethod
    def of(cls, engine: str) -> Place:
        """By its name; see the table above."""
        if engine == "dask":
            return cls()
        mark, _, where = engine.partition("://")
        host, _, number = where.rpartition(":")
        if mark != "dask" or not host or not number.isdigit() or not 0 < int(number) < 65536:
            raise InputError(f"--engine {engine!r}: use {ENGINES}")
        return cls(workers=int(number)) if host == "local" else cls(scheduler=f"tcp://{where}")

    def with_jobs(self, jobs: int) -> Place:
        """With so many processes (-1: as it is), where that is not said already."""
        if jobs == -1:
            return self
        if self.scheduler is not None or self.workers:
            own = f"the scheduler {self.scheduler} has its own" if self.scheduler else f"--engine says {self.workers}"
            raise InputError(f"--jobs {jobs}: the number of workers cannot be chosen here, {own}; leave --jobs out")
        if jobs < 1:
            raise InputError(f"--jobs {jobs}: at least one process is needed, or -1 for every core")
        return Place(workers=jobs)


@contextmanager
def connected(place: Place) -> Iterator[Any]:
    """A client of the cluster; one of our own starts here and ends here."""
    distributed = require("distributed", extra="dask")
    if place.scheduler is None:
        with _own(distributed, place.workers or os.cpu_count() or 1) as client:
            yield client
        return
    try:
        client = distributed.Client(place.scheduler, timeout=REACHED, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {place.scheduler}; start one with `dask scheduler`, or use --engine dask"
        ) from error
    with client:
        _check(client)
        yield client


@contextmanager
def _own(distributed: Any, workers: int) -> Iterator[Any]:
    config = importlib.import_module("dask").config
    settings = {
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.comm.timeouts.connect": "60s",  # a busy machine is no dead one,
        "distributed.deploy.lost-worker-timeout": "24h",  # and a worker that was killed may take its time to return
        "distributed.worker.memory.spill": False,  # what a worker holds is small: statistics and rows of results
        "distributed.worker.memory.target": False,
        "distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **KEPT_MEMORY},
    }
    with (
        config.set(settings),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=HERE,
            preload=[__name__],
            silence_logs=logging.CRITICAL,  # workers that come and go are no news to a user
        ) as cluster,  # fmt: skip
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def dask_setup(worker: Any) -> None:
    """Dask calls this in a new worker of our own. Ctrl-C goes to every process of a terminal; a worker ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check(client: Any) -> None:
    """The scheduler has a worker, and all of them have this version of hedgerow."""
    try:
        client.wait_for_workers(1, timeout=WORKERS)
    except TimeoutError as error:
        address = client.scheduler.address
        raise InputError(f"the scheduler {address} has no worker; start one with `dask worker {address}`") from error
    for worker, about in client.get_versions(packages=["hedgerow"])["workers"].items():
        version = about["packages"]["hedgerow"]  # None where it cannot be imported
        if version != hedgerow.__version__:
            raise InputError(
                f"worker {worker} has {f'hedgerow {version}' if version else 'no hedgerow that can be imported'}; "
                f"install hedgerow {hedgerow.__version__} there, as it is here"
            )


def as_finished(
    client: Any, work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> Iterator[Any]:
    """work(*a) for each a, as the scheduler says that they are finished; `names` are for errors.

    What a worker that died was doing is done again by another: the result of each comes once.
    """
    distributed = require("distributed", extra="dask")
    futures = [client.submit(work, *each, pure=False) for each in arguments]
    names_of = {future.key: name for future, name in zip(futures, names, strict=True)}
    try:
        for future in distributed.as_completed(futures, loop=client.loop):
            try:
                yield future.result()
            except distributed.KilledWorker as error:
                raise HedgerowError(
                    f"{names_of[future.key]}: every worker that ran it died (was there memory enough?); "
                    "what was finished is kept"
                ) from error
            future.release()  # its result is here, and no worker needs to keep it
    finally:
        client.cancel(futures)
