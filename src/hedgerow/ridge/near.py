"""Local heads: the labels of close rows vote, exp(g (cos - 1)) each; rows of the sources count TRUST of a target's row.

One head counts all sources, and one each source alone; the target's rows count in all. The rows are kept, so there
are bounds: of the sources, rows chosen once (`chosen`), shared by all models; of the target the newest, so that old
ones are forgotten. A kept row is a unit vector in whole numbers (11 bits, in 16). `kernels/ridge.py` has the votes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit
from hedgerow.kernels import SCALE

INPUT = -1  # in the place of a space's number: the input itself
FIRST_ROOM = 16  # places for the target's rows at first; they double
STEPS = 8  # of k-means; started farthest first, it moves little
CANDIDATES = 20  # rows a centre: of a larger group only a part is looked at


@dataclass(frozen=True)
class NearSettings:
    """A kind of local heads: the space whose rows are compared, how fast a vote falls, the heads' names.

    The space is given by its number; INPUT is the input itself.
    """

    name: str
    of: int
    sharpness: float
    heads: tuple[str, ...]


def whole(Z: Array) -> Array:
    """Rows as unit vectors in whole numbers.

    >>> whole(np.array([[3.0, 4.0]])).tolist()
    [[1229, 1638]]
    """
    return np.asarray(np.rint(SCALE * unit(Z)), np.int16)


class Near:
    """The kept rows of the sources and of a target, in all spaces that have local heads (none: there are none)."""

    def __init__(
        self,
        settings: Sequence[NearSettings],
        constants: Mapping[str, Array],
        state: Mapping[str, Array],
        limit: int,
    ) -> None:
        """`limit`: rows of the target that are kept at the most. Names of arrays are those of `ridge/learner.py`."""
        self.settings, self.limit = settings, limit
        self.sources = [constants[f"{i}.rows"] for i in range(len(settings))]
        none = np.empty(0, np.int64)
        self.y, self.domain = constants.get("y", none), constants.get("domain", none)
        self.weight = constants.get("weight", np.empty(0))
        self.ends = np.cumsum([rows.shape[1] for rows in self.sources], dtype=np.int64)
        self.width = int(self.ends[-1]) if settings else 0
        self.columns = [slice(e - rows.shape[1], e) for e, rows in zip(self.ends.tolist(), self.sources, strict=True)]
        self.sharpness = np.array([each.sharpness for each in settings])
        self.labels, self.weights = state.get("y", none).copy(), state.get("weight", np.empty(0)).copy()
        self._lay_out([state[f"{i}.rows"] for i in range(len(settings))], len(self.labels))
        self.at = np.array([len(self.labels), state["at"][0] if settings else 0, 0])  # kept, next place, labels learned
        self.as_single: list[Array] | None = None  # the sources' rows in single precision, where much is compared

    def _lay_out(self, kept: Sequence[Array], room: int) -> None:
        """One array for the kept rows of all kinds, as compiled loops take it, and a view of each kind."""
        self.rows = np.zeros(room * self.width, np.int16)
        self.kept = [self.rows[room * w.start : room * w.stop].reshape(room, w.stop - w.start) for w in self.columns]
        for view, rows in zip(self.kept, kept, strict=True):
            view[: len(rows)] = rows

    @staticmethod
    def empty(dims: Sequence[int]) -> dict[str, Array]:
        """The state before any label."""
        state = {f"{i}.rows": np.zeros((0, d), np.int16) for i, d in enumerate(dims)}
        return state | {"y": np.zeros(0, np.int64), "weight": np.zeros(0), "at": np.zeros(1, np.int64)}

    def arrays(self) -> dict[str, Array]:
        """The state by short names."""
        if not self.settings:
            return {}
        used = self.at[0]
        arrays = {f"{i}.rows": rows[:used] for i, rows in enumerate(self.kept)}
        return arrays | {"y": self.labels[:used], "weight": self.weights[:used], "at": self.at[1:2].copy()}

    def make_room(self, rows: int) -> None:
        """Places for so many more rows, doubled until there are `limit`."""
        have, need = len(self.labels), min(int(self.at[0]) + rows, self.limit)
        if self.settings and need > have:
            room = min(max(need, 2 * have, FIRST_ROOM), self.limit)
            self.labels, self.weights = (np.pad(array, (0, room - have)) for array in (self.labels, self.weights))
            self._lay_out(self.kept, room)

    def products(self, Q: Sequence[Array], rows: int, *, kept: bool) -> tuple[Array, Array]:
        """Inner products with the kept rows of the sources and, if wanted, of the target (kinds x rows x ..)."""
        from hedgerow.kernels.ridge import MANY, inner_products

        by_source = np.empty((len(Q), rows, len(self.y)), np.float32)
        for i, q in enumerate(Q):
            if self.as_single is None:
                by_source[i] = inner_products(self.sources[i], q)
            else:
                np.matmul(q.astype(np.float32), self.as_single[i], out=by_source[i])  # exact: see `kernels/ridge.py`
        used = int(self.at[0]) if kept and rows >= MANY else 0
        by_kept = np.empty((len(Q), rows, used), np.float32)
        for i, q in enumerate(Q if used else ()):
            by_kept[i] = inner_products(self.kept[i][:used], q)
        return by_source, by_kept


# Which rows of the sources the local heads keep: as many of each class of each source, those that stand for most.
#
# In each class of each source the rows nearest to the centres of k-means come first, each with the weight of its
# cluster, then the others in any order. Equal shares keep a small source whole, which is often the one most like the
# target. Rows taken at random, farthest first, or without shares lost more (docs/own-learner.md).


def chosen(
    sources: Sequence[Array],
    codes: Sequence[Array],
    weights: Sequence[Array | None],
    cap: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """At most `cap` rows: their numbers among those of all sources together, and how much each counts.

    `weights` say how much each row counts before; None is one for all.

    >>> rows = [np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])]
    >>> kept, weight = chosen(rows, [np.array([0, 0, 1])], [None], 2, np.random.default_rng(0))
    >>> sorted(zip(kept.tolist(), weight.tolist()))
    [(0, 2.0), (2, 1.0)]
    """
    Z, group = np.concatenate(sources), _groups(codes)
    w = np.concatenate([np.ones(len(z)) if u is None else u for z, u in zip(sources, weights, strict=True)])
    real = np.flatnonzero(w > 0)
    if len(real) <= cap:
        return real, w[real]
    share = share_of(cap, len(np.unique(group[real])))
    rank, weight = np.full(len(Z), np.inf), w.copy()
    for each in np.unique(group[real]):
        members = real[group[real] == each]
        if len(members) > CANDIDATES * share:
            part = rng.choice(members, CANDIDATES * share, replace=False)
            weight[part] *= w[members].sum() / w[part].sum()
            members = part
        order, counts = medoids(Z[members], weight[members], share)
        rank[members[order]] = np.arange(len(order))
        rest = np.setdiff1d(np.arange(len(members)), order)
        rank[members[rest]] = len(order) + rng.permutation(len(rest))
        weight[members[order]] = counts
    best = np.lexsort((rng.random(len(Z)), rank))[:cap]
    return best, weight[best]


def share_of(cap: int, groups: int) -> int:
    """How many rows each class of each source may keep."""
    return max(1, cap // max(groups, 1))


def _groups(codes: Sequence[Array]) -> Array:
    """A number for each class of each source."""
    K = max(int(y.max(initial=0)) for y in codes) + 1
    return np.concatenate([i * K + y for i, y in enumerate(codes)])


def medoids(Z: Array, weight: Array, k: int) -> tuple[Array, Array]:
    """Numbers of k rows near the centres of k-means, largest cluster first, and the weights of the clusters."""
    if k >= len(Z):
        return np.arange(len(Z)), weight
    centres = Z[_farthest_first(Z, k)]
    for _ in range(STEPS):
        near = (Z @ centres.T - 0.5 * (centres * centres).sum(axis=1)).argmax(axis=1)
        for j in range(k):
            members = near == j
            if members.any():
                centres[j] = np.average(Z[members], axis=0, weights=weight[members])
    size = np.bincount(near, weights=weight, minlength=k)
    away = (Z * Z).sum(axis=1)[:, None] + (centres * centres).sum(axis=1) - 2 * Z @ centres.T
    order, counts = [], []
    for j in np.argsort(-size, kind="stable"):
        nearest = int(away[:, j].argmin())
        away[nearest] = np.inf  # a row stands for one cluster only
        order.append(nearest)
        counts.append(size[j])
    return np.array(order), np.maximum(counts, weight[order])


def _farthest_first(Z: Array, k: int) -> list[int]:
    """The row nearest to the mean, then always the one that is farthest from all before."""
    mean = Z.mean(axis=0)
    order = [int(((Z - mean) ** 2).sum(axis=1).argmin())]
    away = ((Z - Z[order[0]]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        away[order[-1]] = -1.0
        order.append(int(away.argmax()))
        away = np.minimum(away, ((Z - Z[order[-1]]) ** 2).sum(axis=1))
    return order
