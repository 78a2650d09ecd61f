"""One learner a key on Apache Spark: streams of instances and labels in, predictions and outcomes out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hedgerow.core.errors import require
from hedgerow.spark.sessions import quiet_about_pandas

if TYPE_CHECKING:
    from hedgerow.spark.columns import Columns
    from hedgerow.spark.results import dead_letters, metrics, outcomes, predictions
    from hedgerow.spark.sessions import session
    from hedgerow.spark.settings import Settings
    from hedgerow.spark.stream import learn_stream, learned_states, replay, states_of

for _package in ("pyspark", "pandas", "pyarrow", "google.protobuf"):
    require(_package, extra="spark")
with quiet_about_pandas():
    require("pyspark.sql.streaming", extra="spark")

# Names are loaded when first used, so that what is missing was told before.
_HOMES = {
    "Columns": "columns",
    "Settings": "settings",
    "dead_letters": "results",
    "learn_stream": "stream",
    "learned_states": "stream",
    "metrics": "results",
    "outcomes": "results",
    "predictions": "results",
    "replay": "stream",
    "session": "sessions",
    "states_of": "stream",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hedgerow.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hedgerow.spark.{_HOMES[name]}"), name)
