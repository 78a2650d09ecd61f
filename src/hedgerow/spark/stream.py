"""From two streams, instances and labels, to one of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.core.errors import InputError
from hedgerow.fleet import Base
from hedgerow.spark.columns import LABELS, Columns, label_type
from hedgerow.spark.processor import STATE, KeyedLearner, Shared
from hedgerow.spark.results import schema_of
from hedgerow.spark.sent import Sent
from hedgerow.spark.sessions import check_session, quiet_about_pandas
from hedgerow.spark.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def learn_stream(
    instances: DataFrame,
    labels: DataFrame,
    base: Base,
    columns: Columns | None = None,
    settings: Settings | None = None,
    states: DataFrame | None = None,
    processor: type[KeyedLearner] = KeyedLearner,
) -> DataFrame:
    """Predictions of one learner a key, what became of every label, and dead letters: `results.Result` has the columns.

    instances : streaming; key, id and features. labels : streaming; key, id and label, in any order, late or repeated.
    states : key and state, with which keys begin (of `learned_states`, or `states_of` another query); read once, by the
    first batch of a new checkpoint.
    """
    columns, settings = columns or Columns(), settings or Settings()
    check_session(instances.sparkSession)
    _check_streams(instances, labels, columns)
    key, kind = columns.key_type(instances, "instances"), label_type(base)
    both = columns.of_instances(instances, base).unionByName(columns.of_labels(labels, base))
    sent = Sent.by(instances.sparkSession.sparkContext, base.to_bytes())
    names = columns.names(instances, base)
    shared = Shared(base.digest, sent, names, kind, columns.order is not None, settings)
    with quiet_about_pandas():
        return both.groupBy("key").transformWithStateInPandas(
            processor(shared),
            schema_of(key, LABELS[kind][0]),
            "Append",
            "ProcessingTime" if settings.timed else "None",
            initialState=None if states is None else _checked_states(states, key).groupBy("key"),
        )


def states_of(spark: SparkSession, checkpoint: str, batch: int | None = None) -> DataFrame:
    """The state of every key in a checkpoint: key, state (bytes for `Base.member`), after a batch or the last one."""
    from pyspark.sql import functions as F

    reader = spark.read.format("statestore").option("stateVarName", STATE)
    if batch is not None:
        reader = reader.option("batchId", batch)
    found = reader.load(checkpoint)
    return found.select(F.col("key.key").alias("key"), F.col("value.learned").alias("state"))


def _check_streams(instances: DataFrame, labels: DataFrame, columns: Columns) -> None:
    for what, df in (("instances", instances), ("labels", labels)):
        if not df.isStreaming:
            raise InputError(f"{what}: this is no stream; read it by spark.readStream, or use replay() for a table")
    found = [columns.key_type(df, what) for what, df in (("instances", instances), ("labels", labels))]
    if found[0] != found[1]:
        raise InputError(f"keys of instances are {found[0]}, those of labels {found[1]}; cast one to the other's type")


def _checked_states(states: DataFrame, key: str) -> DataFrame:
    found = {name: kind for name, kind in states.dtypes if name in ("key", "state")}
    if found != {"key": key, "state": "binary"}:
        raise InputError(f"states: needs the columns key ({key}) and state (binary), has {states.dtypes}")
    return states.select("key", "state")
