"""The compiled loops: the mixture, and one row of a regression; tests/unit/test_ridge_kernels.py has their NumPy twins.

Imported only when a stream of our own learner begins; compiled once, cached on disk.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.rows import symmetric_row

LEAST = 1e-12  # a probability is never smaller where its logarithm is taken
MOST = 1e4  # scores beyond are brought down to it, all of a head alike: the stacks square them
ROUNDING = 1e-10  # of what z' P z could be by P's diagonal: one row takes no more digits from P than that


@compiled(fastmath=SUMS)
def _experts(F: Array, pi: Array, y: int, temperatures: int, w: Array, loss: Array, q: Array) -> None:
    """qbar into q; with a label y >= 0 also -log of each expert's probability of it into loss.

    Experts are heads x temperatures (2, 4, 8, ...).

    exp(2 c f) is the square of exp(c f), so every head costs one exponential a class for all its temperatures.
    """
    heads, K = F.shape
    priors = heads * temperatures
    e = np.empty(K)
    for k in range(K):
        q[k] = w[2 * priors] * pi[k]
    if y >= 0:
        loss[2 * priors] = -np.log(pi[y])
    for i in range(heads):
        top = F[i, 0]
        for k in range(1, K):
            top = max(top, F[i, k])
        for k in range(K):
            e[k] = np.exp(2.0 * (F[i, k] - top))
        c = 2.0
        for j in range(temperatures):
            plain, prior = 0.0, 0.0
            for k in range(K):
                plain += e[k]
                prior += e[k] * pi[k]
            at = i * temperatures + j
            if y >= 0:
                own = c * (top - F[i, y])
                loss[at] = own + np.log(plain)
                loss[priors + at] = own - np.log(pi[y]) + np.log(prior)
            share, share_prior = w[at] / plain, w[priors + at] / prior
            for k in range(K):
                q[k] += e[k] * (share + share_prior * pi[k])
                e[k] *= e[k]
            c *= 2.0


@compiled(fastmath=SUMS)
def _log_softmax(s: Array, out: Array) -> None:
    top, total = s[0], 0.0
    for k in range(1, len(s)):
        top = max(top, s[k])
    for k in range(len(s)):
        total += np.exp(s[k] - top)
    for k in range(len(s)):
        out[k] = s[k] - top - np.log(total)


@compiled(fastmath=SUMS)
def _newton(a: Array, H: Array, X: Array, log_p: Array, y: int, keep: float, ridge: float) -> None:
    """One step of a stack with features X (f x K): a -= H^-1 X (p - e_y).

    H = keep H + (1 - keep) ridge I + X (diag p - p p') X': old labels fade, the ridge stays.
    """
    f, K = X.shape
    p, row = np.empty(K), np.empty(K)
    for k in range(K):
        p[k] = np.exp(log_p[k])
    mean, L, g = np.empty(f), np.empty((f, f)), np.empty(f)
    for i in range(f):
        for k in range(K):
            row[k] = p[k] * X[i, k]
        total = 0.0
        for k in range(K):
            total += row[k]
        mean[i] = total
        g[i] = total - X[i, y]
        for j in range(i + 1):
            product = 0.0
            for k in range(K):
                product += row[k] * X[j, k]
            H[i, j] = keep * H[i, j] + product - total * mean[j]
        H[i, i] += (1.0 - keep) * ridge
    for i in range(f):  # Cholesky, with the forward substitution on the way
        for j in range(i + 1):
            rest = H[i, j]
            for k in range(j):
                rest -= L[i, k] * L[j, k]
            L[i, j] = np.sqrt(rest) if i == j else rest / L[j, j]
        rest = g[i]
        for j in range(i):
            rest -= L[i, j] * g[j]
        g[i] = rest / L[i, i]
    for i in range(f - 1, -1, -1):
        rest = g[i]
        for j in range(i + 1, f):
            rest -= L[j, i] * g[j]
        g[i] = rest / L[i, i]
        a[i] -= g[i]


@compiled
def _total(x: Array) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


@compiled
def _weights(log_prior: Array, loss: Array, w: Array) -> None:
    """Normalised prior times exp(-loss)."""
    top, total = log_prior[0] - loss[0], 0.0
    for e in range(1, len(w)):
        top = max(top, log_prior[e] - loss[e])
    for e in range(len(w)):
        w[e] = np.exp(log_prior[e] - loss[e] - top)
        total += w[e]
    for e in range(len(w)):
        w[e] /= total


@compiled
def mix_rows(
    F: Array, y: Array, known: int, temperatures: int, log_w: Array, loss: Array, counts: Array, a: Array, H: Array,
    keep: Array, ridge: float, prior: Array, members: Array, pair: Array, share: float, shipped: Array, by_head: Array,
) -> float:  # fmt: skip
    """Rows in order: the predictions' probabilities into `shipped` (B x known), the first mixture's weights into
    `by_head`; the sum of log-losses.
    """
    B, heads, _ = F.shape
    stacks, n = len(a), len(members)
    w, losses = np.empty(len(loss)), np.empty(len(loss))
    q, pi = np.empty(known), np.empty(known)
    X = np.empty((heads + 2, known))
    logs, last = np.empty((n, known)), np.empty(n)
    total = 0.0
    for t in range(B):
        label = y[t]
        named = 0 <= label < known
        at = label if named else -1
        _weights(log_w, loss, w)
        whole = _total(counts)
        for k in range(known):
            pi[k] = counts[k] / whole
        for i in range(heads):
            size = 0.0
            for k in range(known):
                size = max(size, abs(F[t, i, k]))
            scale = MOST / size if size > MOST else 1.0
            for k in range(known):
                X[i, k] = scale * F[t, i, k]
        _experts(X[:heads], pi, at, temperatures, w, losses, q)
        for k in range(known):
            X[heads, k] = np.log(q[k] + LEAST)
            logs[1, k] = X[heads + 1, k] = np.log(pi[k])
        _log_softmax(X[heads], logs[0])
        for i in range(heads, heads + 2):
            mean = _total(X[i]) / known
            for k in range(known):
                X[i, k] -= mean
        for s in range(stacks):
            for k in range(known):
                q[k] = 0.0
            for i in range(heads + 2):
                for k in range(known):
                    q[k] += a[s, i] * X[i, k]
            _log_softmax(q, logs[2 + s])
        for k in range(known):
            tracked = 0.0
            for e in range(n):
                tracked += members[e] * np.exp(logs[e, k])
            q[k] = tracked
        lead = 1.0 / (1.0 + np.exp(pair[0] - pair[1]))  # weight of qbar against that of the tracker
        for k in range(known):
            shipped[t, k] = lead * np.exp(logs[0, k]) + (1.0 - lead) * q[k]
        for i in range(heads):
            by_head[t, i] = 0.0
            for j in range(i * temperatures, (i + 1) * temperatures):
                by_head[t, i] += w[j] + w[heads * temperatures + j]
        by_head[t, heads] = w[-1]
        if label < 0:
            continue
        if named:
            for e in range(len(loss)):
                loss[e] += losses[e]
            total -= np.log(max(shipped[t, at], LEAST))
            pair[0] -= logs[0, at]
            pair[1] -= np.log(max(q[at], LEAST))
            for e in range(n):
                last[e] = members[e] * np.exp(logs[e, at])
            seen = whole - len(counts) + 1.0
            alpha, believed = share / (seen + 1.0), _total(last)
            for e in range(n):
                members[e] = (1.0 - alpha) * (last[e] / believed) + alpha * prior[e]
            for s in range(stacks):
                _newton(a[s], H[s], X, logs[2 + s], at, keep[s], ridge)
        else:
            for e in range(len(loss)):
                loss[e] -= np.log(LEAST)
            pair[0] -= np.log(LEAST)
            pair[1] -= np.log(LEAST)
            total -= np.log(LEAST)
        counts[label] += 1.0
    return total


@compiled(fastmath=SUMS)
def learn_row(P: Array, z: Array, missed: Array, noise: float, G: Array, E: Array, n: int, top: float) -> bool:
    """Row n of G and E: g = (P - G' G) z / root and missed/root, root^2 = noise + z' (P - G' G) z; n are pending.

    False, and nothing done, if rounding could matter: if ROUNDING top |z|^2 is above the noise.
    """
    square = 0.0
    for j in range(len(z)):
        square += z[j] * z[j]
    if not ROUNDING * top * square <= noise:
        return False
    g = G[n]
    symmetric_row(P, z, g)
    for i in range(n):
        row, along = G[i], 0.0
        for j in range(len(z)):
            along += row[j] * z[j]
        for j in range(len(z)):
            g[j] -= along * row[j]
    square = noise
    for j in range(len(z)):
        square += g[j] * z[j]
    if square < noise:  # by rounding: P has nothing left along z
        for j in range(len(z)):
            g[j] = 0.0
        square = noise
    root = np.sqrt(square)
    for j in range(len(z)):
        g[j] /= root
    for k in range(len(missed)):
        E[n, k] = missed[k] / root
    return True
