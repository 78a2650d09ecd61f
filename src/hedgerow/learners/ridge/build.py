"""The offline stage of our own learner: maps, priors, pools and kept rows from the sources and the warm-up rows.

The sources are asked for statistics that merge (`SourceRows`), in this order; each line is one pass over their rows,
where they are not in memory (with `rank` there is one more at the beginning):

    Gram matrices and moments of the input     -> the maps of `white`, `free`, `pca` and `recent`
    Gram matrices behind `white`               -> its leading directions, where there are more features than it keeps
    a sample of rows                           -> the landmarks of `kernel`; another one: kept rows of the local heads
    Gram matrices and class sums in all spaces -> the priors
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.beside import Shared, own_width
from hedgerow.core.constants import Constants
from hedgerow.core.moments import Moments
from hedgerow.core.source_rows import ClassMoments, Gram, Part, SourceRows, summed
from hedgerow.learners.base import State, bookkeeping
from hedgerow.learners.method import Built, Ingredients
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.learner import RidgeLearner
from hedgerow.learners.ridge.maps import Map, Times, landmarks, leading, leading_axes, single, whitened_pca, whitening
from hedgerow.learners.ridge.plan import NEAR, SPACES
from hedgerow.learners.ridge.size import Size, size_of
from hedgerow.learners.ridge.spaces_made import Made, Wanted


def build(spaces: Sequence[str], given: Ingredients) -> Built:
    """The spaces and local heads by name. Without sources: `free` alone."""
    rank, K, size = given.options.rank, given.K, size_of(given.options.size)
    rows, pool = [source.through(dense) for source in given.rows], dense(given.warmup)
    own = own_width(given.pre.steps)
    if own:  # which the spaces do not see
        shared = Shared(pool.shape[1] - own)
        rows, pool = [source.through(shared) for source in rows], shared(pool)
    constants: State = {}
    if rank is not None and rank < pool.shape[1] and (rows or len(pool)):
        constants["axes"] = axes = single(leading_axes(reduce(add, [*summed(rows, Gram()), pool.T @ pool]), rank))
        rows, pool = [source.through(Times(axes)) for source in rows], pool @ axes
    about = _Input(given.rows, rows, pool, K)
    rng = np.random.default_rng(given.options.seed)
    wanted = [
        each
        for name in (spaces if rows else ("free",))
        if name in SPACES
        for each in _spaces(name, about, size, rng, rank)
    ]
    about.grams.clear()  # they may be large, and the maps are all that was wanted of them
    made = Made(given.names, rows, pool, K, size, own)
    made.add(wanted, pooled="kernel" in spaces and bool(rows))
    near = [name for name in spaces if name in NEAR and NEAR[name][0] in ("input", *spaces)]
    if near and rows:
        made.add_near(near, given.options.seed, about.moments)
    plan = made.plan(given.pre.steps, "axes" in constants)
    kept = given.warmup if given.options.reading.target_mean == "warmup" else given.warmup[:0]
    of_sources, state = bookkeeping(about.moments, kept, K, len(plan.heads) + 1)
    of_sources["source.class_totals"] = single(of_sources["source.class_totals"])
    fixed, running = given.pre.arrays()
    state |= made.state | mixture.initial(len(plan.heads), K) | running | {"rows": np.zeros(1, np.int64)}
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return Built(RidgeLearner(plan, Constants(constants | made.constants | of_sources | fixed), state), [])


class _Input:
    """What is known of the sources' rows and the pool before any space: moments, Gram matrices, in one pass."""

    def __init__(self, given: Sequence[SourceRows], rows: Sequence[SourceRows], pool: Array, K: int) -> None:
        """`given`: the rows as the moments count them; `rows`: as the spaces see them, with fewer features perhaps."""
        self.rows, self.pool = rows, pool
        found = [source.totals(Gram(), ClassMoments(K, weighed=False)) for source in rows]
        self.grams: list[Array] = [gram for gram, _ in found]
        self._once: list[Moments] = [counted for _, counted in found]
        as_they_are = all(a.width == b.width and not b.weighed for a, b in zip(given, rows, strict=True))
        self.moments: list[Moments] = self._once if as_they_are else summed(given, ClassMoments(K))

    @property
    def gram(self) -> Array:
        """Of all rows of the sources and the pool."""
        return reduce(add, [*self.grams, Gram().of(Part(self.pool))])

    def white(self, dim: int) -> Map:
        """The map of `white`."""
        return whitening(self.rows, self.pool, reduce(add, self.grams), reduce(Moments.merge, self._once), dim)


def _spaces(name: str, about: _Input, size: Size, rng: np.random.Generator, rank: int | None) -> list[Wanted]:
    """A space, or one for each source, with its map."""
    rows, pool = about.rows, about.pool
    everyone = tuple(range(len(rows)))
    if name == "pca":
        return [Wanted(name, whitened_pca([rows[i]], pool, size.pca, [about.grams[i]]), (i,)) for i in everyone]
    if name == "recent":
        return [Wanted(name, whitened_pca(rows, pool, size.pca, about.grams), ())]
    if name == "kernel":
        return [Wanted(name, landmarks(rows, pool, rng, size.landmarks_for(pool.shape[1]), rank), everyone)]
    if name == "white":
        return [Wanted(name, about.white(size.white), everyone)]
    if name == "free" and rows:
        return [Wanted(name, leading(about.gram, size.free), everyone)]
    return [Wanted(name, Map(), everyone)]
