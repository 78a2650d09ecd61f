"""Single precision: how much faster the replay is, and what it costs in mistakes on the nine tasks."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from hedgerow.experiment.classifiers import classifier
from speed import OFFICE, PIE, Row, Size, row, side_by_side
from speed.replay import start

REPEATS = 7
ORDERS = 5  # of each task's stream


def measure() -> Iterator[Row]:
    """The ratio at both sizes, then every task with the data at hand."""
    for size in (PIE, OFFICE):
        yield ratio(size)
    if os.environ.get("HEDGEROW_DATA"):
        yield mistakes(os.environ["HEDGEROW_DATA"])


def ratio(size: Size) -> Row:
    """The same stream in both precisions."""
    works: dict[str, Any] = {}
    for dtype in (np.float64, np.float32):
        clf, X, y = start(size, dtype)
        models = [copy.deepcopy(clf) for _ in range(REPEATS + 1)]
        works[np.dtype(dtype).name] = lambda models=models, X=X, y=y: models.pop().predict_then_learn(X, y)
    times = side_by_side(works, REPEATS)
    return row(
        f"float32 replay, ODDM, {size.name} size",
        ">= 1.6 x float64",
        [("ratio", ">=", 1.6)],
        times,
        ratio=times["float64"] / times["float32"],
    )


def mistakes(data_dir: str) -> Row:
    """The largest difference of the mistake rates in points, each task's over the same orders."""
    from hedgerow.experiment.preparation import order_of
    from hedgerow.paper.tasks import TASKS, prepare, settings

    differences = {}
    for task in TASKS.values():
        prepared = prepare(task, 0, "general", data_dir)
        rates = []
        for dtype in ("float64", "float32"):
            clf = classifier("oddm", "general", dtype=dtype, **settings(task, "general", "oddm"))
            clf.fit_domains(prepared.sources, prepared.warmup, together=prepared.together)
            wrong = 0
            for trial in range(ORDERS):
                stream = prepared.stream.rows(order_of(trial, len(prepared.stream)))
                wrong += int((copy.deepcopy(clf).predict_then_learn(stream.X, stream.y) != stream.y).sum())
            rates.append(100 * wrong / (ORDERS * len(prepared.stream)))
        differences[task.title] = rates[1] - rates[0]
    return row(
        f"float32 mistake rates on the nine tasks, {ORDERS} orders, against float64",
        "within 0.2 points on every task",
        [("largest", "<=", 0.2)],
        unit="points",
        largest=max(abs(d) for d in differences.values()),
        differences=differences,
    )
