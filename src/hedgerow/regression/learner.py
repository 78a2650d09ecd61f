"""The regressor's learner: what it is made of (heads by name, sources, arrays), and how it predicts and learns rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow import drift as evidence
from hedgerow.core.arrays import Array, Matrix, blocks, dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.registry import of_json
from hedgerow.learner import BLOCK, MOST, WHOLE, Layout, Learner, Spec, State, prefixed, register_learner, under
from hedgerow.ridge import trees
from hedgerow.ridge.trees import scaled, trees_of

if TYPE_CHECKING:
    from hedgerow.kernels.regression import Memory, Outcome, Rows

LARGEST_Z = 8.0  # scaled columns are clipped there
FARTHEST_Z = 50.0  # and there for the linear regression, which extrapolates
SOURCE_VOTE = 0.1  # of a source's row nearby, against one of the target
REGRESSIONS = ("linear", "kernel", "kernel, free", "kernel, recent")
OUTPUTS = ("trees", "kernel")  # the frozen outputs that residuals are taken of
MIXTURES = ("ML-Poly", "exponential weights", "stack", "stack, strong ridge")
TARGET_ROWS = 1000


def number_specs(experts: int, levels: int) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """What every learner of numbers has: scales; the range of y, trackers of intervals, counters."""
    constants = {"x.mean": Spec(("m",)), "x.sd": Spec(("m",), low=1e-300)}
    constants |= {"y.mean": Spec((1,)), "y.sd": Spec((1,), low=1e-300)}
    state = {"range": Spec((2,)), "quantile": Spec((levels,), low=0), "top": Spec((1,), low=0)}
    state |= {"covered": Spec((levels,), WHOLE, 0, MOST), "counts": Spec((2 + experts,), WHOLE, 0, MOST)}
    return constants, state | evidence.specs(2 + experts)


def zeros(plan: Any, m: int) -> State:
    """The state before any label, where it is zero."""
    state: State = plan.layout().zeros(m=m)
    return state | evidence.initial(state["counts"])


@dataclass(frozen=True)
class RegressionPlan:
    """The sources, those with heads of their own, the coverages of the intervals, and how many target rows are kept.

    `sampling` says that the heads were fitted on a sample of the sources' rows, for people.
    """

    sources: tuple[str, ...]
    own: tuple[str, ...]
    coverage: tuple[float, ...]
    kept: int = TARGET_ROWS
    sampling: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RegressionPlan:
        """From plain lists and numbers; data of a file is not trusted."""
        plan = of_json(cls, data)
        if not set(plan.own) <= set(plan.sources) or (plan.own and len(plan.sources) < 2):
            raise InputError(f"heads of {plan.own} for the sources {plan.sources}")
        if plan.kept < 1 or not plan.coverage or not all(0 < c < 1 for c in plan.coverage):
            raise InputError(f"{plan.kept} kept rows and coverage={plan.coverage}")
        return plan

    @property
    def trained(self) -> list[str]:
        """What is trained on the sources, for trees and for every regression: all, within, each of `own`."""
        if not self.sources:
            return ["no source"]
        return [
            "all sources",
            *(["within sources"] if len(self.sources) > 1 else []),
            *(f"source {s}" for s in self.own),
        ]

    def columns(self, i: int) -> list[str]:
        """The heads of regression i."""
        last = "residual of the trees"
        return [self.trained[0], last] if i == len(REGRESSIONS) - 1 else [*self.trained, "target alone", last]

    @property
    def outputs(self) -> list[str]:
        """The frozen outputs: of the trees, and of the kernel regression of all sources."""
        return [*(f"trees: {name}" for name in self.trained), f"kernel: {self.trained[0]}, frozen"]

    @property
    def heads(self) -> list[str]:
        """All heads, in the order of the compiled loop."""
        names = [f"{space}: {name}" for i, space in enumerate(REGRESSIONS) for name in self.columns(i)]
        names += [
            f"{output}, {what}" for what in ("level and scale", "recent level and scale") for output in self.outputs
        ]
        names += [f"{name}, {what}" for what in ("frozen", "mean offset", "recent offset") for name in OUTPUTS]
        for what in ("near", "nearest"):
            names += [f"{what} rows: residuals of {name}" for name in OUTPUTS] + [f"{what} rows"]
        return [*names, "nearest rows, sources too", "mean of the target", "moving average of the target"]

    def layout(self) -> Layout:
        """Name, shape, type and range of every array."""
        heads, levels, outputs = len(self.heads), len(self.coverage), len(self.outputs)
        constants, state = number_specs(heads, levels)
        constants |= {
            "landmarks": Spec(("l", "m")),
            "settings": Spec((3,), low=0),
            "A": Spec(("l", "r")),
            "source": Spec(("D",)),
            "near.x": Spec(("near", "m")),
            "near.y": Spec(("near",)),
        }
        constants |= prefixed("trees.", trees.specs(len(self.trained), 1, forest=False)[0])
        state |= {
            "level_P": Spec((2, outputs, 2, 2)),
            "level_a": Spec((2, outputs, 2)),
            "offsets": Spec((2, 2)),
            "running": Spec((4,)),
            "kept_x": Spec((self.kept, "m")),
            "kept_y": Spec((self.kept, 4)),
            "place": Spec((2,), WHOLE, 0, self.kept),
            "miss": Spec((2,), low=0),
            "R": Spec((heads,)),
            "S": Spec((heads,), low=0),
            "L": Spec((heads,), low=0),
            "stack_P": Spec((2, heads, heads)),
            "stack_a": Spec((2, heads)),
            "last_R": Spec((len(MIXTURES),)),
            "last_S": Spec((len(MIXTURES),), low=0),
            "loss": Spec((2 + heads,), low=0),
        }
        for i in range(len(REGRESSIONS)):
            D = "Dl" if i == 0 else "D"
            state |= {f"regression.{i}.P": Spec((D, D)), f"regression.{i}.M": Spec((len(self.columns(i)), D))}

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            if sizes["Dl"] != sizes["m"] + 1 or sizes["D"] != sizes["m"] + 1 + sizes["r"]:
                return (
                    f"{sizes['Dl']} and {sizes['D']} dimensions of {sizes['m']} columns and {sizes['r']} of the kernel"
                )
            count, place = arrays["place"].tolist()
            if count < self.kept and place != count:
                return f"{count} kept rows, of which the next is {place}"
            if (
                not arrays["settings"][0] > 0
                or not arrays["miss"][0] > 0
                or not arrays["range"][0] < arrays["range"][1]
            ):
                return "a width, a mean miss and a range of y above 0 are needed"
            return next(trees.problems(under("trees.", arrays), sizes, forest=False), None)

        return Layout(constants, state, (consistent,))


class NumberTrace(NamedTuple):
    """What was predicted for each row of a block, in the units of y.

    predictions (B), half (B x levels): half the width of each interval, experts (B x N): what each head predicts.
    """

    predictions: Array
    half: Array
    experts: Array


def squared_distances(A: Array, B: Array) -> Array:
    """Between all rows of A and all rows of B."""
    return np.asarray(np.maximum((A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * A @ B.T, 0))


def kernel_map(Z: Array, landmarks: Array, width: float, A: Array) -> Array:
    """[1, z, k(z, landmarks) A] with the Gaussian kernel."""
    return np.hstack([np.ones((len(Z), 1)), Z, np.exp(-squared_distances(Z, landmarks) / width) @ A])


class NumberLearner(Learner):
    """A learner of numbers: a plan, constants, a state. Labels are numbers in the units of y, NaN where there is none.

    A subclass says what is in its plan and its arrays, and how rows are predicted and learned (`_run`).
    """

    gaps = True
    dtype = np.dtype(np.float64)

    def __init__(self, plan: Any, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, {name: _writable(array) for name, array in state.items()})
        self._coverage = np.array(plan.coverage)

    @abstractmethod
    def _run(self, X: Array, y: Array, weight: Array, out: Outcome) -> None:
        """Predict rows in order and learn those with a label, y being in units of the sources."""

    def _block(self, X: Matrix, y: Array, weight: Array | None) -> tuple[NumberTrace, Array]:
        """Predict rows in order and learn those with a label; and what is a usual miss before each."""
        from hedgerow.kernels.regression import Outcome

        B, levels, (c,), (s,) = len(y), len(self._coverage), self.constants["y.mean"], self.constants["y.sd"]
        out = Outcome(np.empty(B), np.empty((B, levels)), np.empty((B, len(self.expert_names))), np.empty(B))
        rows = np.ascontiguousarray(dense(X), dtype=np.float64)
        self._run(rows, (y - c) / s, np.ones(B) if weight is None else weight, out)
        return NumberTrace(c + s * out.prediction, s * out.half, c + s * out.heads), s * out.usual

    @property
    def mixture_loss(self) -> float:
        """The sum of squared errors so far."""
        return float(self._sd**2 * self.state["loss"][0])

    @property
    def n_sources(self) -> int:
        """How many sources it was fitted on."""
        return len(self.plan.sources)

    @property
    def seen(self) -> int:
        """How many labels were learned so far."""
        return int(self.state["counts"][0])

    @property
    def covered(self) -> Array:
        """The share of labels that were inside the interval of each coverage."""
        return np.asarray(self.state["covered"] / max(self.seen, 1))

    @property
    def _sd(self) -> float:
        return float(self.constants["y.sd"][0])

    def predict(self, X: Matrix) -> NumberTrace:
        """Rows by what was learned so far; nothing is learned."""
        with one_blas_thread:
            return self._joined(
                [self._block(rows, np.full(rows.shape[0], np.nan), None)[0] for rows in blocks(X, BLOCK)]
            )

    def run(self, X: Matrix, y: Array, weight: Array | None = None) -> NumberTrace:
        """Rows in order, in blocks: each is predicted before its label (NaN: none), which is then learned."""
        return self._joined(self._in_blocks(self._learn, X, y, weight))

    def _joined(self, parts: list[NumberTrace]) -> NumberTrace:
        if len(parts) == 1:
            return parts[0]
        empty = NumberTrace(np.empty(0), np.empty((0, len(self.plan.coverage))), np.empty((0, len(self.expert_names))))
        return NumberTrace(*(np.concatenate(each) for each in zip(*(parts or [empty]), strict=True)))

    def _learn(self, X: Matrix, y: Array, weight: Array | None) -> NumberTrace:
        state = self.state
        try:
            trace, usual = self._block(X, y, weight)
        except BaseException as error:
            self.damaged = f"{type(error).__name__}: {error}"
            raise
        labelled = ~np.isnan(y)
        misses = np.abs(np.column_stack([trace.predictions, trace.experts]) - y[:, None])[labelled]
        if not np.isfinite(misses).all():
            self.damaged = "its numbers have left the range of numbers"
            raise HedgerowError("the model's numbers allow no further step; load the model as it was saved last")
        wrong = misses > usual[labelled, None]
        evidence.learned(state, state["counts"], wrong)
        state["counts"][0] += len(wrong)
        state["counts"][1:] += wrong.sum(axis=0)
        state["covered"] += (misses[:, :1] <= trace.half[labelled]).sum(axis=0)
        return trace


@register_learner
class RegressionLearner(NumberLearner):
    """Heads of the sources and the target under a mixture of squared losses; see `hedgerow.kernels.regression`."""

    kind = "regression"
    plan_type = RegressionPlan
    plan: RegressionPlan
    guarantee = "the sum of squared errors of the prediction"

    def __init__(self, plan: RegressionPlan, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, state)
        self._names = plan.heads
        self._settings = _writable(constants.for_kernels("settings"))
        self._trees = trees_of(under("trees.", constants, lambda name: _writable(constants.for_kernels(name))))

    @property
    def expert_names(self) -> list[str]:
        """The heads."""
        return self._names

    @property
    def weights(self) -> Array:
        """The share of each head in the prediction; a stack may make some negative, the sum is one."""
        memory, length = self._memory, self._length
        poly, last = _polynomial(memory.R, memory.S, length), _polynomial(memory.last_R, memory.last_S, length)
        exponential = np.exp(-(memory.L - memory.L.min()) / (2 * length**2))
        shares = last[0] * poly + last[1] * exponential / exponential.sum()
        for share, a in zip(last[2:], memory.stack_a, strict=True):
            shares = shares + share * ((1 - a.sum()) * poly + a)
        return np.asarray(shares)

    @property
    def bound(self) -> float:
        r"""What :math:`\sum_t (\hat y_t - y_t)^2` cannot exceed after these labels, in squared units of y.

        The theorem and its proof are in docs/theory.md.
        """
        if not self.seen:
            return 0.0
        loss, W, T, H = self.state["loss"], self._length, self.seen, len(self._names)
        A = 4 * np.log2(1 + T * (W / loss[1]) ** 4)
        return float(self._sd**2 * (loss[2:].min() + W**2 * (2 * np.log(H) + A + 4 / 3)))

    @property
    def dim(self) -> int:
        """Of the kernel regression."""
        return len(self.constants["source"])

    @property
    def _length(self) -> float:
        """Of the range that heads are clipped to."""
        from hedgerow.kernels.regression import MARGIN

        low, high = self.state["range"]
        return float((1 + 2 * MARGIN) * (high - low))

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _rows(self, X: Array) -> Rows:
        """All that needs no label."""
        from hedgerow.kernels.regression import Rows
        from hedgerow.kernels.trees import tree_sums

        get = self.constants.for_kernels
        mean, sd, width = get("x.mean"), get("x.sd"), float(get("settings")[0])
        sums = np.empty((len(X), len(self.plan.trained)))
        tree_sums(self._trees, X, sums)
        Z = scaled(X, mean, sd, LARGEST_Z)
        linear = np.hstack([np.ones((len(Z), 1)), scaled(X, mean, sd, FARTHEST_Z)])
        kernel = kernel_map(Z, get("landmarks"), width, get("A"))
        votes = SOURCE_VOTE * np.exp(-squared_distances(Z, get("near.x")) / (0.02 * width))
        votes = np.stack([votes @ get("near.y"), votes.sum(axis=1)], axis=1)
        return Rows(Z, linear, kernel, sums, kernel @ get("source"), votes)

    @property
    def _memory(self) -> Memory:
        from hedgerow.kernels.regression import Memory

        s, n = self.state, len(REGRESSIONS)
        P, M = (tuple(s[f"regression.{i}.{name}"] for i in range(n)) for name in "PM")
        return Memory(P, M, *(s[name] for name in Memory._fields[2:]))

    def _run(self, X: Array, y: Array, weight: Array, out: Outcome) -> None:
        from hedgerow.kernels.regression import run

        run(self._rows(X), self._settings, self._coverage, self._memory, y, weight, out)


def _writable(array: Array) -> Array:
    """The array itself, or a copy of one that is read-only, for which a loop would be compiled again."""
    return array if array.flags.writeable else array.copy()


def _polynomial(R: Array, S: Array, length: float) -> Array:
    """The weights of ML-Poly."""
    w = np.maximum(R, 0) / (4 * length**4 + S)
    total = w.sum()
    return np.asarray(w / total) if total > 0 else np.full(len(w), 1 / len(w))
