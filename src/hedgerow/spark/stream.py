"""From two streams, instances and labels, to one of results: columns, shards of keys as states of Spark, results.

And from data frames to the sums that a fit needs of its sources.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.core.values import plain
from hedgerow.fleet import Base
from hedgerow.rows.partitions import Layout, PartitionedSource, Pass
from hedgerow.spark import quiet_about_pandas
from hedgerow.spark.records import (
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
    Table,
    ddl_of,
    dump_parts,
    new_token,
    of_ipc,
    table_of,
    to_ipc,
)
from hedgerow.spark.shard import Shard, Turn, states_in
from hedgerow.task import NUMBERS

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
ABOUT = "about"  # the names of a shard's two states
PARTS = "parts"
STATES: Table = {"key": "string", "state": "binary", "events": "binary"}
HELD_BASES = 4  # of other queries, which a Python worker keeps


def session(
    master: str | None = None, name: str = "hedgerow", config: dict[str, str] | None = None
) -> SparkSession:
    """A session with RocksDB for states, whose Python workers run this Python unless PYSPARK_PYTHON names another."""
    from pyspark.sql import SparkSession

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise HedgerowError(
            f"Spark needs Java 17 or later, and there is none: {JAVA}, or set JAVA_HOME"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for option, value in {**CONFIG, **(config or {})}.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()


# -- which columns hold what, checked before anything runs ------------------------------------------------------------
WHOLE = ("tinyint", "smallint", "int", "bigint")
HELD_BY = {
    "string": ("string",),
    "bigint": WHOLE,
    "double": ("float", "double"),
    "boolean": ("boolean",),
}


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

    def of_instances(self, df: DataFrame, base: Base) -> DataFrame:
        """Instances as a shard takes them: key, kind, id, order, x, label; all but the order and numbers are text."""
        names = self.features_of(df, base)
        if isinstance(names, str):
            x = _column(names).cast("array<double>")
        elif base.clf.table_ is not None:
            x = F.to_json(F.struct(*(_column(name).alias(name) for name in names)))
        else:
            x = F.array(*(_column(name).cast("double") for name in names))
        return self._common(df, "instances", INSTANCE, x, F.lit(None).cast("string"))

    def of_labels(self, df: DataFrame, base: Base, x: str) -> DataFrame:
        """Labels in the same form; `x` is the type of that column."""
        return self._common(df, "labels", ANSWER, F.lit(None).cast(x), self._label(df, base))

    def key_type(self, df: DataFrame, what: str) -> str:
        """The type of the keys in Spark."""
        found = _type(df, self.key, what)
        if found not in ("string", *WHOLE):
            raise InputError(
                f"{what}: keys are text or whole numbers, {self.key!r} is {found}; cast it to string"
            )
        return found

    def features_of(self, df: DataFrame, base: Base) -> tuple[str, ...] | str:
        """The columns of features, or the one of arrays."""
        given = self.features
        table = base.clf.table_
        if isinstance(given, str):
            found = _type(df, given, "instances")
            if not found.startswith("array<"):
                raise InputError(
                    f"instances: features={given!r} is {found}; give an array column, or several names"
                )
            return given
        if table is not None:
            names = (
                tuple(name for name in table.names if name in df.columns)
                if given is None
                else tuple(given)
            )
            if not set(names) & set(table.names):
                raise InputError(
                    f"instances: none of the columns of the base ({', '.join(table.names[:8])}) is there"
                )
            return names
        given = given if given is not None else getattr(base.clf, "feature_names_in_", None)
        taken = {self.key, self.id, self.label, self.order}
        names = (
            tuple(name for name in df.columns if name not in taken)
            if given is None
            else tuple(map(str, given))
        )
        for name in names:
            if (kind := _type(df, name, "instances")) not in (*WHOLE, "float", "double", "boolean"):
                raise InputError(
                    f"instances: the feature {name!r} is {kind}; cast it to double, or name the features"
                )
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
            _column(self.key)
            .cast("string")
            .alias("key"),  # as text: pandas makes floats of whole numbers and nulls
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
            raise InputError(
                f"{what}: the order {self.order!r} is {found}; give a timestamp or whole numbers"
            )
        return _column(self.order).cast("bigint")

    def _label(self, df: DataFrame, base: Base) -> Column:
        wanted = LABELS[label_type(base)][0]
        found = _type(df, self.label, "labels")
        if found not in HELD_BY[wanted]:
            what = "classes" if len(base.classes) else "numbers"
            raise InputError(
                f"labels: {self.label!r} is {found}, the {what} of the base are {wanted}; cast it"
            )
        return _column(self.label).cast("string")


def label_type(base: Base) -> type:
    """The one Python type of all classes; a regressor has numbers."""
    if base.task is NUMBERS:
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
        raise InputError(
            f"{what}: there is no column {name!r} among {', '.join(df.columns)}; name it in Columns(...)"
        )
    return df.schema[name].dataType.simpleString()


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


# -- shards as states of Spark -----------------------------------------------------------------------------------------


def send(spark: SparkSession, base: Base) -> str:
    """The base as a file that every machine of the session gets once; its name there."""
    data = base.to_bytes()
    name = f"hedgerow-{hashlib.sha256(data).hexdigest()[:32]}.safetensors"
    path = Path(SparkFiles.getRootDirectory(), name)  # a folder that ends with the session
    if not path.exists():
        path.write_bytes(data)
        spark.sparkContext.addFile(str(path))
    return name


# What a Python worker keeps between two batches.
_bases: dict[bytes, Base] = {}
_shards: dict[tuple[Shared, int], Shard] = {}


def base_of(digest: bytes, file: str) -> Base:
    """The base with this digest among the files of the session, read once a process."""
    if digest not in _bases:
        base = Base.from_bytes(Path(SparkFiles.get(file)).read_bytes())
        if base.digest != digest:
            raise InputError(
                f"the base that was sent has the digest {base.digest.hex()[:12]}, not {digest.hex()[:12]}; "
                "install the same hedgerow on every worker"
            )
        _bases[digest] = base
        while len(_bases) > HELD_BASES:
            del _bases[next(iter(_bases))]
    return _bases[digest]


@dataclass(frozen=True)
class Shared:
    """What the processor of every partition gets; `file` is the name of the base among the files of the session."""

    digest: bytes
    query: Query
    key: str  # the type of the keys in Spark
    file: str

    @classmethod
    def of(cls, df: DataFrame, base: Base, columns: Columns, settings: Settings) -> Shared:
        """Of a stream of instances."""
        names: Any = columns.features_of(df, base)
        if isinstance(names, str):
            names = tuple(f"{names}[{i}]" for i in range(base.n_features))
        elif base.clf.table_ is not None:
            names = None
        query = Query(names, label_type(base), columns.order is not None, settings)
        return cls(
            base.digest, query, columns.key_type(df, "instances"), send(df.sparkSession, base)
        )

    @property
    def base(self) -> Base:
        """Read from its file once a process."""
        return base_of(self.digest, self.file)

    def typed(self, results: DataFrame) -> DataFrame:
        """Results whose keys and labels are text, with these as they were."""
        return results.withColumns(
            {
                "key": F.col("key").cast(self.key),
                "label": F.col("label").cast(LABELS[self.query.label][0]),
            }
        )

    def shard_of(self, df: DataFrame) -> DataFrame:
        """With the shard of each key."""
        return df.withColumn(
            "shard", F.expr(f"cast(pmod(xxhash64(key), {self.query.settings.shards}) as int)")
        )

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
        self._about = handle.getValueState(
            ABOUT, f"token string, timer bigint, shards int, key {self.shared.key}"
        )
        self._parts = handle.getListState(PARTS, "part binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """The rows of a shard in a batch."""
        given = Rows.of(of_ipc(data for frame in rows for data in frame["rows"]))
        try:
            results = self._turn(int(key[0]), given, now_of(timerValues))
        except (
            InputError
        ) as error:  # nothing was written: the shard stays as it is, the others go on
            turn = Turn(given, np.empty((0, 0)))
            for i in range(len(given.key)):
                turn.dead_letter(i, f"key {given.key[i]!r}: {error}")
            results = list(turn.results.values())
        yield frame_of(results)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """An event of a shard has waited long enough."""
        try:
            results = self._turn(int(key[0]), None, now_of(timerValues))
        except (
            InputError
        ) as error:  # nothing was learned; a row that comes later sets a timer again
            token, _ = self._known()
            self._keep(token, 0)
            results = [
                Result(
                    None,
                    DEAD_LETTER,
                    None,
                    detail=f"shard {int(key[0])}, at the end of a timer: {error}",
                )
            ]
        yield frame_of(results)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """Every shard begins, with keys that learned elsewhere: one whose state is none is told at its first row."""
        now = now_of(timerValues)
        token = ""
        base = self.shared.base
        states = initialState[initialState["state"].notna()]
        rows = [(row.key, bytes(row.state), bytes(row.events), now) for row in states.itertuples()]
        if rows:
            token = new_token()
            parts = dump_parts(
                rows, token, self.shared.digest, Shard(base, self.shared.query).about(now)
            )
            self._parts.appendList([(part,) for part in parts])
        if rows or not self._about.exists():
            self._keep(token, 0)

    def close(self) -> None:
        """Nothing is to be closed."""

    def _turn(self, number: int, rows: Rows | None, now: float) -> list[Result]:
        """Rows, or (None) the end of a timer."""
        token, timer = self._known()
        shard = _shards.pop(
            (self.shared, number), None
        )  # where a batch fails half-way, nobody finds what it left
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
        before = timer
        deadline = shard.deadline
        if rows is None:
            timer = 0
        if deadline is not None and not timer:
            timer = int(1000 * deadline) + 1
            self._handle.registerTimer(timer)
        if shard.token != token or timer != before:
            self._keep(shard.token, timer)
        _shards[self.shared, number] = shard
        while (
            len(_shards) > 2 * self.shared.query.settings.shards
        ):  # of queries that have ended; Spark has them
            del _shards[next(iter(_shards))]
        return results

    def _keep(self, token: str, timer: int) -> None:
        self._about.update((token, timer, self.shared.query.settings.shards, None))

    def _known(self) -> tuple[str, int]:
        """The token and the timer of the shard."""
        wanted = self.shared.query.settings.shards
        about = self._about.get()
        # the first batch of a checkpoint has begun all of its shards, also those without a row
        token, timer, shards, _ = about or ("", 0, None, None)
        if shards != wanted:
            has = (
                "another number of shards"
                if shards is None
                else f"another number of shards, {shards},"
            )
            raise HedgerowError(
                f"the checkpoint has {has} than Settings(shards={wanted}): keep its number, or begin a new checkpoint "
                "with states=states_of(spark, checkpoint, base)"
            )
        return str(token), int(timer)


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
        yield pa.record_batch(
            [pa.array(shards, pa.int32()), pa.array(values, pa.binary())], ("shard", "rows")
        )


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
    states : key, state and perhaps events, with which keys begin (of `states_of` another query);
    read once, by the first batch of a new checkpoint.
    """
    columns = columns or Columns()
    settings = settings or Settings()
    found = instances.sparkSession.conf.get(PROVIDER, "")
    if found != ROCKSDB:
        raise InputError(
            f"{PROVIDER} is {found!r}: states of keys need {ROCKSDB}; hedgerow.spark.session() sets it"
        )
    for what, df in (("instances", instances), ("labels", labels)):
        if not df.isStreaming:
            raise InputError(f"{what}: this is not a stream; read it with spark.readStream")
    kinds = [
        columns.key_type(df, what) for what, df in (("instances", instances), ("labels", labels))
    ]
    if kinds[0] != kinds[1]:
        raise InputError(
            f"keys of instances are {kinds[0]}, those of labels {kinds[1]}; cast one to the other's type"
        )
    rows = columns.of_instances(instances, base)
    rows = rows.unionByName(
        columns.of_labels(labels, base, rows.schema["x"].dataType.simpleString())
    )
    shared = Shared.of(instances, base, columns, settings)
    begun = shared.begun(
        instances.sparkSession, None if states is None else _checked_states(states, kinds[0])
    )
    with quiet_about_pandas():  # which says so at every use
        results = (
            shared.shard_of(rows)
            .mapInArrow(pack_rows, "shard int, rows binary")
            .groupBy("shard")
            .transformWithStateInPandas(
                Shards(shared),
                ddl_of(RESULTS),
                "Append",
                "ProcessingTime" if settings.timed else "None",
                initialState=begun.groupBy("shard"),
            )
        )
    return shared.typed(results)


