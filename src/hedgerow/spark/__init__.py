"""One model a key on Apache Spark: streams of instances and labels in, predictions and outcomes out."""

from __future__ import annotations

import warnings

from hedgerow.core.errors import require

for _package in ("pyspark", "pandas", "pyarrow", "google.protobuf"):
    require(_package, extra="spark")
with warnings.catch_warnings():
    # Spark 4.3 warns of pandas 3 at every use; what is used here is tested with it
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    from hedgerow.spark.shard import Settings
    from hedgerow.spark.stream import (
        Columns,
        dead_letters,
        learn_stream,
        learned_states,
        metrics,
        outcomes,
        predictions,
        replay,
        session,
        states_of,
    )

__all__ = [
    "Columns",
    "Settings",
    "dead_letters",
    "learn_stream",
    "learned_states",
    "metrics",
    "outcomes",
    "predictions",
    "replay",
    "session",
    "states_of",
]
