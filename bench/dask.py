"""On a Dask cluster of this machine: experiments on one and two workers, statistics of a folder larger than memory,
and models fitted from partitions."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from bench.record import Row
from bench.tasks import experiments_differ, run_experiments
from hedgerow import Domain, OnlineTransferClassifier, split
from hedgerow import load as load_set
from hedgerow.core.arrays import dense

GROUP, FILE, CLASSES = 2**17, 2**28, 10  # rows of a row group, bytes of a file (about)
TASKS = (("digits", "shifted"), ("office-caltech", "webcam"), ("office-caltech", "amazon"), ("pie", "PIE5"))


def dask(
    quick: bool, trials: int = 10, gigabytes: float = 1.0, folder: str = "/var/tmp", seeds: int = 2
) -> Iterator[Row]:
    """Seconds of the paper's table on one and on two workers that stay up (in turns), and in processes without Dask;
    rows of results that differ from those. Moments, class sums and scatter of a Parquet folder in one pass on two
    workers, over a plain read of the same bytes by the same library, with what all processes held at most. Then
    `hedgerow-linear` fitted from Parquet in many partitions beside the same from memory: predictions along the stream
    that differ; and mistakes of `hedgerow`, whose sample of rows is another one, fitted both ways."""
    from hedgerow.dask.cluster import Place, connected

    with connected(Place(workers=1)) as one, connected(Place(workers=2)) as two, tempfile.TemporaryDirectory() as out:
        engines = {"2 workers": two, "1 worker": one, "processes": None}
        seconds = {}
        for name, client in engines.items():
            engine = "local" if client is None else str(client.scheduler.address).replace("tcp://", "dask://")
            run_experiments("dslr", "pa,oddm", 2, Path(out) / f"warm {name}", engine)  # all is imported and compiled
            began = time.perf_counter()
            run_experiments("dslr" if quick else "all", "pa" if quick else "all", trials, Path(out) / name, engine)
            seconds[name] = time.perf_counter() - began
        for name in engines:
            different = experiments_differ(Path(out) / name, Path(out) / "processes")
            figures = {"s": seconds[name], "x 1 worker": seconds["1 worker"] / seconds[name], "different": different}
            yield Row({"what": "the paper's table", "on": name}, figures, {"different": "== 0"})
        yield _statistics(two, 0.05 if quick else gigabytes, tempfile.gettempdir() if quick else folder)
        for task in TASKS[: 1 if quick else None]:
            yield _from_partitions(two, *task, 1 if quick else seeds)


def write_file(folder: str, number: int, rows: int, features: int) -> None:
    """Normal numbers about the means of ten classes; the sum of many would show a lost row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(number)
    schema = pa.schema([*((f"f{j}", pa.float64()) for j in range(features)), ("kind", pa.string())])
    means = np.random.default_rng(0).normal(size=(CLASSES, features))
    with pq.ParquetWriter(Path(folder) / f"part-{number:04d}.parquet", schema, use_dictionary=["kind"]) as file:
        for first in range(0, rows, GROUP):
            y = rng.integers(0, CLASSES, min(GROUP, rows - first))
            X = rng.standard_normal((len(y), features)) + means[y]
            columns = [pa.array(np.ascontiguousarray(X[:, j])) for j in range(features)]
            file.write_table(pa.table([*columns, pa.array([f"class {k}" for k in y])], schema=schema))


def plain_read(path: str) -> int:
    """Every column of a file through the same library, as numbers nobody looks at."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return sum(batch.num_rows for batch in file.iter_batches(16384, use_threads=False))


def _statistics(client: Any, gigabytes: float, where: str, features: int = 20) -> Row:
    import psutil

    import hedgerow.dask

    size = int(gigabytes * 1e9)
    if shutil.disk_usage(where).free < 1.5 * size:
        sys.exit(f"error: {where} has not 1.5 times {gigabytes:g} GB free")
    with tempfile.TemporaryDirectory(dir=where) as folder:
        count, rows = max(2, round(size / FILE)), min(FILE, size // 2) // (8 * features)
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(write_file, [folder] * count, range(count), [rows] * count, [features] * count))
        files = sorted(map(str, Path(folder).iterdir()))
        hedgerow.dask.statistics(files[0], "kind", client=client)  # everybody has imported everything
        pids = list(client.run(os.getpid).values())
        workers, most, over = [psutil.Process(pid) for pid in pids], [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.1):
                most[0] = max(most[0], sum(p.memory_info().rss for p in [*workers, psutil.Process()]))

        def timed(work: Callable[[], Any]) -> tuple[float, Any]:
            """Seconds that processors worked for the workers: no other process counts."""
            before = sum(sum(p.cpu_times()[:2]) for p in workers)
            result = work()
            return sum(sum(p.cpu_times()[:2]) for p in workers) - before, result

        reading = lambda: sum(client.gather(client.map(plain_read, files, pure=False)))  # noqa: E731
        before, total = timed(reading)
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        took, result = timed(lambda: hedgerow.dask.statistics(folder, "kind", client=client))
        over.set()
        thread.join()
        after, _ = timed(reading)
        assert int(result.moments.count[0]) == total == int(result.moments.class_counts.sum())
    figures = {"x a plain read (processor)": 2 * took / (before + after), "resident GB": most[0] / 1e9, "rows": total}
    goals = {"resident GB": "<= 2", "x a plain read (processor)": "<= 2"}
    return Row({"what": "statistics", "on": f"{gigabytes:g} GB"}, figures, goals)


def _from_partitions(client: Any, data: str, target: str, seeds: int, files: int = 3) -> Row:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import hedgerow.dask
    from hedgerow.dask import fitting

    domains = {name: Domain(name, domain.X, domain.y) for name, domain in load_set(data).items()}
    warmup, stream = split(domains.pop(target))
    whole, fitting.PARTITION = fitting.PARTITION, 2**18  # so that every source has several
    with tempfile.TemporaryDirectory() as where:
        folders = {name: Path(where) / name for name in domains}
        for name, domain in domains.items():
            folders[name].mkdir()
            X, y = dense(domain.X), np.asarray(domain.y)
            for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
                columns = {f"f{j}": np.ascontiguousarray(X[rows, j]) for j in range(X.shape[1])}
                table = pa.table(columns | {"the label": pa.array(y[rows].tolist())})
                pq.write_table(table, folders[name] / f"{i}.parquet", row_group_size=100)

        def both(method: str, seed: int) -> list[Any]:
            made = [OnlineTransferClassifier(method, random_state=seed) for _ in range(2)]
            hedgerow.dask.fit(made[0], folders, "the label", warmup, client=client)
            made[1].fit_domains(list(domains.values()), warmup)
            return [clf.predict_then_learn(stream.X, stream.y) for clf in made]

        linear = both("hedgerow-linear", 0)
        wrong = [[int((labels != stream.y).sum()) for labels in both("hedgerow", seed)] for seed in range(seeds)]
    fitting.PARTITION = whole
    pairs = "; ".join(f"{parts}, {memory}" for parts, memory in wrong)
    figures = {"different": int((linear[0] != linear[1]).sum()), "mistakes, from partitions and from memory": pairs}
    return Row({"what": f"{data}/{target}", "on": "partitions"}, figures, {"different": "== 0"})
