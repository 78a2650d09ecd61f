"""A real redis-server with an append-only file, and consumers: both are killed, and everything is learned once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from live.streams import NAMES, assert_same, make, rows, start, state

# a consumer that dies between its commit and its acknowledgement, at the n-th batch
BETWEEN = """
import os, signal, sys
from hedgerow.run import redis_streams
left = int(sys.argv.pop(1))
def acknowledge(self, _acknowledge=redis_streams.RedisFeed._acknowledge):
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    _acknowledge(self)
redis_streams.RedisFeed._acknowledge = acknowledge
from hedgerow.__main__ import main
main()
"""


class Redis:
    """A server of our own, on a free port."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
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
        "run", "-m", folder / "model.safetensors", "-i", redis.url("rows"), "-o", redis.url(f"{name}-out"), "--id",
        "id", "--label", "y", "--journal", folder / name, "--group", name, "--snapshot-every", 300,
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


def kill_redis(folder, kills, n=3000, seed=0, say=print):
    """Kills of the consumer, of the consumer between commit and ack, and of the server, in turn."""
    folder, rng, begun = make(Path(folder), 100), random.Random(seed), time.monotonic()
    redis = Redis(folder / "redis")
    try:
        feed(redis, n)
        total = redis.db.xlen("rows")
        until_drained(folder, "steady", redis, total)
        hits = {"between commit and ack": 0, "consumer": 0, "server": 0}
        while sum(hits.values()) < kills:
            kind = list(hits)[sum(hits.values()) % 3]
            hits[kind] += _hit(kind, folder, redis, rng)
            if drained(redis, "killed", total):
                _compare(folder, redis, n, total)
                _again(folder, redis)
        until_drained(folder, "killed", redis, total)
        _compare(folder, redis, n, total)
    finally:
        redis.stop()
    say(f"redis: {hits}, state bit-equal, every prediction once, {time.monotonic() - begun:.0f} s")
    return hits


def _hit(kind, folder, redis, rng):
    arguments = list(map(str, command(folder, "killed", redis)))
    if kind == "between commit and ack":
        process = subprocess.Popen([sys.executable, "-c", BETWEEN, str(rng.randint(1, 3)), *arguments])
        while process.poll() is None and not _idle(redis):
            time.sleep(0.02)
        process.kill()  # the stream may end before so many batches: that was no hit
        return int(process.wait() == -signal.SIGKILL and not _idle(redis))
    process = start(*arguments)
    before = redis.db.xlen("killed-out")
    while process.poll() is None and redis.db.xlen("killed-out") == before and not _idle(redis):
        time.sleep(0.005)
    time.sleep(rng.random() * 0.1)
    if kind == "server":
        redis.kill()
        time.sleep(0.3)
        redis.start()
        before, until = redis.db.xlen("killed-out"), time.monotonic() + 60
        while redis.db.xlen("killed-out") == before and not _idle(redis):  # the consumer comes back by itself
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until, "the consumer does not come back"
            time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.communicate()
    return 1


def _idle(redis):
    return drained(redis, "killed", redis.db.xlen("rows"))


def _compare(folder, redis, n, total):
    assert redis.db.xlen("rows") == total
    found = answers(redis, "killed")
    assert len(found) == n, f"{len(found)} predictions of {n} rows"
    assert set(found) == {f"r{i}" for i in range(n)}
    assert_same(state(folder / "killed"), state(folder / "steady"))


def _again(folder, redis):
    shutil.rmtree(folder / "killed")
    redis.db.delete("killed-out")
    redis.db.xgroup_destroy("rows", "killed")
