"""ODDM one instance at a time through the public estimator: the usual step, the refresh, what is allocated."""

from __future__ import annotations

import copy
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from speed import OFFICE, PIE, Row, Size, row
from speed.replay import start

ROUNDS = 7  # runs over the stream
TURN = 8  # windows
PREDICT, LEARN, PROJECT, REFRESHING = range(4)  # what is kept of a step


def measure() -> Iterator[Row]:
    """Both sizes; the figures to reach are those of PIE."""
    for size in (PIE, OFFICE):
        clf, X, y = start(size)
        rows, labels = list(X), y.tolist()
        runs = [steps(copy.deepcopy(clf), rows, labels, size.every) for _ in range(ROUNDS)]
        expected = copy.deepcopy(clf).predict_then_learn(X, y)
        yield from figures(size, [times for times, _ in runs], int((runs[0][1] != expected).sum()))
    yield allocations(clf, rows, labels)


def steps(clf: Any, rows: list[Any], labels: list[int], every: int) -> tuple[Any, Any]:
    """For each instance: nanoseconds of predict_one, learn_one and one bare projection, whether a refresh was under
    way; and the predictions. Steps and bare projections take turns after some windows, so that each finds the cache as
    its own stream leaves it."""
    H = np.hstack([clf.learner_.projection(i) for i in range(clf.learner_.plan.spaces)])
    z, clock = np.empty(H.shape[1]), time.perf_counter_ns
    times, predictions = np.empty((len(rows), 4)), []
    for first in range(0, len(rows), TURN * every):
        turn = range(first, min(first + TURN * every, len(rows)))
        for i in turn:
            x, label, under_way = rows[i], labels[i], clf.learner_.refreshing
            t0 = clock()
            predictions.append(clf.predict_one(x))
            t1 = clock()
            clf.learn_one(x, label)
            times[i] = t1 - t0, clock() - t1, np.nan, under_way
        for i in turn:
            t0 = clock()
            np.dot(rows[i], H, out=z)
            times[i, PROJECT] = clock() - t0
    return times, np.array(predictions)


def figures(size: Size, runs: list[Any], different: int) -> Iterator[Row]:
    """By position in the window between two refreshes, so that each position's median is over many windows."""
    whole = len(runs[0]) // size.every * size.every
    windows = np.concatenate([times[:whole].reshape(-1, size.every, 4)[2:] for times in runs])
    gemv = float(np.median(windows[:, :, PROJECT]))
    at = np.median(windows, axis=0)
    both = np.median(windows[:, :, PREDICT] + windows[:, :, LEARN], axis=0)
    between = at[:, REFRESHING] == 0
    between[-1] = False  # the label that ends the window
    usual = float(np.median(both[between]))
    yield row(
        f"live path between refreshes, predict_one + learn_one, ODDM, {size.name} size",
        "<= 1.5 x one projection" if size is PIE else "reported",
        [("ratio", "<=", 1.5)] if size is PIE else [],
        {"predict + learn": usual / 1e9, "one projection": gemv / 1e9},
        ratio=usual / gemv,
        median_of_all_steps=float(np.median(both)) / gemv,
        mean_of_all_steps=float((windows[:, :, PREDICT] + windows[:, :, LEARN]).mean()) / gemv,
        steps_between_refreshes=f"{int(between.sum())} of {size.every}",
        curve={
            "x": list(range(1, size.every + 1)), "y": (both / gemv).tolist(), "x_label": "labels since the refresh",
            "y_label": "predict + learn, in projections", "name": f"ODDM, {size.name}", "log": False,
        },
    )  # fmt: skip
    predict, learn = (at[:, part] - np.median(at[between, part]) for part in (PREDICT, LEARN))
    yield row(
        f"a refresh on the live path, in pieces, ODDM, {size.name} size",
        "stops no call for longer than 3 projections; predictions those of the replay",
        [("stop", "<=", 3.0), ("different", "==", 0)],
        {"longest stop": max(predict.max(), learn.max()) / 1e9, "one projection": gemv / 1e9},
        stop=float(max(predict.max(), learn.max())) / gemv,
        next_prediction_later_by=float(learn[-1] + predict[0]) / gemv,
        different=different,
    )


def allocations(clf: Any, rows: list[Any], labels: list[int]) -> Row:
    """What stays allocated after a step, and the most that a usual step holds meanwhile, in bytes."""
    clf = copy.deepcopy(clf)
    for x, label in zip(rows[:100], labels[:100], strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
    peaks = np.zeros(400)  # not a list: what it keeps would count
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for i in range(400):
        tracemalloc.reset_peak()
        here = tracemalloc.get_traced_memory()[0]
        clf.predict_one(rows[100 + i])
        clf.learn_one(rows[100 + i], labels[100 + i])
        peaks[i] = tracemalloc.get_traced_memory()[1] - here
    kept = (tracemalloc.get_traced_memory()[0] - before) / 400
    tracemalloc.stop()
    return row(
        "live path, memory kept a step and held within the usual step",
        "nothing is allocated an instance: <= 16 bytes kept, less than one row held",
        [("kept", "<=", 16.0), ("held", "<", float(rows[0].nbytes))],
        unit="bytes",
        kept=kept,
        held=float(np.median(peaks)),
    )
