"""This checkout against another one, side by side: time of a row in blocks and live, and the mistakes of both.

    python benchmarks/against.py OTHER/src [--methods oddm,hedgerow] [--rounds 3] [--threads 1]

Both sides run the same stream (Office+Caltech, target Amazon; HEDGEROW_DATA) in processes of their own, in turns.
Without `--threads` the BLAS has its default threads. A ratio below one: this checkout is faster.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent.parent / "src"
SETTLED = 60  # rows before the live clock counts


def measure(methods: list[str]) -> dict[str, dict[str, float]]:
    """Microseconds of a row, best of some replays and median of live steps; mistakes of the replay."""
    from hedgerow import OnlineTransferClassifier, load, split

    domains = load("office-caltech")
    warmup, stream = split(domains["amazon"], 0.3, 0)
    sources = [domain for name, domain in domains.items() if name != "amazon"]
    X, y = np.ascontiguousarray(stream.X, dtype=float), stream.y
    found = {}
    for method in methods:
        fitted = OnlineTransferClassifier(method).fit_domains(sources, warmup)
        copy.deepcopy(fitted).predict_then_learn(X[:120], y[:120])
        replays, predictions = [], np.empty(0)
        for _ in range(3):
            clf, began = copy.deepcopy(fitted), time.perf_counter()
            predictions = clf.predict_then_learn(X, y)
            replays.append((time.perf_counter() - began) / len(y))
        clf, steps = copy.deepcopy(fitted), []
        for x, label in zip(X, y, strict=True):
            began = time.perf_counter()
            clf.predict_one(x)
            clf.learn_one(x, label)
            steps.append(time.perf_counter() - began)
        live = 1e6 * np.array(steps[SETTLED:])
        found[method] = {
            "replay": 1e6 * min(replays),
            "live median": float(np.median(live)),
            "live mean": float(live.mean()),
            "mistakes": int((predictions != y).sum()),
        }
    return found


def elsewhere(source: Path, methods: str, threads: int | None) -> dict[str, dict[str, float]]:
    """The same in a process of its own, with the library of that checkout."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    if threads is not None:
        environment |= {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, "--measure", methods, str(source)]
    return dict(json.loads(subprocess.check_output(command, env=environment, text=True).splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the src folder of another checkout")
    parser.add_argument("--methods", default="homotlms,oddm,hedgerow,hedgerow-linear")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure.split(","))))
        return
    runs = [
        [elsewhere(source, given.methods, given.threads) for source in (HERE, given.other.resolve())]
        for _ in range(given.rounds)
    ]
    for method in given.methods.split(","):
        for what in ("replay", "live median", "live mean"):
            ours, theirs = (min(run[side][method][what] for run in runs) for side in (0, 1))
            print(f"{method}, {what}: {ours:.1f} against {theirs:.1f} us a row, ratio {ours / theirs:.2f}")
        same = all(run[0][method]["mistakes"] == run[1][method]["mistakes"] for run in runs)
        verdict = "the same" if same else "NOT the same"
        print(f"{method}: {runs[0][0][method]['mistakes']} mistakes, {verdict} on both sides")


if __name__ == "__main__":
    main()
