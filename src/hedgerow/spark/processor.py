"""What Spark calls for every key of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from hedgerow.core.errors import InputError
from hedgerow.fleet import Base, Member
from hedgerow.spark.columns import label_of
from hedgerow.spark.ledger import Ledger
from hedgerow.spark.results import Result, frame_of
from hedgerow.spark.sent import Sent
from hedgerow.spark.settings import Settings
from hedgerow.spark.turn import Given, Turn, dead_letter
from hedgerow.spark.worker_cache import base_of, members

if TYPE_CHECKING:
    import pandas as pd

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
