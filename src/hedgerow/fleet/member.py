"""The model of one key: an estimator of its own, and the rows that brought it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.errors import InputError
from hedgerow.core.labels import MISSING
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.fleet.key_state import KeyState

if TYPE_CHECKING:
    from hedgerow.fleet.base import Base

MOST_ROWS = 512  # learned after the last snapshot: beyond, going through them again takes too long


class Member:
    """What one key knows. Rows are learned in order; `to_bytes` is its state, from which `Base.member` goes on."""

    def __init__(self, base: Base, state: KeyState, name: str) -> None:
        """For `Base.member`."""
        self._base, self._name = base, name
        self._snapshot = state.snapshot
        self._X, self._codes, self._weights = [state.X], [state.codes], [state.weights]
        self._clf = base.start(state.snapshot, name)
        if len(state):
            labels = labels_of(base, state.new_classes, state.codes, name)
            self._clf.partial_fit(state.X, labels, sample_weight=None if (state.weights == 1).all() else state.weights)

    # -- the verbs ----------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        return self._clf.predict(X)

    def predict_proba(self, X: Any) -> Array:
        """A probability a class, in the order of `classes_`."""
        return self._clf.predict_proba(X)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Member:
        """Labelled rows in order; a label may be None."""
        self.predict_then_learn(X, y, sample_weight)
        return self

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """The prediction made for each row before its label was learned."""
        rows = dense(self._clf.as_matrix(X))
        predicted = self._clf.predict_then_learn(rows, y, sample_weight)
        codes = self._clf.codes_of(y)
        weights = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        self._X.append(np.array(rows))
        self._codes.append(codes)
        self._weights.append(weights)
        return predicted

    @property
    def clf(self) -> OnlineTransferClassifier:
        """The estimator itself, to look at: what it learns by itself is not in the state."""
        return self._clf

    @property
    def classes_(self) -> Array:
        """The classes met so far."""
        return self._clf.classes_

    @property
    def seen_(self) -> int:
        """Labels learned so far."""
        return self._clf.seen_

    @property
    def mistakes_(self) -> int:
        """Mistakes so far."""
        return self._clf.mistakes_

    # -- the state ----------------------------------------------------------------------------------------------

    def state(self) -> KeyState:
        """The rows after the last snapshot; a new one is taken where the rows are many, or larger than it."""
        X, codes, weights = (np.concatenate(parts) for parts in (self._X, self._codes, self._weights))
        self._X, self._codes, self._weights = [X], [codes], [weights]
        if len(codes) > MOST_ROWS or (len(codes) > 16 and X.nbytes > self._size_of_snapshot()):
            self._snapshot = self._clf.to_bytes(constants=False)
            self._clf = self._base.start(self._snapshot, self._name)
            self._X, self._codes, self._weights = [X[:0]], [codes[:0]], [weights[:0]]
            return self.state()
        new = np.empty(len(self.classes_) - len(self._base.classes), dtype=object)
        new[:] = self.classes_[len(self._base.classes) :].tolist()
        return KeyState(X, codes, weights, new, self._snapshot)

    def _size_of_snapshot(self) -> int:
        return sum(array.nbytes for array in self._clf.learner_.stored().values())

    def to_bytes(self) -> bytes:
        """The state as bytes."""
        return self.state().to_bytes(self._base.digest)


def labels_of(base: Base, new_classes: Array, codes: Array, name: str) -> Array:
    """Labels by their codes: places among the classes of the base and then the key's own; None where there is none."""
    classes = [*base.classes.tolist(), *new_classes.tolist()]
    if codes.max(initial=MISSING) >= len(classes) or codes.min(initial=0) < MISSING:
        raise InputError(
            f"{name}: its state names a class that it does not have ({len(classes)} are known); restore it"
        )
    labels = np.empty(len(codes), dtype=object)
    labels[:] = [None if code == MISSING else classes[code] for code in codes.tolist()]
    return labels
