"""The keys that are in memory, and what a batch does to them: predictions, and labels that are learned.

A key is read from the store when it is asked for, and leaves when others need its place. One that was read goes through
its rows again (many light keys together), so that it knows what it knew. Rows of light keys go together, in parts of
some hundred rows in which a key has all its rows. A key that cannot be light any longer (a class that no source has, a
pool, too many rows) gets a model of its own and goes by itself.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.preprocess import Centre, Fill, Preprocess, Step, TargetOnly, ZScore
from hedgerow.core.values import MISSING
from hedgerow.fleet.base import Base, Batch, Key, KeyState, Model
from hedgerow.fleet.store import FleetStore, MemoryStates
from hedgerow.fleet.store import Part as StoredPart
from hedgerow.learner import Learner
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.ridge import mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.space import FADE

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Products

AROUND = 600  # bytes of Python's objects around what is held of a key,
AROUND_ROWS = 300  # and around some fresh rows
PART = 256  # rows of light keys that are worked on at once
REMEMBERED_ROOM = 64  # rows of a record up to which products with them are kept for labels: they take memory
REMEMBERED = 16  # parts of the last prediction whose products are kept: their labels may come next
Rows = tuple[Array, Array, Array]  # X, codes, weights
Part = list[tuple[Key, list[int]]]  # keys and the places of their rows in a batch
COUNTERS = 3  # numbers in front
FIRST_ROOM = 8  # rows of the smallest record
LEAST_ROOM, MOST_ROOM = 64, 512  # rows up to which a target may be light, whatever they cost, and at the most
KINDS = (Centre, ZScore, Fill, TargetOnly)  # in the order of `kernels/statistics.py`
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=Sized)


class Arena:
    """Records for the same number of rows (8, 16, 32, ..), in memory that the system gives when it is written to.

    A record is a whole number of pages: one that is given back goes back to the system.
    """

    def __init__(self, room: int, size: int, slots: int) -> None:
        """`size`: bytes of a record, in whole pages."""
        self.room, self.bytes = room, size
        self._memory = mmap.mmap(-1, size * slots, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.R = np.frombuffer(self._memory, np.float64).reshape(slots, -1)
        self._free: list[int] = []
        self._used, self._slots = 0, slots

    def take(self) -> int:
        """A record full of zeros."""
        if self._free:
            return self._free.pop()
        if self._used == self._slots:
            raise MemoryError(f"all {self._slots} records for {self.room} rows are in use")
        self._used += 1
        return self._used - 1

    def give_back(self, slot: int) -> None:
        """Its memory is the system's again."""
        self._memory.madvise(mmap.MADV_DONTNEED, slot * self.bytes, self.bytes)
        self._free.append(slot)


Where = list[tuple[Arena, Array, Array]]  # rows of a part by the arena of their keys: arena, places, slots


class Following:
    """The steps of a base, and where the statistics that follow a target are in its record, from `begin` to `end`.

    | step               | numbers of a record | what they are                                              |
    |--------------------|---------------------|------------------------------------------------------------|
    | `centre`, `zscore` | 1 + 2 m             | n, sums, squares                                           |
    | `fill`             | 3 m                 | the same, n of each of the m columns                       |
    | `target-only-N`    | 4 N                 | the same, and the shift of each column                     |
    """

    def __init__(self, pre: Preprocess, begin: int) -> None:
        self.pre = pre
        self.at: dict[Step, Array] = {}  # the places of a step's n, total, squares (and shift)
        start: list[Array] = []
        for step in pre.all:
            if not step.fixed:
                names = ("n", "total", "squares", *(["shift"] if isinstance(step, TargetOnly) else []))
                arrays = [step.arrays()[name] for name in names]
                self.at[step] = begin + np.cumsum([0, *map(len, start), *map(len, arrays)])[len(start) : -1]
                start += arrays
        self.start = np.concatenate([*start, np.empty(0)])  # of a target that has learned nothing
        self.end = begin + len(self.start)

    def scaled(self, X: Array, where: Where, learned: Array) -> Array:
        """Rows by the statistics of their targets, which the learned ones move."""
        from hedgerow.kernels.statistics import follow

        def run(step: Step, rows: Matrix) -> Matrix:
            if step.fixed:
                return step.apply(rows)
            rows, out = np.ascontiguousarray(rows, np.float64), np.empty_like(rows)
            kind, shift = KINDS.index(type(step)), step.arrays()["shift"]
            for arena, places, slots in where:
                some = np.empty((len(places), rows.shape[1]))
                follow(arena.R, slots, rows[places], self.at[step], kind, shift, learned[places], some)
                out[places] = some
            return out

        return np.ascontiguousarray(dense(self.pre.through(X, run)))


