"""Our own learner on a stream: ridge regressions with a source prior in several spaces, mixed with a guarantee.

| space    | map                                 | targets     | lam | trust | tau | pool | heads                    |
|----------|-------------------------------------|-------------|-----|-------|-----|------|--------------------------|
| `kernel` | second-degree features of landmarks | one-hot     | .1  | .3    | 0   | -    | all sources, each source |
| `white`  | within-class whitening              | class means | .5  | .3    | .5  | .3   | all sources, each source |
| `input`  | the input itself                    | one-hot     | .5  | .3    | .05 | -    | all sources, each source |
| `free`   | the input itself, weakly held       | one-hot     | 3   | .1    | 2   | -    | these and target only    |
| `pca`    | whitened PCA, one space a source    | one-hot     | 1   | .3    | 0   | -    | one                      |
| `recent` | whitened PCA of all, labels fade    | one-hot     | 1   | -     | 3   | -    | target only              |

| local heads  | rows compared     | exp(g (cos - 1)) | heads                    |
|--------------|-------------------|------------------|--------------------------|
| `near input` | the input itself  | g = 60           | all sources, each source |
| `near white` | those of `white`  | g = 40           | all sources, each source |

Columns that nothing is transferred for (`core/preprocess.py`) join the rows of every space that has no pool.
The pool of `white` has labels as frequent as its classes are expected to be (`ridge/pool.py`).
`hedgerow` has kernel, white, free, pca, recent and the local heads; `hedgerow-linear` has the input in place of the
kernel, no pool and no local heads: statistics that merge, and no kept instances. `ridge/plan.py` bounds what is kept.

The arrays of our own learner. Letters: d_i dimensions of space i, q_i weights of all its heads side by side.

| constants                     | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `source.*`                    | n x ..        | moments of each source                                            |
| `axes`                        | m x r         | leading directions of the input, where a rank was asked for       |
| `space.i.A`, `axes`, `landmarks` | ..         | the map of the space                                              |
| `space.i.widths`, `targets`   | h, K0 x q0    | columns of each head; class targets, where they are class means   |
| `space.i.prior.P`, `prior.M`  | d^2/2, d x q0 | where the regression starts: upper half of the covariance, weights |
| `space.i.prior.U`             | u x d         | where the pool starts                                             |
| `space.i.counts`              | K0            | rows of each class in the sources                                 |
| `near.y`, `domain`, `weight`  | n             | kept rows of the sources: class, source, how much it counts       |
| `near.i.rows`                 | n x d         | these rows as unit vectors in whole numbers                       |

| state                         | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `space.i.P`, `M`, `U`         | as the priors | regression and pool, once they have left their prior              |
| `space.i.G`, `E`              | rows x d, q   | pending rows of the regression (`ridge/regression.py`)            |
| `space.i.labels`, `leverage`  | u x h, u      | the pool's labels, and h of each row (`ridge/pool.py`)            |
| `space.i.at`                  | 2             | whose turn it is in the pool, and who came first                  |
| `space.i.waiting`             | rows x d      | rows without a label that join the pool at its next turn          |
| `space.i.counts`, `bias`      | K, h x K      | labels of each class so far, what makes the pool's labels balanced |
| `near.y`, `weight`, `i.rows`  | r x ..        | kept rows of the target                                           |
| `near.at`                     | 1             | the place of the next one                                         |
| `rows`                        | 1             | rows learned so far, with a label or without                      |
| `mix.*`                       | ..            | `ridge/mixture.py`                                                |
| `target.*`, `pre.i.*`, counters | ..          | as every learner                                                  |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array, Matrix, blocks, dense
from hedgerow.core.constants import Constants
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import one_blas_thread
from hedgerow.learner import BLOCK, OnlineLearner, Prediction, State, Trace, register_learner
from hedgerow.ridge import mixture
from hedgerow.ridge.near import Near, whole
from hedgerow.ridge.plan import FREQUENCIES, INPUT, RidgePlan, layout
from hedgerow.ridge.pool import TURN
from hedgerow.ridge.regression import NEVER
from hedgerow.ridge.space import FADE, Space

if TYPE_CHECKING:
    from hedgerow.learner import Layout


class Predicted(NamedTuple):
    """The row that was predicted last, after how many rows, and what was computed for it: its label may be next."""

    rows: Array
    after: int
    Z: list[Array]
    Q: list[Array]
    fits: list[Array]
    said: Array | None
    F: Array


@register_learner
class RidgeLearner(OnlineLearner):
    """Heads that share a P in each space; their scores mixed by `ridge.mixture`."""

    kind = "ridge"
    plan: RidgePlan
    block = 12 * TURN
    learns_unlabelled = True

    def __init__(self, plan: RidgePlan, constants: Constants, state: State) -> None:
        """The spaces and the local heads take their arrays over; `stored` gives them back."""
        own = {name: array for name, array in state.items() if not name.startswith(("space.", "near."))}
        super().__init__(plan, constants, own)
        self.spaces = [
            Space(settings, _constants(f"space.{i}.", constants), _under(f"space.{i}.", state), self.n_classes, room)
            for i, (settings, room) in enumerate(zip(plan.spaces, plan.rooms, strict=True))
        ]
        self.near = None
        if plan.near:
            heads = (len(plan.heads) - sum(plan.heads_of)) // len(plan.near)
            self.near = Near(plan.near, _constants("near.", constants), _under("near.", state), plan.kept, heads)
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
        """As `plan.layout` says."""
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
        return self._said(rows if self.pre.steps else rows.copy())  # the caller may write into the array it gave

    def _said(self, rows: Array) -> Predicted:
        Z, Q = self._maps(rows)
        fits = [space.regression.fit(z) for space, z in zip(self.spaces, Z, strict=True)]
        said = None if self.near is None else self.near.say(Q, self.n_classes)
        return Predicted(rows, self._rows, Z, Q, fits, said, self._scored(fits, said))

    def _maps(self, rows: Array) -> tuple[list[Array], list[Array]]:
        """The rows in every space, and as the local heads compare them."""
        from hedgerow.kernels.rows import times

        own = self.own
        if own:
            rows, beside = np.ascontiguousarray(rows[:, :-own]), rows[:, -own:]
        axes = self.constants.get("axes")
        if axes is not None:
            rows = times(rows, axes)
        Z = [space.map(rows) for space in self.spaces]
        Q = [whole(rows if settings.of == INPUT else Z[settings.of]) for settings in self.plan.near]
        if own:  # a pool has no rows with these columns
            Z = [z if room else np.hstack([z, beside]) for z, room in zip(Z, self.plan.rooms, strict=True)]
        return Z, Q

    @property
    def _rows(self) -> int:
        """Rows that were learned so far, with a label or without."""
        return int(self.state["rows"][0])

    def _scored(self, fits: list[Array], said: Array | None) -> Array:
        """The scores of all heads, minus their mean over the classes (B x heads x K)."""
        scores = [space.targets.scores(f) for space, f in zip(self.spaces, fits, strict=True)]
        F = np.concatenate(scores if said is None else [*scores, said], axis=1)
        F -= F.sum(axis=2, keepdims=True) / F.shape[2]
        return F

    def _with_frequencies(self, F: Array) -> Array:
        counts = self.state["mix.counts"]
        pi = np.log(counts / counts.sum())
        return np.concatenate([F, np.broadcast_to(pi, (len(F), 1, len(pi)))], axis=1)

    # -- learning -----------------------------------------------------------------------------------------------

    def _run_block(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        rows = dense(X)
        weight = np.ones(len(y)) if weight is None else weight
        noise = np.full(len(y), NEVER)
        np.divide(1.0, weight, out=noise, where=y >= 0)
        F = self._run_heads(rows, y, noise, weight)
        frequent = mixture.counts_before(self.state, y)[:, :known].argmax(axis=1)
        mixed = mixture.run(self.state, F, y, known)
        self.target.add(rows, y, weight)
        self.state["rows"] += len(y)
        votes = np.concatenate([F[:, :, :known].argmax(axis=2), frequent[:, None]], axis=1)
        return Trace(mixed.probabilities, mixed.weights, votes), mixed.loss

    def _run_heads(self, rows: Array, y: Array, noise: Array, weight: Array) -> Array:
        """The scores of all heads before each label, which they learn."""
        last, self._last = self._last, None
        if last is None or last.after != self._rows or not np.array_equal(last.rows, rows):
            # one row is always computed as a prediction is: whether it was asked for must not change the last digit
            last = self._said(rows) if len(rows) == 1 else None
        if last is not None:
            for i, space in enumerate(self.spaces):
                space.run(last.Z[i], y, noise, self._turns(i, y), last.fits[i])
            if self.near is not None:
                self.near.run(last.Q, y, weight, self.n_classes, last.said)
            return last.F
        Z, Q = self._maps(rows)
        fits = [
            space.run(z, y, noise, self._turns(i, y)) for i, (space, z) in enumerate(zip(self.spaces, Z, strict=True))
        ]
        said = None if self.near is None else self.near.run(Q, y, weight, self.n_classes)
        return self._scored(fits, said)

    def _turns(self, i: int, y: Array) -> list[int]:
        """After which of these rows space i labels some of its pool, or lets old labels fade."""
        if self.plan.rooms[i]:
            first = TURN - (self._rows + TURN * i // len(self.spaces)) % TURN
            return list(range(first, len(y) + 1, TURN))
        if self.plan.spaces[i].keep < 1 and self.seen // FADE != (self.seen + len(y)) // FADE:
            labels = self.seen + np.cumsum(y >= 0)
            return (np.flatnonzero((labels % FADE == 0) & (y >= 0)) + 1).tolist()
        return []

    def grow(self, n_classes: int) -> None:
        """New classes in every head; their frequency starts at a count of one, as that of all others did."""
        extra = n_classes - self.n_classes
        self.state["mix.counts"] = np.concatenate([self.state["mix.counts"], np.ones(extra)])
        super().grow(n_classes)
        grown = [space.grow(extra) for space in self.spaces]
        self.__init__(self.plan, self.constants, self.state | self._named(grown))  # type: ignore[misc]

    # -- arrays -------------------------------------------------------------------------------------------------

    def stored(self) -> State:
        """The state with the arrays of the spaces. Pending rows of their regressions are arrays of their own.

        They stay pending: adding them to P and M earlier would give other last digits than going on.
        """
        return self.state | self._named([space.arrays() for space in self.spaces])

    def _named(self, found: list[dict[str, Array]]) -> State:
        named = {f"space.{i}.{name}": array for i, arrays in enumerate(found) for name, array in arrays.items()}
        return named if self.near is None else named | {f"near.{k}": v for k, v in self.near.arrays().items()}

    def arrays(self) -> State:
        """A copy of the state in which no row of a regression is pending."""
        twin = self.copy()
        for space in twin.spaces:
            space.regression.own()
            space.regression.flush()
        return twin.stored()


def _constants(prefix: str, constants: Constants) -> dict[str, Array]:
    """Constants by their short names, as compiled loops and the BLAS read them."""
    found = _under(prefix, constants, constants.single)
    if "prior.P" in found:
        found["prior.P"] = constants.square(f"{prefix}prior.P")
    return found


def _under(prefix: str, arrays: Mapping[str, Array], get: Any = None) -> dict[str, Array]:
    """The arrays whose names start with a prefix, by their short names."""
    read = get or arrays.__getitem__
    return {name[len(prefix) :]: read(name) for name in arrays if name.startswith(prefix)}
