"""A service that runs, rows to send to it, and what a page in a browser shows."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from support.command import COMMAND, environment

NONE = "–"
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")


def share(x: float | None) -> str:
    """The rule of static/format.js, written once more: percent, one digit, halves away from zero."""
    return NONE if x is None else f"{Decimal(100 * x).quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def value(page: Any, selector: str) -> float:
    return float(page.eval_on_selector(selector, "node => node.value"))


def text(page: Any, selector: str) -> str:
    return " ".join(page.inner_text(selector).split())


def table(page: Any, body: str) -> list[list[str]]:
    read = "row => [...row.cells].map(cell => (cell.querySelector('data') ?? cell).textContent)"
    return page.eval_on_selector(body, f"body => [...body.rows].map({read})")


def wait_for(page: Any, selector: str, content: str) -> None:
    page.wait_for_function(
        "([at, text]) => document.querySelector(at)?.textContent === text", arg=[selector, content]
    )


def drawn(page: Any, chart: str) -> str:
    return page.eval_on_selector(f"#{chart} canvas", "canvas => canvas.toDataURL()")


def axe(page: Any) -> list[tuple[str, str, str]]:
    """What axe-core has to say in both themes: rule, how grave it is, the element."""
    page.evaluate(AXE + ";undefined")
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        broken = page.evaluate("async () => (await axe.run()).violations")
        found += [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in broken]
    return found


class Service:
    """`hedgerow serve` as a user starts it; it can be started again at the same address."""

    def __init__(self, *options: str, port: int = 0) -> None:
        self.options = options
        self.lines = list[str]()
        command = [*COMMAND, "serve", "--port", str(port), *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment()
        )
        assert self.process.stderr is not None
        while (first := self.process.stderr.readline()).startswith("{"):  # lines of the log
            self.lines.append(first)
        found = re.search(r"at (http://\S+:(\d+))", first)
        assert found, first + self.process.stderr.read()
        self.url = found[1]
        self.port = int(found[2])
        self._reader = threading.Thread(
            target=lambda: self.lines.extend(self.process.stderr or ()), daemon=True
        )
        self._reader.start()
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def ready(self) -> Service:
        until(self._ready, 60)
        return self

    def _ready(self) -> bool:
        return self.http.get("/readyz").status_code == 200

    def get(self, model: str, what: str) -> Any:
        return self.http.get(f"/v1/models/{model}/{what}").raise_for_status().json()

    def post(self, model: str, what: str, body: dict[str, Any]) -> Any:
        return self.http.post(f"/v1/models/{model}/{what}", json=body).raise_for_status().json()

    def stop(self) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self._reader.join(10)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return code


def until(holds: Callable[[], Any], seconds: float = 15) -> Any:
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)
    return found


@dataclass
class Stream:
    """Rows to send, with their labels."""

    X: np.ndarray
    y: list[int]
    at: int = field(default=0)

    def take(self, n: int) -> dict[str, Any]:
        rows = [i % len(self.y) for i in range(self.at, self.at + n)]
        self.at += n
        return {"instances": self.X[rows].tolist(), "labels": [self.y[i] for i in rows]}


@dataclass
class Watch:
    """What a page asked for and what it complained about."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    expected: str | None = None  # a pattern of complaints that a test brings about itself

    def check(self, page: Any) -> None:
        address, *requests = (re.sub("//[^/@]+@", "//", url) for url in (page.url, *self.requests))
        here = re.match(r"http://[^/]+/", address)
        assert here
        assert [url for url in requests if not url.startswith(here[0])] == []
        assert page.evaluate("window.violations") == []
        assert [
            text
            for text in self.complaints
            if not (self.expected and re.search(self.expected, text))
        ] == []
