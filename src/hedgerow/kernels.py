"""The compiled inner loops. Imported only when the first fit or stream needs them; compiled once, cached on disk.

Each loop has a NumPy twin that is its specification (`heads.pa.step`), and tests hold the two together.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hedgerow.arrays import Array
from hedgerow.rules import PA1, PA1_PRINTED, PA2, PERCEPTRON


@njit(cache=True, fastmath=False)
def _step_size(rule: int, loss: float, margin: float, square: float, C: float) -> float:
    if rule == PERCEPTRON:
        return 1.0 if margin <= 0.0 else 0.0
    if rule == PA1_PRINTED:
        size = abs(margin)
        return C if size == 0.0 or loss / size > C else loss / size
    if rule == PA2:
        return loss / (2.0 * square + 0.5 / C)
    tau = loss / (2.0 * square)
    return C if rule == PA1 and tau > C else tau


@njit(cache=True, fastmath=False)
def online_pass(W: Array, Z: Array, y: Array, rule: int, C: float, F: Array, mean: Array) -> None:
    """Scores before each label into F (B x K), updates into W (K x d); `mean` (K x d or empty) gets the mean of W_t."""
    B, d = Z.shape
    K = W.shape[0]
    averaging = mean.shape[0] == K
    if averaging:
        mean[:] = W
    for t in range(B):
        square = 0.0
        for j in range(d):
            square += Z[t, j] * Z[t, j]
        for k in range(K):
            total = 0.0
            for j in range(d):
                total += W[k, j] * Z[t, j]
            F[t, k] = total
        label = y[t]
        if label < 0 or square == 0.0 or K < 2:
            continue
        rival = -1
        for k in range(K):
            if k != label and (rival < 0 or F[t, k] > F[t, rival]):
                rival = k
        margin = F[t, label] - F[t, rival]
        loss = 1.0 - margin
        if loss <= 0.0:
            continue
        tau = _step_size(rule, loss, margin, square, C)
        if tau == 0.0:
            continue
        share = tau * (B - t) / B
        for j in range(d):
            W[label, j] += tau * Z[t, j]
            W[rival, j] -= tau * Z[t, j]
            if averaging:
                mean[label, j] += share * Z[t, j]
                mean[rival, j] -= share * Z[t, j]


def run_pass(W: Array, Z: Array, y: Array, rule: int, C: float, average: bool = False) -> tuple[Array, Array]:
    """Prequential scores of one head over a block (B x K) and, if asked, the mean of its weights after each row."""
    F = np.empty((len(Z), len(W)), dtype=W.dtype)
    mean = np.zeros(W.shape if average else (0, 0), dtype=W.dtype)
    if len(Z):
        online_pass(W, np.ascontiguousarray(Z, dtype=W.dtype), y, rule, float(C), F, mean)
    elif average:
        mean[:] = W
    return F, mean
