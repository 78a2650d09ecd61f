"""The offline stage of the regressor: scales, trees, feature maps, priors and kept rows from the sources.

Everything is fitted on the sources' rows in units of their deviation within a domain, each row by its weight. A model
without sources starts from the scales of its first rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

from hedgerow.core.arrays import Array
from hedgerow.core.constants import Constants
from hedgerow.learner import State, prefixed
from hedgerow.regression.learner import (
    FARTHEST_Z,
    LARGEST_Z,
    REGRESSIONS,
    RegressionLearner,
    RegressionPlan,
    kernel_map,
    squared_distances,
    zeros,
)
from hedgerow.ridge.trees import Spans, boosted_model, boosted_tree, columns_of, scaled, tree_arrays, tree_columns

LANDMARKS, SOURCE_ROWS = 200, 2000
MOST_ROWS = 50_000  # of all sources together that are looked at
MOST_OWN = 6  # sources that have heads of their own: the largest
TRUST, OTHER = 0.3, 0.05  # of a source's row in a prior covariance; of another source's row in a source's own head
INTERCEPT = 1e-3  # the ridge on an intercept
PRIORS = ((1.0, 0.02), (1.0, 0.02), (3.0, 0.3), (1.0, 0.02))  # added variance of the intercept and of a weight
RIDGES = 10.0 ** np.arange(-3, 4.1, 0.5)
SMALLEST = 1e-6  # of the largest eigenvalue of the landmarks' kernel: smaller ones are left out
ALL = {"max_iter": 100, "max_leaf_nodes": 31}  # the boosting of all sources, with and without their levels
EACH = {"max_iter": 60, "max_leaf_nodes": 15}  # and of each


@dataclass(frozen=True)
class Sources:
    """The labelled rows of all sources: rows with gaps as NaN, y, the number of the source, weights of mean one."""

    X: Array
    y: Array
    domain: Array
    weight: Array

    @property
    def n(self) -> int:
        """How many sources."""
        return int(self.domain.max()) + 1 if len(self.domain) else 0

    def sample(self, rng: np.random.Generator, most: int) -> Sources:
        """At most so many rows."""
        if len(self.y) <= most:
            return self
        at = np.sort(rng.permutation(len(self.y))[:most])
        return Sources(self.X[at], self.y[at], self.domain[at], self.weight[at])


def build(
    names: Sequence[str],
    sources: Sources,
    warmup: Array,
    spans: Spans,
    coverage: Sequence[float],
    seed: int,
    first: Array | None = None,
) -> RegressionLearner:
    """A learner that has seen no label of the target yet; `first` are labels that give y its units without sources."""
    rng = np.random.default_rng(seed)
    count = len(sources.y)
    sources = sources.sample(rng, MOST_ROWS)
    sampling = f"fitted on a sample of {MOST_ROWS:,} of {count:,} rows of the sources" if count > MOST_ROWS else ""
    counts = np.bincount(sources.domain, minlength=sources.n)
    own = np.argsort(-counts, kind="stable")[:MOST_OWN].tolist() if sources.n > 1 else []
    plan = RegressionPlan(tuple(names), tuple(names[i] for i in own), tuple(coverage), sampling=sampling)
    constants = scales(sources, warmup, np.empty(0) if first is None else first)
    mean, sd = constants["x.mean"], constants["x.sd"]
    y = (sources.y - constants["y.mean"]) / constants["y.sd"]
    levels = np.array([np.average(y[at], weights=sources.weight[at]) for at in _rows_of(sources)])
    constants |= prefixed("trees.", trees(sources, y, levels, own, spans, seed))
    Z = scaled(sources.X, mean, sd, LARGEST_Z)
    constants |= landmarks(np.concatenate([Z, scaled(warmup, mean, sd, LARGEST_Z)]), rng)
    kept = rng.permutation(len(Z))[:SOURCE_ROWS]
    constants |= {"near.x": Z[kept], "near.y": y[kept]}
    linear = np.hstack([np.ones((len(Z), 1)), scaled(sources.X, mean, sd, FARTHEST_Z)])
    width = float(constants.pop("width")[0])
    kernel = kernel_map(Z, constants["landmarks"], width, constants["A"])
    state: State = {}
    for i, (rows, start) in enumerate(zip((linear, kernel, kernel, kernel), PRIORS, strict=True)):
        M, P = regression(rows, y, sources, own, start)
        state |= {f"regression.{i}.P": P, f"regression.{i}.M": M if i < len(REGRESSIONS) - 1 else M[[0, -1]].copy()}
    constants["source"] = state["regression.1.M"][0].copy()
    farthest = float(np.ptp(y)) if len(y) else 0.0
    constants["settings"] = np.array([width, farthest, np.trace(state["regression.3.P"])])
    state |= _initial(plan, y, levels, len(mean))
    return RegressionLearner(plan, Constants(constants), state)


def _rows_of(sources: Sources) -> list[Array]:
    return [np.flatnonzero(sources.domain == s) for s in range(sources.n)]


def scales(sources: Sources, warmup: Array, first: Array) -> dict[str, Array]:
    """Means and deviations within domains of the columns and of y.

    A column that no source has is scaled by the warm-up rows, and one that never varies not at all.
    """
    with np.errstate(invalid="ignore"), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        X = np.concatenate([sources.X, warmup])
        means = [np.nanmean(rows, axis=0) for rows in (sources.X, X)]
        mean = np.where(np.isnan(means[0]), means[1], means[0])
        blocks = [sources.X[at] for at in _rows_of(sources)] or [X]
        within = np.sqrt(np.nanmean([np.nanvar(block, axis=0) for block in blocks], axis=0))
        spread = np.nanstd(X, axis=0)
    sd = np.where(within > 1e-9, within, np.where(spread > 1e-9, spread, 1.0))
    y, w = sources.y, sources.weight
    if sources.n:
        level = np.average(y, weights=w)
        parts = [(y[at], w[at]) for at in _rows_of(sources)]
        variances = [np.average((own - np.average(own, weights=u)) ** 2, weights=u) for own, u in parts]
        deviation = np.sqrt(np.mean(variances))
    else:
        level, deviation = (first.mean(), first.std()) if len(first) else (0.0, 0.0)
    deviation = deviation if deviation > 1e-9 * max(abs(level), 1e-200) else max(abs(level), 1.0)
    return {
        "x.mean": np.nan_to_num(mean), "x.sd": np.nan_to_num(sd, nan=1.0),
        "y.mean": np.array([level]), "y.sd": np.array([deviation]),
    }  # fmt: skip


def trees(sources: Sources, y: Array, levels: Array, own: Sequence[int], spans: Spans, seed: int) -> dict[str, Array]:
    """Boosted trees of all sources, of all within their levels, and of each: arrays of `kernels.trees.Trees`."""
    arrays = tree_columns([sources.X], spans)
    X = columns_of(arrays, sources.X)
    fits = [(ALL, y, sources.weight)] if sources.n else []
    if sources.n > 1:
        fits.append((ALL, y - levels[sources.domain], sources.weight))
        fits += [(EACH, y, sources.weight * np.where(sources.domain == s, 1.0, OTHER)) for s in own]
    with threadpool_limits(1, "openmp"):  # on rows that are few, threads mostly wait for each other
        models = [
            boosted_model("Regressor", X, target, weight, seed, min_samples_leaf=5, **size)
            for size, target, weight in fits
        ]
    boosted = [
        (model._baseline_prediction.ravel(), [(0, boosted_tree(tree.nodes)) for (tree,) in model._predictors])
        for model in models
    ]
    return arrays | tree_arrays(boosted or [(np.zeros(1), [])]) | {"counts": np.zeros((0, 0, 0))}


def landmarks(X: Array, rng: np.random.Generator) -> dict[str, Array]:
    """A sample of rows, the median squared distance between them, and the map that makes their kernel the identity."""
    rows = X[rng.permutation(len(X))[:LANDMARKS]]
    D = squared_distances(rows, rows)
    width = float(np.median(D[D > 1e-9])) if (D > 1e-9).any() else float(max(X.shape[1], 1))
    values, vectors = np.linalg.eigh(np.exp(-D / width))
    kept = values > SMALLEST * values.max(initial=0)
    return {"landmarks": rows, "width": np.array([width]), "A": vectors[:, kept] / np.sqrt(values[kept])}


def evidence_ridge(Z: Array, y: Array, w: Array) -> float:
    r"""The ridge with the largest marginal likelihood; column 0 is the intercept, which is free."""
    if len(y) < 2:
        return 1.0
    root = np.sqrt(w)[:, None]
    centred, yc = (
        root * (Z[:, 1:] - np.average(Z[:, 1:], axis=0, weights=w)),
        root[:, 0] * (y - np.average(y, weights=w)),
    )
    values, vectors = np.linalg.eigh(centred.T @ centred)
    values, b, n = np.maximum(values, 0), vectors.T @ (centred.T @ yc), len(y) - 1

    def likelihood(lam: float) -> float:
        variance = max((yc @ yc - (b**2 / (values + lam)).sum()) / n, 1e-12)
        return float(-0.5 * (n * np.log(variance) + np.log1p(values / lam).sum()))

    return float(max(RIDGES, key=likelihood))


def regression(
    Z: Array, y: Array, sources: Sources, own: Sequence[int], start: tuple[float, float]
) -> tuple[Array, Array]:
    """The prior of a feature map: weights (a row a head) and covariance.

    Heads: all sources, within (every domain has an intercept of its own), each source with the others at OTHER, the
    target alone, the residual of the trees.
    """
    D, w = Z.shape[1], sources.weight
    ridge = np.full(D, evidence_ridge(Z, y, w))
    ridge[0] = INTERCEPT
    gram = (Z.T * w) @ Z
    heads = [np.linalg.solve(np.diag(ridge) + gram, (Z.T * w) @ y)]
    if sources.n > 1:
        C = np.hstack([Z, sources.domain[:, None] == np.arange(sources.n)])
        both = np.concatenate([ridge, np.full(sources.n, 0.1)])
        heads.append(np.linalg.solve((C.T * w) @ C + np.diag(both), (C.T * w) @ y)[:D])
        for s in own:
            each = w * np.where(sources.domain == s, 1.0, OTHER)
            heads.append(np.linalg.solve(np.diag(ridge) + (Z.T * each) @ Z, (Z.T * each) @ y))
    P = np.linalg.inv(np.diag(ridge) + TRUST * gram) + np.diag(np.concatenate([[start[0]], np.full(D - 1, start[1])]))
    return np.array([*heads, np.zeros(D), np.zeros(D)]), (P + P.T) / 2


def _initial(plan: RegressionPlan, y: Array, levels: Array, m: int) -> State:
    """The state beside the regressions, before any label."""
    H, G, S = len(plan.heads), len(plan.outputs), len(plan.sources)
    low, high = np.quantile(y, [0.01, 0.99]) if len(y) else (-1.0, 1.0)
    if not low < high:
        low, high = low - 1.0, high + 1.0
    between = levels.var() * S / (S - 1) if S > 1 else 0.25  # how far levels of domains are apart
    fear = np.sqrt(0.5 + between)
    quantiles = ndtri((1 + np.array(plan.coverage)) / 2)
    return zeros(plan, m) | {
        "level_P": np.tile(np.diag([1.0, 0.1]), (2, G, 1, 1)),
        "range": np.array([low, high]),
        "miss": np.array([fear, 2.0]),
        "quantile": quantiles,
        "top": np.array([quantiles.max()]),
        "stack_P": np.array([np.eye(H) / 10, np.eye(H) / 100]),
    }
