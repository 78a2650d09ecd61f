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
| `A`             | m x spaces x d | projections that do not move                                                  |
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
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow import drift as evidence
from hedgerow import kernels
from hedgerow.align import ALIGNERS, Alignment, Identity, Projection
from hedgerow.core.arrays import Array, Matrix, is_sparse, stack_rows
from hedgerow.core.constants import DOUBLE, FLOAT, WHOLE, Constants, Spec
from hedgerow.core.errors import InputError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import parse, unit
from hedgerow.core.registry import of_json
from hedgerow.core.source_rows import InMemory
from hedgerow.heads import AROW, HEADS, Head, PassiveAggressive, make_head, train
from hedgerow.learner import (
    Layout,
    OnlineLearner,
    Prediction,
    State,
    Trace,
    bookkeeping,
    common,
    not_more_known_before,
)
from hedgerow.methods import ORIGINAL, SINGLE, Built, Options, Recipe, Training
from hedgerow.mix import MIXERS, Hedge, Mixer, Single, horizon_beta
from hedgerow.spaces import (
    MovingSpaces,
    PrintedSpaces,
    Refresh,
    Spaces,
    on_pages,
    pooled,
)


@dataclass(frozen=True)
class Expert:
    """A classifier in a space; a frozen one keeps what a source taught it."""

    name: str
    space: int
    learns: bool


@dataclass(frozen=True)
class Plan:
    """The composition: preprocessing, experts (frozen ones first), their head, how they are mixed, the refresh.

    `spaces` is their number, or 0 for the input itself.
    """

    steps: tuple[str, ...]
    experts: tuple[Expert, ...]
    head: Head
    mixer: Mixer
    unit_projection: bool
    spaces: int = 0
    refresh: Refresh | None = None

    def __post_init__(self) -> None:
        parse(self.steps, internal=True)
        learns = [expert.learns for expert in self.experts]
        if not self.experts or not any(learns) or learns != sorted(learns):
            raise InputError("a plan needs at least one online expert, after all frozen ones")
        if any(not 0 <= expert.space < max(self.spaces, 1) for expert in self.experts):
            raise InputError(f"an expert lives in a space beyond the {self.spaces} that there are")
        if self.refresh is not None and not self.spaces:
            raise InputError("a refresh needs spaces to move")

    @property
    def frozen(self) -> int:
        """How many experts do not learn."""
        return sum(not expert.learns for expert in self.experts)

    def layout(self) -> Layout:
        """By the plan, as the tables above; sizes that it does not know are letters."""
        N = len(self.experts)
        F = self.frozen
        constants, state = common(self.steps, N)
        d = "d" if self.spaces else "m"
        if F:
            constants["frozen"] = Spec((F, "K0", d), FLOAT)
        state["W"] = Spec((N - F, "K", d), FLOAT)
        if self.spaces:
            side = constants if self.refresh is None else state
            side["A"] = Spec(("m", self.spaces, d), FLOAT)
        for name, array in self.mixer.start(N).items():
            low = 0.0 if name == "expert_loss" else -float("inf")
            state[name] = Spec(array.shape, WHOLE if array.dtype.kind == "i" else DOUBLE, low)
        memory = self.head.memory(1)
        if memory is not None:
            state["memory"] = Spec((N - F, *(f"memory{i}" for i in range(memory.ndim))), FLOAT)

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            if self.refresh is not None and not 1 <= self.spaces in (1, sizes["n"]):
                return f"{self.spaces} spaces for {sizes['n']} sources"
            if "memory" in arrays:
                kept = self.head.memory(arrays["W"].shape[2], arrays["W"].dtype)
                if kept is None or arrays["memory"].shape[1:] != kept.shape:
                    return f"'memory' has the shape {arrays['memory'].shape}"
            return None

        return Layout(constants, state, (not_more_known_before, consistent))


def _one_array(state: State, *names: str, rest: Any) -> Array:
    """Arrays of one type and then `rest` side by side in one, of which those in the state become views."""
    joined = np.concatenate([*(state[name] for name in names), rest])
    first = 0
    for name in names:
        last = first + len(state[name])
        state[name] = joined[first:last]
        first = last
    return joined


