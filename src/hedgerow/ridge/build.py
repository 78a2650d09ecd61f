"""The offline stage of our own learner: maps, priors, pools and kept rows from the sources and the warm-up rows.

The sources are asked for statistics that merge (`SourceRows`), in this order; each line is one pass over their rows,
where they are not in memory (with `rank` there is one more at the beginning):

    Gram matrices and moments of the input     -> the maps of `white` and `free`
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
from hedgerow.core.source_rows import (
    AT_ONCE,
    ClassMoments,
    Gram,
    Part,
    SourceRows,
    summed,
)
from hedgerow.learner import State, bookkeeping, prefixed
from hedgerow.methods import Built, Training
from hedgerow.ridge import adapted, grown, mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.maps import (
    WIDE,
    Map,
    Times,
    input_axes,
    landmarks,
    leading,
    single,
    whitening,
)
from hedgerow.ridge.near import CANDIDATES, INPUT, NearSettings, chosen, share_of, whole
from hedgerow.ridge.plan import (
    FREE,
    NEAR,
    NEAR_FEATURES,
    POOL,
    SHARPNESS,
    SPACES,
    TARGET_ROWS,
    WHITE,
    RidgePlan,
    landmarks_for,
    source_rows_for,
)
from hedgerow.ridge.regression import weightings
from hedgerow.ridge.space import OWN_MAP, InSpace, Settings, Space, Sums, with_own
from hedgerow.ridge.trees import (
    empty,
    fit_trees,
    grows_trees,
    is_table,
    most_rows,
    spans_of,
    wants_trees,
)

MAPS = ("A", "landmarks", "axes")
TARGET_ONLY = "target only"  # the head of a space that knows no source
RATE = 1e9  # features^3 a second and source: eigenvectors, products and inverses, on one core
MOST_AXES = (
    1000  # directions of very wide rows that are kept, where these are fewer than their features
)
LONG = 60  # seconds of fitting that a user is told of
SAMPLES = 20  # seconds for what is fitted on samples: local heads, trees
COPIES = 4  # of all rows at once: as given, with their steps taken, and in between


@dataclass(frozen=True)
class Wanted:
    """A space that is to be made: its settings, its map, and the numbers of the sources that it learns from."""

    settings: Settings
    map: Map
    of: tuple[int, ...]


def are_of_a_table(training: Training) -> bool:
    """Whether the rows of the sources are those of a table: few columns of different kinds."""
    return is_table(training.rows, spans_of(training), training.K)


def build(spaces: Sequence[str], each: bool, training: Training) -> Built:
    """The spaces and local heads by name, `each` with a head for each source too.

    Without sources: `kernel` on unlabelled rows, `free`, local heads and, in a table, trees of own rows.
    """
    rank = training.options.rank
    K = training.K
    rows = [source.through(dense) for source in training.rows]
    pool = dense(training.warmup)
    own = target_only_width(training.pre.steps)
    if own:  # which the spaces do not see
        shared = First(pool.shape[1] - own)
        rows = [source.through(shared) for source in rows]
        pool = shared(pool)
    constants: State = {}
    width = pool.shape[1]
    count = sum(source.count for source in rows) + len(pool)
    kept = (
        MOST_AXES if rank is None and width > max(WIDE, count) else rank
    )  # no more directions than rows anyway
    if kept is not None and kept < width and count:
        constants["axes"] = axes = single(input_axes(rows, pool, kept))
        rows = [source.through(Times(axes)) for source in rows]
        pool = pool @ axes
    if not rows:  # what needs no source; landmarks are unlabelled rows
        able = ("kernel", "free", NEAR) if len(pool) else ("free", NEAR)
        spaces = [name for name in spaces if name in able]
    mapped = landmarks_for(pool.shape[1]) if "kernel" in spaces else 0
    _check_size(pool.shape[1], mapped, len(rows), sum(source.count for source in rows))
    about = _Input(training.rows, rows, pool, K)
    rng = np.random.default_rng(training.options.seed)
    wanted: list[Wanted] = []
    for name in spaces:
        if name in SPACES:
            wanted.append(_space(name, about, rng, rank, wanted))
    about.grams.clear()  # they may be large, and the maps are all that was wanted of them
    room = POOL if "kernel" in spaces and rows else 0
    wanted = [
        replace(one, settings=replace(one.settings, room=room if one.settings.pool else 0))
        for one in wanted
    ]
    made, state = _with_priors(wanted, training, about, each, own, constants)
    near: list[NearSettings] = []
    if NEAR in spaces:
        near.append(_local(made, training, about, constants))
    trees: tuple[str, ...] = ()
    spans = spans_of(training)
    if near and wants_trees(training.options.trees, training.given, spans, K):
        constants |= prefixed("trees.", fit_trees(training.given, K, spans, training.options.seed))
        state |= prefixed("trees.", empty())
        trees = tuple(_head_names(training.names))
    grows = (
        bool(near) and not rows and grows_trees(training.options.trees, training.warmup, spans, K)
    )
    if grows:
        constants["grown.spans"] = np.array(spans, np.int64)
        state |= prefixed("grown.", grown.empty(training.warmup.shape[1]))
    of_spaces = tuple(one.settings for one in made)
    sampling = _sampling(rows, len(constants["near.y"]) if near else None, bool(trees))
    plan = RidgePlan(
        training.pre.steps,
        of_spaces,
        tuple(near),
        TARGET_ROWS,
        "axes" in constants,
        trees,
        sampling,
        grows,
        tuple(adapted.GivenModel(name, tuple(codes)) for name, codes in training.models.items()),
    )
    if training.models:
        state |= prefixed("given.", adapted.start(len(training.models), K))
    known = (
        training.warmup if training.options.reading.target_mean == "warmup" else training.warmup[:0]
    )
    of_sources, counters = bookkeeping(about.moments, known, K, len(plan.heads) + 1)
    of_sources["source.totals"] = single(of_sources["source.totals"])
    fixed, running = training.pre.arrays()
    state |= counters | mixture.initial(len(plan.heads), K) | running
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return Built(RidgeLearner(plan, Constants(constants | of_sources | fixed), state), [])


def _with_priors(
    wanted: Sequence[Wanted],
    training: Training,
    about: _Input,
    of_each: bool,
    own: int,
    constants: State,
) -> tuple[list[Wanted], State]:
    """The spaces with the names of their heads, their state, and their constants into `constants`.

    Their sums are taken together: one pass over each source. `of_each`: there is a head for each source. `own`:
    target-only columns, which join the rows of spaces without a pool.
    """
    K = training.K
    sums = [list[Sums]() for _ in wanted]
    for i, source in enumerate(about.rows):
        asked = [number for number, each in enumerate(wanted) if i in each.of]
        totals = source.totals(*(InSpace(wanted[number].map, K) for number in asked))
        for number, total in zip(asked, totals, strict=True):
            sums[number].append(total)
    state: State = {}
    made = []
    for i, (each, totals) in enumerate(zip(wanted, sums, strict=True)):
        weights = weightings(len(totals)) if of_each else [np.ones(len(totals))]
        prior, begin = Space.start(each.settings, each.map, totals, about.pool, K, weights)
        if own and not each.settings.room:
            prior |= with_own(prior["prior.P"], prior["prior.M"], own)
        map_ = Map(*(prior.get(key) for key in MAPS))
        heads = _head_names([training.names[i] for i in each.of])[: len(weights)] or [TARGET_ONLY]
        if each.settings.of != OWN_MAP:
            for key in MAPS:
                prior.pop(key, None)
        kind = "+".join(key for key in ("landmarks", "A", "axes") if key in prior)
        made.append(Wanted(replace(each.settings, map=kind, heads=tuple(heads)), map_, each.of))
        prior["prior.P"] = upper_of(prior["prior.P"])
        constants |= prefixed(f"space.{i}.", prior)
        state |= prefixed(f"space.{i}.", begin)
    return made, state


def _head_names(sources: Sequence[str]) -> list[str]:
    return ["all sources", *sources] if len(sources) > 1 else list(sources)


def _local(
    spaces: Sequence[Wanted], training: Training, about: _Input, constants: State
) -> NearSettings:
    """The local heads; their constants into `constants`."""
    features = about.pool.shape[1]
    compared = about.pool[:0]
    y = np.empty(0, np.int64)
    weight = np.empty(0)
    starts = np.zeros(1, np.int64)
    if about.rows:
        compared, y, starts, weight = _kept_rows(about, features, training.options.seed)
    known = [each.settings.name for each in spaces]
    of = known.index("free") if features > NEAR_FEATURES else INPUT
    rows = whole(compared if of == INPUT else spaces[of].map(compared))
    constants |= {
        "near.rows": rows.T,
        "near.y": y,
        "near.starts": starts,
        "near.weight": weight,
    }
    heads = _head_names(training.names) or [TARGET_ONLY]
    return NearSettings(NEAR, of, SHARPNESS, tuple(heads))


def _kept_rows(about: _Input, features: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """The rows of the sources that local heads keep, source after source: rows, classes, starts, weights."""
    cap = source_rows_for(features)
    rng = np.random.default_rng(seed)
    share = share_of(cap, sum(int((each.class_counts > 0).sum()) for each in about.moments))
    candidates = [source.candidates(CANDIDATES * share, rng) for source in about.rows]
    X = [part.X for part in candidates]
    codes = [np.asarray(part.codes) for part in candidates]
    kept, weight = chosen(X, codes, [part.weight for part in candidates], cap, rng)
    order = np.argsort(kept, kind="stable")
    kept = kept[order]
    domains = np.repeat(np.arange(len(X)), [len(part) for part in X])
    starts = np.searchsorted(domains[kept], np.arange(len(X) + 1))
    return np.concatenate(X)[kept], np.concatenate(codes)[kept], starts, weight[order]


def _sampling(sources: Sequence[SourceRows], kept: int | None, trees: bool) -> str:
    """Which heads see a sample of the sources' rows, for people; empty where every head sees all."""
    count = sum(source.count for source in sources)
    used = {"local heads keep": kept} if kept is not None else {}
    if trees:
        used["trees were fitted on"] = sum(
            min(source.count, most_rows(sources)) for source in sources
        )
    parts = [f"{what} {rows:,}" for what, rows in used.items() if rows < count]
    return (
        f"of {count:,} rows of the sources {', '.join(parts)}; the other heads have seen all"
        if parts
        else ""
    )


