"""Experts in aligned spaces, one instance or one block at a time, with the same predictions.

z_i = A_i^T x / |A_i^T x|          every space projects the instance (Sec. 3.4)
f_e = W_e z_{i(e)}                 every expert scores it (Sec. 3.2)
F   = sum_e p_e advice(f_e)        the mixer weighs them (Eq. 6); predict argmax F (Eq. 7)
after the label: losses -> weights (Eq. 8, 9), labels -> heads (Eq. 4), x -> moments (Eq. 10, 11),
every T_w labels: A_i <- refreshed A_i (Eq. 13)

Blocks go through `_run_block`; one row goes through `live_row.py`, where its head and mixer are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix, blocks
from hedgerow.core.blas import one_blas_thread
from hedgerow.core.constants import Constants
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import unit
from hedgerow.drift import evidence
from hedgerow.heads import AROW, PassiveAggressive
from hedgerow.learners.base import BLOCK, OnlineLearner, Prediction, State, Trace, pad_axis, register_learner
from hedgerow.learners.experts.layout import layout
from hedgerow.learners.experts.live_row import LiveRow
from hedgerow.learners.experts.plan import Plan
from hedgerow.learners.experts.spaces import FixedSpaces, MovingSpaces, PrintedSpaces, Spaces, on_pages, pooled
from hedgerow.mix import AdaHedge, FixedShare, FixedShareLogLoss, Hedge, LogLoss, LossBased, Single, Squint

if TYPE_CHECKING:
    from hedgerow.learners.layout import Layout

LEARNED = np.ones(1, dtype=bool)
OWN_HEADS = (PassiveAggressive, AROW)
OWN_MIXERS = (Hedge, AdaHedge, Squint, FixedShare, FixedShareLogLoss, LossBased, LogLoss, Single)


@register_learner
class ExpertsLearner(OnlineLearner):
    """Linear heads in aligned spaces, weighed by a mixer, with or without a refresh of the spaces."""

    kind = "experts"
    plan: Plan

    def __init__(self, plan: Plan, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, state)
        experts, frozen = plan.experts, plan.frozen
        self._space = np.array([expert.space for expert in experts])
        self._online = np.arange(frozen, len(experts))
        online = state["W"]
        self.W = np.zeros((len(experts), *online.shape[1:]), dtype=online.dtype)  # of all experts, frozen ones first
        if frozen:
            known = constants["frozen"]
            self.W[:frozen, : known.shape[1]] = known
        self.W[frozen:] = online
        state["W"] = self.W[frozen:]
        self.spaces = self._make_spaces()
        self.block = self.spaces.block
        self._live: LiveRow | None = None

    def _make_spaces(self) -> Spaces:
        plan, constants, state = self.plan, self.constants, self.state
        if plan.refresh is None:
            A = constants.for_kernels("A") if "A" in constants else None
            landmarks = [constants[f"landmarks.{i}"] for i in range(len(plan.gammas))]
            return FixedSpaces(A, landmarks, plan.gammas, self.target)
        sources = pooled([self.source(i) for i in range(self.n_sources)], plan.spaces)
        state["A"] = A = on_pages(state["A"])
        if plan.refresh.inverse == "pinv":
            return PrintedSpaces(A, sources, self.target, plan.refresh)
        return MovingSpaces(A.reshape(len(A), -1), sources, self.target, plan.refresh)

    # -- what it says of itself ---------------------------------------------------------------------------------

    def plan_to_json(self) -> dict[str, Any]:
        """As `Plan` writes itself."""
        return self.plan.to_json()

    @classmethod
    def plan_from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse."""
        return Plan.from_json(data)

    @classmethod
    def layout(cls, plan: Plan) -> Layout:
        """See `experts/layout.py`."""
        return layout(plan)

    @property
    def expert_names(self) -> list[str]:
        """Frozen source heads first, then the online ones."""
        return [expert.name for expert in self.plan.experts]

    @property
    def weights(self) -> Array:
        """Who is trusted now: one weight an expert, summing to one (Eq. 8, 9)."""
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
        return int(self.W.shape[2])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the heads' weights."""
        return np.dtype(self.W.dtype)

    @property
    def can_fail(self) -> bool:
        """Whether the head or the mixer came from outside."""
        return type(self.plan.head) not in OWN_HEADS or type(self.plan.mixer) not in OWN_MIXERS

    def probabilities(self, scores: Array) -> Array:
        """As the mixer says."""
        return self.plan.mixer.probabilities(scores)

    def projection(self, i: int) -> Array | None:
        """A_i as it is now; None is the identity."""
        return self.spaces.projection(i)

    def target_now(self) -> Moments:
        """The target's moments, with the rows that are pending on the live path."""
        return self.spaces.target_now()

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown; NaN in a kernel space."""
        return np.full(self.n_sources, np.nan) if self.plan.gammas else super().discrepancies()

    # -- predicting ---------------------------------------------------------------------------------------------

    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K): all rows by what was learned so far."""
        mixer, seen = self.plan.mixer, self.seen
        parts = [mixer.combine(self.state, seen, self.expert_scores(rows)) for rows in blocks(X, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def expert_scores(self, X: Matrix) -> Array:
        """Each expert's own scores (B x N x K)."""
        Z = self.spaces.project(self.pre.apply(X))
        if self.plan.unit_projection:
            Z = unit(Z)
        return np.stack([Z[:, i] @ W.T for i, W in zip(self._space, self.W, strict=True)], axis=1)

    def predict_row(self, x: Array) -> Prediction:
        """One dense row."""
        live = self._live or self._start_live()
        if live is not None:
            return live.predict(self.pre.apply(x[None])[0] if self.pre.steps else x)
        F = self.expert_scores(x[None])
        scores = self.plan.mixer.combine(self.state, self.seen, F)[0]
        return Prediction(int(scores.argmax()), scores, self.weights, F[0])

    # -- learning -----------------------------------------------------------------------------------------------

    def learn_row(self, x: Array, y: int, weight: float) -> Trace:
        """The label of one dense row, and what was predicted for it; cheap if `predict_row` had the same row last."""
        live = self._live or self._start_live()
        if live is None or not weight > 0:
            return super().learn_row(x, y, weight)
        with uninterrupted():
            trace = live.learn(self.pre.fold(x[None], LEARNED)[0] if self.pre.steps else x, y, weight)
            if self.seen % evidence.EVERY == 0:
                evidence.look(self.state, self._counts)
            return trace

    def _start_live(self) -> LiveRow | None:
        """The live path; None where the head, the mixer or the spaces have no compiled form."""
        plan, spaces = self.plan, self.spaces
        head, mixer = plan.head, plan.mixer
        if not (isinstance(head, PassiveAggressive) and head.compiled and isinstance(mixer, Hedge) and mixer.compiled):
            return None
        if plan.gammas or isinstance(spaces, PrintedSpaces):
            return None
        with uninterrupted(), one_blas_thread:
            refresh = spaces.live(self.seen) if isinstance(spaces, MovingSpaces) else None
        H = spaces.H if isinstance(spaces, MovingSpaces | FixedSpaces) else None
        self._live = LiveRow(
            self.state, self.target, mixer, head, self.W, self._space, self._online, plan.unit_projection, H, refresh
        )
        return self._live

    @property
    def refreshing(self) -> bool:
        """Whether a refresh on the live path is not finished yet."""
        return self._live is not None and self._live.refreshing

    def _run_block(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        from hedgerow.kernels import heads as kernels

        self._live = None
        W, (E, K, d), B = self.W, self.W.shape, X.shape[0]
        F, Z = np.empty((B, E, K), dtype=W.dtype), np.empty((B, 1 + self._space.max(), d), dtype=W.dtype)
        for rows, projected in self.spaces.windows(X, y, weight, self.seen):
            if self.plan.unit_projection:
                kernels.unit_rows(projected, Z[rows])
            else:
                Z[rows] = projected
        self.plan.head.blocks(W, self._online, self._space, Z, y, weight, F, self.state.get("memory"))
        for e in range(self.plan.frozen):
            np.matmul(Z[:, self._space[e]], W[e].T, out=F[:, e])
        mixed = self.plan.mixer.run(self.state, self.seen, F[:, :, :known], y)
        trace = Trace(mixed.scores, mixed.weights, mixed.expert_predictions)
        return trace, float((mixed.weights * mixed.losses).sum())

    # -- arrays -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """A is up to date, no row is pending."""
        with uninterrupted(), one_blas_thread:  # what was added to A must also be forgotten, or it is added again
            self.spaces.flush()
            self._live = None

    def arrays(self) -> State:
        """A copy of the state; A and the target's moments as they are now."""
        found = super().arrays()
        found |= {name: array.copy() for name, array in self.target_now().arrays("target").items()}
        if "A" in self.state:
            found["A"] = np.stack([np.asarray(self.projection(i)) for i in range(self.plan.spaces)], axis=1)
        return found

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: zero weights, no instances yet."""
        self.flush()
        pad_axis(self.state, "W", 1, n_classes - self.n_classes)
        super().grow(n_classes)
        self.__init__(self.plan, self.constants, self.state)  # type: ignore[misc]
