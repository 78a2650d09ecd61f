"""A scene is one task as a value: sources, unlabelled rows, what streams, in which order, when labels arrive.

A scenario is a function from scene to scene, so scenarios compose: `no_unlabelled(scene)`, `delayed(50)(scene)`. What a
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
class Line:
    """The rows of the target in the order in which they arrive; `changes` are places where the stream changes."""

    rows: Array
    changes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scene:
    """`warmup` has labels here, for scenarios that choose rows by class; a learner is given `unlabelled` only."""

    domains: Mapping[str, Domain]
    name: str
    sources: tuple[Domain, ...]
    together: Array
    warmup: Domain | None
    target: Domain
    line: Callable[[int], Line]
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


Scenario = Callable[[Scene], Scene]


def scene(data: str, target: str, data_dir: str | None = None) -> Scene:
    """A domain of a data set as the target, all others as sources, labels right after each prediction.

    >>> found = scene("digits", "thin")
    >>> len(found.sources), found.unlabelled, found.target
    (4, Domain('thin', 107 x 64, unlabelled), Domain('thin', 250 x 64, 10 classes))
    """
    ready = prepare(data, target, SEED, data_dir=data_dir)
    domains = load(data, data_dir)
    numbers = Domain(target, np.arange(len(domains[target]), dtype=float)[:, None])  # split the same way as the rows
    first = split(numbers, WARMUP, SEED)[0].X.ravel().astype(int)
    n = len(ready.stream)
    return Scene(
        domains, target, tuple(ready.sources), ready.together, domains[target].rows(first), ready.stream,
        lambda order: Line(order_of(order, n)), lambda events, _: events, ready.checksum,
    )  # fmt: skip


# -- when labels arrive -----------------------------------------------------------------------------------------


def as_it_is(scene: Scene) -> Scene:
    """Nothing changes."""
    return scene


def delayed(rounds: int) -> Scenario:
    """Labels come `rounds` arrivals late."""
    return lambda scene: _adapted(scene, lambda events, _: late(events, rounds))


def gaps(rate: float) -> Scenario:
    """A share of the labels never comes."""
    return lambda scene: _adapted(scene, lambda events, order: missing(events, rate, seed=order))


def batched(size: int) -> Scenario:
    """Labels come `size` at a time."""
    return lambda scene: _adapted(scene, lambda events, _: batches(events, size))


def _adapted(scene: Scene, then: Adaptor) -> Scene:
    before = scene.labels
    return replace(scene, labels=lambda events, order: then(before(events, order), order))


# -- which classes are where ------------------------------------------------------------------------------------


def chosen_classes(scene: Scene, share: float) -> Array:
    """A share of the target's classes, at least one and never all; a larger share contains a smaller one.

    >>> chosen_classes(scene("digits", "thin"), 0.3).tolist()
    [2, 7, 8]
    """
    K = len(scene.classes)
    drawn = np.random.default_rng([SEED, 3]).permutation(scene.classes)
    return np.sort(drawn[: min(max(1, round(share * K)), K - 1)])


def only_in_target(share: float) -> Scenario:
    """A share of the classes is in no source."""

    def change(scene: Scene) -> Scene:
        held = chosen_classes(scene, share)
        return with_source_rows(scene, [~np.isin(_y(source), held) for source in scene.sources])

    return change


def appearing_late(share: float) -> Scenario:
    """A share of the classes does not stream before half-time, nor is it among the unlabelled rows."""

    def change(scene: Scene) -> Scene:
        held = chosen_classes(scene, share)
        before, y = scene.line, _y(scene.target)

        def line(order: int) -> Line:
            rows = before(order).rows
            time, new = np.arange(len(rows), dtype=float), np.isin(y[rows], held)
            time[new] = (len(rows) + time[new]) / 2
            return Line(rows[np.argsort(time, kind="stable")], (int((time < len(rows) / 2).sum()),))

        return replace(_with_warmup(scene, lambda labels: ~np.isin(labels, held)), line=line)

    return change


def missing_classes(share: float) -> Scenario:
    """Each source lacks a share of the classes (one or more, not all), its own draw; all stay in some source."""

    def change(scene: Scene) -> Scene:
        rng = np.random.default_rng([SEED, 5])
        K, n = len(scene.classes), len(scene.sources)
        lacking = min(max(1, round(share * K)), K - 1)
        has = np.array([rng.permutation(K) >= lacking for _ in range(n)])
        for k in np.flatnonzero(~has.any(axis=0)):
            has[rng.integers(n), k] = True
        kept = [np.isin(_y(s), scene.classes[row]) for s, row in zip(scene.sources, has, strict=True)]
        return with_source_rows(scene, kept)

    return change


def imbalanced(kept: float) -> Scenario:
    """Half of the classes keep only a share of their target rows (at least one row each); the sources stay."""

    def change(scene: Scene) -> Scene:
        rng, y = np.random.default_rng([SEED, 7]), _y(scene.target)
        rare = chosen_classes(scene, 0.5)
        stays = np.ones(len(y), dtype=bool)
        for label in rare:
            rows = rng.permutation(np.flatnonzero(y == label))
            stays[rows[max(1, round(kept * len(rows))) :]] = False
        thinned = scene.target.rows(np.flatnonzero(stays))
        n, draw = len(thinned), rng.random(0 if scene.warmup is None else len(scene.warmup))
        scene = _with_warmup(scene, lambda labels: ~np.isin(labels, rare) | (draw < kept))
        return replace(scene, target=thinned, line=lambda order: Line(order_of(order, n)))

    return change


# -- parts of a scene -------------------------------------------------------------------------------------------


def with_source_rows(scene: Scene, masks: list[Array]) -> Scene:
    """The sources restricted to these rows; a source without any is no source."""
    kept = np.concatenate([np.zeros(0, dtype=bool), *masks])
    number = np.cumsum(kept) - 1
    sources = tuple(s.rows(np.flatnonzero(m)) for s, m in zip(scene.sources, masks, strict=True) if m.any())
    return replace(scene, sources=sources, together=number[scene.together[kept[scene.together]]])


def _with_warmup(scene: Scene, keep: Callable[[Array], Array]) -> Scene:
    if scene.warmup is None:
        return scene
    rows = np.flatnonzero(keep(_y(scene.warmup)))
    return replace(scene, warmup=scene.warmup.rows(rows) if len(rows) else None)


def _y(domain: Domain) -> Array:
    return np.asarray(domain.y)
