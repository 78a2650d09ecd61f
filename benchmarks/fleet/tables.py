"""A fleet of messy tables: bytes a key and time an event, with light keys, with models of their own, and of numbers.

    python benchmarks/fleet/tables.py [--keys 1000] [--rounds 5] [--methods hedgerow,hedgerow-linear]

All three run side by side, each with batches of 1,000 mixed rows, after 20 labels for every key. "numbers" is a fleet
of rows without gaps of the same width; the tables are given as the numbers that the encoder made of them. Time is that
of the process itself, so that other work on the machine disturbs little. A row a method goes to measured.jsonl, from
which results.py makes RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

from hedgerow import Domain
from hedgerow.fleet import Base, Fleet

HERE = Path(__file__).parent
LABELS, BATCH, CLASSES, ROWS = 20, 1000, 10, 4000


def table(rows, shift, rng):
    """Six numbers (two with gaps), two categories, a date; ten classes."""
    y = rng.integers(0, CLASSES, rows)
    found = {f"x{j}": (y * (j + 1) * 7 % 10) / 3 + shift + rng.normal(size=rows) for j in range(6)}
    for name in ("x0", "x1"):
        found[name] = np.where(rng.random(rows) < 0.1, np.nan, found[name])
    found["city"] = rng.choice(["Oslo", "Bergen", "Bodø", "Tromsø"], rows)
    found["kind"] = np.array(list("abcdefghij"))[(y + rng.integers(0, 3, rows)) % 10]
    found["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8000, rows), unit="h")
    return pd.DataFrame(found), y


def fleets(method):
    """The three fleets by name, the target's rows of each, and their labels."""
    rng = np.random.default_rng(0)
    sources = [table(500, shift, rng) for shift in (0.0, 0.3, 0.6)]
    target, y = table(ROWS, 1.0, rng)
    base = Base.fit([Domain(f"source {i}", X, labels) for i, (X, labels) in enumerate(sources)], method)
    X = base.clf.as_matrix(target)
    plain = [np.nan_to_num(base.clf.as_matrix(X)) for X, _ in sources]
    of_numbers = [Domain(f"source {i}", rows, sources[i][1]) for i, rows in enumerate(plain)]
    numbers = Base.fit(of_numbers, method)
    memory = 16 * 2**30
    with mock.patch("hedgerow.fleet.holder.can_be_light", return_value=False):
        own = Fleet(base, memory=memory, sync="normal")
    made = {"numbers": Fleet(numbers, memory=memory, sync="normal"), "light": Fleet(base, memory=memory, sync="normal")}
    return {**made, "own": own}, {"numbers": np.nan_to_num(X), "light": X, "own": X}, y


def measure(method, keys, rounds):
    """Medians of the time an event, predicted and learned, and bytes a key."""
    made, rows, y = fleets(method)
    rng = np.random.default_rng(1)
    for start in range(0, keys, BATCH // 4):
        some = np.repeat(np.arange(start, min(start + BATCH // 4, keys)), 4)
        for _ in range(LABELS // 4):
            at = rng.integers(0, ROWS, len(some))
            for name, fleet in made.items():
                fleet.learn(some, rows[name][at], y[at])
    times = {name: [] for name in made}
    for _ in range(rounds):
        some, at = rng.integers(0, keys, BATCH), rng.integers(0, ROWS, BATCH)
        for name, fleet in made.items():
            began = time.process_time()
            fleet.predict_then_learn(some, rows[name][at], y[at])
            times[name].append((time.process_time() - began) / BATCH)
    found = {"keys": keys, "features": rows["light"].shape[1], "load": os.getloadavg()[0]}
    for name, fleet in made.items():
        stats = fleet.stats()
        found[name] = {
            "us": 1e6 * float(np.median(times[name])), "bytes": stats["bytes"] / keys, "own": stats["own"],
            "state": len(fleet.to_bytes(0)),
        }  # fmt: skip
        fleet.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--methods", default="hedgerow,hedgerow-linear")
    parser.add_argument("--out", type=Path, default=HERE / "measured.jsonl")
    given = parser.parse_args()
    for method in given.methods.split(","):
        row = {"part": "tables", "method": method, **measure(method, given.keys, given.rounds)}
        print(row, flush=True)
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
