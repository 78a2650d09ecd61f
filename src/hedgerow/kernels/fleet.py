"""The compiled loops of a fleet: one row after the other, each of a target of its own, by the target's own record.

A record is one stretch of memory (`fleet/records.py` has its parts), whose base is the prior that all targets share:
what a target has of its own are pending rows, which are never folded (`kernels/ridge.py`).
"""

from __future__ import annotations

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.kernels.compiled import compiled
from hedgerow.kernels.ridge import Heads, Mixture, Outcome, Products, Record, run_rows

LOSS, MEMBERS, PAIR, STACKS, CURVES, COUNTS, ROWS = range(7)  # places of `at`


@compiled
def _record(
    s: Array, at: Array, room: int, log_w: Array, diagonal: Array, top: Array, pending: Array, D: int, Q: int,
    near: int, trees: int,
) -> Record:  # fmt: skip
    """The parts of a record with places for `room` rows; `pending` is written over.

    `near`, `trees`: numbers of a kept row, and the leaves that it falls into.
    """
    f = int(np.sqrt((at[COUNTS] - at[CURVES]) // 2))
    mix = Mixture(
        log_w, s[at[LOSS] : at[MEMBERS]], s[at[MEMBERS] : at[PAIR]], s[at[PAIR] : at[STACKS]],
        s[at[STACKS] : at[CURVES]].reshape((2, f)), s[at[CURVES] : at[COUNTS]].reshape((2, f, f)),
        s[at[COUNTS] : at[ROWS]],
    )  # fmt: skip
    counters, own = s[:3].view(np.int64), at[ROWS]
    for i in range(len(pending)):
        pending[i] = counters[2]
    G, E = own + 2 * room, own + (2 + D) * room
    kept = E + Q * room
    rows, end = s[kept:].view(np.int16), near * room
    return Record(
        mix, pending, s[G:E], s[E:kept], diagonal, top,
        s[own : own + room].view(np.int64), s[own + room : G], rows, counters,
        s[:0].reshape((0, 1)), rows[end : end + trees * room].reshape((room, trees)),
    )  # fmt: skip


@compiled
def _fade(heads: Heads, record: Record, D: int) -> None:
    """Where labels fade, all pending rows of the space become shorter: P and M go back to their start."""
    room, d = len(record.G) // D, 0
    for s in range(len(heads.d_ends)):
        end, keep = heads.d_ends[s], heads.keep[s]
        if keep < 1.0:
            for j in range(room * d, room * d + record.pending[s] * (end - d)):
                record.G[j] *= keep
        d = end


@compiled(threads=True)
def run_slots(
    heads: Heads, products: Products, R: Array, slots: Array, rows: Array, room: int, at: Array, log_w: Array,
    diagonal: Array, top: Array, fade_every: int, y: Array, weight: Array, out: Outcome,
) -> None:  # fmt: skip
    """Rows of a batch in order: `rows` are their places, `slots` their targets' records in R.

    A label below 0 is none: the row is predicted only.
    """
    D, Q, pending = products.Z.shape[1], products.MZ.shape[1], np.empty(len(heads.d_ends), np.int64)
    near, trees = products.W.shape[1], products.leaves.shape[1]
    for t in range(len(rows)):
        r = rows[t]
        record = _record(R[slots[t]], at, room, log_w, diagonal, top, pending, D, Q, near, trees)
        run_rows(heads, record, products, r, r + 1, y, weight, out)
        if y[r] >= 0 and record.at[2] % fade_every == 0:
            _fade(heads, record, D)
