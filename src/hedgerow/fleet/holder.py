"""Which keys are in memory: read from the store when they are asked for, and gone when others need their place.

A key that was read goes through its rows again (many light keys together), so that it knows what it knew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.fleet.base import Base
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.keys import Key
from hedgerow.fleet.light import Light, can_be_light
from hedgerow.fleet.member import MOST_ROWS, labels_of
from hedgerow.fleet.records import Arena
from hedgerow.fleet.store import FleetStore, Part
from hedgerow.ridge.learner import RidgeLearner

# What is held in memory of a key: a record, or a model of its own; and rows of it that are not in the store yet.
AROUND = 600  # bytes of Python's objects around what is held,
AROUND_ROWS = 300  # and around some fresh rows
Rows = tuple[Array, Array, Array]  # X, codes, weights


@dataclass(slots=True)
class Held:
    """`rows` were learned in all, `stored` of them are in the store, up to batch `upto`; the others are `fresh`."""

    rows: int
    stored: int
    upto: int
    bytes: int
    arena: Arena | None = None
    slot: int = -1
    clf: OnlineTransferClassifier | None = None
    after_snapshot: int = 0  # rows that the store has of the key after its newest snapshot
    fresh: list[Rows] = field(default_factory=list)

    def remember(self, X: Array, codes: Array, weights: Array, number: int) -> int:
        """Rows that were learned; by how many bytes this grew."""
        self.fresh.append((X, codes, weights))
        self.rows += len(codes)
        self.upto = number
        grown = X.nbytes + codes.nbytes + weights.nbytes + AROUND_ROWS
        self.bytes += grown
        return grown

    def new_classes(self, base: Base) -> Array:
        """Classes that the sources do not have."""
        known = len(base.classes)
        new = np.empty(0 if self.clf is None else len(self.clf.classes_) - known, dtype=object)
        if self.clf is not None:
            new[:] = self.clf.classes_[known:].tolist()
        return new

    def fresh_state(self, base: Base) -> KeyState:
        """The rows that are not in the store."""
        X, codes, weights = (np.concatenate(parts) for parts in zip(*self.fresh, strict=True))
        return KeyState(X, codes, weights, self.new_classes(base))

    def snapshot_state(self, base: Base) -> KeyState:
        """All that a model of its own knows, without its rows."""
        assert self.clf is not None
        none = KeyState.empty(base.n_features)
        snapshot = self.clf.to_bytes(constants=False)
        return KeyState(none.X, none.codes, none.weights, self.new_classes(base), snapshot)

    def written(self, after_snapshot: int) -> int:
        """All rows are in the store now; by how many bytes this shrank."""
        shrunk = sum(X.nbytes + codes.nbytes + weights.nbytes + AROUND_ROWS for X, codes, weights in self.fresh)
        self.fresh, self.stored, self.after_snapshot = [], self.rows, after_snapshot
        self.bytes -= shrunk
        return shrunk


def bytes_of(clf: OnlineTransferClassifier) -> int:
    """What a model of its own takes beside the shared constants, once none of its covariances is shared any more."""
    learner = clf.learner_
    total = sum(array.nbytes for array in learner.state.values())
    if not isinstance(learner, RidgeLearner):
        return total
    numbers = sum(space.dim * (space.dim + space.targets.width) for space in learner.spaces)
    return total + 8 * numbers + learner.near.rows.nbytes


PART = 256  # rows of light keys that are worked on at once
FEW = 16  # rows after a snapshot for which no new one is taken
Replay = Callable[[list[tuple[Key, KeyState]]], None]


class Holder:
    """Keys in memory: at most `limit` bytes of them, and what one part of a batch needs."""

    def __init__(self, base: Base, store: FleetStore, limit: int) -> None:
        self.base, self.store, self.limit = base, store, limit
        learner, self.light = base.clf.learner_, None
        if isinstance(learner, RidgeLearner) and can_be_light(learner):
            self.light = Light(learner, limit, PART)
        self.held: OrderedDict[Key, Held] = OrderedDict()
        self.dirty: OrderedDict[Key, int] = OrderedDict()  # keys with fresh rows, and the first batch of these
        self.new_classes: dict[Any, None] = {}  # of keys that were held since the fleet was opened
        self.bytes = self.misses = self.evicted = 0

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
        parts: list[Part] = []
        for key in keys:
            held = self.held[key]
            if not held.fresh:
                continue
            state = held.fresh_state(self.base)
            first, rows = held.stored, len(state)
            if held.clf is not None and self._wants_snapshot(held, rows):
                self.store.forget(key)
                state, first, rows = held.snapshot_state(self.base), held.rows, 0
            parts.append((key, first, rows, held.upto, state.to_bytes(self.base.digest)))
        self.store.put(parts)
        return [part[0] for part in parts]

    def _wants_snapshot(self, held: Held, fresh: int) -> bool:
        rows = held.after_snapshot + fresh
        return rows > MOST_ROWS or (rows > FEW and 8 * rows * self.base.n_features > held.bytes)

    def written(self, keys: Sequence[Key]) -> None:
        """The transaction was committed."""
        for key in keys:
            held = self.held[key]
            fresh = held.rows - held.stored
            snapshot = held.clf is not None and self._wants_snapshot(held, fresh)
            self.bytes -= held.written(0 if snapshot else held.after_snapshot + fresh)
            self.dirty.pop(key, None)

    # -- keys that come -----------------------------------------------------------------------------------------

    def fetch(self, keys: Sequence[Key], replay: Replay) -> dict[Key, InputError]:
        """Hold these keys; those whose state cannot be read are returned with the reason."""
        bad: dict[Key, InputError] = {}
        replays: list[tuple[Key, KeyState]] = []
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
                replays.append((key, state))
        if replays:
            replay(replays)
        return bad

    def _read(self, key: Key) -> tuple[Held, KeyState]:
        before, state, upto = self.stored_state(key)
        held = Held(before + len(state), before + len(state), upto, AROUND, after_snapshot=len(state))
        if self.light is not None and self._can_be_light(self.light, state):
            held.arena = self.light.arenas.of(len(state) + 1)
            held.slot = held.arena.take()
            held.arena.R[held.slot, : len(self.light.start)] = self.light.start
            held.bytes += held.arena.bytes
        else:
            held.clf = self._model(key, state)
            held.bytes += bytes_of(held.clf)
        return held, state

    @staticmethod
    def _can_be_light(light: Light, state: KeyState) -> bool:
        if state.snapshot or len(state.new_classes) or len(state) > light.most:
            return False
        return not (light.has_pool and (state.codes < 0).any())

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

    def _model(self, key: Key, state: KeyState, more: Sequence[Rows] = ()) -> OnlineTransferClassifier:
        name = f"key {key!r}"
        clf = self.base.start(state.snapshot, name)
        parts = [(state.X, state.codes, state.weights), *more]
        X, codes, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(codes):
            labels = labels_of(self.base, state.new_classes, codes, name)
            clf.partial_fit(X, labels, sample_weight=None if (weights == 1).all() else weights)
        self.meet(clf)
        return clf

    def meet(self, clf: OnlineTransferClassifier) -> None:
        """Classes that only this model knows are known from now on, also when it has left memory."""
        self.new_classes |= dict.fromkeys(clf.classes_[len(self.base.classes) :].tolist())

    def own(self, key: Key) -> OnlineTransferClassifier:
        """The model of its own of a key; a light one gets it now, from all its rows."""
        held = self.held[key]
        if held.clf is None:
            held.clf = self._model(key, self.stored_state(key)[1], held.fresh)
            self.bytes -= held.bytes
            if held.arena is not None:
                held.bytes -= held.arena.bytes
                held.arena.give_back(held.slot)
                held.arena = None
            held.bytes += bytes_of(held.clf)
            self.bytes += held.bytes
        return held.clf

    def make_room(self, key: Key, rows: int) -> bool:
        """Room in a light key's record for so many more rows; False if it may not have so many."""
        held = self.held[key]
        assert self.light is not None
        assert held.arena is not None
        need = held.rows + rows
        if need > self.light.most:
            return False
        if need > held.arena.room:
            to = self.light.arenas.of(need)
            held.slot = self.light.arenas.move(held.arena, held.slot, to)
            grown = to.bytes - held.arena.bytes
            held.arena = to
            held.bytes += grown
            self.bytes += grown
        return True

    def remember(self, key: Key, X: Array, codes: Array, weights: Array, number: int) -> None:
        """Rows that a key has learned, of this batch; they are fresh until they are written."""
        held = self.held[key]
        self.bytes += held.remember(X, codes, weights, number)
        self.dirty.setdefault(key, number)
