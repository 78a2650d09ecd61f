"""Drift made of real domains: the target's stream switches to another domain of its family, one that is no source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain, pool
from hedgerow.core.errors import InputError, unknown
from hedgerow.experiment.preparation import order_of
from hedgerow.study.scenarios import Arrivals, Scenario, StreamTask, with_source_rows

KINDS = ("steady", "abrupt", "gradual", "recurring", "renamed")


def drifting(kind: str) -> Scenario:
    """The stream changes to the family's next domain, which is then no source: steady, abrupt, gradual, recurring.

    "renamed" stays with its domain, and from half-time on every class goes by the name of the next one.
    All kinds have the same sources, the same unlabelled rows (of the first domain) and the same length, so that
    "steady", where nothing changes, is what the others are compared with.
    """

    def change(task: StreamTask) -> StreamTask:
        names = list(task.domains)
        other = names[(names.index(task.name) + 1) % len(names)]
        if len(task.sources) < 2:
            raise InputError(f"{task.name!r} has one source only: drift takes a domain away, and none would be left")
        second = renamed(task.target) if kind == "renamed" else task.domains[other]
        left, a, b = [source.name != other for source in task.sources], len(task.target), len(second)
        n = min(a, 2 * len(task.domains[other]))
        both = replace(pool([task.target, second], f"{task.name}, {other}"), feature_names=None)

        def arrivals(order: int) -> Arrivals:
            is_second, changes = switched(kind, n, order)
            place = np.where(is_second, np.cumsum(is_second), np.cumsum(~is_second)) - 1
            first, then = order_of(order, a), a + order_of(order, b)
            if kind == "renamed":  # the rows that would have come, not those that came
                then = np.roll(then, -int((~is_second).sum()))
            return Arrivals(np.where(is_second, then[place % b], first[place % a]), changes)

        masks = [np.full(len(s), stays) for s, stays in zip(task.sources, left, strict=True)]
        return replace(with_source_rows(task, masks), target=both, arrivals=arrivals)

    return change


def renamed(domain: Domain) -> Domain:
    """The same rows, each class under the name of the next.

    >>> renamed(Domain("d", np.zeros((3, 1)), np.array([0, 1, 2]))).y.tolist()
    [1, 2, 0]
    """
    names, codes = np.unique(np.asarray(domain.y), return_inverse=True)
    return replace(domain, name=f"{domain.name} renamed", y=np.roll(names, -1)[codes])


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
        raise unknown("kind of drift", kind, KINDS)
    chance = np.clip(2 * time - 0.5, 0, 1)  # from 0 to 1 over the middle half
    reached = np.floor(np.cumsum(chance) + np.random.default_rng([seed, 17]).random())
    return np.diff(reached, prepend=0.0) > 0.5, (quarters[0], quarters[2])
