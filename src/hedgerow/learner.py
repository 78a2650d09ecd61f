"""The contract of every learner on a stream: its arrays, its blocks, its rows, its counters.

A learner is a plan (the composition, as JSON), constants (arrays that never change after `fit`, shared by many models)
and a state (arrays that do). Reading changes neither. Work that a learner postpones for speed is pending until `flush`
does it; after that its arrays alone say what it knows. `run` takes rows in blocks (Alg. 1), `predict_row` and
`learn_row` one at a time, with the same predictions.

A `Layout` says what these arrays must look like, so that a file can be checked before compiled code sees it. A `Spec`
gives a shape, a type and a range. A dimension is a number or a letter; the same letter is the same number in all arrays
of a model, K and m being the classes and the features that the file's header names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from hedgerow import coverage as coverages
from hedgerow import drift as evidence
from hedgerow.core.arrays import LARGEST, Array, Matrix, rows_from
from hedgerow.core.constants import DOUBLE, FLOAT, MOST, SUM, TYPES, WHOLE, Constants
from hedgerow.core.constants import Spec as Spec
from hedgerow.core.errors import HedgerowError, InputError, unknown
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.core.preprocess import FILL, Preprocess, target_only_width
from hedgerow.core.registry import of_json

State = dict[str, Array]
BLOCK = 256  # rows taken at once where nothing else ends a block earlier


class Trace(NamedTuple):
    """What happened on a block, for people, plots and tests; one row for each instance.

    `scores` (B x K) are the combined ones, `weights` (B x N) who was trusted, `votes` (B x N) what each expert names.
    """

    scores: Array
    weights: Array
    votes: Array

    @property
    def predictions(self) -> Array:
        """argmax of the combined scores: the prediction made before the label (Eq. 7)."""
        return np.asarray(self.scores.argmax(axis=1))

    def mistaken(self, y: Array) -> Array:
        """Who is mistaken on each labelled row (labels x 1 + N): the prediction, then each expert."""
        answers = np.concatenate([self.predictions[:, None], self.votes], axis=1)
        return np.asarray((answers != y[:, None])[y >= 0])


class Prediction(NamedTuple):
    """One row's prediction: its class, the combined scores (K), who is trusted (N), and what each expert names (N)."""

    code: int
    scores: Array
    weights: Array
    votes: Array


Result = TypeVar("Result")
LEARNERS = {
    "experts": ("hedgerow.experts", "ExpertsLearner"),
    "ridge": ("hedgerow.ridge.learner", "RidgeLearner"),
    "regression": ("hedgerow.regression.learner", "RegressionLearner"),
}


def learner_of(kind: str) -> type[Any]:
    """The class of learners of this kind, from the module that has it.

    >>> learner_of("experts").kind
    'experts'
    """
    if kind not in LEARNERS:
        raise unknown("kind of learner", kind, LEARNERS)
    module, name = LEARNERS[kind]
    return getattr(import_module(module), name)  # type: ignore[no-any-return]


