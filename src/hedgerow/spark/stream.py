"""From two streams, instances and labels, to one of results: columns, shards of keys as states of Spark, results."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.values import plain
from hedgerow.fleet import Base
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.spark.shard import (
    ANSWER,
    DEAD_LETTER,
    INSTANCE,
    LABEL,
    LABELS,
    NEW,
    NO_ORDER,
    PREDICTION,
    RESULTS,
    Query,
    Result,
    Rows,
    Settings,
    Shard,
    Turn,
    dump_parts,
    new_token,
    of_ipc,
    states_in,
    table_of,
    to_ipc,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONFIG = {
    PROVIDER: ROCKSDB,
    # a batch writes what it changed, not every shard's state
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
JAVA = "apt-get install openjdk-17-jre-headless"
ABOUT, PARTS = "about", "parts"  # the names of a shard's two states
STATES = pa.schema({"key": pa.string(), "state": pa.binary(), "events": pa.binary()})
LEARNED_STATES = pa.schema({"key": pa.string(), "state": pa.binary(), "seen": pa.int64(), "mistakes": pa.int64()})


def session(master: str | None = None, name: str = "hedgerow", config: dict[str, str] | None = None) -> SparkSession:
    """A session with RocksDB for states, whose Python workers run this Python unless PYSPARK_PYTHON names another."""
    from pyspark.sql import SparkSession

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise HedgerowError(f"Spark needs Java 17 or later, and there is none: {JAVA}, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for option, value in {**CONFIG, **(config or {})}.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()


@contextmanager
def quiet_about_pandas() -> Iterator[None]:
    """Spark 4.3 warns of pandas 3 at every use; what is used here is tested with it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        yield


# -- which columns hold what, checked before anything runs ------------------------------------------------------------
WHOLE = ("tinyint", "smallint", "int", "bigint")
HELD_BY = {"string": ("string",), "bigint": WHOLE, "double": ("float", "double"), "boolean": ("boolean",)}


@dataclass(frozen=True)
class Columns:
    """The names of columns. `order` is a column of times or whole numbers, the same in instances and labels.

    With `order`, a key's rows of a batch are taken in it, so that the result does not depend on where batches are cut;
    without, a batch's instances come first, by their ids, then its labels. `features` are names of columns, or the name
    of one column of arrays; by default those of the base, or all columns that are nothing else. For a base of tables
    they are its columns as they are (text, numbers, dates, gaps), or arrays of what `base.clf.as_matrix` made of them.
    """

    key: str = "key"
    id: str = "id"
    label: str = "label"
    order: str | None = None
    features: tuple[str, ...] | str | None = None

    def of_instances(self, df: DataFrame, base: Base, labelled: bool = False) -> DataFrame:
        """Instances as a shard takes them: key, kind, id, order, x, label; all but the order and numbers are text."""
        what, names = "the history" if labelled else "instances", self.features_of(df, base)
        if isinstance(names, str):
            x = _column(names).cast("array<double>")
        elif base.clf.table_ is not None:
            x = F.to_json(F.struct(*(_column(name).alias(name) for name in names)))
        else:
            x = F.array(*(_column(name).cast("double") for name in names))
        return self._common(df, what, INSTANCE, x, self._label(df, base) if labelled else F.lit(None).cast("string"))

    def of_labels(self, df: DataFrame, base: Base, x: str) -> DataFrame:
        """Labels in the same form; `x` is the type of that column."""
        return self._common(df, "labels", ANSWER, F.lit(None).cast(x), self._label(df, base))

    def key_type(self, df: DataFrame, what: str) -> str:
        """The type of the keys in Spark."""
        found = _type(df, self.key, what)
        if found not in ("string", *WHOLE):
            raise InputError(f"{what}: keys are text or whole numbers, {self.key!r} is {found}; cast it to string")
        return found

    def features_of(self, df: DataFrame, base: Base) -> tuple[str, ...] | str:
        """The columns of features, or the one of arrays."""
        given, table = self.features, base.clf.table_
        if isinstance(given, str):
            found = _type(df, given, "instances")
            if not found.startswith("array<"):
                raise InputError(f"instances: features={given!r} is {found}; give an array column, or several names")
            return given
        if table is not None:
            names = tuple(name for name in table.names if name in df.columns) if given is None else tuple(given)
            if not set(names) & set(table.names):
                raise InputError(f"instances: none of the columns of the base ({', '.join(table.names[:8])}) is there")
            return names
        given = given if given is not None else getattr(base.clf, "feature_names_in_", None)
        taken = {self.key, self.id, self.label, self.order}
        names = tuple(name for name in df.columns if name not in taken) if given is None else tuple(map(str, given))
        for name in names:
            if (kind := _type(df, name, "instances")) not in (*WHOLE, "float", "double", "boolean"):
                raise InputError(f"instances: the feature {name!r} is {kind}; cast it to double, or name the features")
        if len(names) != base.n_features:
            raise InputError(
                f"instances: {len(names)} features ({', '.join(names[:8])}), the base has {base.n_features}; "
                "name them in Columns(features=...)"
            )
        return names

    def _common(self, df: DataFrame, what: str, kind: int, x: Column, label: Column) -> DataFrame:
        self.key_type(df, what)
        if _type(df, self.id, what) not in ("string", *WHOLE):
            raise InputError(f"{what}: ids are text or whole numbers; cast {self.id!r} to string")
        return df.select(
            _column(self.key).cast("string").alias("key"),  # as text: pandas makes floats of whole numbers and nulls
            F.lit(kind).cast("int").alias("kind"),
            _column(self.id).cast("string").alias("id"),
            F.coalesce(self._order(df, what), F.lit(NO_ORDER)).alias("order"),
            x.alias("x"),
            label.alias("label"),
        )

    def _order(self, df: DataFrame, what: str) -> Column:
        if self.order is None:
            return F.lit(0).cast("bigint")
        found = _type(df, self.order, what)
        if found == "timestamp":
            return F.unix_micros(_column(self.order))
        if found not in WHOLE:
            raise InputError(f"{what}: the order {self.order!r} is {found}; give a timestamp or whole numbers")
        return _column(self.order).cast("bigint")

    def _label(self, df: DataFrame, base: Base) -> Column:
        wanted, found = LABELS[label_type(base)][0], _type(df, self.label, "labels")
        if found not in HELD_BY[wanted]:
            what = "classes" if len(base.classes) else "numbers"
            raise InputError(f"labels: {self.label!r} is {found}, the {what} of the base are {wanted}; cast it")
        return _column(self.label).cast("string")


