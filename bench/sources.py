"""Sources larger than memory: Parquet read part by part beside a plain read and beside the same rows in memory."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from bench.record import Row
from bench.spark import processes
from hedgerow import Domain, OnlineTransferClassifier, ParquetSource, split
from hedgerow import load as load_set
from hedgerow.core.arrays import dense
from hedgerow.core.source_rows import ClassMoments, Gram
from hedgerow.rows import parquet
from hedgerow.rows.partitions import FIRST, Pass

GROUP = 2**17  # rows of a row group, bytes of a file (about)
FILE = 2**28
CLASSES = 10
FEATURES = 20
TASKS = (
    ("digits", "shifted"),
    ("office-caltech", "webcam"),
    ("office-caltech", "amazon"),
    ("pie", "PIE5"),
)
PAGE = os.sysconf("SC_PAGE_SIZE")


def sources(
    quick: bool, gb: float = 2.0, folder: str = tempfile.gettempdir(), jobs: int = 2, seeds: int = 2
) -> Iterator[Row]:
    """A Parquet folder (20 columns, 10 classes) in processes: labels, least and spread of every feature in one pass,
    Gram matrix and class sums in another, and a fit of `hedgerow-linear`, over a plain read of the same columns; memory
    is that of all processes. Then models fitted part by part and from memory: predictions of `hedgerow-linear` that
    differ, and mistakes of `hedgerow`, whose sample of rows is another one."""
    yield from _large(0.05 if quick else gb, folder, jobs)
    for task in TASKS[: 1 if quick else None]:
        yield _both_ways(*task, 1 if quick else seeds)


def write_file(folder: str, number: int, rows: int) -> None:
    """Normal numbers about the means of ten classes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(number)
    names = [f"f{j}" for j in range(FEATURES)]
    schema = pa.schema([*((name, pa.float64()) for name in names), ("kind", pa.string())])
    means = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    with pq.ParquetWriter(
        Path(folder) / f"part-{number:04d}.parquet", schema, use_dictionary=["kind"]
    ) as file:
        for first in range(0, rows, GROUP):
            y = rng.integers(0, CLASSES, min(GROUP, rows - first))
            X = rng.standard_normal((len(y), FEATURES)) + means[y]
            columns = [pa.array(np.ascontiguousarray(X[:, j])) for j in range(FEATURES)]
            file.write_table(
                pa.table([*columns, pa.array([f"class {k}" for k in y])], schema=schema)
            )


