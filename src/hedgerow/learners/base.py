"""What every learner on a stream has in common: its state, its blocks, its counters, the moments of its target.

`State` is a flat dict of named arrays and all that changes along the stream; a plan is what never does. A learner's
`run` is the only place where its state changes, and one instance is a block of one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from hedgerow.core.arrays import Array, Matrix, rows_from
from hedgerow.core.moments import Moments, class_sums, discrepancy, gap
from hedgerow.core.preprocess import Preprocess

State = dict[str, Array]
BLOCK = 256  # rows taken at once where nothing else ends a block earlier
MOMENTS = ("count", "total", "class_counts", "class_totals")


@dataclass(frozen=True)
class Trace:
    """What happened on a block, for people, plots and tests: a row an instance."""

    scores: Array
    weights: Array
    expert_predictions: Array

    @property
    def predictions(self) -> Array:
        """argmax of the combined scores: the prediction made before the label."""
        return np.asarray(self.scores.argmax(axis=1))


class OnlineLearner(ABC):
    """A plan and its state. Rows come raw; labels are codes 0..K-1, or -1 for an instance that is only predicted."""

    plan: Any
    pre: Preprocess
    block = BLOCK
    _state: State

    @property
    def state(self) -> State:
        """The arrays themselves, up to date."""
        self._settle()
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state

    def _settle(self) -> None:  # noqa: B027 (most learners write everything at once)
        """Write to the arrays what was put off."""

    def __reduce__(self) -> tuple[type[Self], tuple[Any, State]]:
        return type(self), (self.plan, self.state)  # views share their arrays with the state, also after a copy

    def copy(self) -> Self:
        """An independent learner with the same state."""
        return type(self)(self.plan, {name: array.copy() for name, array in self.state.items()})  # type: ignore[call-arg]

    def learned(self) -> State:
        """The arrays with nothing put off: those of two learners that know the same are equal, up to rounding."""
        return self.state

    # -- what a kind of learner says ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def expert_names(self) -> list[str]:
        """Who predicts."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """Who is trusted now: one weight an expert, summing to one."""

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
    def period(self) -> int | None:
        """After how many labels `_turn` is due; None: never."""

    @abstractmethod
    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K) by the state as it is; nothing is remembered."""

    @abstractmethod
    def expert_scores(self, X: Matrix) -> Array:
        """Each expert's own scores (B x N x K) by the state as it is."""

    @abstractmethod
    def probabilities(self, scores: Array) -> Array:
        """Combined scores as probabilities."""

    @abstractmethod
    def _predict_and_learn(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        """A block of preprocessed rows, each predicted before its label; and the loss of the mixture."""

    @abstractmethod
    def _turn(self) -> None:
        """What happens every `period` labels."""

    def _projection(self, source: int) -> Array | None:
        """The linear projection of a source's space; None is the identity."""
        return None

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """K, the classes met so far."""
        return len(self._state["target.class_counts"])

    @property
    def seen(self) -> int:
        """Labels learned so far."""
        return int(self._state["seen"][0])

    @property
    def mistakes(self) -> int:
        """Mistakes so far, each counted when its label was learned."""
        return int(self._state["mistakes"][0])

    @property
    def mixture_loss(self) -> float:
        """The loss that the mixture suffered so far."""
        return float(self._state["mixture_loss"][0])

    def source(self, i: int) -> Moments:
        """Moments of source i, in the input space of its alignment."""
        return Moments(*(self._state[f"source.{name}"][i] for name in MOMENTS))

    @property
    def target(self) -> Moments:
        """Moments of the target so far."""
        return Moments.of_arrays(self._state, "target")

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown."""
        n = len(self._state["source.count"])
        return np.array([discrepancy(self._projection(i), gap(self.source(i), self.target, "skip")) for i in range(n)])

    # -- learning -----------------------------------------------------------------------------------------------

    def step(self, x: Array, y: int) -> Trace:
        """Predict one instance, then learn its label."""
        return self.run(x[None], np.array([y]))

    def quick_predict(self, x: object) -> int:
        """The class of x, should x be a row that can be used as it is, and its path be a short one; otherwise -1."""
        return -1

    def quick_learn(self, x: object, y: int) -> bool:
        """The label of such a row; otherwise False, and nothing is learned."""
        return False

    def predict_row(self, x: Array) -> int:
        """The class of one dense row by the state as it is."""
        return int(self.scores(x[None])[0].argmax())

    def learn_row(self, x: Array, y: int, weight: float) -> None:
        """The label of one dense row."""
        self.run(x[None], np.array([y]), None, None if weight == 1 else np.array([weight]))

    def run(self, X: Matrix, y: Array, known: int | None = None, weight: Array | None = None) -> Trace:
        """Predict and learn rows in order, block by block, with the same predictions as one by one.

        `known` limits the prediction to the first classes: a label beyond was met here for the first time.
        `weight` (>= 0, float64) says how much each label counts for the heads and the class moments, None: one each.
        A mistake, an expert's loss and the bound count every label as one; a label of weight 0 is none at all.
        """
        if weight is not None:
            y = np.where(weight > 0, y, -1)
        traces = [
            self._block(rows_from(X, a, b), y[a:b], known, None if weight is None else weight[a:b])
            for a, b in self._blocks(y)
        ]
        if not traces:
            n = len(self.expert_names)
            return Trace(np.empty((0, self.n_classes)), np.empty((0, n)), np.empty((0, n), dtype=np.int64))
        if len(traces) == 1:
            return traces[0]
        return Trace(*(np.concatenate([getattr(t, f) for t in traces]) for f in Trace.__dataclass_fields__))

    def _blocks(self, y: Array) -> Iterator[tuple[int, int]]:
        """Row ranges that end at the next turn, or after `block` rows."""
        labels = self.seen + np.cumsum(y >= 0)
        ends = set(range(self.block, len(y), self.block)) | {len(y)}
        if self.period:
            ends |= set((np.flatnonzero((labels % self.period == 0) & (y >= 0)) + 1).tolist())
        start = 0
        for end in sorted(ends):
            if end > start:
                yield start, end
            start = end

    def _block(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> Trace:
        state, labelled = self._state, y >= 0
        X = self.pre.fold(X, labelled)
        trace, loss = self._predict_and_learn(X, y, known, weight)
        state["expert_mistakes"] += ((trace.expert_predictions != y[:, None]) & labelled[:, None]).sum(axis=0)
        state["mistakes"] += int(((trace.predictions != y) & labelled).sum())
        state["mixture_loss"] += loss
        state["seen"] += int(labelled.sum())
        self._fold_target(X, y, weight)
        if self.period and labelled.any() and self.seen % self.period == 0:
            self._turn()
        return trace

    def _fold_target(self, X: Matrix, y: Array, weight: Array | None) -> None:
        if len(y) == 1 and isinstance(X, np.ndarray):  # one row needs no matrix of all classes
            if y[0] >= 0:
                self._fold_row(X[0], y[0], 1.0 if weight is None else weight[0])
            return
        counts, totals = class_sums(X, y, self.n_classes, weight)
        self._state["target.class_counts"] += counts
        self._state["target.class_totals"] += totals
        self._state["target.count"] += counts.sum()
        self._state["target.total"] += totals.sum(axis=0)

    def _fold_row(self, x: Array, y: int, weight: float) -> None:
        times_x = weight * x
        self._state["target.class_counts"][y] += weight
        self._state["target.class_totals"][y] += times_x
        self._state["target.count"] += weight
        self._state["target.total"] += times_x

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: no instances yet."""
        extra = n_classes - self.n_classes
        for side, axis in (("target", 0), ("source", 1)):
            for name in ("class_counts", "class_totals"):
                pad_axis(self._state, f"{side}.{name}", axis, extra)


def pad_axis(state: State, name: str, axis: int, extra: int) -> None:
    """Zeros at the end of one axis of one array."""
    array = state[name]
    state[name] = np.pad(array, [(0, extra if i == axis else 0) for i in range(array.ndim)])
