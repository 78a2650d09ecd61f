"""The preprocessing of light targets: the steps are shared, the statistics that follow a target are in its record.

| step               | numbers of a record | what they are                                              |
|--------------------|---------------------|------------------------------------------------------------|
| `centre`, `zscore` | 1 + 2 m             | n, sums, squares                                           |
| `fill`             | 3 m                 | the same, n of each of the m columns                       |
| `target-only-N`    | 4 N                 | the same, and the shift of each column                     |
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.preprocess import Centre, Fill, Preprocess, Step, TargetOnly, ZScore
from hedgerow.fleet.records import Arena

Where = list[tuple[Arena, Array, Array]]  # rows of a part by the arena of their keys: arena, places, slots
KINDS = (Centre, ZScore, Fill, TargetOnly)  # in the order of `kernels/statistics.py`


class Following:
    """The steps of a base, and where their statistics are in a record, from `begin` to `end`."""

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
