"""What is held in memory of a key: a record, or a model of its own; and rows of it that are not in the store yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.fleet.base import Base
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.records import Arena
from hedgerow.learners.ridge.learner import RidgeLearner

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
    rows = sum(rows.nbytes for rows in learner.near.kept) if learner.near is not None else 0
    return total + 8 * numbers + rows
