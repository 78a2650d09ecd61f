"""Experts in aligned spaces, one instance or one block at a time, with the same predictions.

z_i = A_i^T x / |A_i^T x|          every space projects the instance (Sec. 3.4)
f_e = W_e z_{i(e)}                 every expert scores it (Sec. 3.2)
F   = sum_e p_e advice(f_e)        the mixer weighs them (Eq. 6); predict argmax F (Eq. 7)
after the label: losses -> weights (Eq. 8, 9), labels -> heads (Eq. 4), x -> moments (Eq. 10, 11),
every T_w labels: A_i <- refreshed A_i (Eq. 13)

Blocks go through `_run_block`; one row goes through `LiveRow`, where its head and mixer are ours.

The arrays of a learner of experts.

| constants       | shape          | what it is                                                                    |
|-----------------|----------------|-------------------------------------------------------------------------------|
| `source.*`      | n x ..         | moments of each source, in the input space of its alignment                   |
| `frozen`        | F x K0 x d     | the source classifiers that do not learn                                      |
| `A`             | m x spaces x d | projections that do not move; over landmarks, as many rows as the most of them |
| `landmarks.i`   | L_i x m        | the landmarks of kernel space i                                               |
| `pre.i.*`       | m              | statistics of the step `scale`                                                |

| state           | shape          | what it is                                                                    |
|-----------------|----------------|-------------------------------------------------------------------------------|
| `W`             | O x K x d      | the weights of the online heads                                               |
| `memory`        | O x ..         | what the head keeps beside W                                                  |
| `A`             | m x spaces x d | projections that follow the labels                                            |
| `expert_loss`   | N              | each expert's loss so far                                                     |
| `mixer.*`       | ..             | what the mixer keeps beside the losses                                        |
| `target.*`      | ..             | moments of the target so far                                                  |
| `pre.i.*`       | m              | running statistics of the preprocessing                                       |
| counters        | 1 or N         | `seen`, `mistakes`, `expert_mistakes`, `mixture_loss`                         |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow import drift as evidence
from hedgerow.core.arrays import Array, Matrix, blocks
from hedgerow.core.constants import Constants
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import unit
from hedgerow.core.rule_numbers import RULES
from hedgerow.experts.live_refresh import LiveRefresh
from hedgerow.experts.plan import Plan
from hedgerow.experts.spaces import FixedSpaces, MovingSpaces, PrintedSpaces, Spaces, on_pages, pooled
from hedgerow.heads import AROW, PassiveAggressive
from hedgerow.learner import (
    BLOCK,
    DOUBLE,
    FLOAT,
    WHOLE,
    Layout,
    OnlineLearner,
    Prediction,
    Spec,
    State,
    Trace,
    common,
    not_more_known_before,
    pad_axis,
    register_learner,
)
from hedgerow.mix import AdaHedge, FixedShare, FixedShareLogLoss, Hedge, LogLoss, LossBased, Single, Squint

if TYPE_CHECKING:
    from hedgerow.learner import Layout


# The live path of the paper's learner: one dense row in two compiled calls, with one pass over the projections.
#
# It gives what a block of one row gives (a law in `tests/unit/test_instance.py`). What was computed to predict a row
# is kept, and used if the next label is that row's.
class LiveRow:
    """One row at a time through fixed or moving spaces, heads of the passive-aggressive family, and Hedge."""

    def __init__(
        self,
        state: dict[str, Array],
        target: Moments,
        mixer: Hedge,
        head: PassiveAggressive,
        W: Array,
        space: Array,
        which: Array,
        to_unit: bool,
        H: Array | None,
        refresh: LiveRefresh | None,
    ) -> None:
        from hedgerow.kernels import live

        self._kernels, self._predict, self._learn = live, live.predict, live.learn
        self._projects, self._refresh = H is not None, refresh
        self._H = np.empty((0, 0), W.dtype) if H is None else H
        width = self._H.shape[1] or W.shape[2]
        last, self._raw, z = (np.empty(size, dtype=W.dtype) for size in (len(target.total), width, width))
        # of one row each, as a trace has them
        self._scores, self._weights = (
            np.empty((1, W.shape[1])),
            mixer.weights(state, int(state["seen"][0]))[None].copy(),
        )
        self._votes = np.empty((1, len(W)), dtype=np.int64)
        F, f, p = np.empty(W.shape[:2], dtype=W.dtype), self._scores[0], self._weights[0]
        counters = [state[name] for name in ("seen", "mistakes", "mixture_loss", "expert_loss", "expert_mistakes")]
        self._last, self._fresh = last, False
        self._F, self._f, self._p = F, f, p
        self._scoring = (last, self._raw, z, W, space, p, to_unit, mixer.combination == "vote", F, f)
        beta = mixer.beta or 0.0
        rule = RULES[head.rule], float(head.C)
        self._learning: tuple[Any, ...] = (z, W, which, space, *rule, F, f, p, beta, *counters, self._votes[0])
        self._moments = (target.count, target.total, target.class_counts, target.class_totals)

    def predict(self, x: Array) -> Prediction:
        """A preprocessed row, predicted by what was learned so far."""
        return Prediction(self._score(x), self._f.copy(), self._p.copy(), self._F.copy())

    def _score(self, x: Array) -> int:
        self._fresh, project = False, self._projects
        if self._refresh is not None and not self._refresh.plain:
            project = False
            self._refresh.project(x, self._raw)
        elif not project:
            self._raw[:] = x
        best: int = self._predict(x, self._H, project, *self._scoring)
        self._fresh = True
        return best

    def learn(self, x: Array, label: int, weight: float) -> Trace:
        """Learn the label of a preprocessed row; the row is predicted first, unless it was the last one predicted."""
        if not (self._fresh and self._kernels.same(x, self._last)):
            self._score(x)
        self._fresh = False  # the label changes the weights, so the kept scores are out of date
        scores, weights = self._scores.copy(), self._weights.copy()
        self._learn(label, weight, *self._learning)
        if self._refresh is not None:
            self._kernels.keep(self._last, self._raw, label, weight, self._refresh.waiting, *self._refresh.buffers)
            self._refresh.learned(weight)
        else:
            self._kernels.count(self._last, label, weight, *self._moments)
        return Trace(scores, weights, self._votes.copy())

    @property
    def refreshing(self) -> bool:
        """Whether a refresh is not finished yet."""
        return self._refresh is not None and self._refresh.under_way


def layout(plan: Plan) -> Layout:
    """By the plan, as the tables above; sizes that it does not know are letters."""
    N, F = len(plan.experts), plan.frozen
    constants, state = common(plan.steps, N)
    d = "d" if plan.spaces else "m"
    if F:
        constants["frozen"] = Spec((F, "K0", d), FLOAT)
    state["W"] = Spec((N - F, "K", d), FLOAT)
    if plan.spaces:
        side = constants if plan.refresh is None else state
        side["A"] = Spec(("L" if plan.gammas else "m", plan.spaces, d), FLOAT)
    for i in range(len(plan.gammas)):
        constants[f"landmarks.{i}"] = Spec((f"L{i}", "m"), FLOAT)
    for name, array in plan.mixer.start(N).items():
        low = 0.0 if name == "expert_loss" else -float("inf")
        state[name] = Spec(array.shape, WHOLE if array.dtype.kind == "i" else DOUBLE, low)
    memory = plan.head.memory(1)
    if memory is not None:
        state["memory"] = Spec((N - F, *(f"memory{i}" for i in range(memory.ndim))), FLOAT)

    def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
        most = max((sizes[f"L{i}"] for i in range(len(plan.gammas))), default=sizes.get("L", 0))
        if most != sizes.get("L", 0):
            return f"projections of {sizes.get('L')} landmarks, of which there are {most}"
        if plan.refresh is not None and not 1 <= plan.spaces in (1, sizes["n"]):
            return f"{plan.spaces} spaces for {sizes['n']} sources"
        if "memory" in arrays and arrays["memory"].shape[1:] != _shape(plan, arrays["W"]):
            return f"'memory' has the shape {arrays['memory'].shape}"
        return None

    return Layout(constants, state, (not_more_known_before, consistent))


def _shape(plan: Plan, W: Array) -> tuple[int, ...]:
    memory = plan.head.memory(W.shape[2], W.dtype)
    return () if memory is None else memory.shape


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
        """See `layout` above."""
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
