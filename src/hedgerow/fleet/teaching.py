"""Keys that teach keys: what old keys have learned joins the sources of a new base.

A key joins only if the model of the sources alone predicts its rows about as well as the key's own most frequent class,
or mean, would have: rows of an unrelated or spoiled key would make the base worse. Keys that joined are put into at
most four pools of similar keys (by the covariances of their columns and targets), and each pool is a further source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from hedgerow.core.arrays import Array
from hedgerow.core.linalg import one_blas_thread
from hedgerow.fleet.base import Base, Batch, Key, KeyState
from hedgerow.inputs import Labelled

POOLS = 4
LEAST_ROWS = 10  # labelled rows of a key that joins: of fewer nothing can be said
MOST_KEYS = 2000  # that may teach a base: their rows are read while others wait
MOST_ROWS = 8000  # of a pool: of larger ones a sample


class Taught(NamedTuple):
    """A base that keys have taught: its name in states, the digest of its file, and how many rows of which key.

    `keys`: how many there were when it was fitted.
    """

    name: str
    digest: str
    keys: int
    rows: list[list[Any]]

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.digest}.safetensors"


def chosen(keys: Iterable[Key]) -> list[Key]:
    """The keys that may teach, in an order that does not depend on when they came; of very many a sample.

    >>> chosen([2, "b", "a"])
    [2, 'a', 'b']
    """
    every = sorted(keys, key=lambda key: (str(key), isinstance(key, int)))
    at = np.random.default_rng(0).permutation(len(every))[:MOST_KEYS]
    return [every[i] for i in np.sort(at)]


def labelled(base: Base, state: KeyState) -> KeyState:
    """The rows of a key with a class of the base, or a number."""
    targets = base.task.targets(state.codes, len(base.classes))
    at = np.flatnonzero(np.isfinite(targets).all(axis=1))
    return state.some(at)


def admitted(base: Base, states: Mapping[Key, KeyState]) -> dict[Key, KeyState]:
    """The keys whose rows are related to the sources, which `base` was fitted on."""
    found: dict[Key, KeyState] = {}
    for key, state in states.items():
        own = labelled(base, state)
        if len(own) >= LEAST_ROWS and base.task.is_related(
            base.task.probabilities(base.clf, own.X), own.codes
        ):
            found[key] = state
    return found


def pools(base: Base, states: Mapping[Key, KeyState]) -> list[KeyState]:
    """The labelled rows of keys in at most four pools of similar keys."""
    rows = [labelled(base, state) for state in states.values()]
    together = np.nan_to_num(np.concatenate([own.X for own in rows]))
    mean = together.mean(axis=0)
    deviation = together.std(axis=0) + 1e-9
    marks = []
    for own in rows:
        Z = np.clip((np.nan_to_num(own.X) - mean) / deviation, -4, 4)
        T = base.task.targets(own.codes, len(base.classes))
        level = T.mean(axis=0)
        marks.append([*level, *((Z - Z.mean(axis=0)).T @ (T - level) / len(own)).ravel()])
    with one_blas_thread:
        groups = KMeans(min(POOLS, len(rows)), n_init=5, random_state=0).fit_predict(marks)
    return [
        _sample(KeyState.joined([own for own, of in zip(rows, groups, strict=True) if of == group]))
        for group in np.unique(groups)
    ]


def _sample(state: KeyState) -> KeyState:
    n = len(state)
    at = np.sort(np.random.default_rng(0).permutation(n)[:MOST_ROWS])
    return state.some(at)


def fit(base: Base, sources: Batch, states: Mapping[Key, KeyState]) -> Base:
    """A base of the sources and of these keys; of the sources alone where there is no key."""
    kind = base.classes.dtype

    def source(name: str, X: Array, labels: Array, weights: Array) -> Labelled:
        return Labelled(name, X, labels.astype(kind), None if (weights == 1).all() else weights)

    own = [
        source(str(name), sources.X[at], sources.labels[at], sources.weights[at])
        for name, at in sources.by_key.items()
    ]
    names = {each.name for each in own}
    for number, pool in enumerate(pools(base, states) if states else (), start=1):
        name = f"keys {number}"
        while name in names:
            name += "'"
        labels = base.task.labels(pool.codes, base.classes.tolist(), name)
        own.append(source(name, pool.X, labels, pool.weights))
    return Base(base.clf.refitted(own))
