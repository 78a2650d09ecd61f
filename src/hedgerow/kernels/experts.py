"""Loops over the experts of a block: linear heads that learn from labels, and Hedge over their mistakes.

A block has B >= 1 rows; one row is a block of one. Twins in NumPy: `heads.step` of `passes`, and with
`mix.Mixer.run` and `learner.OnlineLearner._step` of `step`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import PA1, PA1_PRINTED, PA2, PERCEPTRON
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.refresh import add_moments
from hedgerow.kernels.rows import best, dot, product_row, weigh

FEW = 8  # rows that frozen experts score sooner in one loop than by a product each


class Heads(NamedTuple):
    """Heads in their spaces: weights W (N x K x d), the space of each, the rule and its C.

    S has a matrix for each head that learns, which are the last ones: AROW's covariance, d x d or its diagonal 1 x d,
    or one without rows. u is room for a row.
    """

    W: Array
    S: Array
    space: Array
    rule: int
    C: float
    u: Array


@compiled
def _step_size(rule: int, loss: float, margin: float, square: float, C: float) -> float:
    """tau (Eq. 5, and the other rules of `heads.py`)."""
    if rule == PERCEPTRON:
        return 1.0 if margin <= 0.0 else 0.0
    if rule == PA1_PRINTED:
        size = abs(margin)
        return C if size == 0.0 or loss / size > C else loss / size
    if rule == PA2:
        return loss / (2.0 * square + 0.5 / C)
    tau = loss / (2.0 * square)
    return C if rule == PA1 and tau > C else tau


@compiled
def _rival(f: Array, label: int) -> int:
    """The best of the wrong classes: argmax_{k != label} f_k, the lowest of equals (Eq. 1)."""
    at = 1 if label == 0 else 0
    for k in range(len(f)):
        if k != label and f[k] > f[at]:
            at = k
    return at


@compiled
def _spread(S: Array, z: Array, u: Array) -> float:
    """u = S z, and z . u. S is d x d and symmetric, or its diagonal (1 x d)."""
    if len(S) < len(z):
        for j in range(len(z)):
            u[j] = S[0, j] * z[j]
    else:
        for i in range(len(z)):
            u[i] = dot(S[i], z)
    return max(dot(z, u), 0.0)


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
def _add(W: Array, u: Array, tau: float, label: int, rival: int) -> None:
    """W_label += tau u, W_rival -= tau u (Eq. 4)."""
    size = W.dtype.type(tau)
    for j in range(len(u)):
        step = size * u[j]
        W[label, j] += step
        W[rival, j] -= step


@compiled
def passes(heads: Heads, Z: Array, y: Array, weight: Array, F: Array, mean: Array) -> None:
    """Every head that learns over the rows Z (B x n x d) of its space: scores before each label into F (B x N x K).

    `weight` (empty: one each) multiplies C. `mean` (a W for each, or none) gets their mean W.
    """
    heads, B, d, u = Heads(*heads), len(Z), Z.shape[2], heads[5]
    averaging = len(mean) > 0
    first = len(heads.W) - len(heads.S)
    for i in range(len(heads.S)):
        e = first + i
        W, S = heads.W[e], heads.S[i]
        if averaging:
            for k in range(len(W)):
                for j in range(d):
                    mean[i, k, j] = W[k, j]
        for t in range(B):
            z, f, label = Z[t, heads.space[e]], F[t, e], y[t]
            product_row(W, z, f)
            C = heads.C * weight[t] if len(weight) else heads.C
            if label < 0 or len(W) < 2 or not C > 0.0:
                continue
            rival = _rival(f, label)
            margin = float(f[label]) - float(f[rival])
            loss = 1.0 - margin
            if not loss > 0.0:
                continue
            along = u if len(S) else z
            square = _spread(S, z, u) if len(S) else dot(z, z)
            if square == 0.0:
                continue
            tau = _step_size(heads.rule, loss, margin, square, C)
            if not tau > 0.0:
                continue
            _add(W, along, tau, label, rival)
            if len(S):
                _sharpen(S, u, 1.0 / (square + 0.5 / C))
            if averaging:
                _add(mean[i], along, tau * (B - t) / B, label, rival)


@compiled
def unit_rows(Z: Array, out: Array) -> None:
    """z/|z| for each row of each space (B x n x d); a zero row stays zero."""
    for t in range(Z.shape[0]):
        for i in range(Z.shape[1]):
            square = dot(Z[t, i], Z[t, i])
            scale = Z.dtype.type(1.0 / np.sqrt(square) if square > 0.0 else 0.0)
            for j in range(Z.shape[2]):
                out[t, i, j] = scale * Z[t, i, j]


@compiled
def rate(beta: float, seen: int, experts: int) -> float:
    """ln(1/beta), or with beta = 0 the anytime rule, `seen` labels having been learned before."""
    return float(np.log(1 / beta) if beta > 0.0 else np.log1p(np.sqrt(np.log(experts) / (seen + 1.0))))


@compiled
def step(
    W: Array, S: Array, u: Array, numbers: Array, tally: Array, counts: Array, totals: Array, F: Array, out: Array,
    Z: Array, y: Array, weight: Array,
) -> int:  # fmt: skip
    """A block of rows in their spaces Z (B x n x d): scores, Hedge over the experts' mistakes, heads, counters.

    W, S and u are those of `Heads`; `numbers` the losses of each expert, then of the mixture (N + 1), the rule and its
    C, Hedge's beta (0: anytime) and whether experts vote; `tally` labels, mistakes, each expert's mistakes (2 + N) and
    each expert's space. Labels change these, and `counts` (1 + K) and `totals` (1 + K x m), the target's rows and their
    sum, then those of each class, which the rows of the first space join unless `counts` is empty. Filled in are F
    (B x N x K), where from `FEW` rows on those of frozen experts are known, and `out`: the weights (B x N, Eq. 8 and
    9), then the combined scores (Eq. 6) of the first classes. Returned is the class predicted for the last row.

    The arguments are few, and in no tuple: for a single row their number is what takes the time.
    """
    N, K, named = len(W), out.shape[1] - len(W), -1
    losses, options, space = numbers[: N + 1], numbers[N + 1 :], tally[2 + N :]
    if len(Z) < FEW:
        for t in range(len(Z)):
            for e in range(N - len(S)):
                product_row(W[e], Z[t, space[e]], F[t, e])
    heads = Heads(W, S, space, int(options[0]), options[1], u)
    passes(heads, Z, y, weight, F, S[:0])
    for t in range(len(Z)):
        p, f = out[t, :N], out[t, N:]
        weigh(losses[:N], rate(options[2], tally[0], N), p)
        for k in range(K):
            f[k] = 0.0
        for e in range(N):
            vote = best(F[t, e, :K])
            if options[3] > 0.0:
                f[vote] += p[e]
            else:
                for k in range(K):
                    f[k] += p[e] * F[t, e, k]
            if y[t] >= 0 and vote != y[t]:
                tally[2 + e] += 1
                losses[e] += 1.0
                losses[N] += p[e]
        named = best(f)
        if y[t] >= 0:
            tally[0] += 1
            tally[1] += named != y[t]
    if len(counts):
        add_moments(Z[:, 0], y, weight, counts, totals)
    return named
