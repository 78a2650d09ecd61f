"""Hedge on mistakes over a block of rows, summed scores. Its twin is `mix.base.Mixer.run`."""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.heads import best


@compiled
def rate(beta: float, seen: int, experts: int) -> float:
    """ln(1/beta), or with beta = 0 the anytime rule, `seen` labels having been learned before."""
    return float(np.log(1 / beta) if beta > 0.0 else np.log1p(np.sqrt(np.log(experts) / (seen + 1.0))))


@compiled
def weigh(loss: Array, eta: float, p: Array) -> None:
    """p_e = exp(-eta L_e) / sum (Eq. 8 and 9, with eta = ln(1/beta))."""
    least, total = loss[0], 0.0
    for e in range(1, len(p)):
        least = min(least, loss[e])
    for e in range(len(p)):
        p[e] = np.exp(-eta * (loss[e] - least))
        total += p[e]
    for e in range(len(p)):
        p[e] /= total


@compiled
def run(
    F: Array, y: Array, seen: int, beta: float, loss: Array, weights: Array, losses: Array, votes: Array, scores: Array
) -> None:
    """Rows in order: their weights, losses and votes (B x N), combined scores (B x K, Eq. 6); `loss` holds each L_e."""
    B, N, K = F.shape
    for t in range(B):
        p = weights[t]
        weigh(loss, rate(beta, seen, N), p)
        for k in range(K):
            scores[t, k] = 0.0
        for e in range(N):
            f, vote = F[t, e], best(F[t, e])
            votes[t, e] = vote
            losses[t, e] = 1.0 if y[t] >= 0 and vote != y[t] else 0.0
            loss[e] += losses[t, e]
            for k in range(K):
                scores[t, k] += p[e] * f[k]
        seen += y[t] >= 0
