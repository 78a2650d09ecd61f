"""The learner: spaces x heads x mixer x refresh, one instance or one block at a time, with the same predictions.

    z_i = A_i^T x / |A_i^T x|          every space projects the instance
    f_e = W_e z_{i(e)}                 every expert scores it
    F   = sum_e p_e advice(f_e)        the mixer weighs them; predict argmax F
    after the label: losses -> weights, labels -> heads, x -> moments, every T_w labels: A_i <- refreshed A_i

`Plan` is what never changes along the stream; the state, and how a stream is cut into blocks, are in `online.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hedgerow.align import refreshed
from hedgerow.align.base import kernel_rows
from hedgerow.arrays import Array, Matrix, dense
from hedgerow.heads import make_head
from hedgerow.mix import Mixer
from hedgerow.moments import KAPPA, Moments, gap
from hedgerow.online import BLOCK, OnlineLearner, State, Trace, pad_axis
from hedgerow.preprocess import Preprocess, unit


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
    gammas: tuple[float | None, ...] = ()  # of kernel spaces, as in their projections
    refresh: Refresh | None = None


class Learner(OnlineLearner):
    """Linear heads in aligned spaces, weighed by a mixer, with or without a refresh of the spaces."""

    plan: Plan

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan, self.state = plan, state
        self.pre = Preprocess.of_arrays(plan.steps, state)
        self.head = make_head(plan.rule, plan.C)

    @property
    def expert_names(self) -> list[str]:
        """Frozen source heads first, then the online ones."""
        return [expert.name for expert in self.plan.experts]

    @property
    def weights(self) -> Array:
        """Who is trusted now: one weight an expert, summing to one."""
        return self.plan.mixer.weights(self.state, self.seen)

    @property
    def bound(self) -> float:
        """The mixer's guarantee for what was observed so far."""
        return self.plan.mixer.bound(self.state, self.seen)

    @property
    def guarantee(self) -> str:
        """What the mixer's bound is about."""
        return self.plan.mixer.guarantee

    @property
    def dim(self) -> int:
        """d, the dimension of the spaces."""
        return int(self.state["W"].shape[2])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the heads' weights."""
        return self.state["W"].dtype

    @property
    def period(self) -> int | None:
        """T_w."""
        return self.plan.refresh.every if self.plan.refresh else None

    def probabilities(self, scores: Array) -> Array:
        """As the mixer says."""
        return self.plan.mixer.probabilities(scores)

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown; NaN in a kernel space."""
        if self.plan.gammas:
            return np.full(len(self.state["source.count"]), np.nan)
        return super().discrepancies()

    def _projection(self, source: int) -> Array | None:
        A = self.state.get("A")
        return None if A is None else A[source if len(A) > 1 else 0]

    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K) by the state as it is; nothing is remembered."""
        parts = [
            self.plan.mixer.combine(self.state, self.seen, self.expert_scores(X[i : i + BLOCK]))
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
                phi = [kernel_rows(X, self.state[f"landmarks.{i}"], g) for i, g in enumerate(self.plan.gammas)]
                Z = np.stack([p @ a[: p.shape[1]] for p, a in zip(phi, A, strict=True)])
            else:
                Z = np.stack([X @ a for a in A])
        else:
            Z = dense(X)[None]
        return unit(Z) if self.plan.unit_projection else Z

    # -- learning -----------------------------------------------------------------------------------------------

    def _predict_and_learn(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        state, plan = self.state, self.plan
        Z = self._project(X)
        F = np.empty((X.shape[0], len(plan.experts), self.n_classes), dtype=Z.dtype)
        for e, expert in enumerate(plan.experts):
            W, rows = state["W"][e], _of(Z, expert)
            F[:, e] = self.head.block(W, rows, y, weight) if expert.learns else rows @ W.T
        F = F[:, :, :known]
        mixed = plan.mixer.run(state, self.seen, F, y)
        trace = Trace(mixed.scores, mixed.weights, F.argmax(axis=2))
        return trace, float((mixed.weights * mixed.losses).sum())

    def _turn(self) -> None:
        """The refresh: every space moves towards smaller gaps."""
        refresh = self.plan.refresh
        if refresh is None:
            return
        A, n = self.state["A"], len(self.state["source.count"])
        sources = [self.source(i) for i in range(n)]
        if len(A) != n:  # one space for all: its source is the pool
            sources = [reduce(Moments.merge, sources)]
        for i, source in enumerate(sources):
            G = gap(source, self.target, refresh.unseen, refresh.kappa)
            A[i] = refreshed(A[i], G, refresh.mu, refresh.inverse)

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: zero weights, no instances yet."""
        pad_axis(self.state, "W", 1, n_classes - self.n_classes)
        super().grow(n_classes)


def _of(Z: Array, expert: Expert) -> Array:
    return np.asarray(Z[expert.space if len(Z) > 1 else 0])
