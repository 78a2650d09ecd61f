"""A million instances streamed through ODDM in chunks: the memory of the process must not grow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from speed import Row, Size, fitted, row

SIZE = Size("stream", m=64, K=10, d=16, n=3, every=50, stream=10_000)
TOTAL, FIRST, CHUNK = 1_000_000, 10_000, 5_000


def measure() -> Iterator[Row]:
    """Resident memory after the first 10,000 instances against the largest afterwards."""
    clf, X, y = fitted(SIZE)
    rng = np.random.default_rng(1)
    began = time.perf_counter()
    seen, resident = [], []
    for done in range(0, TOTAL, CHUNK):
        at = rng.integers(0, len(X), CHUNK)
        clf.predict_then_learn(X[at], y[at])
        if done + CHUNK >= FIRST:
            seen.append(done + CHUNK)
            resident.append(resident_bytes() / 2**20)
    seconds = time.perf_counter() - began
    yield row(
        f"resident memory over {TOTAL:,} instances through ODDM",
        f"after the first {FIRST:,} within 2 %",
        [("growth", "<=", 0.02)],
        {"an instance": seconds / TOTAL},
        unit="of the start",
        growth=max(abs(value / resident[0] - 1) for value in resident),
        curve={
            "x": seen[:: len(seen) // 50],
            "y": resident[:: len(seen) // 50],
            "x_label": "instances",
            "y_label": "resident MiB",
            "name": "ODDM",
            "log": False,
        },
    )


def resident_bytes() -> int:
    """What the process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
