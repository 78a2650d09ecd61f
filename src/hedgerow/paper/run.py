"""One unit, order by order: fit (alignments from the cache), predict and learn the stream, one row a finished order."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.experiment.alignment_cache import AlignmentCache
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.preparation import Prepared, order_of
from hedgerow.experiment.prequential import evenly, prequential
from hedgerow.experiment.rows import finished_row
from hedgerow.paper.experiments import Unit
from hedgerow.paper.tasks import TASKS, prepare, presented

DISCREPANCY_ORDERS = 5  # the discrepancy over the stream is followed for the first orders only


@lru_cache(maxsize=2)
def _prepared(task: str, split: int, reading: str, data_dir: str | None) -> Prepared:
    return prepare(TASKS[task], split, reading, data_dir)


def run_unit(unit: Unit, trials: list[int], cache: AlignmentCache, data_dir: str | None) -> Iterator[dict[str, Any]]:
    """The rows of a unit for these trials (orders)."""
    prepared = _prepared(unit.task.name, unit.split, unit.reading, data_dir)
    fitted: OnlineTransferClassifier | None = None
    for trial in trials:
        sources = presented(prepared, unit.reading, unit.method, trial)
        if fitted is None or sources is not prepared:
            fitted, offline = _fit(unit, sources, cache)
        yield _row(unit, trial, prepared, copy.deepcopy(fitted), offline)


def _fit(unit: Unit, sources: Prepared, cache: AlignmentCache) -> tuple[OnlineTransferClassifier, float]:
    clf = classifier(unit.method, unit.reading, horizon=len(sources.stream), **unit.options)
    before, start = cache.seconds, time.perf_counter()
    clf.fit_domains(sources.sources, sources.warmup, together=sources.together, align=cache)
    rest = time.perf_counter() - start
    return clf, rest + cache.seconds - before


def _row(unit: Unit, trial: int, prepared: Prepared, clf: OnlineTransferClassifier, offline: float) -> dict[str, Any]:
    order = order_of(trial, len(prepared.stream))
    X, y = prepared.stream.X[order], np.asarray(prepared.stream.y)[order]
    n, curves = len(y), unit.group == "table"
    ends = evenly(n) if curves else [n]
    follow = curves and trial < DISCREPANCY_ORDERS and _has_linear_map(clf)
    true_gaps = _true_gaps(clf, X, y) if follow else []
    distances = [_distance(clf, true_gaps)] if follow else []
    points = []
    for point in prequential(clf, X, y, ends):
        points.append(point)
        if follow:
            distances.append(_distance(clf, true_gaps))
    return finished_row(
        unit.key(trial),
        clf,
        mistakes=points[-1].mistakes,
        n=n,
        seconds_offline=offline,
        seconds_online=points[-1].seconds,
        curve_at=ends if curves else [],
        curve=[point.mistakes for point in points] if curves else [],
        discrepancy_at=[0, *ends] if follow else [],
        discrepancy=distances,
        experts=clf.expert_names_,
        reading=unit.reading,
        options=unit.options | {"horizon": n, "dim": clf.dim_},
        seeds={"split": unit.split, "order": trial, "sources": trial},
        data=prepared.checksum,
    )


def _has_linear_map(clf: OnlineTransferClassifier) -> bool:
    """Whether there is an A whose objective can be followed; a kernel space has none, nor has a map of the source."""
    learner = clf.learner_
    return bool(learner.n_sources) and learner.projection(0) is not None and not learner.plan.gammas


def _true_gaps(clf: OnlineTransferClassifier, X: Array, y: Array) -> list[Array]:
    """Gaps of each source to the whole stream with its true labels: for measuring only, the learner never sees them."""
    learner = clf.learner_
    codes = np.searchsorted(clf.classes_, y)
    target = Moments.of(learner.pre.apply(X), codes, learner.n_classes)
    return [gap(learner.source(i), target, "skip") for i in range(len(clf.source_names_))]


def _distance(clf: OnlineTransferClassifier, gaps: list[Array]) -> float:
    """The aggregate MMD distance of the objective for A, averaged over the sources."""
    return float(np.mean([discrepancy(clf.learner_.projection(i), G) for i, G in enumerate(gaps)]))
