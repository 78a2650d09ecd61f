"""The compiled loops of a fleet: one row after the other, each of a target of its own, by the target's own record.

A record is one stretch of memory (`fleet/records.py` has its parts). What all targets share comes in as products that
were made for the whole batch: Z (rows in all spaces side by side), Z P_0 and Z M_0. Of its own a target has rows g_i
and e_i: P = P_0 - sum_i g_i' g_i, M = M_0 + sum_i g_i' e_i, space by space (`learners/ridge/regression.py`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.common import SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.near import row_products, shares
from hedgerow.kernels.ridge import mix_rows

SEEN, MISTAKES, ROWS, LOSS, MEMBERS, PAIR, STACKS, CURVES, COUNTS, OWN = range(10)  # places of `at`


@compiled
def follow(R: Array, slots: Array, D: Array, at: int, centre: bool, shift: Array, learned: Array, out: Array) -> None:
    """Rows by the running statistics of their targets (n, sums, squares from `at` on); learned ones are folded in.

    Twin: `core.preprocess.Running.scale`. D is X - shift.
    """
    m = D.shape[1]
    for t in range(len(D)):
        s = R[slots[t]]
        n, total, squares = s[at], s[at + 1 : at + 1 + m], s[at + 1 + m : at + 1 + 2 * m]
        for j in range(m):
            mean = total[j] / n
            value = D[t, j] - mean
            if not centre:
                sd = np.sqrt(max(squares[j] / n - mean * mean, 0.0))
                if sd > 1e-13 * abs(shift[j]):
                    value /= sd
            out[t, j] = value
        if learned[t]:
            s[at] += 1.0
            for j in range(m):
                total[j] += D[t, j]
                squares[j] += D[t, j] * D[t, j]


@compiled(fastmath=SUMS)
def _fits(G: Array, E: Array, n: int, z: Array, d_ends: Array, q_ends: Array, fits: Array, along: Array) -> None:
    """fits += sum_i (g_i . z) e_i, space by space; the products g_i . z into `along` (n x spaces)."""
    D, Q = len(z), len(fits)
    for i in range(n):
        g, e = G[i * D : (i + 1) * D], E[i * Q : (i + 1) * Q]
        d, q = 0, 0
        for s in range(len(d_ends)):
            total = 0.0
            for j in range(d, d_ends[s]):
                total += g[j] * z[j]
            along[i, s] = total
            for j in range(q, q_ends[s]):
                fits[j] += total * e[j]
            d, q = d_ends[s], q_ends[s]


@compiled(fastmath=SUMS)
def _scores(fits: Array, columns: Array, targets: Array, halves: Array, F: Array) -> None:
    """Scores of the heads of all regressions: one number a class, or C_k . f - |C_k|^2/2 with C from `targets`."""
    K = F.shape[2]
    for h in range(len(columns)):
        first, width, place = columns[h, 0], columns[h, 1], columns[h, 2]
        if place < 0:
            for k in range(K):
                F[0, h, k] = fits[first + k]
            continue
        for k in range(K):
            total = -halves[h, k]
            for j in range(width):
                total += fits[first + j] * targets[place + k * width + j]
            F[0, h, k] = total


@compiled
def _near(
    kept: Array, used: int, own_y: Array, own_weight: Array, w: Array, ends: Array, room: int, D: Array, row: int,
    y_s: Array, domain: Array, w_s: Array, sharpness: Array, trust: float, first: int, F: Array,
) -> None:  # fmt: skip
    """Scores of the local heads: rows of the sources by their products D (kinds x B x n), those of the target here."""
    kinds = len(ends)
    heads = (F.shape[1] - first) // kinds
    products, a = np.empty(used, np.float32), 0
    y = np.empty(used, np.int64)
    for i in range(used):
        y[i] = np.int64(own_y[i])
    for kind in range(kinds):
        b = ends[kind]
        rows = kept[a * room : b * room].reshape((room, b - a))
        row_products(rows[:used], w[a:b], products)
        V = F[0, first + kind * heads : first + (kind + 1) * heads]
        shares(D[kind, row], y_s, domain, w_s, products, y, own_weight[:used], sharpness[kind], trust, V)
        a = b


@compiled
def _centre(F: Array) -> None:
    K = F.shape[2]
    for h in range(F.shape[1]):
        total = 0.0
        for k in range(K):
            total += F[0, h, k]
        for k in range(K):
            F[0, h, k] -= total / K


@compiled(fastmath=SUMS)
def _learn(
    G: Array, E: Array, n: int, z: Array, pz: Array, fits: Array, target: Array, noise: float,
    d_ends: Array, q_ends: Array, along: Array, keep: Array, fade: bool,
) -> None:  # fmt: skip
    """Row n of G and E; where labels fade, all rows of the space become shorter: P and M go back to their start."""
    D, Q = len(z), len(fits)
    g, e = G[n * D : (n + 1) * D], E[n * Q : (n + 1) * Q]
    d, q = 0, 0
    for s in range(len(d_ends)):
        for j in range(d, d_ends[s]):
            g[j] = pz[j]
        for i in range(n):
            a, row = along[i, s], G[i * D : (i + 1) * D]
            for j in range(d, d_ends[s]):
                g[j] -= a * row[j]
        square = noise
        for j in range(d, d_ends[s]):
            square += g[j] * z[j]
        if square < noise:  # by rounding: P has nothing left along z
            for j in range(d, d_ends[s]):
                g[j] = 0.0
            square = noise
        root = np.sqrt(square)
        for j in range(d, d_ends[s]):
            g[j] /= root
        for j in range(q, q_ends[s]):
            e[j] = (target[j] - fits[j]) / root
        if fade and keep[s] < 1.0:
            for i in range(n + 1):
                row = G[i * D : (i + 1) * D]
                for j in range(d, d_ends[s]):
                    row[j] *= keep[s]
        d, q = d_ends[s], q_ends[s]


@compiled(threads=True)
def run_rows(
    R: Array, S: Array, slots: Array, rows: Array, y: Array, weight: Array, learn: bool, room: int, at: Array,
    Z: Array, PZ: Array, MZ: Array, W: Array, DS: Array, d_ends: Array, q_ends: Array, keep: Array, fade_every: int,
    columns: Array, targets: Array, halves: Array, class_rows: Array,
    near_ends: Array, near_y: Array, near_domain: Array, near_weight: Array, sharpness: Array, trust: float,
    temperatures: int, log_w: Array, keeps: Array, floor: float, prior: Array, share: float, heads: int,
    shipped: Array,
) -> None:  # fmt: skip
    """Rows of the batch in order: `rows` are their places, `slots` their targets' records, R and S as other numbers.

    A label below 0 is none: the row is predicted only.
    """
    D, Q, K, f = Z.shape[1], MZ.shape[1], shipped.shape[1], heads + 2
    F, fits, code = np.empty((1, heads, K)), np.empty(Q), np.empty(1, np.int64)
    along, by_head, out = np.empty((room, len(d_ends))), np.empty((1, heads + 1)), np.empty((1, K))
    for t in range(len(rows)):
        r, s, small = rows[t], R[slots[t]], S[slots[t]]
        n, own = int(s[at[ROWS]]), at[OWN]
        labels, weights = s[own : own + room], s[own + room : own + 2 * room]
        G = s[own + 2 * room : own + (2 + D) * room]
        E = s[own + (2 + D) * room : own + (2 + D + Q) * room]
        kept = small[4 * (own + (2 + D + Q) * room) :]
        for j in range(Q):
            fits[j] = MZ[r, j]
        _fits(G, E, n, Z[r], d_ends, q_ends, fits, along)
        _scores(fits, columns, targets, halves, F)
        if len(near_ends):
            _near(kept, n, labels, weights, W[r], near_ends, room, DS, r, near_y, near_domain, near_weight,
                  sharpness, trust, len(columns), F)  # fmt: skip
        _centre(F)
        label = y[r] if learn else -1
        code[0] = label
        mix_rows(
            F, code, K, temperatures, log_w, s[at[LOSS] : at[MEMBERS]], s[at[COUNTS] : at[COUNTS] + K],
            s[at[STACKS] : at[CURVES]].reshape((2, f)), s[at[CURVES] : at[COUNTS]].reshape((2, f, f)),
            keeps, floor, prior, s[at[MEMBERS] : at[PAIR]], s[at[PAIR] : at[STACKS]], share, out, by_head,
        )  # fmt: skip
        best = 0
        for k in range(K):
            shipped[r, k] = out[0, k]
            if out[0, k] > out[0, best]:
                best = k
        if label < 0:
            continue
        s[at[SEEN]] += 1.0
        if best != label:
            s[at[MISTAKES]] += 1.0
        fade = int(s[at[SEEN]]) % fade_every == 0
        _learn(G, E, n, Z[r], PZ[r], fits, class_rows[label], 1.0 / weight[r], d_ends, q_ends, along, keep, fade)
        labels[n], weights[n] = float(label), weight[r]
        a = 0
        for kind in range(len(near_ends)):
            b = near_ends[kind]
            for j in range(a, b):
                kept[a * room + n * (b - a) + j - a] = W[r, j]
            a = b
        s[at[ROWS]] = n + 1.0
