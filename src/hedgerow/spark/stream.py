"""From two streams, instances and labels, to one of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.fleet import Base, Member
from hedgerow.spark.columns import LABELS, Columns, label_of, label_type
from hedgerow.spark.ledger import Ledger
from hedgerow.spark.results import NEW, PREDICTION, Result, frame_of, schema_of
from hedgerow.spark.sessions import check_session, quiet_about_pandas
from hedgerow.spark.settings import Settings
from hedgerow.spark.turn import Given, Turn, dead_letter, fault_of
from hedgerow.spark.worker_cache import Sent, base_of, members

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


# What Spark calls for every key of a batch.
STATE, SCHEMA = "key_state", "learned binary, events binary"


@dataclass(frozen=True)
class Shared:
    """What the processor of every partition gets: small, but for the base, which Spark broadcasts once a machine."""

    digest: bytes
    sent: Sent
    features: tuple[str, ...]
    label: type
    ordered: bool
    settings: Settings


class KeyedLearner(StatefulProcessor):
    """One learner a key. Its state is two blobs in one value: what it learned (`KeyState`), and its events (`Ledger`).

    One value, so that both are read and written in one trip, live equally long, and never disagree.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared = shared

    def init(self, handle: Any) -> None:
        """Spark is about to begin with a partition."""
        self._handle = handle
        self._state = handle.getValueState(STATE, SCHEMA, self.shared.settings.ttl_ms)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """The rows of a key in a batch."""
        given = [row for frame in rows for row in given_of(frame, self.shared.label)]
        if not is_key(key[0]):
            reason = "the key is missing, or of another type than the column of keys; send it with its key"
            yield frame_of(None, [dead_letter(row, reason) for row in given])
            return
        try:
            results = self._turn(key[0], given, timerValues.getCurrentProcessingTimeInMs(), woken=False)
        except InputError as error:  # nothing was written: the key stays as it is, the others go on
            results = [dead_letter(row, str(error)) for row in given]
        if results:
            yield frame_of(key[0], results)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """An event of a key has waited long enough."""
        try:
            results = self._turn(key[0], [], timerValues.getCurrentProcessingTimeInMs(), woken=True)
        except InputError:  # the key's next row says what is wrong with its state
            return
        if results:
            yield frame_of(key[0], results)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """A key that begins with what it learned elsewhere; a state that is none is told at its first row."""
        shared = self.shared
        learned = bytes(initialState["state"].iloc[0])
        self._state.update((learned, Ledger().to_bytes(shared.digest, len(shared.features))))

    def close(self) -> None:
        """Nothing is to be closed."""

    def _turn(self, key: Any, given: list[Given], now: int, woken: bool) -> list[Result]:
        shared, name = self.shared, f"key {key!r}"
        base = base_of(shared.digest, shared.sent)
        found = self._state.get()
        learned, events = (b"", b"") if found is None else map(bytes, found)
        width = len(shared.features)
        ledger = Ledger.from_bytes(events, shared.digest, width, name) if events else Ledger()
        taken = _Taken(base, key, learned, name)
        turn = Turn(taken.member, ledger, shared.settings, shared.features, shared.ordered, now)
        if woken:
            ledger.timer, turn.changed = 0, found is not None
        turn.take(given)
        if turn.changed:
            if turn.learned:
                learned = taken.member().to_bytes()
            self._set_timer(ledger)
            self._state.update((learned, ledger.to_bytes(shared.digest, width)))
        taken.keep(learned, shared.settings.cached_keys)
        return turn.results

    def _set_timer(self, ledger: Ledger) -> None:
        """One a key: for its oldest event. It may find that event answered; then it is set again for the next."""
        timeout = self.shared.settings.timeout_ms
        if timeout is not None and ledger.pending and not ledger.timer:
            ledger.timer = next(iter(ledger.pending.values())).asked + timeout
            self._handle.registerTimer(ledger.timer)


class _Taken:
    """The learner of a key, looked for when it is needed first."""

    def __init__(self, base: Base, key: Any, learned: bytes, name: str) -> None:
        self._base, self._key, self._learned, self._name = base, key, learned, name
        self._member: Member | None = None

    def member(self) -> Member:
        if self._member is None:
            self._member = members.take(self._base, self._key, self._learned, self._name)
        return self._member

    def keep(self, learned: bytes, most: int) -> None:
        if self._member is not None:
            members.keep(self._base, self._key, learned, self._member, most)


