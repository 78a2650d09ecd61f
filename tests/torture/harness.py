"""What torture shares: the short and the long form, and a service that is killed and started again."""

from __future__ import annotations

import os
import subprocess
import time

import httpx
from support.streams import COMMAND, free_port

LONG = os.environ.get("TORTURE") == "long"


def size(short, long):
    """`make torture` sets TORTURE=long."""
    return long if LONG else short


class Service:
    """`hedgerow serve` on a port that stays."""

    def __init__(self, models, log):
        self.models = models
        self.log = log
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [*COMMAND, "serve", "--models", self.models, "--port", self.port]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*map(str, command)], stdout=subprocess.DEVNULL, stderr=log
            )

    def ready(self, seconds=120):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self.process.poll() is None, "the service ended by itself"
            try:
                if httpx.get(self.url + "/readyz", timeout=5).status_code == 200:
                    return self
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service does not become ready")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
