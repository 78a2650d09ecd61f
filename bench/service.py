"""What runs, measured: `hedgerow run` on files beside the library, and `hedgerow serve` under load."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import SMALL, child, domains, seconds_of
from bench.record import Row
from bench.sides import HERE, checkout
from hedgerow import METHODS, Domain, OnlineTransferClassifier
from hedgerow import load as load_set

NAMES = [f"f{i}" for i in range(20)]
CLIENTS = 64
BATCH = 256
SLOWER = {"hedgerow": 10, "hedgerow-linear": 4}  # these get a part of the rows


def run(
    quick: bool,
    rows: int = 200_000,
    methods: str = ",".join(METHODS),
    rounds: int = 3,
    other: str = "",
) -> Iterator[Row]:
    """Rows a second of `hedgerow run` (reading, predicting, learning, writing JSON lines) over those of
    `predict_then_learn` on the same rows in memory, the best of some turns; 20 features. A run reads in a thread of its
    own, so it needs a second free core. `other=`: another commit beside it, sides in turns."""
    if quick:
        rows = 2000
        methods = "pa,hedgerow-linear"
        rounds = 1
    with checkout(other) if other else nullcontext() as theirs:
        for method in methods.split(","):
            own = rows // SLOWER.get(method, 1)
            times: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
            for _ in range(rounds):
                for side, source in (("ours", HERE), ("theirs", theirs)):
                    if source is not None:
                        path = os.pathsep.join([str(source), str(HERE.parent)])
                        times[side].append(
                            child(seconds_of_runs, method, own, env={"PYTHONPATH": path})
                        )
            best = {
                side: {name: min(one[name] for one in all) for name in all[0]}
                for side, all in times.items()
                if all
            }
            ours = best["ours"]
            figures = {"library rows/s": own / ours["library"]}
            figures |= {name: ours["library"] / ours[name] for name in ours if name != "library"}
            for name, seconds in best.get("theirs", {}).items():
                if name != "library":
                    figures[f"{name}, other"] = best["theirs"]["library"] / seconds
                figures[f"{name}, times the other's speed"] = seconds / ours[name]
            setting = {"method": method, "rows": own} | ({"other": other} if other else {})
            yield Row(setting, figures, {"csv": ">= 0.5", "csv, journal": ">= 0.1"})


def seconds_of_runs(method: str, rows: int) -> dict[str, float]:
    """Of rows in memory, of a CSV file, of a Parquet file, and of the CSV file with a journal."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from hedgerow.run.job import Job
    from hedgerow.run.loop import run as run_job

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 20)) * 1.2

    def domain(name: str, size: int, shift: float) -> Domain:
        y = rng.integers(0, 5, size)
        return Domain(
            name,
            (centres[y] + rng.normal(size=(size, 20)) + shift).round(5),
            y,
            feature_names=NAMES,
        )

    sources = [domain("a", 400, 0.0), domain("b", 400, 0.3)]
    warmup = domain("u", 200, 0.6).unlabelled()
    stream = domain("s", rows, 0.6)
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    table = pa.table({**{name: stream.X[:, i] for i, name in enumerate(NAMES)}, "y": stream.y})
    copy.deepcopy(clf).predict_then_learn(stream.X[:500], stream.y[:500])  # compiled by then
    seconds = {
        "library": seconds_of(lambda: copy.deepcopy(clf).predict_then_learn(stream.X, stream.y))
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv.write_csv(table, folder / "s.csv", csv.WriteOptions(quoting_style="none"))
        parquet.write_table(table, folder / "s.parquet")
        clf.save(folder / "model")
        jobs = {
            "csv": ("s.csv", None),
            "parquet": ("s.parquet", None),
            "csv, journal": ("s.csv", folder / "journal"),
        }
        for what, (file, journal) in jobs.items():
            (folder / "p.jsonl").unlink(missing_ok=True)
            job = Job(
                folder / "model", str(folder / file), str(folder / "p.jsonl"), "y", journal=journal
            )
            seconds[what] = seconds_of(lambda job=job: run_job(job, lambda _: None, lambda _: None))
            assert json.loads((folder / "p.jsonl").read_bytes().splitlines()[-1])["row"] == rows
    return seconds


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


MAKE = """
import sys
from pathlib import Path
import numpy as np
from hedgerow import Domain, OnlineTransferClassifier
from hedgerow.live import LiveModel

method, file, folder, *names = sys.argv[1:]
task = np.load(file, allow_pickle=True)
sources = [Domain(f"s{i}", X, y) for i, (X, y) in enumerate(task["sources"])]
clf = OnlineTransferClassifier(method).fit_domains(sources, Domain("target", task["warmup"]))
for name in names:
    LiveModel.create(Path(folder) / name, clf).close()
"""


def load(quick: bool, seconds: float = 10.0, batches: int = 40) -> Iterator[Row]:
    """Default method, Office+Caltech (800 features as JSON), 64 clients on loopback, one server process, journal on:
    one instance at a time (its label follows), beside a bare FastAPI echo of the same payload; batches of 256 rows with
    labels, beside the library; and ten times the clients, whose every request must be answered."""
    from hedgerow.live import LiveModel

    seconds, batches = (1.0, 2) if quick else (seconds, batches)
    method, sources, warmup, X, y = _small_task() if quick else _office()
    clf = OnlineTransferClassifier(method).fit_domains(sources, warmup)
    bodies = [json.dumps({"instances": [row]}).encode() for row in X.tolist()]

    def events(name: str, clients: int) -> dict[str, Any]:
        end = time.perf_counter() + seconds
        return asyncio.run(
            _clients(port, [_events(name, bodies, y.tolist(), end, i) for i in range(clients)])
        )

    port = _free_port()
    with _server([sys.executable, "-c", ECHO, str(port)], port, "/openapi.json"):
        end = time.perf_counter() + seconds
        echo = asyncio.run(_clients(port, [_echoes(bodies, end, i) for i in range(CLIENTS)]))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "many", "over"):
            LiveModel.create(Path(folder) / name, clf).close()
        port = _free_port()
        command = [
            sys.executable,
            "-m",
            "hedgerow",
            "serve",
            "--models",
            folder,
            "--port",
            str(port),
        ]
        with _server(command, port, "/readyz"):
            one = events("one", CLIENTS)
            parts = [np.arange(i * BATCH, (i + 1) * BATCH) % len(X) for i in range(batches)]
            many = asyncio.run(_clients(port, [_batches("many", X, y, parts)]))
            over = events("over", 10 * CLIENTS)
    model = copy.deepcopy(clf)
    copy.deepcopy(clf).predict_then_learn(X[parts[0]], y[parts[0]])  # compiled by then
    library = batches / seconds_of(
        lambda: [model.predict_then_learn(X[part], y[part]) for part in parts]
    )
    goals = {"share": ">= 0.4", "lost": "== 0"}
    yield Row({"what": "echo"}, echo)
    yield Row(
        {"what": "one by one, over the echo"},
        one | {"share": one["requests/s"] / echo["requests/s"]},
        goals,
    )
    yield Row(
        {"what": "batches of 256, over the library"},
        many | {"share": many["requests/s"] / library},
        goals | {"share": ">= 0.5"},
    )
    yield Row({"what": "ten times the clients"}, over, {"lost": "== 0"})