def _check_size(features: int, mapped: int, sources: int, rows: int) -> None:
    """Refuse what does not fit into memory, and warn of what takes long: matrices of features x features, many rows.

    `mapped`: features behind the widest map.
    """
    size = 8 * features**2 * (sources + 2)
    seconds = features**3 * (sources + 3) / RATE
    memory = (
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if hasattr(os, "sysconf")
        else 2**35
    )
    remedy = (
        "rank=200 (directions of the input that are kept) needs no such matrix, "
        "and fewer features are faster still"
    )
    if size > memory:
        raise InputError(
            f"{features} features: fitting needs about {size / 2**30:.0f} GiB for matrices of features x features, "
            f"and this machine has {memory / 2**30:.0f}; {remedy}"
        )
    if seconds > LONG:
        warnings.warn(
            f"{features} features: fitting takes about {seconds / 60:.0f} min; {remedy}",
            stacklevel=2,
        )
    elif (seconds := SAMPLES + rows * (features**2 + mapped**2) / RATE) > LONG:
        size = 8 * COPIES * (rows * features + AT_ONCE * mapped)
        warnings.warn(
            f"{rows:,} rows of {features} features: fitting takes about {seconds / 60:.0f} min and "
            f"{size / 2**30:.1f} GiB; method='hedgerow-linear' takes less, and a sample of the rows is often as good",
            stacklevel=2,
        )


