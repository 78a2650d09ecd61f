"""The offline stage of the regressor: scales, trees, feature maps and priors from the sources.

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

from hedgerow import drift
from hedgerow.core.arrays import Array
from hedgerow.core.constants import Constants
from hedgerow.core.linalg import upper_of
from hedgerow.kernels import FARTHEST_Z, LARGEST_Z
from hedgerow.learner import State, prefixed
from hedgerow.regression.learner import ORDER, SPACES, RegressionLearner, RegressionPlan
from hedgerow.ridge.trees import (
    Spans,
    boosted_model,
    boosted_tree,
    columns_of,
    scaled,
    tree_arrays,
    tree_columns,
)

LANDMARKS = 188  # with them a key of numbers is no larger than one of classes
MOST_ROWS = 50_000  # of all sources together that are looked at
MOST_OWN = 5  # sources that have heads and trees of their own: the largest
TRUST = 0.3  # of a source's row in a prior covariance
OTHER = 0.05  # of another source's row in the heads and trees of a source
INTERCEPT = 1e-3  # the ridge on an intercept
PRIORS = ((1.0, 0.02), (3.0, 0.3))  # added variance of the intercept and of a weight
ORDER_PRIOR = 0.1  # variance of a weight of the order
STACK = 5.0  # the ridge of the stack
NARROWEST = 0.1  # range of y in the beginning, in deviations
RIDGES = 10.0 ** np.arange(-3, 4.1, 0.5)
SMALLEST = 1e-6  # of the largest eigenvalue of the landmarks' kernel: smaller ones are left out
ALL = {
    "max_iter": 100,
    "max_leaf_nodes": 31,
}  # the boosting of all sources, with and without their levels
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
        """At most so many rows: of small sources all, of the others as many each, which count for those left out.

        >>> rows = Sources(np.ones((9, 1)), np.ones(9), np.array([0] * 7 + [1] * 2), np.ones(9))
        >>> part = rows.sample(np.random.default_rng(0), 5)
        >>> part.domain.tolist(), part.weight.round(2).tolist()
        ([0, 0, 0, 1, 1], [1.3, 1.3, 1.3, 0.56, 0.56])
        """
        if len(self.y) <= most:
            return self
        counts = np.bincount(self.domain)
        share = np.zeros(len(counts), int)
        for i, source in enumerate(np.argsort(counts, kind="stable")):
            share[source] = min(counts[source], max((most - share.sum()) // (len(counts) - i), 1))
        at = np.concatenate(
            [
                np.sort(rng.choice(np.flatnonzero(self.domain == s), share[s], replace=False))
                for s in range(len(counts))
            ]
        )
        weight = self.weight[at] * (counts / share)[self.domain[at]]
        return Sources(self.X[at], self.y[at], self.domain[at], weight / weight.mean())


def build(
    names: Sequence[str],
    sources: Sources,
    warmup: Array,
    spans: Spans,
    coverage: Sequence[float],
    seed: int,
    first: Array | None = None,
    lags: tuple[int, ...] = (),
) -> RegressionLearner:
    """A learner that has seen no label of the target yet; `first` are labels that give y its units without sources."""
    rng = np.random.default_rng(seed)
    count = len(sources.y)
    sources = sources.sample(rng, MOST_ROWS)
    sampling = (
        f"fitted on a sample of {MOST_ROWS:,} of {count:,} rows of the sources"
        if count > MOST_ROWS
        else ""
    )
    counts = np.bincount(sources.domain, minlength=sources.n)
    own = np.argsort(-counts, kind="stable")[:MOST_OWN].tolist() if sources.n > 1 else []
    plan = RegressionPlan(
        tuple(names), tuple(names[i] for i in own), tuple(coverage), sampling=sampling, lags=lags
    )
    constants = scales(sources, warmup, np.empty(0) if first is None else first)
    mean = constants["mean"]
    sd = constants["deviation"]
    y = (sources.y - constants["y_mean"]) / constants["y_deviation"]
    levels = np.array([np.average(y[at], weights=sources.weight[at]) for at in _rows_of(sources)])
    constants |= prefixed("trees.", trees(sources, y, levels, own, spans, seed))
    Z = scaled(sources.X, mean, sd, LARGEST_Z)
    constants |= landmarks(np.concatenate([Z, scaled(warmup, mean, sd, LARGEST_Z)]), rng)
    linear = np.hstack([np.ones((len(Z), 1)), scaled(sources.X, mean, sd, FARTHEST_Z)])
    width = float(constants["width"][0])
    kernel = kernel_map(Z, constants["landmarks"], width, constants["A"])
    heads = len(plan.heads)
    priors = {"stack": (np.zeros((heads, 1)), np.eye(heads) / STACK)}
    priors[ORDER] = order()
    for name, rows, start in zip(SPACES, (linear, kernel), PRIORS, strict=True):
        priors[name] = regression(rows, y, sources, own, start)
    for name, (M, P) in priors.items():
        constants |= {f"{name}.prior.M": M, f"{name}.prior.P": upper_of(P)}
    constants["source"] = priors["kernel"][0][:, 0].copy()
    constants["farthest"] = np.array([np.ptp(y) if len(y) else 0.0])
    D = sum(len(M) for M, _ in priors.values())
    state = _initial(plan, y, levels, len(mean), D)
    plan.layout().check(constants, state, {"K": 0, "m": len(mean)})
    return RegressionLearner(plan, Constants(constants), state)


def _rows_of(sources: Sources) -> list[Array]:
    return [np.flatnonzero(sources.domain == s) for s in range(sources.n)]


def scales(sources: Sources, warmup: Array, first: Array) -> dict[str, Array]:
    """Means and deviations within domains of the columns and of y.

    A column that no source has is scaled by the warm-up rows, and one that never varies not at all.
    """
    with (
        np.errstate(invalid="ignore"),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),
    ):
        X = np.concatenate([sources.X, warmup])
        means = [np.nanmean(rows, axis=0) for rows in (sources.X, X)]
        mean = np.where(np.isnan(means[0]), means[1], means[0])
        blocks = [sources.X[at] for at in _rows_of(sources)] or [X]
        within = np.sqrt(np.nanmean([np.nanvar(block, axis=0) for block in blocks], axis=0))
        spread = np.nanstd(X, axis=0)
    sd = np.where(within > 1e-9, within, np.where(spread > 1e-9, spread, 1.0))
    y = sources.y if sources.n else first
    weight = sources.weight if sources.n else np.ones(len(first))
    level = float(np.average(y, weights=weight)) if len(y) else 0.0
    deviation = _deviation([(y[at], weight[at]) for at in _rows_of(sources) or [np.arange(len(y))]])
    if deviation <= 1e-9 * abs(level):
        deviation = max(abs(level), 1.0)
    return {
        "mean": np.nan_to_num(mean), "deviation": np.nan_to_num(sd, nan=1.0),
        "y_mean": np.array([level]), "y_deviation": np.array([deviation]),
    }  # fmt: skip


def _deviation(parts: Sequence[tuple[Array, Array]]) -> float:
    """The root of the mean variance of parts, each with its weights; no square overflows, or vanishes."""
    away = [y - np.average(y, weights=weight) for y, weight in parts if len(y)]
    largest = max((float(np.abs(each).max()) for each in away), default=0.0)
    if largest == 0:
        return 0.0
    weights = [weight for _, weight in parts if len(weight)]
    variances = [
        np.average((each / largest) ** 2, weights=weight)
        for each, weight in zip(away, weights, strict=True)
    ]
    return float(largest * np.sqrt(np.mean(variances)))


def trees(
    sources: Sources, y: Array, levels: Array, own: Sequence[int], spans: Spans, seed: int
) -> dict[str, Array]:
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
        (
            model._baseline_prediction.ravel(),
            [(0, boosted_tree(tree.nodes)) for (tree,) in model._predictors],
        )
        for model in models
    ]
    return (
        arrays
        | tree_arrays(boosted or [(np.zeros(1), [])])
        | {"counts": np.zeros((0, 0, 0), np.float32)}
    )


def squared_distances(A: Array, B: Array) -> Array:
    """Between all rows of A and all rows of B."""
    return np.asarray(np.maximum((A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T, 0))


def kernel_map(Z: Array, landmarks: Array, width: float, A: Array) -> Array:
    """[1, z, k(z, landmarks) A] with the Gaussian kernel."""
    return np.hstack(
        [np.ones((len(Z), 1)), Z, np.exp(-squared_distances(Z, landmarks) / width) @ A]
    )


def landmarks(X: Array, rng: np.random.Generator) -> dict[str, Array]:
    """A sample of rows, the median squared distance between them, and the map that makes their kernel the identity."""
    rows = X[rng.permutation(len(X))[:LANDMARKS]]
    D = squared_distances(rows, rows)
    width = float(np.median(D[D > 1e-9])) if (D > 1e-9).any() else float(max(X.shape[1], 1))
    values, vectors = np.linalg.eigh(np.exp(-D / width))
    kept = values > SMALLEST * values.max(initial=0)
    return {
        "landmarks": rows,
        "width": np.array([width]),
        "A": vectors[:, kept] / np.sqrt(values[kept]),
    }


def evidence_ridge(Z: Array, y: Array, w: Array) -> float:
    r"""The ridge with the largest marginal likelihood; column 0 is the intercept, which is free."""
    if len(y) < 2:
        return 1.0
    root = np.sqrt(w)[:, None]
    centred = root * (Z[:, 1:] - np.average(Z[:, 1:], axis=0, weights=w))
    yc = root[:, 0] * (y - np.average(y, weights=w))
    values, vectors = np.linalg.eigh(centred.T @ centred)
    values = np.maximum(values, 0)
    b = vectors.T @ (centred.T @ yc)
    n = len(y) - 1

    def likelihood(lam: float) -> float:
        variance = max((yc @ yc - (b**2 / (values + lam)).sum()) / n, 1e-12)
        return float(-0.5 * (n * np.log(variance) + np.log1p(values / lam).sum()))

    return float(max(RIDGES, key=likelihood))


def regression(
    Z: Array, y: Array, sources: Sources, own: Sequence[int], start: tuple[float, float]
) -> tuple[Array, Array]:
    """The prior of a feature map: weights (a column a head) and covariance.

    Heads: all sources, each of `own` with the others at OTHER, the target alone, the residual of the trees.
    """
    D = Z.shape[1]
    w = sources.weight
    ridge = np.full(D, evidence_ridge(Z, y, w))
    ridge[0] = INTERCEPT
    weightings = [w, *(w * np.where(sources.domain == s, 1.0, OTHER) for s in own)]
    grams = [(Z.T * each) @ Z for each in weightings]
    heads = [
        np.linalg.solve(np.diag(ridge) + gram, (Z.T * each) @ y)
        for each, gram in zip(weightings, grams, strict=True)
    ]
    P = np.linalg.inv(np.diag(ridge) + TRUST * grams[0])
    P += np.diag(np.concatenate([[start[0]], np.full(D - 1, start[1])]))
    return np.stack([*heads, np.zeros(D), np.zeros(D)], axis=1), (P + P.T) / 2


def order() -> tuple[Array, Array]:
    """The prior of the regression of the order; no source teaches it."""
    from hedgerow.kernels.regression import ORDERED

    variances = np.full(ORDERED, ORDER_PRIOR)
    variances[0] = 1.0
    return np.zeros((ORDERED, 1)), np.diag(variances)


def _initial(plan: RegressionPlan, y: Array, levels: Array, m: int, D: int) -> State:
    """The state beside the regressions, before any label."""
    from hedgerow.kernels.regression import OF_A_ROW

    S = len(plan.sources)
    low, high = np.quantile(y, [0.01, 0.99]) if len(y) else (0.0, 0.0)
    if high - low < NARROWEST:
        low = low - 1.0
        high = high + 1.0
    between = levels.var() * S / (S - 1) if S > 1 else 0.25  # how far levels of domains are apart
    fear = np.sqrt(0.5 + between)
    quantiles = ndtri((1 + np.array(plan.coverage)) / 2)
    state = plan.layout().zeros(kept=0, columns=m + OF_A_ROW, D=D)
    state["level"][:, [0, 2]] = 1.0, 0.1
    return (
        state
        | drift.initial(state["counts"])
        | {
            "range": np.array([low, high]),
            "miss": np.array([fear, 2.0]),
            "quantile": quantiles,
            "top": np.array([quantiles.max()]),
        }
    )
