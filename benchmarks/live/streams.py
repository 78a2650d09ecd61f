"""Files to run on: two sources, unlabelled rows, a stream with ids; and what a run must come to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

COMMAND = [sys.executable, "-m", "hedgerow"]
NAMES = [f"f{i}" for i in range(8)]


def rows(seed, n, shift, K=4):
    centres = np.random.default_rng(42).normal(size=(K, len(NAMES))) * 1.5
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return (centres[y] + rng.normal(size=(n, len(NAMES))) + shift).round(6), [f"c{k}" for k in y]


def write_csv(path, X, y=None, ids=False):
    header = [*(["id"] if ids else []), *NAMES, *(["y"] if y is not None else [])]
    with path.open("w") as file:
        file.write(",".join(header) + "\n")
        for i, x in enumerate(X.tolist()):
            cells = [*([f"r{i}"] if ids else []), *map(repr, x), *([y[i]] if y is not None else [])]
            file.write(",".join(cells) + "\n")


def make(folder, n=20_000, method="oddm"):
    """Files and a fitted model; returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "a.csv", *rows(1, 200, 0.0))
    write_csv(folder / "b.csv", *rows(2, 200, 0.4))
    write_csv(folder / "u.csv", rows(3, 100, 0.8)[0])
    X, y = rows(4, n, 0.8)
    write_csv(folder / "stream.csv", X, y, ids=True)
    write_csv(folder / "unlabelled.csv", X, ids=True)
    order = np.argsort(np.arange(n) + np.random.default_rng(5).integers(0, 300, n), kind="stable")  # late, out of order
    with (folder / "labels.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"r{i}", "y": y[i]}) + "\n" for i in order)
    done = hedgerow(
        "fit", "--source", folder / "a.csv", "--source", folder / "b.csv", "--label", "y", "--unlabelled",
        folder / "u.csv", "--method", method, "-o", folder / "model.safetensors",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def hedgerow(*arguments, **extra):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=600, **extra)


def start(*arguments):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def state(journal):
    """The arrays of a live model, after recovery, and what it counted."""
    from hedgerow.live import LiveModel

    copied = journal.with_name(journal.name + "-looked-at")
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(journal, copied)
    try:
        with LiveModel.open(copied) as live:
            arrays = live.clf.learner_.arrays()
            stats = live.stats()
    finally:
        shutil.rmtree(copied, ignore_errors=True)
    return arrays, {name: stats[name] for name in ("events", "labels", "mistakes", "given_up", "pending")}


def assert_same(one, other):
    """Bit-equal states, equal counts."""
    assert one[1] == other[1], (one[1], other[1])
    assert one[0].keys() == other[0].keys()
    for name, array in one[0].items():
        assert np.array_equal(array, other[0][name]), f"{name} differs"
