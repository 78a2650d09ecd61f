r"""Heads: the classifiers that live in a space. A head turns rows into scores and labels into better weights.

A head is an object with `block(W, Z, y) -> F`: the scores before each label, with W (K x d) updated in place. What a
head keeps beside W is its `memory`.
To add one, subclass `StepwiseHead`, write its `step`, and register it: `register_head("mine", Mine)`. An object can be
given as it is, `PaperOptions(head=Mine())`; to be saved its class must be registered too.

The heads of this module learn from the margin, for many classes: passive-aggressive ones (Crammer, Dekel, Keshet,
Shalev-Shwartz, Singer 2006), the perceptron, and adaptive regularisation of weights (AROW: Crammer, Kulesza, Dredze
2009).

.. math::
    f = W z, \qquad s = \arg\max_{k \ne y} f_k, \qquad \ell = \max(0, 1 - f_y + f_s) \\
    \text{if } \ell > 0: \quad W_y \leftarrow W_y + \tau u, \quad W_s \leftarrow W_s - \tau u

s is the rival of the true class (Eq. 1 of the paper), the loss Eq. 2, the step Eq. 4 (the solution of Eq. 3).

| rule            | u    | tau                                                                           |
|-----------------|------|-------------------------------------------------------------------------------|
| `perceptron`    | z    | 1 on a mistake (f_y <= f_s), else 0                                           |
| `pa`            | z    | loss / (2 |z|^2): the margin is exactly 1 afterwards (Eq. 3 as it stands)     |
| `pa1`           | z    | min(C, loss / (2 |z|^2)): what Eq. 5 means                                    |
| `pa2`           | z    | loss / (2 |z|^2 + 1/(2C))                                                     |
| `pa1-printed`   | z    | min(C, loss / |f_y - f_s|), C where that is 0/0: Eq. 5 as printed, a misprint |
| `arow`          | S z  | loss / (2 z.u + 1/(2C)), and S -= u u^T / (z.u + 1/(2C)); S is d x d           |
| `arow-diagonal` | S z  | the same, of S only the diagonal is kept (1 x d)                              |

For AROW S^{-1} = I + 2C sum of z z^T over the rows that taught: directions that were seen often move less. With S held
at I its step is PA-II's. sum_k W_k never changes. Ties go to the lowest class. A zero row teaches nothing. A label of
weight w has w C in place of C; where there is no C (`perceptron`, `pa`), any weight above zero is one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hedgerow import kernels
from hedgerow.core.arrays import Array, Matrix, dense, is_sparse
from hedgerow.core.constants import PA2, RULES
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.registry import Parts

__all__ = [
    "AROW",
    "HEADS",
    "Head",
    "PassiveAggressive",
    "StepwiseHead",
    "make_head",
    "register_head",
    "train",
]

SOURCE_PASSES = ("last", "average")
ROWS = 16  # sparse rows at once: more share no columns in text, and each would carry the columns of all others


class Head(ABC):
    """A linear multiclass classifier f = W z with W of shape K x d, learned one labelled row at a time.

    Use one of ours by name (`PaperOptions(head="arow")`), or your own as an object. A head with options is
    a frozen dataclass of them; C, if it has one, is the estimator's. Subclass `StepwiseHead` to write one row by row,
    and run `hedgerow.testing.check_head` on it.

    >>> W = np.zeros((2, 3))
    >>> make_head("pa1").block(W, np.eye(2, 3), np.array([0, 1])).tolist()  # scores before each label
    [[0.0, 0.0], [0.0, 0.0]]
    >>> (W @ np.eye(3, 2)).argmax(axis=0).tolist()
    [0, 1]
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
        return np.array(list(self._rows(W, Z, y, weight)), dtype=W.dtype).reshape(-1, len(W))

    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Row by row."""
        total = np.zeros_like(W)
        for _ in self._rows(W, Z, y, weight):
            total += W
        return total / max(len(Z), 1)

    def _rows(self, W: Array, Z: Array, y: Array, weight: Array | None) -> Iterator[Array]:
        """The scores of each row before its label, which is learned by then."""
        for z, label, times in zip(
            Z, y.tolist(), [1.0] * len(y) if weight is None else weight.tolist(), strict=True
        ):
            f = W @ z
            if label >= 0:
                self.weighted_step(W, z, label, f.copy(), times)
            yield f


def train(
    head: Head, Z: Matrix, y: Array, K: int, source_pass: str = "last", weight: Array | None = None
) -> Array:
    r"""One pass over a source from zero, rows in order: the last weights, or the mean over the pass.

    A sparse row moves the weights of its own columns and no others, so sparse rows are taken a few at a time, dense in
    the columns that they have; by a head that has a memory one at a time, in all columns. The mean over N rows is put
    together from what each block b of them added,

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
    >>> train(make_head("pa1", 5.0), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]), 2)
    array([[ 0.5, -0.5],
           [-0.5,  0.5]])
    """
    if source_pass not in SOURCE_PASSES:
        raise unknown("source_pass", source_pass, SOURCE_PASSES)
    (N, d), averaging = Z.shape, source_pass == "average"
    W = np.zeros((K, d), dtype=Z.dtype)
    if not is_sparse(Z):
        out = (head.averaged if averaging else head.block)(W, Z, y, weight)
        return out if averaging else W
    total = np.zeros_like(W)
    memory = head.memory(d, Z.dtype)
    if memory is not None:
        scores = np.empty((1, 1, K), dtype=Z.dtype)
        for t in range(N):
            part = None if weight is None else weight[t : t + 1]
            head.blocks(
                W[None], 0, ONE, dense(Z[[t]])[:, None], y[t : t + 1], part, scores, memory[None]
            )
            total += W
        return total / max(N, 1) if averaging else W
    for first in range(0, N, ROWS):
        last = min(first + ROWS, N)
        columns, rows = compact(Z[first:last])
        before = W[:, columns]
        after = W[:, columns]
        part = None if weight is None else weight[first:last]
        if averaging:
            mean = head.averaged(after, rows, y[first:last], part)
            total[:, columns] += (last - first) * (mean - before) + (N - last) * (after - before)
        else:
            head.block(after, rows, y[first:last], part)
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


# -- heads that learn from the margin ---------------------------------------------------------------------------------

FULL, DIAGONAL = AROW_RULES = ("arow", "arow-diagonal")
LARGEST = 2**30  # bytes of one covariance; beyond we refuse to keep it unasked
ONE = np.zeros(1, dtype=np.int64)


class MarginHead(Head):
    """What the heads of this file share: one compiled pass over a block."""

    rule: str
    C: float
    rules: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.rule not in self.rules:
            raise unknown("update rule", self.rule, self.rules)
        if not self.C > 0:
            raise InputError(f"C={self.C}: the aggressiveness must be positive")

    def block(
        self, W: Array, Z: Array, y: Array, weight: Array | None = None, memory: Array | None = None
    ) -> Array:
        """Prequential scores; W and the memory in place. Without a memory the block is a pass of its own."""
        return self._pass(W, Z, y, weight, memory, W[None][:0])

    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Mean of the weights after each row of a pass of its own."""
        mean = W[None].copy()
        self._pass(W, Z, y, weight, None, mean)
        return np.asarray(mean[0])

    def _pass(
        self, W: Array, Z: Array, y: Array, weight: Array | None, memory: Array | None, mean: Array
    ) -> Array:
        memory = self.memory(W.shape[1], W.dtype) if memory is None else memory
        rows = np.ascontiguousarray(Z, dtype=W.dtype)[:, None]
        F = np.empty((len(Z), 1, len(W)), dtype=W.dtype)
        heads = self.compiled(W[None], 0, ONE, None if memory is None else memory[None])
        kernels.experts.passes(heads, rows, y, kernels.EVEN if weight is None else weight, F, mean)
        return F[:, 0]

    def blocks(
        self, W: Array, first: int, space: Array, Z: Array, y: Array, weight: Array | None, F: Array,
        memory: Array | None = None,
    ) -> None:  # fmt: skip
        """All heads in one compiled loop; those of a subclass by its own `block`."""
        if type(self) in (PassiveAggressive, AROW):
            heads = self.compiled(W, first, space, memory)
            even = kernels.EVEN if weight is None else weight
            kernels.experts.passes(heads, Z, y, even, F, W[:0])
        else:
            super().blocks(W, first, space, Z, y, weight, F, memory)

    def compiled(self, W: Array, first: int, space: Array, memory: Array | None) -> Any:
        """The heads W, of which those from `first` on learn, as the compiled loops take them (`kernels.experts.Heads`):
        as a plain tuple, which is sooner read than a named one. AROW's step is PA-II's along u.
        """
        S = np.empty((len(W) - first, 0, 0), dtype=W.dtype) if memory is None else memory
        return (
            W,
            S,
            space,
            RULES.get(self.rule, PA2),
            float(self.C),
            np.empty(W.shape[2], dtype=W.dtype),
        )


