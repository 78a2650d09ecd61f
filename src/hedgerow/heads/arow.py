"""Adaptive regularisation of weights (Crammer, Kulesza, Dredze 2009) for many classes, with one covariance for all.

    f = W z,   s = argmax_{k != y} f_k,   loss = max(0, 1 - f_y + f_s),   u = S z,   v = z . u,   r = 1/(2C)
    if loss > 0:  W_y += tau u,  W_s -= tau u,  tau = loss / (2v + r);   S -= u u^T / (v + r)

| rule            | S                                                               | cost of a row |
|-----------------|-----------------------------------------------------------------|---------------|
| `arow`          | d x d; S^{-1} = I + sum of z z^T / r over the rows that taught   | d (K + d)     |
| `arow-diagonal` | 1 x d, only the diagonal is kept: u = S * z                      | d K           |

Directions that were seen often move less. With S held at I the step is PA-II's with the same C. sum_k W_k never
changes. Ties go to the lowest class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.heads.base import Head

FULL, DIAGONAL = AROW_RULES = ("arow", "arow-diagonal")
LARGEST = 2**30  # bytes of one covariance; beyond we refuse to keep it unasked


@dataclass(frozen=True)
class AROW(Head):
    """A head that remembers, beside W, how sure it is of every direction.

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

    def __post_init__(self) -> None:
        if self.rule not in AROW_RULES:
            raise unknown("update rule", self.rule, AROW_RULES)
        if not self.C > 0:
            raise InputError(f"C={self.C}: the aggressiveness must be positive")

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

    def block(self, W: Array, Z: Array, y: Array, weight: Array | None = None, memory: Array | None = None) -> Array:
        """Prequential scores; W and the memory in place. Without a memory the block is a pass of its own."""
        from hedgerow.kernels import arow as kernels

        S = self.memory(W.shape[1], W.dtype) if memory is None else memory
        return kernels.run_pass(W, S, Z, y, self.C, weight)[0]

    def averaged(self, W: Array, Z: Array, y: Array, weight: Array | None = None) -> Array:
        """Mean of the weights after each row of a pass of its own."""
        from hedgerow.kernels import arow as kernels

        return kernels.run_pass(W, self.memory(W.shape[1], W.dtype), Z, y, self.C, weight, average=True)[1]


def step(W: Array, S: Array, z: Array, y: int, C: float = 5.0) -> Array:
    """One labelled row in plain NumPy, the specification of the compiled loop: scores before the label, W, S in place.

    >>> W, S = np.zeros((2, 1)), np.ones((1, 1))
    >>> step(W, S, np.array([2.0]), 1, C=0.5)
    array([0., 0.])
    >>> W.ravel().round(2).tolist(), S.round(2).tolist()
    ([-0.22, 0.22], [[0.2]])
    """
    f = W @ z
    if len(W) < 2:  # no rival, nothing to learn
        return np.asarray(f)
    rivals = f.copy()
    rivals[y] = -np.inf
    s = int(rivals.argmax())
    loss = 1 - float(f[y] - f[s])
    if loss > 0:
        u = S @ z if len(S) == len(z) else S[0] * z
        v, r = max(float(z @ u), 0.0), 0.5 / C
        W[y] += loss / (2 * v + r) * u
        W[s] -= loss / (2 * v + r) * u
        S -= (np.outer(u, u) if len(S) == len(z) else u * u) / (v + r)
    return np.asarray(f)
