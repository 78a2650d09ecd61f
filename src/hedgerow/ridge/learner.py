"""Our own learner on a stream: ridge regressions with a source prior in several spaces, mixed with a guarantee.

| space    | map                                 | targets     | lam | trust | tau | what else                 |
|----------|-------------------------------------|-------------|-----|-------|-----|---------------------------|
| `kernel` | second-degree features of landmarks | one-hot     | .1  | .3    | 0   |                           |
| `white`  | within-class whitening              | class means | .5  | .3    | .5  | a pool, of weight .3      |
| `free`   | leading directions of the input     | one-hot     | 3   | .1    | 2   |                           |
| `fading` | that of `free`                      | one-hot     | 3   | -     | 2   | no source, labels fade    |
| `input`  | the input itself                    | one-hot     | .5  | .3    | .05 | `hedgerow-linear` only    |

Each space has one head, of all sources. Local heads (`near input`) compare rows of the input: exp(60 (cos - 1)) each;
one counts all sources, and there is one for each source.
Where columns are few and differ in kind, there are heads of trees too: `boost` and `leaves` (`ridge/trees.py`).
Columns that nothing is transferred for (`core/preprocess.py`) join the rows of every space that has no pool.
The pool of `white` has labels as frequent as its classes are expected to be (`ridge/pool.py`).
`hedgerow-linear` has `input` in place of the kernel, no pool and no local heads, and a head for each source in every
space but `fading`: statistics that merge, and no kept instances. `ridge/plan.py` bounds what is kept.

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
| `near.rows`                   | d x n         | kept rows of the sources as unit vectors in whole numbers         |
| `near.y`, `weight`            | n             | their classes, and how much each counts                           |
| `near.starts`                 | sources + 1   | where those of each source start                                  |
| `trees.*`                     | ..            | `kernels/trees.py`                                                |

The state: `Record` of `kernels/ridge.py`, of which a model has the rows that are kept and the statistics `pre.i.*` by
name; what every learner has (`learner.common`); and

| state                         | shape         | what it is                                                        |
|-------------------------------|---------------|-------------------------------------------------------------------|
| `space.i.P`, `M`, `U`         | as the priors | regression and pool, once they have left their prior              |
| `space.i.G`, `E`              | rows x d, q   | pending rows of the regression (`ridge/regression.py`)            |
| `space.i.labels`, `leverage`  | u x h, u      | the pool's labels, and h of each row (`ridge/pool.py`)            |
| `space.i.at`                  | 2             | whose turn it is in the pool, and who came first                  |
| `space.i.waiting`             | rows x d      | rows without a label that join the pool at its next turn          |
| `space.i.bias`                | h x K         | what makes the pool's labels balanced                             |
| `grown.*`, `given.*`          | ..            | `ridge/grown.py`, `ridge/adapted.py`                              |
| `trees.at`, `n`               | counted       | leaves and classes with labels of the target, and how many        |
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hedgerow import coverage as coverages
from hedgerow import drift as evidence
from hedgerow.core.arrays import Array, Matrix, dense
from hedgerow.core.constants import Constants
from hedgerow.core.errors import HedgerowError
from hedgerow.core.linalg import from_upper
from hedgerow.core.moments import Moments
from hedgerow.core.records import Stretch
from hedgerow.kernels import FADE, NOW, PENDING, TURN
from hedgerow.learner import OnlineLearner, Prediction, State, Trace, prefixed, under
from hedgerow.ridge import mixture
from hedgerow.ridge.adapted import Adapted
from hedgerow.ridge.grown import Grown
from hedgerow.ridge.plan import FREQUENCIES, INTERNAL, RidgePlan
from hedgerow.ridge.space import Space
from hedgerow.ridge.trees import TreeHeads

if TYPE_CHECKING:
    from hedgerow.kernels.ridge import Base, Fit, Outcome, Work

FIRST_ROOM = 16  # places for kept rows of the target at first; they double


class RidgeLearner(OnlineLearner):
    """Heads that share a P in each space; their scores mixed by `ridge.mixture`.

    Small parts of the state are one stretch of memory, a record as `kernels/ridge.py` has it; `state` has views of it.
    """

    kind = "ridge"
    plan_type = RidgePlan
    plan: RidgePlan
    guarantee = "mistakes"
    dtype = np.dtype(np.float64)  # recursive least squares needs double precision
    block = 12 * TURN
    learns_unlabelled = True

    def __init__(self, plan: RidgePlan, constants: Constants, state: State) -> None:
        """The spaces, the trees and the heads from outside take their arrays over; `stored` gives them back."""
        parts = ("space.", "trees.", "grown.", "given.")
        super().__init__(
            plan, constants, {n: array for n, array in state.items() if not n.startswith(parts)}
        )
        K = self.n_classes
        of_spaces = [under(f"space.{i}.", state) for i in range(len(plan.spaces))]
        self.spaces = [
            Space(settings, _of_space(i, constants), own, K)
            for i, (settings, own) in enumerate(zip(plan.spaces, of_spaces, strict=True))
        ]
        regressions = [space.regression for space in self.spaces]
        self.D = sum(len(each.P) for each in regressions)
        self.Q = sum(each.M.shape[1] for each in regressions)
        self.trees = None
        if plan.trees:
            fixed = under("trees.", constants, constants.for_kernels)
            self.trees = TreeHeads(fixed, under("trees.", state), K)
        self.grown = None
        if plan.grown:
            self.grown = Grown(constants["grown.spans"], under("grown.", state))
        self.given = None
        if plan.given:
            self.given = Adapted(plan.given, under("given.", state))
        self._steps, self._shared, self._running = self.pre.numbered(self.width)
        self._lay_out(max(len(state.get("labels", ())), min(FIRST_ROOM, plan.kept)))
        for regression, own in zip(regressions, of_spaces, strict=True):
            if "G" in own:
                regression.G[: len(own["G"])] = own["G"]
                regression.E[: len(own["E"])] = own["E"]
        self._left = (
            0  # rows that certainly end no part: none of them calls for anything but the step
        )
        self._work: Work | None = None

    # -- the record ---------------------------------------------------------------------------------------------

    def sizes(self, room: int, places: int, leaved: int, *, tally: bool) -> dict[str, int]:
        """The sizes of a record with room for so many kept rows, pending rows, and rows with leaves."""
        own = int(tally)
        return self.plan.sizes | {
            "running": sum(map(len, self._running.values())), "K": self.n_classes, "room": room, "places": places,
            "D": self.D, "Q": self.Q, "W": self.compared, "leaved": leaved, "trees": self.leaves, "one": own,
            "t": own * self.width, "T": own * (1 + self.n_classes), "tallied": own * (len(self.plan.heads) + 1),
        }  # fmt: skip

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return int(self.target.totals.shape[1])

    @property
    def compared(self) -> int:
        """Numbers of a row as local heads compare it."""
        return len(self.constants["near.rows"]) if self.plan.near else 0

    @property
    def leaves(self) -> int:
        """Trees of the forest."""
        return 0 if self.trees is None else self.trees.size

    def _lay_out(self, room: int) -> None:
        """The record anew, with this room for kept rows: it takes over what the state has, which has its views then."""
        from hedgerow.kernels.ridge import Record

        stretch = Stretch(Record, **self.sizes(room, PENDING, 0, tally=True))
        self._memory = np.zeros((1, stretch.size))
        self._at = stretch.at
        views = stretch.views(self._memory[0])
        ends = np.cumsum([len(array) for array in self._running.values()])
        running = dict(zip(self._running, np.split(views["running"], ends), strict=False))
        state = self.state
        views |= running
        for name in views.keys() & state.keys():
            views[name][: len(state[name])] = state[name]
        state |= views
        self.pre.follow(running)
        self.target = Moments(views["target.counts"], views["target.totals"])
        self._diagonal = np.empty(self.D)
        self._sizes = np.empty((len(self.spaces), 2))
        G = views["G"].ravel()
        E = views["E"].ravel()
        d = q = 0
        for space, sizes in zip(self.spaces, self._sizes, strict=True):
            regression = space.regression
            d_end = d + space.dim
            q_end = q + regression.M.shape[1]
            regression.G = G[PENDING * d : PENDING * d_end].reshape(PENDING, -1)
            regression.E = E[PENDING * q : PENDING * q_end].reshape(PENDING, -1)
            regression.diagonal = self._diagonal[d:d_end]
            regression.top = sizes[:1]
            regression.reach = sizes[1:]
            regression.measure()
            d = d_end
            q = q_end

    @property
    def first_numbers(self) -> Array:
        """The beginning of a record that knows what this one does, and has no rows."""
        from hedgerow.kernels.ridge import CLASSES, RUNNING

        numbers = self._memory[0, : self._at[CLASSES]].copy()
        numbers[: self._at[RUNNING]] = 0.0
        return numbers

    @property
    def _pending(self) -> int:
        return int(self.state["counters"][PENDING_ROWS])

    # -- what is said of it -------------------------------------------------------------------------------------

    @property
    def expert_names(self) -> list[str]:
        """The heads, and the class frequencies."""
        return [*self.plan.heads, FREQUENCIES]

    @property
    def last(self) -> int:
        """The code of the newest label that is known; -1: none."""
        return int(self.state["mix.order"][2])

    @last.setter
    def last(self, code: int) -> None:
        self.state["mix.order"][2] = code

    @property
    def weights(self) -> Array:
        """The first mixture's weights, temperatures and priors of a head together."""
        return mixture.head_weights(self.state)

    @property
    def bound(self) -> float:
        """(min_e L_e + ln N + ln 4)/ln 2."""
        return mixture.bound(self.state)

    @property
    def dim(self) -> int:
        """The largest space."""
        return max(space.dim for space in self.spaces)

    # -- what compiled loops take -------------------------------------------------------------------------------

    @cached_property
    def fit(self) -> Fit:
        """What all models of this fit share, laid out for the loops."""
        from hedgerow.kernels.ridge import NO_LOCAL, Fit

        plan = self.plan
        get = self.constants.for_kernels
        near = plan.near[0] if plan.near else None
        trees = TreeHeads.none() if self.trees is None else self.trees
        maps = [get("axes") if "axes" in self.constants else NO_MATRIX]
        maps += [
            NO_MATRIX if array is None else array
            for name in ("landmarks", "matrix")
            for array in (getattr(space.map, name) for space in self.spaces)
        ]
        if any(array.dtype == np.float64 for array in maps):  # numbers of an unusual size
            maps = [array.astype(np.float64) for array in maps]
        axes, *matrices = maps
        n = len(self.spaces)
        kept = under("near.", self.constants, get) if near else NO_ROWS
        return Fit(
            steps=self._steps,
            shared=self._shared,
            length=float(self.pre.length(self.width - self.target_only)),
            axes=axes,
            landmarks=tuple(matrices[:n]),
            matrices=tuple(matrices[n:]),
            **self._regressions(),
            near_rows=kept["rows"],
            near_starts=kept["starts"],
            near_y=kept["y"],
            near_weight=kept["weight"],
            near=near.of if near else NO_LOCAL,
            local=len(near.heads) if near else 0,
            kept=plan.kept,
            sharpness=near.sharpness if near else 1.0,
            forest=trees.trees,
            level=trees.level[0],
            centre=trees.level[1],
            deviation=trees.level[2],
            trees=len(plan.trees),
        )

    def _regressions(self) -> dict[str, Array]:
        """The fields of `Fit` from `spaces` to `class_rows`."""
        tables: list[Array] = []
        columns = []
        halves = []
        spaces = []
        d = q = 0
        for settings, space in zip(self.plan.spaces, self.spaces, strict=True):
            targets = space.targets
            for h, width in enumerate(targets.widths):
                columns.append((q, width, -1 if targets.table is None else sum(map(len, tables))))
                halves.append(
                    np.zeros(self.n_classes) if targets.table is None else targets.half_squares[h]
                )
                if targets.table is not None:
                    tables.append(np.ascontiguousarray(targets.parts[h].T).ravel())
                q += width
            d += space.dim
            unit = space.map.landmarks is None and space.map.A is not None
            spaces.append((d, q, settings.of, space.dim - self.plan.own_in(settings), unit))
        everyone = np.arange(self.n_classes)
        return {
            "spaces": np.array(spaces, np.int64),
            "keep": np.array([space.keep for space in self.plan.spaces]),
            "columns": np.array(columns, np.int64),
            "tables": np.concatenate([*tables, np.empty(0)]),
            "halves": np.array(halves),
            "class_rows": np.hstack([space.targets.rows(everyone) for space in self.spaces]),
        }

    def base(self, *, counted: bool = True) -> Base:
        """What a step reads of the regressions; `counted`: the forest counts labels by leaf, not by kept row."""
        from hedgerow.kernels.ridge import Base

        regressions = [space.regression for space in self.spaces]
        counts = NO_COUNTS if self.trees is None or not counted else self.trees.counts
        return Base(
            tuple(each.P for each in regressions), tuple(each.M for each in regressions), self._diagonal, self._sizes,
            counts,
        )  # fmt: skip

    def work(self, rows: int, kept: int) -> Work:
        """Room for a part of rows of targets that keep so many."""
        from hedgerow.kernels.ridge import PART, Work, mixing_room

        n = min(rows, PART)
        fit = self.fit
        heads = len(self.plan.heads)
        K = self.n_classes
        sources = max(self.n_sources, 1)
        forest = len(fit.forest.first) + len(self.plan.trees) * K
        room = max(
            mixing_room(heads, K), (1 + sources) * K + kept // 2 + 1, (1 + self.leaves) * K, forest
        )
        reduced = fit.axes.shape[1]
        landmarks = max(len(each) for each in fit.landmarks)
        return Work(
            np.empty((n, self.width)), np.empty((n, self.width)), np.empty((n, reduced)), np.empty((n, landmarks)),
            np.empty((n, self.D)), np.empty((n, self.Q)), np.empty((n, self.D)), np.empty((n, len(self.spaces))),
            np.empty((n, self.compared), np.int16), np.empty((n, len(fit.near_y)), np.int32),
            np.empty((n, self.leaves), np.int16), np.empty((n, heads, K)), np.empty(self.Q),
            np.empty((len(self.spaces), max(kept, PENDING))), np.zeros(3, np.int64), np.empty(room),
        )  # fmt: skip

    def outcome(self, rows: int, known: int) -> Outcome:
        """Places for what a step says of so many rows, of the first `known` classes."""
        from hedgerow.kernels.ridge import Outcome

        experts = len(self.plan.heads) + 1
        return Outcome(
            np.empty((rows, known)), np.empty((rows, experts)), np.empty((rows, experts), np.int64),
            np.empty(rows, np.int64),
        )  # fmt: skip

    def _begin(self) -> Work:
        """The room for one row, made when it is asked for first, and what goes with it."""
        self._base = self.base()
        self._none = np.zeros(1, np.int64)  # the only record
        self._label = np.empty(1, np.int64)
        self._before = np.full(1, NOW)
        self._weight = np.ones(1)
        self._learned = np.ones(1, bool), np.zeros(1, bool)
        self._work = self.work(1, self.plan.kept)  # last: what is interrupted here begins again
        return self._work

    def _compiled(
        self,
        work: Work,
        X: Array,
        y: Array,
        weight: Array,
        before: Array,
        learned: Array,
        out: Outcome,
    ) -> None:
        from hedgerow.kernels.ridge import step

        slots = self._none if len(y) == 1 else np.zeros(len(y), np.int64)
        logs = X[:, self.width :]
        if self.plan.said:
            X = np.ascontiguousarray(X[:, : self.width])
        outside = self._outside(logs, X, np.where(learned, y, -1), weight)
        try:
            step(
                self.fit,
                self._base,
                self._memory,
                slots,
                self._at,
                X,
                y,
                weight,
                before,
                learned,
                outside,
                work,
                out,
            )
        except ZeroDivisionError as error:  # the only error that a step has, and half way
            self.damaged = "scores so large that no expert has any weight left"
            raise HedgerowError(f"{self.damaged}; scale the rows, or fit again") from error

    def _outside(self, logs: Array, X: Array, y: Array, weight: Array) -> Array:
        """What the heads say that the step does not have (rows x heads x K); labels >= 0 are then learned."""
        K = self.n_classes
        said = [np.empty((len(y), 0, K))]
        if self.given is not None:
            said.append(self.given.scores(logs, y))
        if self.grown is not None:
            said.append(self.grown.scores(X, K))
            self.grown.learn(X, y, weight)
        return said[0] if len(said) == 1 else np.concatenate(said, axis=1)

    # -- predicting ---------------------------------------------------------------------------------------------

    def _predicted(self, X: Matrix) -> tuple[Work, Outcome]:
        """Of at most PART rows the work is of all of them."""
        rows = _rows(X)
        B = len(rows)
        single = self._work or self._begin()
        work = single if B == 1 else self.work(B, self.plan.kept)
        out = self.outcome(B, self.n_classes)
        before = np.full(B, NOW)
        self._compiled(work, rows, np.full(B, -1), np.ones(B), before, np.zeros(B, bool), out)
        return work, out

    def probabilities(self, scores: Array) -> Array:
        """The scores are probabilities."""
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def expert_scores(self, X: Matrix) -> Array:
        """Each head's scores, and the log of the class frequencies."""
        from hedgerow.kernels.ridge import PART

        parts = [self._predicted(X[a : a + PART])[0].F.copy() for a in range(0, X.shape[0], PART)]
        F = np.concatenate([*parts, np.empty((0, len(self.plan.heads), self.n_classes))])
        counts = self.state["mix.counts"]
        pi = np.log(counts / counts.sum())
        return np.concatenate([F, np.broadcast_to(pi, (len(F), 1, len(pi)))], axis=1)

    def explain(self, X: Matrix) -> Trace:
        """Probabilities, weights and votes, from one pass over the heads."""
        out = self._predicted(X)[1]
        return Trace(out.probabilities, out.weights, out.votes)

    def predict_row(self, x: Array) -> Prediction:
        """One dense row; what is computed for it is kept for its label."""
        work = self._work or self._begin()
        out = self.outcome(1, self.n_classes)
        self._label[0] = -1
        X = x[None] if x.flags.behaved else x[None].copy()
        self._before[0] = NOW
        self._compiled(work, X, self._label, self._weight, self._before, self._learned[1], out)
        return Prediction(int(out.named[0]), out.probabilities[0], out.weights[0], out.votes[0])

    # -- learning -----------------------------------------------------------------------------------------------

    def learn_row(self, x: Array, y: int, weight: float, before: int | None = None) -> None:
        """The label of one dense row. A row that ends no part is one compiled call, which no signal can cut in two."""
        if self._left < 2 or weight == 0 or y < 0:
            super().learn_row(x, y, weight, before)
            return
        assert self._work is not None
        self._left -= 1
        self._label[0] = y
        self._weight[0] = weight
        self._before[0] = NOW if before is None else before
        X = x[None] if x.flags.behaved else x[None].copy()
        about = self._label, self._weight, self._before, self._learned[0]
        self._compiled(self._work, X, *about, self._out)

    def _step(
        self,
        X: Matrix,
        y: Array,
        known: int | None,
        weight: Array | None,
        before: Array | None = None,
    ) -> Trace:
        """Rows in parts, between which pending rows are folded, pools have their turns, and labels fade."""
        rows = _rows(X)
        y = np.ascontiguousarray(y, np.int64)
        B = len(y)
        weight = np.ones(B) if weight is None else np.ascontiguousarray(weight, np.float64)
        told = np.full(B, NOW) if before is None else np.ascontiguousarray(before, np.int64)
        single = self._work or self._begin()
        work = single if B == 1 else self.work(B, self.plan.kept)
        out = self.outcome(B, self.n_classes if known is None else known)
        learned = np.ones(B, bool)
        begin = 0
        while begin < B:
            end = min(B, begin + self._until())
            part = slice(begin, end)
            seen = self.seen
            some = out if end - begin == B else type(out)(*(array[part] for array in out))
            about = y[part], weight[part], told[part], learned[part]
            self._compiled(work, rows[part], *about, some)
            self._wait(work, y[part])
            self._between(self.seen > seen)
            begin = end
        self._left = self._until()
        if coverages.LEVELS in self.state or self.plan.outside:  # which every label moves
            self._left = 0
        self._out = self.outcome(1, self.n_classes)
        return Trace(out.probabilities, out.weights, out.votes)

    def _until(self) -> int:
        """How many rows may come until something else may be due; room for them is made."""
        from hedgerow.kernels.ridge import PART

        room = len(self.state["labels"])
        kept, *_, rows = self.state["counters"].tolist()
        if self.plan.near and kept == room < self.plan.kept:
            self._lay_out(min(2 * room, self.plan.kept))
            self._base = self.base()
            room = len(self.state["labels"])
        ends = [
            PART,
            PENDING - self._pending,
            evidence.EVERY - self.seen % evidence.EVERY,
            FADE - self.seen % FADE,
        ]
        if self.grown is not None:
            ends.append(self.grown.left)
        if self._pools:
            ends.append(TURN - rows % TURN)
        if self.plan.near and room < self.plan.kept:
            ends.append(room - kept)
        return min(ends)

    @cached_property
    def _pools(self) -> list[tuple[slice, Space]]:
        """The spaces with a pool, and the columns of each."""
        ends = np.cumsum([space.dim for space in self.spaces]).tolist()
        return [
            (slice(end - space.dim, end), space)
            for end, space in zip(ends, self.spaces, strict=True)
            if space.pool is not None
        ]

    def _wait(self, work: Work, y: Array) -> None:
        """Rows of a part that have no label wait for the next turn of the pools."""
        if self._pools and (y < 0).any():
            for columns, space in self._pools:
                if space.pool is not None:
                    space.pool.wait(work.Z[: len(y)][y < 0][:, columns])

    def _between(self, labelled: bool) -> None:
        """After a part, which may have had a label: folds, turns, what fades, and a look for drift."""
        turn = bool(self._pools) and self.state["counters"][ROWS] % TURN == 0
        fade = labelled and self.seen % FADE == 0
        pending = self._pending
        if turn or fade or pending == PENDING:
            for space in self.spaces:
                if pending:
                    space.regression.fold(pending)
                if turn and space.pool is not None:
                    space.pool.turn(space.regression, self.state["mix.counts"] - 1)
                elif fade and space.settings.keep < 1:
                    space.fade()
            self.state["counters"][PENDING_ROWS] = 0
            self._base = self.base()
        if labelled and self.seen % evidence.EVERY == 0:
            evidence.look(self.state, self._counts)

    def grow(self, n_classes: int) -> None:
        """New classes in every head; their frequency starts at a count of one, as that of all others did."""
        extra = n_classes - self.n_classes
        if self.trees is not None:
            self.trees.grow(extra)
        state = self._stored([space.grow(extra, self._pending) for space in self.spaces])
        state["mix.counts"] = np.append(state["mix.counts"], np.ones(extra))
        state |= self.target.padded(n_classes).arrays("target")
        if self.given is not None:
            state |= prefixed("given.", self.given.grown(extra))
        for name in ("fit", "_pools"):
            self.__dict__.pop(name, None)
        self.__init__(self.plan, self.constants, state)  # type: ignore[misc]

    # -- arrays -------------------------------------------------------------------------------------------------

    def stored(self) -> State:
        """The state with the arrays of the spaces. Pending rows of their regressions are arrays of their own.

        They stay pending: adding them to P and M earlier would give other last digits than going on.
        """
        return self._stored([space.arrays(self._pending) for space in self.spaces])

    def _stored(self, spaces: list[dict[str, Array]]) -> State:
        kept = self.state["counters"][0]
        state = {name: array for name, array in self.state.items() if name not in INTERNAL}
        state |= {name: state[name][:kept] for name in OF_KEPT}
        for i, arrays in enumerate(spaces):
            state |= prefixed(f"space.{i}.", arrays)
        if self.given is not None:
            state |= prefixed("given.", self.given.state)
        for prefix, part in (("trees.", self.trees), ("grown.", self.grown)):
            state |= {} if part is None else prefixed(prefix, part.arrays())
        return state

    def arrays(self) -> State:
        """A copy of the state in which no row of a regression is pending."""
        twin = self.copy()
        for space in twin.spaces:
            space.regression.fold(twin._pending)
        twin.state["counters"][PENDING_ROWS] = 0
        return twin.stored()


OF_KEPT = ("labels", "weights", "rows")  # arrays of a record with a place for each kept row
PENDING_ROWS = 3  # the place of a record's counter of pending rows,
ROWS = 4  # and of that of rows
NO_MATRIX = np.zeros((0, 0), np.float32)
NO_COUNTS = np.zeros((0, 0))
NO_ROWS: State = {
    "rows": np.zeros((0, 0), np.int16),
    "starts": np.zeros(1, np.int64),
    "y": np.zeros(0, np.int64),
    "weight": np.zeros(0),
}


def _rows(X: Matrix) -> Array:
    """Rows as compiled loops take them: all of one kind of array, since each other kind is compiled again."""
    rows = np.ascontiguousarray(dense(X), np.float64)
    return rows if rows.flags.behaved else rows.copy()


def _of_space(i: int, constants: Constants) -> dict[str, Array]:
    """The constants of a space, P as a matrix; a model file may leave out a prior that was replaced."""
    own = under(f"space.{i}.", constants, constants.for_kernels)
    if "prior.P" in own:
        upper = own["prior.P"]
        own["prior.P"] = constants.derived(f"space.{i}.P", lambda: from_upper(upper))
    return own
