"""A stream task: sources, unlabelled rows, what streams, in which order, and when labels arrive. Scenarios change it.

A scenario is a function from task to task, so scenarios compose: `no_unlabelled(task)`, `delayed(50)(task)`. What a
scenario draws at random (which classes, which sources) comes from SEED, so that all methods and orders share it; the
order of the stream comes from the number of the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain, split
from hedgerow.data import load
from hedgerow.experiment.preparation import WARMUP, order_of, prepare
from hedgerow.study.label_events import Event, batches, late, missing

SEED = 0
Adaptor = Callable[[Iterator[Event], int], Iterator[Event]]  # of a stream's events, and the number of the order


@dataclass(frozen=True)
class Arrivals:
    """The rows of the target in the order in which they arrive; `changes` are places where the stream changes."""

    rows: Array
    changes: tuple[int, ...] = ()


@dataclass(frozen=True)
class StreamTask:
    """One target with its sources; `arrivals` and `labels` depend on the number of the order.

    `warmup` has labels here, for scenarios that choose rows by class; a learner is given `unlabelled` only.
    """

    domains: Mapping[str, Domain]
    name: str
    sources: tuple[Domain, ...]
    together: Array
    warmup: Domain | None
    target: Domain
    arrivals: Callable[[int], Arrivals]
    labels: Adaptor
    checksum: str

    @property
    def unlabelled(self) -> Domain | None:
        """The target's rows that are there in advance."""
        return None if self.warmup is None else self.warmup.unlabelled()

    @property
    def classes(self) -> Array:
        """The classes that can stream."""
        return np.unique(_y(self.target))


Scenario = Callable[[StreamTask], StreamTask]


def stream_task(data: str, target: str, data_dir: str | None = None) -> StreamTask:
    """A domain of a data set as the target, all others as sources, labels right after each prediction.

    >>> found = stream_task("digits", "thin")
    >>> len(found.sources), found.unlabelled, found.target
    (4, Domain('thin', 107 x 64, unlabelled), Domain('thin', 250 x 64, 10 classes))
    """
    ready = prepare(data, target, SEED, data_dir=data_dir)
    domains = load(data, data_dir)
    numbers = Domain(target, np.arange(len(domains[target]), dtype=float)[:, None])  # split the same way as the rows
    first = split(numbers, WARMUP, SEED)[0].X.ravel().astype(int)
    n = len(ready.stream)
    return StreamTask(
        domains, target, tuple(ready.sources), ready.together, domains[target].rows(first), ready.stream,
        lambda order: Arrivals(order_of(order, n)), lambda events, _: events, ready.checksum,
    )  # fmt: skip


# -- when labels arrive -----------------------------------------------------------------------------------------


def as_it_is(task: StreamTask) -> StreamTask:
    """Nothing changes."""
    return task


def delayed(rounds: int) -> Scenario:
    """Labels come `rounds` arrivals late."""
    return lambda task: _adapted(task, lambda events, _: late(events, rounds))


def gaps(rate: float) -> Scenario:
    """A share of the labels never comes."""
    return lambda task: _adapted(task, lambda events, order: missing(events, rate, seed=order))


def batched(size: int) -> Scenario:
    """Labels come `size` at a time."""
    return lambda task: _adapted(task, lambda events, _: batches(events, size))


def _adapted(task: StreamTask, then: Adaptor) -> StreamTask:
    before = task.labels
    return replace(task, labels=lambda events, order: then(before(events, order), order))


# -- which classes are where ------------------------------------------------------------------------------------


def chosen_classes(task: StreamTask, share: float) -> Array:
    """A share of the target's classes, at least one and never all; a larger share contains a smaller one.

    >>> chosen_classes(stream_task("digits", "thin"), 0.3).tolist()
    [2, 7, 8]
    """
    K = len(task.classes)
    drawn = np.random.default_rng([SEED, 3]).permutation(task.classes)
    return np.sort(drawn[: min(max(1, round(share * K)), K - 1)])


def only_in_target(share: float) -> Scenario:
    """A share of the classes is in no source."""

    def change(task: StreamTask) -> StreamTask:
        held = chosen_classes(task, share)
        return with_source_rows(task, [~np.isin(_y(source), held) for source in task.sources])

    return change


def appearing_late(share: float) -> Scenario:
    """A share of the classes does not stream before half-time, nor is it among the unlabelled rows."""

    def change(task: StreamTask) -> StreamTask:
        held = chosen_classes(task, share)
        before, y = task.arrivals, _y(task.target)

        def arrivals(order: int) -> Arrivals:
            rows = before(order).rows
            time, new = np.arange(len(rows), dtype=float), np.isin(y[rows], held)
            time[new] = (len(rows) + time[new]) / 2
            return Arrivals(rows[np.argsort(time, kind="stable")], (int((time < len(rows) / 2).sum()),))

        return replace(_with_warmup(task, lambda labels: ~np.isin(labels, held)), arrivals=arrivals)

    return change


def missing_classes(share: float) -> Scenario:
    """Each source lacks a share of the classes (at least one, never all), drawn for it; every class stays in some."""

    def change(task: StreamTask) -> StreamTask:
        rng = np.random.default_rng([SEED, 5])
        K, n = len(task.classes), len(task.sources)
        lacking = min(max(1, round(share * K)), K - 1)
        has = np.array([rng.permutation(K) >= lacking for _ in range(n)])
        for k in np.flatnonzero(~has.any(axis=0)):
            has[rng.integers(n), k] = True
        kept = [np.isin(_y(s), task.classes[row]) for s, row in zip(task.sources, has, strict=True)]
        return with_source_rows(task, kept)

    return change


def imbalanced(kept: float) -> Scenario:
    """Half of the classes keep only a share of their target rows (at least one row each); the sources stay."""

    def change(task: StreamTask) -> StreamTask:
        rng, y = np.random.default_rng([SEED, 7]), _y(task.target)
        rare = chosen_classes(task, 0.5)
        stays = np.ones(len(y), dtype=bool)
        for label in rare:
            rows = rng.permutation(np.flatnonzero(y == label))
            stays[rows[max(1, round(kept * len(rows))) :]] = False
        thinned = task.target.rows(np.flatnonzero(stays))
        n, draw = len(thinned), rng.random(0 if task.warmup is None else len(task.warmup))
        task = _with_warmup(task, lambda labels: ~np.isin(labels, rare) | (draw < kept))
        return replace(task, target=thinned, arrivals=lambda order: Arrivals(order_of(order, n)))

    return change


# -- parts of a task -------------------------------------------------------------------------------------------


def with_source_rows(task: StreamTask, masks: list[Array]) -> StreamTask:
    """The sources restricted to these rows; a source without any is no source."""
    kept = np.concatenate([np.zeros(0, dtype=bool), *masks])
    number = np.cumsum(kept) - 1
    sources = tuple(s.rows(np.flatnonzero(m)) for s, m in zip(task.sources, masks, strict=True) if m.any())
    return replace(task, sources=sources, together=number[task.together[kept[task.together]]])


def _with_warmup(task: StreamTask, keep: Callable[[Array], Array]) -> StreamTask:
    if task.warmup is None:
        return task
    rows = np.flatnonzero(keep(_y(task.warmup)))
    return replace(task, warmup=task.warmup.rows(rows) if len(rows) else None)


def _y(domain: Domain) -> Array:
    return np.asarray(domain.y)
