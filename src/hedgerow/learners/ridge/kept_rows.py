"""Which rows of the sources the local heads keep: as many of each class of each source, those that stand for most.

In each class of each source the rows nearest to the centres of k-means come first, each with the weight of its cluster,
then the others in any order. Equal shares keep a small source whole, which is often the one most like the target. Rows
taken at random, farthest first, or without shares lost more (docs/own-learner.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array

STEPS = 8  # of k-means; started farthest first, it moves little
CROWD = 20  # rows a centre: of a larger group only a part is looked at


class Chosen(NamedTuple):
    """Numbers of rows among those of all sources together, and how much each counts."""

    rows: Array
    weight: Array


def chosen(
    sources: Sequence[Array],
    codes: Sequence[Array],
    weights: Sequence[Array | None],
    cap: int,
    rng: np.random.Generator,
) -> Chosen:
    """At most `cap` rows of the sources. `weights` say how much each row counts; None is one for all.

    >>> rows = [np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])]
    >>> found = chosen(rows, [np.array([0, 0, 1])], [None], 2, np.random.default_rng(0))
    >>> sorted(zip(found.rows.tolist(), found.weight.tolist()))
    [(0, 2.0), (2, 1.0)]
    """
    Z, group = np.concatenate(sources), _groups(codes)
    w = np.concatenate([np.ones(len(z)) if u is None else u for z, u in zip(sources, weights, strict=True)])
    real = np.flatnonzero(w > 0)
    if len(real) <= cap:
        return Chosen(real, w[real])
    share = share_of(cap, len(np.unique(group[real])))
    rank, weight = np.full(len(Z), np.inf), w.copy()
    for each in np.unique(group[real]):
        members = real[group[real] == each]
        if len(members) > CROWD * share:
            part = rng.choice(members, CROWD * share, replace=False)
            weight[part] *= w[members].sum() / w[part].sum()
            members = part
        order, counts = medoids(Z[members], weight[members], share)
        rank[members[order]] = np.arange(len(order))
        rest = np.setdiff1d(np.arange(len(members)), order)
        rank[members[rest]] = len(order) + rng.permutation(len(rest))
        weight[members[order]] = counts
    best = np.lexsort((rng.random(len(Z)), rank))[:cap]
    return Chosen(best, weight[best])


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
    found = [int(((Z - mean) ** 2).sum(axis=1).argmin())]
    away = ((Z - Z[found[0]]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        away[found[-1]] = -1.0
        found.append(int(away.argmax()))
        away = np.minimum(away, ((Z - Z[found[-1]]) ** 2).sum(axis=1))
    return found
