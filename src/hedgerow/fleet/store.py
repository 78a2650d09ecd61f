"""One SQLite file for all keys: what each has learned, and a journal of the batches that are not yet there.

| table     | a row is                                                                                             |
|-----------|------------------------------------------------------------------------------------------------------|
| `journal` | a batch of labelled rows, written before it is acknowledged                                          |
| `state`   | some rows of one key (`key_state.py`), from its row `first` on; `upto`: the newest batch they are of |
| `meta`    | base, settings, totals                                                                               |

A key's state is all its rows of `state` together. Rows of the journal that no state has are learned again when the
file is opened, in order, so every label is learned once. `head` (live/head.py) says how far the journal had come.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hedgerow.fleet.key_state import KeyState
from hedgerow.fleet.keys import Key
from hedgerow.live.errors import JournalError
from hedgerow.live.head import Head
from hedgerow.live.journal import explained

FILE = "fleet.sqlite"
FORMAT = "hedgerow fleet 1"
WIDE_PAGE = 65536  # bytes of a page of the file: for long rows a third of the work of SQLite's usual ones
LOG = 16 * 2**20  # bytes of SQLite's log beyond which it goes into the file
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, "check" INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE journal (number INTEGER PRIMARY KEY, data BLOB NOT NULL, "check" INTEGER NOT NULL);
CREATE TABLE state (key, first INTEGER, rows INTEGER NOT NULL, upto INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (key, first, rows));
"""
Part = tuple[Key, int, int, int, bytes]  # a row of `state`


class Store:
    """The file and its head. Everything between two `commit`s is there together or not at all."""

    def __init__(self, folder: Path, *, create: bool, sync: str = "full", wide: bool = False) -> None:
        """`wide`: rows are long, so that pages of a new file had better be large."""
        self.path = folder / FILE
        with self.errors():
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
            if create and wide:
                self._db.execute(f"PRAGMA page_size = {WIDE_PAGE}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self.set_sync(sync)
            self._db.execute("PRAGMA cache_size = -16384")
            page = self._db.execute("PRAGMA page_size").fetchone()[0]
            self._db.execute(f"PRAGMA wal_autocheckpoint = {LOG // page}")
            if create:
                self._db.executescript(SCHEMA)
        self.head = Head(folder, create=create)
        self.totals = {"last": 0, "commits": 0, "parts": 0, "rows": 0}
        self.journal_bytes = 0

    @contextmanager
    def errors(self) -> Iterator[None]:
        """SQLite's errors as ours, with what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {explained(error)}") from error
        except OSError as error:
            raise JournalError(f"{self.path}: {error.strerror or error}; nothing of this was kept") from error

    def set_sync(self, sync: str) -> None:
        """Whether a commit waits for the disk."""
        self._db.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")

    # -- about the whole ----------------------------------------------------------------------------------------

    def set_meta(self, key: str, value: Any) -> bytes:
        """Something about the whole file, as JSON."""
        text = json.dumps(value)
        check = zlib.crc32(f"{key} {text}".encode())
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, text, check))
        return text.encode()

    def meta(self, key: str) -> Any:
        """What `set_meta` kept; None if there is nothing."""
        found = self._db.execute('SELECT value, "check" FROM meta WHERE key = ?', (key,)).fetchone()
        if found is None:
            return None
        if found[1] != zlib.crc32(f"{key} {found[0]}".encode()):
            raise JournalError(f"{self.path} is damaged: its {key} are not what was written; restore it from a copy")
        return json.loads(found[0])

    def verify(self) -> None:
        """Whether all is there that was acknowledged."""
        self.totals = self.meta("totals")
        found = self._db.execute("SELECT count(*), coalesce(sum(rows), 0) FROM state").fetchone()
        if self.totals is None or found != (self.totals["parts"], self.totals["rows"]):
            raise JournalError(f"{self.path} is damaged: it has not the states that it had; restore it from a copy")
        if self.head.commits > self.totals["commits"]:
            raise JournalError(
                f"{self.path} has lost its newest batches ({self.head.commits} were acknowledged, "
                f"{self.totals['commits']} are there); restore it from a copy"
            )
        self.journal_bytes = self._db.execute("SELECT coalesce(sum(length(data)), 0) FROM journal").fetchone()[0]

    # -- writing ------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done inside is on disk when it ends, or nothing of it."""
        before, size = dict(self.totals), self.journal_bytes
        try:
            with self.errors():
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self.totals["commits"] += 1
                text = self.set_meta("totals", self.totals)
                self._db.execute("COMMIT")
        except BaseException:
            self.totals, self.journal_bytes = before, size
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        with self.errors():
            self.head.write(self.totals["commits"], self.totals["last"], zlib.crc32(text))

    def note(self, data: bytes) -> int:
        """A batch, in the journal; its number."""
        self.totals["last"] += 1
        self._db.execute("INSERT INTO journal VALUES (?, ?, ?)", (self.totals["last"], data, zlib.crc32(data)))
        self.journal_bytes += len(data)
        return self.totals["last"]

    def put(self, parts: Sequence[Part]) -> None:
        """More rows of some keys."""
        self._db.executemany("INSERT INTO state VALUES (?, ?, ?, ?, ?)", parts)
        self.totals["parts"] += len(parts)
        self.totals["rows"] += sum(part[2] for part in parts)

    def put_state(self, key: Key, state: KeyState, upto: int, base: bytes) -> None:
        """A key's whole state, in place of what it had."""
        self.forget(key)
        if state.snapshot or len(state):
            self.put([(key, 0, len(state), upto, state.to_bytes(base))])

    def forget(self, key: Key) -> None:
        """All that a key has."""
        count, rows = self._db.execute(
            "SELECT count(*), coalesce(sum(rows), 0) FROM state WHERE key = ?", (key,)
        ).fetchone()
        self._db.execute("DELETE FROM state WHERE key = ?", (key,))
        self.totals["parts"] -= count
        self.totals["rows"] -= rows

    def trim(self, first_needed: int) -> None:
        """Batches whose rows are all in states."""
        where = "FROM journal WHERE number < ?"
        size = self._db.execute(f"SELECT coalesce(sum(length(data)), 0) {where}", (first_needed,)).fetchone()[0]
        self._db.execute(f"DELETE {where}", (first_needed,))
        self.journal_bytes -= size

    # -- reading ------------------------------------------------------------------------------------------------

    def parts(self, key: Key) -> list[tuple[int, int, int, bytes]]:
        """(first, rows, upto, data) of a key, in order."""
        with self.errors():
            return self._db.execute(
                "SELECT first, rows, upto, data FROM state WHERE key = ? ORDER BY first, rows", (key,)
            ).fetchall()

    def upto(self, key: Key) -> int:
        """The newest batch that a key's state has."""
        return int(self._db.execute("SELECT coalesce(max(upto), 0) FROM state WHERE key = ?", (key,)).fetchone()[0])

    def batches(self) -> Iterator[tuple[int, bytes]]:
        """The journal, in order."""
        for number, data, check in self._db.execute('SELECT number, data, "check" FROM journal ORDER BY number'):
            if zlib.crc32(data) != check:
                raise JournalError(f"{self.path} is damaged: batch {number} of its journal; restore it from a copy")
            yield number, data

    def keys(self) -> Iterator[Key]:
        """All keys that have a state."""
        for (key,) in self._db.execute("SELECT DISTINCT key FROM state"):
            yield key

    @property
    def bytes(self) -> int:
        """Of the file and its log."""
        files = (self.path, self.path.with_name(FILE + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close both files."""
        try:
            self._db.close()
        finally:
            self.head.close()