def load_against(
    quick: bool, other: str = "HEAD", seconds: float = 10.0, batches: int = 20, rounds: int = 3
) -> Iterator[Row]:
    """The service of this checkout over that of another commit (or src folder), under the same load: both run, and are
    asked in turns. Of the median round, requests a second (above one: this checkout does more), latencies and the
    processor time of a request (below one: this checkout is faster); the last depends least on what else runs."""
    import psutil

    if quick:
        other = str(HERE)
        seconds = 1.0
        batches = 2
        rounds = 1
    method, sources, warmup, X, y = _small_task() if quick else _office()
    bodies = [json.dumps({"instances": [row]}).encode() for row in X.tolist()]
    parts = [np.arange(i * BATCH, (i + 1) * BATCH) % len(X) for i in range(batches)]
    kinds = {
        "one by one": [f"one-{i}" for i in range(rounds)],
        "batches of 256": [f"many-{i}" for i in range(rounds)],
    }
    figures: dict[str, list[list[dict[str, Any]]]] = {kind: [[], []] for kind in kinds}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = []
        servers = []
        pairs = np.empty(len(sources), dtype=object)
        pairs[:] = [(np.asarray(source.X), np.asarray(source.y)) for source in sources]
        np.savez(folder / "task.npz", sources=pairs, warmup=np.asarray(warmup.X))
        for i, source in enumerate((HERE, stack.enter_context(checkout(other)))):
            ports.append(_free_port())
            models = folder / str(i)
            environment = {**os.environ, "PYTHONPATH": str(source)}
            models.mkdir()
            task = [
                method,
                str(folder / "task.npz"),
                str(models),
                *kinds["one by one"],
                *kinds["batches of 256"],
            ]
            subprocess.run([sys.executable, "-c", MAKE, *task], env=environment, check=True)
            command = [
                sys.executable,
                "-m",
                "hedgerow",
                "serve",
                "--models",
                str(models),
                "--port",
                str(ports[i]),
            ]
            servers.append(
                psutil.Process(
                    stack.enter_context(_server(command, ports[i], "/readyz", environment))
                )
            )
        for turn in range(rounds):
            for kind, names in kinds.items():
                for i, port in list(enumerate(ports))[:: -1 if turn % 2 else 1]:
                    end = time.perf_counter() + seconds
                    scripts = [
                        _events(names[turn], bodies, y.tolist(), end, at) for at in range(CLIENTS)
                    ]
                    if kind != "one by one":
                        scripts = [_batches(names[turn], X, y, parts)]
                    before = sum(servers[i].cpu_times()[:2])
                    done = asyncio.run(_clients(port, scripts))
                    used = sum(servers[i].cpu_times()[:2]) - before
                    figures[kind][i].append(done | {"CPU ms": 1e3 * used / done["requests"]})
    for kind, sides in figures.items():
        shares = {
            f"{name}, over": float(
                np.median([ours[name] / theirs[name] for ours, theirs in zip(*sides, strict=True)])
            )
            for name in ("requests/s", "p50 ms", "p99 ms", "CPU ms")
        }
        lost = sum(one["lost"] for side in sides for one in side)
        medians = {
            name: float(np.median([one[name] for one in sides[0]]))
            for name in ("requests/s", "p50 ms", "CPU ms")
        }
        yield Row(
            {"what": kind, "other": "itself" if quick else other},
            {**shares, **medians, "lost": lost},
            {"CPU ms, over": "<= 1.05", "lost": "== 0"},
        )


