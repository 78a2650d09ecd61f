"""Our own learner on a stream: ridge regressions with a source prior in several spaces, mixed with a guarantee.

| space    | map                                 | codes       | lam | trust | tau | pool | heads                    |
|----------|-------------------------------------|-------------|-----|-------|-----|------|--------------------------|
| `kernel` | second-degree features of landmarks | one-hot     | .1  | .3    | 0   | .3   | all sources, each source |
| `white`  | within-class whitening              | class means | .5  | .3    | .5  | .3   | all sources, each source |
| `input`  | the input itself                    | one-hot     | .5  | .3    | .05 | -    | all sources, each source |
| `free`   | the input itself, weakly held       | one-hot     | 3   | .1    | 2   | -    | these and target only    |
| `pca`    | whitened PCA, one space a source    | one-hot     | 1   | .3    | 0   | -    | one                      |
| `recent` | whitened PCA of all, labels fade    | one-hot     | 1   | -     | 3   | -    | target only              |

The pool of `white` has labels as frequent as its classes are expected to be (`ridge.balance`).
`hedgerow` is kernel + white + free + pca + recent; `hedgerow-linear` has the input in place of the kernel and no pool:
statistics that merge, and no kept instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from hedgerow.core.arrays import LARGEST, Array, Matrix, blocks, dense
from hedgerow.core.preprocess import Preprocess
from hedgerow.learners.base import BLOCK, OnlineLearner, State, Trace
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.maps import Map, Maps, landmarks, leading_axes, whitened_pca, whitening
from hedgerow.learners.ridge.regression import NEVER
from hedgerow.learners.ridge.space import RELABEL, Settings, Space
from hedgerow.learners.ridge.state_part import Part

SPACES = {
    "kernel": Settings("kernel", lam=0.1, trust=0.3, tau=0.0, pool=0.3),
    "white": Settings("white", lam=0.5, trust=0.3, tau=0.5, class_codes=True, pool=0.3, balanced=True),
    "input": Settings("input", lam=0.5, trust=0.3, tau=0.05),
    "free": Settings("free", lam=3.0, trust=0.1, tau=2.0, target_only=True),
    "pca": Settings("pca", lam=1.0, trust=0.3, tau=0.0),
    "recent": Settings("recent", lam=1.0, trust=0.0, tau=3.0, keep=0.85),
}
FREQUENCIES = "class frequencies"


@dataclass(frozen=True)
class RidgePlan:
    """The spaces in order, and the names of all heads."""

    steps: tuple[str, ...]
    spaces: tuple[Settings, ...]
    heads: tuple[str, ...]


class Predicted(NamedTuple):
    """The row that was predicted last, at which label, and all that is known of it: its label may come next."""

    rows: Array
    seen: int
    Z: list[Array]
    fits: list[Array]
    F: Array


class RidgeLearner(OnlineLearner):
    """Heads that share a P in each space; their scores mixed by `ridge.mixture`."""

    plan: RidgePlan
    block = 4 * RELABEL

    def __init__(self, plan: RidgePlan, state: State) -> None:
        self.plan, self.state = plan, side_by_side(state)
        self.pre = Preprocess.of_arrays(plan.steps, state)
        self.spaces = [Space(settings, Part(state, f"space.{i}.")) for i, settings in enumerate(plan.spaces)]
        self.maps = Maps([space.map for space in self.spaces])
        self._last: Predicted | None = None

    @property
    def expert_names(self) -> list[str]:
        """The heads, and the class frequencies."""
        return [*self.plan.heads, FREQUENCIES]

    @property
    def weights(self) -> Array:
        """The first mixture's weights, temperatures and priors of a head together."""
        return mixture.head_weights(self.state, len(self.plan.heads))

    @property
    def bound(self) -> float:
        """(min_e L_e + ln(1/w_e) + ln 2)/ln 2."""
        return mixture.bound(self.state)

    @property
    def guarantee(self) -> str:
        """A bound on what is shipped."""
        return "mistakes"

    @property
    def dim(self) -> int:
        """The largest space."""
        return max(space.dim for space in self.spaces)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Recursive least squares needs double precision."""
        return np.dtype(np.float64)

    @property
    def period(self) -> int | None:
        """The pool is labelled again within a block."""
        return None

    def scores(self, X: Matrix) -> Array:
        """Probabilities by the state as it is."""
        parts = [mixture.predict(self.state, self._heads(rows)) for rows in blocks(X, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def probabilities(self, scores: Array) -> Array:
        """The scores are probabilities."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def expert_scores(self, X: Matrix) -> Array:
        """Each head's scores, and the log of the class frequencies."""
        pi = np.log(self.state["mix.counts"] / self.state["mix.counts"].sum())
        F = self._heads(X)
        return np.concatenate([F, np.broadcast_to(pi, (len(F), 1, len(pi)))], axis=1)

    def quick_predict(self, x: object) -> int:
        """The class of a row that can be used as it is; otherwise -1."""
        return self.predict_row(x) if self.n_classes and self._takes(x) else -1

    def quick_learn(self, x: object, y: int) -> bool:
        """The label of such a row; otherwise False, and nothing is learned."""
        if not self._takes(x):
            return False
        self.learn_row(x, y, 1.0)
        return True

    def learn_row(self, x: Array, y: int, weight: float) -> None:
        """The label of one dense row: a block of its own."""
        if weight > 0:
            self._block(x[None], np.array([y]), None, None if weight == 1 else np.array([weight]))

    def _takes(self, x: object) -> TypeGuard[Array]:
        """Whether nothing about x is to be checked or changed: an array of the right shape and finite numbers."""
        if type(x) is not np.ndarray or x.shape != self._state["target.total"].shape or x.dtype != self.dtype:
            return False
        return bool(x @ x <= LARGEST[self.dtype] ** 2)

    def _heads(self, X: Matrix) -> Array:
        rows = dense(self.pre.apply(X))
        Z = self._maps(rows)
        fits = [space.fit(z) for space, z in zip(self.spaces, Z, strict=True)]
        F = self._scored(fits)
        if len(rows) == 1:
            self._last = Predicted(rows, self.seen, Z, fits, F)
        return F

    def _maps(self, rows: Array) -> list[Array]:
        """The rows in every space."""
        axes = self.state.get("axes")
        rows = rows if axes is None else rows @ axes
        return self.maps(rows)

    def _scored(self, fits: list[Array]) -> Array:
        """The scores of all heads, minus their mean over the classes (B x heads x K)."""
        F = np.concatenate([space.scores(f) for space, f in zip(self.spaces, fits, strict=True)], axis=1)
        F -= F.sum(axis=2, keepdims=True) / F.shape[2]
        return F

    def _predict_and_learn(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        rows = dense(X)
        labelled = y >= 0
        noise = np.where(labelled, 1.0, NEVER)
        if weight is not None:
            np.divide(noise, weight, out=noise, where=labelled)
        labels = self.seen + np.cumsum(labelled)
        turns = (np.flatnonzero((labels % RELABEL == 0) & labelled) + 1).tolist()
        last = self._last
        if last is not None and last.seen == self.seen and np.array_equal(last.rows, rows):
            for space, z, fits in zip(self.spaces, last.Z, last.fits, strict=True):
                space.run(z, y, noise, turns, fits)
            F = last.F
        else:
            parts = zip(self.spaces, self._maps(rows), strict=True)
            F = self._scored([space.run(z, y, noise, turns) for space, z in parts])
        frequent = mixture.counts_before(self.state, y)[:, :known].argmax(axis=1)
        mixed = mixture.run(self.state, F, y, known)
        votes = np.concatenate([F[:, :, :known].argmax(axis=2), frequent[:, None]], axis=1)
        return Trace(mixed.probabilities, mixed.weights, votes), mixed.loss

    def _turn(self) -> None:
        """Each space has its own, in `Space.run`."""

    def learned(self) -> State:
        """A copy of the arrays in which no row waits; when one waits depends on how the stream was cut."""
        settled = self.copy()
        for space in settled.spaces:
            space.settle()
        return settled.state

    def grow(self, n_classes: int) -> None:
        """New classes in every head; the frequencies count them from one, as all others."""
        extra = n_classes - self.n_classes
        self._last = None
        for space in self.spaces:
            space.grow(extra)
        self.state["mix.counts"] = np.concatenate([self.state["mix.counts"], np.ones(extra)])
        super().grow(n_classes)


def side_by_side(state: State) -> State:
    """The state with all weights M in one allocation.

    Systems give large pages to large allocations only, and every step reads all of M: it comes a fifth faster so.
    """
    names = [name for name, array in state.items() if name.endswith(".M") and array.flags.writeable]
    room, at = np.empty(sum(state[name].size for name in names)), 0
    for name in names:
        array = state[name]
        state[name] = room[at : at + array.size].reshape(array.shape)
        state[name][:] = array
        at += array.size
    return state


def build_ridge(
    names: Sequence[str],
    sources: Sequence[tuple[str, Matrix, Array]],
    warmup: Matrix,
    pre: Preprocess,
    K: int,
    seed: int,
    rank: int | None = None,
    weights: Sequence[Array | None] | None = None,
) -> tuple[RidgePlan, State]:
    """The spaces by name, from preprocessed sources (name, rows, codes) and warm-up rows. No sources: `free` alone.

    With a rank the input keeps that many leading directions of all rows, and no space has more. `weights` say how much
    each row of a source counts for the prior (None: one each); the feature maps have no labels and see each row once.
    """
    X, codes = [dense(rows) for _, rows, _ in sources], [y for _, _, y in sources]
    counted = list(weights or [None] * len(X))
    pool = dense(warmup)
    rng = np.random.default_rng(seed)
    state: State = {}
    if rank is not None and rank < pool.shape[1] and (X or len(pool)):
        state["axes"] = axes = leading_axes([*X, pool], rank)
        X, pool = [rows @ axes for rows in X], pool @ axes
    white = whitening(X, codes, K) if X else Map()
    settings: list[Settings] = []
    heads: list[str] = []

    def add(name: str, mapping: Map, of: Sequence[int], pooled: bool) -> None:
        part = Part(state, f"space.{len(settings)}.")
        rows, labels, times = [X[i] for i in of], [codes[i] for i in of], [counted[i] for i in of]
        space = Space.start(SPACES[name], part, mapping, rows, labels, pool if pooled else pool[:0], K, times)
        settings.append(SPACES[name])
        own = [sources[i][0] for i in of]
        own = ["all sources", *own] if len(own) > 1 else own
        own += ["target only"] if space.heads > len(own) else []
        heads.extend(f"{name}: {head}" for head in own)

    everyone = range(len(sources))
    for name in names if X else ("free",):
        if name == "pca":
            for i in everyone:
                add(name, whitened_pca(X[i], pool), [i], False)
        elif name == "recent":
            add(name, whitened_pca(np.vstack(X), pool), [], False)
        else:
            mapping = {
                "kernel": lambda: landmarks(X, pool, rng, rank),
                "white": lambda: white,
            }.get(name, Map)()
            add(name, mapping, everyone, "kernel" in names)
    state |= mixture.initial(len(heads), K)
    # one memory layout, so that a model that was saved and loaded computes the same to the last bit
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    return RidgePlan(pre.steps, tuple(settings), tuple(heads)), state
