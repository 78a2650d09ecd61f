"""The whole table of the paper, cold, by `hedgerow paper`; and what the naive form would take, from measured parts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import naive
import numpy as np

from hedgerow.core.preprocess import row_minmax
from hedgerow.experiment.classifiers import classifier
from hedgerow.paper.tasks import FAMILY_SETTINGS, TASKS, prepare
from speed import Row, row, seconds_of

EXPLICIT = True  # ten minutes and more
THREADS = None  # two processes of one thread each
ORDERS, ROUNDS = 20, 10
METHODS = "all,hedgerow,hedgerow-linear"


def measure() -> Iterator[Row]:
    """One run into an empty directory, after the parts of the naive form."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        parts = [naive_parts("pie", "PIE1"), naive_parts("office-caltech", "amazon")]
    estimate = sum(part["total"] for part in parts)
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "hedgerow", "paper", "--out", out, "--what", "table", "--methods", METHODS]
        seconds = seconds_of(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    yield row(
        f"the whole table by `hedgerow paper`, cold, {os.cpu_count()} cores",
        "",
        [],
        {"ours": seconds, "naive JDA and ODDM alone, one core": estimate},
        unit="s",
        ratio=seconds,
        parts=parts,
    )


def naive_parts(family: str, name: str) -> dict[str, Any]:
    """One round of one source and two windows of one stream, times how often the table needs them."""
    data = os.environ.get("HEDGEROW_DATA")
    tasks = [prepare(task, 0, "table", data) for task in TASKS.values() if task.family == family]
    prepared = prepare(TASKS[name], 0, "table", data)
    given = FAMILY_SETTINGS[family]
    source = prepared.sources[0]
    codes = np.unique(source.y, return_inverse=True)[1]
    X, target = row_minmax(source.X), row_minmax(prepared.warmup.X)
    one_round = seconds_of(lambda: naive.jda(X, codes, target, 100, given["lam"], 1))
    clf = classifier("oddm", "table", rounds=1, horizon=len(prepared.stream), **given)
    clf.fit_domains(prepared.sources, prepared.warmup)
    few = 2 * given["refresh_every"]
    rows = naive.unit_rows(row_minmax(prepared.stream.X[:few]))
    labels = np.searchsorted(clf.classes_, prepared.stream.y[:few])
    instance = seconds_of(lambda: naive.replay(clf.learner_, rows, labels)) / few
    rounds = sum(len(task.sources) for task in tasks) * ROUNDS
    instances = sum(len(task.stream) for task in tasks) * ORDERS
    counts = {"family": family, "rounds": rounds, "instances": instances}
    return counts | {"round": one_round, "instance": instance, "total": rounds * one_round + instances * instance}
