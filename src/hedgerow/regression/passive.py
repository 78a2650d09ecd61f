r"""Passive-aggressive regression and its transfer under Hedge: the regression forms of the paper's methods.

Crammer et al. (2006) give the step for numbers: with :math:`\ell = \max(0, |y - w \cdot z| - \epsilon)`,
:math:`w \leftarrow w + \operatorname{sign}(y - w \cdot z)\,\tau z`, where :math:`\tau` is :math:`\ell/|z|^2` (PA),
:math:`\min(C, \ell/|z|^2)` (PA-I) or :math:`\ell/(|z|^2 + 1/(2C))` (PA-II).

| method | experts | from |
|---|---|---|
| `pa` | the target's | Crammer et al. 2006 |
| `paio` | the target's, started from the pooled sources | the same, initialised as the paper's PAIO |
| `homotl-1` | pooled sources, target; weights by half the squared loss | generalised OTL (Grubinger et al. 2017) |
| `homotl-2` | pooled sources, target; Hedge on absolute losses | ours, after the paper's HomOTL-II |
| `homotlms` | each source, target; Hedge on absolute losses | ours, after the paper's HomOTLMS |

The alignment of ODDM compares classes, and numbers have none: there is no regression form of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import Constants
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.registry import of_json
from hedgerow.learner import Layout, Spec, State, register_learner
from hedgerow.regression.build import Sources, scales
from hedgerow.regression.learner import LARGEST_Z, NumberLearner, number_specs, zeros
from hedgerow.ridge.trees import scaled

if TYPE_CHECKING:
    from hedgerow.kernels.regression import Outcome

METHODS = ("pa", "paio", "homotl-1", "homotl-2", "homotlms")
RULES = {"pa": 0, "pa-1": 1, "pa-2": 2}
EPSILON = 0.01  # in units of the sources' deviation of y
PASSES = 3  # over the rows of a source


@dataclass(frozen=True)
class PassivePlan:
    """The method, the sources, the coverages of the intervals, the rule of the step and its aggressiveness C."""

    method: str
    sources: tuple[str, ...]
    coverage: tuple[float, ...]
    rule: str = "pa-2"
    C: float = 0.1

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PassivePlan:
        """From plain lists and numbers; data of a file is not trusted."""
        return of_json(cls, data).check()

    def check(self) -> PassivePlan:
        """Refuse what no plan can be."""
        if self.method not in METHODS:
            raise unknown("method", self.method, ["hedgerow", *METHODS])
        if self.rule not in RULES:
            raise unknown("head", self.rule, list(RULES))
        if not self.C > 0:
            raise InputError(f"C={self.C!r}: the aggressiveness must be above 0")
        return self

    @property
    def experts(self) -> list[str]:
        """Their names; the last one learns from the target."""
        frozen = {"pa": [], "paio": [], "homotlms": [f"source {name}" for name in self.sources]}
        return [*frozen.get(self.method, ["all sources"] if self.sources else []), "target"]

    def layout(self) -> Layout:
        """A row of weights and a loss an expert, and what every learner of numbers has."""
        n = len(self.experts)
        constants, state = number_specs(n, len(self.coverage))
        state |= {"W": Spec((n, "D")), "L": Spec((n,), low=0)}
        state |= {"miss": Spec((1,), low=1e-9), "loss": Spec((1 + n,), low=0)}

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            if sizes["D"] != sizes["m"] + 1 or not arrays["range"][0] < arrays["range"][1]:
                return f"{sizes['D']} weights of {sizes['m']} columns, y from {arrays['range']}"
            return None

        return Layout(constants, state, (consistent,))


@register_learner
class PassiveLearner(NumberLearner):
    """Linear experts of the sources, frozen, and one of the target that takes passive-aggressive steps, under Hedge."""

    kind = "passive"
    plan_type = PassivePlan
    plan: PassivePlan
    guarantee = "the weighted loss of the experts, each at most 1 a label"

    @property
    def expert_names(self) -> list[str]:
        """The frozen sources, then the target."""
        return self.plan.experts

    @property
    def weights(self) -> Array:
        """Hedge's."""
        n = len(self.plan.experts)
        eta = 1.0 if self.plan.method == "homotl-1" else np.sqrt(8 * np.log(n) / (self.seen + 1))
        w = np.exp(-eta * (self.state["L"] - self.state["L"].min()))
        return np.asarray(w / w.sum())

    @property
    def bound(self) -> float:
        r"""What the sum of |prediction - y|, over the range of y, cannot exceed by Hedge: :math:`\min_i L_i` and
        :math:`2\sqrt{T \ln N/2} + \sqrt{\ln N/8}`; for half the squared loss :math:`\min_i L_i + \ln N`."""
        least, n, T = float(self.state["L"].min()), np.log(len(self.plan.experts)), self.seen
        if self.plan.method == "homotl-1":
            return least + float(n)
        return least + float(2 * np.sqrt(T * n / 2) + np.sqrt(n / 8))

    @property
    def dim(self) -> int:
        """Columns and an intercept."""
        return int(self.state["W"].shape[1])

    def _run(self, X: Array, y: Array, weight: Array, out: Outcome) -> None:
        from hedgerow.kernels.passive import Experts, run

        get = self.constants.for_kernels
        Z = np.hstack([np.ones((len(X), 1)), scaled(X, get("x.mean"), get("x.sd"), LARGEST_Z)])
        settings = np.array([self.plan.C, EPSILON, float(self.plan.method == "homotl-1"), self.seen])
        experts = Experts(*(self.state[name] for name in Experts._fields))
        run(Z, RULES[self.plan.rule], settings, self._coverage, experts, y, weight, out)


def build(plan: PassivePlan, sources: Sources, warmup: Array, first: Array, seed: int) -> PassiveLearner:
    """A learner that has seen no label of the target yet."""
    plan.check()
    constants = scales(sources, warmup, first)
    y = (sources.y - constants["y.mean"]) / constants["y.sd"]
    Z = scaled(sources.X, constants["x.mean"], constants["x.sd"], LARGEST_Z)
    Z, rng = np.hstack([np.ones((len(Z), 1)), Z]), np.random.default_rng(seed)
    each = {name: np.flatnonzero(sources.domain == i) for i, name in enumerate(plan.sources)}
    groups = {f"source {name}": at for name, at in each.items()} | {"all sources": np.arange(len(y))}
    start = "all sources" if plan.method == "paio" else ""
    W = [
        _averaged(plan, Z, y, sources.weight, groups.get(name if name != "target" else start), rng)
        for name in plan.experts
    ]
    low, high = (y.min(), y.max()) if len(y) else (-1.0, 1.0)
    levels = len(plan.coverage)
    state: State = {
        "W": np.array(W), "range": np.array([low, high] if low < high else [low - 1, low + 1]),
        "miss": np.ones(1), "quantile": np.full(levels, 2.0), "top": np.full(1, 2.0),
    }  # fmt: skip
    return PassiveLearner(plan, Constants(constants), zeros(plan, len(constants["x.mean"])) | state)


def _averaged(
    plan: PassivePlan, Z: Array, y: Array, weight: Array, at: Array | None, rng: np.random.Generator
) -> Array:
    """Weights of some rows, the mean over the steps of the last pass; zeros without rows."""
    from hedgerow.kernels.passive import averaged

    w = np.zeros((2, Z.shape[1]))
    if at is not None and len(at):
        order = np.concatenate([rng.permutation(at) for _ in range(PASSES)])
        averaged(Z, y, weight, order, len(at), RULES[plan.rule], plan.C, EPSILON, w)
    return np.asarray(w[1])
