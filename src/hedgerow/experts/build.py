"""The offline stage of the paper's methods: align, project and train the sources, lay out the experts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.align import ALIGNERS, Alignment, Identity, Projection
from hedgerow.core.arrays import Array, Matrix, is_sparse, stack_rows
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import unit
from hedgerow.core.source_rows import InMemory
from hedgerow.experts.learner import Expert, ExpertsLearner, Plan
from hedgerow.experts.spaces import Refresh
from hedgerow.heads import Head, make_head, train
from hedgerow.learner import State, bookkeeping
from hedgerow.methods import ORIGINAL, SINGLE, Built, Options, Training
from hedgerow.mix import MIXERS, Mixer, Single, horizon_beta

if TYPE_CHECKING:
    from hedgerow.methods import Recipe


DIM = 100  # upper limit of the dimension of an aligned space
MU = 1.0  # strength of the refresh


def build(recipe: Recipe, training: Training) -> Built:
    """The whole offline stage; without sources only the target learns, in the input space."""
    sources, options, reading = training.sources, training.options, training.options.reading
    head, shared = _head(recipe, options), recipe.spaces == "shared"
    groups = [[source] for source in sources] if sources and not shared else [list(sources)]
    alignments = [_align(recipe, training, group) for group in groups]
    projections = [alignment.projection for alignment in alignments]
    of = [projections[0 if shared else i] for i in range(len(sources))]
    mapped = [projection.mapped(source.X) for projection, source in zip(of, sources, strict=True)]
    refreshes = recipe.refresh and bool(sources)
    to_unit = reading.projected == "unit" and (refreshes or any(p.A is not None for p in projections))
    Z = [_project(projection, X, to_unit) for projection, X in zip(of, mapped, strict=True)]
    experts, weights = _experts(recipe, training, Z, head)
    dtype = weights[0].dtype

    moments = [Moments.of(X, s.codes, training.K, weight=s.weight) for X, s in zip(mapped, sources, strict=True)]
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
    gammas = _add_projections(constants, state, projections, refreshes, dtype)
    fixed, running = training.pre.arrays()
    every = Refresh(reading.refresh_every, MU if options.mu is None else options.mu, reading.unseen, reading.inverse)
    spaces = len(projections) if "A" in constants or "A" in state else 0
    if not spaces:  # all experts live in the input space
        experts = [replace(expert, space=0) for expert in experts]
    plan = Plan(training.pre.steps, tuple(experts), head, mixer, to_unit, spaces, gammas, every if refreshes else None)
    plan.check()
    learner = ExpertsLearner(plan, Constants(constants | fixed), state | running)
    return Built(learner, [alignment.info for alignment in alignments])


def _head(recipe: Recipe, options: Options) -> Head:
    """The head, with the printed tau where the reading asks for it."""
    printed = recipe.head == "pa1" and options.reading.tau == "printed"
    return make_head("pa1-printed" if printed else recipe.head, options.C)


def _mixer(recipe: Recipe, options: Options, n: int) -> Mixer:
    """The mixer for n experts; without beta and horizon, Hedge's anytime rule.

    Fixed share that averages points of the simplex is that on the log-loss.
    """
    reading, choice = options.reading, recipe.mixer
    if choice == SINGLE and n > 1:
        raise InputError(f"mixer='single' cannot combine {n} experts; use one of {', '.join(MIXERS)}")
    if n == 1:
        return Single()
    beta, combine = options.beta, reading.combine
    if choice == "hedge" and beta is None and options.horizon is not None:
        own = recipe.log_experts == ORIGINAL or reading.beta_rule == "ln 2n"
        beta = horizon_beta(options.horizon, n if own else 2)
    if choice == "fixed-share" and combine == "simplex":
        choice = "fixed-share-log-loss"
    return MIXERS.make(choice, beta=beta, combination=combine, proof=reading.guarantee)


def _align(recipe: Recipe, training: Training, group: list[InMemory]) -> Alignment:
    U, options = training.warmup, training.options
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
    return training.align(aligner, X, codes, U)


def _project(projection: Projection, X: Matrix, to_unit: bool) -> Matrix:
    Z = unit(projection(X)) if to_unit else projection(X)
    return Z if is_sparse(Z) else np.ascontiguousarray(Z)


def _experts(recipe: Recipe, training: Training, Z: list[Matrix], head: Head) -> tuple[list[Expert], list[Array]]:
    """Frozen source heads first, then the online ones: the order of every array that has one row an expert."""
    shared, names, K, sources = recipe.spaces == "shared", training.names, training.K, training.sources
    width, dtype = max((z.shape[1] for z in Z), default=training.warmup.shape[1]), (Z or [training.warmup])[0].dtype
    zero = np.zeros((K, width), dtype=dtype)

    def trained(rows: Matrix, y: Any, weight: Array | None) -> Array:
        W = zero.copy()
        W[:, : rows.shape[1]] = train(head, rows, y, K, training.options.reading.source_pass, weight)
        return W

    pooled = zero
    if names and "pooled" in (recipe.frozen, recipe.online):
        together = np.argsort(np.concatenate(training.positions), kind="stable")
        codes = np.concatenate([source.codes for source in sources if source.codes is not None])
        weight = [source.weight for source in sources if source.weight is not None]
        pooled = trained(stack_rows(Z)[together], codes[together], np.concatenate(weight)[together] if weight else None)
    experts: list[Expert] = []
    weights: list[Array] = []
    if recipe.frozen == "pooled" and names:
        experts.append(Expert("sources", 0, False))
        weights.append(pooled)
    elif recipe.frozen == "each":
        experts += [Expert(f"source {name}", 0 if shared else i, False) for i, name in enumerate(names)]
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
    constants: State, state: State, projections: list[Projection], refreshes: bool, dtype: np.dtype[Any]
) -> tuple[float | None, ...]:
    """All A side by side (m x n x d, zero columns where a source allowed fewer), and the landmarks of kernel spaces."""
    kernel = [p for p in projections if p.landmarks is not None]
    if refreshes and kernel:
        raise InputError(
            "the refresh moves a linear projection and a kernel aligner has none; "
            "use kernel='primal' or 'linear', or method='oddm-fixed'"
        )
    if all(p.A is None for p in projections) and not refreshes:
        return ()
    m = len(state["target.total"])
    mats = [np.eye(m) if p.A is None else p.A for p in projections]
    A = np.zeros((max(a.shape[0] for a in mats), len(mats), max(a.shape[1] for a in mats)), dtype=dtype)
    for i, a in enumerate(mats):
        A[: a.shape[0], i, : a.shape[1]] = a
    (state if refreshes else constants)["A"] = A
    for i, p in enumerate(kernel):
        constants[f"landmarks.{i}"] = np.asarray(p.landmarks, dtype=dtype)
    return tuple(p.gamma for p in kernel)