def label_type(base: Base) -> type:
    """The one Python type of all classes; a regressor has numbers."""
    if isinstance(base.clf, OnlineTransferRegressor):
        return float
    kinds = {type(plain(label)) for label in base.classes}
    if len(kinds) != 1 or not kinds <= set(LABELS):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(
            f"the classes of the base are of type {names}; Spark's columns hold one of text, int, float, bool"
        )
    return kinds.pop()


def _type(df: DataFrame, name: str, what: str) -> str:
    if name not in df.columns:
        raise InputError(f"{what}: there is no column {name!r} among {', '.join(df.columns)}; name it in Columns(...)")
    return df.schema[name].dataType.simpleString()


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


# -- shards as states of Spark -----------------------------------------------------------------------------------------


class Sent:
    """The base as bytes that Spark broadcasts, once a machine, looked up when they are needed first.

    A `Broadcast` inside a processor is looked up when the processor is read; where Spark asks a processor for its
    schema there is none, and it would fail.
    """

    def __init__(self, broadcast: Any = None, number: int | None = None) -> None:
        self._broadcast, self._number = broadcast, number

    def __reduce__(self) -> tuple[Any, ...]:
        _, (number,) = self._broadcast.__reduce__()  # which notes that tasks need it
        return Sent, (None, number)

    @property
    def value(self) -> bytes:
        """The bytes, at a worker or at home."""
        from pyspark.core.broadcast import _from_id

        found = self._broadcast if self._broadcast is not None else _from_id(self._number or 0)
        return bytes(found.value)


# What a Python worker keeps between two batches.
_bases: dict[bytes, Base] = {}
_shards: dict[tuple[Shared, int], Shard] = {}


