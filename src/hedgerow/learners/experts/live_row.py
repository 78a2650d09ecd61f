"""The live path of the paper's learner: one dense row in two compiled calls, with one pass over the projections.

It gives what a block of one row gives (a law in `tests/test_instance.py`). What was computed to predict a row is kept,
and used if the next label is that row's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.moments import Moments
from hedgerow.core.rule_numbers import RULES
from hedgerow.heads.pa import PassiveAggressive
from hedgerow.learners.base import Prediction, Trace
from hedgerow.learners.experts.live_refresh import LiveRefresh
from hedgerow.mix import Hedge


class LiveRow:
    """One row at a time through fixed or moving spaces, heads of the passive-aggressive family, and Hedge."""

    def __init__(
        self,
        state: dict[str, Array],
        target: Moments,
        mixer: Hedge,
        head: PassiveAggressive,
        W: Array,
        space: Array,
        which: Array,
        to_unit: bool,
        H: Array | None,
        refresh: LiveRefresh | None,
    ) -> None:
        from hedgerow.kernels import live

        self._kernels, self._predict, self._learn = live, live.predict, live.learn
        self._projects, self._refresh = H is not None, refresh
        self._H = np.empty((0, 0), W.dtype) if H is None else H
        width = self._H.shape[1] or W.shape[2]
        last, self._raw, z = (np.empty(size, dtype=W.dtype) for size in (len(target.total), width, width))
        # of one row each, as a trace has them
        self._scores, self._weights = (
            np.empty((1, W.shape[1])),
            mixer.weights(state, int(state["seen"][0]))[None].copy(),
        )
        self._votes = np.empty((1, len(W)), dtype=np.int64)
        F, f, p = np.empty(W.shape[:2], dtype=W.dtype), self._scores[0], self._weights[0]
        counters = [state[name] for name in ("seen", "mistakes", "mixture_loss", "expert_loss", "expert_mistakes")]
        self._last, self._fresh = last, False
        self._F, self._f, self._p = F, f, p
        self._scoring = (last, self._raw, z, W, space, p, to_unit, mixer.combination == "vote", F, f)
        beta = mixer.beta or 0.0
        rule = RULES[head.rule], float(head.C)
        self._learning: tuple[Any, ...] = (z, W, which, space, *rule, F, f, p, beta, *counters, self._votes[0])
        self._moments = (target.count, target.total, target.class_counts, target.class_totals)

    def predict(self, x: Array) -> Prediction:
        """A preprocessed row, predicted by what was learned so far."""
        return Prediction(self._score(x), self._f.copy(), self._p.copy(), self._F.copy())

    def _score(self, x: Array) -> int:
        self._fresh, project = False, self._projects
        if self._refresh is not None and not self._refresh.plain:
            project = False
            self._refresh.project(x, self._raw)
        elif not project:
            self._raw[:] = x
        best: int = self._predict(x, self._H, project, *self._scoring)
        self._fresh = True
        return best

    def learn(self, x: Array, label: int, weight: float) -> Trace:
        """Learn the label of a preprocessed row; the row is predicted first, unless it was the last one predicted."""
        if not (self._fresh and self._kernels.same(x, self._last)):
            self._score(x)
        self._fresh = False  # the label changes the weights, so the kept scores are out of date
        scores, weights = self._scores.copy(), self._weights.copy()
        self._learn(label, weight, *self._learning)
        if self._refresh is not None:
            self._kernels.keep(self._last, self._raw, label, weight, self._refresh.waiting, *self._refresh.buffers)
            self._refresh.learned(weight)
        else:
            self._kernels.count(self._last, label, weight, *self._moments)
        return Trace(scores, weights, self._votes.copy())

    @property
    def refreshing(self) -> bool:
        """Whether a refresh is not finished yet."""
        return self._refresh is not None and self._refresh.under_way
