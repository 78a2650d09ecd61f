"""What a batch does to the keys that are held: predictions, and labels that are learned.

Rows of light keys go together, in parts of some hundred rows in which a key has all its rows. A key that cannot be light
any longer (a class that no source has, a pool, too many rows) gets a model of its own and goes by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.blas import one_blas_thread
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.labels import is_missing
from hedgerow.fleet.batch import Batch
from hedgerow.fleet.holder import PART, Holder
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.keys import Key
from hedgerow.fleet.light import Products
from hedgerow.fleet.records import Arena

Where = list[tuple[Arena, Array, Array]]
REMEMBERED = 16  # parts of the last prediction whose products are kept: their labels may come next


@dataclass(frozen=True)
class Said:
    """Probabilities of some rows of a batch (their places), a column a class."""

    places: list[int]
    P: Array
    classes: Array


def parts_of(batch: Batch) -> Iterator[list[tuple[Key, list[int]]]]:
    """Keys with the places of their rows, until they are some hundred rows."""
    part: list[tuple[Key, list[int]]] = []
    rows = 0
    for key, places in batch.by_key().items():
        part.append((key, places))
        rows += len(places)
        if rows >= PART:
            yield part
            part, rows = [], 0
    if part:
        yield part


class Work:
    """Batches on the keys of a holder."""

    def __init__(self, holder: Holder) -> None:
        self.holder, self.light, self.base = holder, holder.light, holder.base
        self._last: list[tuple[list[Key], Products]] = []  # of the newest prediction

    def fetch(self, keys: Sequence[Key]) -> dict[Key, InputError]:
        """Hold these keys; those that cannot be read, with the reason."""
        return self.holder.fetch(keys, self._replay)

    def begin_prediction(self) -> None:
        """What was computed for an earlier one is of no use."""
        self._last = []

    def predict(self, batch: Batch, part: list[tuple[Key, list[int]]]) -> Iterator[Said]:
        """The rows of a part, whose keys are held."""
        held, light = self.holder.held, [pair for pair in part if self.holder.held[pair[0]].arena is not None]
        if light and self.light is not None:
            keys, places = _rows(light)
            with uninterrupted(), one_blas_thread:
                where = self._where(keys)
                rows = self.light.scaled(batch.X[places], where, np.zeros(len(places), bool))
                products = self.light.products(rows)
                P = self.light.run(where, products, None, None, None)
            if len(self._last) < REMEMBERED:
                self._last.append((keys, products))
            yield Said(places, P, self.base.classes)
        for key, places in part:
            clf = held[key].clf
            if clf is not None:
                yield Said(places, clf.predict_proba(batch.X[places]), clf.classes_)

    def learn(self, batch: Batch, part: list[tuple[Key, list[int]]], number: int) -> Iterator[Said]:
        """The same before each label, which is learned; `number` is that of the batch in the journal."""
        codes = self.base.clf.codes_of(batch.labels)
        codes[is_missing(batch.labels)] = -1
        light = [(key, places) for key, places in part if self._stays_light(key, codes[places])]
        if light:
            yield from self._learn_light(batch, light, codes, number)
        done = {key for key, _ in light if self.holder.held[key].clf is None}
        for key, places in part:
            if key not in done:
                yield self._learn_own(batch, key, places, number)

    def _stays_light(self, key: Key, codes: Array) -> bool:
        if self.light is None or self.holder.held[key].arena is None:
            return False
        if (codes < -1).any() or (self.light.has_pool and (codes < 0).any()):
            return False
        return self.holder.make_room(key, len(codes))

    def _learn_light(
        self, batch: Batch, light: list[tuple[Key, list[int]]], codes: Array, number: int
    ) -> Iterator[Said]:
        keys, places = _rows(light)
        P, refused = self._run(keys, batch.X[places], codes[places], batch.weights[places])
        good, at = [], 0
        for key, own in light:
            if key in refused:
                self.holder.own(key)  # of the rows before; those of this batch are learned with care
            else:
                good.extend(range(at, at + len(own)))
                self.holder.remember(key, batch.X[own], codes[own], batch.weights[own], number)
            at += len(own)
        yield Said([places[i] for i in good], P[good], self.base.classes)

    def _learn_own(self, batch: Batch, key: Key, places: list[int], number: int) -> Said:
        clf = self.holder.own(key)
        labels, weights = batch.labels[places], batch.weights[places]
        X = np.ascontiguousarray(batch.X[places])
        found = clf.explain_then_learn(X, labels, None if (weights == 1).all() else weights)
        codes = clf.codes_of(labels)
        codes[is_missing(labels)] = -1
        self.holder.remember(key, X, codes, weights, number)
        return Said(places, found.probabilities, found.classes)

    def _replay(self, states: list[tuple[Key, KeyState]]) -> None:
        """Light keys that were read go through their rows again, many keys together."""
        for some in _in_parts(states):
            keys = [key for key, state in some for _ in range(len(state))]
            X, codes, weights = (np.concatenate([getattr(s, name) for _, s in some]) for name in KeyState.ROWS)
            for key in self._run(keys, X, codes, weights)[1]:
                self.holder.own(key)

    def _run(self, keys: list[Key], X: Array, codes: Array, weights: Array) -> tuple[Array, set[Key]]:
        """Light rows, predicted and learned; and the keys that need care: their records are no longer good."""
        light = self.light
        assert light is not None
        with uninterrupted(), one_blas_thread:
            where = self._where(keys)
            rows = light.scaled(X, where, np.ones(len(keys), bool))
            products = self._products(keys, rows)
            doubtful = light.doubtful(products.Z, weights)
            refused = {keys[i] for i in np.flatnonzero(doubtful)}
            if refused:
                codes = np.where([key in refused for key in keys], -1, codes)
            P = light.run(where, products, light.shared_covariance(products.Z), codes, weights)
        return P, refused

    def _products(self, keys: list[Key], rows: Array) -> Products:
        """As they were computed for a prediction, where the rows are still the same."""
        light = self.light
        assert light is not None
        if self._last and self._last[0][0] == keys:
            _, before = self._last.pop(0)
            other = np.flatnonzero((before.rows != rows).any(axis=1))
            if not len(other):
                return before
            if len(other) < len(rows) // 2:
                before.take(light.products(rows[other]), other)
                return before
        return light.products(rows)

    def _where(self, keys: Sequence[Key]) -> Where:
        """The rows of a part by the arena of their keys: arena, places, slots."""
        found: dict[int, tuple[Arena, list[int], list[int]]] = {}
        held = self.holder.held
        for i, key in enumerate(keys):
            arena = held[key].arena
            assert arena is not None
            entry = found.get(arena.room)
            if entry is None:
                entry = found[arena.room] = (arena, [], [])
            entry[1].append(i)
            entry[2].append(held[key].slot)
        return [(arena, np.array(places), np.array(slots)) for arena, places, slots in found.values()]


def _rows(part: list[tuple[Key, list[int]]]) -> tuple[list[Key], list[int]]:
    """A key for each row, and its place."""
    keys, places = [], []
    for key, own in part:
        keys.extend([key] * len(own))
        places.extend(own)
    return keys, places


def _in_parts(states: list[tuple[Key, KeyState]]) -> Iterator[list[tuple[Key, KeyState]]]:
    part: list[tuple[Key, KeyState]] = []
    rows = 0
    for pair in states:
        part.append(pair)
        rows += len(pair[1])
        if rows >= PART:
            yield part
            part, rows = [], 0
    if part:
        yield part