@dataclass(frozen=True)
class PassiveAggressive(MarginHead):
    """A head of the passive-aggressive family.

    Parameters
    ----------
    rule : {"perceptron", "pa", "pa1", "pa2", "pa1-printed"}
        The size of a step; see the table of this module. `pa1` is the paper's.
    C : float
        Aggressiveness: the largest step of `pa1`. `perceptron` and `pa` do not read it.

    Examples
    --------
    >>> head, W = PassiveAggressive("pa"), np.zeros((3, 2))
    >>> head.block(W, np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([2, 2]))
    array([[ 0. ,  0. ,  0. ],
           [-0.5,  0. ,  0.5]])
    """

    rule: str = "pa1"
    C: float = 5.0
    rules = tuple(RULES)


@dataclass(frozen=True)
class AROW(MarginHead):
    """A head that remembers, beside W, how sure it is of every direction.

    Use it where features differ in how often they occur. A row costs d (K + d), with the diagonal alone d K.

    Parameters
    ----------
    rule : {"arow", "arow-diagonal"}
        Whether the whole covariance is kept, or its diagonal.
    C : float
        1/(2C) is added to the variance along a row: a large C trusts every label.

    Examples
    --------
    >>> head, W = AROW("arow", C=0.5), np.zeros((2, 2))
    >>> S = head.memory(2)
    >>> head.block(W, np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1, 1]), memory=S).round(2)
    array([[ 0.  ,  0.  ],
           [-0.33,  0.33]])
    >>> S.round(2).tolist()
    [[0.33, 0.0], [0.0, 1.0]]
    """

    rule: str = FULL
    C: float = 5.0
    rules = AROW_RULES

    def memory(self, d: int, dtype: Any = np.float64) -> Array:
        """S before the first label."""
        if self.rule == DIAGONAL:
            return np.ones((1, d), dtype=dtype)
        size = d * d * np.dtype(dtype).itemsize
        if size > LARGEST:
            raise InputError(
                f"head 'arow' keeps a matrix of {d} x {d}, which would take {size / 2**30:.1f} GiB; use "
                "head='arow-diagonal', or an aligner that projects to fewer dimensions"
            )
        return np.eye(d, dtype=dtype)


