"""One run of one peer, in a process of its own: its row is printed as the last line.

Measured: CPU seconds of the process (the machine may be busy with other things) for predicting and learning a row, the
input map and the package's form of a row not counted (ours counts its map); peak resident memory above what the
process held with packages, data, mapped rows and the package's form of them in it. The limit is in CPU seconds: half of
it at most for sources that are learned row by row, then what is left for the stream. A run that meets it is recorded
with how far it got.
"""

from __future__ import annotations

import importlib
import importlib.metadata as metadata
import json
import os
import platform
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from peers.peer import DEFAULT, SOURCES, TARGET, Peer
from peers.registry import PEERS
from peers.streams import Stream, mapped, stream_of

EARLY = 50
BINS = 15
MIB = 2**20
ROOT = Path(__file__).parents[2]
ALWAYS = ("hedgerow", "numpy", "scipy", "scikit-learn")


class TimeUp(Exception):
    """The limit of CPU seconds is reached."""


@dataclass
class Progress:
    """How far a run is."""

    source_rows: int = 0
    offline: float = 0.0
    wrong: list[bool] = field(default_factory=list)
    shares: list[np.ndarray] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)  # by the clock on the wall
    started: float = 0.0
    online: float = 0.0
    finished: bool = False


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeUp after so many CPU seconds."""

    def up(*_: Any) -> None:
        raise TimeUp

    signal.signal(signal.SIGPROF, up)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def walk(peer: Peer, stream: Stream, forms: list[Any], training: str, limit: float) -> Progress:
    """Sources, then the stream: each row predicted before its label is seen."""
    done, began = Progress(), time.process_time()
    total = sum(map(len, stream.sources))
    try:
        if training == SOURCES and peer.row_by_row:
            X, y = np.vstack(stream.sources), np.concatenate(stream.source_codes)
            for at in stream.together:
                if time.process_time() - began > limit / 2:
                    break
                peer.learn(peer.form(X[at]), int(y[at]))
                done.source_rows += 1
        elif training == SOURCES:
            with alarm(limit):
                peer.fit(stream)
            done.source_rows = total
        done.offline = time.process_time() - began
        done.started = time.process_time()
        with alarm(limit - done.offline):
            online(peer, stream, forms, done)
        done.finished = True
    except TimeUp:
        done.offline = done.offline or time.process_time() - began
    return done


def online(peer: Peer, stream: Stream, forms: list[Any], done: Progress) -> None:
    """Predict, learn, count."""
    K = len(stream.classes)
    for row, code in zip(forms, stream.codes.tolist(), strict=True):
        began = time.perf_counter()
        shares = peer.predict(row)
        peer.learn(row, code)
        done.steps.append(time.perf_counter() - began)
        done.online = time.process_time() - done.started
        done.shares.append(np.full(K, 1 / K) if shares is None else shares)
        done.wrong.append(shares is None or int(np.argmax(shares)) != code)


def expected_calibration_error(p: np.ndarray, right: np.ndarray) -> float:
    """As in own_learner/run.py: sum over bins of |mean confidence - share right| times the bin's share."""
    top = p.max(axis=1)
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    return float(
        sum(abs(top[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    )


def status(name: str) -> int:
    """A line of /proc/self/status in bytes: VmRSS now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def versions(package: str) -> dict[str, str]:
    """Of everything that had a part in the row."""
    found = {name: metadata.version(name) for name in (*ALWAYS, package)}
    last = ["git", "log", "-1", "--format=%h", "--", "src/hedgerow"]  # the commit that changed our library last
    commit = subprocess.run(last, cwd=ROOT, capture_output=True, text=True)
    if commit.returncode == 0:
        found["hedgerow"] += f" ({commit.stdout.strip()})"
    return {**found, "python": platform.python_version()}


def run(job: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """The row of a job."""
    entry = PEERS[job["method"]]
    importlib.import_module(entry.module)
    raw = stream_of(job["task"], job["split"], job["trial"], data_dir)
    stream = raw
    if not entry.own_map:
        stream = mapped(raw, "standard" if job["variant"] == DEFAULT else "ours", job["training"] == TARGET)
    peer = entry.make(job["variant"], len(raw.classes), raw.rows.shape[1])
    forms = [peer.form(x) for x in stream.rows]
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, began = status("VmRSS"), time.perf_counter()
    done = walk(peer, stream, forms, job["training"], job["limit"])
    wall, peak = time.perf_counter() - began, status("VmHWM")
    n, wrong = len(done.wrong), np.array(done.wrong, dtype=bool)
    calibrated = n > 0 and peer.probabilistic
    return {
        **job,
        "finished": done.finished,
        "n": n,
        "stream": len(stream.codes),
        "source_rows": done.source_rows,
        "source_total": sum(map(len, stream.sources)) if job["training"] == SOURCES else 0,
        "mistakes": int(wrong.sum()),
        "early": int(wrong[:EARLY].sum()) if n >= min(EARLY, len(stream.codes)) else None,
        "majority": int((raw.codes != np.bincount(raw.codes).argmax()).sum()),
        "calibration": expected_calibration_error(np.array(done.shares), ~wrong) if calibrated else None,
        "seconds_offline": round(done.offline, 4),
        "seconds_online": round(done.online, 4),
        "median_ms": round(1e3 * float(np.median(done.steps[:n])), 4) if n else None,
        "seconds_wall": round(wall, 2),
        "memory_mib": round(max(peak - before, 0) / MIB, 2),
        "wrong": np.packbits(wrong).tobytes().hex(),
        "data": raw.checksum,
        "versions": versions(entry.package),
    }


def main(text: str) -> None:
    """Run the job that the text says."""
    warnings.simplefilter("ignore")
    job = json.loads(text)
    try:
        row = run(job, os.environ.get("HEDGEROW_DATA"))
    except Exception as error:  # a peer that breaks is a row too
        row = {**job, "finished": False, "n": 0, "error": f"{type(error).__name__}: {str(error)[:300]}"}
        row["versions"] = versions(PEERS[job["method"]].package)
    print(json.dumps(row, separators=(",", ":")), flush=True)
