"""kill -9 of Spark's driver and of Python workers in mid-batch, in turn; then every label was learned exactly once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter

import numpy as np
import pytest
from torture.harness import size

from bench import spark
from bench.measure import child, spawn

STEP_BY_STEP = 50  # keys whose rows are learned one by one too


def test_kills_of_driver_and_workers_lose_and_double_nothing(tmp_path, note):
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("no Java: apt-get install openjdk-17-jre-headless")
    n, keys, files, kills = size((3000, 60, 5, 2), (1_000_000, 10_000, 20, 20))
    events = spark.make(n, keys, files)
    batches = spark.write(events, tmp_path)
    killed = torture(Job(tmp_path), kills, batches - 1)
    assert killed == {"driver": kills - kills // 2, "worker": kills // 2}
    results = child(read_results, tmp_path)
    learned, answers, counts = spark.plain_loop(events)
    assert results["predictions"] == results["predicted ids"] == n
    assert results["dead letters"] == 0
    assert results["statuses"] == {**counts, "new": n}
    told = {int(id[1:]): label for id, label in results["learned"]}
    assert len(results["learned"]) == len(told), "a label was learned twice"
    assert told == answers
    states = {int(key[1:]): bytes.fromhex(state) for key, state in results["states"].items()}
    assert states == {key: state(events, places, answers, 1) for key, places in learned.items()}
    for key in sorted(learned)[:: max(1, len(learned) // STEP_BY_STEP)]:
        assert states[key] == state(events, learned[key], answers, len(learned[key])), key
    note(events=n, keys=keys, batches=batches, labels=len(told), **killed)


BASE = spark.base()


def state(events, places, answers, parts):
    """The bytes of a key that learns these events in so many parts; of one that learns nothing Spark has no bytes."""
    if not places:
        return b""
    member = BASE.member()
    y = np.array([answers[place] for place in places])
    for part in np.array_split(np.arange(len(y)), parts):
        member.learn(events.X[places][part], y[part])
    return member.to_bytes()


def read_results(folder):
    """What the query left, read by Spark."""
    from hedgerow.spark import session, states_of

    session_ = session("local[2]", config=spark.CONFIG)
    session_.read.parquet(f"{folder}/out").createOrReplaceTempView("results")

    def rows(query):
        return [list(row) for row in session_.sql(query).collect()]

    predicted = "FROM results WHERE kind = 'prediction'"
    found = {
        "predictions": rows(f"SELECT count(*) {predicted}")[0][0],
        "predicted ids": rows(f"SELECT count(DISTINCT id) {predicted}")[0][0],
        "dead letters": rows("SELECT count(*) FROM results WHERE kind = 'dead letter'")[0][0],
        "statuses": dict(
            rows("SELECT status, count(*) FROM results WHERE status IS NOT NULL GROUP BY 1")
        ),
        "learned": rows("SELECT id, label FROM results WHERE status = 'learned'"),
        "states": {
            row.key: bytes(row.state).hex()
            for row in states_of(session_, f"{folder}/checkpoint", BASE).collect()
        },
    }
    session_.stop()
    return found


class Job:
    """The query in a process of its own, and where it stands."""

    def __init__(self, folder):
        self.folder = folder

    def start(self):
        with (self.folder / "log.txt").open("a") as log:
            env = {"OMP_NUM_THREADS": "1"}
            self.process = spawn(
                spark.job, self.folder, "local[2,8]", env=env, stdout=log, stderr=log
            )

    @property
    def running_batch(self):
        """The number of the batch that was begun and not committed."""
        begun, committed = (
            max(
                (
                    int(p.name)
                    for p in (self.folder / "checkpoint" / what).glob("[0-9]*")
                    if p.name.isdigit()
                ),
                default=-1,
            )
            for what in ("offsets", "commits")
        )
        return begun if begun > committed else None

    def workers(self):
        """Python workers, not the daemon that forks them."""
        tree = spark.processes(self.process.pid)
        daemons = {pid for pid, (_, command) in tree.items() if "pyspark.daemon" in command}
        return [pid for pid in daemons if tree[pid][0] in daemons]

    def kill_driver(self):
        tree = spark.processes(self.process.pid)
        java = [
            pid
            for pid, (_, command) in tree.items()
            if "org.apache.spark.deploy.SparkSubmit" in command
        ]
        for pid in [*java, self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        time.sleep(1)  # workers see that nobody reads them


def torture(job, kills, files):
    """Kill the driver and a worker in turn, spread over all batches; how often each."""
    rng = random.Random(0)
    killed = Counter()
    places = sorted(
        rng.sample(range(files), kills) if kills <= files else rng.choices(range(files), k=kills)
    )
    longest = 2.5  # seconds into a batch; less where batches turn out to be short
    job.start()
    while job.process.poll() is None:
        batch = job.running_batch
        done = killed.total()
        if done < kills and batch is not None and batch >= places[done]:
            spare = files - batch > kills - done  # whether later batches would do
            time.sleep(rng.uniform(0.05, longest if spare else 0.1))
            workers = job.workers()
            if job.running_batch != batch:
                longest = max(0.1, longest / 2)
            elif workers and done % 2 == 0:
                job.kill_driver()
                killed["driver"] += 1
                job.start()
            elif workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
                killed["worker"] += 1
        time.sleep(0.05)
    assert job.process.returncode == 0, (job.folder / "log.txt").read_text(errors="replace")[-5000:]
    return killed
