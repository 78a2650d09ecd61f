"""Everything that may go wrong, on purpose: kills, broken files, full disks, mutated models, senseless requests.

    make torture                        the long version, about an hour
    python benchmarks/torture.py --short --only kills,faults

Each part says what it did in a line, or ends with an error. The short version of each is among the tests.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

LONG = {
    "run": 120,
    "late": 60,
    "serve": 40,
    "redis": 30,
    "damage": 5000,
    "models": 100_000,
    "http": 250,
    "soak": 1_000_000,
}
SHORT = {"run": 8, "late": 6, "serve": 6, "redis": 3, "damage": 40, "models": 500, "http": 20, "soak": 30_000}


def kills(count, folder):
    from live.kill_serve import kill_serve
    from live.kills import kill_run

    kill_run(folder / "run", count["run"])
    kill_run(folder / "late", count["late"], late=True)
    kill_serve(folder / "serve", count["serve"], n=max(300, 15 * count["serve"]))


def redis(count, folder):
    from live.redis_kills import kill_redis

    kill_redis(folder / "redis", count["redis"])


def faults(count, folder):
    from live.faults import all_damage, failing_disk, full_disk

    all_damage(folder, count["damage"])
    if full_disk(folder) is None:
        print("full disk: not tried, mounting a tmpfs needs the superuser")
    if failing_disk(folder) is None:
        print("failing disk: not tried, there is no gcc")


def fuzz(count, folder):
    _script("fuzz_models.py", "--files", count["models"])
    _script("live/fuzz_http.py", "--examples", count["http"])


def soak(count, folder):
    from live.soak import soak as run

    growth, _, _ = run(count["soak"])
    assert growth < 0.05, f"memory grew by {growth:.1%}"


def _script(name, *arguments):
    subprocess.run([sys.executable, str(HERE / name), *map(str, arguments)], check=True)


PARTS = {"kills": kills, "redis": redis, "faults": faults, "fuzz": fuzz, "soak": soak}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the numbers that the tests use")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, joined by commas")
    given = parser.parse_args()
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](SHORT if given.short else LONG, Path(folder))


if __name__ == "__main__":
    main()
