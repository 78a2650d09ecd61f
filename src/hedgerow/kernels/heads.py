"""The passive-aggressive loops: one head over a block, all heads over a block. Their twin is `heads.pa.step`."""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.rule_numbers import PA1, PA1_PRINTED, PA2, PERCEPTRON
from hedgerow.kernels import EVEN, SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.rows import product_row


@compiled
def _step_size(rule: int, loss: float, margin: float, square: float, C: float) -> float:
    """tau (Eq. 5, and the other rules of `heads/pa.py`)."""
    if rule == PERCEPTRON:
        return 1.0 if margin <= 0.0 else 0.0
    if rule == PA1_PRINTED:
        size = abs(margin)
        return C if size == 0.0 or loss / size > C else loss / size
    if rule == PA2:
        return loss / (2.0 * square + 0.5 / C)
    tau = loss / (2.0 * square)
    return C if rule == PA1 and tau > C else tau


@compiled(fastmath=SUMS)
def squared(z: Array) -> float:
    """|z|^2."""
    total = z.dtype.type(0)
    for j in range(len(z)):
        total += z[j] * z[j]
    return float(total)


@compiled
def best(f: Array) -> int:
    """argmax f, the lowest of equals."""
    found, top = 0, f[0]
    for k in range(1, len(f)):
        if f[k] > top:
            found, top = k, f[k]
    return found


@compiled
def _rival(f: Array, label: int) -> int:
    """The best of the wrong classes: argmax_{k != label} f_k, the lowest of equals (Eq. 1)."""
    found = 1 if label == 0 else 0
    for k in range(len(f)):
        if k != label and f[k] > f[found]:
            found = k
    return found


@compiled
def learn_row(W: Array, z: Array, f: Array, label: int, rule: int, C: float) -> tuple[float, int]:
    """One labelled row into W (Eq. 1, 2, 4, 5): the size of the step and the rival. A step of 0 changes nothing."""
    if label < 0 or W.shape[0] < 2:
        return 0.0, 0
    rival = _rival(f, label)
    margin = float(f[label]) - float(f[rival])
    loss = 1.0 - margin
    if not loss > 0.0:
        return 0.0, rival
    square = squared(z)
    if square == 0.0:
        return 0.0, rival
    tau = _step_size(rule, loss, margin, square, C)
    if tau > 0.0:
        _add(W, z, tau, label, rival)
    return tau, rival


@compiled
def _add(W: Array, z: Array, tau: float, label: int, rival: int) -> None:
    """W_label += tau z, W_rival -= tau z (Eq. 4)."""
    size = W.dtype.type(tau)
    for j in range(len(z)):
        step = size * z[j]
        W[label, j] += step
        W[rival, j] -= step


@compiled
def copy(A: Array, out: Array) -> None:
    """out = A, both of two dimensions."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] = A[i, j]


@compiled
def online_pass(W: Array, Z: Array, y: Array, weight: Array, rule: int, C: float, F: Array, mean: Array) -> None:
    """Scores before each label into F (B x K), updates into W (K x d); `mean` (K x d or empty) gets the mean of W_t."""
    B = len(Z)
    averaging = len(mean) == len(W)
    if averaging:
        copy(W, mean)
    for t in range(B):
        product_row(W, Z[t], F[t])
        tau, rival = learn_row(W, Z[t], F[t], y[t], rule, C * weight[t] if len(weight) else C)
        if averaging and tau > 0.0:
            _add(mean, Z[t], tau * (B - t) / B, y[t], rival)


@compiled
def passes(
    W: Array, which: Array, space: Array, Z: Array, y: Array, weight: Array, rule: int, C: float, F: Array
) -> None:
    """`online_pass` for each of the heads `which`, over the rows Z (B x n x d) of its space; F is B x N x K."""
    for e in which:
        for t in range(len(Z)):
            z, f = Z[t, space[e]], F[t, e]
            product_row(W[e], z, f)
            learn_row(W[e], z, f, y[t], rule, C * weight[t] if len(weight) else C)


@compiled
def unit_rows(Z: Array, out: Array) -> None:
    """z/|z| for each row of each space (B x n x d); a zero row stays zero."""
    for t in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            square = squared(Z[t, i])
            scale = Z.dtype.type(1.0 / np.sqrt(square) if square > 0.0 else 0.0)
            for j in range(Z.shape[2]):
                out[t, i, j] = scale * Z[t, i, j]


def run_pass(
    W: Array, Z: Array, y: Array, rule: int, C: float, weight: Array | None = None, average: bool = False
) -> tuple[Array, Array]:
    """Prequential scores of one head over a block (B x K) and, if asked, the mean of its weights after each row."""
    F = np.empty((len(Z), len(W)), dtype=W.dtype)
    mean = np.zeros(W.shape if average else (0, 0), dtype=W.dtype)
    if len(Z):
        rows = np.ascontiguousarray(Z, dtype=W.dtype)
        online_pass(W, rows, y, EVEN if weight is None else weight, rule, float(C), F, mean)
    elif average:
        mean[:] = W
    return F, mean
