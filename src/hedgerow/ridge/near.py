"""Local heads: the labels of close rows vote, exp(g (cos - 1)) each; rows of the sources count TRUST of a target's row.

One head counts all sources, and one each source alone; the target's rows count in all. The rows are kept, so there
are bounds: of the sources, rows chosen once (`chosen`), shared by all models; of the target the newest, so that old
ones are forgotten. A kept row is a unit vector in whole numbers (11 bits, in 16). `kernels/ridge.py` has the votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.preprocess import unit
from hedgerow.kernels import SCALE

INPUT = -1  # in the place of a space's number: the input itself
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


# Which rows of the sources the local heads keep: as many of each class of each source, those that stand for most.
#
# In each class of each source the rows nearest to the centres of k-means come first, each with the weight of its
# cluster, then the others in any order. Equal shares keep a small source whole, which is often the one most like the
# target. Rows taken at random, farthest first, or without shares lost more (docs/learner.md).


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
    Z = np.concatenate(sources)
    group = _groups(codes)
    w = np.concatenate(
        [np.ones(len(z)) if u is None else u for z, u in zip(sources, weights, strict=True)]
    )
    real = np.flatnonzero(w > 0)
    if len(real) <= cap:
        return real, w[real]
    share = share_of(cap, len(np.unique(group[real])))
    rank = np.full(len(Z), np.inf)
    weight = w.copy()
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
    order = []
    counts = []
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
