"""The offline stage: from a recipe, its options, labelled sources and unlabelled target rows to a learner.

For every space: align, project the source, train the source classifiers; then lay out the experts and the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from hedgerow.align import ALIGNERS, Aligner, Alignment, Projection
from hedgerow.core.arrays import Array, Matrix, is_sparse, stack_rows
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.moments import Moments
from hedgerow.core.preprocess import Preprocess, unit
from hedgerow.heads import Head, make_head, train
from hedgerow.heads.sparse_pass import train_sparse
from hedgerow.learners.base import MOMENTS, OnlineLearner, State
from hedgerow.learners.experts.block_refresh import Refresh
from hedgerow.learners.experts.learner import Expert, Learner, Plan
from hedgerow.learners.ridge.learner import RidgeLearner, build_ridge
from hedgerow.methods import ORIGINAL, Recipe
from hedgerow.methods.readings import Reading
from hedgerow.mix import (
    AdaHedge,
    FixedShare,
    FixedShareLogLoss,
    Hedge,
    LogLoss,
    LossBased,
    Mixer,
    Single,
    Squint,
    horizon_beta,
)

MIXERS = ("hedge", "adahedge", "squint", "fixed-share", "loss", "log-loss", "single")
ADAPTIVE: dict[str, Callable[[str], Mixer]] = {"adahedge": AdaHedge, "squint": Squint, "fixed-share": FixedShare}
AlignFit = Callable[[Aligner, Matrix, Array, Matrix], Alignment]


@dataclass(frozen=True)
class Options:
    """What a recipe leaves open."""

    reading: Reading
    aligner: str | Aligner | None = None
    dim: int = 100
    rounds: int = 10
    C: float = 5.0
    mu: float = 1.0
    beta: float | None = None
    horizon: float | None = None
    head: str = "pa1"
    mixer: str | None = None
    loss: str = "projection"
    eta: float = 0.5
    seed: int = 0
    rank: int | None = None


@dataclass(frozen=True)
class Source:
    """A named source, its labels as codes 0..K-1, and where its rows stood among those of all sources.

    `weight` says how much each label counts for the classifiers and the moments; None is one for all.
    """

    name: str
    X: Matrix
    codes: Array
    positions: Array
    weight: Array | None = None


@dataclass(frozen=True)
class Built:
    """A learner ready for the stream, and how its spaces were found."""

    learner: OnlineLearner
    alignments: list[Alignment]


def fit_aligner(aligner: Aligner, X: Matrix, codes: Array, warmup: Matrix) -> Alignment:
    """The plain way; the paper's experiments pass one that remembers."""
    return aligner.fit(X, codes, warmup)


def build(
    recipe: Recipe, options: Options, sources: Sequence[Source], warmup: Matrix, K: int, align: AlignFit = fit_aligner
) -> Built:
    """The whole offline stage. `warmup` may have no rows, and `sources` may be empty: then only the target learns."""
    reading = options.reading
    pre = Preprocess(reading.preprocess)
    Xs, U = pre.start([s.X for s in sources], warmup)
    codes = [s.codes for s in sources]
    head = make_head(head_rule(options), options.C)
    if recipe.ridge:
        return _build_ridge(recipe, options, pre, sources, Xs, U, K)
    shared = recipe.spaces == "shared"
    groups = [list(range(len(sources)))] if shared else [[i] for i in range(len(sources))]
    if not sources:
        groups = [[]]
    alignments = [_align(recipe, options, [Xs[i] for i in g], [codes[i] for i in g], U, align) for g in groups]
    projections = [a.projection for a in alignments]
    mapped = [projections[0 if shared else i].mapped(X) for i, X in enumerate(Xs)]
    refreshes = recipe.refresh and bool(sources)
    to_unit = reading.projected == "unit" and (refreshes or any(p.A is not None for p in projections))
    Z = [_project(projections[0 if shared else i], X, to_unit) for i, X in enumerate(mapped)]
    together = (
        np.argsort(np.concatenate([s.positions for s in sources]), kind="stable") if sources else np.empty(0, int)
    )
    empty = np.empty((0, U.shape[1]), dtype=U.dtype)
    experts, weights = _experts(recipe, sources, Z or [empty], together, K, head, reading)

    moments = [Moments.of(X, s.codes, K, weight=s.weight) for X, s in zip(mapped, sources, strict=True)]
    state = _bookkeeping(moments, U, K, reading, len(experts)) | pre.arrays()
    mixer = make_mixer(recipe, options, len(experts))
    state |= {"W": np.stack(weights)} | mixer.start(len(experts))
    memory = head.memory(weights[0].shape[1], weights[0].dtype)
    if memory is not None:
        state["memory"] = np.stack([memory for expert in experts if expert.learns])
    gammas = _add_projections(state, projections, refreshes, weights[0].dtype)
    plan = Plan(
        steps=pre.steps,
        experts=tuple(experts),
        mixer=mixer,
        rule=head.rule,
        C=options.C,
        unit_projection=to_unit,
        gammas=gammas,
        refresh=Refresh(reading.refresh_every, options.mu, reading.unseen, reading.inverse) if refreshes else None,
    )
    return Built(Learner(plan, state), alignments)