class Learner(ABC):
    """A plan, its constants and its state: what learners of classes and of numbers share."""

    kind: ClassVar[str]
    plan_type: ClassVar[Any]  # a dataclass that refuses what cannot be, and has `layout`
    plan: Any
    constants: Constants
    state: State
    block = BLOCK
    learns_unlabelled = False  # whether a row without a label changes anything
    damaged = (
        ""  # the error that stopped a step half way, if one did: such a learner is not used again
    )

    def __init__(self, plan: Any, constants: Constants, state: State) -> None:
        self.plan = plan
        self.constants = constants
        self.state = state

    def plan_to_json(self) -> dict[str, Any]:
        """The plan as plain lists and numbers."""
        return asdict(self.plan)

    @classmethod
    def plan_from_json(cls, data: Mapping[str, Any]) -> Any:
        """The inverse of `plan_to_json`; data from a file is not trusted, so anything wrong with it is an error."""
        return of_json(cls.plan_type, data)

    def checked(self, classes: int, features: int) -> Self:
        """The learner itself, if its arrays are as a file's would have to be."""
        fixed = {name: self.constants.for_kernels(name) for name in self.constants}
        self.plan.layout().check(fixed, self.stored(), {"K": classes, "m": features})
        return self

    @property
    @abstractmethod
    def expert_names(self) -> list[str]:
        """Expert names, in the column order of `weights`."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """How much each expert is trusted now, summing to one."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The guarantee for what was observed so far."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What `bound` bounds, in words."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The largest dimension of a space."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers it computes with."""

    @property
    @abstractmethod
    def seen(self) -> int:
        """How many labels were learned so far."""

    @property
    def drift(self) -> evidence.Drift:
        """Whether the target seems to have changed."""
        return evidence.report(self.state, self.seen)

    # -- arrays -------------------------------------------------------------------------------------------------

    def flush(self) -> None:  # noqa: B027 (a learner that postpones nothing has nothing to do)
        """Do all pending work: the arrays alone then say what was learned."""

    def stored(self) -> State:
        """The arrays that a file keeps (not copied): all that the learner knows."""
        self.flush()
        return self.state

    def copy(self) -> Self:
        """An independent learner that knows the same; the constants are shared."""
        return type(self)(
            self.plan, self.constants, {name: array.copy() for name, array in self.stored().items()}
        )

    def arrays(self) -> State:
        """A copy of the state in which nothing is pending; the learner itself is left as it is.

        Those of two learners that know the same are equal, up to rounding, however their streams were cut.
        """
        return {name: array.copy() for name, array in self.state.items()}

    # -- blocks -------------------------------------------------------------------------------------------------

    def _in_blocks(
        self, learn: Callable[..., Result], X: Matrix, y: Array, *more: Array | None
    ) -> list[Result]:
        """`learn` of one block of rows after the other; no interrupt comes in between."""
        parts = []
        for a in range(0, len(y), self.block):
            b = min(a + self.block, len(y))
            with uninterrupted(), one_blas_thread:
                own = (None if array is None else array[a:b] for array in more)
                parts.append(learn(rows_from(X, a, b), y[a:b], *own))
        return parts

    def __deepcopy__(self, memo: object) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[type[Self], tuple[Any, Constants, State]]:
        return type(self), (self.plan, self.constants, self.copy().stored())


class OnlineLearner(Learner):
    """A learner of classes. Rows come raw; labels are codes 0..K-1, or -1 for one that is not known."""

    pre: Preprocess

    def __init__(self, plan: Any, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, state)
        self.pre = Preprocess.of_arrays(plan.steps, {**constants, **state})
        self.target = Moments.of_arrays(state, "target")
        state.update(self.target.arrays("target"))
        if evidence.MARKS not in state:  # a new one
            state.update(evidence.initial(self._counts))

    # -- what a kind of learner says ----------------------------------------------------------------------------

    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K) of rows by what was learned so far."""
        return self.explain(X).scores

    @abstractmethod
    def expert_scores(self, X: Matrix) -> Array:
        """Each expert's own scores (B x N x K) by what was learned so far."""

    @abstractmethod
    def explain(self, X: Matrix) -> Trace:
        """Rows by what was learned so far: combined scores, who is trusted, and what each expert names."""

    @abstractmethod
    def probabilities(self, scores: Array) -> Array:
        """Combined scores as probabilities."""

    @abstractmethod
    def predict_row(self, x: Array) -> Prediction:
        """One dense row by what was learned so far. What it computes may be kept for the row's label."""

    def predict_sparse_row(self, X: Matrix) -> Prediction:
        """One sparse row (1 x m)."""
        (scores,), (weights,), (votes,) = self.explain(X)
        return Prediction(int(scores.argmax()), scores, weights, votes)

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """K, the classes met so far."""
        return len(self.state["target.counts"]) - 1

    @property
    def target_only(self) -> int:
        """How many columns, the last ones, no source has."""
        return target_only_width(self.plan.steps)

    @property
    def gaps(self) -> bool:
        """Whether rows may have gaps (NaN), which it fills."""
        return FILL in self.plan.steps

    @property
    def seen(self) -> int:
        """How many labels were learned so far."""
        return int(self.state["seen"][0])

    @property
    def mistakes(self) -> int:
        """Mistakes so far, each counted when its label was learned."""
        return int(self.state["mistakes"][0])

    @property
    def mixture_loss(self) -> float:
        """The loss that the mixture suffered so far."""
        return float(self.state["mixture_loss"][0])

    @property
    def _counts(self) -> Array:
        """Labels, mistakes, mistakes of each expert so far."""
        return np.concatenate(
            [self.state[name] for name in ("seen", "mistakes", "expert_mistakes")]
        )

    @property
    def n_sources(self) -> int:
        """How many sources it was fitted on."""
        return len(self.constants["source.counts"])

    def source(self, i: int) -> Moments:
        """Moments of source i, in the input space of its alignment; of classes met later it has no instance."""
        parts = {
            name: self.constants[name][i] for name in self.constants if name.startswith("source.")
        }
        return Moments.of_arrays(parts, "source").padded(self.n_classes)

    def projection(self, i: int) -> Array | None:
        """The linear projection of source i's space as it is now; None is the identity."""
        return None

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown (Eq. 12)."""
        target = self.target
        own = self.target_only
        values = []
        for i in range(self.n_sources):
            source = self.source(i)
            if own:  # of which a source says nothing
                values.append(
                    discrepancy(None, gap(source.first(-own), target.first(-own), "skip"))
                )
            else:
                values.append(discrepancy(self.projection(i), gap(source, target, "skip")))
        return np.array(values)

    # -- learning -----------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The code of the newest label that was learned, -1: none; a learner that knows no order keeps none."""
        return -1

    @last.setter
    def last(self, code: int) -> None:
        """Another one."""

    def run(
        self,
        X: Matrix,
        y: Array,
        known: int | None = None,
        weight: Array | None = None,
        before: Array | None = None,
    ) -> Trace:
        """Predict and learn rows in order, block by block, with the same predictions as one by one.

        `known` limits the prediction to the first classes: a label beyond was met here for the first time.
        `weight` (>= 0, float64) says how much each label counts for the heads and the class moments, None: one each.
        A mistake, an expert's loss and the bound count every label as one; a label of weight 0 is none at all.
        `before`: for each row the code of the newest label that was known when it was predicted, -1 if there was none;
        None: what was learned before the row. A block is learned whole or not at all, also if an interrupt or an error
        comes in between.
        """
        if weight is not None:
            y = np.where(weight > 0, y, -1)
        traces = self._in_blocks(
            lambda rows, labels, part, told: self._whole(rows, labels, part, told, known),
            X,
            y,
            weight,
            before,
        )
        if not traces:
            n = len(self.expert_names)
            return Trace(
                np.empty((0, self.n_classes)), np.empty((0, n)), np.empty((0, n), dtype=np.int64)
            )
        if len(traces) == 1:
            return traces[0]
        return Trace(*(np.concatenate(parts) for parts in zip(*traces, strict=True)))

    def learn_row(self, x: Array, y: int, weight: float, before: int | None = None) -> None:
        """The label of one dense row."""
        known = None if before is None else np.array([before])
        self.run(x[None], np.array([y]), None, None if weight == 1 else np.array([weight]), known)

    @property
    def can_fail(self) -> bool:
        """Whether a part from outside takes part in a step: its errors must not leave half a block behind."""
        return False

    def _whole(
        self,
        X: Matrix,
        y: Array,
        weight: Array | None,
        before: Array | None = None,
        known: int | None = None,
    ) -> Trace:
        """A block, learned whole or not at all."""
        kept = None
        if self.can_fail:
            self.flush()
            kept = {name: array.copy() for name, array in self.state.items()}
        try:
            trace = self._step(X, y, known, weight, before)
            if coverages.LEVELS in self.state:
                coverages.learned(
                    self.state, self.probabilities(trace.scores), trace.predictions, y
                )
            return trace
        except BaseException as error:
            if kept is None:
                self.damaged = f"{type(error).__name__}: {error}"
            else:
                self.flush()  # the half block that failed must leave nothing pending
                for name, array in kept.items():
                    self.state[name][...] = array
            if isinstance(error, np.linalg.LinAlgError):
                raise HedgerowError(
                    f"the model's numbers allow no further step ({error})"
                ) from error
            raise

    @abstractmethod
    def _step(
        self,
        X: Matrix,
        y: Array,
        known: int | None,
        weight: Array | None,
        before: Array | None = None,
    ) -> Trace:
        """Raw rows, each predicted before its label, which is then learned and counted."""

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time, of which there are no instances yet."""
        self.target = self.target.padded(n_classes)
        self.state.update(self.target.arrays("target"))

    def with_sets(self, levels: Sequence[float]) -> Self:
        """The same learner, which also tracks prediction sets of these levels of coverage from now on."""
        return type(self)(self.plan, self.constants, {**self.stored(), **coverages.initial(levels)})


def prefixed(prefix: str, arrays: Mapping[str, Result]) -> dict[str, Result]:
    """Arrays, or what is said of them, by the names that they have in a model."""
    return {prefix + name: array for name, array in arrays.items()}


def under(
    prefix: str, arrays: Mapping[str, Array], get: Callable[[str], Array] | None = None
) -> State:
    """The arrays whose names start with a prefix, by their short names; `get` reads one."""
    return {
        name[len(prefix) :]: (get or arrays.__getitem__)(name)
        for name in arrays
        if name.startswith(prefix)
    }


def bookkeeping(
    sources: list[Moments], warmup: Matrix, K: int, experts: int
) -> tuple[State, State]:
    """What every learner keeps: constants (moments of the sources) and state (those of the target, counters)."""
    constants: State = {}
    parts = [part.arrays("source") for part in sources or [Moments.empty(warmup.shape[1], K)]]
    for name in parts[0]:
        constants[name] = np.stack([part[name] for part in parts])[: len(sources)]
    state: State = Moments.of(warmup, None, K).arrays("target")
    state["expert_mistakes"] = np.zeros(experts, dtype=np.int64)
    state["mixture_loss"] = np.zeros(1)
    for name in ("seen", "mistakes"):
        state[name] = np.zeros(1, dtype=np.int64)
    return constants, state


# -- the layout of its arrays ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The arrays of constants and of state by name; `rules` are checked on all arrays and dimensions at the end."""

    constants: Mapping[str, Spec]
    state: Mapping[str, Spec]
    rules: tuple[Callable[[Mapping[str, Array], Mapping[str, int]], str | None], ...] = field(
        default=()
    )

    def zeros(self, **sizes: int) -> State:
        """The state of zeros, as far as its dimensions are numbers or among these sizes."""
        known = {
            n: s
            for n, s in self.state.items()
            if all(isinstance(d, int) or d in sizes for d in s.shape)
        }
        return {
            name: np.zeros(
                [d if isinstance(d, int) else sizes[d] for d in spec.shape], TYPES[spec.kind][0]
            )
            for name, spec in known.items()
        }

    def check(
        self, constants: Mapping[str, Array], state: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> None:
        """Refuse arrays that differ from the specs in name, shape, type or range; the error names the array."""
        dimensions = dict(sizes)
        dtypes: set[np.dtype[np.generic]] = set()
        for arrays, specs in ((constants, self.constants), (state, self.state)):
            for name in arrays:
                if name not in specs:
                    raise InputError(f"an array {name!r} that this model does not have")
            for name, spec in specs.items():
                if name in arrays:
                    _check(name, arrays[name], spec, dimensions, dtypes)
                elif spec.needed:
                    raise InputError(f"the array {name!r} is missing")
        if len(dtypes) > 1:
            raise InputError("some arrays are float32 and some are float64")
        for rule in self.rules:
            broken = rule({**constants, **state}, dimensions)
            if broken:
                raise InputError(broken)


def _check(
    name: str, array: Array, spec: Spec, sizes: dict[str, int], dtypes: set[np.dtype[np.generic]]
) -> None:
    if array.ndim != len(spec.shape):
        raise InputError(f"{name!r} has {array.ndim} dimensions, not {len(spec.shape)}")
    for have, want in zip(array.shape, spec.shape, strict=True):
        expected = want
        if isinstance(want, str):
            letter = want.removeprefix("1+")
            more = int(letter != want)
            expected = sizes.setdefault(letter, have - more) + more
        if have != expected:
            raise InputError(f"{name!r} has the shape {array.shape}, where {want} is {expected}")
    if array.dtype not in TYPES[spec.kind]:
        raise InputError(f"{name!r} is of type {array.dtype}")
    if spec.kind == FLOAT:
        dtypes.add(array.dtype)
    if array.size:
        low = float(array.min())
        high = float(array.max())
        limit = sizes[spec.high] - 1 if isinstance(spec.high, str) else spec.high
        if not (spec.low <= low and high <= limit and abs(low) < FINITE and abs(high) < FINITE):
            raise InputError(
                f"{name!r} has values from {low} to {high}, outside of what it can have"
            )


FINITE = LARGEST[np.dtype(np.float64)] ** 2 * 2.0**20  # beyond, the next sum could be infinite

COUNTERS = {
    "seen": Spec((1,), WHOLE, 0, MOST),
    "mistakes": Spec((1,), WHOLE, 0, MOST),
    "mixture_loss": Spec((1,), DOUBLE, 0),
}


def common(steps: tuple[str, ...], experts: int) -> tuple[dict[str, Spec], dict[str, Spec]]:
    """What every learner has: moments of sources and target, running statistics of the preprocessing, counters."""
    constants = {
        "source.counts": Spec(("n", "1+K0"), low=0),
        "source.totals": Spec(("n", "1+K0", "m"), low=-SUM, high=SUM),
    }
    state = {
        "target.counts": Spec(("1+K",), low=0),
        "target.totals": Spec(("1+K", "m"), low=-SUM, high=SUM),
        "expert_mistakes": Spec((experts,), WHOLE, 0, MOST),
        **COUNTERS,
        **evidence.specs(2 + experts),
        **coverages.SPECS,
    }
    fixed, running = Preprocess(steps).spec()
    return constants | fixed, state | running


def not_more_known_before(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> str | None:
    """A rule of all learners: the sources had no more classes than there are now, and mistakes are of labels."""
    if sizes["K0"] > sizes["K"]:
        return f"the sources have {sizes['K0']} classes, of {sizes['K']} in all"
    if arrays["mistakes"][0] > arrays["seen"][0]:
        return f"{arrays['mistakes'][0]} mistakes in {arrays['seen'][0]} labels"
    if 0 < sum(name in arrays for name in coverages.SPECS) < len(coverages.SPECS):
        return "a part of the arrays of its prediction sets is missing"
    return None