NO_LABEL = np.full(1, -1)


class ExpertsLearner(OnlineLearner):
    """Linear heads in aligned spaces, weighed by a mixer, with or without a refresh of the spaces."""

    kind = "experts"
    plan_type = Plan
    plan: Plan

    def __init__(self, plan: Plan, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, state)
        experts = plan.experts
        frozen = plan.frozen
        online = state["W"]
        self.W = np.zeros(
            (len(experts), *online.shape[1:]), dtype=online.dtype
        )  # of all experts, frozen ones first
        if frozen:
            known = constants["frozen"]
            self.W[:frozen, : known.shape[1]] = known
        self.W[frozen:] = online
        state["W"] = self.W[frozen:]
        spaces = [expert.space for expert in experts]
        tally = _one_array(state, "seen", "mistakes", "expert_mistakes", rest=spaces)
        self._space = tally[-len(experts) :]
        self.spaces = self._make_spaces()
        self.block = self.spaces.block
        one_row = self._room(1)
        (F,), (out,) = one_row
        self._row_of = (
            out[len(F) :],
            out[: len(F)],
            F,
        )  # its scores, weights and each expert's scores
        head = plan.head
        mixer = plan.mixer
        # the experts as the compiled step takes them; None where the head or the mixer is not ours or not Hedge
        self._experts: Any = None
        if type(head) in (PassiveAggressive, AROW) and type(mixer) in (Hedge, Single):
            assert isinstance(head, PassiveAggressive | AROW)
            assert isinstance(mixer, Hedge)
            W, S, _, rule, C, u = head.compiled(self.W, frozen, self._space, state.get("memory"))
            options = [rule, C, mixer.beta or 0.0, mixer.combination == "vote"]
            losses = _one_array(state, "expert_loss", "mixture_loss", rest=options)
            self._experts = W, S, u, losses, tally
            self._one_row = *self._experts, *one_row

    def _make_spaces(self) -> Spaces:
        plan = self.plan
        constants = self.constants
        state = self.state
        if plan.refresh is None:
            A = constants.for_kernels("A") if "A" in constants else None
            return Spaces(A, self.target)
        sources = pooled([self.source(i) for i in range(self.n_sources)], plan.spaces)
        state["A"] = A = on_pages(state["A"])
        if plan.refresh.inverse == "pinv":
            return PrintedSpaces(A, sources, self.target, plan.refresh)
        return MovingSpaces(A, sources, self.target, plan.refresh)

    # -- what it says of itself ---------------------------------------------------------------------------------

    def plan_to_json(self) -> dict[str, Any]:
        """The head and the mixer by name and options."""
        parts = {"head": HEADS.to_json(self.plan.head), "mixer": MIXERS.to_json(self.plan.mixer)}
        return asdict(self.plan) | parts

    @classmethod
    def plan_from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse."""
        parts = {"head": HEADS.from_json(data["head"]), "mixer": MIXERS.from_json(data["mixer"])}
        return of_json(Plan, {**data, **parts})

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
        return not all(
            type(part).__module__.startswith("hedgerow.")
            for part in (self.plan.head, self.plan.mixer)
        )

    def probabilities(self, scores: Array) -> Array:
        """As the mixer says."""
        return self.plan.mixer.probabilities(scores)

    def projection(self, i: int) -> Array | None:
        """A_i as it is now; None is the identity."""
        return self.spaces.projection(i)

    # -- predicting ---------------------------------------------------------------------------------------------

    def explain(self, X: Matrix) -> Trace:
        """Combined scores, weights and votes, from one pass over the experts."""
        F = self.expert_scores(X)
        scores = self.plan.mixer.combine(self.state, self.seen, F)
        return Trace(scores, np.broadcast_to(self.weights, F.shape[:2]), F.argmax(axis=2))

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
        if self._experts is None:
            F = self.expert_scores(x[None])
            scores, weights, *_ = self.plan.mixer.run(self.state, self.seen, F, NO_LABEL)
            return Prediction(int(scores[0].argmax()), scores[0], weights[0], F[0].argmax(axis=1))
        Z = self._in_spaces(self.pre.apply(x[None]))
        code = kernels.experts.step(*self._one_row, Z, NO_LABEL, kernels.EVEN)
        scores, weights, scored = self._row_of
        return Prediction(code, scores, weights, scored.argmax(axis=1))

    # -- learning -----------------------------------------------------------------------------------------------

    def learn_row(self, x: Array, y: int, weight: float, before: int | None = None) -> None:
        """The label of one dense row: a block of one."""
        if self._experts is None or not weight > 0 or y < 0:
            super().learn_row(x, y, weight)
        else:
            with uninterrupted():
                self._whole(x[None], np.array([y]), None if weight == 1 else np.array([weight]))

    def _step(
        self,
        X: Matrix,
        y: Array,
        known: int | None,
        weight: Array | None,
        before: Array | None = None,
    ) -> Trace:
        seen = self.seen
        Z = self._before_labels(X, y, weight)
        looks = (
            seen % evidence.EVERY + len(y) >= evidence.EVERY
        )  # then the mistakes are looked at, in order
        counts = self._counts if looks else None
        run = self._run_parts if self._experts is None else self._run_compiled
        trace = run(Z, y, known, weight)
        if counts is not None:
            evidence.learned(self.state, counts, trace.mistaken(y))
        return trace

    def _before_labels(self, X: Matrix, y: Array, weight: Array | None) -> Array:
        """Rows as the experts take them, each by what was known before its label, which the spaces learn."""
        rows = self._contiguous(self.pre.fold(X, y >= 0))
        return self._units(self.spaces.learn(rows, y, weight, self.seen))

    def _run_compiled(self, Z: Array, y: Array, known: int | None, weight: Array | None) -> Trace:
        """Rows in their spaces by our own heads and Hedge; frozen experts score many rows sooner by a product each."""
        F, out = self._room(len(y), known)
        self._score(Z, F, 0 if len(y) < kernels.experts.FEW else self.plan.frozen)
        weights = kernels.EVEN if weight is None else weight
        kernels.experts.step(*self._experts, F, out, Z, y, weights)
        N = len(self.W)
        return Trace(out[:, N:], out[:, :N], F[:, :, :known].argmax(axis=2))

    def _run_parts(self, Z: Array, y: Array, known: int | None, weight: Array | None) -> Trace:
        """Rows in their spaces by any head and any mixer."""
        W = self.W
        state = self.state
        F, _ = self._room(len(y), known)
        self.plan.head.blocks(
            W, self.plan.frozen, self._space, Z, y, weight, F, state.get("memory")
        )
        self._score(Z, F, self.plan.frozen)
        mixed = self.plan.mixer.run(state, self.seen, F[:, :, :known], y)
        trace = Trace(mixed.scores, mixed.weights, mixed.expert_predictions)
        mistakes, *of_experts = trace.mistaken(y).sum(axis=0)
        state["expert_mistakes"] += of_experts
        state["mistakes"] += mistakes
        state["mixture_loss"] += np.vdot(mixed.weights, mixed.losses)
        state["seen"] += np.count_nonzero(y >= 0)
        return trace

    def _room(self, B: int, known: int | None = None) -> tuple[Array, Array]:
        """For each expert's scores of a block, and for the weights and the combined scores side by side."""
        N, K, _ = self.W.shape
        return np.empty((B, N, K), dtype=self.W.dtype), np.empty((B, N + (known or K)))

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
        with (
            uninterrupted(),
            one_blas_thread,
        ):  # what was added to A must also be forgotten, or it is added again
            self.spaces.flush()

    def arrays(self) -> State:
        """A copy of the state, with A as it is now."""
        arrays = super().arrays()
        if "A" in self.state:
            arrays["A"] = np.stack(
                [np.asarray(self.projection(i)) for i in range(self.plan.spaces)], axis=1
            )
        return arrays

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: zero weights, no instances yet."""
        self.flush()
        extra = n_classes - self.n_classes
        self.state["W"] = np.pad(self.state["W"], [(0, 0), (0, extra), (0, 0)])
        super().grow(n_classes)
        self.__init__(self.plan, self.constants, self.state)  # type: ignore[misc]


# -- the offline stage: align, project and train the sources, lay out the experts --------------------------------------

DIM = 100  # upper limit of the dimension of an aligned space
MU = 1.0  # strength of the refresh


def build(recipe: Recipe, training: Training) -> Built:
    """The whole offline stage; without sources only the target learns, in the input space."""
    sources = training.sources
    options = training.options
    reading = training.options.reading
    head = _head(recipe, options)
    shared = recipe.spaces == "shared"
    groups = [[source] for source in sources] if sources and not shared else [list(sources)]
    alignments = [_align(recipe, training, group) for group in groups]
    projections = [alignment.projection for alignment in alignments]
    of = [projections[0 if shared else i] for i in range(len(sources))]
    mapped = [projection.mapped(source.X) for projection, source in zip(of, sources, strict=True)]
    refreshes = recipe.refresh and bool(sources)
    to_unit = reading.projected == "unit" and (
        refreshes or any(p.A is not None for p in projections)
    )
    Z = [_project(projection, X, to_unit) for projection, X in zip(of, mapped, strict=True)]
    experts, weights = _experts(recipe, training, Z, head)
    dtype = weights[0].dtype

    moments = [
        Moments.of(X, s.codes, training.K, weight=s.weight)
        for X, s in zip(mapped, sources, strict=True)
    ]
    kept = training.warmup if reading.target_mean == "warmup" else training.warmup[:0]
    constants, state = bookkeeping(moments, kept, training.K, len(experts))
    mixer = _mixer(recipe, options, len(experts))
    frozen = sum(not expert.learns for expert in experts)
    if frozen:
        constants["frozen"] = np.stack(weights[:frozen])
    state |= {"W": np.stack(weights[frozen:])} | mixer.start(len(experts))
    memory = head.memory(weights[0].shape[1], dtype)
    if memory is not None:
        state["memory"] = np.stack([memory] * (len(experts) - frozen))
    _add_projections(constants, state, projections, refreshes, dtype)
    fixed, running = training.pre.arrays()
    every = Refresh(
        reading.refresh_every,
        MU if options.mu is None else options.mu,
        reading.unseen,
        reading.inverse,
    )
    spaces = len(projections) if "A" in constants or "A" in state else 0
    if not spaces:  # all experts live in the input space
        experts = [replace(expert, space=0) for expert in experts]
    plan = Plan(
        training.pre.steps,
        tuple(experts),
        head,
        mixer,
        to_unit,
        spaces,
        every if refreshes else None,
    )
    learner = ExpertsLearner(plan, Constants(constants | fixed), state | running)
    return Built(learner, [alignment.info for alignment in alignments])


def _head(recipe: Recipe, options: Options) -> Head:
    """The head, with the printed tau where the reading asks for it."""
    printed = recipe.head == "pa1" and options.reading.tau == "printed"
    return make_head("pa1-printed" if printed else recipe.head, options.C)


def _mixer(recipe: Recipe, options: Options, n: int) -> Mixer:
    """The mixer for n experts; without beta and horizon, Hedge's anytime rule."""
    reading = options.reading
    choice = recipe.mixer
    if choice == SINGLE and n > 1:
        raise InputError(
            f"mixer='single' cannot combine {n} experts; use one of {', '.join(MIXERS)}"
        )
    if n == 1:
        return Single()
    beta = options.beta
    if choice == "hedge" and beta is None and options.horizon is not None:
        own = recipe.log_experts == ORIGINAL or reading.beta_rule == "ln 2n"
        beta = horizon_beta(options.horizon, n if own else 2)
    return MIXERS.make(choice, beta=beta, combination=reading.combine, proof=reading.guarantee)


