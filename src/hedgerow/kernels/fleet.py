"""The compiled loops of a fleet: one row after the other, each of a target of its own, by the target's own record.

A record is one stretch of memory (`fleet/records.py` has its parts). What all targets share comes in as products that
were made for the whole batch: Z (rows in all spaces side by side), Z P_0 and Z M_0. Of its own a target has rows g_i
and e_i: P = P_0 - sum_i g_i' g_i, M = M_0 + sum_i g_i' e_i, space by space (`ridge/regression.py`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels import SUMS
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.near import row_products, shares
from hedgerow.kernels.ridge import mix_rows

SEEN, MISTAKES, ROWS, LOSS, MEMBERS, PAIR, STACKS, CURVES, COUNTS, OWN = range(10)  # places of `at`


@compiled(fastmath=SUMS)
def _along(G: Array, n: int, z: Array, d_ends: Array, along: Array) -> None:
    """The products g_i . z of each space (n x spaces), four rows at a time: see `kernels/rows.py`.

    Where n is no multiple of four, some are computed twice, so that all are summed in the same order.
    """
    D = len(z)
    for first in range(0, n, 4):
        i0 = first
        i1, i2, i3 = min(i0 + 1, n - 1), min(i0 + 2, n - 1), min(i0 + 3, n - 1)
        d = 0
        for s in range(len(d_ends)):
            end = d_ends[s]
            r, t = G[i0 * D + d : i0 * D + end], G[i1 * D + d : i1 * D + end]
            u, v = G[i2 * D + d : i2 * D + end], G[i3 * D + d : i3 * D + end]
            x = z[d:end]
            a = b = c = e = 0.0
            for j in range(len(x)):
                a += r[j] * x[j]
                b += t[j] * x[j]
                c += u[j] * x[j]
                e += v[j] * x[j]
            along[i0, s], along[i1, s], along[i2, s], along[i3, s] = a, b, c, e
            d = end


@compiled
def _add_rows(rows: Array, n: int, width: int, ends: Array, factors: Array, sign: float, out: Array) -> None:
    """out += sign sum_i factors[i, s] rows[i], space by space, four rows at a time."""
    for first in range(0, n, 4):
        i0 = first
        i1, i2, i3 = min(i0 + 1, n - 1), min(i0 + 2, n - 1), min(i0 + 3, n - 1)
        begin = 0
        for s in range(len(ends)):
            end = ends[s]
            a, b, c, e = sign * factors[i0, s], sign * factors[i1, s], sign * factors[i2, s], sign * factors[i3, s]
            if first + 3 >= n:
                e = 0.0
                if first + 2 >= n:
                    c = 0.0
                    if first + 1 >= n:
                        b = 0.0
            r, t = rows[i0 * width + begin : i0 * width + end], rows[i1 * width + begin : i1 * width + end]
            u, v = rows[i2 * width + begin : i2 * width + end], rows[i3 * width + begin : i3 * width + end]
            o = out[begin:end]
            for j in range(len(o)):
                o[j] += a * r[j] + b * t[j] + c * u[j] + e * v[j]
            begin = end


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
def _product(x: Array, z: Array) -> float:
    total = 0.0
    for j in range(len(x)):
        total += x[j] * z[j]
    return total


@compiled
def _learn(
    G: Array, E: Array, n: int, z: Array, pz: Array, fits: Array, target: Array, noise: float,
    d_ends: Array, q_ends: Array, along: Array, keep: Array, fade: bool,
) -> None:  # fmt: skip
    """Row n of G and E; where labels fade, all rows of the space become shorter: P and M go back to their start."""
    D, Q = len(z), len(fits)
    g, e = G[n * D : (n + 1) * D], E[n * Q : (n + 1) * Q]
    for j in range(D):
        g[j] = pz[j]
    _add_rows(G, n, D, d_ends, along, -1.0, g)
    d, q = 0, 0
    for s in range(len(d_ends)):
        end = d_ends[s]
        square = noise + _product(g[d:end], z[d:end])
        if square < noise:  # by rounding: P has nothing left along z
            for j in range(d, end):
                g[j] = 0.0
            square = noise
        root = np.sqrt(square)
        for j in range(d, end):
            g[j] /= root
        for j in range(q, q_ends[s]):
            e[j] = (target[j] - fits[j]) / root
        if fade and keep[s] < 1.0:
            for i in range(n + 1):
                for j in range(i * D + d, i * D + end):
                    G[j] *= keep[s]
        d, q = end, q_ends[s]


@compiled(threads=True)
def run_rows(
    R: Array, S: Array, slots: Array, rows: Array, y: Array, weight: Array, learn: bool, room: int, at: Array,
    Z: Array, PZ: Array, MZ: Array, W: Array, DS: Array, d_ends: Array, q_ends: Array, keep: Array, fade_every: int,
    columns: Array, targets: Array, halves: Array, class_rows: Array,
    near_ends: Array, near_y: Array, near_domain: Array, near_weight: Array, sharpness: Array, trust: float,
    temperatures: int, log_w: Array, keeps: Array, floor: float, prior: Array, share: float, heads: int,
    known: Array, all_fits: Array, all_along: Array, all_F: Array, shipped: Array,
) -> None:  # fmt: skip
    """Rows of the batch in order: `rows` are their places, `slots` their targets' records, R and S as other numbers.

    A label below 0 is none: the row is predicted only. What the heads say of a row is kept in all_fits, all_along and
    all_F, and `known` says after how many rows and labels of its target: if it has no more, it is not computed again.
    """
    D, Q, K, f = Z.shape[1], MZ.shape[1], shipped.shape[1], heads + 2
    code, by_head, out = np.empty(1, np.int64), np.empty((1, heads + 1)), np.empty((1, K))
    for t in range(len(rows)):
        r, s, small = rows[t], R[slots[t]], S[slots[t]]
        n, own = int(s[at[ROWS]]), at[OWN]
        labels, weights = s[own : own + room], s[own + room : own + 2 * room]
        G = s[own + 2 * room : own + (2 + D) * room]
        E = s[own + (2 + D) * room : own + (2 + D + Q) * room]
        kept = small[4 * (own + (2 + D + Q) * room) :]
        fits, along, F = all_fits[r], all_along[r], all_F[r : r + 1]
        if known[r, 0] != n or known[r, 1] != s[at[SEEN]]:
            for j in range(Q):
                fits[j] = MZ[r, j]
            _along(G, n, Z[r], d_ends, along)
            _add_rows(E, n, Q, q_ends, along, 1.0, fits)  # fits += sum_i (g_i . z) e_i
            _scores(fits, columns, targets, halves, F)
            if len(near_ends):
                _near(kept, n, labels, weights, W[r], near_ends, room, DS, r, near_y, near_domain, near_weight,
                      sharpness, trust, len(columns), F)  # fmt: skip
            _centre(F)
            known[r, 0], known[r, 1] = n, int(s[at[SEEN]])
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
