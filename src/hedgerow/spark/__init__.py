"""One learner a key on Apache Spark: streams of instances and labels in, predictions and outcomes out."""

from hedgerow.core.errors import require
from hedgerow.spark.session import quiet_about_pandas

for _package in ("pyspark", "pandas", "pyarrow", "google.protobuf"):
    require(_package, extra="spark")
with quiet_about_pandas():
    require("pyspark.sql.streaming", extra="spark")

from hedgerow.spark.columns import Columns  # noqa: E402
from hedgerow.spark.redis_streams import RedisStreams  # noqa: E402
from hedgerow.spark.replay import learned_states, replay  # noqa: E402
from hedgerow.spark.results import dead_letters, metrics, outcomes, predictions  # noqa: E402
from hedgerow.spark.session import session  # noqa: E402
from hedgerow.spark.settings import Settings  # noqa: E402
from hedgerow.spark.stream import learn_stream, states_of  # noqa: E402

__all__ = [
    "Columns",
    "RedisStreams",
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