class _Input:
    """What is known of the sources' rows and the pool before any space: moments, Gram matrices, in one pass."""

    def __init__(
        self, counted: Sequence[SourceRows], rows: Sequence[SourceRows], pool: Array, K: int
    ) -> None:
        """`counted`: the rows as the moments count them; `rows`: as the spaces see them."""
        self.rows = rows
        self.pool = pool
        totals = [source.totals(Gram(), ClassMoments(K, weighed=False)) for source in rows]
        self.grams: list[Array] = [gram for gram, _ in totals]
        self._once: list[Moments] = [moments for _, moments in totals]
        as_they_are = all(
            a.width == b.width and not b.weighed for a, b in zip(counted, rows, strict=True)
        )
        self.moments: list[Moments] = (
            self._once if as_they_are else summed(counted, ClassMoments(K))
        )

    @property
    def gram(self) -> Array:
        """Of all rows of the sources and the pool."""
        return reduce(add, [*self.grams, Gram().of(Part(self.pool))])

    def white(self, dim: int) -> Map:
        """The map of `white`."""
        return whitening(
            self.rows, self.pool, reduce(add, self.grams), reduce(Moments.merge, self._once), dim
        )


def _space(
    name: str,
    about: _Input,
    rng: np.random.Generator,
    rank: int | None,
    before: Sequence[Wanted],
) -> Wanted:
    """A space with its map; `before` are those made before it."""
    rows = about.rows
    pool = about.pool
    settings = SPACES[name]
    everyone = tuple(range(len(rows)))
    if name == "kernel":
        count = landmarks_for(pool.shape[1])
        return Wanted(settings, landmarks(rows, pool, rng, count, rank), everyone)
    if name == "white":
        return Wanted(settings, about.white(WHITE), everyone)
    if name == "fading":
        of = [each.settings.name for each in before].index("free")
        return Wanted(replace(settings, of=of), before[of].map, ())
    return Wanted(
        settings, leading(about.gram, FREE) if rows and name != "input" else Map(), everyone
    )
