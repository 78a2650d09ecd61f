"""Our own learner on a stream: ridge regressions with a source prior in several spaces, mixed with a guarantee.

| space    | map                                 | targets     | lam | trust | tau | pool | heads                    |
|----------|-------------------------------------|-------------|-----|-------|-----|------|--------------------------|
| `kernel` | second-degree features of landmarks | one-hot     | .1  | .3    | 0   | .3   | all sources, each source |
| `white`  | within-class whitening              | class means | .5  | .3    | .5  | .3   | all sources, each source |
| `input`  | the input itself                    | one-hot     | .5  | .3    | .05 | -    | all sources, each source |
| `free`   | the input itself, weakly held       | one-hot     | 3   | .1    | 2   | -    | these and target only    |
| `pca`    | whitened PCA, one space a source    | one-hot     | 1   | .3    | 0   | -    | one                      |
| `recent` | whitened PCA of all, labels fade    | one-hot     | 1   | -     | 3   | -    | target only              |

The pool of `white` has labels as frequent as its classes are expected to be (`ridge/pool_labels.py`).
`hedgerow` is kernel + white + free + pca + recent; `hedgerow-linear` has the input in place of the kernel and no pool:
statistics that merge, and no kept instances.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, blocks, dense
from hedgerow.core.blas import one_blas_thread
from hedgerow.core.constants import Constants
from hedgerow.core.interrupts import uninterrupted
from hedgerow.learners.base import BLOCK, OnlineLearner, Prediction, State, Trace, register_learner
from hedgerow.learners.ridge import mixture
from hedgerow.learners.ridge.layout import layout
from hedgerow.learners.ridge.maps import Maps
from hedgerow.learners.ridge.plan import FREQUENCIES, RidgePlan
from hedgerow.learners.ridge.regression import NEVER, side_by_side
from hedgerow.learners.ridge.space import RELABEL, Space

if TYPE_CHECKING:
    from hedgerow.learners.layout import Layout


class Predicted(NamedTuple):
    """The row that was predicted last, after how many labels, and what was computed for it: its label may be next."""

    rows: Array
    seen: int
    Z: list[Array]
    fits: list[Array]
    F: Array


@register_learner
class RidgeLearner(OnlineLearner):
    """Heads that share a P in each space; their scores mixed by `ridge.mixture`."""

    kind = "ridge"
    plan: RidgePlan
    block = 4 * RELABEL

    def __init__(self, plan: RidgePlan, constants: Constants, state: State) -> None:
        super().__init__(plan, constants, state)
        self.spaces = [
            Space(settings, _under(f"space.{i}.", constants, constants.for_kernels), _under(f"space.{i}.", state), K)
            for i, settings in enumerate(plan.spaces)
            for K in [self.n_classes]
        ]
        side_by_side([regression for space in self.spaces for regression in space.regressions])
        self.maps = Maps([space.map for space in self.spaces])
        self._last: Predicted | None = None

    def plan_to_json(self) -> dict[str, Any]:
        """As `RidgePlan` writes itself."""
        return self.plan.to_json()

    @classmethod
    def plan_from_json(cls, data: Mapping[str, Any]) -> RidgePlan:
        """The inverse."""
        return RidgePlan.from_json(data)

    @classmethod
    def layout(cls, plan: RidgePlan) -> Layout:
        """See `ridge/layout.py`."""
        return layout(plan)

    @property
    def expert_names(self) -> list[str]:
        """The heads, and the class frequencies."""
        return [*self.plan.heads, FREQUENCIES]

    @property
    def weights(self) -> Array:
        """The first mixture's weights, temperatures and priors of a head together."""
        return mixture.head_weights(self.state, len(self.plan.heads))

    @property
    def bound(self) -> float:
        """(min_e L_e + ln(1/w_e) + ln 2)/ln 2."""
        return mixture.bound(self.state)

    @property
    def guarantee(self) -> str:
        """The bound is on the mistakes of the prediction itself."""
        return "mistakes"

    @property
    def dim(self) -> int:
        """The largest space."""
        return max(space.dim for space in self.spaces)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Recursive least squares needs double precision."""
        return np.dtype(np.float64)

    # -- predicting ---------------------------------------------------------------------------------------------

    def scores(self, X: Matrix) -> Array:
        """Probabilities by what was learned so far."""
        parts = [mixture.predict(self.state, self._heads(rows).F).probabilities for rows in blocks(X, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def probabilities(self, scores: Array) -> Array:
        """The scores are probabilities."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def expert_scores(self, X: Matrix) -> Array:
        """Each head's scores, and the log of the class frequencies."""
        return self._with_frequencies(self._heads(X).F)

    def predict_row(self, x: Array) -> Prediction:
        """One dense row; what is computed for it is kept for its label."""
        with uninterrupted(), one_blas_thread:
            self._last = known = self._heads(x[None])
        mixed = mixture.predict(self.state, known.F)
        scores = mixed.probabilities[0]
        return Prediction(int(scores.argmax()), scores, mixed.weights[0], self._with_frequencies(known.F)[0])

    def _heads(self, X: Matrix) -> Predicted:
        rows = dense(self.pre.apply(X))
        if not self.pre.steps:
            rows = rows.copy()  # the caller may write into the array it gave
        Z = self._maps(rows)
        fits = [space.fit(z) for space, z in zip(self.spaces, Z, strict=True)]
        return Predicted(rows, self.seen, Z, fits, self._scored(fits))

    def _maps(self, rows: Array) -> list[Array]:
        """The rows in every space."""
        axes = self.constants.get("axes")
        return self.maps(rows if axes is None else rows @ axes)

    def _scored(self, fits: list[Array]) -> Array:
        """The scores of all heads, minus their mean over the classes (B x heads x K)."""
        F = np.concatenate([space.scores(f) for space, f in zip(self.spaces, fits, strict=True)], axis=1)
        F -= F.sum(axis=2, keepdims=True) / F.shape[2]
        return F

    def _with_frequencies(self, F: Array) -> Array:
        counts = self.state["mix.counts"]
        pi = np.log(counts / counts.sum())
        return np.concatenate([F, np.broadcast_to(pi, (len(F), 1, len(pi)))], axis=1)

    # -- learning -----------------------------------------------------------------------------------------------

    def _run_block(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        rows = dense(X)
        labelled = y >= 0
        noise = np.where(labelled, 1.0, NEVER)
        if weight is not None:
            np.divide(noise, weight, out=noise, where=labelled)
        labels = self.seen + np.cumsum(labelled)
        turns = (np.flatnonzero((labels % RELABEL == 0) & labelled) + 1).tolist()
        last, self._last = self._last, None
        if last is not None and last.seen == self.seen and np.array_equal(last.rows, rows):
            for space, z, fits in zip(self.spaces, last.Z, last.fits, strict=True):
                space.run(z, y, noise, turns, fits)
            F = last.F
        else:
            parts = zip(self.spaces, self._maps(rows), strict=True)
            F = self._scored([space.run(z, y, noise, turns) for space, z in parts])
        frequent = mixture.counts_before(self.state, y)[:, :known].argmax(axis=1)
        mixed = mixture.run(self.state, F, y, known)
        self.target.add(rows, y, weight)
        votes = np.concatenate([F[:, :, :known].argmax(axis=2), frequent[:, None]], axis=1)
        return Trace(mixed.probabilities, mixed.weights, votes), mixed.loss

    def grow(self, n_classes: int) -> None:
        """New classes in every head; their frequency starts at a count of one, as that of all others did."""
        extra = n_classes - self.n_classes
        grown = [space.grow(extra) for space in self.spaces]
        self.state["mix.counts"] = np.concatenate([self.state["mix.counts"], np.ones(extra)])
        super().grow(n_classes)
        self._replace(grown)
        self.__init__(self.plan, self.constants, self.state)  # type: ignore[misc]

    # -- arrays -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what the spaces know into the state; pending rows of their regressions are arrays of their own there.

        They stay pending: adding them to P and M earlier would give other last digits than going on without a flush.
        """
        self._replace([space.arrays() for space in self.spaces])

    def _replace(self, found: list[dict[str, Array]]) -> None:
        for name in [name for name in self.state if name.startswith("space.")]:
            del self.state[name]
        for i, arrays in enumerate(found):
            self.state |= {f"space.{i}.{name}": array for name, array in arrays.items()}

    def arrays(self) -> State:
        """A copy of the state in which no row of a regression is pending."""
        twin = type(self)(self.plan, self.constants, self._copied())
        for space in twin.spaces:
            space.flush()
        twin.flush()
        return twin.state

    def _copied(self) -> State:
        """A copy of the state as `flush` would have it, without flushing."""
        own = {name: array.copy() for name, array in self.state.items() if not name.startswith("space.")}
        for i, space in enumerate(self.spaces):
            own |= {f"space.{i}.{name}": array.copy() for name, array in space.arrays().items()}
        return own


def _under(prefix: str, arrays: Mapping[str, Array], get: Any = None) -> dict[str, Array]:
    """The arrays whose names start with a prefix, by their short names."""
    read = get or arrays.__getitem__
    return {name[len(prefix) :]: read(name) for name in arrays if name.startswith(prefix)}
