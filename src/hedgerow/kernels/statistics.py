"""Running statistics of many targets, a record each: the compiled loop of a fleet's preprocessing.

The twin is `hedgerow.core.preprocess`: the rows of one target give what its steps give.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.compiled import compiled

CENTRE, ZSCORE, FILL, TARGET_ONLY = range(4)  # the formula of a step
CONSTANT, LARGEST_Z = 1e-13, 3.0  # as `core.preprocess` has them


@compiled
def follow(R: Array, slots: Array, X: Array, at: Array, kind: int, shift: Array, learned: Array, out: Array) -> None:
    """Rows by the statistics of their targets, R[slots], before each; learned ones are folded in.

    `at` has the places of n, total and squares in a record; for target-only columns that of the shift too, which all
    targets share otherwise. n is one number, or with gaps (`fill` and target-only columns) one a column.
    """
    m = X.shape[1]
    for t in range(len(X)):
        s = R[slots[t]]
        total, squares = s[at[1] : at[1] + m], s[at[2] : at[2] + m]
        base = s[at[3] : at[3] + m] if kind == TARGET_ONLY else shift
        if kind < FILL:
            n = s[at[0]]
            for j in range(m):
                mean = total[j] / n
                value = X[t, j] - base[j] - mean
                if kind == ZSCORE:
                    sd = np.sqrt(max(squares[j] / n - mean * mean, 0.0))
                    if sd > CONSTANT * abs(base[j]):
                        value /= sd
                out[t, j] = value
            if learned[t]:
                s[at[0]] += 1.0
                for j in range(m):
                    d = X[t, j] - base[j]
                    total[j] += d
                    squares[j] += d * d
            continue
        counts = s[at[0] : at[0] + m]
        for j in range(m):
            x, n = X[t, j], max(counts[j], 1.0)
            mean = total[j] / n
            if kind == FILL:
                out[t, j] = x if x == x else base[j] + mean
            else:
                sd = np.sqrt(max(squares[j] / n - mean * mean, 0.0))
                z = (x - base[j] - mean) / sd if x == x and sd > 0.0 else 0.0
                out[t, j] = min(max(z, -LARGEST_Z), LARGEST_Z)
            if learned[t] and x == x:
                if counts[j] == 0.0:
                    base[j] = x
                d = x - base[j]
                counts[j] += 1.0
                total[j] += d
                squares[j] += d * d