def _checked_states(states: DataFrame, key: str) -> DataFrame:
    found = {name: kind for name, kind in states.dtypes if name in ("key", "state")}
    if found != {"key": key, "state": "binary"}:
        raise InputError(
            f"states: needs the columns key ({key}) and state (binary), has {states.dtypes}"
        )
    events = F.col("events") if "events" in states.columns else F.lit(None)
    empty = F.expr("X''")
    return states.select(
        F.col("key").cast("string").alias("key"),
        F.coalesce("state", empty).alias("state"),
        F.coalesce(events.cast("binary"), empty).alias("events"),
    )


def states_of(
    spark: SparkSession, checkpoint: str, base: Base, batch: int | None = None
) -> DataFrame:
    """Every key in a checkpoint after a batch, or the last one: key, state (bytes for `Base.member`), events.

    `base` is that of the query which wrote it.

    `learn_stream(states=...)` goes on from it in a new checkpoint, perhaps with another number of shards.
    """

    def read(name: str) -> DataFrame:
        reader = (
            spark.read.format("statestore")
            .option("stateVarName", name)
            .option("flattenCollectionTypes", "false")
        )
        return (reader if batch is None else reader.option("batchId", batch)).load(checkpoint)

    def of_shards(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for parts in batch["parts"]:
                found = states_in(parts.as_py(), base_of(digest, file))
                yield from table_of(list(found), STATES).to_batches()

    digest = base.digest
    file = send(spark, base)
    key = dict(read(ABOUT).select("value.key").dtypes)["key"]
    states = read(PARTS).select(F.col("list_value.part").alias("parts"))
    states = states.mapInArrow(of_shards, ddl_of(STATES))
    return states.withColumn("key", F.col("key").cast(key))


# -- results -----------------------------------------------------------------------------------------------------------


def predictions(results: DataFrame) -> DataFrame:
    """Of results, the predictions: key, id, label, probability, status, and of numbers low and high (the interval)."""
    names = ("key", "id", "label", "probability", "status", "low", "high")
    return results.where(F.col("kind") == PREDICTION).select(*names)


def outcomes(results: DataFrame) -> DataFrame:
    """Of results, what became of labels: key, id, label, status, right, detail."""
    return results.where(F.col("kind") == LABEL).select(
        "key", "id", "label", "status", "right", "detail"
    )


def dead_letters(results: DataFrame) -> DataFrame:
    """Of results, the rows that could not be used: key, id, detail (the reason), row (as JSON)."""
    return results.where(F.col("kind") == DEAD_LETTER).select("key", "id", "detail", "row")


def metrics(results: DataFrame) -> DataFrame:
    """A row a key: predictions, labels by status, mistakes among the labels learned. Of a batch, not of a stream.

    A mistake of a regressor is a label outside its interval.
    """

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    kind = F.col("kind")
    status = F.col("status")
    return results.groupBy("key").agg(
        count((kind == PREDICTION) & (status == NEW)).alias("predictions"),
        count(status == "learned").alias("learned"),
        count((status == "learned") & ~F.col("right")).alias("mistakes"),
        count((kind == LABEL) & (status != "learned")).alias("other_labels"),
        count(kind == DEAD_LETTER).alias("dead_letters"),
    )


# -- data frames as sources of a fit: partitions are summed where they are, and only sums leave them -------------------

FOUND: Table = {"partition": "int", "sums": "binary", "error": "string"}


class SparkSource(PartitionedSource):
    """A labelled source for `fit_domains` that need not fit into memory: a `DataFrame` of Spark.

    Its rows stay on the workers, and are read as often as the fit needs sums of them (`passes`); see
    `hedgerow.ParquetSource` for what the model is. The rows have to be the same at every pass: cache a data frame that
    is drawn at random, or read it from files.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Not a stream.
    label : str
        The column of labels; all others are features, and are numbers without gaps.
    name : str
        What the source is called.
    """

    def __init__(self, frame: DataFrame, label: str, name: str = "spark") -> None:
        if frame.isStreaming:
            raise InputError(
                f"source {name!r}: a stream; a source of a fit is a table, read by spark.read"
            )
        super().__init__(name, Layout.of(dict(frame.dtypes), label, f"source {name!r}"))
        self.frame = frame

    def results(self, job: Pass) -> list[list[Any]]:
        """The statistics of every partition; of an error, that of the first partition that has one."""
        layout = self.layout
        where = f"source {self.name!r}"

        def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            number = 0 if context is None else context.partitionId()
            try:
                found = job.of(layout.parts(batches, f"{where}, partition {number}", number))
            except InputError as error:
                yield from table_of([(number, None, str(error))], FOUND).to_batches()
            else:
                yield from table_of([(number, pickle.dumps(found), None)], FOUND).to_batches()

        found = (
            self.frame.select(*map(_column, layout.columns))
            .mapInArrow(sums, ddl_of(FOUND))
            .collect()
        )
        found.sort(key=lambda row: row.partition)
        for row in found:
            if row.error is not None:
                raise InputError(row.error)
        return [pickle.loads(row.sums) for row in found]
