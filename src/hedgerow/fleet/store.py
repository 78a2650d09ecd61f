"""The file of a fleet: what each key has learned, and a journal of the batches that are not yet there.

| table     | a row is                                                                                             |
|-----------|------------------------------------------------------------------------------------------------------|
| `journal` | a batch of labelled rows, written before it is acknowledged                                          |
| `state`   | some rows of one key (`base.py`) after those of its earlier states; `upto`: the newest batch in them |
| `event`   | a prediction of a key under an id: with its row until its label comes or it expires                  |
| `meta`    | base, those that keys have taught, settings, totals                                                  |

A key's state is all its rows of `state` together. Rows of the journal that no state has are learned again when the
file is opened, in order, so every label is learned once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.events import NO_LABEL, Event, Ledger, check_id
from hedgerow.fleet.base import Key, KeyState, Settings
from hedgerow.store import WAL_BYTES, JournalError, Store
from hedgerow.task import Task

WIDE = 2048  # bytes of a row that is long
WIDE_PAGE = 65536  # bytes of a page then: a third of the work of SQLite's usual ones
AT_ONCE = 1000  # events that expire in one transaction because nobody waits for them any longer
BASE = "base.safetensors"  # the file of the model of the sources, from which keys start
BASES = "bases"  # the folder of those that keys have taught,
SOURCES = "sources"  # with the rows of the sources, if they are kept
NO_SOURCES = (
    "this fleet has not kept the rows of its sources, without which no other base can be fitted; make it by "
    "Fleet(sources, consolidate=0, ..)"
)
Part = tuple[Key, int, int, bytes]  # a row of `state`: key, newest batch, rows, bytes


def keeps_sources(folder: Path) -> bool:
    """Whether the fleet in a folder has kept the rows of its sources."""
    return (folder / BASES / SOURCES).is_file()


class MemoryStates:
    """The states of keys as `FleetStore` has them, in memory: for what keeps them elsewhere."""

    def __init__(self) -> None:
        self._parts: dict[Key, list[tuple[int, bytes]]] = {}

    def transaction(self) -> AbstractContextManager[None]:
        """There is nothing to commit."""
        return nullcontext()

    def parts(self, key: Key) -> list[tuple[int, bytes]]:
        """(newest batch, bytes) of a key, in order."""
        return self._parts.get(key, [])

    def put(self, parts: Sequence[Part]) -> None:
        """More rows of some keys."""
        for key, upto, _, data in parts:
            self._parts.setdefault(key, []).append((upto, data))

    def forget(self, key: Key) -> None:
        """All that a key has in its state."""
        self._parts.pop(key, None)

    def joined(self, key: Key, base: bytes) -> bytes:
        """The whole state of a key that belongs to the base with this digest; nothing if it has none."""
        parts = self.parts(key)
        if len(parts) > 1:
            states = [KeyState.from_bytes(data, base, f"key {key!r}") for _, data in parts]
            parts[:] = [(parts[-1][0], KeyState.joined(states).to_bytes(base))]
        return parts[0][1] if parts else b""


@dataclass(slots=True)
class KeyEvent(Event):
    """A prediction of a key; `classes`: those beyond the base's that it knew, as JSON."""

    key: Key = ""
    classes: str = "[]"