def given_of(frame: pd.DataFrame, label: type) -> Iterator[Given]:
    """The rows of a frame."""
    parts = (frame[name].tolist() for name in ("kind", "id", "order", "x", "label"))
    for kind, id, order, x, text in zip(*parts, strict=True):
        row = None if x is None or isinstance(x, float) else np.ascontiguousarray(x, dtype=np.float64)
        yield Given(int(kind), id if isinstance(id, str) else None, int(order), row, label_of(text, label))


def is_key(key: object) -> bool:
    """Whether rows have a key at all: a null stands for one that could not be read as the column's type."""
    return isinstance(key, str | int | np.integer) and not isinstance(key, bool)


# History as a table: every key's rows in their order, each predicted before its label is learned.
class _Usable(NamedTuple):
    rows: list[Given]
    bad: list[Result]

    @property
    def X(self) -> Array:
        return np.stack([row.x for row in self.rows if row.x is not None])

    @property
    def labels(self) -> list[Any]:
        return [row.label for row in self.rows]


def replay(history: DataFrame, base: Base, columns: Columns | None = None) -> DataFrame:
    """Predictions as they would have been, with `right` where a label was there, and dead letters.

    history : a table of key, id, features, label and, in `columns.order`, the order; a key's rows must fit in memory.
    """
    shared, events, key = _prepared(history, base, columns)

    def of_key(key: Any, frame: pd.DataFrame) -> pd.DataFrame:
        return frame_of(_plain(key[0]), _replayed(shared, key[0], frame))

    with quiet_about_pandas():
        return events.groupBy("key").applyInPandas(of_key, schema_of(key, LABELS[shared.label][0]))


def learned_states(history: DataFrame, base: Base, columns: Columns | None = None) -> DataFrame:
    """What every key learns from its history: key, state, seen, mistakes. `learn_stream(states=...)` goes on from it.

    Rows that cannot be used are left out; `replay` names them.
    """
    shared, events, key = _prepared(history, base, columns)

    def of_key(key: Any, frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        usable = _usable(shared, key[0], frame)
        found = []
        if usable.rows:
            member = base_of(shared.digest, shared.sent).member(name=f"key {key[0]!r}")
            member.learn(usable.X, usable.labels)
            found.append((_plain(key[0]), member.to_bytes(), member.seen_, member.mistakes_))
        return pd.DataFrame(found, columns=["key", "state", "seen", "mistakes"])

    with quiet_about_pandas():
        return events.groupBy("key").applyInPandas(of_key, f"key {key}, state binary, seen bigint, mistakes bigint")


def _prepared(history: DataFrame, base: Base, columns: Columns | None) -> tuple[Shared, DataFrame, str]:
    columns = columns or Columns()
    if history.isStreaming:
        raise InputError("the history is a stream; read it by spark.read, or use learn_stream()")
    events, names = columns.of_history(history, base), columns.names(history, base)
    sent = Sent.by(history.sparkSession.sparkContext, base.to_bytes())
    shared = Shared(base.digest, sent, names, label_type(base), columns.order is not None, Settings())
    return shared, events, columns.key_type(history, "the history")


def _usable(shared: Shared, key: Any, frame: pd.DataFrame) -> _Usable:
    rows: dict[str, Given] = {}
    bad = []
    given = sorted(given_of(frame, shared.label), key=lambda row: (row.order, str(row.id), repr(row.label)))
    for row in given:
        reason: str | None = "the key is missing; send the row with its key"
        if is_key(key):
            reason = fault_of(row, shared.features, shared.ordered)
        if reason is None and row.id in rows:
            reason = f"id {row.id!r} stands there twice; give every instance an id of its own"
        if reason is None:
            rows[str(row.id)] = row
        else:
            bad.append(dead_letter(row, reason))
    return _Usable(list(rows.values()), bad)


def _replayed(shared: Shared, key: Any, frame: pd.DataFrame) -> list[Result]:
    usable = _usable(shared, key, frame)
    if not usable.rows:
        return usable.bad
    clf = base_of(shared.digest, shared.sent).start(name=f"key {key!r}")
    try:
        found = clf.explain_then_learn(usable.X, usable.labels)
    except InputError as error:
        return [*usable.bad, *(dead_letter(row, f"key {key!r}: {error}") for row in usable.rows)]
    said, shares = found.codes, found.probabilities
    classes: Callable[[int], Any] = lambda code: plain(clf.classes_[code])  # noqa: E731
    results = []
    for row, code, share in zip(usable.rows, said.tolist(), shares, strict=True):
        right = None if row.label is None else classes(code) == row.label
        results.append(Result(PREDICTION, row.id, classes(code), float(share[code]), NEW, right))
    return [*results, *usable.bad]


def _plain(key: Any) -> Any:
    return plain(key) if is_key(key) else None


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
