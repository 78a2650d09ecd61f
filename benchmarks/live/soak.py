"""A million events through one live model: memory stays, the journal is bounded by its retention.

    python benchmarks/live/soak.py [--events 1000000] [--method oddm]

Blocks with their labels, single predictions and late labels in turn.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from hedgerow.live import LiveModel, Settings
from live.faults import small_model
from live.streams import rows

FIRST = 10_000
SETTINGS = Settings(snapshot_every=2000, keep_events=5000, max_pending=1000)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def soak(events, method="oddm", say=print):
    """How much memory and journal grew after the first events, as shares."""
    X, y = rows(4, 4096, 0.8)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveModel.create(Path(folder) / "a", small_model(method), SETTINGS) as live,
    ):
        done, at_first, largest = 0, None, 0
        while done < events:
            start = done % 3800
            live.predict_then_learn(X[start : start + 240], y[start : start + 240])
            for i in range(start + 240, start + 256):
                live.predict(X[i], id=f"e{done + i}")
                if i % 2:
                    live.label(f"e{done + i}", y[i])
            done += 256
            if at_first is None and done >= FIRST:
                at_first = (resident(), live.stats()["journal"]["bytes"])
            if done >= FIRST:
                largest = max(largest, live.stats()["journal"]["bytes"] if done % 25600 == 0 else 0)
        memory, stats = resident(), live.stats()
    growth, journal = memory / at_first[0] - 1, max(largest, stats["journal"]["bytes"])
    say(
        f"soak: {done} events in {time.monotonic() - began:.0f} s; memory {at_first[0] / 1e6:.0f} MB after {FIRST}, "
        f"{growth:+.1%} at the end; journal at most {journal / 1e6:.1f} MB ({at_first[1] / 1e6:.1f} MB after {FIRST}), "
        f"{stats['journal']['events_kept']} events kept, {stats['pending']} waiting, {stats['given_up']} given up"
    )
    return growth, journal, at_first[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--method", default="oddm")
    given = parser.parse_args()
    soak(given.events, given.method)
