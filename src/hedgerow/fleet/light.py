"""Many targets of our own learner at once: what all share in one product for a whole batch, the rest by their records.

A target is *light* while it has the classes of the sources, no pool, and no more rows than pay: its regressions are
then the shared prior and pending rows, which are never folded (`kernels/fleet.py`). Every other one has a model of its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.fleet.following import Following, Where
from hedgerow.fleet.records import COUNTERS, Arenas, Shape
from hedgerow.learner import OnlineLearner
from hedgerow.ridge import mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.space import FADE

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Products

LEAST_ROOM, MOST_ROOM = 64, 512  # rows up to which a target may be light, whatever they cost, and at the most


def can_be_light(learner: OnlineLearner) -> bool:
    """Whether targets of this base can be records: our own learner, with nothing in a pool."""
    if not isinstance(learner, RidgeLearner) or not learner.n_classes:
        return False
    return all(space.pool is None or not len(space.pool.labels) for space in learner.spaces)


class Light:
    """The shared half of all light targets, and the arenas of their records."""

    def __init__(self, learner: RidgeLearner, limit: int, part: int) -> None:
        """`limit`: bytes of all records; `part`: rows that are worked on at once."""
        self.learner, near, regressions = learner, learner.near, learner.regressions
        self.has_pool = any(space.pool is not None for space in learner.spaces)
        self.following = Following(learner.pre, COUNTERS)
        near.as_single = [np.asarray(rows, np.float32).T for rows in near.sources]
        parts = [learner.state[f"mix.{name}"].ravel() for name in mixture.PARTS[1:]]
        self.at = np.cumsum([self.following.end, *(len(part) for part in parts)])  # the places of the parts
        self.start = np.concatenate([np.zeros(COUNTERS), self.following.start, *parts])  # of a target without rows
        D, Q = int(regressions.d_ends[-1]), int(regressions.q_ends[-1])
        widths = [[int(w.stop - w.start) for w in columns] for columns in (regressions.d, regressions.q, near.columns)]
        self.shape = Shape(len(self.start), (1, 1, *widths[0], *widths[1]), tuple(widths[2]))
        own = sum(space.dim * (space.dim + 1) // 2 + space.regression.M.size for space in learner.spaces)
        # rows after which a model of its own is smaller; at least LEAST_ROOM, since a batch is so much faster
        self.most = min(max(own // (D + Q), LEAST_ROOM), MOST_ROOM, near.limit if near.settings else MOST_ROOM)
        self.arenas = Arenas(self.shape, self.most, limit, part)

    def products(self, where: Where, rows: Array, before: Products | None = None) -> Products:
        """What needs no record, of rows as they are scaled; `before` has it of the rows that are still the same."""
        room = max(arena.room for arena, _, _ in where)
        if before is None or before.along.shape[2] < room:
            return self.learner.products(rows, room, kept=False)
        other = np.flatnonzero((before.rows != rows).any(axis=1))
        if len(other) > len(rows) // 2:
            return self.learner.products(rows, room, kept=False)
        if len(other):
            new = self.learner.products(rows[other], room, kept=False)
            for name in ("rows", "Z", "shorter", "MZ", "W", "known"):
                getattr(before, name)[other] = getattr(new, name)
            before.by_source[:, other] = new.by_source
        return before

    def run(self, where: Where, products: Products, y: Array | None = None, weight: Array | None = None) -> Array:
        """Probabilities of each row (B x K) before its label, which is learned where there are labels."""
        from hedgerow.kernels.fleet import run_slots

        learner, B = self.learner, len(products.rows)
        regressions, log_w = learner.regressions, learner.state["mix.log_w"]
        if y is None or weight is None:
            y, weight = np.full(B, -1), np.ones(B)
        else:
            products = products._replace(PZ=regressions.covariances(products.Z))
        out = learner.outcome(B, learner.n_classes)
        for arena, places, slots in where:
            run_slots(
                learner.heads, products, arena.R, slots, places, arena.room, self.at, log_w,
                regressions.diagonal, regressions.top, FADE, y, weight, out,
            )  # fmt: skip
        return out.probabilities
