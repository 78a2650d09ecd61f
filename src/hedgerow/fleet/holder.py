"""The keys that are in memory, and what a batch does to them: predictions, and labels that are learned.

A key is read from the store when it is asked for, and leaves when others need its place. One that was read goes through
its rows again (many light keys together), so that it knows what it knew. Rows of light keys go together, in parts of
some hundred rows in which a key has all its rows. A key that cannot be light any longer (a class that no source has, a
pool, too many rows) gets a model of its own and goes by itself.

| what            | where                                                                           |
|-----------------|---------------------------------------------------------------------------------|
| a light key     | a record of an `Arena` (`light.py`), worked on with others in one call          |
| a key by itself | an estimator that shares the constants of the base                              |
| what is fresh   | rows that were learned and are in no state yet: `Held.fresh`, `Holder.dirty`    |
| what is stored  | states in the store: rows in order, after a snapshot where they grew many       |

This is what fleets and Spark have in common. It knows no events: see `live/engine.py` for these.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import TypeVar

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.fleet.base import STATE, Base, Batch, Key, KeyState
from hedgerow.fleet.light import Arena, Light
from hedgerow.fleet.store import FleetStore, MemoryStates
from hedgerow.fleet.store import Part as StoredPart
from hedgerow.regression.learner import RegressionLearner
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.store import JournalError
from hedgerow.task import Model, Task

AROUND = 600  # bytes of Python's objects around what is held of a key,
AROUND_ROWS = 300  # and around some fresh rows
PART = 256  # rows of light keys that are worked on at once
Rows = tuple[Array, Array, Array]  # X, codes, weights
Part = list[tuple[Key, list[int]]]  # keys and the places of their rows in a batch
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=Sized)


@dataclass(frozen=True)
class Root:
    """A base, and the records of the light keys that started from it."""

    base: Base
    light: Light | None


@dataclass(slots=True)
class Held:
    """What is held of a key: a record or a model of its own, and the rows that are not in the store yet (`fresh`).

    `rows` were learned after the newest snapshot in the store, whose newest rows are of batch `upto`.
    """

    root: Root
    rows: int
    upto: int
    bytes: int = AROUND
    arena: Arena | None = None
    slot: int = -1
    clf: Model | None = None
    fresh: list[Rows] = field(default_factory=list)

    def fresh_state(self) -> KeyState:
        """The rows that are not in the store."""
        X, codes, weights = (np.concatenate(parts) for parts in zip(*self.fresh, strict=True))
        return KeyState(X, codes, weights, self.root.base.new_classes(self.clf))


def bytes_of(clf: Model) -> int:
    """What a model of its own takes beside the shared constants, once none of its covariances is shared any more."""
    learner = clf.learner_
    total = sum(array.nbytes for array in learner.state.values())
    if isinstance(learner, RegressionLearner):
        return total + sum(each.P.nbytes + each.M.nbytes for each in learner.regressions)
    if not isinstance(learner, RidgeLearner):
        return total
    numbers = sum(space.dim * (space.dim + space.targets.width) for space in learner.spaces)
    leaves = 0 if learner.trees is None else learner.trees.counts.nbytes
    return total + 8 * numbers + leaves


def _bytes_of_rows(rows: Rows) -> int:
    return sum(array.nbytes for array in rows) + AROUND_ROWS


@dataclass(frozen=True)
class Predictions:
    """Of some rows of a batch (their places): P as `task` has it, and the classes that its columns are of."""

    places: list[int]
    P: Array
    classes: Array
    task: Task

    @property
    def labels(self) -> Array:
        """The most likely class of each row, or its number."""
        return self.task.labels_of(self.P, self.classes)


def in_parts(keys: Iterable[tuple[Key, S]]) -> Iterator[list[tuple[Key, S]]]:
    """Keys with what they have (the places of their rows, or a state), until they are some hundred rows."""
    part: list[tuple[Key, S]] = []
    rows = 0
    for key, own in keys:
        part.append((key, own))
        rows += len(own)
        if rows >= PART:
            yield part
            part = []
            rows = 0
    if part:
        yield part


class Holder:
    """Keys in memory: at most `limit` bytes of them, and what one part of a batch needs.

    Parts of light keys are worked on by `threads` threads. New keys start from the last of `bases`, others stay with
    theirs; all have the same features and classes. With `snapshots`, a model file takes the place of many rows.
    """

    def __init__(
        self,
        bases: Sequence[Base],
        store: FleetStore | MemoryStates,
        limit: int,
        threads: int,
        snapshots: bool = True,
    ) -> None:
        self.store = store
        self.limit = limit
        self.threads = threads
        self.snapshots = snapshots
        self.roots: dict[bytes, Root] = {}
        self.held: OrderedDict[Key, Held] = OrderedDict()
        self.dirty: OrderedDict[Key, int] = (
            OrderedDict()
        )  # keys with fresh rows, and the first batch of these
        self.new_classes: dict[
            object, None
        ] = {}  # of keys that were held since the fleet was opened
        self.bytes = self.misses = self.evicted = self.arrived = 0
        self._pool: ThreadPoolExecutor | None = None
        for base in bases:
            self.add(base)

    @property
    def base(self) -> Base:
        """Where new keys start."""
        return self.root.base

    def add(self, base: Base) -> None:
        """New keys start from this base; or it takes the place of the one that states call the same.

        All that was learned has to be in the store: keys that have to begin anew leave memory.
        """
        light = Light.of(base.clf.learner_, self.limit, PART * self.threads)
        before = self.roots.get(base.owner)
        self.roots[base.owner] = Root(base, light)
        self.root = next(reversed(self.roots.values()))
        for key, held in list(self.held.items()):
            if held.root is before or not held.rows:
                self.drop(key)

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

    def make_free(self, required: bool = False) -> None:
        """The keys that are longest unused leave, until the others have room; what they learned is written before.

        Where it cannot be written they stay, beyond the limit, unless an error is `required`: a batch that is being
        worked on goes on, the next one is refused before anything of it is on disk.
        """
        leaving = self._oldest(self.held)
        try:
            self.write(leaving)
        except JournalError:
            if required:
                raise
            leaving = self._oldest(key for key in self.held if key not in self.dirty)
        for key in leaving:
            self.drop(key)
        self.evicted += len(leaving)

    def _oldest(self, keys: Iterable[Key]) -> list[Key]:
        """As many of these keys as there is no room for."""
        over = self.bytes - self.limit
        oldest = list[Key]()
        for key in keys:
            if over <= 0:
                break
            over -= self.held[key].bytes
            oldest.append(key)
        return oldest

    def drop(self, key: Key) -> None:
        """Take a key out of memory, with the rows that are not in the store."""
        self.dirty.pop(key, None)
        held = self.held.pop(key, None)
        if held is not None:
            self.bytes -= held.bytes
            if held.arena is not None:
                held.arena.give_back(held.slot)

    def write(self, keys: Iterable[Key]) -> None:
        """Put the fresh rows of keys into the store; where they are many, a snapshot takes the place of all rows."""
        parts: list[StoredPart] = []
        after: dict[Key, int] = {}  # rows after the newest snapshot
        for key in (key for key in keys if key in self.dirty):
            held = self.held[key]
            base = held.root.base
            full = self.snapshots and base.wants_snapshot(held.rows, held.bytes)
            if full and held.clf is not None:
                state = base.snapshot(held.clf)
                after[key] = 0
            else:
                state = held.fresh_state()
                after[key] = held.rows
            parts.append((key, held.upto, len(state), state.to_bytes(base.owner)))
        if not parts:
            return
        with uninterrupted():
            with self.store.transaction():
                for key in after:
                    if not after[key]:
                        self.store.forget(key)
                self.store.put(parts)
            for key, rows in after.items():
                held = self.held[key]
                self._grow(held, -sum(map(_bytes_of_rows, held.fresh)))
                held.fresh = []
                held.rows = rows
                del self.dirty[key]

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
                held, state = self._read(key)
            except InputError as error:
                bad[key] = error
                continue
            self.held[key] = held
            self.bytes += held.bytes
            if held.arena is not None and len(state):
                again.append((key, state))
        if again:
            self._in_threads(self._replay, list(in_parts(again)))
        return bad

    def _read(self, key: Key) -> tuple[Held, KeyState]:
        root, state, upto = self.stored_state(key)
        held = Held(root, len(state), upto)
        light = root.light
        own = state.snapshot or len(state.new_classes) or light is None or len(state) > light.most
        if not (light is None or own or light.refused(state.codes).any()):
            arena = light.arena(len(state) + 1)
            with suppress(MemoryError):  # keys that cannot be written may have all records
                held.slot = arena.take()
                held.arena = arena
                held.bytes += arena.bytes
                arena.R[held.slot, : len(light.start)] = light.start
        if held.arena is None:
            held.clf = self._model(root, key, state)
            held.bytes += bytes_of(held.clf)
        return held, state

    def _replay(self, some: list[tuple[Key, KeyState]]) -> None:
        """Light keys that were read go through their rows again."""
        keys = [key for key, state in some for _ in range(len(state))]
        X, codes, weights = (
            np.concatenate([getattr(state, name) for _, state in some]) for name in KeyState.ROWS
        )
        self._run_light(keys, X, codes, weights, np.ones(len(keys), bool))

    def stored_state(self, key: Key) -> tuple[Root, KeyState, int]:
        """Where a key started, what the store has of it, and the newest batch in it."""
        parts = self.store.parts(key)
        if not parts:
            return self.root, KeyState.empty(self.base.n_features), 0
        root = self.root_of(parts[0][1])
        states = [KeyState.from_bytes(data, root.base.owner, f"key {key!r}") for _, data in parts]
        return root, KeyState.joined(states), parts[-1][0]

    def root_of(self, state: bytes) -> Root:
        """Where the key of a state started; the newest for one that is of no base here, which is refused when read."""
        return self.roots.get(STATE.owner(state), self.root)

    def state(self, key: Key) -> tuple[Base, KeyState]:
        """All that a key has learned, and from which base on; it is in the store then."""
        self.write([key])
        root, state, _ = self.stored_state(key)
        return root.base, state

    def model(self, key: Key) -> Model:
        """What answers for a key that is asked which classes it knows: its own model, or the base's."""
        self.fetch([key])
        held = self.held.get(key)
        return self.base.clf if held is None or held.clf is None else held.clf

    def _model(self, root: Root, key: Key, state: KeyState) -> Model:
        clf = root.base.model(state, f"key {key!r}")
        self._meet(clf)
        return clf

    def _meet(self, clf: Model) -> None:
        """Classes that only this model knows are known from now on, also when it has left memory."""
        self.new_classes |= dict.fromkeys(self.base.new_classes(clf).tolist())

    def _own(self, key: Key) -> Model:
        """The model of its own of a key; a light one gets it now, from all its rows."""
        held = self.held[key]
        if held.clf is None:
            states = [
                self.stored_state(key)[1],
                *([held.fresh_state()] if held.fresh else []),
            ]
            held.clf = self._model(held.root, key, KeyState.joined(states))
            self._grow(held, bytes_of(held.clf))
            if held.arena is not None:
                self._grow(held, -held.arena.bytes)
                held.arena.give_back(held.slot)
                held.arena = None
        return held.clf

    def _make_room(self, held: Held, rows: int) -> bool:
        """Room in a light key's record for so many more rows; False if it may not have so many."""
        need = held.rows + rows
        light = held.root.light
        if light is None or held.arena is None or need > light.most:
            return False
        if need > held.arena.room:
            to = light.arena(need)
            try:
                held.slot = light.move(held.arena, held.slot, to)
            except MemoryError:
                return False
            self._grow(held, to.bytes - held.arena.bytes)
            held.arena = to
        return True

    # -- batches ------------------------------------------------------------------------------------------------

    def run(self, batch: Batch, number: int = 0) -> tuple[list[Predictions], dict[Key, InputError]]:
        """Every row is predicted by what its key knows, and then learned where the batch says so, in order.

        `number` is that of the batch in the journal. Rows of keys whose state cannot be read are left out: the reasons.
        """
        predicted: list[Predictions] = []
        unreadable: dict[Key, InputError] = {}
        codes = batch.codes(self.base.clf)
        learned = batch.learned.tolist()
        heavy = set[Key]()  # with a label for no record
        if self.root.light is not None:
            refused = batch.learned & self.root.light.refused(codes)
            heavy = {batch.keys[i] for i in np.flatnonzero(refused)}
        every = all(learned)
        parts = in_parts(batch.by_key.items())
        while some := list(islice(parts, self.threads)):
            self.make_free()
            unreadable |= self.fetch(key for part in some for key, _ in part)
            light = list[Part]()
            own = Part()
            for part in some:
                light.append([])
                for key, places in part:
                    if key in self.held:
                        count = len(places) if every else sum(map(learned.__getitem__, places))
                        may = key not in heavy and self._make_room(self.held[key], count)
                        (light[-1] if may else own).append((key, places))
            predicted += self._light_parts(batch, codes, [part for part in light if part], number)
            for key, places in own:
                for learn, run in groupby(places, learned.__getitem__):
                    predicted.append(self._run_own(batch, key, list(run), learn, number))
        return predicted, unreadable

    def _light_parts(
        self, batch: Batch, codes: Array, parts: Sequence[Part], number: int
    ) -> Iterator[Predictions]:
        work = []
        learning = bool(batch.learned.any())
        for part in parts:
            keys = [key for key, own in part for _ in own]
            places = [place for _, own in part for place in own]
            rows = batch.X[places], codes[places], batch.weights[places], batch.learned[places]
            work.append((keys, places, rows))
        done = self._in_threads(lambda some: self._run_light(some[0], *some[2]), work)
        for part, (_, places, rows), P in zip(parts, work, done, strict=True):
            if learning:
                self._remember(part, *rows, number)
            yield Predictions(places, P, self.base.classes, self.base.task)

    def _remember(
        self, part: Part, X: Array, codes: Array, weights: Array, learned: Array, number: int
    ) -> None:
        """The rows that keys have learned, of this batch; they are fresh until they are written."""
        if not learned.all():
            X = X[learned]
            codes = codes[learned]
            weights = weights[learned]
        edges = np.cumsum([0, *(len(own) for _, own in part)])
        for (key, _), (a, b) in zip(
            part, pairwise(np.append(0, np.cumsum(learned))[edges].tolist()), strict=True
        ):
            if a == b:
                continue
            held = self.held[key]
            self.arrived += not held.rows
            fresh = (X[a:b], codes[a:b], weights[a:b])
            held.fresh.append(fresh)
            held.rows += b - a
            held.upto = number
            self._grow(held, _bytes_of_rows(fresh))
            self.dirty.setdefault(key, number)

    def _run_own(
        self, batch: Batch, key: Key, places: list[int], learn: bool, number: int
    ) -> Predictions:
        """Rows of a key that has a model of its own, or gets one."""
        clf = self._own(key)
        X = np.ascontiguousarray(batch.X[places])
        some = batch.some(places)
        weights = None if (some.weights == 1).all() else some.weights
        task = self.base.task
        P = task.learn(clf, X, some.labels, weights).P if learn else task.probabilities(clf, X)
        predictions = Predictions(places, P, task.classes(clf), task)
        if learn:
            self._meet(clf)
            self._remember([(key, places)], X, some.codes(clf), some.weights, some.learned, number)
        return predictions

    def _run_light(
        self, keys: list[Key], X: Array, codes: Array, weights: Array, learned: Array
    ) -> Array:
        """Light rows, predicted and, where `learned` says so, learned."""
        groups: dict[int, tuple[Held, list[int], list[int]]] = {}  # by their arena
        for i, key in enumerate(keys):
            held = self.held[key]
            _, places, slots = groups.setdefault(id(held.arena), (held, [], []))
            places.append(i)
            slots.append(held.slot)
        parts: list[Array] = []
        for held, places, slots in groups.values():
            assert held.root.light is not None
            assert held.arena is not None
            rows = (np.ascontiguousarray(each[places]) for each in (X, codes, weights, learned))
            parts.append(held.root.light.step(held.arena, np.array(slots), *rows))
        order = [place for _, places, _ in groups.values() for place in places]
        return np.asarray(np.concatenate(parts)[np.argsort(order)])
