"""The file of a fleet: what each key has learned, and a journal of the batches that are not yet there.

| table     | a row is                                                                                             |
|-----------|------------------------------------------------------------------------------------------------------|
| `journal` | a batch of labelled rows, written before it is acknowledged                                          |
| `state`   | some rows of one key (`base.py`) after those of its earlier states; `upto`: the newest batch in them |
| `meta`    | base, settings, totals                                                                               |

A key's state is all its rows of `state` together. Rows of the journal that no state has are learned again when the
file is opened, in order, so every label is learned once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from hedgerow.fleet.base import Key, KeyState
from hedgerow.store import PAGE, WAL_BYTES, Store, copied

WIDE_PAGE = 65536  # bytes of a page of the file: for long rows a third of the work of SQLite's usual ones
BASE = "base.safetensors"  # the file of the model that all keys start from
Part = tuple[Key, int, int, bytes]  # a row of `state`: key, newest batch, rows, bytes


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


class FleetStore(Store):
    """Everything between two commits is there together or not at all; `stored` rows are in states."""

    FILE = "fleet.sqlite"
    FORMAT = "hedgerow fleet 3"
    TABLES = ("journal", "state")
    SCHEMA = """
    CREATE TABLE journal ("check" INTEGER NOT NULL, number INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE state ("check" INTEGER NOT NULL, key, upto INTEGER NOT NULL, rows INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (key, upto));
    """

    def __init__(self, folder: Path, *, page: int = PAGE, **options: Any) -> None:
        super().__init__(folder, page=page, **options)
        with self.errors():
            self._db.execute("PRAGMA cache_size = -16384")
            page = self.rows("PRAGMA page_size")[0][0]
            self._db.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES // page}")
        self.journal_bytes = self.stored = 0

    def verify(self, *, accept_loss: bool = False, content: bool = False) -> dict[str, Any]:
        """Whether all is there that was acknowledged; rows are checked when they are read."""
        about = super().verify(accept_loss=accept_loss, content=content)
        self.stored = about["stored"]
        self.journal_bytes = self.rows("SELECT coalesce(sum(length(data)), 0) FROM journal")[0][0]
        return about

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside is on disk when it ends, or nothing of it."""
        before = self.stored, self.journal_bytes
        try:
            with self.errors():
                self.begin()
                yield
                self.commit({"stored": self.stored})
        except BaseException:
            if self.open_transaction:
                self.stored, self.journal_bytes = before
                self.rollback()
            raise

    def note(self, data: bytes) -> int:
        """A batch, in the journal; its number."""
        number = self.next()
        self.add("journal", (number, data))
        self.journal_bytes += len(data)
        return number

    def put(self, parts: Sequence[Part]) -> None:
        """More rows of some keys."""
        self.add_many("state", parts)
        self.stored += sum(part[2] for part in parts)

    def forget(self, key: Key) -> None:
        """All that a key has in its state."""
        self.stored -= self.rows("SELECT coalesce(sum(rows), 0) FROM state WHERE key = ?", (key,))[0][0]
        self.delete("state", "key = ?", (key,))

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
        return int(self.rows("SELECT coalesce(max(upto), 0) FROM state WHERE key = ?", (key,))[0][0])

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """The journal, in order."""
        for row in self.checked("journal", self.stream("SELECT * FROM journal ORDER BY number")):
            yield row[0], row[1]

    def keys(self) -> Iterator[Key]:
        """All keys that have a state."""
        for (key,) in self.stream("SELECT DISTINCT key FROM state"):
            yield key


def backup(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy the folder of a fleet, also while it runs, to a new one, which can be opened like the first.

    The file is copied as it is at one moment, and the copy is verified row by row.
    """
    source = Path(folder)
    with copied(source, Path(target), FleetStore) as place:
        shutil.copyfile(source / BASE, place / BASE)
        FleetStore.copy(source, place)
