"""The loop of the second-order head, one head over a block. Its twin is `heads.arow.step`."""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import EVEN, SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.heads import _rival, copy
from hedgerow.kernels.rows import product_row


@compiled(fastmath=SUMS)
def _spread(S: Array, z: Array, u: Array) -> float:
    """u = S z, and z . u. S is d x d and symmetric, or its diagonal (1 x d)."""
    if len(S) < len(z):
        for j in range(len(z)):
            u[j] = S[0, j] * z[j]
    else:
        for j in range(len(z)):
            u[j] = 0.0
        for i in range(len(z)):
            for j in range(len(z)):
                u[j] += S[i, j] * z[i]
    total = z.dtype.type(0)
    for j in range(len(z)):
        total += z[j] * u[j]
    return max(float(total), 0.0)


@compiled
def _sharpen(S: Array, u: Array, b: float) -> None:
    """S -= b u u^T, or its diagonal."""
    if len(S) < len(u):
        for j in range(len(u)):
            S[0, j] -= S.dtype.type(b) * u[j] * u[j]
        return
    for i in range(len(u)):
        size = S.dtype.type(b) * u[i]
        for j in range(len(u)):
            S[i, j] -= size * u[j]


@compiled
def online_pass(W: Array, S: Array, Z: Array, y: Array, weight: Array, C: float, F: Array, mean: Array) -> None:
    """Scores before each label into F (B x K), updates into W (K x d) and S; `mean` (or empty) gets the mean of W_t."""
    B, K = len(Z), len(W)
    u = np.empty(Z.shape[1], dtype=Z.dtype)
    averaging = len(mean) == K
    if averaging:
        copy(W, mean)
    for t in range(B):
        f, label = F[t], y[t]
        product_row(W, Z[t], f)
        strength = C * weight[t] if len(weight) else C
        if label < 0 or K < 2 or not strength > 0.0:
            continue
        rival = _rival(f, label)
        loss = 1.0 - (float(f[label]) - float(f[rival]))
        if not loss > 0.0:
            continue
        v, r = _spread(S, Z[t], u), 0.5 / strength
        tau = W.dtype.type(loss / (2.0 * v + r))
        share = W.dtype.type((B - t) / B)
        for j in range(len(u)):
            W[label, j] += tau * u[j]
            W[rival, j] -= tau * u[j]
            if averaging:
                mean[label, j] += share * tau * u[j]
                mean[rival, j] -= share * tau * u[j]
        _sharpen(S, u, 1.0 / (v + r))


def run_pass(
    W: Array, S: Array, Z: Array, y: Array, C: float, weight: Array | None = None, average: bool = False
) -> tuple[Array, Array]:
    """Prequential scores of one head over a block (B x K) and, if asked, the mean of its weights after each row."""
    F = np.empty((len(Z), len(W)), dtype=W.dtype)
    mean = W.copy() if average else np.zeros((0, 0), dtype=W.dtype)
    if len(Z):
        rows = np.ascontiguousarray(Z, dtype=W.dtype)
        online_pass(W, S, rows, y, EVEN if weight is None else weight, float(C), F, mean)
    return F, mean
