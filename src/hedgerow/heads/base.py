"""What a head is, and the pass over a source that trains one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import unknown

SOURCE_PASSES = ("last", "average")


class Head(ABC):
    """A linear multiclass classifier f = W z with W of shape K x d, learned one labelled row at a time.

    A head with options is a frozen dataclass of them; C, if it has one, is the estimator's.
    """

    def memory(self, d: int, dtype: Any = np.float64) -> Array | None:
        """What the head keeps beside W, before the first label; it goes to `block` as `memory=`. None: nothing."""
        return None

    @abstractmethod
    def block(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Scores of each row before its label (B x K); W is updated in place by the rows with y >= 0, in order.

        `weight` says how much each label counts; None is one for all.
        """

    def blocks(
        self,
        W: Array,
        which: Array,
        space: Array,
        Z: Array,
        y: Array,
        weight: Array | None,
        F: Array,
        memory: Array | None = None,
    ) -> None:
        """`block` for each of the heads `which` over its rows of Z (B x n x d), head e in space[e]; into F[:, e].

        `memory` has one part for each of them.
        """
        for i, e in enumerate(which):
            kept = {} if memory is None else {"memory": memory[i]}
            F[:, e] = self.block(W[e], np.ascontiguousarray(Z[:, space[e]]), y, weight, **kept)

    @abstractmethod
    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """The mean of the weights after each row of the pass; W ends at the last ones.

        `weight` says how much each label counts, as in `block`; in the mean every row counts as one.
        """


class StepwiseHead(Head):
    """A head given by what it does with one labelled row; blocks are loops over it."""

    @abstractmethod
    def step(self, W: Array, z: Array, y: int, f: Array) -> None:
        """Learn one row: W in place, f = W z the scores before the label."""

    def weighted_step(self, W: Array, z: Array, y: int, f: Array, weight: float) -> None:
        """Learn one row whose label counts `weight` times: that many times the step, unless a head knows better."""
        before = W.copy() if weight != 1 else W
        self.step(W, z, y, f)
        if weight != 1:
            W[:] = before + weight * (W - before)

    def block(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Row by row."""
        F = np.empty((len(Z), len(W)), dtype=W.dtype)
        for t, (z, label) in enumerate(zip(Z, y, strict=True)):
            F[t] = W @ z
            if label >= 0:
                self.weighted_step(W, z, int(label), F[t], 1.0 if weight is None else float(weight[t]))
        return F

    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Row by row."""
        total = np.zeros_like(W)
        for t, (z, label) in enumerate(zip(Z, y, strict=True)):
            if label >= 0:
                self.weighted_step(W, z, int(label), W @ z, 1.0 if weight is None else float(weight[t]))
            total += W
        return total / max(len(Z), 1)


def counted(weight: Array | None) -> dict[str, Array]:
    """The weights of labels as a keyword, left out where there are none: a head of one's own may not know it."""
    return {} if weight is None else {"weight": weight}


def train(head: Head, Z: Array, y: Array, K: int, source_pass: str = "last", weight: Array | None = None) -> Array:
    """One pass from zero over a source, rows in the order given: the last weights, or the mean over the pass.

    `weight` says how much each label counts; None is one for all.

    >>> from hedgerow.heads import make_head
    >>> train(make_head("pa1", 5.0), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]), 2)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    W = np.zeros((K, Z.shape[1]), dtype=Z.dtype)
    if source_pass == "average":
        return head.averaged(W, Z, y, **counted(weight))
    if source_pass != "last":
        raise unknown("source_pass", source_pass, SOURCE_PASSES)
    head.block(W, Z, y, **counted(weight))
    return W
