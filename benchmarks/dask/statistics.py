"""Statistics of a Parquet folder that is larger than memory: how much is resident, how exact, how fast.

    python benchmarks/dask/statistics.py --gigabytes 20 --folder /var/tmp

writes a synthetic folder of that size, takes moments, class sums and scatter of it on two workers, reads the same bytes
plainly on the same workers before and after, compares a part of it with what memory gives, and deletes the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client

import hedgerow.dask
from hedgerow.core.moments import Moments
from hedgerow.dask.cluster import Place, connected
from hedgerow.data import read

MEASURED = Path(__file__).parent / "measured" / "statistics.json"
GROUP = 2**17  # rows of a row group
FILE = 2**28  # bytes of a file, about
CLASSES = 10


def write_file(folder: str, number: int, rows: int, features: int) -> None:
    """Normal numbers about the means of ten classes; the sum of many would show a lost row."""
    rng = np.random.default_rng(number)
    schema = pa.schema([*((f"f{j}", pa.float64()) for j in range(features)), ("kind", pa.string())])
    path = Path(folder) / f"part-{number:04d}.parquet"
    means = np.random.default_rng(0).normal(size=(CLASSES, features))
    with pq.ParquetWriter(path, schema, use_dictionary=["kind"]) as file:
        for first in range(0, rows, GROUP):
            n = min(GROUP, rows - first)
            y = rng.integers(0, CLASSES, n)
            X = rng.standard_normal((n, features)) + means[y]
            columns = [pa.array(np.ascontiguousarray(X[:, j])) for j in range(features)]
            file.write_table(pa.table([*columns, pa.array([f"class {k}" for k in y])], schema=schema))


def generate(folder: str, size: int, features: int, workers: int) -> int:
    """Files of so many bytes in all; the bytes that they have."""
    rows = FILE // (8 * features)
    count = max(2, round(size / FILE))
    with ProcessPoolExecutor(workers) as pool:
        list(pool.map(write_file, [folder] * count, range(count), [rows] * count, [features] * count))
    return sum(path.stat().st_size for path in Path(folder).iterdir())


def plain_read(path: str) -> int:
    """Every column of a file through the same library, as numbers nobody looks at."""
    rows = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(16384, use_threads=False):
            rows += batch.num_rows
    return rows


class Resident:
    """The largest sum of what the workers and this process had in memory, looked at ten times a second."""

    def __init__(self, client: Client) -> None:
        self.pids = [os.getpid(), *client.run(os.getpid).values()]
        self.most = self.most_of_one = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            sizes = [psutil.Process(pid).memory_info().rss for pid in self.pids]
            self.most, self.most_of_one = max(self.most, sum(sizes)), max(self.most_of_one, *sizes)

    def __enter__(self) -> Resident:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def timed(client: Client, work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds that passed, and seconds that processors worked for the workers (no other process counts)."""
    pids = list(client.run(os.getpid).values())
    began, worked = time.perf_counter(), _processor_seconds(pids)
    found = work()
    return {"seconds": time.perf_counter() - began, "processor": _processor_seconds(pids) - worked}, found


def _processor_seconds(pids: list[int]) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def exactness(client: Client, path: Path) -> float:
    """The largest relative difference between the statistics of one file in partitions and in memory."""
    found = hedgerow.dask.statistics(path, "kind", client=client)
    domain = read(path, label="kind")
    codes = np.searchsorted(found.classes, np.asarray(domain.y))
    plain = Moments.of(domain.X, codes, len(found.classes), scatter=True)
    worst = 0.0
    for name in ("count", "total", "class_counts", "class_totals", "scatter"):
        a, b = getattr(found.moments, name), getattr(plain, name)
        worst = max(worst, float(np.abs(a - b).max() / np.abs(b).max()))
    gram = domain.X.T @ domain.X
    return max(worst, float(np.abs(found.gram - gram).max() / np.abs(gram).max()))


def measure(folder: str, features: int, size: int, workers: int) -> dict[str, Any]:
    files = sorted(map(str, Path(folder).iterdir()))
    with connected(Place(workers=workers)) as client:
        hedgerow.dask.statistics(files[0], "kind", client=client)  # everybody has imported everything

        def reading() -> int:
            return sum(client.gather(client.map(plain_read, files, pure=False)))

        before, rows = timed(client, reading)
        with Resident(client) as resident:
            took, found = timed(client, lambda: hedgerow.dask.statistics(folder, "kind", client=client))
        after, _ = timed(client, reading)
        counted = int(found.moments.count[0])
        assert counted == rows == int(found.moments.class_counts.sum()), (counted, rows)
        return {
            "bytes": size,
            "files": len(files),
            "rows": rows,
            "features": features,
            "workers": workers,
            "read": [before, after],
            "statistics": took,
            "ratio": {key: 2 * took[key] / (before[key] + after[key]) for key in took},
            "resident_all": resident.most,
            "resident_largest_process": resident.most_of_one,
            "largest_relative_difference_on_a_part": exactness(client, Path(files[0])),
            "load": os.getloadavg()[0],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the folder is made")
    parser.add_argument("--out", type=Path, default=MEASURED)
    given = parser.parse_args()
    size = int(given.gigabytes * 1e9)
    free = shutil.disk_usage(given.folder).free
    if free < 1.5 * size:
        sys.exit(f"error: {given.folder} has {free / 1e9:.0f} GB free; 1.5 times {given.gigabytes:g} GB are wanted")
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="hedgerow-statistics-") as folder:
        written = generate(folder, size, given.features, given.workers)
        found = measure(folder, given.features, written, given.workers)
    print(json.dumps(found, indent=1))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
