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

Where columns are few and differ in kind, there are heads of trees too: `boost` and `leaves` (`ridge/trees.py`).
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
| `trees.*`                     | ..            | `kernels/trees.py`                                                |

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
| `trees.at`, `n`               | counted       | leaves and classes with labels of the target, and how many        |
| `rows`                        | 1             | rows learned so far, with a label or without                      |
| `mix.*`                       | ..            | `ridge/mixture.py`                                                |
| `target.*`, `pre.i.*`, counters | ..          | as every learner                                                  |
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.core.arrays import Array, Matrix, blocks, dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import HedgerowError
from hedgerow.core.interrupts import uninterrupted
from hedgerow.core.linalg import from_upper, one_blas_thread
from hedgerow.learner import BLOCK, OnlineLearner, Prediction, State, Trace, prefixed, register_learner, under
from hedgerow.ridge import mixture
from hedgerow.ridge.near import INPUT, Near, whole
from hedgerow.ridge.plan import FREQUENCIES, RidgePlan
from hedgerow.ridge.pool import TURN
from hedgerow.ridge.regression import Regressions, symmetric_product
from hedgerow.ridge.space import FADE, PENDING, Space
from hedgerow.ridge.trees import TreeHeads

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Forest, Heads, Outcome, Products, Record


@register_learner
class RidgeLearner(OnlineLearner):
    """Heads that share a P in each space; their scores mixed by `ridge.mixture`."""

    kind = "ridge"
    plan_type = RidgePlan
    plan: RidgePlan
    guarantee = "mistakes"
    dtype = np.dtype(np.float64)  # recursive least squares needs double precision
    block = 12 * TURN
    learns_unlabelled = True

    def __init__(self, plan: RidgePlan, constants: Constants, state: State) -> None:
        """The spaces and the local heads take their arrays over; `stored` gives them back."""
        own = {name: array for name, array in state.items() if not name.startswith(("space.", "near.", "trees."))}
        super().__init__(plan, constants, own)
        self.spaces = [
            Space(settings, _of_space(i, constants), under(f"space.{i}.", state), self.n_classes)
            for i, settings in enumerate(plan.spaces)
        ]
        self.near = Near(plan.near, under("near.", constants, constants.single), under("near.", state), plan.kept)
        self.trees = None
        if plan.trees:
            arrays = under("trees.", constants, constants.for_kernels)
            self.trees = TreeHeads(arrays, under("trees.", state), self.n_classes)
        self.regressions = Regressions([space.regression for space in self.spaces], PENDING)
        self.__dict__.pop("heads", None)  # of fewer classes, where they have grown
        self._given: Matrix | None = None  # the rows of a step as they came, for trees
        self._last: tuple[int, Products] | None = None  # of the row that was predicted last, after how many rows

    @property
    def expert_names(self) -> list[str]:
        """The heads, and the class frequencies."""
        return [*self.plan.heads, FREQUENCIES]

    @property
    def weights(self) -> Array:
        """The first mixture's weights, temperatures and priors of a head together."""
        return mixture.head_weights(self.state)

    @property
    def bound(self) -> float:
        """(min_e L_e + ln(1/w_e) + ln 2)/ln 2."""
        return mixture.bound(self.state)

    @property
    def dim(self) -> int:
        """The largest space."""
        return max(space.dim for space in self.spaces)

    # -- what compiled loops take -------------------------------------------------------------------------------

    @cached_property
    def heads(self) -> Heads:
        """What all models of this fit share, laid out for the loops."""
        from hedgerow.kernels.ridge import Heads

        tables: list[Array] = []
        columns, halves, q, near = [], [], 0, self.near
        for targets in (space.targets for space in self.spaces):
            for h, width in enumerate(targets.widths):
                columns.append((q, width, -1 if targets.table is None else sum(map(len, tables))))
                halves.append(np.zeros(self.n_classes) if targets.table is None else targets.half_squares[h])
                if targets.table is not None:
                    tables.append(np.ascontiguousarray(targets.parts[h].T).ravel())
                q += width
        return Heads(
            self.regressions.d_ends,
            self.regressions.q_ends,
            np.array([space.settings.keep for space in self.spaces]),
            np.array(columns),
            np.concatenate([*tables, np.empty(0)]),
            np.array(halves),
            np.hstack([space.targets.rows(np.arange(self.n_classes)) for space in self.spaces]),
            near.ends,
            near.sharpness,
            near.y,
            near.domain,
            near.weight,
            len(self.plan.near[0].heads) if self.plan.near else 0,
            near.limit,
            len(self.plan.trees),
        )

    @property
    def _forest(self) -> Forest | None:
        """The leaves of the trees, as the loops take them."""
        from hedgerow.kernels.ridge import Forest

        trees = self.trees
        return None if trees is None else Forest(trees.trees.counts, trees.counts, np.empty((0, 1), np.int16))

    @property
    def record(self) -> Record:
        """What was learned: the arrays themselves."""
        from hedgerow.kernels.ridge import Mixture, Record

        rows, near = self.regressions, self.near
        return Record(
            Mixture(*mixture.parts(self.state)), rows.pending, rows.G, rows.E, rows.diagonal, rows.top,
            near.labels, near.weights, near.rows, near.at,
        )  # fmt: skip

    def products(self, X: Matrix, rows: Array, room: int, *, kept: bool = True) -> Products:
        """All that needs no record but the base of the regressions; `room`: pending rows that it may have.

        X are the rows as they came, `rows` what the preprocessing made of them.

        `kept`: products with the kept rows of the target too, where they pay.
        """
        from hedgerow.kernels.ridge import Products

        B, (Z, W) = len(rows), self._maps(rows)
        compared, shorter = [W[:, w] for w in self.near.columns], self.regressions.shorten(Z)
        MZ, spaces, shape = self.regressions.fits(Z), len(self.spaces), (B, len(self.plan.heads), self.n_classes)
        F, given, leaves = np.empty(shape), rows, np.empty((B, 0), np.int16)
        if self.trees is not None:
            given = np.ascontiguousarray(dense(X), np.float64)
            given = given.copy() if given is X else given  # the caller may write into the array it gave
            leaves = self.trees.rows(given, F)
        return Products(
            rows, given, leaves, Z, shorter, MZ, Z[:0], np.zeros(spaces, np.int64), W,
            *self.near.products(compared, B, kept=kept), np.zeros(1, np.int64), np.full(B, -1),
            np.empty_like(MZ), np.empty((B, spaces, room)), F,
        )  # fmt: skip

    def _maps(self, rows: Array) -> tuple[Array, Array]:
        """The rows in all spaces side by side, and as the local heads compare them."""
        from hedgerow.kernels.rows import times

        own, Z = self.target_only, np.empty((len(rows), self.regressions.d_ends[-1]))
        if own:
            rows, target_only = np.ascontiguousarray(rows[:, :-own]), rows[:, -own:]
        axes = self.constants.get("axes")
        if axes is not None:
            rows = times(rows, axes)
        mapped = [space.map(rows) for space in self.spaces]
        for z, d, space in zip(mapped, self.regressions.d, self.plan.spaces, strict=True):
            if own and not space.room:  # a pool has no rows with these columns
                z = np.hstack([z, target_only])
            Z[:, d] = z
        W = np.empty((len(rows), self.near.width), np.int16)
        for settings, w in zip(self.plan.near, self.near.columns, strict=True):
            W[:, w] = whole(rows if settings.of == INPUT else mapped[settings.of])
        return Z, W

    def outcome(self, rows: int, known: int, kept: int | None = None) -> Outcome:
        """Places for what a loop says of so many rows, of a target that keeps so many then (None: this one)."""
        from hedgerow.kernels.ridge import Outcome, mixing_room

        heads, K, trees = len(self.plan.heads), self.n_classes, 0 if self.trees is None else self.trees.size
        kept = min(self.near.limit, int(self.near.at[0]) + rows) if kept is None else kept
        near = (max(self.n_sources, 1) + 1) * (K + 1) + kept // 2 + 1
        work = np.empty(max(mixing_room(heads, K), near, (1 + trees) * K))
        votes = np.empty((rows, heads + 1), np.int64)
        return Outcome(np.empty((rows, known)), np.empty((rows, heads + 1)), votes, work)

    # -- predicting ---------------------------------------------------------------------------------------------

    def scores(self, X: Matrix) -> Array:
        """Probabilities by what was learned so far."""
        parts = [self._predicted(rows)[1].probabilities for rows in blocks(X, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def probabilities(self, scores: Array) -> Array:
        """The scores are probabilities."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def expert_scores(self, X: Matrix) -> Array:
        """Each head's scores, and the log of the class frequencies."""
        return self._with_frequencies(self._predicted(X)[0].F)

    def explain(self, X: Matrix) -> Trace:
        """Probabilities, weights and votes, from one pass over the heads."""
        products, out = self._predicted(X)
        return self._trace(out.probabilities, self._with_frequencies(products.F))

    def predict_row(self, x: Array) -> Prediction:
        """One dense row; what is computed for it is kept for its label."""
        with uninterrupted(), one_blas_thread:
            products, out = self._predicted(x[None])
        self._last, scores = (self._rows, products), out.probabilities[0]
        return Prediction(int(scores.argmax()), scores, out.weights[0], self._with_frequencies(products.F)[0])

    def _predicted(self, X: Matrix) -> tuple[Products, Outcome]:
        rows = dense(self.pre.apply(X))
        rows = rows if self.pre.steps else rows.copy()  # the caller may write into the array it gave
        products, out, B = self.products(X, rows, PENDING), self.outcome(len(rows), self.n_classes), len(rows)
        self._run_rows(self.record, products, (0, B), np.full(B, -1), np.ones(B), out)
        return products, out

    def _run_rows(
        self, record: Record, products: Products, rows: tuple[int, int], y: Array, weight: Array, out: Outcome
    ) -> float:
        from hedgerow.kernels.ridge import run_rows

        try:
            return run_rows(self.heads, record, products, self._forest, *rows, y, weight, out)
        except ZeroDivisionError as error:
            raise HedgerowError(
                "scores so large that no expert has any weight left; scale the rows, or fit again"
            ) from error

    @property
    def _rows(self) -> int:
        """Rows that were learned so far, with a label or without."""
        return int(self.state["rows"][0])

    def _with_frequencies(self, F: Array) -> Array:
        counts = self.state["mix.counts"]
        pi = np.log(counts / counts.sum())
        return np.concatenate([F, np.broadcast_to(pi, (len(F), 1, len(pi)))], axis=1)

    # -- learning -----------------------------------------------------------------------------------------------

    def _step(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> Trace:
        self._given = X if self.trees is not None else None
        try:
            return super()._step(X, y, known, weight)
        finally:
            self._given = None

    def _run_block(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        rows, B = dense(X), len(y)
        weight = np.ones(B) if weight is None else weight
        if self.regressions.pending.max() + B > PENDING:
            self.regressions.flush()
            self.regressions.make_room(max(B, PENDING))
        last, self._last = self._last, None
        given = rows if self._given is None else dense(self._given)
        if last is not None and last[0] == self._rows and _same_rows(last[1], rows, given):
            products = last[1]
        else:
            products = self.products(given, rows, PENDING)
        out = self.outcome(B, self.n_classes if known is None else known)
        loss = self._learn(products, y, weight, out)
        self.target.add(rows, y, weight)
        self.state["rows"] += B
        return Trace(out.probabilities, out.weights, out.votes), loss

    def _learn(self, products: Products, y: Array, weight: Array, out: Outcome) -> float:
        """Rows are predicted and learned in parts of at most PENDING rows, between which pools have their turns.

        What a part has learned is added to the products of the rows after it, so that P is read and written once a
        block, and products with pending rows stay few. Where rounding could matter, rows go one by one.
        """
        B, regressions = len(y), self.regressions
        self.near.make_room(B)
        alone = B > 1 and regressions.doubtful(products.Z, weight)
        turns = [self._turns(i, y) for i in range(len(self.spaces))]
        until = [min([*turn, B]) for turn in turns]  # the products of each space are those of rows up to here
        step = 1 if alone else B if any(space.room for space in self.plan.spaces) else PENDING
        if (y >= 0).any():
            products = products._replace(PZ=regressions.covariances(products.Z, until))
        record, total = self.record, 0.0
        for begin, end in pairwise(sorted({B, *range(0, B, step), *chain(*turns)})):
            if alone:
                products.MZ[begin] = regressions.fits(products.Z[begin:end])
                products.PZ[begin:end] = regressions.covariances(products.Z[begin:end])
                products.folded[:] = 0
            total += self._run_rows(record, products, (begin, end), y, weight, out)
            for s, space in enumerate(self.spaces):
                if space.pool is not None:
                    space.pool.watch(products.Z[begin:end, regressions.d[s]], y[begin:end])
                if end in turns[s]:
                    space.turn()
                    until[s] = min([turn for turn in turns[s] if turn > end] + [B])
                    self._start_products(s, products, slice(end, until[s]))
                elif end < until[s] and not alone:
                    self._add_learned(s, products, slice(end, until[s]))
            if alone:
                regressions.flush(PENDING)
        regressions.flush(PENDING)
        regressions.make_room(PENDING)
        return total

    def _start_products(self, s: int, products: Products, rows: slice) -> None:
        """The products of later rows with the base of space s, which has changed."""
        regression, d = self.spaces[s].regression, self.regressions.d[s]
        if rows.start < rows.stop:
            products.MZ[rows, self.regressions.q[s]] = products.Z[rows, d] @ regression.M
            products.folded[s] = 0
            if len(products.PZ):
                products.PZ[rows, d] = symmetric_product(products.Z[rows, d], regression.P)

    def _add_learned(self, s: int, products: Products, rows: slice) -> None:
        """The newest pending rows of space s go into the products of rows that come later."""
        regression, d = self.spaces[s].regression, self.regressions.d[s]
        first, n = int(products.folded[s]), int(self.regressions.pending[s])
        if n > first:
            G, E = regression.G[first:n], regression.E[first:n]
            along = products.Z[rows, d] @ G.T
            products.MZ[rows, self.regressions.q[s]] += along @ E
            products.folded[s] = n
            if len(products.PZ):  # some of the rows have labels
                products.PZ[rows, d] -= along @ G

    def _turns(self, i: int, y: Array) -> list[int]:
        """After which of these rows space i labels some of its pool, or lets old labels fade."""
        if self.plan.spaces[i].room:
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
        state = self.state | self._named(grown)
        if self.trees is not None:
            state |= prefixed("trees.", self.trees.grown(extra))
        self.__init__(self.plan, self.constants, state)  # type: ignore[misc]

    # -- arrays -------------------------------------------------------------------------------------------------

    def stored(self) -> State:
        """The state with the arrays of the spaces. Pending rows of their regressions are arrays of their own.

        They stay pending: adding them to P and M earlier would give other last digits than going on.
        """
        return self.state | self._named([space.arrays() for space in self.spaces])

    def _named(self, spaces: list[dict[str, Array]]) -> State:
        named = prefixed("near.", self.near.arrays())
        for i, arrays in enumerate(spaces):
            named |= prefixed(f"space.{i}.", arrays)
        return named if self.trees is None else named | prefixed("trees.", self.trees.arrays())

    def arrays(self) -> State:
        """A copy of the state in which no row of a regression is pending."""
        twin = self.copy()
        for regression in twin.regressions.each:
            regression.own()
            regression.flush()
        return twin.stored()


def _same_rows(products: Products, rows: Array, given: Array) -> bool:
    """Whether they are of these rows: as the spaces see them, and as trees do."""
    if not np.array_equal(products.rows, rows):
        return False
    return products.given is products.rows or np.array_equal(products.given, given, equal_nan=True)


def _of_space(i: int, constants: Constants) -> dict[str, Array]:
    """The constants of a space, P as a matrix; a model file may leave out a prior that was replaced."""
    own = under(f"space.{i}.", constants, constants.single)
    if "prior.P" in own:
        upper = own["prior.P"]
        own["prior.P"] = constants.derived(f"space.{i}.P", lambda: from_upper(upper))
    return own
