"""The offline stage of our own learner: maps, priors, pools and kept rows from the sources and the warm-up rows.

The sources are asked for statistics that merge (`SourceRows`), in this order; each line is one pass over their rows,
where they are not in memory (with `rank` there is one more at the beginning):

    Gram matrices and moments of the input     -> the maps of `white`, `free`, `pca` and `recent`
    Gram matrices behind `white`               -> its leading directions, where there are more features than it keeps
    a sample of rows                           -> the landmarks of `kernel`; another one: kept rows of the local heads
    Gram matrices and class sums in all spaces -> the priors
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import upper_of
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import First, target_only_width
from hedgerow.core.source_rows import ClassMoments, Gram, Part, SourceRows, summed
from hedgerow.learner import State, bookkeeping
from hedgerow.methods import Built, Training
from hedgerow.ridge import mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.maps import (
    Map,
    Times,
    halved,
    input_axes,
    landmarks,
    leading,
    single,
    whitened_pca,
    whitening,
)
from hedgerow.ridge.near import CANDIDATES, Near, NearSettings, chosen, share_of, whole
from hedgerow.ridge.plan import INPUT, NEAR, SPACES, RidgePlan, Size, size_of
from hedgerow.ridge.space import InSpace, Settings, Space, Sums, with_own

# The spaces and local heads of a model as they are made: settings, arrays, the names of their heads.
MAPS = ("A", "landmarks", "axes")
RATE = 1e9  # features^3 a second and source: eigenvectors, products and inverses, on one core
LONG = 60  # seconds of fitting that a user is told of


@dataclass(frozen=True)
class Wanted:
    """A space that is to be made: its name, its map, and the numbers of the sources that it learns from."""

    name: str
    map: Map
    of: tuple[int, ...]


class Made:
    """The spaces as they are added."""

    def __init__(
        self, names: Sequence[str], rows: Sequence[SourceRows], pool: Array, K: int, size: Size, own: int = 0
    ) -> None:
        """`own`: target-only columns, which join the rows of spaces."""
        self.names, self.rows, self.pool, self.K, self.size, self.own = names, rows, pool, K, size, own
        self.settings: list[Settings] = []
        self.maps: list[Map] = []
        self.rooms: list[int] = []
        self.heads_of: list[int] = []
        self.heads: list[str] = []
        self.near: list[NearSettings] = []
        self.constants: State = {}
        self.state: State = {}

    def add(self, wanted: Sequence[Wanted], pooled: bool) -> None:
        """These spaces, whose sums are taken together: one pass over each source."""
        if self.size.half:
            wanted = [replace(each, map=each.map.rounded()) for each in wanted]
        sums: list[list[Sums]] = [[] for _ in wanted]
        for i, source in enumerate(self.rows):
            asked = [number for number, each in enumerate(wanted) if i in each.of]
            totals = source.totals(*(InSpace(wanted[number].map, self.K) for number in asked))
            for number, total in zip(asked, totals, strict=True):
                sums[number].append(total)
        for each, own in zip(wanted, sums, strict=True):
            self._add(each, own, pooled)

    def _add(self, wanted: Wanted, sums: Sequence[Sums], pooled: bool) -> None:
        settings, prefix = SPACES[wanted.name], f"space.{len(self.settings)}."
        room = self.size.pool if pooled and settings.pool else 0
        constants, state = Space.start(settings, wanted.map, sums, self.pool, self.K, room)
        if self.own and not room:
            constants |= with_own(constants["prior.P"], constants["prior.M"], self.own)
        heads = len(constants["widths"])
        own = self._names([self.names[i] for i in wanted.of])
        own += ["target only"] if heads > len(own) else []
        self.settings.append(settings)
        self.maps.append(Map(*(constants.get(key) for key in MAPS)))
        self.rooms.append(room)
        self.heads_of.append(heads)
        self.heads.extend(f"{wanted.name}: {head}" for head in own)
        constants["prior.P"] = upper_of(constants["prior.P"])
        if self.size.half:
            constants |= {key: halved(A) for key, A in constants.items() if key in MAPS and A.dtype == np.float32}
        self.constants |= {prefix + key: array for key, array in constants.items()}
        self.state |= {prefix + key: array for key, array in state.items()}

    @staticmethod
    def _names(own: Sequence[str]) -> list[str]:
        return ["all sources", *own] if len(own) > 1 else list(own)

    def add_near(self, names: Sequence[str], seed: int, moments: Sequence[Moments]) -> None:
        """Local heads, which keep the same rows in every space."""
        cap, rng = self.size.source_rows_for(self.pool.shape[1]), np.random.default_rng(seed)
        share = share_of(cap, sum(int((each.class_counts > 0).sum()) for each in moments))
        candidates = [source.candidates(CANDIDATES * share, rng) for source in self.rows]
        X, codes = [part.X for part in candidates], [np.asarray(part.codes) for part in candidates]
        kept = chosen(X, codes, [part.weight for part in candidates], cap, rng)
        rows, domains = np.concatenate(X)[kept.rows], np.repeat(np.arange(len(X)), [len(part) for part in X])
        known = [settings.name for settings in self.settings]
        dims = []
        for i, name in enumerate(names):
            space, sharpness = NEAR[name]
            wide = space == "input" and rows.shape[1] > self.size.near and "free" in known
            of = known.index("free") if wide else known.index(space) if space in known else INPUT
            mapping = self.maps[of] if of != INPUT else Map()
            self.near.append(NearSettings(name, of, sharpness))
            self.constants[f"near.{i}.rows"] = whole(mapping(rows))
            dims.append(self.constants[f"near.{i}.rows"].shape[1])
            self.heads.extend(f"{name}: {head}" for head in self._names(self.names))
        self.constants["near.y"] = np.concatenate(codes)[kept.rows]
        self.constants["near.domain"] = domains[kept.rows]
        self.constants["near.weight"] = kept.weight
        self.state |= {f"near.{key}": array for key, array in Near.empty(dims).items()}

    def plan(self, steps: tuple[str, ...], axes: bool) -> RidgePlan:
        """What was added, as a plan."""
        maps = ["+".join(key for key in ("landmarks", "A", "axes") if key in each.arrays()) for each in self.maps]
        spaces = tuple(self.settings), tuple(maps), tuple(self.rooms), tuple(self.heads_of)
        return RidgePlan(steps, *spaces, tuple(self.heads), tuple(self.near), self.size.target_rows, axes)


def build(spaces: Sequence[str], training: Training) -> Built:
    """The spaces and local heads by name. Without sources: `free` alone."""
    rank, K, size = training.options.rank, training.K, size_of(training.options.size)
    rows, pool = [source.through(dense) for source in training.rows], dense(training.warmup)
    own = target_only_width(training.pre.steps)
    if own:  # which the spaces do not see
        shared = First(pool.shape[1] - own)
        rows, pool = [source.through(shared) for source in rows], shared(pool)
    constants: State = {}
    if rank is not None and rank < pool.shape[1] and (rows or len(pool)):
        constants["axes"] = axes = single(input_axes(rows, pool, rank))
        rows, pool = [source.through(Times(axes)) for source in rows], pool @ axes
    _check_width(pool.shape[1], len(rows))
    about = _Input(training.rows, rows, pool, K)
    rng = np.random.default_rng(training.options.seed)
    wanted = [
        each
        for name in (spaces if rows else ("free",))
        if name in SPACES
        for each in _spaces(name, about, size, rng, rank)
    ]
    about.grams.clear()  # they may be large, and the maps are all that was wanted of them
    made = Made(training.names, rows, pool, K, size, own)
    made.add(wanted, pooled="kernel" in spaces and bool(rows))
    near = [name for name in spaces if name in NEAR and NEAR[name][0] in ("input", *spaces)]
    if near and rows:
        made.add_near(near, training.options.seed, about.moments)
    plan = made.plan(training.pre.steps, "axes" in constants)
    kept = training.warmup if training.options.reading.target_mean == "warmup" else training.warmup[:0]
    of_sources, state = bookkeeping(about.moments, kept, K, len(plan.heads) + 1)
    of_sources["source.class_totals"] = single(of_sources["source.class_totals"])
    fixed, running = training.pre.arrays()
    state |= made.state | mixture.initial(len(plan.heads), K) | running | {"rows": np.zeros(1, np.int64)}
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return Built(RidgeLearner(plan, Constants(constants | made.constants | of_sources | fixed), state), [])


def _check_width(features: int, sources: int) -> None:
    """Refuse what does not fit into memory, and warn of what takes long: matrices of features x features."""
    size, seconds = 8 * features**2 * (sources + 2), features**3 * (sources + 3) / RATE
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**35
    remedy = (
        "rank=200 (directions of the input that are kept) needs no such matrix, and fewer features are faster still"
    )
    if size > memory:
        raise InputError(
            f"{features} features: fitting needs about {size / 2**30:.0f} GiB for matrices of features x features, "
            f"and this machine has {memory / 2**30:.0f}; {remedy}"
        )
    if seconds > LONG:
        warnings.warn(f"{features} features: fitting takes about {seconds / 60:.0f} minutes; {remedy}", stacklevel=2)


class _Input:
    """What is known of the sources' rows and the pool before any space: moments, Gram matrices, in one pass."""

    def __init__(self, counted: Sequence[SourceRows], rows: Sequence[SourceRows], pool: Array, K: int) -> None:
        """`counted`: the rows as the moments count them; `rows`: as the spaces see them."""
        self.rows, self.pool = rows, pool
        totals = [source.totals(Gram(), ClassMoments(K, weighed=False)) for source in rows]
        self.grams: list[Array] = [gram for gram, _ in totals]
        self._once: list[Moments] = [moments for _, moments in totals]
        as_they_are = all(a.width == b.width and not b.weighed for a, b in zip(counted, rows, strict=True))
        self.moments: list[Moments] = self._once if as_they_are else summed(counted, ClassMoments(K))

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
