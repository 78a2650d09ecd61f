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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import log_softmax

from hedgerow.core.arrays import Array, dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.linalg import upper_of
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import AUTO, FILL, SCALE, First, target_only_width
from hedgerow.core.source_rows import AT_ONCE, ClassMoments, Gram, InMemory, Part, SourceRows, summed
from hedgerow.kernels import TEMPERATURES
from hedgerow.learner import State, bookkeeping, prefixed
from hedgerow.methods import Built, Training
from hedgerow.ridge import mixture
from hedgerow.ridge.learner import RidgeLearner
from hedgerow.ridge.maps import (
    WIDE,
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
from hedgerow.ridge.near import CANDIDATES, INPUT, Near, NearSettings, chosen, share_of, whole
from hedgerow.ridge.plan import NEAR, SPACES, RidgePlan, Size, size_of
from hedgerow.ridge.space import InSpace, Settings, Space, Sums, with_own
from hedgerow.ridge.trees import KINDS, empty, fit_trees, is_table, most_rows, sampled, spans_of, wants_trees

MAPS = ("A", "landmarks", "axes")
RATE = 1e9  # features^3 a second and source: eigenvectors, products and inverses, on one core
MOST_AXES = 1000  # directions of very wide rows that are kept, where these are fewer than their features
LONG = 60  # seconds of fitting that a user is told of
SAMPLES = 20  # seconds for what is fitted on samples: the choice of the input, local heads, trees
COPIES = 4  # of all rows at once: as given, with their steps taken, and in between


@dataclass(frozen=True)
class Wanted:
    """A space that is to be made: its settings, its map, and the numbers of the sources that it learns from."""

    settings: Settings
    map: Map
    of: tuple[int, ...]


# -- rehearsal --------------------------------------------------------------------------------------------------------
#
# Before the first label of a table: each source plays the target once, and the heads that were right then weigh more.
#
# A model of the other sources predicts the rows of one (of one fold, where there is one source only) without any label.
# From the log-losses of its heads follow
#
# - whether rows are brought to unit length after their columns were scaled, where the steps are the method's own;
# - the weights of the experts before the first label, as if each had had `WORTH` such labels, within `FARTHEST`;
# - the first shares of the tracker's members, likewise.
#
# The bound of the mixture keeps its form: its weights are those before the first label.
ROWS = 300  # of a source that are looked at
PLAYS = 3  # sources, or folds of one, that play the target
WORTH, FARTHEST = 20.0, 9.0  # labels that the evidence is worth, and the most that it takes from a log-weight
SURE = 0.02  # lower mean log-loss that it takes to leave unit length out
LEAST = -12.0  # log of a probability


@dataclass(frozen=True)
class Evidence:
    """Mean log-losses without labels: at each temperature, by kind of head and whether it is the one of all sources;
    of the heads' average; and of the class frequencies."""

    heads: dict[tuple[str, bool], Array]
    average: float
    chance: float
    note: str = ""

    def of(self, head: str) -> Array:
        """Of a head by its name; one that did not play is taken for another of its kind, or for chance."""
        kind, of = head.split(": ", 1)
        chance = np.full(TEMPERATURES, self.chance)
        if of == "target only":
            return chance
        every = of == "all sources"
        return self.heads.get((kind, every), self.heads.get((kind, not every), chance))

    def best(self, kinds: Sequence[str] = ()) -> float:
        """Of the best head and temperature, but for some kinds."""
        return min(float(losses.min()) for (kind, _), losses in self.heads.items() if kind not in kinds)

    def weights(self, heads: Sequence[str]) -> tuple[Array, Array]:
        """What is added to the log-weights of the experts (heads x temperatures), and the tracker's first shares."""
        losses = np.concatenate([self.of(head) for head in heads])
        members = np.array([losses.min(), self.chance, losses.min(), self.average])
        added, log_shares = (-np.minimum(WORTH * (each - each.min()), FARTHEST) for each in (losses, members))
        return added, np.exp(log_shares) / np.exp(log_shares).sum()


Build = Callable[[Training], Built]


def with_options(training: Training, steps: Sequence[str] | None = None, **options: Any) -> Training:
    """With other options."""
    reading = training.options.reading
    reading = reading if steps is None else replace(reading, preprocess=tuple(steps))
    return replace(training, options=replace(training.options, reading=reading, **options))


def plays_of(training: Training, own: int) -> list[tuple[list[str], list[Part], Part]]:
    """Names and rows of the sources that stay, and rows of the one that plays the target; rows without target-only
    columns."""
    rng, names = np.random.default_rng(training.options.seed), list(training.names)
    parts = []
    for source in training.rows:
        part = sampled(source, ROWS if len(names) > 1 else ROWS * PLAYS, rng)
        parts.append(Part(dense(part.X)[:, : source.width - own], part.codes, part.weight))
    if len(parts) > 1:
        others = [[j for j in range(len(parts)) if j != i] for i in range(min(len(parts), PLAYS))]
        return [([names[j] for j in of], [parts[j] for j in of], parts[i]) for i, of in enumerate(others)]
    fold = rng.permutation(len(parts[0].X)) % PLAYS
    return [(names, [_some(parts[0], fold != i)], _some(parts[0], fold == i)) for i in range(PLAYS)]


def _some(part: Part, rows: Array) -> Part:
    return Part(part.X[rows], np.asarray(part.codes)[rows], None if part.weight is None else part.weight[rows])


def played(
    plays: Sequence[tuple[list[str], list[Part], Part]], training: Training, steps: Sequence[str], build: Build
) -> Evidence:
    """The losses of all plays behind these steps."""
    losses: dict[tuple[str, bool], list[Array]] = {}
    average = []
    for names, parts, target in plays:
        rows = [InMemory(part.X, part.codes, part.weight) for part in parts]
        warmup = target.X if training.warmup.shape[0] else target.X[:0]
        learner = build(
            with_options(replace(training, names=names, rows=rows, warmup=warmup, positions=()), steps)
        ).learner
        F, y = learner.expert_scores(target.X)[:, :-1], np.asarray(target.codes)
        for i, head in enumerate(learner.expert_names[:-1]):
            kind, of = head.split(": ", 1)
            if of != "target only":
                at = [_loss(2.0**c * F[:, i], y, target.weight) for c in range(1, TEMPERATURES + 1)]
                losses.setdefault((kind, of == "all sources" or len(names) == 1), []).append(np.array(at))
        average.append(_loss(4.0 * F.mean(axis=1), y, target.weight))
    means = {key: np.mean(each, axis=0) for key, each in losses.items()}
    return Evidence(means, float(np.mean(average)), float(np.log(training.K)))


def _loss(scores: Array, y: Array, weight: Array | None) -> float:
    logs = log_softmax(scores, axis=1)[np.arange(len(y)), y]
    return float(-np.average(np.maximum(logs, LEAST), weights=weight))


def rehearsed(training: Training, own_steps: Sequence[str], build: Build) -> Training:
    """The same with its steps chosen and the evidence of its heads, where rows are those of a table."""
    if not is_table(training.rows, spans_of(training), training.K):
        return training
    given = training.options.reading.preprocess
    first = given[:1] if target_only_width(given) else ()
    steps = tuple(SCALE if step == AUTO else step for step in given[len(first) :])
    own = tuple(step for step in steps if step != FILL) == (SCALE, *own_steps[1:])
    steps = (FILL, *steps) if own and FILL not in steps else steps  # later rows may have gaps
    plays = plays_of(training, target_only_width(given))
    evidence, note = played(plays, training, steps, build), ""
    if own:
        other = played(plays, with_options(training, trees=False), steps[:-1], build)
        note = (
            f"log-loss of rows of unit length {evidence.best(KINDS):.3f}, of rows as they are {other.best(KINDS):.3f}; "
        )
        if other.best(KINDS) < evidence.best(KINDS) - SURE:
            trees = {key: losses for key, losses in evidence.heads.items() if key[0] in KINDS}
            steps, evidence = steps[:-1], replace(other, heads=other.heads | trees)
    who = "sources" if len(training.names) > 1 else "folds of the source"
    note = f"input {' + '.join(steps)}; {note}best head {evidence.best():.3f} "
    note += f"(at most {ROWS} rows of each of the {who} played the target)"
    return replace(with_options(training, steps=(*first, *steps)), evidence=replace(evidence, note=note))


def build(spaces: Sequence[str], training: Training) -> Built:
    """The spaces and local heads by name. Without sources: `free` alone."""
    rank, K, size = training.options.rank, training.K, size_of(training.options.size)
    rows, pool = [source.through(dense) for source in training.rows], dense(training.warmup)
    own = target_only_width(training.pre.steps)
    if own:  # which the spaces do not see
        shared = First(pool.shape[1] - own)
        rows, pool = [source.through(shared) for source in rows], shared(pool)
    constants: State = {}
    width, count = pool.shape[1], sum(source.count for source in rows) + len(pool)
    kept = MOST_AXES if rank is None and width > max(WIDE, count) else rank  # no more directions than rows anyway
    if kept is not None and kept < width and count:
        constants["axes"] = axes = single(input_axes(rows, pool, kept))
        rows, pool = [source.through(Times(axes)) for source in rows], pool @ axes
    mapped = size.landmarks_for(pool.shape[1]) if "kernel" in spaces else 0
    _check_size(pool.shape[1], mapped, len(rows), sum(source.count for source in rows))
    about = _Input(training.rows, rows, pool, K)
    rng = np.random.default_rng(training.options.seed)
    wanted = []
    for name in spaces if rows else ("free",):
        wanted += _spaces(name, about, size, rng, rank) if name in SPACES else []
    about.grams.clear()  # they may be large, and the maps are all that was wanted of them
    room = size.pool if "kernel" in spaces and rows else 0
    wanted = [replace(each, settings=replace(each.settings, room=room if each.settings.pool else 0)) for each in wanted]
    made, state = _with_priors(wanted, training, about, size.half, own, constants)
    near: list[NearSettings] = []
    names = [name for name in spaces if name in NEAR and NEAR[name][0] in ("input", *spaces)]
    if names and rows:
        near, kept_rows = _local(names, made, training, about, size, constants)
        state |= kept_rows
    trees: tuple[str, ...] = ()
    spans = spans_of(training)
    if near and wants_trees(training.options.trees, training.given, spans, K):
        constants |= prefixed("trees.", fit_trees(training.given, K, spans, training.options.seed))
        state |= prefixed("trees.", empty())
        trees = tuple(_head_names(training.names))
    of_spaces = tuple(each.settings for each in made)
    sampling = _sampling(rows, len(constants["near.y"]) if near else None, bool(trees))
    plan = RidgePlan(training.pre.steps, of_spaces, tuple(near), size.target_rows, "axes" in constants, trees, sampling)
    known = training.warmup if training.options.reading.target_mean == "warmup" else training.warmup[:0]
    of_sources, counters = bookkeeping(about.moments, known, K, len(plan.heads) + 1)
    of_sources["source.class_totals"] = single(of_sources["source.class_totals"])
    fixed, running = training.pre.arrays()
    weights = None if training.evidence is None else training.evidence.weights(plan.heads)
    state |= counters | mixture.initial(len(plan.heads), K, weights) | running | {"rows": np.zeros(1, np.int64)}
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return Built(RidgeLearner(plan, Constants(constants | of_sources | fixed), state), training.infos)


def _with_priors(
    wanted: Sequence[Wanted], training: Training, about: _Input, half: bool, own: int, constants: State
) -> tuple[list[Wanted], State]:
    """The spaces with the names of their heads, their state, and their constants into `constants`.

    Their sums are taken together: one pass over each source. `half`: maps are stored in half precision. `own`:
    target-only columns, which join the rows of spaces without a pool.
    """
    if half:
        wanted = [replace(each, map=each.map.rounded()) for each in wanted]
    K, sums = training.K, [list[Sums]() for _ in wanted]
    for i, source in enumerate(about.rows):
        asked = [number for number, each in enumerate(wanted) if i in each.of]
        totals = source.totals(*(InSpace(wanted[number].map, K) for number in asked))
        for number, total in zip(asked, totals, strict=True):
            sums[number].append(total)
    state: State = {}
    made = []
    for i, (each, totals) in enumerate(zip(wanted, sums, strict=True)):
        prior, begin = Space.start(each.settings, each.map, totals, about.pool, K)
        if own and not each.settings.room:
            prior |= with_own(prior["prior.P"], prior["prior.M"], own)
        map_ = Map(*(prior.get(key) for key in MAPS))
        heads = _head_names([training.names[i] for i in each.of])
        heads += ["target only"] if len(prior["widths"]) > len(heads) else []
        kind = "+".join(key for key in ("landmarks", "A", "axes") if key in prior)
        made.append(Wanted(replace(each.settings, map=kind, heads=tuple(heads)), map_, each.of))
        prior["prior.P"] = upper_of(prior["prior.P"])
        if half:
            prior |= {key: halved(A) for key, A in prior.items() if key in MAPS and A.dtype == np.float32}
        constants |= prefixed(f"space.{i}.", prior)
        state |= prefixed(f"space.{i}.", begin)
    return made, state


def _head_names(sources: Sequence[str]) -> list[str]:
    return ["all sources", *sources] if len(sources) > 1 else list(sources)


def _local(
    names: Sequence[str], spaces: Sequence[Wanted], training: Training, about: _Input, size: Size, constants: State
) -> tuple[list[NearSettings], State]:
    """Local heads, which keep the same rows in every space; their state, and their constants into `constants`."""
    features = about.rows[0].width
    cap, rng = size.source_rows_for(features), np.random.default_rng(training.options.seed)
    share = share_of(cap, sum(int((each.class_counts > 0).sum()) for each in about.moments))
    candidates = [source.candidates(CANDIDATES * share, rng) for source in about.rows]
    X, codes = [part.X for part in candidates], [np.asarray(part.codes) for part in candidates]
    kept, weight = chosen(X, codes, [part.weight for part in candidates], cap, rng)
    compared, domains = np.concatenate(X)[kept], np.repeat(np.arange(len(X)), [len(part) for part in X])
    known = [each.settings.name for each in spaces]
    near, dims = [], []
    for i, name in enumerate(names):
        space, sharpness = NEAR[name]
        wide = space == "input" and features > size.near and "free" in known
        of = known.index("free") if wide else known.index(space) if space in known else INPUT
        near.append(NearSettings(name, of, sharpness, tuple(_head_names(training.names))))
        constants[f"near.{i}.rows"] = whole(compared if of == INPUT else spaces[of].map(compared))
        dims.append(constants[f"near.{i}.rows"].shape[1])
    constants |= {"near.y": np.concatenate(codes)[kept], "near.domain": domains[kept], "near.weight": weight}
    return near, prefixed("near.", Near.empty(dims))


def _sampling(sources: Sequence[SourceRows], kept: int | None, trees: bool) -> str:
    """Which heads see a sample of the sources' rows, for people; empty where every head sees all."""
    count = sum(source.count for source in sources)
    used = {"local heads keep": kept} if kept is not None else {}
    if trees:
        used["trees were fitted on"] = sum(min(source.count, most_rows(sources)) for source in sources)
    parts = [f"{what} {rows:,}" for what, rows in used.items() if rows < count]
    return f"of {count:,} rows of the sources {', '.join(parts)}; the other heads have seen all" if parts else ""


def _check_size(features: int, mapped: int, sources: int, rows: int) -> None:
    """Refuse what does not fit into memory, and warn of what takes long: matrices of features x features, many rows.

    `mapped`: features behind the widest map.
    """
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
        warnings.warn(f"{features} features: fitting takes about {seconds / 60:.0f} min; {remedy}", stacklevel=2)
    elif (seconds := SAMPLES + rows * (features**2 + mapped**2) / RATE) > LONG:
        size = 8 * COPIES * (rows * features + AT_ONCE * mapped)
        warnings.warn(
            f"{rows:,} rows of {features} features: fitting takes about {seconds / 60:.0f} min and "
            f"{size / 2**30:.1f} GiB; size='small' takes less, method='hedgerow-linear' the least, and a sample of the "
            "rows is often as good",
            stacklevel=2,
        )


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
    settings, everyone = SPACES[name], tuple(range(len(rows)))
    if name == "pca":
        return [Wanted(settings, whitened_pca([rows[i]], pool, size.pca, [about.grams[i]]), (i,)) for i in everyone]
    if name == "recent":
        return [Wanted(settings, whitened_pca(rows, pool, size.pca, about.grams), ())]
    if name == "kernel":
        return [Wanted(settings, landmarks(rows, pool, rng, size.landmarks_for(pool.shape[1]), rank), everyone)]
    if name == "white":
        return [Wanted(settings, about.white(size.white), everyone)]
    if name == "free" and rows:
        return [Wanted(settings, leading(about.gram, size.free), everyone)]
    return [Wanted(settings, Map(), everyone)]
