"""Our own learner: a replay against its plain one-instance form."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from naive_own import NaiveOwn

from hedgerow import OnlineTransferClassifier
from hedgerow.core.labels import Codes
from hedgerow.experiment.preparation import order_of
from hedgerow.paper.tasks import TASKS, prepare
from speed import Row, row, side_by_side

NAIVE_STEPS = 100  # two circles of the pool among them
ROUNDS = 5


def measure() -> Iterator[Row]:
    """The replay on a task of either family."""
    for task in ("amazon", "PIE5"):
        yield replay(task)


def stream(task: str) -> tuple[OnlineTransferClassifier, Any, Any]:
    """A fitted classifier, the rows of the task's stream in order, their codes."""
    prepared = prepare(TASKS[task], 0, "general", os.environ.get("HEDGEROW_DATA"))
    clf = OnlineTransferClassifier().fit_domains(prepared.sources, prepared.warmup, together=prepared.together)
    order = order_of(0, len(prepared.stream))
    return clf, prepared.stream.X[order], Codes(clf.classes_).of(np.asarray(prepared.stream.y)[order])


def replay(task: str) -> Row:
    """Per instance: the whole stream in blocks, and NAIVE_STEPS instances of the plain form at its start."""
    clf, X, y = stream(task)
    learners, naive = [copy.deepcopy(clf.learner_) for _ in range(ROUNDS + 1)], []
    times = side_by_side(
        {
            "ours": lambda: learners.pop().run(X, y),
            "plain": lambda: naive.append(plainly(clf.learner_, X[:NAIVE_STEPS], y[:NAIVE_STEPS])),
        },
        ROUNDS,
    )
    ours, plain, predictions = times["ours"] / len(y), times["plain"] / NAIVE_STEPS, naive[0]
    blocks = copy.deepcopy(clf.learner_).run(X[:NAIVE_STEPS], y[:NAIVE_STEPS]).predictions
    return row(
        f"our learner, replay, {TASKS[task].title} ({X.shape[1]} features, {clf.learner_.n_classes} classes)",
        ">= 20 x its one-instance form in plain NumPy, predictions identical",
        [("ratio", ">=", 20.0), ("identical", "==", True)],
        {"plain, an instance": plain, "ours, an instance": ours},
        ratio=plain / ours,
        identical=bool((blocks == predictions).all()),
        milliseconds=1e3 * ours,
    )


def plainly(learner: Any, X: Any, y: Any) -> list[int]:
    """Predictions of the plain form, one instance after the other."""
    naive = NaiveOwn(learner)
    return [naive.step(x, label) for x, label in zip(X, y, strict=True)]
