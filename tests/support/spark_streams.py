"""Streams of files for tests: a folder of JSON lines a stream, a file a batch."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Domain
from hedgerow.fleet import Base

FEATURES = ["x0", "x1", "x2", "x3"]
INSTANCES = "key string, id string, t bigint, x0 double, x1 double, x2 double, x3 double"
LABELS = "key string, id string, t bigint, label string"


@pytest.fixture(scope="session")
def base() -> Base:
    """Two sources of four features whose values single precision holds; classes are text."""
    rng = np.random.default_rng(0)
    domains = []
    for name, shift in (("a", 0.0), ("b", 0.5)):
        X = rng.normal(size=(60, 4)).astype(np.float32).astype(np.float64)
        domains.append(Domain(name, X + shift, np.where(X[:, 0] > 0, "up", "down")))
    return Base.fit(domains, "hedgerow-linear")


def rows_of(rows: Any) -> Any:
    """Tuples (key, kind, id, order, x, label) as a shard takes them; x: an array of numbers, or text."""
    import pyarrow as pa

    from hedgerow.spark.records import Rows

    key, kind, id, order, x, label = map(list, zip(*rows, strict=True))
    cells = pa.string() if any(isinstance(each, str) for each in x) else pa.list_(pa.float64())
    return Rows(key, kind, id, order, pa.array(x, cells), label)


def instance(key: Any, id: Any, x: Any, t: int = 0) -> dict[str, Any]:
    return {
        "key": key,
        "id": id,
        "t": t,
        **dict(zip(FEATURES, np.asarray(x).tolist(), strict=True)),
    }


def label(key: Any, id: Any, y: Any, t: int = 0) -> dict[str, Any]:
    return {"key": key, "id": id, "t": t, "label": y}


class Folder:
    """Instances and labels as files; `run` works off what is there."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self._files = 0
        for name in ("instances", "labels"):
            (where / name).mkdir(parents=True)

    def add(self, instances: list[dict[str, Any]], labels: list[dict[str, Any]]) -> None:
        self._files += 1
        for name, rows in (("instances", instances), ("labels", labels)):
            text = "".join(json.dumps(row) + "\n" for row in rows)
            path = self.where / name / f"{self._files:04d}.json"
            path.write_text(text, encoding="utf-8")
            os.utime(
                path, (self._files, self._files)
            )  # Spark takes files by their times, which may be equal

    def stream(self, spark, name: str, schema: str):
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.where / name))

    def run(
        self, spark, base, instances=INSTANCES, labels=LABELS, until=None, **options: Any
    ) -> list[Any]:
        """Everything that is there, or until the results say so; the results of all runs so far."""
        from hedgerow.spark import learn_stream

        made = learn_stream(
            self.stream(spark, "instances", instances),
            self.stream(spark, "labels", labels),
            base,
            **options,
        )
        out = str(self.where / "out")
        checkpoint = self.checkpoint
        writer = (
            made.writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", checkpoint)
        )
        if until is None:
            writer.trigger(availableNow=True).start().awaitTermination()
            return spark.read.schema(made.schema).parquet(out).collect()
        query = writer.trigger(processingTime="200 milliseconds").start()
        end = time.monotonic() + 300
        while not (
            self._any(out) and until(spark.read.schema(made.schema).parquet(out).collect())
        ):  # Spark's clock never ends a query
            assert time.monotonic() < end, query.lastProgress
            time.sleep(0.2)
        query.stop()
        return spark.read.schema(made.schema).parquet(out).collect()

    @staticmethod
    def _any(out: str) -> bool:
        return any(Path(out).glob("_spark_metadata/*"))

    @property
    def checkpoint(self) -> str:
        return str(self.where / "checkpoint")
