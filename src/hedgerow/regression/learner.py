"""The regressor's learner: what it is made of (heads by name, sources, arrays), and how it predicts and learns rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hedgerow import drift as evidence
from hedgerow.core import records
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.linalg import from_upper, upper_of
from hedgerow.core.records import Stretch
from hedgerow.learner import BLOCK, Layout, Learner, Spec, State, prefixed, under
from hedgerow.ridge import trees
from hedgerow.ridge.regression import Regression
from hedgerow.ridge.trees import trees_of

if TYPE_CHECKING:
    from hedgerow.kernels.regression import Fixed, Work

LARGEST_Y = 1e100  # of a label, and of its deviations from the mean: squares of sums of it must stay numbers
LOSSES = 3  # prediction, first range, labels outside of the range; then those of the heads
SPACES = ("linear", "kernel")
ORDER = "order"  # the regression of what was known of the last row
OUTPUTS = ("trees", "kernel")  # the frozen outputs that residuals are taken of
WITHIN = "within sources"
FADING = 3  # outputs, the first, that have a regression in which labels fade too
MIXTURES = 3  # ML-Poly, exponential weights, the stack
TARGET_ROWS = 1000
PENDING = evidence.EVERY  # rows that are folded at once, when drift is looked for


@dataclass(frozen=True)
class RegressionPlan:
    """The sources, those with heads of their own, the coverages of the intervals, and how many target rows are kept.

    `lags`: of a series, how many rows back the numbers are that stand behind the columns of a row, the newest first.
    `sampling` says that the heads were fitted on a sample of the sources' rows, for people.
    """

    sources: tuple[str, ...]
    own: tuple[str, ...]
    coverage: tuple[float, ...]
    kept: int = TARGET_ROWS
    sampling: str = ""
    lags: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not set(self.own) <= set(self.sources) or (self.own and len(self.sources) < 2):
            raise InputError(f"heads of {self.own} for the sources {self.sources}")
        if any(not 1 <= lag <= self.kept for lag in self.lags):
            raise InputError(f"lags of {self.lags} rows, of which {self.kept} are kept")
        if self.kept < 1 or not self.coverage or not all(0 < c < 1 for c in self.coverage):
            raise InputError(f"{self.kept} kept rows and coverage={self.coverage}")

    @property
    def trained(self) -> list[str]:
        """What is trained on the sources: on all, within their levels (trees only), on each of `own`."""
        if not self.sources:
            return ["no source"]
        return [
            "all sources",
            *([WITHIN] if len(self.sources) > 1 else []),
            *(f"source {s}" for s in self.own),
        ]

    @property
    def columns(self) -> list[str]:
        """The heads of each regression."""
        trained = [name for name in self.trained if name != WITHIN]
        return [*trained, "target alone", "residual of the trees"]

    @property
    def outputs(self) -> list[str]:
        """The frozen outputs: of the kernel regression of all sources, and of the trees."""
        return [f"kernel: {self.trained[0]}, frozen", *(f"trees: {name}" for name in self.trained)]

    @property
    def heads(self) -> list[str]:
        """All heads, in the order of the compiled loop."""
        names = [f"{space}: {name}" for space in SPACES for name in self.columns]
        names.append(f"{ORDER}: residual of the trees")
        names += [f"{output}, level and scale" for output in self.outputs]
        names += [f"{output}, recent level and scale" for output in self.outputs[:FADING]]
        names += [f"{name}, recent offset" for name in OUTPUTS]
        names += [f"nearest rows: residuals of {name}" for name in OUTPUTS]
        names += ["nearest rows", "moving average of the target", "last value"]
        return names + [f"{name}, last residual" for name in OUTPUTS]

    @property
    def sizes(self) -> dict[str, int]:
        """Of what a target has learned, as far as they are known: see `kernels.regression.Memory`."""
        heads = len(self.heads)
        return {
            "heads": heads,
            "counts": 2 + heads,
            "losses": LOSSES + heads,
            "levels": len(self.coverage),
            "levelled": len(self.outputs) + len(self.outputs[:FADING]),
            "places": PENDING,
            "Q": sum(self.regressions.values()),
        }

    def layout(self) -> Layout:
        """Name, shape, type and range of every array."""
        from hedgerow.kernels.regression import Fixed, Memory

        state = records.specs(Memory, "", **self.sizes)
        constants = records.specs(Fixed)
        constants |= prefixed("trees.", trees.specs(len(self.trained), 1, forest=False)[0])
        for i, (name, q) in enumerate(self.regressions.items()):
            own = {"P": Spec((f"tri{i}",), needed=False), "M": Spec((f"d{i}", q), needed=False)}
            constants |= prefixed(f"{name}.prior.", own)
            state |= prefixed(f"{name}.", own)

        def consistent(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
            return next(_problems(self, arrays, sizes), None)

        return Layout(constants, state | evidence.specs(self.sizes["counts"]), (consistent,))

    @property
    def regressions(self) -> dict[str, int]:
        """The weights of each: of the heads in two feature maps, of the order, of the stack."""
        return {**dict.fromkeys(SPACES, len(self.columns)), ORDER: 1, "stack": 1}


def _problems(
    plan: RegressionPlan, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> Iterator[str]:
    """What the shapes alone do not say."""
    from hedgerow.kernels.regression import OF_A_ROW, ORDERED

    m = sizes["m"]
    dims = [m + 1, m + 1 + sizes["r"], ORDERED, len(plan.heads)]
    for i, (name, d) in enumerate(zip(plan.regressions, dims, strict=True)):
        own = under(f"{name}.", arrays)
        if {"P", "M"} - own.keys() and {"prior.P", "prior.M"} - own.keys():
            yield f"{name}: neither a prior nor what became of it"
        size = (sizes[f"d{i}"], sizes[f"tri{i}"])
        if ("P" in own) != ("M" in own) or size != (d, d * (d + 1) // 2):
            yield f"{name}: {sizes[f'd{i}']} dimensions, not {d}"
    labels = arrays["counts"][0]
    count, place, pending = arrays["place"].tolist()
    if pending != labels % PENDING or sizes["D"] != sum(dims):
        yield f"{pending} pending rows of {sizes['D']} numbers after {labels} labels"
    fits = count == sizes["kept"] <= plan.kept and (place == count or count == plan.kept)
    if not fits or place >= plan.kept or sizes["columns"] != m + OF_A_ROW:
        yield f"{sizes['kept']} kept rows of {sizes['columns']} numbers, of which the next is {place}"
    if not arrays["range"][0] < arrays["range"][1]:
        yield "a range of y above 0 is needed"
    if (arrays["mix"][1:] < 0).any() or (arrays["last"][1] < 0).any():
        yield "squares below 0"
    yield from trees.problems(under("trees.", arrays), sizes, forest=False)


class NumberTrace(NamedTuple):
    """What was predicted for each row of a block, in the units of y.

    predictions (B), half (B x levels): half the width of each interval, experts (B x N): what each head predicts.
    """

    predictions: Array
    half: Array
    experts: Array


class RegressionLearner(Learner):
    """Heads of the sources and the target under a mixture of squared losses; see `hedgerow.kernels.regression`.

    Labels are numbers in the units of y, NaN where there is none. The state is one record, of which `state` has views;
    the regressions have their P and M beside it.
    """

    kind = "regression"
    plan_type = RegressionPlan
    plan: RegressionPlan
    guarantee = "the sum of squared errors of the prediction"
    gaps = True
    dtype = np.dtype(np.float64)

    def __init__(self, plan: RegressionPlan, constants: Constants, state: State) -> None:
        from hedgerow.kernels.regression import Targets

        own = {name: np.array(state[name]) for name in evidence.specs(0)}
        super().__init__(plan, constants, own)
        self._names = plan.heads
        self.coverage = np.array(plan.coverage)
        self.regressions = [self._regression(name, state) for name in plan.regressions]
        self._ends = tuple(
            np.cumsum([0, *sizes])
            for sizes in zip(*(each.M.shape for each in self.regressions), strict=True)
        )
        stretch = self.stretch(plan.kept, PENDING)
        self.record = np.zeros(stretch.size)
        views = stretch.views(self.record)
        self.state |= views
        for name in views.keys() & state.keys():
            views[name][: len(state[name])] = state[name]
        top = np.empty(len(self.regressions))
        diagonal = np.empty(self._ends[0][-1])
        for i, each in enumerate(self.regressions):
            (d, d_end), (q, q_end) = (ends[i : i + 2].tolist() for ends in self._ends)
            each.G = self.state["G"].ravel()[PENDING * d : PENDING * d_end].reshape(PENDING, -1)
            each.E = self.state["E"].ravel()[PENDING * q : PENDING * q_end].reshape(PENDING, -1)
            each.diagonal = diagonal[d:d_end]
            each.top = top[i : i + 1]
            each.measure()
        self._work = self.work(plan.kept, PENDING)
        self.targets = Targets(
            P=tuple(each.P for each in self.regressions),
            M=tuple(each.M for each in self.regressions),
            diagonal=diagonal,
            top=top,
            d=self._ends[0],
            q=self._ends[1],
            at=stretch.at,
            kept=plan.kept,
            records=self.record[None],
            slots=np.zeros(BLOCK, np.int64),
        )

    def _regression(self, name: str, state: State) -> Regression:
        get = self.constants.for_kernels
        if f"{name}.M" in state:
            return Regression(from_upper(state[f"{name}.P"]), state[f"{name}.M"])
        P = self.constants.derived(f"{name}.P", lambda: from_upper(get(f"{name}.prior.P")))
        return Regression(P, _writable(get(f"{name}.prior.M")), shared=True)

    def stored(self) -> State:
        """The state. Pending rows stay pending: to fold them earlier would give other last digits."""
        state = self.state | {"rows": self.state["rows"][: self.state["place"][0]]}
        for name, each in zip(self.plan.regressions, self.regressions, strict=True):
            if not each.shared:
                state |= {f"{name}.P": upper_of(each.P), f"{name}.M": each.M}
        return state

    def arrays(self) -> State:
        """A copy of the state in which no row of a regression is pending."""
        twin = self.copy()
        twin.fold()
        return twin.stored()

    def fold(self) -> None:
        """The pending rows of every regression go into its P and M, of which it has its own from then on."""
        for each in self.regressions:
            each.fold(int(self.state["place"][2]))
        self.state["place"][2] = 0
        self.targets = self.targets._replace(
            P=tuple(each.P for each in self.regressions),
            M=tuple(each.M for each in self.regressions),
        )

    # -- what compiled loops take -------------------------------------------------------------------------------------

    @cached_property
    def fixed(self) -> Fixed:
        """What all targets of the fit share."""
        from hedgerow.kernels.regression import Fixed

        own = {name: _writable(self.constants.for_kernels(name)) for name in self.constants}
        shared = {name: own[name] for name in Fixed._fields[:-1]}
        return Fixed(**shared, trees=trees_of(under("trees.", own)))

    def stretch(self, kept: int, places: int) -> Stretch:
        """A record with room for so many rows and pending rows."""
        from hedgerow.kernels.regression import OF_A_ROW, Memory

        d = self._ends[0]
        sizes = self.plan.sizes | {"places": places, "D": d[-1], "kept": kept}
        return Stretch(Memory, **sizes, columns=d[1] - 1 + OF_A_ROW)

    def work(self, kept: int, places: int) -> Work:
        """Room for what a row needs meanwhile."""
        from hedgerow.kernels.regression import Work

        fixed = self.fixed
        D, Q = (int(ends[-1]) for ends in self._ends)
        heads = len(self._names)
        sizes = {
            "x": len(fixed.mean) + 1,
            "Z": D,
            "fits": Q,
            "along": (len(self.regressions), places),
            "kernel": len(fixed.landmarks),
            "columns": len(fixed.trees.first),
            "outputs": len(self.plan.outputs),
            "near": kept,
            "raw": heads,
            "mixed": MIXTURES,
            "last": MIXTURES,
            "weights": heads,
            "Pz": D,
        }
        return Work(known=np.full(3, -1), **{name: np.empty(size) for name, size in sizes.items()})

    @property
    def expert_names(self) -> list[str]:
        """The heads."""
        return self._names

    @property
    def weights(self) -> Array:
        """The share of each head in the prediction; a stack may make some negative, the sum is one."""
        state = self.state
        regrets, squares, losses = state["mix"]
        poly = _polynomial(regrets, squares)
        last = _polynomial(*state["last"])
        exponential = np.exp(-(losses - losses.min()) / 2)
        stack = self.regressions[-1]
        n = int(state["place"][2])
        a = (stack.M + stack.G[:n].T @ stack.E[:n])[:, 0]
        return np.asarray(
            last[0] * poly
            + last[1] * exponential / exponential.sum()
            + last[2] * ((1 - a.sum()) * poly + a)
        )

    @property
    def bound(self) -> float:
        r"""What :math:`\sum_t (\hat y_t - y_t)^2` cannot exceed after these labels, in squared units of y.

        The theorem and its proof are in docs/theory.md.
        """
        if not self.seen:
            return 0.0
        from hedgerow.kernels.regression import PRIOR_REGRET

        loss = self.state["loss"]
        W = self._length
        growth = np.log2(W / loss[1])
        spread = MIXTURES * np.logaddexp2(0, np.log2(self.seen) + 4 * growth)
        A = (np.sqrt(spread) + PRIOR_REGRET * (1 + 2 * np.log(2) * growth)) ** 2
        regret = W**2 * (2 * np.log(len(self._names)) + A + 1)
        return self._squared(loss[LOSSES:].min() + loss[2] + regret)

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

    @property
    def mixture_loss(self) -> float:
        """The sum of squared errors so far."""
        return self._squared(self.state["loss"][0])

    @property
    def root_mean_loss(self) -> float:
        """The root of the mean squared error so far."""
        return float(self._sd * np.sqrt(self.state["loss"][0] / self.seen))

    def _squared(self, value: float) -> float:
        """Squared units of y, where a number of units alone might vanish or overflow when it is squared."""
        return float((self._sd * np.sqrt(value)) ** 2)

    def check_labels(self, y: Array, where: str) -> None:
        """Refuse labels (NaN: none) that are so far from those of the sources that their squares could overflow."""
        with np.errstate(over="ignore"):
            far = (y - self.constants["y_mean"]) / self._sd
        bad = np.flatnonzero(np.abs(far) > LARGEST_Y)
        if len(bad):
            raise InputError(
                f"{where}: {y[bad[0]]:g} at row {bad[0]} is more than {LARGEST_Y:g} deviations ({self._sd:g}) from the "
                "mean of the labels that the model was fitted on; fit it on labels of the same unit"
            )

    @property
    def n_sources(self) -> int:
        """How many sources it was fitted on."""
        return len(self.plan.sources)

    @property
    def seen(self) -> int:
        """How many labels were learned so far."""
        return int(self.state["counts"][0])

    @property
    def series(self) -> Array:
        """The labels of the kept rows, the oldest first."""
        kept, oldest, _ = self.state["place"].tolist()
        given = self.state["rows"][:kept, len(self.constants["mean"]) + 4]
        return np.roll(given, -oldest) if kept == self.plan.kept else given

    @property
    def last(self) -> float:
        """The newest label that is known, NaN: none."""
        value, there = self.state["known"].tolist()
        return value if there else float("nan")

    @last.setter
    def last(self, value: float) -> None:
        self.state["known"][:] = np.nan_to_num(value), value == value

    @property
    def covered(self) -> Array:
        """The share of labels that were inside the interval of each coverage."""
        return np.asarray(self.state["covered"] / max(self.seen, 1))

    @property
    def _sd(self) -> float:
        return float(self.constants["y_deviation"][0])

    # -- rows ---------------------------------------------------------------------------------------------------------

    def predict(self, X: Matrix) -> NumberTrace:
        """Rows by what was learned so far; nothing is learned."""
        y = np.full(X.shape[0], np.nan)
        return self._joined(self._in_blocks(self._block, X, y, None, None))

    def run(
        self, X: Matrix, y: Array, weight: Array | None = None, before: Array | None = None
    ) -> NumberTrace:
        """Rows in order, in blocks: each is predicted before its label (NaN: none), which is then learned.

        `before`: for each row the newest label that was known when it was predicted, NaN if there was none; None: what
        was learned before the row.
        """
        return self._joined(self._in_blocks(self._learn, X, y, weight, before))

    def _joined(self, parts: list[NumberTrace]) -> NumberTrace:
        if len(parts) == 1:
            return parts[0]
        levels = len(self.plan.coverage)
        empty = NumberTrace(np.empty(0), np.empty((0, levels)), np.empty((0, len(self._names))))
        return NumberTrace(*map(np.concatenate, zip(*(parts or [empty]), strict=True)))

    def _block(
        self, X: Matrix, y: Array, weight: Array | None, before: Array | None
    ) -> NumberTrace:
        from hedgerow.kernels.regression import NOW, Block, run

        B = len(y)
        rows = np.ascontiguousarray(dense(X), dtype=np.float64)
        weight = np.ones(B) if weight is None else weight
        said = np.empty((B, 1 + len(self.plan.coverage)))
        before = np.full(B, NOW) if before is None else before
        block = Block(rows, y, weight, before, said, np.empty((B, len(self._names))))
        done = 0
        while done < B:
            done = run(self.fixed, self.coverage, self.targets, block, self._work, done, PENDING)
            if self.state["place"][2] == PENDING:
                self.fold()
                evidence.look(self.state, self.state["counts"])
        return NumberTrace(said[:, 0], said[:, 1:], block.heads)

    def _learn(
        self, X: Matrix, y: Array, weight: Array | None, before: Array | None
    ) -> NumberTrace:
        try:
            trace = self._block(X, y, weight, before)
        except BaseException as error:
            self.damaged = f"{type(error).__name__}: {error}"
            raise
        if not np.isfinite(self.state["loss"]).all():
            self.damaged = "its numbers have overflowed"
            raise HedgerowError("the model's state has overflowed; load the last saved model")
        return trace


def _writable(array: Array) -> Array:
    """The array itself, or a copy of one that is read-only, for which a loop would be compiled again."""
    return array if array.flags.writeable else array.copy()


def _polynomial(R: Array, S: Array) -> Array:
    """The weights of ML-Poly."""
    from hedgerow.kernels.regression import PRIOR_REGRET

    w = np.maximum(R + PRIOR_REGRET, 0) / (4 + S)
    total = w.sum()
    return np.asarray(w / total) if total > 0 else np.full(len(w), 1 / len(w))