def _office() -> tuple[str, list[Domain], Domain, Any, Any]:
    """amazon's stream: its sources are the other three domains of Office+Caltech; some of its rows are unlabelled."""
    sets = load_set("office-caltech")
    target = sets.pop("amazon")
    X = np.asarray(target.X)
    y = np.asarray(target.y)
    return "hedgerow", list(sets.values()), Domain("amazon", X[:100]), X[100:], y[100:]


def _small_task() -> tuple[str, list[Domain], Domain, Any, Any]:
    sources, warmup, stream = domains(SMALL, rows=40, warmup=20)
    return "pa", list(sources), warmup, stream.X, np.asarray(stream.y)


class _Connection(asyncio.Protocol):
    """A client: sends what its script yields, tells it each answer, and notes how long each took."""

    def __init__(self, script: Any, times: list[tuple[int, float]]) -> None:
        self.script = script
        self.times = times
        self.received = b""
        self.lost = 0
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send(None)

    def send(self, answer: Any) -> None:
        try:
            words = self.script.send(answer)
        except StopIteration:
            self.finish()
            return
        self.began = time.perf_counter()
        self.transport.write(words)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head = self.received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = re.search(rb"content-length: (\d+)", self.received[:head], flags=re.I)
        end = head + 4 + int(length[1] if length else 0)
        if len(self.received) < end:
            return
        status = int(self.received[9:12])
        body = self.received[head + 4 : end]
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


def _request(path: str, body: bytes) -> bytes:
    lines = ("POST " + path + " HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def _echoes(bodies: list[bytes], end: float, at: int) -> Iterator[bytes]:
    while time.perf_counter() < end:
        yield _request("/echo", bodies[at % len(bodies)])
        at += 1


def _events(
    name: str, bodies: list[bytes], labels: list[Any], end: float, at: int
) -> Iterator[bytes]:
    """A prediction, then its label; what was refused for now is not labelled."""
    while time.perf_counter() < end:
        status, body = yield _request(f"/v1/models/{name}/predict", bodies[at % len(bodies)])
        if status == 200:
            label = {
                "id": json.loads(body)["predictions"][0]["id"],
                "label": labels[at % len(labels)],
            }
            yield _request(f"/v1/models/{name}/label", json.dumps({"labels": [label]}).encode())
        at += CLIENTS


def _batches(name: str, X: Any, y: Any, parts: list[Any]) -> Iterator[bytes]:
    for part in parts:
        body = {"instances": X[part].tolist(), "labels": y[part].tolist()}
        yield _request(f"/v1/models/{name}/predict-then-learn", json.dumps(body).encode())


async def _clients(port: int, scripts: list[Any]) -> dict[str, Any]:
    """All clients to their end: requests a second, latencies in ms, answers by status, requests without an answer."""
    loop = asyncio.get_running_loop()
    times = []
    began = time.perf_counter()
    clients = []
    for script in scripts:
        _, client = await loop.create_connection(
            lambda s=script: _Connection(s, times), "127.0.0.1", port
        )
        clients.append(client)
    await asyncio.gather(*(client.over for client in clients))
    ms = np.array([1e3 * seconds for _, seconds in times])
    quantiles = dict(
        zip(("p50 ms", "p99 ms", "longest ms"), np.quantile(ms, [0.5, 0.99, 1.0]), strict=True)
    )
    statuses = Counter(status for status, _ in times)
    return {
        "requests": len(times), "requests/s": len(times) / (time.perf_counter() - began), **quantiles,
        "answers": ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items())),
        "lost": sum(client.lost for client in clients),
    }  # fmt: skip


@contextmanager
def _server(command: list[str], port: int, path: str, environment: Any = None) -> Iterator[int]:
    import httpx

    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        until = time.monotonic() + 300  # a checkout that is new compiles first
        while True:
            try:
                if httpx.get(f"http://127.0.0.1:{port}{path}").status_code < 500:
                    break
            except httpx.TransportError:
                pass
            if time.monotonic() > until:
                raise TimeoutError(f"no answer from {command}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
