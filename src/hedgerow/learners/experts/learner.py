"""The learner: spaces x heads x mixer x refresh, one instance or one block at a time, with the same predictions.

    z_i = A_i^T x / |A_i^T x|          every space projects the instance
    f_e = W_e z_{i(e)}                 every expert scores it
    F   = sum_e p_e advice(f_e)        the mixer weighs them; predict argmax F
    after the label: losses -> weights, labels -> heads, x -> moments, every T_w labels: A_i <- refreshed A_i

`Plan` is what never changes along the stream; the state, and how a stream is cut into blocks, are in `online.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hedgerow.align import refreshed
from hedgerow.align.base import kernel_rows
from hedgerow.core.arrays import Array, Matrix, Order, blocks, dense, is_sparse, on_large_pages
from hedgerow.core.moments import Moments, gap
from hedgerow.core.preprocess import Preprocess, unit
from hedgerow.heads import PassiveAggressive, make_head
from hedgerow.learners.base import BLOCK, OnlineLearner, State, Trace, pad_axis
from hedgerow.learners.experts.block_refresh import Moving, Refresh
from hedgerow.learners.experts.live_refresh import Stepping
from hedgerow.learners.experts.live_row import Instance
from hedgerow.mix import Hedge, Mixer

LEARNED = np.ones(1, dtype=bool)
MOVING_BLOCK = 128  # rows; the longer a block, the more its rows have to do with each other while the spaces move
FIXED_BLOCK = 1024


@dataclass(frozen=True)
class Expert:
    """A classifier in a space; a frozen one keeps what a source taught it."""

    name: str
    space: int
    learns: bool


@dataclass(frozen=True)
class Plan:
    """The composition, fixed before the stream starts."""

    steps: tuple[str, ...]
    experts: tuple[Expert, ...]
    mixer: Mixer
    rule: str
    C: float
    unit_projection: bool
    gammas: tuple[float | None, ...] = ()  # of kernel spaces, as in their projections
    refresh: Refresh | None = None


class Learner(OnlineLearner):
    """Linear heads in aligned spaces, weighed by a mixer, with or without a refresh of the spaces."""

    plan: Plan

    def __init__(self, plan: Plan, state: State) -> None:
        self.plan, self.state = plan, state
        self.pre = Preprocess.of_arrays(plan.steps, state)
        self.head = make_head(plan.rule, plan.C)
        spaces = len(state["A"]) if "A" in state else 1
        self._space = np.array([expert.space if spaces > 1 else 0 for expert in plan.experts])
        self._online = np.flatnonzero([expert.learns for expert in plan.experts])
        self._moving: Moving | None = None
        self._instance: Instance | None = None
        if not self.period:
            self.block = FIXED_BLOCK if plan.refresh is None else _whole_windows(plan.refresh.every)

    @property
    def expert_names(self) -> list[str]:
        """Frozen source heads first, then the online ones."""
        return [expert.name for expert in self.plan.experts]

    @property
    def weights(self) -> Array:
        """Who is trusted now: one weight an expert, summing to one."""
        return self.plan.mixer.weights(self._state, self.seen)

    @property
    def bound(self) -> float:
        """The mixer's guarantee for what was observed so far."""
        return self.plan.mixer.bound(self._state, self.seen)

    @property
    def guarantee(self) -> str:
        """What the mixer's bound is about."""
        return self.plan.mixer.guarantee

    @property
    def dim(self) -> int:
        """d, the dimension of the spaces."""
        return int(self._state["W"].shape[2])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the heads' weights."""
        return self._state["W"].dtype

    @property
    def period(self) -> int | None:
        """T_w where the refresh is done as it is printed; otherwise `align.moving` does it within a block."""
        refresh = self.plan.refresh
        return refresh.every if refresh and refresh.inverse == "pinv" else None

    def probabilities(self, scores: Array) -> Array:
        """As the mixer says."""
        return self.plan.mixer.probabilities(scores)

    def discrepancies(self) -> Array:
        """sum_k |A^T g_k|^2 for each source, over the classes that both sides have shown; NaN in a kernel space."""
        if self.plan.gammas:
            return np.full(len(self.state["source.count"]), np.nan)
        return super().discrepancies()

    def _projection(self, source: int) -> Array | None:
        A = self.state.get("A")
        return None if A is None else A[source if len(A) > 1 else 0]

    def scores(self, X: Matrix) -> Array:
        """Combined scores (B x K) by the state as it is; nothing is remembered."""
        parts = [self.plan.mixer.combine(self._state, self.seen, self.expert_scores(rows)) for rows in blocks(X, BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_classes))

    def expert_scores(self, X: Matrix) -> Array:
        """Each expert's own scores (B x N x K)."""
        if self._instance is not None:
            self._instance.finish()
        X = self.pre.apply(X)
        if self._moving is not None and is_sparse(X):
            Z = self._moving.project(X)
        else:
            if self._moving is not None:
                self._moving.settle()
            Z = self._project(X)
        if self.plan.unit_projection:
            Z = unit(Z)
        return np.stack([Z[:, i] @ W.T for i, W in zip(self._space, self._state["W"], strict=True)], axis=1)

    def _project(self, X: Matrix) -> Array:
        """Preprocessed rows in every space (B x n x d; B x 1 x m where there is no projection)."""
        if "A" not in self._state:
            return dense(X)[:, None]
        if self.plan.gammas:
            phi = [kernel_rows(X, self._state[f"landmarks.{i}"], g) for i, g in enumerate(self.plan.gammas)]
            return np.stack([p @ a[: p.shape[1]] for p, a in zip(phi, self._state["A"], strict=True)], axis=1)
        return np.asarray(X @ self._stacked()).reshape(X.shape[0], len(self._state["A"]), -1)

    def _stacked(self) -> Array:
        """All projections side by side (m x nd), in memory too; the state's A is a view of it."""
        n, m, d = self._state["A"].shape
        H = np.ascontiguousarray(self._state["A"].transpose(1, 0, 2))
        self._state["A"] = H.transpose(1, 0, 2)
        return H.reshape(m, n * d)

    # -- learning -----------------------------------------------------------------------------------------------

    def _predict_and_learn(self, X: Matrix, y: Array, known: int | None, weight: Array | None) -> tuple[Trace, float]:
        from hedgerow.kernels import heads as kernels

        self._put_down()
        W, (E, K, d), B = self._state["W"], self._state["W"].shape, X.shape[0]
        F, Z = np.empty((B, E, K), dtype=W.dtype), np.empty((B, 1 + self._space.max(), d), dtype=W.dtype)
        for rows, projected in self._windows(X, y, weight):
            if self.plan.unit_projection:
                kernels.unit_rows(projected, Z[rows])
            else:
                Z[rows] = projected
        self.head.blocks(W, self._online, self._space, Z, y, weight, F, self._state.get("memory"))
        for e, expert in enumerate(self.plan.experts):
            if not expert.learns:
                np.matmul(Z[:, self._space[e]], W[e].T, out=F[:, e])
        F = F[:, :, :known]
        mixed = self.plan.mixer.run(self._state, self.seen, F, y)
        trace = Trace(mixed.scores, mixed.weights, mixed.expert_predictions)
        return trace, float((mixed.weights * mixed.losses).sum())

    def _windows(self, X: Matrix, y: Array, weight: Array | None) -> Iterable[tuple[slice, Array]]:
        """The rows in every space, window by window: between two windows the spaces move."""
        if self.plan.refresh is None or self.period:
            return [(slice(None), self._project(X))]
        return self._move("F" if is_sparse(X) else "C").windows(X, y, weight, self.seen)

    def _move(self, order: Order) -> Moving:
        """The spaces as they move, computed anew where rounding could have added up."""
        assert self.plan.refresh is not None
        if self._moving is None or self._moving.stale:
            self._settle()
            n, m, d = self._state["A"].shape
            H = on_large_pages((m, n, d), self._state["A"].dtype)
            H[:], self._state["A"] = self._state["A"].transpose(1, 0, 2), H.transpose(1, 0, 2)
            self._moving = Moving(H.reshape(m, n * d), self._sources(), self.target, self.plan.refresh, order)
        return self._moving

    def _fold_target(self, X: Matrix, y: Array, weight: Array | None) -> None:
        if self._moving is None:  # which has done it
            super()._fold_target(X, y, weight)

    # -- one row ------------------------------------------------------------------------------------------------

    def quick_predict(self, x: object) -> int:
        """The class of x, should x be a row that can be used as it is, and its path be a short one; otherwise -1."""
        instance = self._instance
        if instance is None or self.pre.steps or not instance.takes(x):
            return -1
        return instance.predict(x, instance.largest)  # type: ignore[arg-type]

    def quick_learn(self, x: object, y: int) -> bool:
        """The label of such a row; otherwise False, and nothing is learned."""
        instance = self._instance
        if instance is None or self.pre.steps or not instance.takes(x):
            return False
        return instance.learn(x, y, 1.0, instance.largest)  # type: ignore[arg-type]

    def predict_row(self, x: Array) -> int:
        """The class of one dense row by the state as it is."""
        instance = self._instance or self._take_up()
        if instance is None:
            return super().predict_row(x)
        return instance.predict(self.pre.apply(x[None])[0] if self.pre.steps else x)

    def learn_row(self, x: Array, y: int, weight: float) -> None:
        """The label of one dense row; cheap if it was just predicted."""
        instance = self._instance or self._take_up()
        if instance is None:
            super().learn_row(x, y, weight)
        elif weight > 0:
            instance.learn(self.pre.fold(x[None], LEARNED)[0] if self.pre.steps else x, y, weight)

    @property
    def refreshing(self) -> bool:
        """Whether a refresh on the path of one row is still being worked off."""
        return self._instance is not None and self._instance.refreshing

    def _take_up(self) -> Instance | None:
        """The path of one row, where there is a compiled one."""
        plan, mixer, head = self.plan, self.plan.mixer, self.head
        if (
            plan.gammas
            or self.period
            or not (isinstance(mixer, Hedge) and mixer.compiled and isinstance(head, PassiveAggressive))
        ):
            return None
        if self._moving is not None and not self._moving.basis.flags.c_contiguous:  # sparse rows came before
            self._settle()
        stepping = Stepping(self._move("C"), self.seen) if plan.refresh else None
        H = self._stacked() if "A" in self._state else None
        self._instance = Instance(
            self._state, self.target, mixer, head, self._space, self._online, plan.unit_projection, H, stepping
        )
        return self._instance

    def _put_down(self) -> None:
        if self._instance is not None:
            self._instance.finish()
            self._instance = None

    # -- what is written late -----------------------------------------------------------------------------------

    def _settle(self) -> None:
        self._put_down()
        if self._moving is not None:
            self._moving.settle()
            self._moving = None  # a learner from a file has none: what comes next must not depend on it

    def _sources(self) -> list[Moments]:
        """The moments of each space's source; one space for all has the pool."""
        sources = [self.source(i) for i in range(len(self._state["source.count"]))]
        return sources if len(self._state["A"]) == len(sources) else [reduce(Moments.merge, sources)]

    def _turn(self) -> None:
        """The refresh as it is printed: every space moves towards smaller gaps."""
        refresh = self.plan.refresh
        if refresh is not None:
            for A, source in zip(self._state["A"], self._sources(), strict=True):
                A[:] = refreshed(
                    A, gap(source, self.target, refresh.unseen, refresh.kappa), refresh.mu, refresh.inverse
                )

    def grow(self, n_classes: int) -> None:
        """Room for classes met for the first time: zero weights, no instances yet."""
        pad_axis(self.state, "W", 1, n_classes - self.n_classes)
        super().grow(n_classes)


def _whole_windows(every: int) -> int:
    """About `MOVING_BLOCK` rows; of whole windows, as a window that is cut has its class sums twice."""
    return max(1, MOVING_BLOCK // every) * every if every <= MOVING_BLOCK else MOVING_BLOCK
