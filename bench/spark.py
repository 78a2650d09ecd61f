"""Streams of keys on Spark: events in files, the query as a job of its own, and what an event costs.

`tests/torture/test_spark.py` kills the driver and the workers of the same job.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import child
from bench.record import Row
from hedgerow import Domain
from hedgerow.fleet import Base, Fleet

FEATURES = ("x0", "x1", "x2", "x3")
INSTANCES = "key string, id string, t bigint, x0 double, x1 double, x2 double, x3 double"
LABELS = "key string, id string, t bigint, label bigint"
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.minBatchesToRetain": "10",
}
SHARDS = 16
STEP = 10**9  # of the order, between two batches; labels come in the second half
NEVER = 0.01  # shares of the labels
LATE = 0.05
AGAIN = 0.02
OTHER = 0.01
UNKNOWN = 0.005


@dataclass
class Events:
    """All instances and all labels, in the order of time; `batch` says in which file each is."""

    key: np.ndarray
    X: np.ndarray
    batch: np.ndarray
    labels: dict[str, np.ndarray]  # event, label, t, batch; event -1: unknown

    def __len__(self) -> int:
        return len(self.key)


def base() -> Base:
    rng = np.random.default_rng(1)
    sources = []
    for name, shift in (("a", 0.0), ("b", 0.5)):
        X = single(rng.normal(size=(200, 4)))
        sources.append(Domain(name, X + shift, (X[:, 0] + X[:, 1] > 0).astype(np.int64)))
    return Base.fit(sources, "hedgerow-linear")


def single(X: np.ndarray) -> np.ndarray:
    return X.astype(np.float32).astype(np.float64)


def make(n: int, keys: int, files: int, hot: float = 0.0) -> Events:
    """Every batch has events of a part of the keys, as many as a stream's hour has; `hot`: the share of key 0."""
    rng = np.random.default_rng(0)
    batch = np.arange(n) * files // n
    active = max(1, keys * 3 // files) if files > 3 else keys
    key = (batch * keys // files + rng.integers(0, active, n)) % keys
    key[rng.random(n) < hot] = 0
    X = single(rng.normal(size=(n, 4)) + 0.3 * (key % 7)[:, None])
    y = (X[:, 0] + X[:, 1] * (key % 3 - 1) > 0).astype(np.int64)
    fate = rng.random(n)
    first = np.flatnonzero(fate >= NEVER)
    when = batch[first] + (fate[first] < NEVER + LATE)
    again = rng.random(len(first)) < AGAIN
    other = rng.random(len(first)) < OTHER
    unknown = rng.integers(0, n, int(UNKNOWN * n))
    parts = [
        (first, y[first], when * STEP + STEP // 2 + first, when),
        (
            first[again],
            y[first[again]],
            (when[again] + 1) * STEP + STEP // 2 + first[again],
            when[again] + 1,
        ),
        (
            first[other],
            1 - y[first[other]],
            (when[other] + 1) * STEP + STEP // 2 + first[other] + n,
            when[other] + 1,
        ),
        (-1 - unknown, y[unknown], batch[unknown] * STEP + STEP // 2 + unknown, batch[unknown]),
    ]
    event, label, t, at = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((event, t))
    return Events(
        key,
        X,
        batch,
        {"event": event[order], "label": label[order], "t": t[order], "batch": at[order]},
    )


def write(events: Events, folder: Path) -> int:
    """The base and a pair of files a batch; how many batches there are."""
    import pandas as pd

    (folder / "base").write_bytes(base().to_bytes())
    for name in ("instances", "labels"):
        (folder / name).mkdir()
    known = events.labels
    files = int(max(events.batch.max(), known["batch"].max())) + 1
    for f in range(files):
        mine = np.flatnonzero(events.batch == f)
        instances = pd.DataFrame(events.X[mine], columns=FEATURES)
        instances.insert(0, "key", [f"k{k}" for k in events.key[mine]])
        instances.insert(1, "id", [f"e{i}" for i in mine])
        instances.insert(2, "t", f * STEP + mine)
        at = np.flatnonzero(known["batch"] == f)
        event = known["event"][at]
        owner = np.where(event >= 0, event, -1 - event)
        labels = pd.DataFrame({"key": [f"k{k}" for k in events.key[owner]]})
        labels["id"] = [f"e{e}" if e >= 0 else f"nobody{-e}" for e in event]
        labels["t"], labels["label"] = known["t"][at], known["label"][at]
        for name, frame in (("instances", instances), ("labels", labels)):
            frame.to_parquet(folder / name / f"{f:05d}.parquet")
            os.utime(folder / name / f"{f:05d}.parquet", (f, f))  # Spark takes files by their times
    return files


def plain_loop(events: Events) -> tuple[dict[int, list[int]], dict[int, int], Counter[str]]:
    """Of every key the events that it learns, in order; the label of each; how many labels have which status."""
    learned: dict[int, list[int]] = {int(key): [] for key in np.unique(events.key)}
    answers: dict[int, int] = {}
    counts: Counter[str] = Counter()
    for event, label in zip(
        events.labels["event"].tolist(), events.labels["label"].tolist(), strict=True
    ):
        if event < 0:
            counts["unknown"] += 1
        elif event in answers:
            counts["duplicate" if answers[event] == label else "conflict"] += 1
        else:
            answers[event] = label
            learned[int(events.key[event])].append(event)
            counts["learned"] += 1
    return learned, answers, counts


def job(folder: str, master: str, learning: bool = True, partitions: int = 4) -> dict[str, float]:
    """The streaming query over a folder of `write`: seconds and processor seconds of all its processes, each after the
    first batch, and the longest batch. Without learning: the same shuffle and the same files, no Python."""
    from hedgerow.spark import Columns, Settings, learn_stream, session

    config = CONFIG | {"spark.sql.shuffle.partitions": str(partitions)}
    spark = session(master, config=config)
    where = Path(folder)

    def stream(name: str, schema: str) -> Any:
        return (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(where / name))
        )

    instances = stream("instances", INSTANCES)
    labels = stream("labels", LABELS)
    if learning:
        columns = Columns(order="t", features=FEATURES)
        fitted = Base.from_bytes((where / "base").read_bytes())
        results = learn_stream(instances, labels, fitted, columns, Settings(shards=SHARDS))
    else:
        results = instances.unionByName(labels, allowMissingColumns=True).repartition("key")
    writer = results.writeStream.format("parquet").option(
        "checkpointLocation", str(where / "checkpoint")
    )
    query = writer.option("path", str(where / "out")).trigger(availableNow=True).start()
    first = where / "checkpoint" / "commits" / "0"
    while query.isActive and not first.exists():
        time.sleep(0.02)
    began = time.monotonic()
    spent = sum(cpu().values())
    query.awaitTermination()
    seconds = time.monotonic() - began
    spent = sum(cpu().values()) - spent
    longest = (
        max(batch["durationMs"]["triggerExecution"] for batch in query.recentProgress[1:]) / 1000
    )
    spark.stop()
    return {"seconds": seconds, "cpu": spent, "longest": longest}


def processes(root: int) -> dict[int, tuple[int, str]]:
    """(parent, command line) of a process and all below it, by pid."""
    everyone = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        everyone[int(path.name)] = (int(stat.rpartition(")")[2].split()[1]), command)
    below = {root}
    more = {root}
    while more:
        more = {pid for pid, (parent, _) in everyone.items() if parent in below} - below
        below |= more
    return {pid: everyone[pid] for pid in below if pid in everyone}


def cpu() -> dict[int, float]:
    """Processor seconds of every process of this one's tree, with those of its children that ended."""
    spent = {}
    for pid in processes(os.getpid()):
        try:
            parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        spent[pid] = sum(map(int, parts[11:15])) / os.sysconf("SC_CLK_TCK")
    return spent


def in_one_process(events: Events) -> float:
    """Processor seconds of one Fleet over the same batches after the first: all predicted, then all learned."""
    known, (_, answers, _), taken, spent = events.labels, plain_loop(events), set(), 0.0
    with Fleet(base(), memory=2**33) as fleet:
        for f in range(int(events.batch.max()) + 1):
            began = time.process_time()
            mine = np.flatnonzero(events.batch == f)
            fleet.predict(events.key[mine], events.X[mine])
            told = known["event"][(known["batch"] == f) & (known["event"] >= 0)].tolist()
            new = [e for e in dict.fromkeys(told) if e not in taken]
            taken |= set(new)
            fleet.learn(events.key[new], events.X[new], [answers[e] for e in new])
            spent += time.process_time() - began if f else 0.0
    return spent


def spark(
    quick: bool, keys: int = 2000, batch: int = 20_000, files: int = 5, cores: int = 1
) -> Iterator[Row]:
    """`hedgerow-linear`, 4 features, events of a row and a label each beside the same shuffle and files without Python,
    and beside one Fleet process. Processor time is that of all processes after the first batch; medians of three runs
    in turns. Two cores have two Python workers, and each learns what the other did."""
    if quick:
        keys = 40
        batch = 300
        files = 3
    counted = batch * (files - 1)
    events = make(batch * files, keys, files)
    common = {"keys": keys, "batch": batch, "cores": cores}
    alone = 1000 * in_one_process(events) / counted
    yield Row({"what": "one Fleet process", **common}, {"ms of processor an event": alone})
    whats: dict[str, tuple[Events, bool]] = {
        "shuffle and files, no Python": (events, False),
        "learning": (events, True),
    }
    if not quick:
        whats["learning, one key has half of all events"] = (
            make(batch * files, keys, files, hot=0.5),
            True,
        )
    took: dict[str, list[dict[str, float]]] = {what: [] for what in whats}
    for _ in range(1 if quick else 3):
        for what, (given, learning) in whats.items():
            with tempfile.TemporaryDirectory(prefix="spark-") as folder:
                write(given, Path(folder))
                took[what].append(
                    child(
                        job,
                        folder,
                        f"local[{cores}]",
                        learning,
                        cores,
                        env={"OMP_NUM_THREADS": "1"},
                    )
                )
    floor = 0.0
    for what, runs in took.items():
        cpu, seconds, longest = (
            statistics.median(run[name] for run in runs) for name in ("cpu", "seconds", "longest")
        )
        each = 1000 * cpu / counted
        floor = floor or each
        figures = {"ms of processor an event": each, "x the floor": each / floor}
        yield Row(
            {"what": what, **common},
            figures | {"events/s": counted / seconds, "longest batch, s": longest},
        )
