"""What a batch costs a worker: work that is counted, times a few seconds each, fitted to what was measured.

m features; d_s dimensions and q_s fits of space s, D and Q their sums; W numbers of 16 bits that local heads compare, S
rows of sources that they have; t labels that a key has learned. A double is 8 bytes. A row of a light key costs

    flops   2 sum_s (m d_s + d_s q_s + d_s^2) + 2 S W       what all keys share: maps, M_0 z, P_0 z, local heads
          + t (4 D + 2 Q + 2 W)                             G z, G'(G z), E'(G z), own rows of the local heads
    bytes   24 m + 8 (D + Q) + t (16 D + 8 Q + 2 W)         read, journal, state; new row of G and E; G twice, E once

and one of a key with a model of its own (more than `most` labels) the same shared flops and sum_s 2 d_s^2 more, and
4 sum_s d_s^2 bytes. A key that is read from disk learns its t rows again. Seconds of a batch:

    batch + row x rows + again x rows learned again + key x distinct keys + miss x keys not in memory
    + own x rows of models of their own + call x such models called + made x such models made
    + compare x rows that local heads compare + flop x flops + byte x bytes

State of a key, bytes: on disk 43 + t (4 m + 1), features in single precision, 8 m where they need double; in memory
600 + 8 (fixed + room (2 + D + Q + W / 4)) in whole pages, room = t rounded up to 8, 16, 32, .., `most`, and
t (8 m + 16) + 300 a batch for rows not yet in a checkpoint. Network, bytes a row: 8 m + about 11 (key, label,
prediction), as measured. Constants: broadcast once a worker. A checkpoint writes 43 bytes a changed key and 4 m + 1 a
new label; the journal 8 m + 10 a label at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

MEASURED = Path(__file__).parent / "measured" / "workers.jsonl"
TERMS = ("batch", "row", "again", "key", "miss", "own", "call", "made", "compare", "flop", "byte")
PAGE, AROUND, HEAD = 4096, 600, 43
ROUNDS, GOOD = 20, 0.05  # of the fit; a relative error below which equations count alike
Row = dict[str, Any]


def read(path: Path = MEASURED) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True)
class Shape:
    """The sizes of a base (`counting.shape_of`)."""

    features: int
    dims: tuple[int, ...]
    widths: tuple[int, ...]
    kept: int
    source_rows: int
    fixed: int
    most: int

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Shape:
        return cls(**{**data, "dims": tuple(data["dims"]), "widths": tuple(data["widths"])})

    @property
    def shared_flops(self) -> int:
        spaces = zip(self.dims, self.widths, strict=True)
        return sum(2 * (self.features * d + d * q + d * d) for d, q in spaces) + 2 * self.source_rows * self.kept

    @property
    def squares(self) -> int:
        return sum(d * d for d in self.dims)

    def work(self, counts: Mapping[str, float]) -> np.ndarray:
        """What TERMS are multiplied with; `counts` as `counting.COUNTS`, and `batches`."""
        D, Q, W, m = sum(self.dims), sum(self.widths), self.kept, self.features
        light, own = counts["light"] + counts["again"], counts["own"]
        flops = (light + own) * self.shared_flops + counts["past"] * (4 * D + 2 * Q + 2 * W) + own * 2 * self.squares
        bytes_ = counts["rows"] * 24 * m + light * 8 * (D + Q) + counts["past"] * (16 * D + 8 * Q + 2 * W)
        bytes_ += own * 4 * self.squares
        compared = (light + own) * self.source_rows + counts["past"] if W else 0
        few = [counts[name] for name in ("batches", "rows", "again", "keys", "misses", "own", "calls", "made")]
        return np.array([*few, compared, flops, bytes_])

    def memory_bytes(self, t: np.ndarray | float) -> np.ndarray:
        """A key in memory, its rows all in a checkpoint; with more than `most` labels it has a model of its own."""
        t = np.asarray(t, float)
        D, Q = sum(self.dims), sum(self.widths)
        room = np.minimum(2.0 ** np.ceil(np.log2(np.maximum(t, 8))), self.most)
        record = 8 * (self.fixed + room * (2 + D + Q + self.kept / 4))
        own = 8 * (self.squares + sum(d * q for d, q in zip(self.dims, self.widths, strict=True)) + self.fixed)
        return AROUND + np.where(t > self.most, own, np.ceil(record / PAGE) * PAGE)

    def state_bytes(self, t: np.ndarray | float) -> np.ndarray:
        """On disk, features in single precision; a key with many labels has a snapshot of its model instead."""
        own = self.memory_bytes(self.most + 1.0)
        return np.where(np.asarray(t) > 512, own, HEAD + np.asarray(t) * (4 * self.features + 1))


@dataclass(frozen=True)
class Model:
    """Seconds of each of TERMS on a core of its own; of the feeder a batch, row, byte; of a checkpoint a key, byte."""

    seconds: tuple[float, ...]
    feeder: tuple[float, ...]
    checkpoint: tuple[float, ...]

    def fed(self, rows: float, row_bytes: float) -> float:
        """Seconds of a feeder for a batch."""
        a_batch, a_row, a_byte = self.feeder
        return a_batch + rows * (a_row + a_byte * row_bytes)

    def batch(self, shape: Shape, counts: Mapping[str, float], row_bytes: float) -> float:
        """Seconds of a worker; a byte costs the reader of a pipe what it costs its writer."""
        received = self.feeder[2] * counts["rows"] * row_bytes
        return float(shape.work({"batches": 1, **counts}) @ self.seconds) + received


def least_squares(A: Sequence[Any], seconds: Sequence[float]) -> tuple[float, ...]:
    """Coefficients of at least 0 with the least relative error: a batch of 1 ms counts as much as one of 1 s.

    Equations that fit badly count less, in several rounds: a core that others disturb is slower at times.
    """
    B = np.asarray(A, float) / np.asarray(seconds, float)[:, None]
    size = np.maximum(np.abs(B).max(axis=0), 1e-300)
    weight = np.ones(len(B))
    for _ in range(ROUNDS):
        found = nnls(B / size * weight[:, None], weight)[0] / size
        weight = 1 / np.sqrt(np.maximum(np.abs(B @ found - 1), GOOD))
    return tuple(found.tolist())


def fit(rows: Sequence[Row]) -> Model:
    """To runs of one and two workers; each quarter of a worker's run is an equation."""
    A, seconds, checkpoints, written, feeders, fed = [], [], [], [], [], []
    for row in rows:
        shape = Shape.of(row["shape"])
        total = row["setting"]["rows"] * row["workers"]
        batches = sum(part["batches"] for each in row["each"] for part in each["parts"])
        feeders.append((batches, total, row["moved_bytes"]))
        fed.append(row["feeder"]["seconds"])
        for each in row["each"]:
            for part in each["parts"]:
                A.append(shape.work(part))
                seconds.append(part["seconds"])
            point = each["checkpoint"]
            checkpoints.append((point["keys"], point["rows"] * (4 * shape.features + 1)))
            written.append(point["seconds"])
    return Model(least_squares(A, seconds), least_squares(feeders, fed), least_squares(checkpoints, written))


