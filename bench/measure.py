"""What benchmarks measure with: works side by side, tasks of the paper's sizes, functions in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench.record import ROOT
from hedgerow import Domain, OnlineTransferClassifier

Work = Callable[[], object]
DATA = os.environ.get("HEDGEROW_DATA")


class Size(NamedTuple):
    """A task's shape: features, classes, dimension of a space, sources, labels between refreshes, stream length."""

    name: str
    m: int
    K: int
    d: int
    n: int
    every: int
    stream: int


PIE = Size("PIE", m=1024, K=68, d=100, n=4, every=50, stream=2300)
OFFICE = Size("Office+Caltech", m=800, K=10, d=100, n=3, every=10, stream=670)
SMALL = Size("small", m=64, K=4, d=8, n=2, every=10, stream=120)


def seconds_of(work: Work) -> float:
    """The time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def side_by_side(works: Mapping[str, Work], repeats: int = 7, warm: int = 1) -> dict[str, float]:
    """Median seconds of each, one after the other in every repeat, so that a slow minute slows them all."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(warm + repeats):
        for name, work in works.items():
            seconds = seconds_of(work)
            if turn >= warm:
                times[name].append(seconds)
    return {name: median(values) for name, values in times.items()}


def domains(size: Size, rows: int, warmup: int) -> tuple[list[Domain], Domain, Domain]:
    """Sources, unlabelled target rows and a stream of this shape: classes about centres that every domain moves."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(size.K, size.m)) / np.sqrt(size.m)

    def domain(name: str, N: int) -> Domain:
        codes = rng.permutation(np.arange(N) % size.K)
        shift = rng.normal(size=size.m) / np.sqrt(size.m)
        return Domain(
            name,
            centres[codes] + 0.5 * shift + rng.normal(size=(N, size.m)) / np.sqrt(size.m),
            codes,
        )

    sources = [domain(f"source {i}", rows) for i in range(size.n)]
    target = domain("target", warmup + size.stream)
    return sources, target.rows(np.arange(warmup)), target.rows(np.arange(warmup, len(target)))


def one_by_one(clf: OnlineTransferClassifier, rows: Any, labels: Any) -> None:
    """The live path over some rows."""
    for x, label in zip(rows, labels, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)


def resident() -> int:
    """Bytes that this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CALL = """
import importlib, json, sys
module, name, arguments = json.loads(sys.argv[1])
print(json.dumps(getattr(importlib.import_module(module), name)(*arguments)))
"""


def spawn(
    function: Callable[..., Any], *arguments: Any, env: Mapping[str, str] = {}, **options: Any
) -> Any:
    """A function of a module in a process of its own; its result is the last line that the process prints."""
    words = [
        function.__module__,
        function.__name__,
        [str(a) if isinstance(a, Path) else a for a in arguments],
    ]
    path = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, "-c", CALL, json.dumps(words)]
    return subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path, **env}, text=True, **options
    )


def child(
    function: Callable[..., Any], *arguments: Any, env: Mapping[str, str] = {}, **options: Any
) -> Any:
    """The result of such a process; a crash of it is an error here."""
    pipe = subprocess.PIPE
    with spawn(function, *arguments, env=env, stdout=pipe, stderr=pipe) as process:
        out, errors = process.communicate(**options)
    if process.returncode:
        raise RuntimeError(f"{function.__name__} ended with {process.returncode}\n{errors[-3000:]}")
    return json.loads(out.splitlines()[-1])