@dataclass(frozen=True)
class Shared:
    """What the processor of every partition gets: small, but for the base, which Spark broadcasts once a machine."""

    digest: bytes
    query: Query
    key: str  # the type of the keys in Spark
    sent: Sent = field(compare=False)

    @classmethod
    def of(cls, df: DataFrame, base: Base, columns: Columns, settings: Settings, what: str) -> Shared:
        """Of a stream or table of instances."""
        names: Any = columns.features_of(df, base)
        if isinstance(names, str):
            names = tuple(f"{names}[{i}]" for i in range(base.n_features))
        elif base.clf.table_ is not None:
            names = None
        query = Query(names, label_type(base), columns.order is not None, settings)
        sent = Sent(df.sparkSession.sparkContext.broadcast(base.to_bytes()))
        return cls(base.digest, query, columns.key_type(df, what), sent)

    @property
    def base(self) -> Base:
        """Read from what was broadcast once a process."""
        if self.digest not in _bases:
            base = Base.from_bytes(self.sent.value)
            if base.digest != self.digest:
                raise InputError(
                    f"the base that was sent has the digest {base.digest.hex()[:12]}, not {self.digest.hex()[:12]}; "
                    "install the same hedgerow on every worker"
                )
            _bases[self.digest] = base
        return _bases[self.digest]

    def typed(self, results: DataFrame) -> DataFrame:
        """Results whose keys and labels are text, with these as they were."""
        return results.withColumns(
            {"key": F.col("key").cast(self.key), "label": F.col("label").cast(LABELS[self.query.label][0])}
        )

    def shard_of(self, df: DataFrame) -> DataFrame:
        """With the shard of each key."""
        return df.withColumn("shard", F.expr(f"cast(pmod(xxhash64(key), {self.query.settings.shards}) as int)"))

    def begun(self, spark: SparkSession, states: DataFrame | None) -> DataFrame:
        """What the first batch of a checkpoint begins with: a row for every shard, and the states of keys.

        So a checkpoint knows all of its shards, and a query with another number of them is refused whatever its keys.
        """
        shards = spark.range(self.query.settings.shards).select(
            F.lit(None).cast("string").alias("key"),
            F.lit(None).cast("binary").alias("state"),
            F.lit(None).cast("binary").alias("events"),
            F.col("id").cast("int").alias("shard"),
        )
        return shards if states is None else shards.unionByName(self.shard_of(states))


class Shards(StatefulProcessor):
    """The shards of a partition. Spark keeps the token of a shard and its timer in one value, and its parts in a list.

    The type of `key` in that value is that of the keys, for `states_of`; it is always null.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def init(self, handle: Any) -> None:
        """Spark is about to begin with a partition."""
        self._handle = handle
        self._about = handle.getValueState(ABOUT, f"token binary, timer bigint, shards int, key {self.shared.key}")
        self._parts = handle.getListState(PARTS, "part binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """The rows of a shard in a batch."""
        given = Rows.of(of_ipc(data for frame in rows for data in frame["rows"]))
        try:
            results = self._turn(int(key[0]), given, now_of(timerValues))
        except InputError as error:  # nothing was written: the shard stays as it is, the others go on
            turn = Turn(given, np.empty((0, 0)))
            for i in range(len(given.key)):
                turn.dead_letter(i, f"key {given.key[i]!r}: {error}")
            results = list(turn.results.values())
        yield frame_of(results)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """An event of a shard has waited long enough."""
        try:
            results = self._turn(int(key[0]), None, now_of(timerValues))
        except InputError:  # the shard's next row says what is wrong with its state
            return
        yield frame_of(results)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """Every shard begins, with keys that learned elsewhere: one whose state is none is told at its first row."""
        now, token, base = now_of(timerValues), b"", self.shared.base
        states = initialState[initialState["state"].notna()]
        rows = [(row.key, bytes(row.state), bytes(row.events), now) for row in states.itertuples()]
        if rows:
            token = new_token()
            parts = dump_parts(rows, token, self.shared.digest, Shard(base, self.shared.query).about(now))
            self._parts.appendList([(part,) for part in parts])
        if rows or not self._about.exists():
            self._about.update((token, 0, self.shared.query.settings.shards, None))

    def close(self) -> None:
        """Nothing is to be closed."""

    def _turn(self, number: int, rows: Rows | None, now: float) -> list[Result]:
        """Rows, or (None) the end of a timer."""
        token, timer = self._known()
        shard = _shards.pop((self.shared, number), None)  # where a batch fails half-way, nobody finds what it left
        if shard is None or shard.token != token:
            shard = shard or Shard(self.shared.base, self.shared.query)
            shard = shard.follow([bytes(part) for (part,) in self._parts.get()])
        gc.disable()  # an event is some objects without cycles, and there are millions
        try:
            results = shard.wake(now) if rows is None else shard.take(rows, now)
        finally:
            gc.enable()
        parts, whole = shard.commit()
        if parts:
            (self._parts.put if whole else self._parts.appendList)([(part,) for part in parts])
        before, deadline = timer, shard.deadline
        if rows is None:
            timer = 0
        if deadline is not None and not timer:
            timer = int(1000 * deadline) + 1
            self._handle.registerTimer(timer)
        if shard.token != token or timer != before:
            self._about.update((shard.token, timer, self.shared.query.settings.shards, None))
        _shards[self.shared, number] = shard
        return results

    def _known(self) -> tuple[bytes, int]:
        """The token and the timer of the shard."""
        wanted, about = self.shared.query.settings.shards, self._about.get()
        # the first batch of a checkpoint has begun all of its shards, also those without a row
        token, timer, shards, _ = about or (b"", 0, None, None)
        if shards != wanted:
            has = "another number of shards" if shards is None else f"another number of shards, {shards},"
            raise HedgerowError(
                f"the checkpoint has {has} than Settings(shards={wanted}): keep its number, or begin a new checkpoint "
                "with states=states_of(spark, checkpoint)"
            )
        return bytes(token), int(timer)


def now_of(timers: Any) -> float:
    """The time of a batch in seconds; 0 where Spark's clock does not run."""
    return float(max(0, timers.getCurrentProcessingTimeInMs()) / 1000)