def _align(recipe: Recipe, training: Training, group: list[InMemory]) -> Alignment:
    U = training.warmup
    options = training.options
    if not group:
        return Identity().fit(U, np.empty(0, dtype=np.int64), U)
    X = group[0].X if len(group) == 1 else stack_rows([source.X for source in group])
    codes = np.concatenate([source.codes for source in group if source.codes is not None])
    aligner = ALIGNERS.make(
        recipe.aligner,
        dim=DIM if options.dim is None else options.dim,
        lam=options.reading.lam,
        eigenvectors=options.reading.eigenvectors,
        seed=options.seed,
    )
    alignment = aligner.fit(X, codes, U)
    _check_alignment(alignment, aligner, U.shape[1])
    return alignment


def _check_alignment(alignment: Any, aligner: object, m: int) -> None:
    """Refuse what an aligner of one's own returns unless it is an alignment of rows of m features."""
    if not isinstance(alignment, Alignment):
        raise InputError(
            f"{aligner}: fit returned {type(alignment).__name__}, not a hedgerow.align.Alignment"
        )
    projection = alignment.projection
    for name, matrix, shape in (
        ("projection", projection.A, f"{m} x d"),
        ("source_map", projection.source_map, f"{m} x {m}"),
    ):
        if matrix is None:
            continue
        got = np.shape(matrix)
        fits = (
            len(got) == 2 and got[0] == m and got[1] > 0 and (name == "projection" or got[1] == m)
        )
        if not fits:
            raise InputError(
                f"{aligner}: {name} must be {shape} for rows of {m} features, got {' x '.join(map(str, got))}"
            )