class Light:
    """The shared half of all light targets, and the arenas of their records.

    A target is *light* while it has the classes of the sources, no pool, and no more rows than pay: its regressions are
    then the shared prior and pending rows, which are never folded (`run_slots`). Every other one has a model of its
    own. What a light target has is a record, one stretch of memory:

    | part of a record | numbers            | what it is                                                              |
    |------------------|--------------------|-------------------------------------------------------------------------|
    | counters         | 3                  | rows kept, the place of the next, labels learned: whole numbers         |
    | running          |                    | statistics of the preprocessing, see below                              |
    | mixture          |                    | losses, members, pair, stacks, their curvatures, class counts           |
    | labels, weights  | room each          | of the rows below; labels are whole numbers                             |
    | G, E             | room x D, room x Q | pending rows of all regressions, space after space (`kernels/ridge.py`) |
    | kept             | room x W / 4       | the rows as local heads compare them, whole numbers of 16 bits          |
    | leaves           | room x trees / 4   | where these rows fall in the forest, whole numbers of 16 bits           |
    """

    def __init__(self, learner: RidgeLearner, limit: int, part: int) -> None:
        """`limit`: bytes of all records; `part`: rows that are worked on at once, each perhaps of a new target."""
        self.learner, near, regressions = learner, learner.near, learner.regressions
        self.has_pool = any(space.pool is not None for space in learner.spaces)
        self.following = Following(learner.pre, COUNTERS)
        near.as_single = [np.asarray(rows, np.float32).T for rows in near.sources]
        parts = [learner.state[f"mix.{name}"].ravel() for name in mixture.PARTS[1:]]
        self.at = np.cumsum([self.following.end, *(len(part) for part in parts)])  # the places of the parts
        self.start = np.concatenate([np.zeros(COUNTERS), self.following.start, *parts])  # of a target without rows
        # numbers of 16 bits that each part of a row takes: label, weight, pending rows, kept rows, leaves
        columns = [slice(1), slice(1), *regressions.d, *regressions.q]
        self._widths = [4 * (c.stop - (c.start or 0)) for c in columns] + [c.stop - c.start for c in near.columns]
        self._widths += [] if learner.trees is None else [learner.trees.size]
        own = sum(space.dim * (space.dim + 1) // 2 + space.regression.M.size for space in learner.spaces)
        # rows after which a model of its own is smaller; at least LEAST_ROOM, since a batch is so much faster
        smaller = own // int(regressions.d_ends[-1] + regressions.q_ends[-1])
        self.most = min(max(smaller, LEAST_ROOM), MOST_ROOM, near.limit if near.settings else MOST_ROOM)
        self._limit, self._part = limit, part
        self._arenas: dict[int, Arena] = {}

    @staticmethod
    def of(learner: Learner, limit: int, part: int) -> Light | None:
        """None if targets of this base cannot be records: another learner, or rows in a pool."""
        if not isinstance(learner, RidgeLearner) or not learner.n_classes:
            return None
        pooled = any(space.pool is not None and len(space.pool.labels) for space in learner.spaces)
        return None if pooled else Light(learner, limit, part)

    def arena(self, rows: int) -> Arena:
        """That of the smallest records with room for so many rows."""
        room = FIRST_ROOM
        while room < rows:
            room *= 2
        room = min(room, self.most)
        if room not in self._arenas:
            size = 8 * len(self.start) + 2 * room * sum(self._widths)
            size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            self._arenas[room] = Arena(room, size, self._limit // size + self._part)
        return self._arenas[room]

    def move(self, arena: Arena, slot: int, to: Arena) -> int:
        """The record in a larger one; the old one is given back."""
        new = to.take()
        old_record, record = arena.R[slot].view(np.int16), to.R[new].view(np.int16)
        at = begin = 4 * len(self.start)
        record[:begin] = old_record[:begin]
        for width in self._widths:
            record[begin : begin + arena.room * width] = old_record[at : at + arena.room * width]
            at, begin = at + arena.room * width, begin + to.room * width
        arena.give_back(slot)
        return new

    def products(self, where: Where, X: Array, rows: Array, before: Products | None = None) -> Products:
        """What needs no record, of rows as they came (X) and are scaled; `before` has it of those that are the same."""
        room = max(arena.room for arena, _, _ in where)
        if before is None or before.along.shape[2] < room:
            return self.learner.products(X, rows, room, kept=False)
        given = rows if self.learner.trees is None else X
        other = np.flatnonzero((before.rows != rows).any(axis=1) | (before.given != given).any(axis=1))
        if len(other) > len(rows) // 2:
            return self.learner.products(X, rows, room, kept=False)
        if len(other):
            new = self.learner.products(X[other], rows[other], room, kept=False)
            for name in ("rows", "given", "leaves", "Z", "shorter", "MZ", "W", "known", "F"):
                getattr(before, name)[other] = getattr(new, name)
            before.by_source[:, other] = new.by_source
        return before

    def run(self, where: Where, products: Products, codes: Array, weights: Array, learned: Array) -> Array:
        """Probabilities of each row (B x K) before its label, which is learned; other rows have none (-1)."""
        from hedgerow.kernels.ridge import run_slots

        learner, out = self.learner, self.learner.outcome(len(codes), self.learner.n_classes, self.most)
        regressions, log_w = learner.regressions, learner.state["mix.log_w"]
        if learned.all():
            products = products._replace(PZ=regressions.covariances(products.Z))
        elif learned.any():
            products = products._replace(PZ=np.empty_like(products.Z))
            products.PZ[learned] = regressions.covariances(products.Z[learned])
        for arena, places, slots in where:
            run_slots(
                learner.heads, products, None if learner.trees is None else learner.trees.trees.counts, arena.R, slots,
                places, arena.room, self.at, log_w, regressions.diagonal, regressions.top,
                np.empty(len(learner.spaces), np.int64), FADE, codes, weights, out,
            )  # fmt: skip
        return out.probabilities


@dataclass(slots=True)
class Held:
    """What is held of a key: a record or a model of its own, and the rows that are not in the store yet (`fresh`).

    `rows` were learned after the newest snapshot in the store, whose newest rows are of batch `upto`.
    """

    rows: int
    upto: int
    bytes: int = AROUND
    arena: Arena | None = None
    slot: int = -1
    clf: Model | None = None
    fresh: list[Rows] = field(default_factory=list)

    def fresh_state(self, base: Base) -> KeyState:
        """The rows that are not in the store."""
        X, codes, weights = (np.concatenate(parts) for parts in zip(*self.fresh, strict=True))
        return KeyState(X, codes, weights, base.new_classes(self.clf))


def bytes_of(clf: Model) -> int:
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
    """Of some rows of a batch (their places): probabilities P, a column a class.

    Of a regressor P are numbers, one a row, and `half` is half the width of each interval (rows x coverages).
    """

    places: list[int]
    P: Array
    classes: Array
    half: Array | None = None

    @property
    def labels(self) -> Array:
        """The most likely class of each row, or its number."""
        return self.P if self.half is not None else np.asarray(self.classes[self.P.argmax(axis=1)])


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


class Holder:
    """Keys in memory: at most `limit` bytes of them, and what one part of a batch needs.

    Parts of light keys are worked on by `threads` threads.
    """

    def __init__(self, base: Base, store: FleetStore | MemoryStates, limit: int, threads: int) -> None:
        self.base, self.store, self.limit, self.threads = base, store, limit, threads
        self.light = Light.of(base.clf.learner_, limit, PART)
        self.held: OrderedDict[Key, Held] = OrderedDict()
        self.dirty: OrderedDict[Key, int] = OrderedDict()  # keys with fresh rows, and the first batch of these
        self.new_classes: dict[object, None] = {}  # of keys that were held since the fleet was opened
        self.bytes = self.misses = self.evicted = 0
        self._pool: ThreadPoolExecutor | None = None
        self.last: list[tuple[list[Key], Products | None]] = []  # of the newest prediction

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

    def make_free(self) -> None:
        """The keys that are longest unused leave, until the others have room; what they learned is written before."""
        over, leaving = self.bytes - self.limit, list[Key]()
        for key, held in self.held.items():
            if over <= 0:
                break
            over -= held.bytes
            leaving.append(key)
        self.write(leaving)
        for key in leaving:
            self.drop(key)
        self.evicted += len(leaving)

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
            if held.clf is not None and self.base.wants_snapshot(held.rows, held.bytes):
                state, after[key] = self.base.snapshot(held.clf), 0
            else:
                state, after[key] = held.fresh_state(self.base), held.rows
            parts.append((key, held.upto, len(state), state.to_bytes(self.base.digest)))
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
                held.fresh, held.rows = [], rows
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
        state, upto = self.stored_state(key)
        held, light = Held(len(state), upto), self.light
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
        X, codes, weights = (np.concatenate([getattr(state, name) for _, state in some]) for name in KeyState.ROWS)
        self._run_light(keys, X, codes, weights, np.ones(len(keys), bool))

    def stored_state(self, key: Key) -> tuple[KeyState, int]:
        """What the store has of a key, and the newest batch in it."""
        parts = self.store.parts(key)
        if not parts:
            return KeyState.empty(self.base.n_features), 0
        states = [KeyState.from_bytes(data, self.base.digest, f"key {key!r}") for _, data in parts]
        return KeyState.joined(states), parts[-1][0]

    def state(self, key: Key) -> KeyState:
        """All that a key has learned; it is in the store then."""
        self.write([key])
        return self.stored_state(key)[0]

    def model(self, key: Key) -> Model:
        """What answers for a key that is asked which classes it knows: its own model, or the base's."""
        self.fetch([key])
        held = self.held.get(key)
        return self.base.clf if held is None or held.clf is None else held.clf

    def _model(self, key: Key, state: KeyState) -> Model:
        clf = self.base.model(state, f"key {key!r}")
        self._meet(clf)
        return clf

    def _meet(self, clf: Model) -> None:
        """Classes that only this model knows are known from now on, also when it has left memory."""
        self.new_classes |= dict.fromkeys(self.base.new_classes(clf).tolist())

    def _own(self, key: Key) -> Model:
        """The model of its own of a key; a light one gets it now, from all its rows."""
        held = self.held[key]
        if held.clf is None:
            states = [self.stored_state(key)[0], *([held.fresh_state(self.base)] if held.fresh else [])]
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

    def run(self, batch: Batch, number: int = 0) -> tuple[list[Predictions], dict[Key, InputError]]:
        """Every row is predicted by what its key knows, and then learned where the batch says so, in order.

        `number` is that of the batch in the journal. Rows of keys whose state cannot be read are left out: the reasons.
        """
        predicted: list[Predictions] = []
        unreadable: dict[Key, InputError] = {}
        codes, learned = batch.codes(self.base.clf), batch.learned.tolist()
        least = 0 if self.light is None or self.light.has_pool else MISSING
        heavy = {batch.keys[i] for i in np.flatnonzero(batch.learned & (codes < least))}  # a label for no record
        every = all(learned)
        if not any(learned):
            self.last = []  # what was computed for an earlier prediction is of no use
        parts = in_parts(batch.by_key.items())
        while some := list(islice(parts, self.threads)):
            self.make_free()
            unreadable |= self.fetch(key for part in some for key, _ in part)
            light, own = list[Part](), Part()
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

    def _light_parts(self, batch: Batch, codes: Array, parts: Sequence[Part], number: int) -> Iterator[Predictions]:
        work, learning = [], bool(batch.learned.any())
        for part in parts:
            keys = [key for key, own in part for _ in own]
            places = [place for _, own in part for place in own]
            before = self.last.pop(0)[1] if learning and self.last and self.last[0][0] == keys else None
            rows = batch.X[places], codes[places], batch.weights[places], batch.learned[places]
            work.append((keys, places, rows, before))
        done = self._in_threads(lambda some: self._run_light(some[0], *some[2], before=some[3]), work)
        for part, (keys, places, rows, _), (P, products) in zip(parts, work, done, strict=True):
            if not learning and len(self.last) < REMEMBERED:
                self.last.append((keys, products if products.along.shape[2] <= REMEMBERED_ROOM else None))
            if learning:
                self._remember(part, *rows, number)
            yield Predictions(places, P, self.base.classes)

    def _remember(self, part: Part, X: Array, codes: Array, weights: Array, learned: Array, number: int) -> None:
        """The rows that keys have learned, of this batch; they are fresh until they are written."""
        if not learned.all():
            X, codes, weights = X[learned], codes[learned], weights[learned]
        edges = np.cumsum([0, *(len(own) for _, own in part)])
        for (key, _), (a, b) in zip(part, pairwise(np.append(0, np.cumsum(learned))[edges].tolist()), strict=True):
            if a == b:
                continue
            held, fresh = self.held[key], (X[a:b], codes[a:b], weights[a:b])
            held.fresh.append(fresh)
            held.rows += b - a
            held.upto = number
            self._grow(held, _bytes_of_rows(fresh))
            self.dirty.setdefault(key, number)

    def _run_own(self, batch: Batch, key: Key, places: list[int], learn: bool, number: int) -> Predictions:
        """Rows of a key that has a model of its own, or gets one."""
        clf, X, some = self._own(key), np.ascontiguousarray(batch.X[places]), batch.some(places)
        weights = None if (some.weights == 1).all() else some.weights
        if isinstance(clf, OnlineTransferRegressor):
            trace = clf.trace_then_learn(X, some.labels, weights) if learn else clf.trace(X)
            predictions = Predictions(places, trace.predictions, self.base.classes, trace.half)
        elif not learn:
            predictions = Predictions(places, clf.predict_proba(X), clf.classes_)
        else:
            explained = clf.explain_then_learn(X, some.labels, weights)
            predictions = Predictions(places, explained.probabilities, explained.classes)
        if learn:
            self._meet(clf)
            self._remember([(key, places)], X, some.codes(clf), some.weights, some.learned, number)
        return predictions

    def _run_light(
        self, keys: list[Key], X: Array, codes: Array, weights: Array, learned: Array, before: Products | None = None
    ) -> tuple[Array, Products]:
        """Light rows, predicted and, where `learned` says so, learned."""
        assert self.light is not None
        by_room: dict[int, tuple[Arena, list[int], list[int]]] = {}
        for i, key in enumerate(keys):
            held = self.held[key]
            assert held.arena is not None
            _, places, slots = by_room.setdefault(held.arena.room, (held.arena, [], []))
            places.append(i)
            slots.append(held.slot)
        where: Where = [(arena, np.array(places), np.array(slots)) for arena, places, slots in by_room.values()]
        rows = self.light.following.scaled(X, where, learned)
        products = self.light.products(where, X, rows, before)
        return self.light.run(where, products, codes, weights, learned), products
