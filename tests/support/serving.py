"""A real service in a process of its own, on a free port, and small models to serve."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from hedgerow import Domain, OnlineTransferClassifier
from support.command import COMMAND, FRESH, environment

NAMES = ["width", "height", "depth"]


class Service:
    """`hedgerow serve` as a user starts it."""

    def __init__(
        self, models: Path | None, *options: str, fresh: bool = False, before: Sequence[str] = ()
    ) -> None:
        where = [] if models is None else ["--models", str(models)]
        command = [
            *before,
            *(FRESH if fresh else COMMAND),
            "serve",
            *where,
            "--port",
            "0",
            *options,
        ]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment()
        )
        self.models = models
        self.lines = list[str]()
        while (first := self._line()).startswith("{"):  # lines of the log
            self.lines.append(first)
        found = re.search(r"at (https?://\S+)", first)
        assert found, first + (self.process.stderr.read() if self.process.stderr else "")
        self.url = found[1]
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def _line(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def ready(self) -> Service:
        end = time.monotonic() + 60
        while not self._ready():
            assert time.monotonic() < end, self.lines[-5:]
            time.sleep(0.05)
        return self

    def opened(self) -> Service:
        """Every model is open or known to be unusable; perhaps all of them are."""
        end = time.monotonic() + 60
        while "is opening" in self.http.get("/v1/models").text:
            assert time.monotonic() < end, self.lines[-5:]
            time.sleep(0.05)
        return self

    def _ready(self) -> bool:
        return (
            self.http.get("/readyz").status_code == 200
        )  # it says its address when it listens there

    def log(self) -> list[dict[str, Any]]:
        time.sleep(0.5)  # the log is written a little later
        return [json.loads(line) for line in self.lines]

    def stop(self, by: int = signal.SIGTERM) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(60)
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


def table(n: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    return X + shift, np.where(X[:, 0] > 0, "up", "down")


def fitted(names: bool = True, method: str = "paio") -> OnlineTransferClassifier:
    given = NAMES if names else None
    sources = [Domain(f"s{i}", *table(40, 0.2 * i, i), feature_names=given) for i in range(2)]
    target = Domain("new", table(30, 1.0, 7)[0], feature_names=given)
    return OnlineTransferClassifier(method).fit_domains(sources, target)
