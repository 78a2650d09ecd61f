"""The preprocessing of light targets: the steps are shared, statistics that follow a target are in its record.

| step               | numbers of a record | what they are                                                             |
|--------------------|---------------------|---------------------------------------------------------------------------|
| `centre`, `zscore` | 1 + 2 m             | n, sums, squares, by a compiled loop                                      |
| `fill`             | 2 m                 | how often each of the m features was there, and its sum                   |
| `own-N`            | 4 N                 | of each column that nothing is transferred for: n, shift, sums, squares   |

Gaps and such columns are those of tables (`hedgerow.tables`); their formulas are those of a model of its own, a row of
statistics for each row. The rows of one target are taken one after the other, those of different targets together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.preprocess import INSTANCE_STEPS, Beside, Means, Preprocess, Running, Statistics
from hedgerow.fleet.records import Arena

Where = list[tuple[Arena, Array, Array]]  # rows of a part by the arena of their keys: arena, places, slots
MOVING = {"centre": ("n", "total", "squares"), "zscore": ("n", "total", "squares"), "fill": ("n", "total")}
OWN = ("n", "shift", "total", "squares")


class Following:
    """The steps of a base, and where their statistics are in a record, from `begin` to `end`."""

    def __init__(self, pre: Preprocess, begin: int) -> None:
        self.pre, self.steps = pre, pre.steps
        self.at: dict[int, int] = {}  # step -> place
        arrays: list[Array] = []
        for i, stats in pre.running.items():
            names = OWN if isinstance(stats, Beside) else MOVING.get(self.steps[i], ())
            if names:
                self.at[i] = begin + sum(map(len, arrays))
                arrays += [getattr(stats, name) for name in names]
        self.start = np.concatenate([*arrays, np.empty(0)])  # of a target that has learned nothing
        self.end = begin + len(self.start)

    def scaled(self, X: Array, where: Where, learned: Array) -> Array:
        """Rows by the statistics of their targets, which the learned ones move."""
        beside = self.pre.running.get(0)
        if isinstance(beside, Beside):
            width = X.shape[1] - len(beside.n)
            z = self.pre.length_beside(width) * self._each(0, beside, X[:, width:], where, learned)
            return np.hstack([self._shared(np.ascontiguousarray(X[:, :width]), where, learned), z])
        return self._shared(X, where, learned)

    def _shared(self, X: Array, where: Where, learned: Array) -> Array:
        for i, step in enumerate(self.steps):
            stats = self.pre.running.get(i)
            if step in INSTANCE_STEPS:
                X = INSTANCE_STEPS[step](X)
            elif isinstance(stats, Means):
                X = self._each(i, stats, X, where, learned)
            elif isinstance(stats, Running):
                X = self._followed(i, stats, X, where, learned) if i in self.at else stats.scale(X, step)
        return np.ascontiguousarray(dense(X))

    def _followed(self, i: int, stats: Running, X: Array, where: Where, learned: Array) -> Array:
        from hedgerow.kernels.fleet import follow

        out, D = np.empty_like(X), X - stats.shift
        for arena, places, slots in where:
            some = np.empty((len(places), X.shape[1]))
            centre = self.steps[i] == "centre"
            follow(arena.R, slots, D[places], self.at[i], centre, stats.shift, learned[places], some)
            out[places] = some
        return out

    def _each(self, i: int, stats: Means | Beside, X: Array, where: Where, learned: Array) -> Array:
        """Rows by a step whose statistics are arrays of a number a column."""
        out, place = np.empty_like(X), self.at[i]
        for arena, places, slots in where:
            moves = bool(learned[places].any())
            for some in _each_once(slots) if moves else [np.arange(len(slots))]:
                rows = X[places[some]]
                own = _of_rows(stats, arena.R, slots[some], place)
                out[places[some]] = own.fill(rows) if isinstance(own, Means) else own.standard(rows)
                if moves:
                    own.add_each(rows, learned[places[some]])
                    _write(own, arena.R, slots[some], place)
        return out


def _each_once(slots: Array) -> Iterator[Array]:
    """Places of the rows in turns: in the first one the first row of every slot, then the second ones, and so on.

    >>> [turn.tolist() for turn in _each_once(np.array([7, 7, 2, 7]))]
    [[0, 2], [1], [3]]
    """
    order = np.argsort(slots, kind="stable")
    _, first, counts = np.unique(slots[order], return_index=True, return_counts=True)
    turn = np.empty(len(slots), np.int64)
    turn[order] = np.arange(len(slots)) - np.repeat(first, counts)
    by_turn = np.argsort(turn, kind="stable")
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _names(stats: Statistics) -> tuple[str, ...]:
    return OWN if isinstance(stats, Beside) else MOVING["fill"]


def _of_rows(stats: Means | Beside, R: Array, slots: Array, place: int) -> Means | Beside:
    """The statistics of these targets, a row each; what does not move is shared."""
    names, m = _names(stats), len(stats.n)
    moving = {name: R[slots, place + k * m : place + (k + 1) * m] for k, name in enumerate(names)}
    return type(stats)(**{**vars(stats), **moving})


def _write(own: Means | Beside, R: Array, slots: Array, place: int) -> None:
    m = own.n.shape[1]
    for k, name in enumerate(_names(own)):
        R[slots, place + k * m : place + (k + 1) * m] = getattr(own, name)
