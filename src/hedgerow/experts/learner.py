"""Experts in aligned spaces, rows in blocks of one or more.

z_i = A_i^T x / |A_i^T x|          every space projects the instance (Sec. 3.4)
f_e = W_e z_{i(e)}                 every expert scores it (Sec. 3.2)
F   = sum_e p_e advice(f_e)        the mixer weighs them (Eq. 6); predict argmax F (Eq. 7)
after the label: losses -> weights (Eq. 8, 9), labels -> heads (Eq. 4), x -> moments (Eq. 10, 11),
every T_w labels: A_i <- refreshed A_i (Eq. 13)

One row is a block of one. What was computed to project the row that came last is kept for its label.

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
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow import coverage, kernels
from hedgerow import drift as evidence
from hedgerow.core.arrays import Array, Matrix, blocks, is_sparse
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.preprocess import parse
from hedgerow.core.registry import of_json
from hedgerow.experts.spaces import MovingSpaces, PrintedSpaces, Refresh, Spaces, Target, on_pages, pooled
from hedgerow.heads import AROW, HEADS, Head, PassiveAggressive
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
from hedgerow.mix import MIXERS, Hedge, Mixer, Single


@dataclass(frozen=True)
class Expert:
    """A classifier in a space; a frozen one keeps what a source taught it."""

    name: str
    space: int
    learns: bool


@dataclass(frozen=True)
class Plan:
    """The composition: preprocessing, experts (frozen ones first), their head, how they are mixed, the refresh.

    `spaces` is their number, or 0 for the input itself; `gammas` are those of kernel spaces, None for a quadratic one.
    """

    steps: tuple[str, ...]
    experts: tuple[Expert, ...]
    head: Head
    mixer: Mixer
    unit_projection: bool
    spaces: int = 0
    gammas: tuple[float | None, ...] = ()
    refresh: Refresh | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain lists and numbers."""
        out = {name: getattr(self, name) for name in ("steps", "unit_projection", "spaces", "gammas")}
        return out | {
            "experts": [asdict(expert) for expert in self.experts],
            "head": HEADS.to_json(self.head),
            "mixer": MIXERS.to_json(self.mixer),
            "refresh": None if self.refresh is None else asdict(self.refresh),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of `to_json`."""
        plan = cls(
            steps=parse(data["steps"], internal=True),
            experts=tuple(of_json(Expert, expert) for expert in data["experts"]),
            head=HEADS.make(HEADS.from_json(data["head"])),
            mixer=MIXERS.from_json(data["mixer"]),
            unit_projection=bool(data["unit_projection"]),
            spaces=int(data["spaces"]),
            gammas=tuple(None if g is None else float(g) for g in data["gammas"]),
            refresh=None if data["refresh"] is None else of_json(Refresh, data["refresh"]),
        )
        plan.check()
        return plan

    def check(self) -> None:
        """Refuse a plan whose parts do not fit together."""
        learns = [expert.learns for expert in self.experts]
        if not self.experts or not any(learns) or learns != sorted(learns):
            raise InputError("a plan needs at least one online expert, after all frozen ones")
        if any(not 0 <= expert.space < max(self.spaces, 1) for expert in self.experts):
            raise InputError(f"an expert lives in a space beyond the {self.spaces} that there are")
        if self.gammas and (len(self.gammas) != self.spaces or self.refresh is not None):
            raise InputError("kernel spaces need a gamma each, and cannot be refreshed")
        if self.refresh is not None and not self.spaces:
            raise InputError("a refresh needs spaces to move")
        if any(g is not None and not g > 0 for g in self.gammas):
            raise InputError("a kernel's gamma must be positive")

    @property
    def frozen(self) -> int:
        """How many experts do not learn."""
        return sum(not expert.learns for expert in self.experts)


def _one_array(state: State, *names: str, rest: Any) -> Array:
    """Arrays of one type and then `rest` side by side in one, of which those in the state become views."""
    joined, first = np.concatenate([*(state[name] for name in names), rest]), 0
    for name in names:
        last = first + len(state[name])
        state[name], first = joined[first:last], last
    return joined


NO_LABEL = np.full(1, -1)


@register_learner
class ExpertsLearner(OnlineLearner):
    """Linear heads in aligned spaces, weighed by a mixer, with or without a refresh of the spaces."""

    kind = "experts"
    plan_type = Plan
    plan: Plan

    def __init__(self, plan: Plan, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, state)
        experts, frozen = plan.experts, plan.frozen
        online = state["W"]
        self.W = np.zeros((len(experts), *online.shape[1:]), dtype=online.dtype)  # of all experts, frozen ones first
        if frozen:
            known = constants["frozen"]
            self.W[:frozen, : known.shape[1]] = known
        self.W[frozen:] = online
        state["W"] = self.W[frozen:]
        spaces = [expert.space for expert in experts]
        self._tally = _one_array(state, "seen", "mistakes", "expert_mistakes", rest=spaces)
        self._counted, self._space = np.split(self._tally, [-len(experts)])
        self._target = Target.of(self.target)
        self.target = self._target.moments
        state.update(self.target.arrays("target"))
        self.spaces = self._make_spaces()
        self.block = self.spaces.block
        # a row that moves neither spaces nor preprocessing is learned by one compiled call, which no signal interrupts
        fixed = plan.refresh is None and all(step.fixed for step in self.pre.all)
        self._in_one_call = fixed and coverage.LEVELS not in state
        self._projects = bool(plan.spaces or plan.unit_projection)
        self._bare = not (self._projects or plan.steps)  # the experts see rows as they come
        self._label, one_row = np.empty(1, dtype=np.int64), self._room(1)
        (F,), (out,) = one_row
        self._row_of = out[len(F) :], out[: len(F)], F  # its scores, weights and each expert's scores
        head, mixer = plan.head, plan.mixer
        # the experts as the compiled step takes them; None where the head or the mixer is not ours or not Hedge
        self._experts: Any = None
        if type(head) in (PassiveAggressive, AROW) and type(mixer) in (Hedge, Single):
            assert isinstance(head, PassiveAggressive | AROW)
            assert isinstance(mixer, Hedge)
            W, S, _, rule, C, u = head.compiled(self.W, frozen, self._space, state.get("memory"))
            options = [rule, C, mixer.beta or 0.0, mixer.combination == "vote"]
            self._experts = W, S, u, _one_array(state, "expert_loss", "mixture_loss", rest=options), self._tally
            counts, totals = self._target
            moments = kernels.EVEN if self._projects else counts, totals
            self._one_row = *self._experts, *moments, *one_row
        self._row_alone = self._experts is not None and self.spaces.row_alone

    def _make_spaces(self) -> Spaces:
        plan, constants, state = self.plan, self.constants, self.state
        if plan.refresh is None:
            A = constants.for_kernels("A") if "A" in constants else None
            landmarks = [constants[f"landmarks.{i}"] for i in range(len(plan.gammas))]
            return Spaces(A, landmarks, plan.gammas, self._target)
        sources = pooled([self.source(i) for i in range(self.n_sources)], plan.spaces)
        state["A"] = A = on_pages(state["A"])
        if plan.refresh.inverse == "pinv":
            return PrintedSpaces(A, sources, self._target, plan.refresh)
        return MovingSpaces(A, sources, self._target, plan.refresh)

    # -- what it says of itself ---------------------------------------------------------------------------------

    def plan_to_json(self) -> dict[str, Any]:
        """As `Plan` writes itself."""
        return self.plan.to_json()

    @classmethod
    def layout(cls, plan: Plan) -> Layout:
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
            if "memory" in arrays:
                kept = plan.head.memory(arrays["W"].shape[2], arrays["W"].dtype)
                if kept is None or arrays["memory"].shape[1:] != kept.shape:
                    return f"'memory' has the shape {arrays['memory'].shape}"
            return None

        return Layout(constants, state, (not_more_known_before, consistent))

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

    @cached_property
    def can_fail(self) -> bool:
        """Whether the head or the mixer came from outside."""
        return not all(type(part).__module__.startswith("hedgerow.") for part in (self.plan.head, self.plan.mixer))

    def probabilities(self, scores: Array) -> Array:
        """As the mixer says."""
        return self.plan.mixer.probabilities(scores)

    def projection(self, i: int) -> Array | None:
        """A_i as it is now; None is the identity."""
        return self.spaces.projection(i)

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown; NaN in a kernel space."""
        return np.full(self.n_sources, np.nan) if self.plan.gammas else super().discrepancies()

    # -- predicting ---------------------------------------------------------------------------------------------

    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K): all rows by what was learned so far."""
        mixer, seen = self.plan.mixer, self.seen
        parts = [mixer.combine(self.state, seen, self.expert_scores(rows)) for rows in blocks(X, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def explain(self, X: Matrix) -> Trace:
        """Combined scores, weights and votes, from one pass over the experts."""
        F = self.expert_scores(X)
        return self._trace(self.plan.mixer.combine(self.state, self.seen, F), F)

    def expert_scores(self, X: Matrix) -> Array:
        """Each expert's own scores (B x N x K)."""
        Z = self._in_spaces(self._contiguous(self.pre.apply(X)))
        F = np.empty((len(Z), *self.W.shape[:2]), dtype=self.W.dtype)
        self._score(Z, F, len(self.W))
        return F

    def _in_spaces(self, X: Matrix) -> Array:
        """Preprocessed rows as the experts take them (B x n x d), by what was learned so far."""
        return self._units(self.spaces.project(X))

    def predict_row(self, x: Array) -> Prediction:
        """One dense row: a block of one without a label."""
        if self._experts is not None:
            Z = x[None, None] if self._bare else self._in_spaces(self.pre.apply(x[None]))
            code = kernels.experts.step(*self._one_row, Z, NO_LABEL, kernels.EVEN)
            return Prediction(code, *self._row_of)
        F = self.expert_scores(x[None])
        scores, weights, *_ = self.plan.mixer.run(self.state, self.seen, F, NO_LABEL)
        return Prediction(int(scores[0].argmax()), scores[0], weights[0], F[0])

    # -- learning -----------------------------------------------------------------------------------------------

    def learn_row(self, x: Array, y: int, weight: float) -> None:
        """The label of one dense row: a block of one."""
        if not self._row_alone or not weight > 0 or y < 0:
            super().learn_row(x, y, weight)
        elif self._in_one_call and (self._tally.item(0) + 1) % evidence.EVERY:
            self._learn_row(x, y, weight)
        elif self._in_one_call:
            with uninterrupted():
                self._learn_row(x, y, weight)
                evidence.look(self.state, self._counted)
        else:
            with uninterrupted():
                self._whole(x[None], np.array([y]), None if weight == 1 else np.array([weight]))

    def _learn_row(self, x: Array, y: int, weight: float) -> None:
        Z, weights = x[None, None], kernels.EVEN if weight == 1 else np.array([weight])
        self._label[0] = y
        if not self._bare:
            X = self.pre.apply(x[None])
            Z = self._in_spaces(X)
            if self._projects:
                self._target.add(X, self._label, weights)
        kernels.experts.step(*self._one_row, Z, self._label, weights)

    def _step(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> Trace:
        if self._experts is None:
            return super()._step(X, y, known, weight)
        rows, seen = self.pre.fold(X, y >= 0) if self.pre.steps else X, self.seen
        looks = seen % evidence.EVERY + len(y) >= evidence.EVERY  # then the mistakes are looked at, in order
        before = self._counts if looks else None
        Z = self._units(self.spaces.learn(self._contiguous(rows), y, weight, seen))
        trace = self._run_experts(Z, y, kernels.EVEN if weight is None else weight, known)
        if before is not None:
            evidence.learned(self.state, before, trace.mistaken(y))
        return trace

    def _run_experts(self, Z: Array, y: Array, weight: Array, known: int | None) -> Trace:
        """Rows in their spaces by our own heads and Hedge; frozen experts score many rows sooner by a product each."""
        F, out = self._room(len(y), known)
        self._score(Z, F, 0 if len(y) < kernels.experts.FEW else self.plan.frozen)
        kernels.experts.step(*self._experts, kernels.EVEN, self._target.totals, F, out, Z, y, weight)
        N = len(self.W)
        return Trace(out[:, N:], out[:, :N], F[:, :, :known].argmax(axis=2))

    def _room(self, B: int, known: int | None = None) -> tuple[Array, Array]:
        """For each expert's scores of a block, and for the weights and the combined scores side by side."""
        N, K, _ = self.W.shape
        return np.empty((B, N, K), dtype=self.W.dtype), np.empty((B, N + (known or K)))

    def _run_block(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        W = self.W
        Z = self._units(self.spaces.learn(self._contiguous(X), y, weight, self.seen))
        F = np.empty((len(y), *W.shape[:2]), dtype=W.dtype)
        self.plan.head.blocks(W, self.plan.frozen, self._space, Z, y, weight, F, self.state.get("memory"))
        self._score(Z, F, self.plan.frozen)
        mixed = self.plan.mixer.run(self.state, self.seen, F[:, :, :known], y)
        trace = Trace(mixed.scores, mixed.weights, mixed.expert_predictions)
        return trace, float(np.vdot(mixed.weights, mixed.losses))

    def _score(self, Z: Array, F: Array, experts: int) -> None:
        """The scores of the first experts into F (B x N x K)."""
        for e in range(experts):
            np.matmul(Z[:, self._space[e]], self.W[e].T, out=F[:, e])

    def _units(self, Z: Array) -> Array:
        """Projected rows as the heads take them: of unit length, if the plan says so."""
        if not self.plan.unit_projection:
            return Z
        kernels.experts.unit_rows(Z, out := np.empty_like(Z))
        return out

    @staticmethod
    def _contiguous(X: Matrix) -> Matrix:
        """Dense rows in the order of memory, for which the loops are compiled."""
        return X if is_sparse(X) else np.ascontiguousarray(X)

    # -- arrays -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """A is up to date, no row is pending."""
        with uninterrupted(), one_blas_thread:  # what was added to A must also be forgotten, or it is added again
            self.spaces.flush()

    def arrays(self) -> State:
        """A copy of the state, with A as it is now."""
        arrays = super().arrays()
        if "A" in self.state:
            arrays["A"] = np.stack([np.asarray(self.projection(i)) for i in range(self.plan.spaces)], axis=1)
        return arrays

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: zero weights, no instances yet."""
        self.flush()
        pad_axis(self.state, "W", 1, n_classes - self.n_classes)
        super().grow(n_classes)
        self.__init__(self.plan, self.constants, self.state)  # type: ignore[misc]
