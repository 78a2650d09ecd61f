"""kill -9 of `hedgerow serve` at random moments while clients predict and label, against a model that never stopped."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np

from hedgerow.client import Client, ServiceError
from hedgerow.live import LiveModel, Settings
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.steps import Steps
from live.faults import small_model
from live.streams import assert_same, rows, state

SETTINGS = Settings(snapshot_every=150, keep_events=10**6)


class Service:
    """A service that is killed and started again on the same port."""

    def __init__(self, models):
        self.models = models
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [sys.executable, "-m", "hedgerow", "serve", "--models", self.models, "--port", self.port]
        self.process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ready(self, seconds=120):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.process.poll() is None, "the service ended by itself"
            try:
                if httpx.get(self.url + "/readyz", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service does not become ready")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0


def feed(url, X, y, first, last, progress):
    """One client: each instance, and its label five instances later; both again until they were acknowledged."""
    with Client(url, tries=1, timeout=10) as client:
        site = client.model("site")

        def insist(call):
            while True:
                try:
                    return call()
                except ServiceError as error:
                    if error.status not in (0, 429, 502, 503, 504):
                        raise
                    time.sleep(0.02)

        for i in range(first, last + 5):
            if i < last:
                insist(lambda i=i: site.predict([X[i].tolist()], ids=[f"r{i}"]))
            if i - 5 >= first:
                result = insist(lambda i=i: site.label(f"r{i - 5}", y[i - 5]))
                assert result.status in ("learned", "already"), result
            progress[0] += 1


def kill_serve(folder, kills, n=600, seed=0, say=print):
    """One client whose events have one order: bit-equal to a model that nothing interrupted. Then four at once."""
    folder, rng, begun = Path(folder), random.Random(seed), time.monotonic()
    X, y = rows(4, 4 * n, 0.8)
    clf = small_model()
    (folder / "models").mkdir(parents=True)
    LiveModel.create(folder / "models" / "site", clf, SETTINGS).close()
    steady = LiveModel.create(folder / "steady", clf, SETTINGS)
    for i in range(n + 5):
        if i < n:
            steady.predict(X[i], id=f"r{i}")
        if i >= 5:
            steady.label(f"r{i - 5}", y[i - 5])
    steady.close()
    hits = _with_kills(folder, [(0, n)], X, y, kills // 2, rng)
    assert_same(state(folder / "models" / "site"), state(folder / "steady"))
    spans = [(n + k * (n // 2), n + (k + 1) * (n // 2)) for k in range(4)]
    hits += _with_kills(folder, spans, X, y, kills - kills // 2, rng)
    _check_all(folder / "models" / "site", clf, 3 * n)
    say(f"serve: {hits} kills, {3 * n} events of 1 and of 4 clients, every label learned once, state bit-equal, "
        f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    return hits


def _with_kills(folder, spans, X, y, kills, rng):
    service, progress = Service(folder / "models"), [0]
    service.ready()
    failed = []

    def client(span):
        try:
            feed(service.url, X, y, *span, progress)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=client, args=(span,)) for span in spans]
    for thread in threads:
        thread.start()
    total, hits = sum(last - first + 5 for first, last in spans), 0
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
    return hits


def _check_all(folder, clf, labels):
    """Whatever order the clients had: the state is that of the journal, gone through from the first model."""
    with LiveModel.open(folder) as live:
        assert live.stats()["labels"] == live.clf.seen_ == labels, (live.stats()["labels"], live.clf.seen_, labels)
        steps = Steps(type(clf).from_bytes(clf.to_bytes()))
        steps.repeat(live._journal, 0)
        for name, array in live.clf.learner_.arrays().items():
            assert np.array_equal(array, steps.clf.learner_.arrays()[name]), name
        assert Snapshots(folder).newest_number > 0