class FleetStore(Store):
    """Everything between two commits is there together or not at all.

    `stored` rows are in states, `waiting` events have no label yet.
    """

    FILE = "fleet.sqlite"
    FORMAT = "hedgerow fleet 5"
    MOVE = "create a fleet from the sources in another folder and let its keys learn again"
    WHAT = "fleet"
    MADE = "Fleet(sources, path=..)"
    LEFT = ("fleet.sqlite-wal",)
    ALONG = (BASE, BASES)
    RENEWED = BASES
    TABLES = ("journal", "state", "event")
    SCHEMA = """
    CREATE TABLE journal ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE state ("check" INTEGER NOT NULL, key, upto INTEGER NOT NULL, rows INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (key, upto));
    CREATE TABLE event ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, key, id TEXT NOT NULL, time REAL NOT NULL,
        code INTEGER NOT NULL, shares BLOB NOT NULL, classes TEXT NOT NULL, digest BLOB NOT NULL, x BLOB, label TEXT);
    CREATE UNIQUE INDEX event_id ON event (key, id);
    CREATE INDEX event_order ON event (key, label IS NULL, number);
    CREATE INDEX event_time ON event (time) WHERE label IS NULL;
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        with self.errors():
            self._db.execute("PRAGMA cache_size = -16384")
            page = self.rows("PRAGMA page_size")[0][0]
            self._db.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES // page}")
        self.journal_bytes = self.stored = self.waiting = 0

    def verify(self, *, accept_loss: bool = False, content: bool = False) -> dict[str, Any]:
        """Whether all is there that was acknowledged; rows are checked when they are read."""
        about = super().verify(accept_loss=accept_loss, content=content)
        self.stored = about["stored"]
        self.journal_bytes = self.rows("SELECT coalesce(sum(length(data)), 0) FROM journal")[0][0]
        self.waiting = self._count_events("label IS NULL")
        return about

    @classmethod
    def check_copy(cls, folder: Path) -> None:
        """The same, and the bases that keys have taught are there."""
        super().check_copy(folder)
        with closing(cls(folder, read_only=True)) as store, store.errors():
            for _, digest, *_ in store.meta("bases") or []:
                if not (place := folder / BASES / f"{digest}.safetensors").is_file():
                    raise JournalError(f"{place} is missing")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside is on disk when it ends, or nothing of it."""
        before = self.stored, self.journal_bytes, self.waiting
        try:
            with self.errors():
                self.begin()
                yield
                self.commit({"stored": self.stored})
        except BaseException:
            if self.open_transaction:
                self.stored, self.journal_bytes, self.waiting = before
                self.rollback()
            raise

    def note(self, data: bytes, number: int = 0) -> int:
        """A batch, in the journal; its number, which is a new one unless it had one."""
        number = number or self.next()
        self.add("journal", (number, data))
        self.journal_bytes += len(data)
        return number

    def put(self, parts: Sequence[Part]) -> None:
        """More rows of some keys."""
        self.add_many("state", parts)
        self.stored += sum(part[2] for part in parts)

    def forget(self, key: Key) -> int:
        """All that a key has in its state; how many parts it had."""
        self.stored -= self.rows("SELECT coalesce(sum(rows), 0) FROM state WHERE key = ?", (key,))[
            0
        ][0]
        return self.delete("state", "key = ?", (key,))

    def trim(self, first_needed: int) -> None:
        """Batches whose rows are all in states."""
        size = "SELECT coalesce(sum(length(data)), 0) FROM journal WHERE number < ?"
        self.journal_bytes -= self.rows(size, (first_needed,))[0][0]
        self.delete("journal", "number < ?", (first_needed,))

    def parts(self, key: Key) -> list[tuple[int, bytes]]:
        """(newest batch, bytes) of a key, in order; a state knows itself whether it is whole."""
        with self.errors():
            return self.rows("SELECT upto, data FROM state WHERE key = ? ORDER BY upto", (key,))

    def upto(self, key: Key) -> int:
        """The newest batch that a key's state has."""
        return int(
            self.rows("SELECT coalesce(max(upto), 0) FROM state WHERE key = ?", (key,))[0][0]
        )

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """The journal, in order."""
        for row in self.checked("journal", self.stream("SELECT * FROM journal ORDER BY number")):
            yield row[0], row[1]

    def keys(self) -> Iterator[Key]:
        """All keys that have a state."""
        for (key,) in self.stream("SELECT DISTINCT key FROM state"):
            yield key

    # -- events -------------------------------------------------------------------------------------------------

    def _count_events(self, where: str, values: Sequence[Any] = ()) -> int:
        return int(self.rows(f"SELECT count(*) FROM event WHERE {where}", values)[0][0])

    def events(self, where: str, values: Sequence[Any] = ()) -> list[KeyEvent]:
        """Some events, by their numbers."""
        rows = self.rows(f"SELECT * FROM event WHERE {where}", values)
        return [
            KeyEvent(number, id, time, code, 0.0, digest, x, label, np.frombuffer(shares), key=key, classes=classes)
            for number, key, id, time, code, shares, classes, digest, x, label in self.checked("event", rows)
        ]  # fmt: skip

    def add_events(self, events: Iterable[KeyEvent]) -> None:
        """Events, also again after they were deleted; their rows stay while they wait for a label."""
        rows: list[Any] = []
        for e in events:
            e.number = e.number or self.next()
            row = e.row if e.label is None else None
            shares = np.asarray(e.probabilities, np.float64).tobytes()
            about = (e.number, e.key, e.id, e.time, e.code, shares, e.classes, e.digest)
            rows.append((*about, row, e.label))
            self.waiting += e.label is None
        self.add_many("event", rows)

    def resolve(self, events: Sequence[KeyEvent]) -> None:
        """Waiting events that have labels now, or have expired."""
        numbers = json.dumps([event.number for event in events])
        self.delete_events("number IN (SELECT value FROM json_each(?))", (numbers,))
        self.add_events(events)

    def delete_events(self, where: str, values: Sequence[Any]) -> int:
        """Some events, with their rows and ids; how many there were."""
        self.waiting -= self._count_events(f"label IS NULL AND {where}", values)
        return self.delete("event", where, values)

    def due(self, before: float, upto: int) -> list[KeyEvent]:
        """Some of the waiting events of a time until `before`, or of a number up to `upto`."""
        where = "label IS NULL AND (time <= ? OR number <= ?) ORDER BY number LIMIT ?"
        return self.events(where, (before, upto, AT_ONCE))

    def expire(
        self, changed: Iterable[KeyEvent], due: Iterable[KeyEvent], limits: Settings
    ) -> list[KeyEvent]:
        """After events were asked for or labelled: those that expire, which are due or too many of their key.

        The oldest of those that no longer wait are forgotten, beyond what is kept.
        """
        labelled = {event.number for event in changed if event.label is not None}
        late = {event.number: event for event in due if event.number not in labelled}
        keys = {event.key: None for event in (*changed, *late.values())}
        for key in keys:
            late |= {event.number: event for event in self._beyond("NULL", key, limits.max_pending)}
        for event in late.values():
            event.label = NO_LABEL
        self.resolve(list(late.values()))
        for key in keys:
            old = [event.number for event in self._beyond("NOT NULL", key, limits.keep_events)]
            if old:
                self.delete_events("number IN (SELECT value FROM json_each(?))", (json.dumps(old),))
        return [late[number] for number in sorted(late)]

    def _beyond(self, label: str, key: Key, most: int) -> list[KeyEvent]:
        """The oldest events of a key whose label is (not) NULL, beyond the newest `most`."""
        where = f"key = ? AND label IS {label}"
        excess = self._count_events(where, (key,)) - most
        return self.events(f"{where} ORDER BY number LIMIT ?", (key, excess)) if excess > 0 else []


class KeyLedger(Ledger):
    """The events of one key: read from the file when they are asked for, and labelled in memory first."""

    def __init__(self, store: FleetStore, key: Key, task: Task) -> None:
        self._store = store
        self._key = key
        self._task = task
        self._found: dict[str, KeyEvent | None] = {}

    def kept(self, label: Any) -> Any:
        """A label as it is learned and kept; InputError if it cannot be."""
        return self._task.label(label)

    def find(self, id: str) -> KeyEvent | None:
        """The event of an id."""
        id = check_id(id)
        if id not in self._found:
            with self._store.errors():
                found = self._store.events("key = ? AND id = ?", (self._key, id))
            self._found[id] = found[0] if found else None
        return self._found[id]
