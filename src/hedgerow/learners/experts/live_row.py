"""The path of one dense instance: buffers of its own, two compiled calls, and one pass over the projections.

It gives what a block of one row gives. What was computed to predict a row is kept for its label, should that come next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.arrays import LARGEST, Array
from hedgerow.core.moments import Moments
from hedgerow.core.rule_numbers import RULES
from hedgerow.heads.pa import PassiveAggressive
from hedgerow.learners.experts.live_refresh import Stepping
from hedgerow.mix import Hedge

State = dict[str, Array]


class Instance:
    """One row at a time through fixed or moving spaces, heads of the passive-aggressive family, and Hedge."""

    def __init__(
        self,
        state: State,
        target: Moments,
        mixer: Hedge,
        head: PassiveAggressive,
        space: Array,
        which: Array,
        to_unit: bool,
        H: Array | None,
        stepping: Stepping | None,
    ) -> None:
        from hedgerow.kernels import live

        self._kernels, self._predict, self._learn = live, live.predict, live.learn
        self._projects, self._stepping = H is not None, stepping
        self._H = np.empty((0, 0), state["W"].dtype) if H is None else H
        W = state["W"]
        width = self._H.shape[1] or W.shape[2]
        last, self._raw, z = (np.empty(size, dtype=W.dtype) for size in (len(target.total), width, width))
        F, f = np.empty(W.shape[:2], dtype=W.dtype), np.empty(W.shape[1])
        p = np.ascontiguousarray(mixer.weights(state, int(state["seen"][0])))
        counters = [state[name] for name in ("seen", "mistakes", "mixture_loss", "expert_loss", "expert_mistakes")]
        self._last, self._fresh = last, False
        self.largest = LARGEST[W.dtype] ** 2
        self._scoring = (last, self._raw, z, W, space, p, to_unit, mixer.combination == "vote", F, f)
        self._shape, self._strides, self._dtype = last.shape, last.strides, last.dtype
        beta = mixer.beta or 0.0
        rule = RULES[head.rule], float(head.C)
        self._learning: tuple[Any, ...] = (z, W, which, space, *rule, F, f, p, beta, *counters)
        self._moments = (target.count, target.total, target.class_counts, target.class_totals)

    def takes(self, x: object) -> bool:
        """Whether x is an array that can be used as it is; only its values are still unknown."""
        if type(x) is not np.ndarray:
            return False
        return x.shape == self._shape and x.strides == self._strides and x.dtype == self._dtype

    def predict(self, x: Array, largest: float = np.inf) -> int:
        """The class of a preprocessed row; -1 for one with NaN, or whose squared length is above `largest`."""
        project = self._projects
        if self._stepping is not None and not self._stepping.plain:
            project = False
            self._stepping.project(x, self._raw)
        elif not project:
            self._raw[:] = x
        best: int = self._predict(x, self._H, project, *self._scoring, largest)
        self._fresh = best >= 0
        return best

    def learn(self, x: Array, label: int, weight: float, largest: float = np.inf) -> bool:
        """The label of a preprocessed row; if it is not the row of the last prediction, that is made first.

        False, and nothing learned, if the row cannot be predicted.
        """
        if not self._fresh and self.predict(x, largest) < 0:
            return False
        while not self._learn(x, self._last, label, weight, *self._learning):
            if self.predict(x, largest) < 0:
                return False
        self._fresh = False  # after the label the scores are others
        if self._stepping is not None:
            self._kernels.keep(self._last, self._raw, label, weight, self._stepping.waiting, *self._stepping.buffers)
            self._stepping.learned(weight)
        else:
            self._kernels.count(self._last, label, weight, *self._moments)
        return True

    @property
    def refreshing(self) -> bool:
        """Whether a refresh is being worked off, piece by piece."""
        return self._stepping is not None and self._stepping.under_way

    def finish(self) -> None:
        """Write what was put off."""
        if self._stepping is not None:
            self._stepping.finish()
