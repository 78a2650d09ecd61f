"""What a batch does to the keys that are held: predictions, and labels that are learned.

Rows of light keys go together, in parts of some hundred rows in which a key has all its rows. A key that cannot be
light any longer (a class that no source has, a pool, too many rows) gets a model of its own and goes by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.labels import MISSING, is_missing
from hedgerow.core.linalg import one_blas_thread
from hedgerow.fleet.batch import Batch
from hedgerow.fleet.following import Where
from hedgerow.fleet.holder import PART, Holder
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.keys import Key
from hedgerow.fleet.records import Arena

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Products

Part = list[tuple[Key, list[int]]]
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=Sized)
REMEMBERED_ROOM = 64  # rows of a record up to which products with them are kept for labels: they take memory
REMEMBERED = 16  # parts of the last prediction whose products are kept: their labels may come next


@dataclass(frozen=True)
class Predictions:
    """Probabilities of some rows of a batch (their places), a column a class."""

    places: list[int]
    P: Array
    classes: Array


def in_parts(keys: Iterable[tuple[Key, S]]) -> Iterator[list[tuple[Key, S]]]:
    """Keys with what they have (the places of their rows, or a state), until they are some hundred rows."""
    part: list[tuple[Key, S]] = []
    rows = 0
    for key, own in keys:
        part.append((key, own))
        rows += len(own)
        if rows >= PART:
            yield part
            part, rows = [], 0
    if part:
        yield part


class Work:
    """Batches on the keys of a holder; parts of light keys on as many threads as there are processors."""

    def __init__(self, holder: Holder) -> None:
        self.holder, self.light, self.base = holder, holder.light, holder.base
        self.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._pool: ThreadPoolExecutor | None = None
        self._last: list[tuple[list[Key], Products | None]] = []  # of the newest prediction

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def fetch(self, parts: Sequence[Part]) -> dict[Key, InputError]:
        """Hold the keys of some parts; those that cannot be read, with the reason."""
        return self.holder.fetch([key for part in parts for key, _ in part], self._replay)

    def begin_prediction(self) -> None:
        """What was computed for an earlier one is of no use."""
        self._last = []

    def predict(self, batch: Batch, parts: Sequence[Part]) -> Iterator[Predictions]:
        """The rows of some parts, whose keys are held."""
        held = self.holder.held
        light = [_rows([pair for pair in part if held[pair[0]].arena is not None]) for part in parts]
        light = [pair for pair in light if pair[0]]
        predicted = self._in_threads(lambda pair: self._predict_light(pair[0], batch.X[pair[1]]), light)
        for (keys, places), (P, products) in zip(light, predicted, strict=True):
            if len(self._last) < REMEMBERED:
                self._last.append((keys, products if products.along.shape[2] <= REMEMBERED_ROOM else None))
            yield Predictions(places, P, self.base.classes)
        for key, places in (pair for part in parts for pair in part):
            clf = held[key].clf
            if clf is not None:
                yield Predictions(places, clf.predict_proba(batch.X[places]), clf.classes_)

    def _predict_light(self, keys: list[Key], X: Array) -> tuple[Array, Products]:
        assert self.light is not None
        where = self._where(keys)
        rows = self.light.following.scaled(X, where, np.zeros(len(keys), bool))
        products = self.light.products(where, rows)
        return self.light.run(where, products), products

    def learn(self, batch: Batch, parts: Sequence[Part], number: int) -> Iterator[Predictions]:
        """The same before each label, which is learned; `number` is that of the batch in the journal."""
        codes = batch.codes(self.base.clf)
        least = 0 if self.light is None or self.light.has_pool else MISSING
        heavy = {batch.keys[i] for i in np.flatnonzero(codes < least)}  # by a label that no record can take
        light = [[pair for pair in part if self._stays_light(*pair, heavy)] for part in parts]
        light = [part for part in light if part]
        rows = [_Rows(*_rows(part), batch, codes) for part in light]
        before = [self._last.pop(0)[1] if self._last and self._last[0][0] == some.keys else None for some in rows]
        learned = self._in_threads(
            lambda pair: self._run(pair[0].keys, pair[0].X, pair[0].codes, pair[0].weights, pair[1]),
            list(zip(rows, before, strict=True)),
        )
        for part, some, P in zip(light, rows, learned, strict=True):
            at = 0
            for key, own in part:
                end = at + len(own)
                self.holder.remember(key, some.X[at:end], some.codes[at:end], some.weights[at:end], number)
                at = end
            yield Predictions(some.places, P, self.base.classes)
        done = {key for part in light for key, _ in part}
        for key, places in (pair for part in parts for pair in part):
            if key not in done:
                yield self._learn_own(batch, key, places, number)

    def _in_threads(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """One item after the other, on several threads if there are several items."""
        with uninterrupted(), one_blas_thread:
            if len(items) < 2 or self.threads < 2:
                return [work(item) for item in items]
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.threads, "hedgerow-fleet")
            futures = [self._pool.submit(work, item) for item in items]
            wait(futures)  # all have ended, whatever one of them raises
            return [future.result() for future in futures]

    def _stays_light(self, key: Key, rows: list[int], heavy: set[Key]) -> bool:
        if key in heavy or self.holder.held[key].arena is None:
            return False
        return self.holder.make_room(key, len(rows))

    def _learn_own(self, batch: Batch, key: Key, places: list[int], number: int) -> Predictions:
        clf = self.holder.own(key)
        labels, weights = batch.labels[places], batch.weights[places]
        X = np.ascontiguousarray(batch.X[places])
        explained = clf.explain_then_learn(X, labels, None if (weights == 1).all() else weights)
        codes = clf.codes_of(labels)
        codes[is_missing(labels)] = MISSING
        self.holder.meet(clf)
        self.holder.remember(key, X, codes, weights, number)
        return Predictions(places, explained.probabilities, explained.classes)

    def _replay(self, states: list[tuple[Key, KeyState]]) -> None:
        """Light keys that were read go through their rows again, many keys together."""

        def again(some: list[tuple[Key, KeyState]]) -> Array:
            keys = [key for key, state in some for _ in range(len(state))]
            X, codes, weights = (np.concatenate([getattr(s, name) for _, s in some]) for name in KeyState.ROWS)
            return self._run(keys, X, codes, weights, None)

        self._in_threads(again, list(in_parts(states)))

    def _run(self, keys: list[Key], X: Array, codes: Array, weights: Array, before: Products | None) -> Array:
        """Light rows, predicted and learned."""
        assert self.light is not None
        where = self._where(keys)
        rows = self.light.following.scaled(X, where, np.ones(len(keys), bool))
        return self.light.run(where, self.light.products(where, rows, before), codes, weights)

    def _where(self, keys: Sequence[Key]) -> Where:
        """The rows of a part by the arena of their keys: arena, places, slots."""
        by_room: dict[int, tuple[Arena, list[int], list[int]]] = {}
        held = self.holder.held
        for i, key in enumerate(keys):
            own = held[key]
            arena = own.arena
            assert arena is not None
            _, places, slots = by_room.setdefault(arena.room, (arena, [], []))
            places.append(i)
            slots.append(own.slot)
        return [(arena, np.array(places), np.array(slots)) for arena, places, slots in by_room.values()]


class _Rows:
    """The rows of a part, the keys' one after the other."""

    def __init__(self, keys: list[Key], places: list[int], batch: Batch, codes: Array) -> None:
        self.keys, self.places = keys, places
        self.X, self.codes, self.weights = batch.X[places], codes[places], batch.weights[places]


def _rows(part: Part) -> tuple[list[Key], list[int]]:
    """A key for each row, and its place."""
    keys, places = [], []
    for key, own in part:
        keys.extend([key] * len(own))
        places.extend(own)
    return keys, places
