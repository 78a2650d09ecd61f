"""The offline stage of our own learner: maps, priors, pools and kept rows from the sources and the warm-up rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.constants import Constants
from hedgerow.core.linalg import upper_of
from hedgerow.core.moments import Moments
from hedgerow.learners.base import State, bookkeeping
from hedgerow.learners.method import Built, Offline, Source
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.kept_rows import chosen
from hedgerow.learners.ridge.learner import RidgeLearner
from hedgerow.learners.ridge.maps import Map, halved, landmarks, leading, leading_axes, single, whitened_pca, whitening
from hedgerow.learners.ridge.near import Near, NearSettings, whole
from hedgerow.learners.ridge.plan import INPUT, NEAR, SPACES, RidgePlan
from hedgerow.learners.ridge.size import Size, size_of
from hedgerow.learners.ridge.space import Settings, Space


def build(spaces: Sequence[str], offline: Offline) -> Built:
    """The spaces and local heads by name. Without sources: `free` alone."""
    codes = [source.codes for source in offline.sources]
    rank, K, size = offline.options.rank, offline.K, size_of(offline.options.size)
    X, pool = [dense(source.X) for source in offline.sources], dense(offline.warmup)
    constants: State = {}
    if rank is not None and rank < pool.shape[1] and (X or len(pool)):
        constants["axes"] = axes = single(leading_axes([*X, pool], rank))
        X, pool = [rows @ axes for rows in X], pool @ axes
    made = _Spaces(offline.sources, X, pool, K, size)
    everyone = range(len(X))
    rng = np.random.default_rng(offline.options.seed)
    for name in spaces if X else ("free",):
        if name == "pca":
            for i in everyone:
                made.add(name, whitened_pca(X[i], pool, size.pca), [i], False)
        elif name == "recent":
            made.add(name, whitened_pca(np.vstack(X), pool, size.pca), [], False)
        elif name in SPACES:
            maps: dict[str, Callable[[], Map]] = {
                "kernel": lambda: landmarks(X, pool, rng, size.landmarks_for(pool.shape[1]), rank),
                "white": lambda: whitening(X, pool, codes, K, size.white),
                "free": lambda: leading(X, pool, size.free) if X else Map(),
            }
            made.add(name, maps.get(name, Map)(), everyone, "kernel" in spaces)
    near = [name for name in spaces if name in NEAR and NEAR[name][0] in ("input", *spaces)]
    if near and X:
        made.add_near(near, offline.options.seed)
    plan = made.plan(offline.pre.steps, "axes" in constants)
    moments = [Moments.of(source.X, source.codes, K, weight=source.weight) for source in offline.sources]
    kept = offline.warmup if offline.options.reading.target_mean == "warmup" else offline.warmup[:0]
    of_sources, state = bookkeeping(moments, kept, K, len(plan.heads) + 1)
    of_sources["source.class_totals"] = single(of_sources["source.class_totals"])
    fixed, running = offline.pre.arrays()
    state |= made.state | mixture.initial(len(plan.heads), K) | running | {"rows": np.zeros(1, np.int64)}
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return Built(RidgeLearner(plan, Constants(constants | made.constants | of_sources | fixed), state), [])


MAPS = ("A", "landmarks", "axes")


class _Spaces:
    """The spaces as they are added: their settings, arrays and heads."""

    def __init__(self, sources: list[Source], X: list[Array], pool: Array, K: int, size: Size) -> None:
        self.sources, self.X, self.pool, self.K, self.size = sources, X, pool, K, size
        self.settings: list[Settings] = []
        self.maps: list[Map] = []
        self.rooms: list[int] = []
        self.heads_of: list[int] = []
        self.heads: list[str] = []
        self.near: list[NearSettings] = []
        self.constants: State = {}
        self.state: State = {}

    def add(self, name: str, mapping: Map, of: Sequence[int], pooled: bool) -> None:
        """One more space, of these sources."""
        settings, prefix = SPACES[name], f"space.{len(self.settings)}."
        room = self.size.pool if pooled and settings.pool else 0
        given = [self.sources[i] for i in of]
        labels, weights = [source.codes for source in given], [source.weight for source in given]
        rows = [self.X[i] for i in of]
        mapping = mapping.rounded() if self.size.half else mapping
        constants, state = Space.start(settings, mapping, rows, labels, self.pool, self.K, weights, room)
        heads = len(constants["widths"])
        own = self._names(given)
        own += ["target only"] if heads > len(own) else []
        self.settings.append(settings)
        self.maps.append(Map(*(constants.get(key) for key in MAPS)))
        self.rooms.append(room)
        self.heads_of.append(heads)
        self.heads.extend(f"{name}: {head}" for head in own)
        constants["prior.P"] = upper_of(constants["prior.P"])
        if self.size.half:
            constants |= {key: halved(A) for key, A in constants.items() if key in MAPS and A.dtype == np.float32}
        self.constants |= {prefix + key: array for key, array in constants.items()}
        self.state |= {prefix + key: array for key, array in state.items()}

    @staticmethod
    def _names(given: Sequence[Source]) -> list[str]:
        own = [source.name for source in given]
        return ["all sources", *own] if len(own) > 1 else own

    def add_near(self, names: Sequence[str], seed: int) -> None:
        """Local heads, which keep the same rows in every space."""
        codes = [source.codes for source in self.sources]
        weights = [source.weight for source in self.sources]
        found = chosen(
            self.X, codes, weights, self.size.source_rows_for(self.pool.shape[1]), np.random.default_rng(seed)
        )
        rows = np.concatenate(self.X)[found.rows]
        domains = np.repeat(np.arange(len(self.X)), [len(x) for x in self.X])
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
            self.heads.extend(f"{name}: {head}" for head in self._names(self.sources))
        self.constants["near.y"] = np.concatenate(codes)[found.rows]
        self.constants["near.domain"] = domains[found.rows]
        self.constants["near.weight"] = found.weight
        self.state |= {f"near.{key}": array for key, array in Near.empty(dims).items()}

    def plan(self, steps: tuple[str, ...], axes: bool) -> RidgePlan:
        """What was added, as a plan."""
        maps = ["+".join(key for key in ("landmarks", "A", "axes") if key in each.arrays()) for each in self.maps]
        return RidgePlan(
            steps,
            tuple(self.settings),
            tuple(maps),
            tuple(self.rooms),
            tuple(self.heads_of),
            tuple(self.heads),
            tuple(self.near),
            self.size.target_rows,
            axes,
        )
