"""One unit of a study, order by order: fit, play the events, one row of plain values a finished order."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.prequential import OnlineModel, evenly
from hedgerow.experiment.rows import finished_row
from hedgerow.study.label_events import events, play
from hedgerow.study.scenarios import SEED, StreamTask, stream_task
from hedgerow.study.studies import STUDIES

READING = "general"  # what a user gets who sets nothing


@dataclass(frozen=True)
class Unit:
    """A method at one point of a study, on one target, for so many orders of its stream."""

    study: str
    data: str
    target: str
    method: str
    point: str
    orders: int

    def __str__(self) -> str:
        return f"{self.method} on {self.task} ({self.study}, {self.point})"

    @property
    def task(self) -> str:
        """Data set and target."""
        return f"{self.data}/{self.target}"

    def key(self, trial: int) -> tuple[str, str, str, str, int, int]:
        """What makes a row of the results unique."""
        return self.study, self.task, self.method, self.point, SEED, trial


class Majority:
    """The rule that any learner has to beat: the most frequent label so far.

    >>> Majority().predict_then_learn(np.zeros((3, 1)), ["a", "b", "b"]).tolist()
    [None, 'a', 'a']
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def predict(self, X: Matrix) -> Array:
        """The same for every row."""
        best = self.counts.most_common(1)
        return np.full(X.shape[0], best[0][0] if best else None, dtype=object)

    def partial_fit(self, X: Matrix, y: Any) -> Majority:
        """Count the labels."""
        self.counts.update(label for label in y if label is not None)
        return self

    def predict_then_learn(self, X: Matrix, y: Any) -> Array:
        """Predict and count row by row."""
        out = np.empty(len(y), dtype=object)
        for i, label in enumerate(y):
            out[i] = self.predict(X[i : i + 1])[0]
            self.partial_fit(X, [label])
        return out


@lru_cache(maxsize=2)
def _stream_task(data: str, target: str, data_dir: str | None) -> StreamTask:
    return stream_task(data, target, data_dir)


def run_unit(unit: Unit, trials: list[int], cache: AlignmentCache, data_dir: str | None) -> Iterator[dict[str, Any]]:
    """The rows of a unit for these orders."""
    made = STUDIES[unit.study].points[unit.point](_stream_task(unit.data, unit.target, data_dir))
    start = time.perf_counter()
    fitted = fit(made, unit.method, cache)
    offline = time.perf_counter() - start
    for trial in trials:
        yield _row(unit, trial, made, copy.deepcopy(fitted), offline)


def fit(made: StreamTask, method: str, cache: AlignmentCache | None = None) -> OnlineTransferClassifier:
    """The classifier that a task's sources and unlabelled rows give. Without any source it is told the classes.

    >>> fit(stream_task("digits", "thin"), "pa").predict_one(np.ones(64)) in range(10)
    True
    """
    known = None if made.sources else made.classes.tolist()
    clf = classifier(method, READING, classes=known, random_state=SEED)
    more = {} if cache is None else {"align": cache}
    return clf.fit_domains(made.sources, made.unlabelled, together=made.together, **more)


def wrong(model: OnlineModel, made: StreamTask, order: int) -> Array:
    """Which predictions of the stream were mistakes, in order of arrival."""
    rows = made.arrivals(order).rows
    X, y = made.target.X[rows], np.asarray(made.target.y)[rows]
    out = np.empty(len(rows), dtype=bool)
    for i, prediction in play(model, made.labels(events(zip(X, y, strict=True)), order)):
        out[i] = prediction != y[i]
    return out


def _row(unit: Unit, trial: int, made: StreamTask, clf: OnlineTransferClassifier, offline: float) -> dict[str, Any]:
    begin = time.perf_counter()
    mistakes = wrong(clf, made, trial)
    seconds = time.perf_counter() - begin
    arrivals = made.arrivals(trial)
    y, n = np.asarray(made.target.y)[arrivals.rows], len(mistakes)
    at = np.array(evenly(n))
    return finished_row(
        unit.key(trial),
        clf,
        mistakes=int(mistakes.sum()),
        n=n,
        balanced=float(np.mean([mistakes[y == label].mean() for label in np.unique(y)])),
        majority=int(wrong(Majority(), made, trial).sum()),
        changes=arrivals.changes,
        seconds_offline=offline,
        seconds_online=seconds,
        curve_at=at,
        curve=np.cumsum(mistakes)[at - 1],
        learned=clf.seen_,
        sources=clf.source_names_,
        unlabelled=0 if made.warmup is None else len(made.warmup),
        reading=READING,
        options={"dim": clf.dim_},
        seeds={"task": SEED, "order": trial},
        data=made.checksum,
    )
