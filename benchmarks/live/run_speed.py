"""`hedgerow run` on files with labels, beside the library's own `predict_then_learn` on the same rows, every method.

    python benchmarks/live/run_speed.py [--rows 200000] [--methods pa,oddm]

CSV and Parquet, 20 features; without a journal and with one. Rows a second of the run (reading, predicting, learning,
writing JSON lines), divided by those of the library on arrays in memory, in the same process, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from hedgerow import METHODS, Domain, OnlineTransferClassifier
from hedgerow.run.job import Job
from hedgerow.run.loop import run

NAMES = [f"f{i}" for i in range(20)]
GOAL = 0.5


def task(n):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 20)) * 1.2

    def domain(name, size, shift):
        y = rng.integers(0, 5, size)
        return Domain(name, (centres[y] + rng.normal(size=(size, 20)) + shift).round(5), y, feature_names=NAMES)

    return [domain("a", 400, 0.0), domain("b", 400, 0.3)], domain("u", 200, 0.6).unlabelled(), domain("s", n, 0.6)


def write(folder, stream):
    import pyarrow as pa
    from pyarrow import csv, parquet

    table = pa.table({**{name: stream.X[:, i] for i, name in enumerate(NAMES)}, "y": stream.y})
    csv.write_csv(table, folder / "s.csv", csv.WriteOptions(quoting_style="none"))
    parquet.write_table(table, folder / "s.parquet")


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(method, rows, folder, sources, warmup, stream):
    n = min(len(stream), rows.get(method, len(stream)))
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    clf.save(folder / "m.safetensors")
    part = Domain("s", stream.X[:n], stream.y[:n], feature_names=NAMES)
    write(folder, part)
    OnlineTransferClassifier.load(folder / "m.safetensors").predict_then_learn(part.X[:500], part.y[:500])
    found = {"method": method, "rows": n, "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    jobs = {"csv": ("s.csv", None), "parquet": ("s.parquet", None), "csv, journal": ("s.csv", folder / "journal")}
    times = {name: [] for name in ("library", *jobs)}
    for _ in range(3):
        own = OnlineTransferClassifier.load(folder / "m.safetensors")
        times["library"].append(seconds(lambda own=own: own.predict_then_learn(part.X, part.y)))
        for name, (file, journal) in jobs.items():
            shutil.rmtree(folder / "journal", ignore_errors=True)
            (folder / "p.jsonl").unlink(missing_ok=True)
            job = Job(folder / "m.safetensors", str(folder / file), str(folder / "p.jsonl"), "y", journal=journal)
            times[name].append(seconds(lambda job=job: run(job, lambda _: None, lambda _: None)))
            last = json.loads((folder / "p.jsonl").read_bytes().splitlines()[-1])
            assert last["row"] == n
    rate = {name: n / min(each) for name, each in times.items()}
    return {**found, "library rows/s": rate["library"], **{name: rate[name] / rate["library"] for name in jobs}}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sources, warmup, stream = task(given.rows)
    slow = {"hedgerow": given.rows // 10, "hedgerow-linear": given.rows // 4}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for method in given.methods.split(","):
            row = measure(method, slow, Path(folder), sources, warmup, stream)
            found.append(row)
            print(
                "  ".join(f"{k} {v:,.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True
            )
    short = [f"{r['method']} {r['csv']:.2f}" for r in found if r["csv"] < GOAL]
    print(
        f"goal {GOAL} for CSV without a journal: " + ("reached by all" if not short else "short: " + ", ".join(short))
    )
    if given.out is not None:
        before = json.loads(given.out.read_text()) if given.out.exists() else []
        newest = {row["method"]: row for row in [*before, *found]}  # of the methods that were not asked for, as it was
        given.out.write_text(json.dumps(list(newest.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
