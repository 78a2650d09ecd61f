"""Many targets of our own learner at once: what all share in one product for a whole batch, the rest by their records.

A target is *light* while it has the classes of the sources, no pool, and no more rows than pay: its regressions are
then the shared prior and a low-rank part (`kernels/fleet.py`). Every other one has a model of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.fleet.following import Following, Where
from hedgerow.fleet.records import COUNTERS, Arenas, Shape
from hedgerow.learner import OnlineLearner
from hedgerow.ridge import mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.near import TRUST
from hedgerow.ridge.regression import symmetric_product
from hedgerow.ridge.space import FADE

REMEMBERED_ROOM = 64  # rows of a record up to which what was said is kept: it takes memory
LEAST_ROOM, MOST_ROOM = 64, 512  # rows up to which a target may be light, whatever they cost, and at the most


@dataclass
class HeadsSaid:
    """What the heads of light targets say of the rows of a batch: fits, products with rows learned before, scores.

    `known` has after how many rows and labels of the target they said it; -1: not yet.
    """

    known: Array
    fits: Array
    along: Array
    F: Array


@dataclass
class Products:
    """A batch: its rows as they are scaled, in all spaces, times what is shared; as the local heads compare them."""

    rows: Array
    Z: Array
    MZ: Array
    W: Array
    DS: Array
    said: HeadsSaid | None = None

    def take(self, other: Products, here: Array) -> None:
        """The numbers of these rows of another batch (all of it), in its order."""
        for name in ("Z", "MZ", "W"):
            getattr(self, name)[here] = getattr(other, name)
        self.DS[:, here] = other.DS
        if self.said is not None:
            self.said.known[here] = -1


def can_be_light(learner: OnlineLearner) -> bool:
    """Whether targets of this base can be records: our own learner, with nothing in a pool."""
    if not isinstance(learner, RidgeLearner) or not learner.n_classes:
        return False
    return all(space.pool is None or not len(space.pool.labels) for space in learner.spaces)


class Light:
    """The shared half of all light targets, and the arenas of their records."""

    def __init__(self, learner: RidgeLearner, limit: int, part: int) -> None:
        """`limit`: bytes of all records; `part`: rows that are worked on at once."""
        self.learner, self.K = learner, learner.n_classes
        self.spaces, self.heads = learner.spaces, len(learner.plan.heads)
        self.has_pool = any(space.pool is not None for space in self.spaces)
        self.following = Following(learner.pre, COUNTERS)
        self._columns()
        self._local_heads()
        start = self._start()
        D, Q = int(self.d_ends[-1]), int(self.q_ends[-1])
        self.shape = Shape(len(start), D, Q, tuple(self.near_ends.tolist()))
        self.start = start
        self.most = self._most_rows(D, Q)
        self.arenas = Arenas(self.shape, self.most, limit, part)
        self.top = np.array([space.regression.top for space in self.spaces])

    def _most_rows(self, D: int, Q: int) -> int:
        """Rows after which a model of its own is smaller; at least LEAST_ROOM, since a batch is so much faster."""
        own = sum(s.dim * (s.dim + 1) // 2 + s.regression.M.size for s in self.spaces)
        return int(min(max(own // (D + Q), LEAST_ROOM), MOST_ROOM, self.learner.plan.kept if self.kinds else MOST_ROOM))

    # -- what is shared, laid out for the loops -----------------------------------------------------------------

    def _columns(self) -> None:
        """Of each head: the first column of its fits, how many, and where its class targets begin (-1: one-hot)."""
        self.d_ends = np.cumsum([space.dim for space in self.spaces])
        self.q_ends = np.cumsum([space.targets.width for space in self.spaces])
        self.keep = np.array([space.settings.keep for space in self.spaces])
        tables: list[Array] = []
        columns, halves, q = [], [], 0
        for space in self.spaces:
            targets = space.targets
            for h, width in enumerate(targets.widths):
                place = -1
                if targets.table is not None:
                    place = sum(len(table) for table in tables)
                    tables.append(np.ascontiguousarray(targets._parts[h].T).ravel())
                columns.append((q, width, place))
                halves.append(np.zeros(self.K) if targets.table is None else targets._half_squares[h])
                q += width
        self.columns = np.array(columns)
        self.tables = np.concatenate([*tables, np.empty(0)])
        self.halves = np.array(halves)
        codes = np.arange(self.K)
        self.class_rows = np.hstack([space.targets.rows(codes) for space in self.spaces])

    def _local_heads(self) -> None:
        near = self.learner.near
        self.kinds = self.learner.plan.near
        self.near_ends = np.cumsum([rows.shape[1] for rows in near.sources]) if near else np.empty(0, np.int64)
        self.sharpness = np.array([kind.sharpness for kind in self.kinds])
        self.near_rows = [np.asarray(rows, np.float32).T for rows in near.sources] if near else []
        self.near_y: Array = near.y if near else np.empty(0, np.int64)
        self.near_domain: Array = near.domain if near else np.empty(0, np.int64)
        self.near_weight: Array = near.weight if near else np.empty(0)

    def _start(self) -> Array:
        """The record of a target that has learned nothing, up to its rows; `at` are the places of its parts."""
        state = self.learner.state
        self.log_w = state["mix.log_w"]
        parts = [state[f"mix.{name}"].ravel() for name in ("loss", "members", "pair", "a", "H", "counts")]
        places = np.cumsum([self.following.end, *(len(part) for part in parts)])
        self.at = np.array([0, 1, 2, *places])
        return np.concatenate([np.zeros(COUNTERS), self.following.start, *parts])

    # -- a batch ------------------------------------------------------------------------------------------------

    def products(self, rows: Array) -> Products:
        """What needs no record."""
        Z, Q = self.learner._maps(rows)
        MZ = np.hstack([z @ space.regression.M for z, space in zip(Z, self.spaces, strict=True)])
        W = np.hstack([*Q, np.empty((len(rows), 0), np.int16)])
        DS = np.empty((len(Q), len(rows), len(self.near_y)), np.float32)
        for kept, q, out in zip(self.near_rows, Q, DS, strict=True):
            np.matmul(q.astype(np.float32), kept, out=out)  # exact: see `kernels/near.py`
        return Products(rows, np.hstack(Z), MZ, W, DS)

    def products_again(self, before: Products | None, rows: Array) -> Products:
        """As they were computed for a prediction, where the rows are still the same; `before` is used up."""
        if before is None:
            return self.products(rows)
        other = np.flatnonzero((before.rows != rows).any(axis=1))
        if len(other) > len(rows) // 2:
            return self.products(rows)
        if len(other):
            before.take(self.products(rows[other]), other)
            before.rows = rows
        return before

    def shared_covariance(self, Z: Array) -> Array:
        """Z P_0, space by space."""
        begins = [0, *self.d_ends.tolist()]
        return np.hstack(
            [
                symmetric_product(Z[:, a:b], space.regression.P)
                for a, b, space in zip(begins, begins[1:], self.spaces, strict=False)
            ]
        )

    def doubtful(self, Z: Array, weight: Array) -> Array:
        """Rows that only a model of its own can learn with care: see `ridge/regression.py`."""
        from hedgerow.kernels.ridge import ROUNDING

        squares = np.add.reduceat(Z * Z, [0, *self.d_ends[:-1].tolist()], axis=1)
        return np.asarray((ROUNDING * squares * self.top * weight[:, None] > 1).any(axis=1))

    def run(
        self,
        where: Where,
        products: Products,
        PZ: Array | None,
        y: Array | None,
        weight: Array | None,
    ) -> Array:
        """Probabilities of each row (B x K) before its label, which is learned if PZ, y and weight are given."""
        from hedgerow.kernels.fleet import run_rows

        B, said = len(products.rows), self._said(where, products)
        shipped = np.empty((B, self.K))
        labels, weights = (np.full(B, -1), np.ones(B)) if y is None or weight is None else (y, weight)
        for arena, places, slots in where:
            run_rows(
                arena.R, arena.S, slots, places, labels, weights, PZ is not None, arena.room, self.at,
                products.Z, products.Z if PZ is None else PZ, products.MZ, products.W, products.DS,
                self.d_ends, self.q_ends, self.keep, FADE, self.columns, self.tables, self.halves, self.class_rows,
                self.near_ends, self.near_y, self.near_domain, self.near_weight, self.sharpness, TRUST,
                mixture.TEMPERATURES, self.log_w, mixture.KEEP, mixture.FLOOR, mixture.MEMBERS, mixture.SHARE,
                self.heads, said.known, said.fits, said.along, said.F, shipped,
            )  # fmt: skip
        return shipped

    def _said(self, where: Where, products: Products) -> HeadsSaid:
        """What was said of these rows before, if there is room for it; else room."""
        B, room = len(products.rows), max(arena.room for arena, _, _ in where)
        said = products.said
        if said is None or said.along.shape[1] < room:
            along = np.empty((B, room, len(self.spaces)))
            said = HeadsSaid(
                np.full((B, 2), -1), np.empty((B, len(self.class_rows[0]))), along, np.empty((B, self.heads, self.K))
            )
        products.said = said if room <= REMEMBERED_ROOM else None
        return said
