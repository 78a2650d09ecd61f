"""Sources that are read part by part: the models of memory, the same bits for any number of processes, errors."""

from __future__ import annotations

import collections
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from hedgerow import (
    Domain,
    OnlineTransferClassifier,
    OnlineTransferRegressor,
    ParquetSource,
    load,
    split,
)
from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.source_rows import ClassMoments, Gram
from hedgerow.data import read
from hedgerow.rows import parquet

Sources = dict[str, Domain]


def write(
    folder: Path, X: np.ndarray, y: np.ndarray, files: int, group: int = 150, names: Any = None
) -> Path:
    """Rows as a folder of Parquet files with several row groups each."""
    folder.mkdir()
    frame = pd.DataFrame(X, columns=names or [f"f{j}" for j in range(X.shape[1])]).assign(kind=y)
    for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        frame.iloc[rows].to_parquet(folder / f"part-{i}.parquet", row_group_size=group, index=False)
    return folder


@pytest.fixture(autouse=True)
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PARTITION", 2**14)  # so that a test has many


@pytest.fixture(scope="module")
def task() -> tuple[Sources, Domain, Domain]:
    domains = load("digits")
    warmup, stream = split(domains["shifted"])
    return {name: domain for name, domain in domains.items() if name != "shifted"}, warmup, stream


@pytest.fixture(scope="module")
def folders(task: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    where = tmp_path_factory.mktemp("sources")
    return {
        name: write(where / name, d.X, np.asarray(d.y), 3, 40, list(d.feature_names))
        for name, d in task[0].items()
    }


def opened(folders: dict[str, Path], jobs: int = 1) -> list[ParquetSource]:
    return [ParquetSource(path, "kind", jobs=jobs) for path in folders.values()]


@pytest.mark.parametrize("options", [{}, {"rank": 20}, {"preprocess": "zscore+unit"}], ids=str)
def test_the_linear_learner_predicts_as_from_memory(
    task: Any, folders: dict[str, Path], options: dict[str, Any]
) -> None:
    sources, warmup, stream = task
    by_memory = OnlineTransferClassifier("hedgerow-linear", **options).fit_domains(
        list(sources.values()), warmup
    )
    clf = OnlineTransferClassifier("hedgerow-linear", **options).fit_domains(
        opened(folders), warmup
    )
    assert clf.source_names_ == by_memory.source_names_
    assert clf.expert_names_ == by_memory.expert_names_
    assert_allclose(
        clf.decision_function(stream.X), by_memory.decision_function(stream.X), atol=1e-6
    )
    said = [each.predict_then_learn(stream.X, stream.y).tolist() for each in (clf, by_memory)]
    assert said[0] == said[1]


def test_any_number_of_processes_gives_the_same_bits(task: Any, folders: dict[str, Path]) -> None:
    """Of the default method too, which draws rows; it is then as good as from memory."""
    sources, warmup, stream = task
    made = [
        OnlineTransferClassifier().fit_domains(opened(folders, jobs), warmup) for jobs in (1, 2, 3)
    ]
    assert made[0].to_bytes() == made[1].to_bytes() == made[2].to_bytes()
    plain = OnlineTransferClassifier().fit_domains(list(sources.values()), warmup)
    rates = [
        float(np.mean(each.predict_then_learn(stream.X, stream.y) != stream.y))
        for each in (made[0], plain)
    ]
    assert abs(rates[0] - rates[1]) < 0.04


def test_a_few_passes_over_rows_with_negative_numbers_columns_in_any_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 900)
    X = rng.normal(size=(900, 12)) + np.eye(12)[y] * 3
    names = [f"f{j}" for j in range(12)]
    write(tmp_path / "a", X, y, 2)
    write(tmp_path / "b", (X + 1)[:, ::-1], y, 2, names=names[::-1])
    sources = [ParquetSource(tmp_path / name, "kind", jobs=1) for name in "ab"]
    clf = OnlineTransferClassifier("hedgerow-linear").fit_domains(sources)
    plain = OnlineTransferClassifier("hedgerow-linear").fit_domains(
        [Domain("a", X, y), Domain("b", X + 1, y)]
    )
    assert clf.learner_.plan.steps == ("scale", "centre", "unit")
    assert clf.classes_.tolist() == [0, 1, 2]
    assert [(each.name, each.count, each.passes) for each in sources] == [
        ("a", 900, 4),
        ("b", 900, 4),
    ]
    assert_allclose(clf.decision_function(X), plain.decision_function(X), atol=1e-6)


