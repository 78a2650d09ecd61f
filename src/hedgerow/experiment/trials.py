"""Methods x orders on one task: who makes how many mistakes, and how much that depends on the order of the stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain, split
from hedgerow.core.errors import InputError, unknown
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.evaluate.folds import Row
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.prequential import EVERY, prequential
from hedgerow.experiment.prequential import every as every_so_many

OnProgress = Callable[[int, int, str], None]  # done, total, what was finished


@dataclass(frozen=True)
class TransferTask:
    """Labelled sources, unlabelled warm-up rows of the target (there may be none), and the target's stream."""

    name: str
    sources: tuple[Domain, ...]
    warmup: Domain | None
    stream: Domain

    @classmethod
    def of(cls, domains: Mapping[str, Domain], target: str, warmup: float = 0.3, seed: int | None = 0) -> TransferTask:
        """One domain as the target, all others as sources.

        >>> from hedgerow import load
        >>> task = TransferTask.of(load("digits"), "thin")
        >>> len(task.sources), task.warmup, task.stream
        (4, Domain('thin', 107 x 64, unlabelled), Domain('thin', 250 x 64, 10 classes))
        """
        if target not in domains:
            raise unknown("target", target, domains)
        first, stream = split(domains[target], warmup, seed)
        sources = tuple(_nameless(domain) for name, domain in domains.items() if name != target)
        return cls(target, sources, _nameless(first) if len(first) else None, _nameless(stream))


def _nameless(domain: Domain) -> Domain:
    """All domains of a task have the same columns, so the rows go as plain arrays."""
    return replace(domain, feature_names=None)


def orders(n: int, count: int, seed: int = 0) -> list[Array]:
    """Orders in which n instances arrive; the k-th depends on the seed and k alone, not on how many are asked for.

    >>> [o.tolist() for o in orders(4, 2)] == [o.tolist() for o in orders(4, 5)[:2]]
    True
    """
    return [np.random.default_rng([seed, k]).permutation(n) for k in range(count)]


def trials(
    task: TransferTask,
    methods: Mapping[str, OnlineTransferClassifier],
    orders: Sequence[Array],
    *,
    jobs: int = 1,
    every: int = EVERY,
    progress: OnProgress | None = None,
) -> Iterator[Row]:
    """Run unfitted classifiers (by display name) over the stream in every order; yield a row as each run is finished.

    The offline stage does not see the order, so it is done once a method and copied. Numbers do not depend on `jobs`:
    BLAS has one thread everywhere. With `jobs` > 1 rows come as they are ready: sort by (method, order).

    >>> from hedgerow import load
    >>> task = TransferTask.of(load("digits"), "thin")
    >>> found = list(trials(task, {"pa": OnlineTransferClassifier("pa")}, orders(250, 2)))
    >>> [(row["method"], row["order"], row["n"]) for row in found]
    [('pa', 0, 250), ('pa', 1, 250)]
    """
    if task.stream.y is None:
        raise InputError(f"task {task.name!r}: the stream has no labels, so mistakes cannot be counted")
    tell = progress or (lambda done, total, what: None)
    total = len(methods) * (1 + len(orders))
    done = 0
    fitted: dict[str, tuple[OnlineTransferClassifier, float]] = {}
    for name, clf, seconds in _spread(_fit, [(name, clf, task) for name, clf in methods.items()], jobs):
        fitted[name] = clf, seconds
        done += 1
        tell(done, total, f"{name}: offline stage")
    runs = [(name, *fitted[name], k, order, task, every) for name in methods for k, order in enumerate(orders)]
    for row in _spread(_run, runs, jobs):
        done += 1
        tell(done, total, f"{row['method']}: order {row['order'] + 1}")
        yield row


def _fit(name: str, clf: OnlineTransferClassifier, task: TransferTask) -> tuple[str, OnlineTransferClassifier, float]:
    from sklearn.base import clone

    compile_loops()
    began = time.perf_counter()
    fresh = clone(clf).fit_domains(task.sources, task.warmup)
    return name, fresh, time.perf_counter() - began


def _run(
    name: str, clf: OnlineTransferClassifier, offline: float, number: int, order: Array, task: TransferTask, every: int
) -> Row:
    compile_loops()
    X, y = task.stream.X[order], np.asarray(task.stream.y)[order]
    watched, weights, distances, points = deepcopy(clf), [], [], []
    for point in prequential(watched, X, y, every_so_many(len(y), every)):
        points.append(point)
        weights.append(watched.weights_.tolist())
        distances.append(watched.discrepancy_.tolist())
    # The clock runs over the stream as one block: calls for a few rows would mostly measure the calling.
    (last,) = prequential(deepcopy(clf), X, y, [len(y)])
    return {
        "task": task.name,
        "method": name,
        "order": number,
        "n": last.labelled,
        "mistakes": last.mistakes,
        "seconds_offline": offline,
        "seconds_online": last.seconds,
        "experts": list(clf.expert_names_),
        "sources": list(clf.source_names_),
        "instances": [point.seen for point in points],
        "labels": [point.labelled for point in points],
        "curve": [point.mistakes for point in points],
        "weights": weights,
        "discrepancy": distances,
    }


@cache
def compile_loops(method: str = "paio") -> None:
    """Compile a method's loops, or read them from their cache, before a clock runs; once in each process."""
    X, y = np.random.default_rng(0).normal(size=(120, 6)), np.arange(120) % 2
    there = np.repeat([0, 1, -1], 40)  # two sources and unlabelled rows
    classifier(method, "general", random_state=0).fit(X, y, sample_domain=there).predict_then_learn(X, y)


def _single_threaded(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return work(*arguments)


def _spread(work: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[Any]:
    """work(*a) for each a, as they are finished."""
    if jobs == 1:
        for each in arguments:
            yield _single_threaded(work, each)
        return
    from joblib import Parallel, delayed

    # Memory-mapped arguments would be read-only, and a learner writes into its arrays.
    parallel = Parallel(n_jobs=jobs, max_nbytes=None, return_as="generator_unordered")
    yield from parallel(delayed(_single_threaded)(work, each) for each in arguments)
