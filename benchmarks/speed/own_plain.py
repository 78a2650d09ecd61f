"""Our own learner: a replay against its plain one-instance form, the live step against one pass over its matrices."""

from __future__ import annotations

import copy
import os
import time
import tracemalloc
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
from naive_own import NaiveOwn

from hedgerow import OnlineTransferClassifier
from hedgerow.core.labels import Codes
from hedgerow.experiment.preparation import order_of
from hedgerow.learners.ridge.space import RELABEL
from hedgerow.paper.tasks import TASKS, prepare
from speed import Row, row, side_by_side

NAIVE_STEPS = 2 * RELABEL  # two labellings of the pool among them
LIVE_STEPS = 3 * RELABEL
ROUNDS = 5


def measure() -> Iterator[Row]:
    """The replay on a task of either family, then the live step at PIE's size."""
    for task in ("amazon", "PIE5"):
        yield replay(task)
    yield live("PIE5")


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


def live(task: str) -> Row:
    """predict_one and learn_one between two turns, against P *= 1 over all P matrices (full, both copies), in turn.

    Every RELABEL labels the pool is labelled again; the next label finds no room, and those that wait are folded in.
    """
    clf, X, y = stream(task)
    matrices = [regression.P for space in clf.learner_.spaces for regression in space.regressions]
    steps, passes, labellings, foldings, grown = [], [], [], [], []
    for t in range(LIVE_STEPS):
        began = time.perf_counter()
        clf.predict_one(X[t])
        clf.learn_one(X[t], clf.classes_[y[t]])
        kind = {0: labellings, 1: foldings}.get(clf.seen_ % RELABEL, steps)
        kind.append(time.perf_counter() - began)
        began = time.perf_counter()
        for P in matrices:
            np.multiply(P, 1.0, out=P)
        passes.append(time.perf_counter() - began)
    tracemalloc.start()
    for t in range(LIVE_STEPS, LIVE_STEPS + 10):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        clf.predict_one(X[t])
        clf.learn_one(X[t], clf.classes_[y[t]])
        grown.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    size = sum(P.nbytes for P in matrices)
    return row(
        "our learner, live step at m = 1024 (predict_one + learn_one)",
        "<= 1.5 x one read-modify-write pass over its P matrices, no matrix allocated",
        [("ratio", "<=", 1.5), ("allocated_share", "<=", 0.01)],
        {
            "step": median(steps),
            "pass over P": median(passes),
            "step with a labelling of the pool": median(labellings),
            "step with a folding": median(foldings[1:]),  # the first is the stream's first step
        },
        ratio=median(steps) / median(passes),
        ratio_with_turns=(sum(steps) + sum(labellings) + sum(foldings[1:])) / sum(passes[1:]),
        allocated_bytes=int(max(grown)),
        allocated_share=max(grown) / size,
        matrices_megabytes=size / 2**20,
    )
