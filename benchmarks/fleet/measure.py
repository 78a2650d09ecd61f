"""A fleet against as many models of their own: bytes a key, time of mixed batches, a million keys in bounded memory.

    make bench-fleet                                   everything, about half an hour
    python benchmarks/fleet/measure.py --only bytes,speed --features 20 --keys 1000

Each part adds a row to benchmarks/fleet/measured.jsonl, from which results.py makes RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.fleet import Base, Fleet

HERE = Path(__file__).parent
METHODS = ("hedgerow", "hedgerow-linear", "oddm")
LABELS, BATCH, CLASSES, SOURCES = 20, 1000, 10, 3


def data(features, rows, seed=0):
    """Three sources of 500 rows and ten classes, and a stream of a shifted target."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, features)) * min(1.0, np.sqrt(60 / features))

    def domain(name, n):
        y = rng.integers(0, CLASSES, n)
        return Domain(name, centres[y] + rng.normal(size=(n, features)) + 0.5 * rng.normal(size=features), y)

    return [domain(f"source {i}", 500) for i in range(SOURCES)], domain("target", rows)


def resident():
    """Bytes that this process holds now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("no VmRSS")


def measure_bytes(features, method):
    """Of a key after 20 labels: its state and what it takes in memory; against a model file of its own."""
    sources, target = data(features, 400)
    own = OnlineTransferClassifier(method).fit_domains(sources)
    base = Base(own)
    own.predict_then_learn(target.X[:LABELS], target.y[:LABELS])
    file = len(own.to_bytes())
    rng, n = np.random.default_rng(0), 200
    with Fleet(base, memory=4 * 2**30) as fleet:
        for _ in range(LABELS):
            rows = rng.integers(0, 400, n)
            fleet.learn(list(range(n)), target.X[rows], target.y[rows])
        state = len(fleet.to_bytes(0))
        held = fleet.stats()["bytes"] / n
    return {"file": file, "state": state, "held": held, "share": state / file, "held_share": held / file}


def measure_speed(features, method, keys, rounds, memory):
    """Mixed batches of 1,000 rows over all keys, predict then learn; models of their own one by one, side by side.

    Models of their own share their constants in memory, and each has learned 20 labels; as many are made as fit.
    """
    sources, target = data(features, 4000)
    own = OnlineTransferClassifier(method).fit_domains(sources)
    base = Base(own)
    rng = np.random.default_rng(0)
    with Fleet(base, memory=memory, sync="normal") as fleet:
        for start in range(0, keys, BATCH):  # 20 labels for every key
            some = list(range(start, min(start + BATCH, keys)))
            for _ in range(LABELS // 4):
                rows = rng.integers(0, 4000, 4 * len(some))
                fleet.learn(np.repeat(some, 4), target.X[rows], target.y[rows])
        models = _models(own, target, rng)
        fleet_times, once_times, own_times = [], [], []
        for _ in range(rounds):
            some, rows = rng.integers(0, keys, BATCH), rng.integers(0, 4000, BATCH)
            X, y = target.X[rows], target.y[rows]
            began = time.perf_counter()
            fleet.predict(some, X)
            fleet.learn(some, X, y)
            fleet_times.append((time.perf_counter() - began) / BATCH)
            again = rng.integers(0, keys, BATCH)
            began = time.perf_counter()
            fleet.predict_then_learn(again, X, y)
            once_times.append((time.perf_counter() - began) / BATCH)
            few = slice(0, min(BATCH, 4 * len(models)))
            began = time.perf_counter()
            for key, x, label in zip(some[few], X[few], y[few], strict=True):
                model = models[key % len(models)]
                model.predict_one(x)
                model.learn_one(x, label)
            own_times.append((time.perf_counter() - began) / len(X[few]))
        stats = fleet.stats()
    a, once, b = (float(np.median(times)) for times in (fleet_times, once_times, own_times))
    return {
        "keys": keys, "fleet_us": 1e6 * a, "once_us": 1e6 * once, "own_us": 1e6 * b, "models": len(models),
        "ratio": b / a, "once_ratio": b / once, "load": os.getloadavg()[0],
        "bytes": stats["bytes"], "misses": stats["misses"] - keys, "limit": memory,
    }  # fmt: skip


def _models(own, target, rng):
    """Models of their own that have learned 20 labels, with shared constants: as many as 1.5 GB hold, at most 1,000."""
    data, constants, found = own.to_bytes(constants=False), own.constants_, []
    before = resident()
    while len(found) < 1000 and resident() - before < 1.5e9:
        model = OnlineTransferClassifier.from_bytes(data, constants=constants)
        rows = rng.integers(0, 4000, LABELS)
        found.append(model.partial_fit(target.X[rows], target.y[rows]))
    return found


def measure_million(keys, memory, features=20, method="hedgerow-linear"):
    """Every key touched once or twice under a limit of memory; what a miss costs, and that nothing is lost."""
    sources, target = data(features, 4000)
    rng, size = np.random.default_rng(0), 2000
    with (
        tempfile.TemporaryDirectory() as folder,
        Fleet(sources, method, path=folder, memory=memory, sync="normal") as fleet,
    ):
        began, before = time.perf_counter(), resident()
        for start in range(0, keys, size):
            some, rows = np.arange(start, min(start + size, keys)), rng.integers(0, 4000, min(size, keys - start))
            fleet.learn(some, target.X[rows], target.y[rows])
        first = (time.perf_counter() - began) / keys
        again = rng.permutation(keys)[: keys // 10]
        began = time.perf_counter()
        for start in range(0, len(again), size):
            some = again[start : start + size]
            rows = rng.integers(0, 4000, len(some))
            fleet.learn(some, target.X[rows], target.y[rows])
        miss = (time.perf_counter() - began) / len(again)
        hot, rows = again[-size:], rng.integers(0, 4000, min(size, len(again)))
        began = time.perf_counter()
        fleet.learn(hot, target.X[rows], target.y[rows])
        hit = (time.perf_counter() - began) / len(hot)
        fleet.flush()
        stats, peak = fleet.stats(), 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expected = keys + len(again) + len(hot)
    assert stats["rows_stored"] == expected, (stats["rows_stored"], expected)
    return {
        "keys": keys, "limit": memory, "first_us": 1e6 * first, "miss_us": 1e6 * miss, "hit_us": 1e6 * hit,
        "rows_stored": stats["rows_stored"], "rows_learned": expected, "peak": peak, "before": before,
        "file": stats["file_bytes"], "bytes": stats["bytes"],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="bytes,speed,million")
    parser.add_argument("--features", default="20,800")
    parser.add_argument("--methods", default="hedgerow,hedgerow-linear,oddm")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", type=float, default=8, help="GB for the keys of the speed part")
    parser.add_argument("--out", type=Path, default=HERE / "measured.jsonl")
    given = parser.parse_args()

    def say(part, **row):
        print(part, row, flush=True)
        with given.out.open("a") as file:
            file.write(json.dumps({"part": part, **row}) + "\n")

    for features in map(int, given.features.split(",")):
        for method in given.methods.split(","):
            if "bytes" in given.only:
                say("bytes", features=features, method=method, **measure_bytes(features, method))
            if "speed" in given.only and method != "oddm":
                found = measure_speed(features, method, given.keys, given.rounds, int(given.memory * 2**30))
                say("speed", features=features, method=method, **found)
    if "million" in given.only:
        say("million", **measure_million(given.million, 2 * 10**9))


if __name__ == "__main__":
    main()
