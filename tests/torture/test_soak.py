"""A million events through one live model: memory stays, the journal is bounded by its retention."""

from __future__ import annotations

import os
from pathlib import Path

from support.streams import rows, small_model
from torture.harness import size

from hedgerow.live import LiveModel, Settings

FIRST = 10_000
SETTINGS = Settings(snapshot_every=2000, keep_events=5000, max_pending=1000)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_memory_and_journal_do_not_grow(tmp_path, note):
    """Blocks with their labels, single predictions and late labels in turn."""
    events = size(40_000, 1_000_000)
    (X, y) = rows(4, 4096, 0.8)
    with LiveModel.create(tmp_path / "live", small_model(), SETTINGS) as live:
        done = 0
        memory = 0
        journal = 0
        largest = 0
        while done < events:
            start = done % 3800
            live.predict_then_learn(X[start : start + 240], y[start : start + 240])
            for i in range(start + 240, start + 256):
                live.predict(X[i], ids=f"e{done + i}")
                if i % 2:
                    live.label(f"e{done + i}", y[i])
            done += 256
            if not memory and done >= FIRST:
                memory = resident()
                journal = live.stats()["journal"]["bytes"]
            if done >= FIRST and done % 25600 == 0:
                largest = max(largest, live.stats()["journal"]["bytes"])
        growth = resident() / memory - 1
        stats = live.stats()
    largest = max(largest, stats["journal"]["bytes"])
    assert growth < 0.05
    assert largest < 1.5 * journal
    note(
        events=done, growth=round(growth, 4), journal_mb=round(largest / 1e6, 1), kept=stats["journal"]["events_kept"],
        waiting=stats["pending"], expired=stats["expired"],
    )  # fmt: skip
