"""A pass over sparse rows: a few at a time, dense only in the columns that they have, whatever the number of features.

A row moves the weights of its own columns and no others, so a head that learns from the rows without their empty
columns learns the same. The mean over a pass of N rows is put together from what the blocks added,

    sum_t W_t = N W_0 + sum_b [ sum_{t in b} (W_t - W_before b) + (W_after b - W_before b) (N - end of b) ],

of which block b has nothing but its own columns to change.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import unknown
from hedgerow.heads.base import SOURCE_PASSES, Head, counted

ROWS = 16  # more share no columns in text, and each would carry the columns of all others


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


def train_sparse(
    head: Head, X: Matrix, y: Array, K: int, source_pass: str = "last", weight: Array | None = None
) -> Array:
    """`heads.train` for CSR rows: one pass from zero, the last weights or the mean over the pass.

    >>> import scipy.sparse as sp
    >>> from hedgerow.heads import make_head
    >>> train_sparse(make_head("pa1", 5.0), sp.csr_array(np.eye(2, 3)), np.array([0, 1]), 2)
    array([[ 0.5, -0.5,  0. ],
           [-0.5,  0.5,  0. ]])
    """
    if source_pass not in SOURCE_PASSES:
        raise unknown("source_pass", source_pass, SOURCE_PASSES)
    N, m = X.shape
    W = np.zeros((K, m), dtype=X.dtype)
    averaging = source_pass == "average"
    total = np.zeros_like(W) if averaging else W
    for first in range(0, N, ROWS):
        last = min(first + ROWS, N)
        columns, Z = compact(X[first:last])
        before = W[:, columns]
        after = before.copy()
        count = counted(None if weight is None else weight[first:last])
        if averaging:
            mean = head.averaged(after, Z, y[first:last], **count)
            total[:, columns] += (last - first) * (mean - before) + (N - last) * (after - before)
        else:
            head.block(after, Z, y[first:last], **count)
        W[:, columns] = after
    return total / max(N, 1) if averaging else W
