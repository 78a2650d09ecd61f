"""Apache Spark: one model a key over streams of instances and labels, and data frames as sources of a fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from hedgerow.core.errors import require

for _package in ("pyspark", "pandas", "pyarrow", "google.protobuf"):
    require(_package, extra="spark")


@contextmanager
def quiet_about_pandas() -> Iterator[None]:
    """Spark 4.3 warns of pandas 3 at every use; what is used here is tested with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


with quiet_about_pandas():
    from hedgerow.spark.records import Settings
    from hedgerow.spark.stream import (
        Columns,
        SparkSource,
        dead_letters,
        learn_stream,
        metrics,
        outcomes,
        predictions,
        session,
        states_of,
    )

__all__ = [
    "Columns",
    "Settings",
    "SparkSource",
    "dead_letters",
    "learn_stream",
    "metrics",
    "outcomes",
    "predictions",
    "session",
    "states_of",
]