def medians(rows: Sequence[Row]) -> dict[tuple[str, int], Row]:
    """Of the runs of each setting and number of workers: the medians of what is compared."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["setting"]["name"], row["workers"]), []).append(row)
    return {key: _median(some) for key, some in found.items()}


def _median(rows: list[Row]) -> Row:
    def of(value: Any) -> float:
        return float(np.median([value(row) for row in rows]))

    def seconds(row: Row) -> float:
        return max(sum(part["seconds"] for part in each["parts"]) for each in row["each"])

    total = rows[0]["setting"]["rows"] * rows[0]["workers"]
    each = [worker for row in rows for worker in row["each"]]
    return {
        "setting": rows[0]["setting"],
        "workers": rows[0]["workers"],
        "shape": rows[0]["shape"],
        "runs": len(rows),
        "load": of(lambda row: row["load"]),
        "rows_a_second": of(lambda row: row["rows_a_second"]),
        "rows_a_second_alone": of(lambda row: total / seconds(row)),
        "latency_mean": of(lambda row: row["latency_mean"]),
        "latency_p50": of(lambda row: row["latency_p50"]),
        "latency_p99": of(lambda row: row["latency_p99"]),
        "moved_bytes_a_row": of(lambda row: row["moved_bytes"] / total),
        "batch_seconds": of(lambda row: np.median([worker["median_batch_seconds"] for worker in row["each"]])),
        "constants_bytes": rows[0]["constants"]["bytes"],
        "state_bytes_a_key": float(np.median([w["state"]["bytes"] / w["state"]["keys"] for w in each])),
        "memory_bytes_a_key": float(np.median([w["memory"]["bytes"] / w["memory"]["keys"] for w in each])),
        "share": of(lambda row: np.mean([worker["share"] for worker in row["each"]])),
    }
