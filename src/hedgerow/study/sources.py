"""What the sources can be like: too few, without unlabelled target rows beside them, useless, misleading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.study.scenarios import SEED, Scenario, StreamTask, with_source_rows

Relabel = Callable[[Array, np.random.Generator], Array]


def no_unlabelled(task: StreamTask) -> StreamTask:
    """Not one row of the target is known in advance."""
    return replace(task, warmup=None)


def one_source(task: StreamTask) -> StreamTask:
    """The first source alone."""
    return with_source_rows(task, [np.full(len(s), i == 0) for i, s in enumerate(task.sources)])


def no_sources(task: StreamTask) -> StreamTask:
    """The target alone: what transfer is compared with. The learner is told the list of classes."""
    return with_source_rows(task, [np.zeros(len(s), dtype=bool) for s in task.sources])


def spoiled(share: float, relabel: Relabel) -> Scenario:
    """A share of the sources (at least one) has other labels than it should."""

    def change(task: StreamTask) -> StreamTask:
        rng = np.random.default_rng([SEED, 9])
        bad = rng.permutation(len(task.sources))[: max(1, round(share * len(task.sources)))]
        sources = (
            replace(source, y=relabel(np.asarray(source.y), rng)) if i in bad else source
            for i, source in enumerate(task.sources)
        )
        return replace(task, sources=tuple(sources))

    return change


def shuffled(y: Array, rng: np.random.Generator) -> Array:
    """The labels dealt out to the rows at random: useless."""
    return rng.permutation(y)


def exchanged(y: Array, _: np.random.Generator) -> Array:
    """Every class carries the name of the next: misleading, and the same way in every source.

    >>> exchanged(np.array(["a", "b", "c", "a"]), np.random.default_rng(0)).tolist()
    ['b', 'c', 'a', 'b']
    """
    classes, codes = np.unique(y, return_inverse=True)
    return np.asarray(np.roll(classes, -1)[codes])


def others(y: Array, _: np.random.Generator) -> Array:
    """Labels that never stream, one for each class.

    >>> others(np.array([3, 1, 3]), np.random.default_rng(0)).tolist()
    [10003, 10001, 10003]
    """
    return y + OTHER if y.dtype.kind in "iu" else np.array([f"other {label}" for label in y.tolist()])


OTHER = 10_000
