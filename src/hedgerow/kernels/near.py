"""The compiled loops of the local heads: inner products of rows of whole numbers, and the votes of close rows.

Rows are unit vectors times SCALE, rounded. By Cauchy-Schwarz no sum of products is larger than about SCALE^2 = 2^22, so
all of them are exact in single precision too, and a sum of whole numbers is the same in every order: a block by the
BLAS gives what its rows give one by one, to the last bit.
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SCALE
from hedgerow.kernels.compiled import compiled

MANY = 24  # rows of a block for which the BLAS is faster, the copies that it needs included
FAINT = 20.0  # a row votes if its vote is at least exp(-FAINT) times the loudest of its domain


@compiled
def row_products(S: Array, q: Array, out: Array) -> None:
    """out = S q, of whole numbers of 16 bits."""
    for i in range(S.shape[0]):
        total, row = np.int32(0), S[i]
        for j in range(len(q)):
            total += np.int32(row[j]) * np.int32(q[j])
        out[i] = np.int32(total)  # the compiler then needs no wider sums


def products(S: Array, Q: Array) -> Array:
    """Q S' (B x n, float32), of whole numbers of 16 bits.

    >>> products(np.array([[2, 1]], np.int16), np.array([[3, 4]], np.int16)).tolist()
    [[10.0]]
    """
    if len(Q) >= MANY:
        return np.asarray(Q.astype(np.float32) @ S.astype(np.float32).T)
    out = np.empty((len(Q), len(S)), np.float32)
    for q, row in zip(Q, out, strict=True):
        row_products(S, q, row)
    return out


@compiled
def votes(D: Array, y: Array, domain: Array, weight: Array, g: float, V: Array, loudest: Array) -> None:
    """V[domain, y] += weight exp(g (c - 1)) over the rows of a block's inner products D, c = D/SCALE^2 (one row)."""
    unit = 1.0 / (SCALE * SCALE)
    for s in range(len(loudest)):
        loudest[s] = -2.0
    for i in range(len(D)):
        c = D[i] * unit
        if c > loudest[domain[i]]:
            loudest[domain[i]] = c
    for i in range(len(D)):
        c = D[i] * unit
        if g * (loudest[domain[i]] - c) <= FAINT:
            V[domain[i], y[i]] += weight[i] * np.exp(g * (c - 1.0))


@compiled
def shares(
    D_s: Array, y_s: Array, domain: Array, w_s: Array, D_k: Array, y_k: Array, w_k: Array,
    g: float, trust: float, V: Array,
) -> None:  # fmt: skip
    """What each local head says of one row (V: heads x K), of its inner products with all kept rows."""
    heads, K = V.shape
    n = max(1, heads - 1)
    own, past, loudest = np.zeros((n, K)), np.zeros((1, K)), np.empty(n)
    votes(D_s, y_s, domain, w_s, g, own, loudest)
    votes(D_k, y_k, np.zeros(len(D_k), np.int64), w_k, g, past, loudest[:1])
    for h in range(heads):
        total = 0.0
        for k in range(K):
            said = 0.0
            if heads == 1 or h > 0:
                said = own[max(0, h - 1), k]
            else:
                for s in range(n):
                    said += own[s, k]
            V[h, k] = past[0, k] + trust * said
            total += V[h, k]
        total = max(total, 1e-300)
        for k in range(K):
            V[h, k] = V[h, k] / total - 1.0 / K


@compiled
def near_row(
    S: Array, y_s: Array, domain: Array, w_s: Array, kept: Array, y_k: Array, w_k: Array,
    used: int, q: Array, g: float, trust: float, V: Array,
) -> None:  # fmt: skip
    """The same from the kept rows themselves."""
    D_s, D_k = np.empty(len(S), np.float32), np.empty(used, np.float32)
    row_products(S, q, D_s)
    row_products(kept[:used], q, D_k)
    shares(D_s, y_s, domain, w_s, D_k, y_k, w_k, g, trust, V)


@compiled
def near_rows(
    sources: Array, y_s: Array, domain: Array, w_s: Array, kept: Array, among: Array,
    y_k: Array, w_k: Array, used: int, at: int, y: Array, weight: Array, g: float, trust: float, V: Array,
) -> None:  # fmt: skip
    """What each local head says of each row of a block (V: B x heads x K, shares of one minus their mean).

    Inner products of the block with the rows of the sources, with the kept rows of the target, and among itself. A
    labelled row takes the next place of the kept ones, and votes from then on; y_k and w_k are written over.
    """
    here = np.full(len(y_k), -1)  # which row of the block has taken a place
    row = np.empty(len(y_k), np.float32)
    for t in range(len(V)):
        for j in range(used):
            row[j] = kept[t, j] if here[j] < 0 else among[t, here[j]]
        shares(sources[t], y_s, domain, w_s, row[:used], y_k, w_k, g, trust, V[t])
        if y[t] >= 0:
            here[at], y_k[at], w_k[at] = t, y[t], weight[t]
            used = max(used, at + 1)
            at = (at + 1) % len(y_k)
