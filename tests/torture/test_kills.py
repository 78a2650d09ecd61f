"""kill -9 at random moments, of runs, services, fleets and Redis: every label is learned, once; the state is that of a
twin that nothing interrupted, to the last bit."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from support import streams
from support.streams import (
    answers,
    assert_same,
    assert_same_arrays,
    drained,
    feed,
    small_model,
    state,
    until_drained,
)
from torture.harness import Service, size

from bench.measure import spawn
from hedgerow import Domain
from hedgerow.client import Client, ServiceError
from hedgerow.fleet import Fleet
from hedgerow.live import LiveModel, Settings
from hedgerow.live.journal import Snapshots, Steps

# -- hedgerow run ----------------------------------------------------------------------------------------------------


def run_command(folder, name, late):
    labels = ["-i", folder / "unlabelled.csv", "--labels", folder / "labels.jsonl"] if late else [
        "-i", folder / "stream.csv", "--label", "y"
    ]  # fmt: skip
    return [
        "run", "-m", folder / "model.safetensors", *labels, "--id", "id", "-o", folder / f"{name}.jsonl", "--journal",
        folder / name, "--setting", "snapshot_every=700",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("late", "kills"), [(False, size(8, 120)), (True, size(6, 60))], ids=["labels", "late labels"]
)
def test_a_killed_run_goes_on_as_if_nothing_had_been(tmp_path, late, kills, note):
    n = size(8000, 20_000)
    folder = streams.make(tmp_path, n)
    done = streams.hedgerow(*run_command(folder, "steady", late))
    assert done.returncode == 0, done.stderr
    rng = random.Random(0)
    hits = 0
    rounds = 1
    journal = folder / "killed"
    while hits < kills:
        process = streams.start(*run_command(folder, "killed", late))
        before = _written(journal)
        until = time.monotonic() + 60
        while process.poll() is None and _written(journal) == before and time.monotonic() < until:
            time.sleep(0.002)  # until it has come to work
        time.sleep(rng.random() * 0.12)
        if process.poll() is None:
            process.kill()
            hits += 1
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        if process.returncode == 0:  # it came to its end: begin again, with another journal
            _compare_runs(folder, n)
            rounds += 1
            shutil.rmtree(journal)
            (folder / "killed.jsonl").unlink()
    done = streams.hedgerow(*run_command(folder, "killed", late))
    assert done.returncode == 0, done.stderr
    _compare_runs(folder, n)
    note(kills=hits, streams=rounds, rows=n)


def _compare_runs(folder, n):
    assert_same(state(folder / "killed"), state(folder / "steady"))
    steady, killed = ((folder / f"{name}.jsonl").read_text() for name in ("steady", "killed"))
    assert steady == killed, "the outputs differ"
    assert [json.loads(line)["id"] for line in killed.splitlines()] == [f"r{i}" for i in range(n)]


def _written(journal):
    try:
        return [(journal / name).stat().st_mtime_ns for name in ("journal.sqlite-wal", "head")]
    except FileNotFoundError:
        return None


# -- hedgerow serve --------------------------------------------------------------------------------------------------

SETTINGS = Settings(snapshot_every=150, keep_events=10**6)
LATER = 5  # instances between a prediction and its label


def test_a_killed_service_loses_no_label_and_learns_none_twice(tmp_path, note):
    """One client, whose events have one order: bit-equal to a model that nothing interrupted. Then four at once."""
    kills = size(6, 40)
    n = size(300, 600)
    rng = random.Random(0)
    clf = small_model()
    X, y = streams.rows(4, 4 * n, 0.8)
    site = tmp_path / "models" / "site"
    LiveModel.create(site, clf, SETTINGS).close()
    with LiveModel.create(tmp_path / "steady", clf, SETTINGS) as steady:
        for i in range(n + LATER):
            if i < n:
                steady.predict(X[i], ids=f"r{i}")
            if i >= LATER:
                steady.label(f"r{i - LATER}", y[i - LATER])
    _serve_with_kills(tmp_path, [(0, n)], X, y, kills // 2, rng)
    assert_same(state(site), state(tmp_path / "steady"))
    spans = [(n + k * (n // 2), n + (k + 1) * (n // 2)) for k in range(4)]
    _serve_with_kills(tmp_path, spans, X, y, kills - kills // 2, rng)
    with LiveModel.open(
        site
    ) as live:  # whatever order the clients had: that of the journal, from the first model on
        assert live.stats()["labels"] == live.clf.seen_ == 3 * n, (
            live.stats()["labels"],
            live.clf.seen_,
        )
        steps = Steps(type(clf).from_bytes(clf.to_bytes()))
        steps.repeat(live._journal, 0)
        assert_same_arrays(live.clf.learner_.arrays(), steps.clf.learner_.arrays())
    assert Snapshots(site).newest_number > 0
    note(kills=kills, events=3 * n)


def _serve_with_kills(folder, spans, X, y, kills, rng):
    service = Service(folder / "models", folder / "log").ready()
    progress = [0]
    failed = []

    def client(span):
        try:
            _insist(service.url, X, y, *span, progress)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=client, args=(span,)) for span in spans]
    for thread in threads:
        thread.start()
    total = sum(last - first + LATER for first, last in spans)
    hits = 0
    while any(thread.is_alive() for thread in threads):
        goal = (hits + rng.random()) * total / (kills + 1)
        while progress[0] < goal and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
        if hits < kills and any(thread.is_alive() for thread in threads):
            time.sleep(rng.random() * 0.02)
            service.kill()
            hits += 1
            service.start()
            service.ready()
        else:
            time.sleep(0.01)
    assert not failed, failed[0]
    service.stop()
    assert hits == kills, f"{hits} of {kills} kills hit"


def _insist(url, X, y, first, last, progress):
    """Each instance, and its label some instances later; both again until they were acknowledged."""
    with Client(url, tries=1, timeout=10) as client:
        site = client.model("site")

        def until_told(call):
            while True:
                try:
                    return call()
                except ServiceError as error:
                    if error.status not in (0, 429, 502, 503, 504):
                        raise
                    time.sleep(0.02)

        for i in range(first, last + LATER):
            if i < last:
                until_told(lambda i=i: site.predict([X[i].tolist()], ids=[f"r{i}"]))
            if i - LATER >= first:
                result = until_told(lambda i=i: site.label(f"r{i - LATER}", y[i - LATER]))
                assert result.status in ("learned", "duplicate"), result
            progress[0] += 1


# -- a fleet ---------------------------------------------------------------------------------------------------------

KEYS = 40
ROWS = 30
FEATURES = 6
CENTRES = 2 * np.random.default_rng(0).normal(size=(3, FEATURES))


def batch(number):
    """The same rows for the same number; some labels are missing, some are of a class that no source has."""
    rng = np.random.default_rng(number)
    y = rng.integers(0, 3, ROWS)
    labels = [None if rng.random() < 0.1 else 7 if rng.random() < 0.005 else int(k) for k in y]
    return (
        [int(key) for key in rng.integers(0, KEYS, ROWS)],
        rng.normal(size=(ROWS, FEATURES)) + CENTRES[y],
        labels,
    )


def feed_batch(fleet, number):
    """A batch with its mark; then rows that wait for their labels, and labels of those that waited before."""
    if (fleet.mark or 0) < number:
        fleet.learn(*batch(number), mark=number)
    keys, X, _ = batch(number)
    fleet.predict(keys[:5], X[:5], [f"{number} {i}" for i in range(5)])
    if number > 1:
        keys, _, y = batch(number - 1)
        labels = [(keys[i], f"{number - 1} {i}", y[i]) for i in range(4) if y[i] is not None]
        statuses = {result.status for result in fleet.label_many(labels)}
        assert statuses <= {"learned", "duplicate"}, statuses


def feed_fleet(folder, batches):
    """Go on with the batch of the mark, which may be half done; print each number once it is acknowledged."""
    with Fleet.open(folder, memory=2**20) as fleet:
        mark = fleet.mark or 0
        for number in range(max(mark, 1), batches + 1):
            feed_batch(fleet, number)
            if number > mark:
                print(number, flush=True)
    return "done"


def test_a_killed_fleet_learns_every_label_once(tmp_path, note):
    kills, batches = size((6, 60), (200, 2000))
    rng = np.random.default_rng(0)
    sources = []
    for name in "ab":
        y = rng.integers(0, 3, 60)
        sources.append(Domain(name, rng.normal(size=(60, FEATURES)) + CENTRES[y], y))
    for name in ("killed", "whole"):
        Fleet(sources, "hedgerow-linear", path=tmp_path / name, memory=2**20).close()
    rng = random.Random(0)
    hits = 0
    acknowledged = 0
    ended = False
    while not ended:
        stop = rng.randrange(1, max(2, 2 * (batches - acknowledged) // (kills - hits + 1)))
        with spawn(feed_fleet, tmp_path / "killed", batches, stdout=subprocess.PIPE) as process:
            for (
                line
            ) in process.stdout:  # to its end: also what was acknowledged before the kill came
                if ended := line.strip() == '"done"':
                    break
                assert int(line) == acknowledged + 1, f"batch {line.strip()} after {acknowledged}"
                acknowledged = int(line)
                stop = stop - 1
                if stop == 0 and hits < kills:
                    time.sleep(rng.random() * 0.02)
                    process.kill()
                    hits += 1
        assert process.returncode in (0, -signal.SIGKILL)
        if not ended:
            with Fleet.open(tmp_path / "killed", memory=2**20) as fleet:
                assert fleet.mark in (acknowledged, acknowledged + 1), (fleet.mark, acknowledged)
                acknowledged = fleet.mark
    assert hits == kills
    with (
        Fleet.open(tmp_path / "whole", memory=2**28) as whole,
        Fleet.open(tmp_path / "killed", memory=2**28) as killed,
    ):
        for number in range(1, batches + 1):
            feed_batch(whole, number)
        assert whole.stats()["pending"] == killed.stats()["pending"]
        assert sorted(whole.keys()) == sorted(killed.keys())
        X = batch(0)[1]
        for key in whole.keys():  # noqa: SIM118
            assert whole[key].seen_ == killed[key].seen_, key
            np.testing.assert_allclose(
                whole[key].predict_proba(X), killed[key].predict_proba(X), atol=1e-8
            )
    note(kills=hits, batches=batches, keys=KEYS)


# -- Redis: the consumer, the consumer between commit and acknowledgement, and the server, in turn -------------------

BETWEEN = """
import os, signal, sys
from hedgerow.run import brokers
left = int(sys.argv.pop(1))
def acknowledge(self, _acknowledge=brokers.RedisSource._acknowledge):
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    _acknowledge(self)
brokers.RedisSource._acknowledge = acknowledge
from hedgerow.__main__ import main
main()
"""


def test_kills_of_consumer_and_redis_lose_and_double_nothing(tmp_path, note):
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: apt-get install redis-server")
    kills = size(3, 30)
    n = size(1200, 3000)
    rng = random.Random(0)
    folder = streams.make(tmp_path, 100)
    redis = streams.Redis(folder / "redis")
    try:
        feed(redis, n)
        total = redis.db.xlen("rows")
        until_drained(folder, "steady", redis, total)
        hits = {"between commit and ack": 0, "consumer": 0, "server": 0}
        while sum(hits.values()) < kills:
            kind = list(hits)[sum(hits.values()) % 3]
            hits[kind] += _hit(kind, folder, redis, rng)
            if drained(redis, "killed", total):
                _compare_redis(folder, redis, n, total)
                shutil.rmtree(folder / "killed")
                redis.db.delete("killed-out")
                redis.db.xgroup_destroy("rows", "killed")
        until_drained(folder, "killed", redis, total)
        _compare_redis(folder, redis, n, total)
    finally:
        redis.stop()
    assert set(hits.values()) == {kills // 3}
    note(**hits)


def _hit(kind, folder, redis, rng):
    def idle():
        return drained(redis, "killed", redis.db.xlen("rows"))

    arguments = list(map(str, streams.command(folder, "killed", redis)))
    if kind == "between commit and ack":
        process = subprocess.Popen(
            [sys.executable, "-c", BETWEEN, str(rng.randint(1, 3)), *arguments]
        )
        while process.poll() is None and not idle():
            time.sleep(0.02)
        process.kill()  # the stream may end before so many batches: that was no hit
        return int(process.wait() == -signal.SIGKILL and not idle())
    process = streams.start(*arguments)
    before = redis.db.xlen("killed-out")
    while process.poll() is None and redis.db.xlen("killed-out") == before and not idle():
        time.sleep(0.005)
    time.sleep(rng.random() * 0.1)
    if kind == "server":
        redis.kill()
        time.sleep(0.3)
        redis.start()
        before = redis.db.xlen("killed-out")
        until = time.monotonic() + 60
        while (
            redis.db.xlen("killed-out") == before and not idle()
        ):  # the consumer comes back by itself
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until, "the consumer does not come back"
            time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return 1


def _compare_redis(folder, redis, n, total):
    assert redis.db.xlen("rows") == total
    ids = answers(redis, "killed")
    assert len(ids) == n, f"{len(ids)} predictions of {n} rows"
    assert set(ids) == {f"r{i}" for i in range(n)}
    assert_same(state(folder / "killed"), state(folder / "steady"))
