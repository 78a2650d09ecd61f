"""The keys that are in memory, and what a batch does to them: predictions, and labels that are learned.

A key is read from the store when it is asked for, and leaves when others need its place. One that was read goes through
its rows again (many light keys together), so that it knows what it knew. Rows of light keys go together, in parts of
some hundred rows in which a key has all its rows. A key that cannot be light any longer (a class that no source has, a
pool, too many rows) gets a model of its own and goes by itself.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.values import MISSING
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.fleet.base import Base, KeyState
from hedgerow.fleet.batch import Batch, Key
from hedgerow.fleet.records import Arena, Light, Where
from hedgerow.fleet.store import Part as StoredPart
from hedgerow.ridge.learner import RidgeLearner

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Products

AROUND = 600  # bytes of Python's objects around what is held of a key,
AROUND_ROWS = 300  # and around some fresh rows
PART = 256  # rows of light keys that are worked on at once
REMEMBERED_ROOM = 64  # rows of a record up to which products with them are kept for labels: they take memory
REMEMBERED = 16  # parts of the last prediction whose products are kept: their labels may come next
Rows = tuple[Array, Array, Array]  # X, codes, weights
Part = list[tuple[Key, list[int]]]
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=Sized)


@dataclass(slots=True)
class Held:
    """What is held of a key: a record or a model of its own, and the rows that are not in the store yet (`fresh`).

    `rows` were learned in all, `stored` of them are in the store, up to batch `upto`.
    """

    rows: int
    stored: int
    upto: int
    bytes: int
    arena: Arena | None = None
    slot: int = -1
    clf: OnlineTransferClassifier | None = None
    after_snapshot: int = 0  # rows that the store has of the key after its newest snapshot
    fresh: list[Rows] = field(default_factory=list)

    def fresh_state(self, base: Base) -> KeyState:
        """The rows that are not in the store."""
        X, codes, weights = (np.concatenate(parts) for parts in zip(*self.fresh, strict=True))
        return KeyState(X, codes, weights, base.new_classes(self.clf))

    def wants_snapshot(self, base: Base) -> bool:
        """Whether its rows are better kept as a snapshot of its model."""
        return self.clf is not None and base.wants_snapshot(self.after_snapshot + self.rows - self.stored, self.bytes)


def bytes_of(clf: OnlineTransferClassifier) -> int:
    """What a model of its own takes beside the shared constants, once none of its covariances is shared any more."""
    learner = clf.learner_
    total = sum(array.nbytes for array in learner.state.values())
    if not isinstance(learner, RidgeLearner):
        return total
    numbers = sum(space.dim * (space.dim + space.targets.width) for space in learner.spaces)
    leaves = 0 if learner.trees is None else learner.trees.counts.nbytes
    return total + 8 * numbers + learner.near.rows.nbytes + leaves


def _bytes_of_rows(rows: Rows) -> int:
    return sum(array.nbytes for array in rows) + AROUND_ROWS


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


class States(Protocol):
    """Where the states of keys are when they are not held: `FleetStore` has the words."""

    def parts(self, key: Key) -> Sequence[Any]:
        """(first, rows, upto, data) of a key, in order."""

    def put(self, parts: Sequence[StoredPart]) -> None:
        """More rows of some keys."""

    def forget(self, key: Key) -> None:
        """All that a key has in its state."""


class Holder:
    """Keys in memory: at most `limit` bytes of them, and what one part of a batch needs.

    Parts of light keys are worked on by as many threads as there are processors.
    """

    def __init__(self, base: Base, store: States, limit: int) -> None:
        self.base, self.store, self.limit = base, store, limit
        self.light = Light.of(base.clf.learner_, limit, PART)
        self.held: OrderedDict[Key, Held] = OrderedDict()
        self.dirty: OrderedDict[Key, int] = OrderedDict()  # keys with fresh rows, and the first batch of these
        self.new_classes: dict[Any, None] = {}  # of keys that were held since the fleet was opened
        self.bytes = self.misses = self.evicted = 0
        self.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._pool: ThreadPoolExecutor | None = None
        self._last: list[tuple[list[Key], Products | None]] = []  # of the newest prediction

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

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

    def _grow(self, held: Held, size: int) -> None:
        """By so many bytes, or fewer."""
        held.bytes += size
        self.bytes += size

    # -- keys that leave ----------------------------------------------------------------------------------------

    def too_many(self) -> list[Key]:
        """The keys that have to leave, longest unused first."""
        over, leaving = self.bytes - self.limit, []
        for key, held in self.held.items():
            if over <= 0:
                break
            over -= held.bytes
            leaving.append(key)
        return leaving

    def leave(self, keys: Sequence[Key]) -> None:
        """Take keys out of memory; what they have learned is in the store."""
        for key in keys:
            held = self.held.pop(key)
            self.bytes -= held.bytes
            self.evicted += 1
            if held.arena is not None:
                held.arena.give_back(held.slot)

    def write(self, keys: Sequence[Key]) -> list[Key]:
        """Put the fresh rows of keys into the store, within its transaction; `written` when it is committed."""
        parts: list[StoredPart] = []
        for key in keys:
            held = self.held[key]
            if not held.fresh:
                continue
            first, rows = held.stored, held.rows - held.stored
            if held.clf is not None and held.wants_snapshot(self.base):
                self.store.forget(key)
                state, first, rows = self.base.snapshot(held.clf), held.rows, 0
            else:
                state = held.fresh_state(self.base)
            parts.append((key, first, rows, held.upto, state.to_bytes(self.base.digest)))
        self.store.put(parts)
        return [part[0] for part in parts]

    def written(self, keys: Sequence[Key]) -> None:
        """The transaction was committed: all rows of these keys are in the store."""
        for key in keys:
            held = self.held[key]
            after = 0 if held.wants_snapshot(self.base) else held.after_snapshot + held.rows - held.stored
            self._grow(held, -sum(map(_bytes_of_rows, held.fresh)))
            held.fresh, held.stored, held.after_snapshot = [], held.rows, after
            self.dirty.pop(key, None)

    # -- keys that come -----------------------------------------------------------------------------------------

    def fetch(self, keys: Iterable[Key]) -> dict[Key, InputError]:
        """Hold these keys; those whose state cannot be read are returned with the reason."""
        bad: dict[Key, InputError] = {}
        again: list[tuple[Key, KeyState]] = []
        for key in keys:
            if key in self.held:
                self.held.move_to_end(key)
                continue
            self.misses += 1
            try:
                self.held[key], state = self._read(key)
            except InputError as error:
                bad[key] = error
                continue
            self.bytes += self.held[key].bytes
            if self.held[key].arena is not None and len(state):
                again.append((key, state))
        if again:
            self._in_threads(self._replay, list(in_parts(again)))
        return bad

    def _read(self, key: Key) -> tuple[Held, KeyState]:
        before, state, upto = self.stored_state(key)
        rows = before + len(state)
        held, light = Held(rows, rows, upto, AROUND, after_snapshot=len(state)), self.light
        own = state.snapshot or len(state.new_classes) or light is None or len(state) > light.most
        if light is None or own or (light.has_pool and (state.codes < 0).any()):
            held.clf = self._model(key, state)
            held.bytes += bytes_of(held.clf)
        else:
            held.arena = light.arena(len(state) + 1)
            held.slot = held.arena.take()
            held.arena.R[held.slot, : len(light.start)] = light.start
            held.bytes += held.arena.bytes
        return held, state

    def _replay(self, some: list[tuple[Key, KeyState]]) -> None:
        """Light keys that were read go through their rows again."""
        keys = [key for key, state in some for _ in range(len(state))]
        self._run_light(keys, *(np.concatenate([getattr(state, name) for _, state in some]) for name in KeyState.ROWS))

    def stored_state(self, key: Key) -> tuple[int, KeyState, int]:
        """What the store has of a key: how many rows before its snapshot, the state, and the newest batch in it."""
        parts = self.store.parts(key)
        if not parts:
            return 0, KeyState.empty(self.base.n_features), 0
        states = [KeyState.from_bytes(part[3], self.base.digest, f"key {key!r}") for part in parts]
        at = parts[0][0] if states[0].snapshot else 0
        for i, ((first, rows, _, _), state) in enumerate(zip(parts, states, strict=True)):
            if first != at or rows != len(state) or (i and state.snapshot):
                raise InputError(f"key {key!r}: rows of its state are missing; restore the store, or forget the key")
            at += rows
        return parts[0][0], KeyState.joined(states), max(part[2] for part in parts)

    def _model(self, key: Key, state: KeyState) -> OnlineTransferClassifier:
        clf = self.base.model(state, f"key {key!r}")
        self._meet(clf)
        return clf

    def _meet(self, clf: OnlineTransferClassifier) -> None:
        """Classes that only this model knows are known from now on, also when it has left memory."""
        self.new_classes |= dict.fromkeys(self.base.new_classes(clf).tolist())

    def _own(self, key: Key) -> OnlineTransferClassifier:
        """The model of its own of a key; a light one gets it now, from all its rows."""
        held = self.held[key]
        if held.clf is None:
            states = [self.stored_state(key)[1], *([held.fresh_state(self.base)] if held.fresh else [])]
            held.clf = self._model(key, KeyState.joined(states))
            self._grow(held, bytes_of(held.clf))
            if held.arena is not None:
                self._grow(held, -held.arena.bytes)
                held.arena.give_back(held.slot)
                held.arena = None
        return held.clf

    def _make_room(self, held: Held, rows: int) -> bool:
        """Room in a light key's record for so many more rows; False if it may not have so many."""
        need = held.rows + rows
        if self.light is None or held.arena is None or need > self.light.most:
            return False
        if need > held.arena.room:
            to = self.light.arena(need)
            held.slot = self.light.move(held.arena, held.slot, to)
            self._grow(held, to.bytes - held.arena.bytes)
            held.arena = to
        return True

    # -- batches ------------------------------------------------------------------------------------------------

    def begin_prediction(self) -> None:
        """What was computed for an earlier one is of no use."""
        self._last = []

    def predict(self, batch: Batch, parts: Sequence[Part]) -> Iterator[Predictions]:
        """The rows of some parts, whose keys are held."""
        light = [_rows([pair for pair in part if self.held[pair[0]].arena is not None]) for part in parts]
        light = [pair for pair in light if pair[0]]
        predicted = self._in_threads(lambda pair: self._run_light(pair[0], batch.X[pair[1]]), light)
        for (keys, places), (P, products) in zip(light, predicted, strict=True):
            if len(self._last) < REMEMBERED:
                self._last.append((keys, products if products.along.shape[2] <= REMEMBERED_ROOM else None))
            yield Predictions(places, P, self.base.classes)
        for key, places in (pair for part in parts for pair in part):
            clf = self.held[key].clf
            if clf is not None:
                yield Predictions(places, clf.predict_proba(batch.X[places]), clf.classes_)

    def learn(self, batch: Batch, parts: Sequence[Part], number: int) -> Iterator[Predictions]:
        """The same before each label, which is learned; `number` is that of the batch in the journal."""
        codes = batch.codes(self.base.clf)
        least = 0 if self.light is None or self.light.has_pool else MISSING
        heavy = {batch.keys[i] for i in np.flatnonzero(codes < least)}  # by a label that no record can take
        light = [
            [(key, own) for key, own in part if key not in heavy and self._make_room(self.held[key], len(own))]
            for part in parts
        ]
        light = [part for part in light if part]
        work = []
        for part in light:
            keys, places = _rows(part)
            before = self._last.pop(0)[1] if self._last and self._last[0][0] == keys else None
            work.append((keys, (batch.X[places], codes[places], batch.weights[places]), before, places))
        learned = self._in_threads(lambda some: self._run_light(some[0], *some[1], before=some[2])[0], work)
        for part, (_, (X, y, weights), _, places), P in zip(light, work, learned, strict=True):
            at = 0
            for key, own in part:
                end = at + len(own)
                self._remember(key, (X[at:end], y[at:end], weights[at:end]), number)
                at = end
            yield Predictions(places, P, self.base.classes)
        done = {key for part in light for key, _ in part}
        for key, places in (pair for part in parts for pair in part):
            if key not in done:
                yield self._learn_own(batch, key, places, number)

    def _remember(self, key: Key, rows: Rows, number: int) -> None:
        """Rows that a key has learned, of this batch; they are fresh until they are written."""
        held = self.held[key]
        held.fresh.append(rows)
        held.rows += len(rows[1])
        held.upto = number
        self._grow(held, _bytes_of_rows(rows))
        self.dirty.setdefault(key, number)

    def _learn_own(self, batch: Batch, key: Key, places: list[int], number: int) -> Predictions:
        clf, some = self._own(key), batch.some(places)
        X = np.ascontiguousarray(some.X)
        explained = clf.explain_then_learn(X, some.labels, None if (some.weights == 1).all() else some.weights)
        self._meet(clf)
        self._remember(key, (X, some.codes(clf), some.weights), number)
        return Predictions(places, explained.probabilities, explained.classes)

    def _run_light(
        self, keys: list[Key], X: Array, *labels: Array, before: Products | None = None
    ) -> tuple[Array, Products]:
        """Light rows, predicted and, with codes and weights, learned."""
        assert self.light is not None
        where = self._where(keys)
        rows = self.light.following.scaled(X, where, np.full(len(X), bool(labels)))
        products = self.light.products(where, X, rows, before)
        return self.light.run(where, products, *labels), products

    def _where(self, keys: Sequence[Key]) -> Where:
        """The rows of a part by the arena of their keys: arena, places, slots."""
        by_room: dict[int, tuple[Arena, list[int], list[int]]] = {}
        for i, key in enumerate(keys):
            held = self.held[key]
            assert held.arena is not None
            _, places, slots = by_room.setdefault(held.arena.room, (held.arena, [], []))
            places.append(i)
            slots.append(held.slot)
        return [(arena, np.array(places), np.array(slots)) for arena, places, slots in by_room.values()]


def _rows(part: Part) -> tuple[list[Key], list[int]]:
    """A key for each row, and its place."""
    return [key for key, own in part for _ in own], [place for _, own in part for place in own]
