"""Loops over the experts of a block: linear heads that learn from labels, and Hedge over their mistakes.

A block has B >= 1 rows; one row is a block of one. Twins in NumPy: `mix.Mixer.run` and
`experts.ExpertsLearner._run_parts` of `step`; that of `passes` is in the tests.

The refresh of the projections (Eq. 13) from products of vectors alone, and the rows between two refreshes: letters and
derivation as in `spaces.py`, with n sources, K1 = K + 1 means or sums of each side, d dimensions. No loop of a refresh
reads the m features. Twins: `align.refreshed` with `core.moments.gap`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.constants import PA1, PA1_PRINTED, PA2, PERCEPTRON
from hedgerow.kernels.compiled import compiled
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
        W = heads.W[e]
        S = heads.S[i]
        if averaging:
            for k in range(len(W)):
                for j in range(d):
                    mean[i, k, j] = W[k, j]
        for t in range(B):
            z = Z[t, heads.space[e]]
            f = F[t, e]
            label = y[t]
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
    return float(
        np.log(1 / beta) if beta > 0.0 else np.log1p(np.sqrt(np.log(experts) / (seen + 1.0)))
    )


# -- moments of the target, and the refresh of the projections --------------------------------------------------------


@compiled
def group_sums(X: Array, group: Array, weight: Array, out: Array) -> None:
    """out[g] += the rows of group g, each counted `weight` times (empty: once); rows of group -1 are left out."""
    for t in range(len(group)):
        if group[t] >= 0:
            total = out[group[t]]
            times = X.dtype.type(weight[t] if len(weight) else 1.0)
            for j in range(X.shape[1]):
                total[j] += times * X[t, j]


@compiled
def add_moments(X: Array, y: Array, weight: Array, counts: Array, totals: Array) -> None:
    """Labelled rows are added to the target's moments (Eq. 10, 11): those of all rows, then of each class.

    Twin: `Moments.add`.
    """
    for t in range(len(y)):
        if y[t] < 0:
            continue
        times = weight[t] if len(weight) else 1.0
        total = totals[0]
        sums = totals[1 + y[t]]
        counts[0] += times
        counts[1 + y[t]] += times
        for j in range(X.shape[1]):
            share = times * X[t, j]
            total[j] += share
            sums[j] += share


@compiled
def fold(W: Array, classes: Array, out: Array) -> None:
    """`out`, the rows of T of W, takes the class sums of these classes; T and S are the last columns of W."""
    K1 = len(out)
    T = W.shape[1] - len(W)
    for g in range(len(classes)):
        of_all = out[0]
        of_class = out[1 + classes[g]]
        sums = W[K1 + g]
        for b in range(T + K1 + len(classes)):
            of_all[b] += sums[b]
            of_class[b] += sums[b]
    for a in range(K1):
        for g in range(len(classes)):
            out[a, T] += out[a, T + K1 + g]
            out[a, T + 1 + classes[g]] += out[a, T + K1 + g]


@compiled
def add_projections(Z: Array, y: Array, weight: Array, TA: Array) -> None:
    """T A_i for labelled rows that join T: TA[i, 0] and TA[i, y + 1] += z_i; Z (B x nd) are their projections."""
    n = TA.shape[0]
    d = TA.shape[2]
    for t in range(len(y)):
        if y[t] >= 0:
            times = Z.dtype.type(weight[t] if len(weight) else 1.0)
            for i in range(n):
                for j in range(d):
                    share = times * Z[t, i * d + j]
                    TA[i, 0, j] += share
                    TA[i, y[t] + 1, j] += share


@compiled
def gaps(
    MM: Array, W: Array, MA: Array, TA: Array, share: Array, D: Array, mu: float, out: Array, C: Array
) -> None:  # fmt: skip
    """mu M_i G_i^T, mu T G_i^T and I + mu G_i G_i^T of each source i into `out`, and G_i A_i into C_i.

    G_i = D_i (M_i - L T), `share` being the diagonal of L; W has the products of T with all M and with T.
    """
    n, K1, d = C.shape
    for i in range(n):
        M = i * K1
        for a in range(K1):
            for b in range(K1):
                scale = mu * D[i, b]
                of_source = scale * (MM[i, a, b] - share[b] * W[b, M + a])
                of_target = scale * (W[a, M + b] - share[b] * W[a, n * K1 + b])
                out[0, i, a, b] = of_source
                out[1, i, a, b] = of_target
                out[2, i, a, b] = D[i, a] * (of_source - share[a] * of_target)
            out[2, i, a, a] += 1.0
            for j in range(d):
                C[i, a, j] = D[i, a] * (MA[i, a, j] - share[a] * TA[i, a, j])


@compiled
def move(C: Array, D: Array, share: Array, mu: float, classes: Array, P: Array, Q: Array) -> None:
    """A_i -= mu G_i^T C_i in the parts of M and T, and of the class sums that T has taken."""
    n, K1, d = C.shape
    for i in range(n):
        for a in range(K1):
            for j in range(d):
                C[i, a, j] *= mu * D[i, a]
                P[i, a, j] -= C[i, a, j]
                C[i, a, j] *= share[a]
                Q[a, i * d + j] += C[i, a, j]
        for g in range(len(classes)):
            part = Q[K1 + g, i * d : (i + 1) * d]
            of_all = C[i, 0]
            of_class = C[i, 1 + classes[g]]
            for j in range(d):
                part[j] += of_all[j] + of_class[j]


# -- a block of rows by all experts -----------------------------------------------------------------------------


@compiled
def step(
    W: Array, S: Array, u: Array, numbers: Array, tally: Array, F: Array, out: Array, Z: Array, y: Array, weight: Array
) -> int:  # fmt: skip
    """A block of rows in their spaces Z (B x n x d): scores, Hedge over the experts' mistakes, heads, counters.

    W, S and u are those of `Heads`; `numbers` the losses of each expert, then of the mixture (N + 1), the rule and its
    C, Hedge's beta (0: anytime) and whether experts vote; `tally` labels, mistakes, each expert's mistakes (2 + N) and
    each expert's space. Labels change these. Filled in are F (B x N x K), where from `FEW` rows on those of frozen
    experts are known, and `out`: the weights (B x N, Eq. 8 and 9), then the combined scores (Eq. 6) of the first
    classes. Returned is the class predicted for the last row.

    The arguments are few, and in no tuple: for a single row their number is what takes the time.
    """
    N = len(W)
    K = out.shape[1] - len(W)
    named = -1
    losses = numbers[: N + 1]
    options = numbers[N + 1 :]
    space = tally[2 + N :]
    if len(Z) < FEW:
        for t in range(len(Z)):
            for e in range(N - len(S)):
                product_row(W[e], Z[t, space[e]], F[t, e])
    heads = Heads(W, S, space, int(options[0]), options[1], u)
    passes(heads, Z, y, weight, F, S[:0])
    for t in range(len(Z)):
        p = out[t, :N]
        f = out[t, N:]
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
    return named
