"""The learner: spaces x heads x mixer x refresh, one instance or one block at a time, with the same predictions.

    z_i = A_i^T x / |A_i^T x|          every space projects the instance
    f_e = W_e z_{i(e)}                 every expert scores it
    F   = sum_e p_e advice(f_e)        the mixer weighs them; predict argmax F
    after the label: losses -> weights, labels -> heads, x -> moments, every T_w labels: A_i <- refreshed A_i

`Plan` is what never changes along the stream, `State` (a flat dict of named arrays) is all that does. Mutation happens
in `Learner.run` and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from hedgerow.align import refreshed
from hedgerow.align.base import rbf_rows
from hedgerow.arrays import Array, Matrix, dense
from hedgerow.heads import make_head
from hedgerow.mix import Mixer
from hedgerow.moments import KAPPA, Moments, class_sums, discrepancy, gap
from hedgerow.preprocess import Preprocess, unit

State = dict[str, Array]
BLOCK = 256  # rows projected at once where no refresh falls earlier


@dataclass(frozen=True)
class Expert:
    """A classifier in a space; a frozen one keeps what a source taught it."""

    name: str
    space: int
    learns: bool


@dataclass(frozen=True)
class Refresh:
    """How the projections follow the labels: every `every` labels, with strength mu."""

    every: int = 10
    mu: float = 1.0
    unseen: str = "zero"
    inverse: str = "woodbury"
    kappa: float = KAPPA


@dataclass(frozen=True)
class Plan:
    """The composition, fixed before the stream starts."""

    steps: tuple[str, ...]
    experts: tuple[Expert, ...]
    mixer: Mixer
    rule: str
    C: float
    unit_projection: bool
    gammas: tuple[float, ...] = ()
    refresh: Refresh | None = None


@dataclass(frozen=True)
class Trace:
    """What happened on a block, for people, plots and tests: a row an instance."""

    scores: Array
    weights: Array
    expert_predictions: Array

    @property
    def predictions(self) -> Array:
        """argmax of the combined scores: the prediction made before the label."""
        return np.asarray(self.scores.argmax(axis=1))


class Learner:
    """A plan and its state. Rows come raw; labels are codes 0..K-1, or -1 for an instance that is only predicted."""

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan, self.state = plan, state
        self.pre = Preprocess.of_arrays(plan.steps, state)
        self.head = make_head(plan.rule, plan.C)

    def __reduce__(self) -> tuple[type[Learner], tuple[Plan, State]]:
        return Learner, (self.plan, self.state)  # `pre` shares its arrays with the state, also after a copy

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """K, the classes met so far."""
        return int(self.state["W"].shape[1])

    @property
    def seen(self) -> int:
        """Labels learned so far."""
        return int(self.state["seen"][0])

    @property
    def weights(self) -> Array:
        """Who is trusted now: one weight an expert, summing to one."""
        return np.asarray(self.plan.mixer.weights(self.state["expert_loss"][None], np.array([self.seen]))[0])

    @property
    def bound(self) -> float:
        """The mixer's guarantee for what was observed so far."""
        return self.plan.mixer.bound(self.state["expert_loss"], self.seen)

    def source(self, i: int) -> Moments:
        """Moments of source i, in the input space of its alignment."""
        return Moments(*(self.state[f"source.{name}"][i] for name in MOMENTS))

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown; NaN in a kernel space."""
        n, A = len(self.state["source.count"]), self.state.get("A")
        if self.plan.gammas:
            return np.full(n, np.nan)
        target = Moments.of_arrays(self.state, "target")
        spaces = [None if A is None else A[i if len(A) == n else 0] for i in range(n)]
        return np.array([discrepancy(a, gap(self.source(i), target, "skip")) for i, a in enumerate(spaces)])

    # -- predicting ---------------------------------------------------------------------------------------------

    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K) by the state as it is; nothing is remembered."""
        parts = [
            self.plan.mixer.combine(self.state["expert_loss"], self.seen, self.expert_scores(X[i : i + BLOCK]))
            for i in range(0, X.shape[0], BLOCK)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def expert_scores(self, X: Matrix) -> Array:
        """Each expert's own scores (B x N x K)."""
        Z = self._project(self.pre.apply(X))
        W = self.state["W"]
        return np.stack([_of(Z, expert) @ W[e].T for e, expert in enumerate(self.plan.experts)], axis=1)

    def _project(self, X: Matrix) -> Array:
        """Preprocessed rows in every space (n x B x d; 1 x B x m where there is no projection)."""
        if "A" in self.state:
            A = self.state["A"]
            if self.plan.gammas:
                phi = [rbf_rows(X, self.state[f"landmarks.{i}"], g) for i, g in enumerate(self.plan.gammas)]
                Z = np.stack([p @ a[: p.shape[1]] for p, a in zip(phi, A, strict=True)])
            else:
                Z = np.stack([X @ a for a in A])
        else:
            Z = dense(X)[None]
        return unit(Z) if self.plan.unit_projection else Z

    # -- learning -----------------------------------------------------------------------------------------------

    def step(self, x: Array, y: int) -> Trace:
        """Predict one instance, then learn its label."""
        return self.run(x[None], np.array([y]))

    def run(self, X: Matrix, y: Array, known: int | None = None) -> Trace:
        """Predict and learn rows in order: block by block between refreshes, the same predictions as one by one.

        `known` limits the prediction to the first classes: a label beyond was met here for the first time.
        """
        traces = [self._block(X[a:b], y[a:b], known) for a, b in self._blocks(y)]
        if not traces:
            n = len(self.plan.experts)
            return Trace(np.empty((0, self.n_classes)), np.empty((0, n)), np.empty((0, n), dtype=np.int64))
        if len(traces) == 1:
            return traces[0]
        return Trace(*(np.concatenate([getattr(t, f) for t in traces]) for f in Trace.__dataclass_fields__))

    def _blocks(self, y: Array) -> Iterator[tuple[int, int]]:
        """Row ranges that end at the next refresh, or after BLOCK rows."""
        every = self.plan.refresh.every if self.plan.refresh else None
        labels = self.seen + np.cumsum(y >= 0)
        ends = set(range(BLOCK, len(y), BLOCK)) | {len(y)}
        if every:
            ends |= set((np.flatnonzero((labels % every == 0) & (y >= 0)) + 1).tolist())
        start = 0
        for end in sorted(ends):
            if end > start:
                yield start, end
            start = end

    def _block(self, X: Matrix, y: Array, known: int | None) -> Trace:
        state, plan = self.state, self.plan
        X = self.pre.fold(X, y >= 0)
        Z = self._project(X)
        F = np.empty((X.shape[0], len(plan.experts), self.n_classes), dtype=Z.dtype)
        for e, expert in enumerate(plan.experts):
            W, rows = state["W"][e], _of(Z, expert)
            F[:, e] = self.head.block(W, rows, y) if expert.learns else rows @ W.T
        F = F[:, :, :known]
        mixed = plan.mixer.run(state["expert_loss"], self.seen, F, y)
        trace = Trace(mixed.scores, mixed.weights, F.argmax(axis=2))
        labelled = y >= 0
        state["expert_loss"] += mixed.losses.sum(axis=0)
        state["expert_mistakes"] += ((trace.expert_predictions != y[:, None]) & labelled[:, None]).sum(axis=0)
        state["mistakes"] += int(((trace.predictions != y) & labelled).sum())
        state["mixture_loss"] += float((mixed.weights * mixed.losses).sum())
        state["seen"] += int(labelled.sum())
        self._fold_target(X, y)
        if plan.refresh and labelled.any() and self.seen % plan.refresh.every == 0:
            self._refresh(plan.refresh)
        return trace

    def _fold_target(self, X: Matrix, y: Array) -> None:
        counts, totals = class_sums(X, y, self.n_classes)
        self.state["target.class_counts"] += counts
        self.state["target.class_totals"] += totals
        self.state["target.count"] += counts.sum()
        self.state["target.total"] += totals.sum(axis=0)

    def _refresh(self, refresh: Refresh) -> None:
        A, n = self.state["A"], len(self.state["source.count"])
        target = Moments.of_arrays(self.state, "target")
        sources = [self.source(i) for i in range(n)]
        if len(A) != n:  # one space for all: its source is the pool
            sources = [reduce(Moments.merge, sources)]
        for i, source in enumerate(sources):
            G = gap(source, target, refresh.unseen, refresh.kappa)
            A[i] = refreshed(A[i], G, refresh.mu, refresh.inverse)

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: zero weights, no instances yet."""
        extra = n_classes - self.n_classes
        for name, axis in GROWING.items():
            array = self.state[name]
            width = [(0, extra if i == axis else 0) for i in range(array.ndim)]
            self.state[name] = np.pad(array, width)

    def copy(self) -> Learner:
        """An independent learner with the same state."""
        return Learner(self.plan, {name: array.copy() for name, array in self.state.items()})


MOMENTS = ("count", "total", "class_counts", "class_totals")
GROWING = {
    "W": 1,
    "target.class_counts": 0,
    "target.class_totals": 0,
    "source.class_counts": 1,
    "source.class_totals": 1,
}


def _of(Z: Array, expert: Expert) -> Array:
    return np.asarray(Z[expert.space if len(Z) > 1 else 0])
