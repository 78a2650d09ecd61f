"""CapyMOA: the forests of MOA, in Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peers.peer import REASONABLE, SOURCES, TARGET, Entry, Peer


class Moa(Peer):
    row_by_row = True

    def __init__(self, make: Callable[[Any, str], Any], setting: str, K: int, m: int) -> None:
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        names = [f"f{i}" for i in range(m)]
        kinds = {"class": [str(k) for k in range(K)]}
        self.schema = Schema.from_custom([*names, "class"], target="class", categories=kinds)
        self.model, self.K = make(self.schema, setting), K
        self.plain, self.labelled = Instance, LabeledInstance

    def form(self, x: np.ndarray) -> tuple[Any, np.ndarray]:
        return self.plain.from_array(self.schema, x), x

    def predict(self, row: tuple[Any, np.ndarray]) -> np.ndarray | None:
        found = self.model.predict_proba(row[0])
        if found is None or not np.sum(found) > 0:
            return None
        p = np.zeros(self.K)
        p[: len(found)] = np.asarray(found) / np.sum(found)
        return p

    def learn(self, row: tuple[Any, np.ndarray], code: int) -> None:
        self.model.train(self.labelled.from_array(self.schema, row[1], int(code)))


def forest(schema: Any, setting: str) -> Any:
    """Default: 100 trees, 60 % of the features. Reasonable: 30 trees, the root of the number of features."""
    from capymoa.classifier import AdaptiveRandomForestClassifier

    options = {"ensemble_size": 30, "max_features": "sqrt"} if setting == REASONABLE else {}
    return AdaptiveRandomForestClassifier(schema, **options)


def patches(schema: Any, setting: str) -> Any:
    """Default: 100 trees, 60 % of the features. Reasonable: 30 trees, 20 %."""
    from capymoa.classifier import StreamingRandomPatches

    options = {"ensemble_size": 30, "max_features": 0.2} if setting == REASONABLE else {}
    return StreamingRandomPatches(schema, **options)


def entry(make: Callable[[Any, str], Any]) -> Entry:
    return Entry("capymoa", lambda setting, K, m: Moa(make, setting, K, m), (SOURCES, TARGET), slow=True)


PEERS = {"CapyMOA ARF": entry(forest), "CapyMOA SRP": entry(patches)}