def _project(projection: Projection, X: Matrix, to_unit: bool) -> Matrix:
    Z = unit(projection(X)) if to_unit else projection(X)
    return Z if is_sparse(Z) else np.ascontiguousarray(Z)


def _experts(
    recipe: Recipe, training: Training, Z: list[Matrix], head: Head
) -> tuple[list[Expert], list[Array]]:
    """Frozen source heads first, then the online ones: the order of every array that has one row an expert."""
    shared = recipe.spaces == "shared"
    names = training.names
    K = training.K
    sources = training.sources
    width = max((z.shape[1] for z in Z), default=training.warmup.shape[1])
    dtype = (Z or [training.warmup])[0].dtype
    zero = np.zeros((K, width), dtype=dtype)

    def trained(rows: Matrix, y: Any, weight: Array | None) -> Array:
        W = zero.copy()
        W[:, : rows.shape[1]] = train(
            head, rows, y, K, training.options.reading.source_pass, weight
        )
        return W

    pooled = zero
    if names and "pooled" in (recipe.frozen, recipe.online):
        codes = np.concatenate([source.codes for source in sources if source.codes is not None])
        places = np.concatenate(training.positions) if training.positions else np.arange(len(codes))
        together = np.argsort(places, kind="stable")
        weight = [source.weight for source in sources if source.weight is not None]
        pooled = trained(
            stack_rows(Z)[together],
            codes[together],
            np.concatenate(weight)[together] if weight else None,
        )
    experts: list[Expert] = []
    weights: list[Array] = []
    if recipe.frozen == "pooled" and names:
        experts.append(Expert("sources", 0, False))
        weights.append(pooled)
    elif recipe.frozen == "each":
        experts += [
            Expert(f"source {name}", 0 if shared else i, False) for i, name in enumerate(names)
        ]
        weights += [trained(z, s.codes, s.weight) for z, s in zip(Z, sources, strict=True)]
    start = pooled if recipe.online == "pooled" else zero
    if shared or not names:
        experts.append(Expert("target", 0, True))
        weights.append(start.copy())
    else:
        experts += [Expert(f"target via {name}", i, True) for i, name in enumerate(names)]
        weights += [start.copy() for _ in names]
    return experts, weights


def _add_projections(
    constants: State,
    state: State,
    projections: list[Projection],
    refreshes: bool,
    dtype: np.dtype[Any],
) -> None:
    """All A side by side (m x n x d, zero columns where a source allowed fewer)."""
    if all(p.A is None for p in projections) and not refreshes:
        return
    m = state["target.totals"].shape[1]
    mats = [np.eye(m) if p.A is None else p.A for p in projections]
    A = np.zeros((m, len(mats), max(a.shape[1] for a in mats)), dtype=dtype)
    for i, a in enumerate(mats):
        A[:, i, : a.shape[1]] = a
    (state if refreshes else constants)["A"] = A