# -- the table ---------------------------------------------------------------------------------------------------------

WITHOUT_C = {"perceptron": {"C": 5.0}, "pa": {"C": 5.0}}  # rules in which C plays no part
HEADS: Parts[Head] = Parts(
    "head",
    Head,
    {name: partial(PassiveAggressive, rule=name, **WITHOUT_C.get(name, {})) for name in RULES}
    | {name: partial(AROW, rule=name) for name in AROW_RULES},
)


def make_head(choice: str | Head, C: float | None = None) -> Head:
    """The head of this name.

    Parameters
    ----------
    choice : str or Head
        A name of `HEADS`; an object stays as it is.
    C : float or None
        Its aggressiveness, if it has one; None is its own default.

    Returns
    -------
    Head

    Raises
    ------
    InputError
        For a name that is not known, or what is no head.

    Examples
    --------
    >>> make_head("pa1", C=2.0)
    PassiveAggressive(rule='pa1', C=2.0)
    """
    return HEADS.make(choice, C=C)


def register_head(name: str, head: type[Head], *, replace: bool = False) -> type[Head]:
    """Make a head class known by a name, for `PaperOptions(head=name)` and for model files.

    Parameters
    ----------
    name : str
        What users write.
    head : type
        A subclass of `Head`, a frozen dataclass of its options; `hedgerow.testing.check_head` tests its laws.
    replace : bool
        Whether a head that has this name already may be replaced.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InputError
        If the name is taken by another and `replace` is False.

    Examples
    --------
    >>> class Mine(PassiveAggressive): pass
    >>> register_head("mine", Mine) is HEADS["mine"]
    True
    >>> HEADS.unregister("mine")
    """
    HEADS.register(name, head, replace=replace)
    return head
