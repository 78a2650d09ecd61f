"""kill -9 of the driver and of Python workers in mid-batch, in turn; then every label was learned exactly once.

python -m spark.kills --kills 20 --events 1000000        the long version
python -m spark.kills --kills 2 --events 4000            the short one
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from spark import events, processes
from spark.checking import check

HERE = Path(__file__).parent


class Job:
    """The query in a process of its own, and where it stands."""

    def __init__(self, folder: Path, master: str, cached: int = 2000):
        self.folder, self.master, self.cached = folder, master, cached
        self.process = None

    def start(self):
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        words = [sys.executable, "-m", "spark.job", self.folder, "--master", self.master, "--cached", str(self.cached)]
        log = open(self.folder / "log.txt", "ab")  # noqa: SIM115
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)

    def batches(self, what):
        names = (self.folder / "checkpoint" / what).glob("[0-9]*")
        return max((int(path.name) for path in names if path.name.isdigit()), default=-1)

    @property
    def running_batch(self):
        """The number of the batch that was begun and not committed."""
        begun = self.batches("offsets")
        return begun if begun > self.batches("commits") else None

    def kill_driver(self):
        for pid in [*processes.java(self.process.pid), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        time.sleep(1)  # workers see that nobody reads them

    def kill_worker(self):
        found = processes.workers(self.process.pid)
        if not found:
            return False
        os.kill(random.choice(found), signal.SIGKILL)
        return True


def torture(job, kills, files, seed=0):
    """Kill, in turn, the driver and a worker, spread over all batches; what was killed in which batch."""
    random.seed(seed)
    done = []
    places = sorted(random.sample(range(files), kills) if kills <= files else random.choices(range(files), k=kills))
    longest = 2.5  # seconds into a batch; less where batches turn out to be short
    job.start()
    while job.process.poll() is None:
        batch = job.running_batch
        if len(done) < kills and batch is not None and batch >= places[len(done)]:
            time.sleep(random.uniform(0.05, longest))
            if job.running_batch != batch:
                longest = max(0.1, longest / 2)
            elif processes.workers(job.process.pid):
                what = ("driver", "worker")[len(done) % 2]
                if what == "driver":
                    job.kill_driver()
                    done.append({"killed": what, "batch": batch})
                    job.start()
                elif job.kill_worker():
                    done.append({"killed": what, "batch": batch})
        time.sleep(0.05)
    if job.process.returncode:
        raise SystemExit((job.folder / "log.txt").read_text(errors="replace")[-5000:])
    return done


def main(n, keys, files, kills, master, folder):
    made, base = events.make(n, keys, files), events.base()
    (folder / "base").write_bytes(base.to_bytes())
    count = events.write(made, folder)
    began = time.monotonic()
    done = torture(Job(folder, master), kills, count - 1)
    found = {"events": n, "keys": keys, "batches": count, "master": master, "kills": len(done)}
    found |= {"drivers killed": sum(one["killed"] == "driver" for one in done)}
    found |= {"workers killed": sum(one["killed"] == "worker" for one in done)}
    found |= {"seconds": round(time.monotonic() - began), "in batches": [one["batch"] for one in done]}
    return found | check(made, base, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--master", default="local[2,8]")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    where = Path(tempfile.mkdtemp(prefix="spark-kills-"))
    result = main(given.events, given.keys, given.files, given.kills, given.master, where)
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(where)
    sys.exit(0 if result["kills"] == given.kills and result["exact"] else 1)
