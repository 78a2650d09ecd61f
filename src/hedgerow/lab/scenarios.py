"""Streams as they are: what can be wrong with labels, classes, target and sources, as changes of a task.

A scenario is a function from task to task, so scenarios compose: `no_unlabelled(delayed(50)(task))`. What a scenario
draws at random (which classes, which sources) comes from SEED, so that all methods and orders share it; the order of
the stream comes from the number of the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain, pool
from hedgerow.core.errors import InputError, unknown
from hedgerow.lab.stream import batches, late, missing
from hedgerow.lab.tasks import Adaptor, Arrivals, Task, order_of

SEED = 0
OTHER = 10_000  # what is added to a class that never streams
DRIFTS = ("steady", "abrupt", "gradual", "recurring", "renamed")
Scenario = Callable[[Task], Task]


def as_it_is(task: Task) -> Task:
    """Nothing changes."""
    return task


# -- when labels arrive -----------------------------------------------------------------------------------------


def delayed(rounds: int) -> Scenario:
    """Labels come `rounds` arrivals late."""
    return lambda task: _adapted(task, lambda events, _: late(events, rounds))


def lost(rate: float) -> Scenario:
    """A share of the labels never comes."""
    return lambda task: _adapted(task, lambda events, order: missing(events, rate, seed=order))


def batched(size: int) -> Scenario:
    """Labels come `size` at a time."""
    return lambda task: _adapted(task, lambda events, _: batches(events, size))


def _adapted(task: Task, then: Adaptor) -> Task:
    before = task.labels
    return replace(task, labels=lambda events, order: then(before(events, order), order))


# -- which classes are where ------------------------------------------------------------------------------------


def chosen_classes(task: Task, share: float) -> Array:
    """A share of the target's classes, at least one and never all; a larger share contains a smaller one.

    >>> from hedgerow.lab.tasks import task_of
    >>> chosen_classes(task_of("digits", "thin"), 0.3).tolist()
    [2, 7, 8]
    """
    K = len(task.classes)
    drawn = np.random.default_rng([SEED, 3]).permutation(task.classes)
    return np.sort(drawn[: min(max(1, round(share * K)), K - 1)])


def only_in_target(share: float) -> Scenario:
    """A share of the classes is in no source."""

    def change(task: Task) -> Task:
        held = chosen_classes(task, share)
        return with_source_rows(task, [~np.isin(_y(source), held) for source in task.sources])

    return change


def appearing_late(share: float) -> Scenario:
    """A share of the classes does not stream before half-time, nor is it among the unlabelled rows."""

    def change(task: Task) -> Task:
        held, y = chosen_classes(task, share), _y(task.stream)

        def arrivals(order: int) -> Arrivals:
            rows = task.arriving(order).rows
            time, new = np.arange(len(rows), dtype=float), np.isin(y[rows], held)
            time[new] = (len(rows) + time[new]) / 2
            return Arrivals(rows[np.argsort(time, kind="stable")], (int((time < len(rows) / 2).sum()),))

        return replace(_with_warmup(task, lambda labels: ~np.isin(labels, held)), arrivals=arrivals)

    return change


def missing_classes(share: float) -> Scenario:
    """Each source lacks a share of the classes (at least one, never all), drawn for it; every class stays in some."""

    def change(task: Task) -> Task:
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

    def change(task: Task) -> Task:
        rng, y = np.random.default_rng([SEED, 7]), _y(task.stream)
        rare = chosen_classes(task, 0.5)
        stays = np.ones(len(y), dtype=bool)
        for label in rare:
            rows = rng.permutation(np.flatnonzero(y == label))
            stays[rows[max(1, round(kept * len(rows))) :]] = False
        draw = rng.random(0 if task.warmup is None else len(task.warmup))
        thinned = replace(task, stream=task.stream.rows(np.flatnonzero(stays)), arrivals=None)
        return _with_warmup(thinned, lambda labels: ~np.isin(labels, rare) | (draw < kept))

    return change


# -- a target that changes --------------------------------------------------------------------------------------


def drifting(kind: str) -> Scenario:
    """The stream changes to the family's next domain, which is then no source: steady, abrupt, gradual, recurring.

    "renamed" stays with its domain, and from half-time on every class goes by the name of the next one.
    All kinds have the same sources, the same unlabelled rows (of the first domain) and the same length, so that
    "steady", where nothing changes, is what the others are compared with.
    """

    def change(task: Task) -> Task:
        names = list(task.domains)
        other = names[(names.index(task.name) + 1) % len(names)]
        if len(task.sources) < 2:
            raise InputError(f"{task.name!r} has one source only: drift takes a domain away, and none would be left")
        second = task.domains[other]
        n = min(len(task.stream), 2 * len(second))
        if kind == "renamed":
            second = replace(task.stream, name=f"{task.name} renamed", y=exchanged(_y(task.stream)))
        a, b = len(task.stream), len(second)
        both = replace(pool([task.stream, second], f"{task.name}, {other}"), feature_names=None)

        def arrivals(order: int) -> Arrivals:
            is_second, changes = switched(kind, n, order)
            place = np.where(is_second, np.cumsum(is_second), np.cumsum(~is_second)) - 1
            first, then = order_of(order, a), a + order_of(order, b)
            if kind == "renamed":  # the rows that would have come, not those that came
                then = np.roll(then, -int((~is_second).sum()))
            return Arrivals(np.where(is_second, then[place % b], first[place % a]), changes)

        masks = [np.full(len(source), source.name != other) for source in task.sources]
        return replace(with_source_rows(task, masks), stream=both, arrivals=arrivals)

    return change


def switched(kind: str, n: int, seed: int = 0) -> tuple[Array, tuple[int, ...]]:
    """Which of n instances come from the second domain, and where that changes.

    >>> [switched(kind, 8)[0].astype(int).tolist() for kind in ("abrupt", "recurring")]
    [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1]]
    """
    time = (np.arange(n) + 0.5) / n
    quarters = n // 4, n // 2, n - n // 4
    if kind == "steady":
        return np.zeros(n, dtype=bool), ()
    if kind in ("abrupt", "renamed"):
        return np.arange(n) >= n // 2, quarters[1:2]
    if kind == "recurring":
        return np.searchsorted(quarters, np.arange(n), side="right") % 2 == 1, quarters
    if kind != "gradual":
        raise unknown("kind of drift", kind, DRIFTS)
    chance = np.clip(2 * time - 0.5, 0, 1)  # from 0 to 1 over the middle half
    reached = np.floor(np.cumsum(chance) + np.random.default_rng([seed, 17]).random())
    return np.diff(reached, prepend=0.0) > 0.5, (quarters[0], quarters[2])


# -- what the sources are like ----------------------------------------------------------------------------------


def no_unlabelled(task: Task) -> Task:
    """Not one row of the target is known in advance."""
    return replace(task, warmup=None)


def one_source(task: Task) -> Task:
    """The first source alone."""
    return with_source_rows(task, [np.full(len(s), i == 0) for i, s in enumerate(task.sources)])


def no_sources(task: Task) -> Task:
    """The target alone: what transfer is compared with. The learner is told the list of classes."""
    return with_source_rows(task, [np.zeros(len(s), dtype=bool) for s in task.sources])


def relabelled(share: float, relabel: Callable[[Array, np.random.Generator], Array]) -> Scenario:
    """A share of the sources (at least one) has other labels than it should."""

    def change(task: Task) -> Task:
        rng = np.random.default_rng([SEED, 9])
        bad = rng.permutation(len(task.sources))[: max(1, round(share * len(task.sources)))]
        sources = (replace(s, y=relabel(_y(s), rng)) if i in bad else s for i, s in enumerate(task.sources))
        return replace(task, sources=tuple(sources))

    return change


def shuffled(y: Array, rng: np.random.Generator) -> Array:
    """The labels dealt out to the rows at random: useless."""
    return rng.permutation(y)


def exchanged(y: Array, _: np.random.Generator | None = None) -> Array:
    """Every class carries the name of the next: misleading, and the same way in every source.

    >>> exchanged(np.array(["a", "b", "c", "a"])).tolist()
    ['b', 'c', 'a', 'b']
    """
    classes, codes = np.unique(y, return_inverse=True)
    return np.asarray(np.roll(classes, -1)[codes])


def others(y: Array, _: np.random.Generator | None = None) -> Array:
    """Labels that never stream, one for each class.

    >>> others(np.array([3, 1, 3])).tolist()
    [10003, 10001, 10003]
    """
    return y + OTHER if y.dtype.kind in "iu" else np.array([f"other {label}" for label in y.tolist()])


# -- parts of a task --------------------------------------------------------------------------------------------


def with_source_rows(task: Task, masks: Sequence[Array]) -> Task:
    """The sources restricted to these rows; a source without any is no source."""
    kept = np.concatenate([np.zeros(0, dtype=bool), *masks])
    number, together = np.cumsum(kept) - 1, np.asarray(task.together, dtype=np.int64)
    sources = tuple(s.rows(np.flatnonzero(m)) for s, m in zip(task.sources, masks, strict=True) if m.any())
    return replace(task, sources=sources, together=number[together[kept[together]]])


def _with_warmup(task: Task, keep: Callable[[Array], Array]) -> Task:
    if task.warmup is None:
        return task
    rows = np.flatnonzero(keep(_y(task.warmup)))
    return replace(task, warmup=task.warmup.rows(rows) if len(rows) else None)


def _y(domain: Domain) -> Array:
    return np.asarray(domain.y)
