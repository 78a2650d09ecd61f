"""What a head is, and the pass over a source that trains one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix, is_sparse
from hedgerow.core.errors import unknown

SOURCE_PASSES = ("last", "average")
ROWS = 16  # sparse rows at once: more share no columns in text, and each would carry the columns of all others


class Head(ABC):
    """A linear multiclass classifier f = W z with W of shape K x d, learned one labelled row at a time.

    A head with options is a frozen dataclass of them; C, if it has one, is the estimator's. Subclass `StepwiseHead` to
    write one row by row, and run `hedgerow.checks.check_head` on it.
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
        self, W: Array, first: int, space: Array, Z: Array, y: Array, weight: Array | None, F: Array,
        memory: Array | None = None,
    ) -> None:  # fmt: skip
        """`block` for each of the heads from `first` on over its rows of Z (B x n x d), head e in space[e], to F[:, e].

        `memory` has one part for each of them.
        """
        for e in range(first, len(W)):
            kept = {} if memory is None else {"memory": memory[e - first]}
            F[:, e] = self.block(W[e], np.ascontiguousarray(Z[:, space[e]]), y, weight, **kept)

    @abstractmethod
    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """The mean of the weights after each row of the pass; W ends at the last ones.

        `weight` says how much each label counts, as in `block`; in the mean every row counts as one.
        """


class StepwiseHead(Head):
    """A head written as what it does with one labelled row; blocks are loops over it.

    Examples
    --------
    >>> class Perceptron(StepwiseHead):
    ...     def step(self, W, z, y, f):
    ...         if f.argmax() != y:
    ...             W[y] += z
    ...             W[f.argmax()] -= z
    >>> W = np.zeros((2, 1))
    >>> Perceptron().block(W, np.array([[1.0], [1.0]]), np.array([1, 1]))
    array([[ 0.,  0.],
           [-1.,  1.]])
    """

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


def train(head: Head, Z: Matrix, y: Array, K: int, source_pass: str = "last", weight: Array | None = None) -> Array:
    r"""One pass over a source from zero, rows in order: the last weights, or the mean over the pass.

    A sparse row moves the weights of its own columns and no others, so sparse rows are taken a few at a time, dense in
    the columns that they have. The mean over N rows is put together from what each block b of them added,

    .. math:: \sum_t W_t = \sum_b \Big[ \sum_{t \in b} (W_t - W_b) + (N - e_b) (W_{e_b} - W_b) \Big],

    W_b being the weights before the block and e_b its last row; only its own columns change.

    Parameters
    ----------
    head
        The rule of learning.
    Z, y
        Rows (dense or CSR) and codes of their classes.
    K
        Number of classes.
    source_pass : {"last", "average"}
        Which weights are returned.
    weight
        How much each label counts; None is one for all.

    Returns
    -------
    W of K x d.

    Examples
    --------
    >>> from hedgerow.heads import make_head
    >>> train(make_head("pa1", 5.0), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]), 2)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    if source_pass not in SOURCE_PASSES:
        raise unknown("source_pass", source_pass, SOURCE_PASSES)
    (N, d), averaging = Z.shape, source_pass == "average"
    W = np.zeros((K, d), dtype=Z.dtype)
    if not is_sparse(Z):
        out = (head.averaged if averaging else head.block)(W, Z, y, **counted(weight))
        return out if averaging else W
    total = np.zeros_like(W)
    for first in range(0, N, ROWS):
        last = min(first + ROWS, N)
        columns, rows = compact(Z[first:last])
        before, after = W[:, columns], W[:, columns]
        count = counted(None if weight is None else weight[first:last])
        if averaging:
            mean = head.averaged(after, rows, y[first:last], **count)
            total[:, columns] += (last - first) * (mean - before) + (N - last) * (after - before)
        else:
            head.block(after, rows, y[first:last], **count)
        W[:, columns] = after
    return total / max(N, 1) if averaging else W


def compact(X: Matrix) -> tuple[Array, Array]:
    """The columns that any of the CSR rows has, and the rows in these columns only, dense.

    >>> import scipy.sparse as sp
    >>> compact(sp.csr_array(np.array([[0.0, 7.0, 0.0, 0.0], [0.0, 8.0, 0.0, 9.0]])))
    (array([1, 3], dtype=int32), array([[7., 0.],
           [8., 9.]]))
    """
    columns, place = np.unique(X.indices, return_inverse=True)
    Z = np.zeros((X.shape[0], len(columns)), dtype=X.dtype)
    np.add.at(Z, (np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), place), X.data)
    return columns, Z
