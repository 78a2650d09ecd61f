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


def kills(count, folder, say):
    from live.kill_serve import kill_serve
    from live.kills import kill_run

    kill_run(folder / "run", count["run"], say=say)
    kill_run(folder / "late", count["late"], late=True, say=say)
    kill_serve(folder / "serve", count["serve"], n=max(300, 15 * count["serve"]), say=say)


def redis(count, folder, say):
    from live.redis_kills import kill_redis

    kill_redis(folder / "redis", count["redis"], say=say)


def faults(count, folder, say):
    from live.faults import all_damage, failing_disk, full_disk

    all_damage(folder, count["damage"], say=say)
    if full_disk(folder, say=say) is None:
        say("full disk: not tried, mounting a tmpfs needs the superuser")
    if failing_disk(folder, say=say) is None:
        say("failing disk: not tried, there is no gcc")


def fuzz(count, folder, say):
    say("model files: " + _script("fuzz_models.py", "--files", count["models"], "--kinds", "mutated"))
    say("senseless requests: " + _script("live/fuzz_http.py", "--examples", count["http"]))


def soak(count, folder, say):
    from live.soak import soak as run

    growth, _, _ = run(count["soak"], say=say)
    assert growth < 0.05, f"memory grew by {growth:.1%}"


def _script(name, *arguments):
    """The last line that a script prints; an error of it is one of ours."""
    done = subprocess.run(
        [sys.executable, str(HERE / name), *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip().splitlines()[-1]


PARTS = {"kills": kills, "redis": redis, "faults": faults, "fuzz": fuzz, "soak": soak}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the numbers that the tests use")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, joined by commas")
    parser.add_argument("--out", type=Path, help="a file to which every line is added")
    given = parser.parse_args()

    def say(text):
        print(text, flush=True)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(text + "\n")

    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](SHORT if given.short else LONG, Path(folder), say)


if __name__ == "__main__":
    main()
