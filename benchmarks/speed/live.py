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

ROUNDS = 3  # runs over the stream
PIECES = 1.25  # a step that takes this much longer than the usual one is one that works on a refresh


def measure() -> Iterator[Row]:
    """Both sizes; the figures to reach are those of PIE."""
    for size in (PIE, OFFICE):
        clf, X, y = start(size)
        rows, labels = list(X), y.tolist()
        runs = [steps(copy.deepcopy(clf), rows, labels) for _ in range(ROUNDS)]
        expected = copy.deepcopy(clf).predict_then_learn(X, y)
        yield from figures(size, runs, int((runs[0][1] != expected).sum()))
    yield allocations(clf, rows, labels)


def steps(clf: Any, rows: list[Any], labels: list[int]) -> tuple[Any, Any]:
    """Nanoseconds of predict_one, learn_one and one bare projection for each instance; and the predictions."""
    H = np.ascontiguousarray(clf.learner_.state["A"].transpose(1, 0, 2)).reshape(len(rows[0]), -1)
    z, clock = np.empty(H.shape[1]), time.perf_counter_ns
    times, predictions = np.empty((len(rows), 3)), []
    for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
        t0 = clock()
        predictions.append(clf.predict_one(x))
        t1 = clock()
        clf.learn_one(x, label)
        t2 = clock()
        np.dot(x, H, out=z)
        np.dot(x, H, out=z)  # the second: the first has brought it to the cache, as a stream of predictions does
        times[i] = t1 - t0, t2 - t1, (clock() - t2) / 2
    return times, np.array(predictions)


def figures(size: Size, runs: list[Any], different: int) -> Iterator[Row]:
    """By position in the window between two refreshes, so that each position's median is over many windows."""
    whole = len(runs[0][0]) // size.every * size.every
    windows = np.concatenate([times[:whole].reshape(-1, size.every, 3)[2:] for times, _ in runs])
    gemv = float(np.median(windows[:, :, 2]))
    predict, learn = np.median(windows[:, :, 0], axis=0), np.median(windows[:, :, 1], axis=0)
    both = np.median(windows[:, :, 0] + windows[:, :, 1], axis=0)
    usual = float(np.median(both))
    working = int((both > PIECES * usual).sum())
    seconds = {"predict + learn": usual / 1e9, "one projection": gemv / 1e9}
    yield row(
        f"live path between refreshes, predict_one + learn_one, ODDM, {size.name} size",
        "<= 1.5 x one projection" if size is PIE else "reported",
        [("ratio", "<=", 1.5)] if size is PIE else [],
        seconds,
        ratio=usual / gemv,
        quickest=float(both.min()) / gemv,
        mean=float((windows[:, :, 0] + windows[:, :, 1]).mean()) / gemv,
        steps_with_a_piece_of_a_refresh=f"{working} of {size.every}",
        curve={
            "x": list(range(1, size.every + 1)), "y": (both / gemv).tolist(), "x_label": "labels since the refresh",
            "y_label": "predict + learn, in projections", "name": f"ODDM, {size.name}", "log": False,
        },
    )  # fmt: skip
    stop = max(float((predict - np.median(predict)).max()), float((learn - np.median(learn)).max()))
    next_prediction = float(learn[-1] - np.median(learn) + predict[0] - np.median(predict))
    yield row(
        f"a refresh on the live path, in pieces, ODDM, {size.name} size",
        "stops no call for longer than 3 projections, predictions those of the replay",
        [("stop", "<=", 3.0), ("different", "==", 0)] if size is PIE else [("different", "==", 0)],
        {"longest stop": stop / 1e9, "one projection": gemv / 1e9},
        stop=stop / gemv,
        next_prediction_later_by=next_prediction / gemv,
        different=different,
    )


def allocations(clf: Any, rows: list[Any], labels: list[int]) -> Row:
    """What stays allocated after a step, and the most that a usual step holds meanwhile, in bytes."""
    clf = copy.deepcopy(clf)
    for x, label in zip(rows[:100], labels[:100], strict=True):
        clf.predict_one(x)
        clf.learn_one(x, label)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    peaks = []
    for x, label in zip(rows[100:500], labels[100:500], strict=True):
        tracemalloc.reset_peak()
        here = tracemalloc.get_traced_memory()[0]
        clf.predict_one(x)
        clf.learn_one(x, label)
        peaks.append(tracemalloc.get_traced_memory()[1] - here)
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
