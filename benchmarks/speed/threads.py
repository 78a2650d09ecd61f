"""BLAS threads as a user leaves them, against one set outside: a step must not depend on who set them.

Beside two busy loops the machine's cores are taken, and a product that waits for all of its threads waits long.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

from speed import OFFICE, Row, domains, row, seconds_of
from speed.replay import start

THREADS = None  # as they are
REPEATS = 21
ROWS = 100
BUSY = "while True: pass"


def measure() -> Iterator[Row]:
    """Live steps and a replay of both kinds of learner, idle and under load."""
    for name, (clf, X, y) in {"ODDM": start(OFFICE), "the default method": _default()}.items():
        X, y = X[:ROWS], y[:ROWS]
        works = {
            "live step": lambda m, X=X, y=y: _live(m, X, y),
            "replay": lambda m, X=X, y=y: m.predict_then_learn(X, y),
        }
        for what, work in works.items():
            for load in (0, 2):
                with _busy(load):
                    ours, outside, ratio = _side_by_side(clf, work)
                limit = 1.01 if not load else 1.1
                yield row(
                    f"{what}, {name}, {OFFICE.name} size, default threads over one, {load} busy loops beside",
                    f"<= {limit} x" if not load else "reported",
                    [("ratio", "<=", limit)] if not load else [],
                    {"default": ours / ROWS, "one set outside": outside / ROWS},
                    ratio=ratio,
                    cores=os.cpu_count(),
                )


def _default() -> tuple[Any, Any, Any]:
    from hedgerow import OnlineTransferClassifier

    sources, warmup, stream = domains(OFFICE, rows=400, warmup=200)
    return OnlineTransferClassifier().fit_domains(sources, warmup), stream.X, stream.y


def _live(clf: Any, X: Any, y: Any) -> None:
    for x, label in zip(X, y, strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)


def _side_by_side(clf: Any, work: Any) -> tuple[float, float, float]:
    """Medians of both, and of the ratio of two runs one after the other, which change places."""
    times: list[tuple[float, float]] = []
    for turn in range(REPEATS + 1):
        took = {}
        for outside in (True, False) if turn % 2 else (False, True):
            model = copy.deepcopy(clf)
            with threadpool_limits(1 if outside else os.cpu_count(), user_api="blas"):
                took[outside] = seconds_of(lambda model=model: work(model))
        times.append((took[False], took[True]))
    ours, outside_ = zip(*times[1:], strict=True)
    return median(ours), median(outside_), median(a / b for a, b in times[1:])


@contextmanager
def _busy(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
