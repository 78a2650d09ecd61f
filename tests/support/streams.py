"""Files to run on (two sources, unlabelled rows, a stream with ids), a real Redis, and what a run must come to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

COMMAND = [sys.executable, "-m", "hedgerow"]
NAMES = [f"f{i}" for i in range(8)]


def rows(seed, n, shift, K=4):
    centres = np.random.default_rng(42).normal(size=(K, len(NAMES))) * 1.5
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return (centres[y] + rng.normal(size=(n, len(NAMES))) + shift).round(6), [f"c{k}" for k in y]


def small_model(method="oddm"):
    """Fitted in this process, on the same sources as the files have."""
    from hedgerow import OnlineTransferClassifier

    (A, a), (B, b), (U, _) = rows(1, 60, 0.0), rows(2, 60, 0.4), rows(3, 40, 0.8)
    X = np.concatenate([A, B, U])
    y = [*a, *b, *["c0"] * 40]
    return OnlineTransferClassifier(method).fit(
        X, y, sample_domain=np.repeat([0, 1, -1], [60, 60, 40])
    )


def write_csv(path, X, y=None, ids=False):
    header = [*(["id"] if ids else []), *NAMES, *(["y"] if y is not None else [])]
    with path.open("w") as file:
        file.write(",".join(header) + "\n")
        for i, x in enumerate(X.tolist()):
            cells = [*([f"r{i}"] if ids else []), *map(repr, x), *([y[i]] if y is not None else [])]
            file.write(",".join(cells) + "\n")


def make(folder, n=20_000, method="oddm"):
    """Files and a fitted model; returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "a.csv", *rows(1, 200, 0.0))
    write_csv(folder / "b.csv", *rows(2, 200, 0.4))
    write_csv(folder / "u.csv", rows(3, 100, 0.8)[0])
    X, y = rows(4, n, 0.8)
    write_csv(folder / "stream.csv", X, y, ids=True)
    write_csv(folder / "unlabelled.csv", X, ids=True)
    order = np.argsort(
        np.arange(n) + np.random.default_rng(5).integers(0, 300, n), kind="stable"
    )  # late, out of order
    with (folder / "labels.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"r{i}", "y": y[i]}) + "\n" for i in order)
    done = hedgerow(
        "fit", "--source", folder / "a.csv", "--source", folder / "b.csv", "--label", "y", "--unlabelled",
        folder / "u.csv", "--method", method, "-o", folder / "model.safetensors",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def hedgerow(*arguments, **extra):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=600, **extra
    )


def start(*arguments):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def state(journal):
    """The arrays of a live model, after recovery, and what it counted."""
    from hedgerow.live import LiveModel

    copied = journal.with_name(journal.name + "-looked-at")
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(journal, copied)
    try:
        with LiveModel.open(copied) as live:
            arrays = live.clf.learner_.arrays()
            stats = live.stats()
    finally:
        shutil.rmtree(copied, ignore_errors=True)
    return arrays, {
        name: stats[name] for name in ("events", "labels", "mistakes", "expired", "pending")
    }


def assert_same(one, other):
    """Bit-equal states, equal counts."""
    assert one[1] == other[1], (one[1], other[1])
    assert_same_arrays(one[0], other[0])


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert np.array_equal(array, other[name]), f"{name} differs"


# -- Redis ---------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Redis:
    """A server of our own with an append-only file, on a free port."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.start()

    def start(self):
        import redis

        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--appendonly",
             "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.db = redis.Redis("127.0.0.1", self.port)
        for _ in range(200):
            try:
                self.db.ping()
                return
            except (redis.ConnectionError, redis.BusyLoadingError):
                time.sleep(0.05)
        raise RuntimeError("redis-server does not start")

    def url(self, stream):
        return f"redis://127.0.0.1:{self.port}/{stream}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.db.close()
        self.process.terminate()
        self.process.wait()


def feed(redis, n, stream="rows"):
    """Rows, two thirds of them with their labels, the others' labels later; every id once."""
    X, y = rows(4, n, 0.8)
    pipe = redis.db.pipeline(transaction=False)
    for i, x in enumerate(X.tolist()):
        row = {"id": f"r{i}", **dict(zip(NAMES, map(repr, x), strict=True))}
        pipe.xadd(stream, row if i % 3 == 0 else {**row, "y": y[i]})
        if i >= 30 and i % 3 == 0:
            pipe.xadd(stream, {"id": f"r{i - 30}", "y": y[i - 30]})
    pipe.execute()
    return n


def command(folder, name, redis):
    return [
        "run", "-m", folder / "model.safetensors", "-i", f"{redis.url('rows')}?group={name}", "-o",
        redis.url(f"{name}-out"), "--id", "id", "--label", "y", "--journal", folder / name, "--setting",
        "snapshot_every=300",
    ]  # fmt: skip


def drained(redis, group, total):
    """Whether a group was given all and acknowledged all; a server that was killed may not know how many it read."""
    if not redis.db.exists("rows") or redis.db.xlen("rows") != total:
        return False
    [(last, _)] = redis.db.xrevrange("rows", count=1)
    mine = [g for g in redis.db.xinfo_groups("rows") if g["name"] == group.encode()]
    return bool(mine) and mine[0]["pending"] == 0 and mine[0]["last-delivered-id"] == last


def until_drained(folder, name, redis, total):
    """Run until everything is acknowledged, then SIGTERM, which must end in 0."""
    process = start(*command(folder, name, redis))
    until = time.monotonic() + 300
    while not drained(redis, name, total):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until, "it does not come to the end"
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def answers(redis, name):
    return [json.loads(fields[b"json"])["id"] for _, fields in redis.db.xrange(f"{name}-out")]
