"""The service under load on loopback: 64 clients, predict and label with the journal on, beside a bare FastAPI echo.

    python benchmarks/live/load.py                 needs HEDGEROW_DATA; --seconds 2 for a short run
    python benchmarks/live/load.py --check         exit code 1 if a goal is missed

Every server is one uvicorn process; the clients are one process of raw sockets, so that they cost little. Each client
sends its next request when the last was answered. One by one: the same instances (800 SURF counts as JSON) to the echo,
then to the service, where each prediction is followed by its label. Batches: 256 rows with their labels, beside the
library's own `predict_then_learn` on the same rows. Overload: ten times the clients; every request must be answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ECHO = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Body(BaseModel):
    instances: list[list[float]]

app = FastAPI()

@app.post("/echo")
async def echo(body: Body) -> Body:
    return body

uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
"""
CLIENTS = 64
BATCH = 256
GOALS = {"one by one, share of the echo": 0.4, "batches, share of the library": 0.5}


class Connection(asyncio.Protocol):
    """One client: sends what `script` yields, and sends the answer back into it."""

    def __init__(self, script: Any, times: list[tuple[int, float]]) -> None:
        self.script, self.times = script, times
        self.received = b""
        self.lost = 0
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send(None)

    def send(self, answer: Any) -> None:
        try:
            request = self.script.send(answer)
        except StopIteration:
            self.finish()
            return
        self.began = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head = self.received.find(b"\r\n\r\n")
        if head < 0:
            return
        found = re.search(rb"content-length: (\d+)", self.received[:head], flags=re.I)
        end = head + 4 + int(found[1] if found else 0)
        if len(self.received) < end:
            return
        status, body = int(self.received[9:12]), self.received[head + 4 : end]
        self.received = b""
        self.times.append((status, time.perf_counter() - self.began))
        self.send((status, body))

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = int(not self.over.done())
        self.finish()

    def finish(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
            self.transport.close()


def request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    return f"{head}\r\n".encode() + body


def echoes(bodies: list[bytes], end: float, at: int) -> Iterator[bytes]:
    while time.perf_counter() < end:
        yield request("/echo", bodies[at % len(bodies)])
        at += 1


def events(name: str, bodies: list[bytes], labels: list[Any], end: float, at: int) -> Iterator[bytes]:
    """A prediction, then its label; what was refused for now is not labelled."""
    predict, label = f"/v1/models/{name}/predict", f"/v1/models/{name}/label"
    while time.perf_counter() < end:
        status, body = yield request(predict, bodies[at % len(bodies)])
        if status == 200:
            id = json.loads(body)["predictions"][0]["id"]
            yield request(label, json.dumps({"labels": [{"id": id, "label": labels[at % len(labels)]}]}).encode())
        at += CLIENTS


def batches(name: str, bodies: list[bytes]) -> Iterator[bytes]:
    for body in bodies:
        yield request(f"/v1/models/{name}/predict-then-learn", body)


async def run(port: int, scripts: list[Any]) -> dict[str, Any]:
    """All clients to their end: requests a second, latencies in ms, answers by status, requests without an answer."""
    loop, times = asyncio.get_running_loop(), []
    began = time.perf_counter()
    made = [
        await loop.create_connection(lambda script=script: Connection(script, times), "127.0.0.1", port)
        for script in scripts
    ]
    clients = [client for _, client in made]
    await asyncio.gather(*(client.over for client in clients))
    took = time.perf_counter() - began
    ms = np.array([1e3 * seconds for _, seconds in times])
    return {
        "requests": len(times), "a second": round(len(times) / took, 1), "seconds": round(took, 2),
        "p50": round(float(np.quantile(ms, 0.5)), 2), "p99": round(float(np.quantile(ms, 0.99)), 2),
        "max": round(float(ms.max()), 2), "statuses": dict(Counter(status for status, _ in times)),
        "lost": sum(client.lost for client in clients),
    }  # fmt: skip


@contextmanager
def server(command: list[str], port: int, path: str) -> Iterator[None]:
    import httpx

    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                if httpx.get(f"http://127.0.0.1:{port}{path}").status_code < 500:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        else:
            sys.exit(f"no answer from {command}")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def task() -> tuple[Any, Any, Any]:
    """The model of amazon's stream: the other three domains of Office+Caltech, and some of its rows unlabelled."""
    from hedgerow import Domain, OnlineTransferClassifier, load

    domains = load("office-caltech")
    target = domains.pop("amazon")
    warmup, stream = np.arange(100), np.arange(100, len(target))
    clf = OnlineTransferClassifier().fit_domains(list(domains.values()), Domain("amazon", np.asarray(target.X)[warmup]))
    return clf, np.asarray(target.X)[stream], np.asarray(target.y)[stream]


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each part")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--check", action="store_true", help="exit code 1 if a goal is missed")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    asked = parser.parse_args()
    found = measure(asked.seconds, asked.batches)
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1))
    missed = [name for name, goal in GOALS.items() if found[name] < goal]
    unanswered = [name for name in ("one by one", "overload") if found[name]["lost"]]
    strange = set(found["overload"]["statuses"]) - {200, 429, 503}
    for name in [*missed, *unanswered, *(f"status {status}" for status in strange)]:
        print(f"missed: {name}", file=sys.stderr)
    return int(asked.check and bool(missed or unanswered or strange))


