"""Heads without sources: boosted trees fitted again and again on the target's own labelled rows.

A fit of the first n rows is begun in a thread when the n-th label is learned, and taken into use with a later one
(`due`), which waits for it. So what is predicted depends on the labels alone, not on how long a fit takes. n doubles
from FIRST to MOST; then the older half of the rows goes, and the rest fills up again.

| state                    | shape | what it is                                                          |
|--------------------------|-------|---------------------------------------------------------------------|
| `grown.rows`             | n x m | labelled rows of the target as they came                            |
| `grown.y`, `weight`      | n     | their classes, and how much each counts                             |
| `grown.gaps`             | ..    | where the rows have gaps, which are zeros in them                   |
| `grown.next`             | 1     | how many of them the next fit has                                   |
| `grown.trees.*`          | ..    | the newest fit that is in use (`kernels/trees.py`), without a forest |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
from threadpoolctl import threadpool_limits

from hedgerow.core.arrays import Array
from hedgerow.core.constants import MOST as COUNT
from hedgerow.core.constants import WHOLE, Spec
from hedgerow.learner import State, prefixed, under
from hedgerow.ridge.trees import (
    MOST_CLASSES,
    boosted,
    columns_of,
    problems,
    tree_arrays,
    tree_columns,
    trees_of,
)
from hedgerow.ridge.trees import specs as tree_specs

HEAD = "grown: trees of own rows"
FIRST = 32  # rows of the first fit
MOST = 4096  # and of the largest
LATER = 8  # a fit of n rows is taken into use n / LATER labels later
SIZE = {"max_iter": 40, "max_leaf_nodes": 15, "min_samples_leaf": 5}
TREES = "trees."


@cache
def _pool() -> ThreadPoolExecutor:
    """The thread of all fits of a process, which starts with the first."""
    return ThreadPoolExecutor(1, "hedgerow-grown")


def empty(width: int) -> State:
    """The state before any label."""
    return {
        "rows": np.empty((0, width)),
        "y": np.empty(0, np.int64),
        "weight": np.empty(0),
        "gaps": np.empty(0, np.int64),
        "next": np.array([FIRST]),
    }


def due(n: int) -> int:
    """The label with which a fit of n rows is taken into use."""
    return n + n // LATER


def fitted(X: Array, y: Array, weight: Array, spans: Array) -> State:
    """The arrays of trees of these rows."""
    arrays = tree_columns([X], spans.tolist())
    K = int(y.max()) + 1
    if K > MOST_CLASSES:
        return {}
    with threadpool_limits(1, "openmp"):
        made = boosted(columns_of(arrays, X), y, weight, K, 0, SIZE)
    counts = np.zeros((0, 0, 0), np.float32)
    return arrays | tree_arrays([made]) | {"counts": counts}


class Grown:
    """The rows of a model so far, and the trees of a part of them."""

    def __init__(self, spans: Array, state: Mapping[str, Array]) -> None:
        self.spans = spans
        self.count = len(state["y"])
        self.kept = {name: state[name].copy() for name in ("rows", "y", "weight")}
        self.kept["rows"].flat[state["gaps"]] = np.nan
        self.next = int(state["next"][0])
        self.fit = under(TREES, state)
        self._trees = trees_of(self.fit) if self.fit else None
        self._coming: Future[State] | None = None
        if self.count >= self.next:
            self._begin()

    def _begin(self) -> None:
        n = self.next
        X, y, weight = (self.kept[name][:n].copy() for name in ("rows", "y", "weight"))
        self._coming = _pool().submit(fitted, X, y, weight, self.spans)

    def scores(self, X: Array, K: int) -> Array:
        """What the trees say of each row (rows x 1 x K); NaN before the first fit."""
        from hedgerow.kernels.trees import tree_row

        F = np.full((len(X), 1, K), np.nan)
        if self._trees is not None:
            room = np.empty(len(self._trees.first) + self._trees.baseline.size)
            none = np.empty(0, np.int16)
            for x, said in zip(X, F, strict=True):
                tree_row(self._trees, x, said, none, room)
        return F

    @property
    def left(self) -> int:
        """Labels until a fit is to be begun or taken into use, at least."""
        ends = due(self.next) if self.count >= self.next else self.next
        return ends - self.count

    def learn(self, X: Array, y: Array, weight: Array) -> None:
        """Rows with their labels, at most as many as are `left`; those without one are left out."""
        labelled = y >= 0
        added = int(labelled.sum())
        end = self.count + added
        for (name, kept), rows in zip(self.kept.items(), (X, y, weight), strict=True):
            if end > len(kept):
                room = np.empty((max(2 * len(kept), end, FIRST), *kept.shape[1:]), kept.dtype)
                room[: self.count] = kept[: self.count]
                self.kept[name] = kept = room
            kept[self.count : end] = rows[labelled]
        self.count = end
        if added and end == self.next:
            self._begin()
        elif end == due(self.next):
            self._take()

    def _take(self) -> None:
        assert self._coming is not None
        self.fit = self._coming.result()
        self._coming = None
        self._trees = trees_of(self.fit) if self.fit else None
        if self.next < MOST:
            self.next *= 2
            return
        first = self.count - MOST // 2
        self.kept = {name: rows[first : self.count].copy() for name, rows in self.kept.items()}
        self.count = MOST // 2

    def arrays(self) -> State:
        """The state."""
        state = {name: rows[: self.count].copy() for name, rows in self.kept.items()}
        gaps = np.flatnonzero(np.isnan(state["rows"]))
        state["rows"].flat[gaps] = 0.0
        return state | {"gaps": gaps, "next": np.array([self.next])} | prefixed(TREES, self.fit)


def specs() -> tuple[dict[str, Spec], dict[str, Spec]]:
    """Shape, type and range of constants and state."""
    state = {
        "rows": Spec(("grown", "m")),
        "y": Spec(("grown",), WHOLE, 0, "K"),
        "weight": Spec(("grown",), low=0),
        "gaps": Spec(("gaps",), WHOLE, 0, COUNT),
        "next": Spec((1,), WHOLE, FIRST, MOST),
    }
    trees = tree_specs(1, "grown K", forest=False)[0]
    trees = {"baseline": trees["baseline"], **trees}  # which says how many classes there are
    state |= {name: replace(spec, needed=False) for name, spec in prefixed(TREES, trees).items()}
    return {"spans": Spec(("columns", 2), WHOLE, 0, COUNT)}, state


def unsound(spans: Array, own: Mapping[str, Array], sizes: Mapping[str, int]) -> Iterator[str]:
    """What shapes and ranges alone do not say."""
    n = int(own["next"][0])
    if n & (n - 1) or not len(own["y"]) < due(n):
        yield f"{len(own['y'])} own rows, and the next fit of {n}"
    if own["gaps"].max(initial=-1) >= own["rows"].size:
        yield "own rows: a gap beyond them"
    if (spans.sum(axis=1) > sizes["m"]).any() or (spans[:, 1] < 1).any():
        yield "own rows: a column beyond their numbers"
    trees = under(TREES, own)
    if trees and (
        len(trees) < len(tree_specs(1, 1, forest=False)[0]) or sizes["grown K"] > sizes["K"]
    ):
        yield "own rows: a part of their trees is missing"
    elif trees:
        yield from problems(trees, sizes, forest=False)
