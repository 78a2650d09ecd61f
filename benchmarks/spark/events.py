"""Keyed events in files, one pair of files a batch, and what a plain loop makes of them."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hedgerow import Domain
from hedgerow.fleet import Base

FEATURES = ("x0", "x1", "x2", "x3")
STEP = 10**9  # of the order, between two batches; labels come in the second half
NEVER, LATE, AGAIN, OTHER, UNKNOWN = 0.01, 0.05, 0.02, 0.01, 0.005  # shares of the labels


@dataclass
class Events:
    """All instances and all labels, in the order of time; `batch` says in which file each is."""

    key: np.ndarray
    X: np.ndarray
    batch: np.ndarray
    labels: dict[str, np.ndarray]  # event, label, t, batch; event -1: unknown

    def __len__(self):
        return len(self.key)


def base():
    rng = np.random.default_rng(1)
    domains = []
    for name, shift in (("a", 0.0), ("b", 0.5)):
        X = single(rng.normal(size=(200, 4)))
        domains.append(Domain(name, X + shift, (X[:, 0] + X[:, 1] > 0).astype(np.int64)))
    return Base.fit(domains, "hedgerow-linear")


def single(X):
    return X.astype(np.float32).astype(np.float64)


def make(n, keys, files, seed=0, hot=0.0):
    """Every batch has events of a part of the keys, as many as a stream's hour has; `hot`: the share of key 0."""
    rng = np.random.default_rng(seed)
    batch = np.arange(n) * files // n
    active = max(1, keys * 3 // files) if files > 3 else keys
    key = (batch * keys // files + rng.integers(0, active, n)) % keys
    key[rng.random(n) < hot] = 0
    X = single(rng.normal(size=(n, 4)) + 0.3 * (key % 7)[:, None])
    y = (X[:, 0] + X[:, 1] * (key % 3 - 1) > 0).astype(np.int64)
    fate = rng.random(n)
    first = np.flatnonzero(fate >= NEVER)
    when = batch[first] + (fate[first] < NEVER + LATE)
    again, other = rng.random(len(first)) < AGAIN, rng.random(len(first)) < OTHER
    unknown = rng.integers(0, n, int(UNKNOWN * n))
    parts = [
        (first, y[first], when * STEP + STEP // 2 + first, when),
        (first[again], y[first[again]], (when[again] + 1) * STEP + STEP // 2 + first[again], when[again] + 1),
        (first[other], 1 - y[first[other]], (when[other] + 1) * STEP + STEP // 2 + first[other] + n, when[other] + 1),
        (-1 - unknown, y[unknown], batch[unknown] * STEP + STEP // 2 + unknown, batch[unknown]),
    ]
    event, label, t, at = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((event, t))
    labels = {"event": event[order], "label": label[order], "t": t[order], "batch": at[order]}
    return Events(key, X, batch, labels)


def write(events, folder: Path):
    import pandas as pd

    for name in ("instances", "labels"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    known = events.labels
    files = int(max(events.batch.max(), known["batch"].max())) + 1
    for f in range(files):
        mine = np.flatnonzero(events.batch == f)
        instances = pd.DataFrame(events.X[mine], columns=FEATURES)
        instances.insert(0, "key", [f"k{k}" for k in events.key[mine]])
        instances.insert(1, "id", [f"e{i}" for i in mine])
        instances.insert(2, "t", f * STEP + mine)
        instances.to_parquet(folder / "instances" / f"{f:05d}.parquet")
        at = np.flatnonzero(known["batch"] == f)
        event = known["event"][at]
        owner = np.where(event >= 0, event, -1 - event)
        labels = pd.DataFrame({"key": [f"k{k}" for k in events.key[owner]]})
        labels["id"] = [f"e{e}" if e >= 0 else f"nobody{-e}" for e in event]
        labels["t"], labels["label"] = known["t"][at], known["label"][at]
        labels.to_parquet(folder / "labels" / f"{f:05d}.parquet")
        for name in ("instances", "labels"):  # Spark takes files by their times, which may be equal
            os.utime(folder / name / f"{f:05d}.parquet", (f, f))
    return files


def plain_loop(events):
    """Of every key the events that it learns, in order, and how many labels have which status."""
    learned: dict[int, list[int]] = {int(key): [] for key in np.unique(events.key)}
    answers: dict[int, int] = {}
    counts: Counter[str] = Counter()
    for event, label in zip(events.labels["event"].tolist(), events.labels["label"].tolist(), strict=True):
        if event < 0:
            counts["unknown"] += 1
        elif event in answers:
            counts["already" if answers[event] == label else "conflict"] += 1
        else:
            answers[event] = label
            learned[int(events.key[event])].append(event)
            counts["learned"] += 1
    return learned, answers, counts
