"""The streaming query under test, in a process of its own: python -m spark.job FOLDER --master 'local[2]'."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from hedgerow.fleet import Base
from hedgerow.spark import Columns, Settings, learn_stream, session
from hedgerow.spark.processor import KeyedLearner
from spark import processes
from spark.events import FEATURES
from spark.timed import Timed

INSTANCES = "key string, id string, t bigint, x0 double, x1 double, x2 double, x3 double"
LABELS = "key string, id string, t bigint, label bigint"
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.minBatchesToRetain": "10",
}


def run(folder: Path, master: str, timed: bool, cached: int):
    spark = session(master, config=CONFIG)
    base = Base.from_bytes((folder / "base").read_bytes())
    timings = folder / "timings"
    timings.mkdir(exist_ok=True)
    Timed.folder = str(timings)

    def stream(name, schema):
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))

    results = learn_stream(
        stream("instances", INSTANCES),
        stream("labels", LABELS),
        base,
        Columns(order="t", features=FEATURES),
        Settings(cached_keys=cached),
        processor=Timed.into(str(timings)) if timed else KeyedLearner,
    )
    began = time.monotonic()
    query = (
        results.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    about = {"seconds": time.monotonic() - began, "cpu": processes.cpu_of_tree()}
    about["batches"] = [
        {"id": p["batchId"], "rows": p["numInputRows"], **p["durationMs"]} for p in query.recentProgress
    ]
    (folder / "job.json").write_text(json.dumps(about), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master", default="local[2,8]")
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--cached", type=int, default=2000)
    given = parser.parse_args()
    run(given.folder, given.master, given.timed, given.cached)
