"""kill -9 of a process that feeds a fleet, again and again, against a fleet that nobody killed.

python -m fleet.kills --kills 200          (in benchmarks/)
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from hedgerow import Domain
from hedgerow.fleet import Fleet

KEYS, ROWS, FEATURES = 40, 30, 6


def sources():
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(3, FEATURES))
    found = []
    for name in "ab":
        y = rng.integers(0, 3, 60)
        found.append(Domain(name, rng.normal(size=(60, FEATURES)) + centres[y], y))
    return found, centres


def batch(number):
    """The same rows for the same number; some labels are missing, some are of a class that no source has."""
    rng = np.random.default_rng(number)
    y = rng.integers(0, 3, ROWS)
    X = rng.normal(size=(ROWS, FEATURES)) + sources()[1][y]
    labels = [None if rng.random() < 0.1 else 7 if rng.random() < 0.005 else int(k) for k in y]
    return [int(key) for key in rng.integers(0, KEYS, ROWS)], X, labels


def feed(folder, batches):
    """Go on with the batches after the mark; say each number once it is acknowledged."""
    fleet = Fleet.open(folder, memory=2**20)
    for number in range((fleet.mark or 0) + 1, batches + 1):
        fleet.learn(*batch(number), mark=number)
        print(number, flush=True)
    fleet.close()
    print("done", flush=True)


def kill_fleet(folder: Path, kills: int, batches: int, say=print):
    """Kill the feeder until it was killed often enough; then let it end, and compare."""
    began = time.time()
    given, _ = sources()
    for name in ("killed", "whole"):
        Fleet(given, "hedgerow-linear", path=folder / name, memory=2**20).close()
    rng, done, acknowledged = random.Random(0), 0, 0
    while True:
        stop = rng.randrange(1, max(2, 2 * (batches - acknowledged) // max(1, kills - done)))
        with subprocess.Popen(
            [sys.executable, __file__, "--feed", str(folder / "killed"), "--batches", str(batches)],
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            ended = False
            for line in process.stdout:  # to its end: also what was acknowledged before the kill came
                if line.strip() == "done":
                    ended = True
                    continue
                assert int(line) == acknowledged + 1, f"batch {line.strip()} after {acknowledged}"
                acknowledged = int(line)
                stop -= 1
                if stop == 0 and done < kills:
                    time.sleep(rng.random() * 0.02)
                    process.kill()
                    done += 1
        if ended:
            break
        with Fleet.open(folder / "killed", memory=2**20) as fleet:
            assert fleet.mark in (acknowledged, acknowledged + 1), (fleet.mark, acknowledged)
            acknowledged = fleet.mark
    with Fleet.open(folder / "whole", memory=2**28) as whole, Fleet.open(folder / "killed", memory=2**28) as killed:
        for number in range(1, batches + 1):
            whole.learn(*batch(number))
        assert sorted(whole.keys()) == sorted(killed.keys())
        X = batch(0)[1]
        for key in whole.keys():  # noqa: SIM118
            assert whole[key].seen_ == killed[key].seen_, key
            np.testing.assert_allclose(whole[key].predict_proba(X), killed[key].predict_proba(X), atol=1e-8)
    say(
        f"fleet: {done} kills over {batches} batches of {ROWS} rows and {KEYS} keys, every label learned once, "
        f"{time.time() - began:.0f} s"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--feed")
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=200)
    given = parser.parse_args()
    if given.feed:
        feed(given.feed, given.batches)
        return
    with tempfile.TemporaryDirectory() as folder:
        kill_fleet(Path(folder), given.kills, given.batches)


if __name__ == "__main__":
    main()