def measure(seconds: float, count: int) -> dict[str, Any]:
    from hedgerow.live import LiveModel

    clf, X, y = task()
    bodies = [json.dumps({"instances": [row]}).encode() for row in X.tolist()]
    labels = y.tolist()
    found: dict[str, Any] = {"features": X.shape[1], "bytes of a body": len(bodies[0]), "cores": os.cpu_count()}
    port = free_port()
    with server([sys.executable, "-c", ECHO, str(port)], port, "/openapi.json"):
        end = time.perf_counter() + seconds
        found["echo"] = asyncio.run(run(port, [echoes(bodies, end, i) for i in range(CLIENTS)]))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "many", "over"):
            LiveModel.create(Path(folder) / name, clf).close()
        port = free_port()
        command = [sys.executable, "-m", "hedgerow", "serve", "--models", folder, "--port", str(port)]
        with server(command, port, "/readyz"):
            end = time.perf_counter() + seconds
            scripts = [events("one", bodies, labels, end, i) for i in range(CLIENTS)]
            found["one by one"] = asyncio.run(run(port, scripts))
            found["batches"] = _batches(port, X, labels, count)
            end = time.perf_counter() + seconds
            scripts = [events("over", bodies, labels, end, i) for i in range(10 * CLIENTS)]
            found["overload"] = asyncio.run(run(port, scripts))
    found["library"] = _library(clf, X, y, count)
    found["one by one, share of the echo"] = round(found["one by one"]["a second"] / found["echo"]["a second"], 3)
    share = found["batches"]["rows a second"] / found["library"]["rows a second"]
    found["batches, share of the library"] = round(share, 3)
    return found


def _cut(X: Any, y: Any, count: int) -> list[tuple[Any, Any]]:
    """Batches of the stream, again from its start at its end."""
    at = np.arange(count * BATCH) % len(X)
    return [(X[part], np.asarray(y)[part]) for part in np.split(at, count)]


def _batches(port: int, X: Any, y: Any, count: int) -> dict[str, Any]:
    made = [{"instances": rows.tolist(), "labels": labels.tolist()} for rows, labels in _cut(X, y, count)]
    found = asyncio.run(run(port, [batches("many", [json.dumps(body).encode() for body in made])]))
    return {**found, "rows a second": round(BATCH * found["a second"])}


def _library(clf: Any, X: Any, y: Any, count: int) -> dict[str, Any]:
    import copy

    model, parts = copy.deepcopy(clf), _cut(X, y, count)
    copy.deepcopy(clf).predict_then_learn(*parts[0])  # compiled by then
    began = time.perf_counter()
    for rows, labels in parts:
        model.predict_then_learn(rows, labels)
    return {"rows a second": round(count * BATCH / (time.perf_counter() - began))}


if __name__ == "__main__":
    sys.exit(main())
