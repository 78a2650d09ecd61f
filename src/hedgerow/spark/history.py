"""History as a table: every key's rows in their order, each predicted before its label is learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.fleet import Base
from hedgerow.spark.columns import LABELS, Columns, label_type
from hedgerow.spark.processor import Shared, given_of, is_key
from hedgerow.spark.results import NEW, PREDICTION, Result, frame_of, schema_of
from hedgerow.spark.sent import Sent
from hedgerow.spark.sessions import quiet_about_pandas
from hedgerow.spark.settings import Settings
from hedgerow.spark.turn import Given, dead_letter, fault_of
from hedgerow.spark.worker_cache import base_of

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


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
