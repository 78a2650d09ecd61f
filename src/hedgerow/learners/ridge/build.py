"""The offline stage of our own learner: maps, priors and pools of its spaces from the sources and the warm-up rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.constants import Constants
from hedgerow.core.moments import Moments
from hedgerow.learners.base import State, bookkeeping
from hedgerow.learners.method import Built, Offline, Source
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.learner import RidgeLearner
from hedgerow.learners.ridge.maps import Map, landmarks, leading_axes, whitened_pca, whitening
from hedgerow.learners.ridge.plan import SPACES, RidgePlan
from hedgerow.learners.ridge.space import Settings, Space


def build(spaces: Sequence[str], offline: Offline) -> Built:
    """The spaces by name. Without sources: `free` alone."""
    codes = [source.codes for source in offline.sources]
    rank, K = offline.options.rank, offline.K
    X, pool = [dense(source.X) for source in offline.sources], dense(offline.warmup)
    constants: State = {}
    if rank is not None and rank < pool.shape[1] and (X or len(pool)):
        constants["axes"] = axes = leading_axes([*X, pool], rank)
        X, pool = [rows @ axes for rows in X], pool @ axes
    made = _Spaces(offline.sources, X, pool, K)
    everyone = range(len(X))
    rng = np.random.default_rng(offline.options.seed)
    for name in spaces if X else ("free",):
        if name == "pca":
            for i in everyone:
                made.add(name, whitened_pca(X[i], pool), [i], False)
        elif name == "recent":
            made.add(name, whitened_pca(np.vstack(X), pool), [], False)
        else:
            maps: dict[str, Callable[[], Map]] = {
                "kernel": lambda: landmarks(X, pool, rng, rank),
                "white": lambda: whitening(X, codes, K),
            }
            made.add(name, maps.get(name, Map)(), everyone, "kernel" in spaces)
    plan = made.plan(offline.pre.steps, "axes" in constants)
    moments = [Moments.of(source.X, source.codes, K, weight=source.weight) for source in offline.sources]
    kept = offline.warmup if offline.options.reading.target_mean == "warmup" else offline.warmup[:0]
    of_sources, state = bookkeeping(moments, kept, K, len(plan.heads) + 1)
    fixed, running = offline.pre.arrays()
    state |= made.state | mixture.initial(len(plan.heads), K) | running
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return Built(RidgeLearner(plan, Constants(constants | made.constants | of_sources | fixed), state), [])


class _Spaces:
    """The spaces as they are added: their settings, arrays and heads."""

    def __init__(self, sources: list[Source], X: list[Array], pool: Array, K: int) -> None:
        self.sources, self.X, self.pool, self.K = sources, X, pool, K
        self.settings: list[Settings] = []
        self.maps: list[str] = []
        self.pooled: list[bool] = []
        self.heads_of: list[int] = []
        self.heads: list[str] = []
        self.constants: State = {}
        self.state: State = {}

    def add(self, name: str, mapping: Map, of: Sequence[int], pooled: bool) -> None:
        """One more space, of these sources."""
        prefix = f"space.{len(self.settings)}."
        pool = self.pool if pooled else self.pool[:0]
        given = [self.sources[i] for i in of]
        labels, weights = [source.codes for source in given], [source.weight for source in given]
        rows = [self.X[i] for i in of]
        constants, state = Space.start(SPACES[name], mapping, rows, labels, pool, self.K, weights)
        self.constants |= {prefix + key: array for key, array in constants.items()}
        self.state |= {prefix + key: array for key, array in state.items()}
        heads = len(constants["widths"])
        own = [source.name for source in given]
        own = ["all sources", *own] if len(own) > 1 else own
        own += ["target only"] if heads > len(own) else []
        self.settings.append(SPACES[name])
        self.maps.append("+".join(key for key in ("landmarks", "A", "H") if key in constants))
        self.pooled.append("U" in constants)
        self.heads_of.append(heads)
        self.heads.extend(f"{name}: {head}" for head in own)

    def plan(self, steps: tuple[str, ...], axes: bool) -> RidgePlan:
        """What was added, as a plan."""
        return RidgePlan(
            steps,
            tuple(self.settings),
            tuple(self.maps),
            tuple(self.pooled),
            tuple(self.heads_of),
            tuple(self.heads),
            axes,
        )