def plain_read(rows: parquet.RowGroups) -> int:
    """Every column of some row groups through the same library, as numbers nobody looks at."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(rows.file) as file:
        batches = file.iter_batches(16384, row_groups=list(rows.groups), use_threads=False)
        return sum(batch.num_rows for batch in batches)


def memory_of_tree() -> int:
    """Resident bytes of this process and all below it."""
    total = 0
    for pid in processes(os.getpid()):
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        except OSError:
            continue
    return total


def seconds_of_tree() -> float:
    """Seconds that processors worked for this process and all below it."""
    spent = 0
    for pid in processes(os.getpid()):
        try:
            spent += sum(
                map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])
            )
        except OSError:
            continue
    return spent / os.sysconf("SC_CLK_TCK")


def measured(work: Callable[[], Any]) -> tuple[float, float, int, Any]:
    """Seconds on the clock and of processors, the most bytes that all processes held, and the result."""
    over = threading.Event()
    most = [memory_of_tree()]

    def watch() -> None:
        while not over.wait(0.1):
            most[0] = max(most[0], memory_of_tree())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    began = time.perf_counter()
    spent = seconds_of_tree()
    result = work()
    seconds = time.perf_counter() - began
    spent = seconds_of_tree() - spent
    over.set()
    thread.join()
    return seconds, spent, most[0], result


def _large(gb: float, where: str, jobs: int) -> Iterator[Row]:
    size = int(gb * 1e9)
    if shutil.disk_usage(where).free < 1.5 * size:
        sys.exit(f"error: {where} has not {1.5 * gb:g} GB free")
    with tempfile.TemporaryDirectory(dir=where) as folder:
        count = max(2, round(size / FILE))
        rows = min(FILE, size // 2) // (8 * FEATURES)
        Parallel(jobs)(delayed(write_file)(folder, number, rows) for number in range(count))
        source = ParquetSource(folder, "kind", jobs=jobs)
        source.totals(
            Pass(FIRST)
        )  # every process has imported everything, and the files are in the system's cache

        def read() -> Any:
            return measured(
                lambda: sum(Parallel(jobs)(delayed(plain_read)(each) for each in source.partitions))
            )

        sums = Gram(), ClassMoments(CLASSES)
        clf = OnlineTransferClassifier("hedgerow-linear")
        work: dict[str, Callable[[], Any]] = {
            "labels, least, spread": lambda: source.totals(Pass(FIRST)),
            "Gram matrix, class sums": lambda: source.rows(source.labels, source.dtype).totals(
                *sums
            ),
            "a fit": lambda: clf.fit_domains([source]),
        }
        assert source.count == read()[3]
        for what, do in work.items():
            before = source.passes
            first = read()
            found = measured(do)
            second = read()
            passes = source.passes - before
            clock, processor = (statistics.mean([first[i], second[i]]) * passes for i in (0, 1))
            figures = {
                "passes": passes, "s": found[0], "x a plain read a pass (clock)": found[0] / clock,
                "x a plain read a pass (processor)": found[1] / processor, "resident GB": found[2] / 1e9,
                "rows": source.count,
            }  # fmt: skip
            goals = {"resident GB": "<= 2", "x a plain read a pass (processor)": "<= 2"}
            yield Row({"what": what, "on": f"{gb:g} GB", "processes": jobs}, figures, goals)


def _both_ways(data: str, target: str, seeds: int, files: int = 3) -> Row:
    import pyarrow as pa
    import pyarrow.parquet as pq

    domains = {name: Domain(name, domain.X, domain.y) for name, domain in load_set(data).items()}
    warmup, stream = split(domains.pop(target))
    whole = parquet.PARTITION  # so that every source has several
    parquet.PARTITION = 2**18
    with tempfile.TemporaryDirectory() as where:
        for name, domain in domains.items():
            (Path(where) / name).mkdir()
            X = dense(domain.X)
            y = np.asarray(domain.y)
            for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
                columns = {f"f{j}": np.ascontiguousarray(X[rows, j]) for j in range(X.shape[1])}
                table = pa.table(columns | {"the label": pa.array(y[rows].tolist())})
                pq.write_table(table, Path(where) / name / f"{i}.parquet", row_group_size=100)
        parts = [ParquetSource(Path(where) / name, "the label", name, jobs=1) for name in domains]

        def both(method: str, seed: int) -> list[Any]:
            made = [OnlineTransferClassifier(method, random_state=seed) for _ in range(2)]
            made[0].fit_domains(
                parts, Domain(warmup.name, warmup.X, feature_names=parts[0].feature_names)
            )
            made[1].fit_domains(list(domains.values()), warmup)
            return [clf.predict_then_learn(stream.X, stream.y) for clf in made]

        linear = both("hedgerow-linear", 0)
        wrong = [
            [int((labels != stream.y).sum()) for labels in both("hedgerow", seed)]
            for seed in range(seeds)
        ]
    parquet.PARTITION = whole
    pairs = "; ".join(f"{ours}, {memory}" for ours, memory in wrong)
    points = 100 * float(np.mean([ours - memory for ours, memory in wrong])) / len(stream.X)
    figures = {
        "different": int((linear[0] != linear[1]).sum()), "mistakes, part by part and from memory": pairs,
        "points more": points,
    }  # fmt: skip
    return Row(
        {"what": f"{data}/{target}", "on": "both ways"},
        figures,
        {"different": "== 0", "points more": "<= 0.3"},
    )