def _build_ridge(
    recipe: Recipe,
    options: Options,
    pre: Preprocess,
    sources: Sequence[Source],
    Xs: list[Matrix],
    U: Matrix,
    K: int,
) -> Built:
    for name, value in (("mixer", options.mixer), ("aligner", options.aligner)):
        if value is not None:
            raise InputError(
                f"{name}={value!r}: {recipe.title} has its own; leave it out, or choose a method of the paper, "
                "for instance method='oddm'"
            )
    parts = [(s.name, X, s.codes) for s, X in zip(sources, Xs, strict=True)]
    weights = [s.weight for s in sources]
    plan, state = build_ridge(recipe.ridge, parts, U, pre, K, options.seed, options.rank, weights)
    moments = [Moments.of(X, s.codes, K, weight=s.weight) for X, s in zip(Xs, sources, strict=True)]
    state |= _bookkeeping(moments, U, K, options.reading, len(plan.heads) + 1) | pre.arrays()
    return Built(RidgeLearner(plan, state), [])


def head_rule(options: Options) -> str:
    """The head's name, with the printed tau where the reading asks for it."""
    return "pa1-printed" if options.head == "pa1" and options.reading.tau == "printed" else options.head


def make_aligner(choice: str | Aligner, options: Options) -> Aligner:
    """An aligner by name gets those of dim, lam, rounds, eigenvectors, seed that it knows; an object stays as it is."""
    if not isinstance(choice, str):
        if not isinstance(choice, Aligner):
            raise InputError(f"aligner={choice!r}: give a name or an object with fit(source, codes, target)")
        return choice
    cls: Any = ALIGNERS[choice]
    known = {f.name for f in fields(cls)} if is_dataclass(cls) else set()
    given = {
        "dim": options.dim,
        "lam": options.reading.lam,
        "rounds": options.rounds,
        "eigenvectors": options.reading.eigenvectors,
        "seed": options.seed,
    }
    aligner: Aligner = cls(**{name: value for name, value in given.items() if name in known})
    return aligner


def make_mixer(recipe: Recipe, options: Options, n: int) -> Mixer:
    """The recipe's mixer for n experts; without beta and horizon, Hedge's anytime rule.

    Fixed share that averages points of the simplex is that on the log-loss.
    """
    reading = options.reading
    kind = options.mixer or recipe.mixer
    if kind not in MIXERS:
        raise unknown("mixer", kind, MIXERS)
    if kind == "single" and n > 1:
        raise InputError(f"mixer='single' cannot combine {n} experts; use one of {', '.join(MIXERS[:-1])}")
    if n == 1:
        return Single()
    if kind == "loss":
        return LossBased(options.eta, options.loss, reading.combine or "simplex")
    if kind == "log-loss":
        return LogLoss()
    if kind == "fixed-share" and reading.combine == "simplex":
        return FixedShareLogLoss()
    if kind in ADAPTIVE:
        return ADAPTIVE[kind](reading.combine or "scores")
    beta = options.beta
    if beta is None and options.horizon is not None:
        own = recipe.log_experts == ORIGINAL or reading.beta_rule == "ln 2n"
        beta = horizon_beta(options.horizon, n if own else 2)
    return Hedge(beta, reading.combine or "scores", reading.guarantee)