def pack_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of each shard as one value.

    Spark's interface for pandas makes Python's objects of every value of every row; rows cross it as Arrow's bytes.
    """
    for batch in batches:
        table = pa.table(batch).sort_by("shard")
        shards, starts = np.unique(table["shard"].to_numpy(), return_index=True)
        rows = table.drop_columns("shard")
        values = [to_ipc(rows.slice(a, b - a)) for a, b in pairwise([*starts.tolist(), len(rows)])]
        yield pa.record_batch([pa.array(shards, pa.int32()), pa.array(values, pa.binary())], ("shard", "rows"))


def frame_of(results: Sequence[Result]) -> pd.DataFrame:
    """Results as Spark takes them; columns of Arrow need no conversion."""
    import pandas as pd

    return table_of(results, RESULTS).to_pandas(types_mapper=pd.ArrowDtype)


def learn_stream(
    instances: DataFrame,
    labels: DataFrame,
    base: Base,
    columns: Columns | None = None,
    settings: Settings | None = None,
    states: DataFrame | None = None,
) -> DataFrame:
    """Predictions of one model a key, what became of every label, and dead letters: `shard.Result` has the columns.

    instances : streaming; key, id and features. labels : streaming; key, id and label, in any order, late or repeated.
    states : key, state and perhaps events, with which keys begin (of `learned_states`, or `states_of` another query);
    read once, by the first batch of a new checkpoint.
    """
    columns, settings = columns or Columns(), settings or Settings()
    found = instances.sparkSession.conf.get(PROVIDER, "")
    if found != ROCKSDB:
        raise InputError(f"{PROVIDER} is {found!r}: states of keys need {ROCKSDB}; hedgerow.spark.session() sets it")
    for what, df in (("instances", instances), ("labels", labels)):
        if not df.isStreaming:
            raise InputError(f"{what}: this is no stream; read it by spark.readStream, or use replay() for a table")
    kinds = [columns.key_type(df, what) for what, df in (("instances", instances), ("labels", labels))]
    if kinds[0] != kinds[1]:
        raise InputError(f"keys of instances are {kinds[0]}, those of labels {kinds[1]}; cast one to the other's type")
    rows = columns.of_instances(instances, base)
    rows = rows.unionByName(columns.of_labels(labels, base, rows.schema["x"].dataType.simpleString()))
    shared = Shared.of(instances, base, columns, settings, "instances")
    begun = shared.begun(instances.sparkSession, None if states is None else _checked_states(states, kinds[0]))
    with quiet_about_pandas():
        results = (
            shared.shard_of(rows)
            .mapInArrow(pack_rows, "shard int, rows binary")
            .groupBy("shard")
            .transformWithStateInPandas(
                Shards(shared),
                from_arrow_schema(RESULTS),
                "Append",
                "ProcessingTime" if settings.timed else "None",
                initialState=begun.groupBy("shard"),
            )
        )
    return shared.typed(results)


def _checked_states(states: DataFrame, key: str) -> DataFrame:
    found = {name: kind for name, kind in states.dtypes if name in ("key", "state")}
    if found != {"key": key, "state": "binary"}:
        raise InputError(f"states: needs the columns key ({key}) and state (binary), has {states.dtypes}")
    events = F.col("events") if "events" in states.columns else F.lit(None)
    empty = F.expr("X''")
    return states.select(
        F.col("key").cast("string").alias("key"),
        F.coalesce("state", empty).alias("state"),
        F.coalesce(events.cast("binary"), empty).alias("events"),
    )


def states_of(spark: SparkSession, checkpoint: str, batch: int | None = None) -> DataFrame:
    """Every key in a checkpoint after a batch, or the last one: key, state (bytes for `Base.member`), events.

    `learn_stream(states=...)` goes on from it in a new checkpoint, perhaps with another number of shards.
    """

    def read(name: str) -> DataFrame:
        reader = spark.read.format("statestore").option("stateVarName", name).option("flattenCollectionTypes", "false")
        return (reader if batch is None else reader.option("batchId", batch)).load(checkpoint)

    def of_shards(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for parts in batch["parts"]:
                yield from table_of(list(states_in(parts.as_py())), STATES).to_batches()

    key = dict(read(ABOUT).select("value.key").dtypes)["key"]
    states = read(PARTS).select(F.col("list_value.part").alias("parts"))
    states = states.mapInArrow(of_shards, from_arrow_schema(STATES))
    return states.withColumn("key", F.col("key").cast(key))


# -- history as a table ------------------------------------------------------------------------------------------------


def replay(history: DataFrame, base: Base, columns: Columns | None = None) -> DataFrame:
    """Predictions as they would have been, with `right` where a label was there, and dead letters.

    history : a table of key, id, features, label and, in `columns.order`, the order; the rows of a shard must fit in
    memory.
    """

    shared, results = _by_shard(history, base, columns, lambda shard, rows: shard.replay(rows), RESULTS)
    return shared.typed(results)


def learned_states(history: DataFrame, base: Base, columns: Columns | None = None) -> DataFrame:
    """What every key learns from its history: key, state, seen, mistakes. `learn_stream(states=...)` goes on from it.

    A mistake of a regressor is a label outside its interval.
    Rows that cannot be used are left out; `replay` names them.
    """

    def of_shard(shard: Shard, rows: Rows) -> list[tuple[Any, ...]]:
        right: dict[Any, list[bool]] = {}
        for result in shard.replay(rows):
            if result.kind == PREDICTION:
                right.setdefault(result.key, []).extend([] if result.right is None else [result.right])
        states = {key: state for key, state, *_ in shard.entries()}
        return [(key, states[key], len(own), own.count(False)) for key, own in right.items()]

    shared, states = _by_shard(history, base, columns, of_shard, LEARNED_STATES)
    return states.withColumn("key", F.col("key").cast(shared.key))


def _by_shard(
    history: DataFrame,
    base: Base,
    columns: Columns | None,
    of_shard: Callable[[Shard, Rows], Sequence[tuple[Any, ...]]],
    schema: pa.Schema,
) -> tuple[Shared, DataFrame]:
    columns = columns or Columns()
    if history.isStreaming:
        raise InputError("the history is a stream; read it by spark.read, or use learn_stream()")
    rows = columns.of_instances(history, base, labelled=True)
    shared = Shared.of(history, base, columns, Settings(), "the history")

    def of_table(table: pa.Table) -> pa.Table:
        return table_of(of_shard(Shard(shared.base, shared.query), Rows.of(table)), schema)

    return shared, shared.shard_of(rows).groupBy("shard").applyInArrow(of_table, from_arrow_schema(schema))


# -- results -----------------------------------------------------------------------------------------------------------


def predictions(results: DataFrame) -> DataFrame:
    """Of results, the predictions: key, id, label, probability, status, and of numbers low and high (the interval)."""
    names = ("key", "id", "label", "probability", "status", "low", "high")
    return results.where(F.col("kind") == PREDICTION).select(*names)


def outcomes(results: DataFrame) -> DataFrame:
    """Of results, what became of labels: key, id, label, status, right, detail."""
    return results.where(F.col("kind") == LABEL).select("key", "id", "label", "status", "right", "detail")


def dead_letters(results: DataFrame) -> DataFrame:
    """Of results, the rows that could not be used: key, id, detail (the reason), row (as JSON)."""
    return results.where(F.col("kind") == DEAD_LETTER).select("key", "id", "detail", "row")


def metrics(results: DataFrame) -> DataFrame:
    """A row a key: predictions, labels by status, mistakes among the labels learned. Of a batch, not of a stream.

    A mistake of a regressor is a label outside its interval.
    """

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    kind, status = F.col("kind"), F.col("status")
    return results.groupBy("key").agg(
        count((kind == PREDICTION) & (status == NEW)).alias("predictions"),
        count(status == "learned").alias("learned"),
        count((status == "learned") & ~F.col("right")).alias("mistakes"),
        count((kind == LABEL) & (status != "learned")).alias("other_labels"),
        count(kind == DEAD_LETTER).alias("dead_letters"),
    )
