"""Labels for the pool that use each class about as often as it is expected to occur.

Under a change of domain a few classes attract the rows of many others, and a pool labelled by the plain argmax teaches
that error. Each head has a bias b_k a class, such that softmax(c (F - b)), averaged over the pool, has the expected
frequencies pi: Sinkhorn's scaling of the columns, in a few careful steps at a time, because a pool is a sample. pi are
the sources' class frequencies, which the target's labels correct.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array

SHARPNESS = 16.0  # c
ROWS = 10.0  # imagined rows a class, of exactly the expected frequencies, added to the pool to make steps smaller
BELIEF = 30.0  # labels of the target a class that weigh as much as the sources' frequencies
STEP = 0.7  # share of a full step in log b
FIRST, AGAIN = 20, 1  # steps at the start, and at each later labelling from where the last one ended


def expected(sources: Array, target: Array) -> Array:
    """Class frequencies from the class counts of both sides: the sources' count as BELIEF rows a class.

    >>> expected(np.array([9.0, 1.0]), np.array([0.0, 0.0])).round(2).tolist()
    [0.83, 0.17]
    >>> expected(np.array([9.0, 1.0]), np.array([0.0, 60.0])).round(2).tolist()
    [0.42, 0.58]
    """
    same = sources + 1.0
    counts = same * (BELIEF * len(same) / same.sum()) + target
    return np.asarray(counts / counts.sum())


def biases(F: Array, start: Array, pi: Array, steps: int) -> Array:
    """b (heads x K) for scores F (rows x heads x K), from a start, and the expected frequencies.

    >>> F = np.array([[[0.5, 0.4]], [[0.6, 0.1]]])
    >>> (F - biases(F, np.zeros((1, 2)), np.full(2, 0.5), 20)).argmax(axis=2).ravel().tolist()
    [1, 0]
    """
    rows, _, K = F.shape
    E = np.exp(SHARPNESS * (F - F.max(axis=2, keepdims=True)))
    scale = np.exp(-SHARPNESS * start)
    for _ in range(steps):
        shares = E * scale
        shares /= shares.sum(axis=2, keepdims=True)
        found = (shares.sum(axis=0) + ROWS * K * pi) / (rows + ROWS * K)
        scale *= (pi / found) ** STEP
    b = -np.log(scale) / SHARPNESS
    return np.asarray(b - b.mean(axis=1, keepdims=True))