def _align(
    recipe: Recipe, options: Options, Xs: list[Matrix], codes: list[Array], U: Matrix, align: AlignFit
) -> Alignment:
    if not Xs:
        return ALIGNERS["identity"]().fit(U, np.empty(0, dtype=np.int64), U)
    aligner = make_aligner(options.aligner or recipe.aligner, options)
    if len(Xs) == 1:
        return align(aligner, Xs[0], codes[0], U)
    return align(aligner, stack_rows(Xs), np.concatenate(codes), U)


def _project(projection: Projection, X: Matrix, to_unit: bool) -> Matrix:
    Z = unit(projection(X)) if to_unit else projection(X)
    return Z if is_sparse(Z) else np.ascontiguousarray(Z)


def _experts(
    recipe: Recipe,
    sources: Sequence[Source],
    Z: list[Matrix],
    together: Array,
    K: int,
    head: Head,
    reading: Reading,
) -> tuple[list[Expert], list[Array]]:
    """Frozen source heads first, then the online ones: the order of every array that has one row an expert."""
    shared, names, n = recipe.spaces == "shared", [s.name for s in sources], len(sources)
    zero = np.zeros((K, max(z.shape[1] for z in Z)), dtype=Z[0].dtype)

    def trained(rows: Matrix, y: Array, weight: Array | None) -> Array:
        W = zero.copy()
        fit = train_sparse if is_sparse(rows) else train
        W[:, : rows.shape[1]] = fit(head, rows, y, K, reading.source_pass, weight)
        return W

    pooled = (
        trained(
            stack_rows(Z)[together], np.concatenate([s.codes for s in sources])[together], _joined(sources, together)
        )
        if n and "pooled" in (recipe.frozen, recipe.online)
        else zero
    )
    experts: list[Expert] = []
    weights: list[Array] = []
    if recipe.frozen == "pooled" and n:
        experts.append(Expert("sources", 0, False))
        weights.append(pooled)
    elif recipe.frozen == "each":
        experts += [Expert(f"source {name}", 0 if shared else i, False) for i, name in enumerate(names)]
        weights += [trained(z, s.codes, s.weight) for z, s in zip(Z[:n], sources, strict=True)]
    start = pooled if recipe.online == "pooled" else zero
    if shared or not n:
        experts.append(Expert("target", 0, True))
        weights.append(start.copy())
    else:
        experts += [Expert(f"target via {name}", i, True) for i, name in enumerate(names)]
        weights += [start.copy() for _ in names]
    return experts, weights


def _joined(sources: Sequence[Source], together: Array) -> Array | None:
    """The weights of all sources' rows, in the order of a pooled pass; None if no source has any."""
    if all(s.weight is None for s in sources):
        return None
    parts = [np.ones(len(s.codes)) if s.weight is None else s.weight for s in sources]
    return np.asarray(np.concatenate(parts)[together])


def _bookkeeping(moments: list[Moments], U: Matrix, K: int, reading: Reading, experts: int) -> State:
    """What every learner keeps: moments of sources and target, counters."""
    kept = U if reading.target_mean == "warmup" else U[:0]
    state: State = Moments.of(kept, None, K).arrays("target")
    for name in MOMENTS:
        parts = [getattr(part, name) for part in moments or [Moments.empty(U.shape[1], K)]]
        state[f"source.{name}"] = np.stack(parts)[: len(moments)]
    state["expert_mistakes"] = np.zeros(experts, dtype=np.int64)
    state["mixture_loss"] = np.zeros(1)
    for name in ("seen", "mistakes"):
        state[name] = np.zeros(1, dtype=np.int64)
    return state


def _add_projections(
    state: State, projections: list[Projection], refreshes: bool, dtype: np.dtype[Any]
) -> tuple[float | None, ...]:
    """The stacked A (n x m x d, zero columns where a source allowed fewer) and the landmarks of kernel spaces."""
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
    A = np.zeros((len(mats), max(a.shape[0] for a in mats), max(a.shape[1] for a in mats)), dtype=dtype)
    for i, a in enumerate(mats):
        A[i, : a.shape[0], : a.shape[1]] = a
    state["A"] = A
    for i, p in enumerate(projections):
        if p.landmarks is not None:
            state[f"landmarks.{i}"] = p.landmarks.astype(dtype)
    return tuple(p.gamma for p in kernel)