def test_sums_are_those_of_memory_with_a_label_that_one_part_has(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(3, 2, size=(5000, 7))
    y = rng.choice(["a", "b", "c"], 5000).astype("<U6")
    y[-1] = "seldom"
    source = ParquetSource(write(tmp_path / "rows", X, y, 4), "kind", jobs=1)
    assert source.labels.tolist() == ["a", "b", "c", "seldom"]
    statistics = ClassMoments(4), Gram()
    moments, gram = source.rows(source.labels, X.dtype).totals(*statistics)
    assert_allclose(gram, X.T @ X, rtol=1e-10)
    assert moments.class_counts.tolist() == [int((y == label).sum()) for label in source.labels]
    assert_allclose(moments.total, X.sum(axis=0), rtol=1e-9)


def test_reading_part_by_part_is_reading_the_file(folders: dict[str, Path]) -> None:
    source = ParquetSource(folders["thin"], "kind")
    assert len(source.partitions) > 3
    parts = [part for rows in source.partitions for part in rows.parts(source.layout, 0)]
    whole = read(folders["thin"], label="kind")
    assert np.array_equal(np.concatenate([part.X for part in parts]), whole.X)
    assert np.array_equal(
        np.concatenate([part.labels[part.codes] for part in parts]), np.asarray(whole.y)
    )


def test_a_category_that_no_row_has_is_no_class(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(7).normal(size=(60, 3)), columns=list("abc"))
    frame["kind"] = pd.Categorical(
        np.where(frame["a"] > 0, "up", "down"), categories=["up", "down", "never"]
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    assert sorted(ParquetSource(tmp_path / "rows.parquet", "kind", jobs=1).labels) == ["down", "up"]


def test_cells_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    X = np.ones((400, 3))
    y = np.arange(400) % 2
    X[250, 1] = np.nan
    source = ParquetSource(write(tmp_path / "holes", X, y, 2), "kind", jobs=2)
    clf = OnlineTransferClassifier("hedgerow-linear")
    with pytest.raises(InputError, match=r"part-1.parquet: row 51, column 'f1': missing value"):
        clf.fit_domains([source])
    pd.DataFrame({"x": [1.0, 2.0], "kind": ["a", None]}).to_parquet(tmp_path / "one.parquet")
    with pytest.raises(
        InputError, match=r"one.parquet: row 2, label column 'kind': no label.*drop the row"
    ):
        clf.fit_domains([ParquetSource(tmp_path / "one.parquet", "kind", jobs=1)])
    assert not hasattr(clf, "learner_")


def test_what_cannot_be_is_refused_before_anything_is_read(folders: Any, tmp_path: Path) -> None:
    whole = opened(folders)
    linear = OnlineTransferClassifier("hedgerow-linear")

    def refused(words: str, sources: Any, warmup: Any = None, clf: Any = linear) -> None:
        with pytest.raises(InputError, match=words):
            clf.fit_domains(sources, warmup)

    refused(
        r"method='oddm' learns its sources row by row.*hedgerow, hedgerow-linear", whole,
        clf=OnlineTransferClassifier("oddm"),
    )  # fmt: skip
    refused(
        "OnlineTransferRegressor needs its sources in memory", whole, clf=OnlineTransferRegressor()
    )
    refused(
        "source 'x' is in memory, source 'tilted' is not", [whole[0], Domain("x", [[1.0]], ["a"])]
    )
    refused("two sources are called 'tilted'; give each a name of its own", [whole[0], whole[0]])
    narrow = ParquetSource(
        write(tmp_path / "narrow", np.ones((9, 3)), np.arange(9) % 2, 1), "kind", jobs=1
    )
    refused(r"source 'narrow': other features than those of source 'tilted'", [whole[0], narrow])
    refused(
        r"different width: \[\('narrow', 3\), \('new', 5\)\]",
        [narrow],
        Domain("new", np.ones((4, 5))),
    )
    refused(
        r"label 0 is not among classes=\[1, 2\]", [narrow],
        clf=OnlineTransferClassifier("hedgerow-linear", classes=[1, 2]),
    )  # fmt: skip
    assert sum(source.passes for source in whole) == 0
    assert not hasattr(linear, "learner_")
    (tmp_path / "rows.csv").write_text("a,kind\n1,2\n")
    pd.DataFrame({"a": [1.0], "city": ["Oslo"], "kind": [1]}).to_parquet(tmp_path / "text.parquet")
    for path, label, words in (
        (folders["thin"], "kin", "unknown label column"),
        (tmp_path / "rows.csv", "kind", "has to be Parquet"),
        (
            tmp_path / "text.parquet",
            "kind",
            r"text.parquet, column 'city': (large_)?string, not numbers.*encode",
        ),
    ):
        with pytest.raises(InputError, match=words):
            ParquetSource(path, label)
    with pytest.raises(InputError, match="jobs=0: at least one process"):
        ParquetSource(folders["thin"], "kind", jobs=0)


def children() -> set[int]:
    return {
        int(pid)
        for path in Path("/proc/self/task").glob("*/children")
        for pid in path.read_text().split()
    }


def test_a_process_that_is_killed_is_an_error_and_the_next_fit_goes_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400_000, 8))
    folder = write(tmp_path / "rows", X, (X[:, 0] > 0).astype(int), 1, 10_000)
    clf = OnlineTransferClassifier("hedgerow-linear")
    source = ParquetSource(folder, "kind", jobs=2)
    assert len(source.labels) == 2  # the processes are there now
    stop = threading.Event()
    killed = list[int]()

    def kill() -> None:
        while not stop.wait(0.2) and not killed:
            busy = [
                pid
                for pid in children()
                if b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            if busy:
                os.kill(busy[-1], signal.SIGKILL)
                killed.append(busy[-1])

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        with pytest.raises(
            HedgerowError, match=r"source 'rows': a process that read it was killed.*fit again"
        ):
            collections.deque(
                (clf.fit_domains([source]) for _ in range(20)), maxlen=0
            )  # until one is killed
    finally:
        stop.set()
        thread.join()
    assert killed
    assert clf.fit_domains([source]).classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_wide_rows_take_one_pass_more(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 700)
    X = rng.normal(size=(700, 520)) + np.eye(520)[y] * 5
    source = ParquetSource(write(tmp_path / "wide", X, y, 2, 100), "kind", jobs=1)
    clf = OnlineTransferClassifier("hedgerow-linear").fit_domains([source])
    plain = OnlineTransferClassifier("hedgerow-linear").fit_domains([Domain("wide", X, y)])
    assert source.passes == 5
    assert clf.predict(X).tolist() == plain.predict(X).tolist()
