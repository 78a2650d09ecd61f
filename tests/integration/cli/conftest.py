"""Real commands on real files: a small problem with two sources and a shifted target, and a model fitted on it."""

from __future__ import annotations

import csv
import subprocess

import numpy as np
import pytest
from support.command import COMMAND, environment

NAMES = ["width", "height", "weight", "age", "price"]


@pytest.fixture(scope="session")
def hedgerow():
    """A command; the words of its first argument, and of those that begin with "-", stand together."""

    def run(*arguments, stdin=None, **extra):
        words = []
        for i, each in enumerate(map(str, arguments)):
            words += each.split() if i == 0 or each.startswith("-") else [each]
        return subprocess.run(
            [*COMMAND, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            env=environment(**extra),
        )

    return run


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def instances(seed, n, shift):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(NAMES)))
    y = np.where(X[:, 0] + X[:, 1] > 0, "mug", np.where(X[:, 2] > 0, "pan", "Töpfe"))
    return [
        [*(round(float(v) + shift, 4) for v in x), label] for x, label in zip(X, y, strict=True)
    ]


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    header = [*NAMES, "kind"]
    write_csv(folder / "shop.csv", header, instances(0, 80, 0.0))
    shuffled = [4, 0, 3, 1, 2, 5]  # another order of columns in the second file
    write_csv(
        folder / "web.csv",
        [header[i] for i in shuffled],
        [[row[i] for i in shuffled] for row in instances(1, 80, 0.5)],
    )
    write_csv(folder / "new.csv", NAMES, [row[:-1] for row in instances(2, 40, 1.0)])
    write_csv(folder / "stream.csv", header, instances(3, 60, 1.0))
    return folder


@pytest.fixture(scope="session")
def model(files, hedgerow):
    path = files / "model.safetensors"
    done = hedgerow(
        "fit --source",
        files / "shop.csv",
        "--source",
        files / "web.csv",
        "--label kind --unlabelled",
        files / "new.csv",
        "--option rank=4 -o",
        path,
    )
    assert done.returncode == 0, done.stderr
    return path
