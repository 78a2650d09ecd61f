"""What all keys share: the sources, fitted once, and nothing of any target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.member import Member


class Base:
    """A fitted model that has learned no label of a target: every key starts as it is.

    >>> import numpy as np
    >>> base = Base.fit([Domain("a", np.eye(4), ["x", "y", "x", "y"])], method="hedgerow-linear")
    >>> member = base.member()
    >>> member.learn(np.eye(4)[:1], ["y"]).seen_
    1
    >>> base.member(member.to_bytes()).seen_
    1
    """

    def __init__(self, clf: OnlineTransferClassifier) -> None:
        """Of a fitted model, of which a copy is taken."""
        if not isinstance(clf, OnlineTransferClassifier):
            raise InputError(f"a fleet starts from a fitted OnlineTransferClassifier, not from {type(clf).__name__}")
        if clf.seen_:
            raise InputError(
                f"the model has learned {clf.seen_} labels of a target, and all keys would start with them; "
                "fit one on the sources alone"
            )
        self._data = clf.to_bytes()
        self._clf = OnlineTransferClassifier.from_bytes(self._data, name="the base")

    @classmethod
    def fit(cls, sources: Sequence[Domain], method: str = "hedgerow", **options: Any) -> Self:
        """The sources, fitted without rows of any target."""
        return cls(OnlineTransferClassifier(method, **options).fit_domains(sources))

    def to_bytes(self) -> bytes:
        """The content of a model file: what a worker is sent, once."""
        return self._data

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse."""
        return cls(OnlineTransferClassifier.from_bytes(data, name="the base of a fleet"))

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that stand for all that is shared; the state of every key has them."""
        header = repr((self._clf.constants_.digest, self._clf.learner_.plan_to_json(), self._clf.classes_.tolist()))
        if self._clf.table_ is not None:  # sources with other words may become the same numbers
            header += json.dumps(self._clf.table_.to_json(), sort_keys=True)
        return hashlib.sha256(header.encode()).digest()[:16]

    @property
    def classes(self) -> Array:
        """The classes of the sources."""
        return self._clf.classes_

    @property
    def n_features(self) -> int:
        """How many features a row has."""
        return int(self._clf.n_features_in_)

    @property
    def clf(self) -> OnlineTransferClassifier:
        """The model itself, to look at: what a key predicts that has learned nothing."""
        return self._clf

    def start(self, snapshot: bytes = b"", name: str = "a key") -> OnlineTransferClassifier:
        """A model of one's own, at the start or as a snapshot has it; the constants are shared."""
        constants = self._clf.constants_
        data = snapshot or self._start
        return OnlineTransferClassifier.from_bytes(data, constants=constants, name=name)

    @cached_property
    def _start(self) -> bytes:
        return self._clf.to_bytes(constants=False)

    def member(self, state: bytes | None = None, name: str = "a key") -> Member:
        """The model of one key, from its state or, where it has none, from the start. `name` stands in errors."""
        known = KeyState.empty(self.n_features) if state is None else KeyState.from_bytes(state, self.digest, name)
        if known.X.shape[1] != self.n_features:
            raise InputError(f"{name}: its state has rows of {known.X.shape[1]} features, not {self.n_features}")
        return Member(self, known, name)
