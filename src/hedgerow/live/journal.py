"""The journal: events, their answers, and the steps that changed the model, in one SQLite file.

| table      | a row is                                                                                       |
|------------|------------------------------------------------------------------------------------------------|
| `event`    | a prediction that was asked for                                                                |
| `features` | what it was asked about, kept until it is no longer needed                                     |
| `answer`   | what became of an event: its label, or None where it was given up                              |
| `step`     | a call that changed the model: a block of events, late labels, a label given up, a snapshot    |
| `history`  | a point of the curves that people look at                                                      |
| `mark`     | a place in an input or output, in the same transaction as what was done up to it               |
| `meta`     | format, settings, totals                                                                       |

Events and steps share one row of numbers. SQLite has no checksums of content, so every row has one, and the totals
(rows and sum of checksums of each table) change in every transaction: what was changed, lost or added by anything but
this module is found by `verify` below.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hedgerow.live.errors import JournalError
from hedgerow.live.head import Head

FORMAT = "hedgerow journal 1"
FILE = "journal.sqlite"
TABLES = ("event", "features", "answer", "step", "history", "mark")  # those that the totals count
DAMAGED = ("malformed", "not a database", "corrupt", "decode")  # words of SQLite's errors
WAL_BYTES = 16 << 20  # of the write-ahead log that stay on disk between checkpoints

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, "check" INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE event (number INTEGER PRIMARY KEY, id TEXT UNIQUE, time REAL NOT NULL, code INTEGER NOT NULL,
    shares BLOB NOT NULL, digest BLOB NOT NULL, "check" INTEGER NOT NULL);
CREATE TABLE features (number INTEGER PRIMARY KEY, x BLOB NOT NULL, "check" INTEGER NOT NULL);
CREATE TABLE answer (number INTEGER PRIMARY KEY, step INTEGER NOT NULL, label TEXT NOT NULL, correct INTEGER,
    time REAL NOT NULL, "check" INTEGER NOT NULL);
CREATE INDEX answer_by_step ON answer (step);
CREATE TABLE step (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    time REAL NOT NULL, "check" INTEGER NOT NULL);
CREATE TABLE history (number INTEGER PRIMARY KEY, point TEXT NOT NULL, "check" INTEGER NOT NULL);
CREATE TABLE mark (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, value BLOB NOT NULL,
    "check" INTEGER NOT NULL);
"""
INSERT = {
    "event": "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)",
    "features": "INSERT INTO features VALUES (?, ?, ?)",
    "answer": "INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?)",
    "step": "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?)",
    "history": "INSERT INTO history VALUES (?, ?, ?)",
    "mark": "INSERT INTO mark VALUES (?, ?, ?, ?)",
}
Row = tuple[Any, ...]


def checksum(row: Row) -> int:
    """Of all values of a row but its checksum.

    >>> checksum((1, None, b"x", .5)) == checksum((1, None, b"y", .5))
    False
    """
    blobs = [part for part in row if type(part) is bytes]
    if not blobs:
        return zlib.crc32(repr(row).encode())
    rest = tuple([part for part in row if type(part) is not bytes])
    return zlib.crc32(b"\x1f".join(blobs), zlib.crc32(repr(rest).encode()))


class Journal:
    """The file and its head. Rows are added within a transaction: `begin`, then `commit` or `rollback`."""

    def __init__(self, folder: Path, *, sync: str = "full", create: bool = False, accept_loss: bool = False) -> None:
        self.folder, self.path = folder, folder / FILE
        self.open_transaction = False
        if not create and not self.path.is_file():
            raise JournalError(f"{folder} has no {FILE}: it is not the folder of a live model")
        with self.errors():
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
            self._db.execute("PRAGMA journal_mode = WAL")
            self.set_sync(sync)
            self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            if create:
                self._db.executescript(SCHEMA)
        self.head = Head(folder, create=create or accept_loss)
        self.totals: dict[str, list[int]] = {table: [0, 0] for table in TABLES}
        self.last = self.commits = 0

    def set_sync(self, sync: str) -> None:
        """Whether a commit waits for the disk."""
        self._db.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """SQLite's errors as ours, with what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.path}: {explained(error)}") from error
        except UnicodeDecodeError as error:  # a name in the schema; SQLite's own error is for values only
            raise JournalError(f"{self.path}: {explained(error)}") from error
        except OSError as error:
            raise JournalError(f"{self.folder}: {error.strerror or error}; nothing of this was kept") from error

    # -- writing ------------------------------------------------------------------------------------------------

    def next(self) -> int:
        """A number for an event or a step."""
        self.last += 1
        return self.last

    def begin(self) -> None:
        """Start a transaction, unless one is open."""
        if not self.open_transaction:
            self._before = (self.last, self.commits, {table: list(pair) for table, pair in self.totals.items()})
            self._db.execute("BEGIN IMMEDIATE")
            self.open_transaction = True

    def add(self, table: str, row: Row) -> None:
        """One row; its checksum is added."""
        check = checksum(row)
        self._db.execute(INSERT[table], (*row, check))
        self._count(table, 1, check)

    def add_many(self, table: str, rows: Iterable[Row]) -> None:
        """Rows; their checksums are added."""
        complete = [(*row, checksum(row)) for row in rows]
        self._db.executemany(INSERT[table], complete)
        self._count(table, len(complete), sum(row[-1] for row in complete))

    def delete(self, table: str, where: str, values: Sequence[Any] = ()) -> int:
        """Rows that are no longer needed; how many there were."""
        count, checks = self._db.execute(f'SELECT count(*), sum("check") FROM {table} WHERE {where}', values).fetchone()
        if count:
            self._db.execute(f"DELETE FROM {table} WHERE {where}", values)
            self._count(table, -count, -checks)
        return int(count)

    def set_mark(self, name: str, value: bytes) -> None:
        """A place in an input or output: what is committed with it was done up to there."""
        found = self._db.execute("SELECT number FROM mark WHERE name = ?", (name,)).fetchone()
        if found is not None:
            self.delete("mark", "name = ?", (name,))
        number = self._db.execute("SELECT coalesce(max(number), 0) + 1 FROM mark").fetchone()[0]
        self.add("mark", (found[0] if found else number, name, value))

    def mark(self, name: str) -> bytes | None:
        """What `set_mark` kept."""
        found = self._db.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def set_meta(self, key: str, value: Any) -> str:
        """Something about the whole journal, as JSON."""
        text = json.dumps(value)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (key, text, checksum((key, text))))
        return text

    def meta(self, key: str) -> Any:
        """What `set_meta` kept; None if there is nothing."""
        found = self._db.execute('SELECT value, "check" FROM meta WHERE key = ?', (key,)).fetchone()
        if found is None:
            return None
        if found[1] != checksum((key, found[0])):
            raise JournalError(f"{self.path} is damaged: its {key} are not what was written")
        return json.loads(found[0])

    def commit(self, more: dict[str, Any]) -> None:
        """Everything since `begin`, durably; `more` goes with the totals. Afterwards the head says so."""
        self.commits += 1
        about = {"last": self.last, "commits": self.commits, "tables": self.totals, **more}
        text = self.set_meta("totals", about)
        self._db.execute("COMMIT")
        self.open_transaction = False
        try:
            self.head.write(self.commits, self.last, zlib.crc32(text.encode()))
        except OSError as error:
            raise JournalError(
                f"{self.head.path}: {error.strerror}; what was asked is in the journal, ask again by its id"
            ) from error

    def accept_loss(self) -> None:
        """From now on the head says what is there, not what was once acknowledged."""
        text = self.rows("SELECT value FROM meta WHERE key = 'totals'")[0][0]
        self.head.begin_again(self.commits, self.last, zlib.crc32(text.encode()))

    def rollback(self) -> None:
        """Forget everything since `begin`."""
        if self.open_transaction:
            self.open_transaction = False
            self.last, self.commits, self.totals = self._before
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _count(self, table: str, rows: int, checks: int) -> None:
        total = self.totals[table]
        total[0] += rows
        total[1] += checks

    # -- reading ------------------------------------------------------------------------------------------------

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a query."""
        return self._db.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of a query."""
        found = self._db.execute(query, values).fetchone()
        return None if found is None else tuple(found)

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a query, not all at once."""
        yield from self._db.execute(query, values)

    @property
    def bytes(self) -> int:
        """What the file and its write-ahead log take on disk."""
        paths = (self.path, self.path.with_name(FILE + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    @property
    def used_bytes(self) -> int:
        """What of the file is in use: freed pages are used again before it grows."""
        size, pages, free = (
            self.rows(f"PRAGMA {name}")[0][0] for name in ("page_size", "page_count", "freelist_count")
        )
        return int(size * (pages - free))

    def close(self) -> None:
        """Close both files."""
        try:
            self._db.close()
        finally:
            self.head.close()


def explained(error: sqlite3.Error | UnicodeDecodeError) -> str:
    """What SQLite found, and what to do."""
    text = str(error)
    if "full" in text:
        return "the disk is full; nothing of this was kept. Free some space and try again"
    if "readonly" in text:
        return "the file or its disk is read-only; nothing of this was kept. Make it writable and try again"
    if isinstance(error, UnicodeDecodeError) or any(word in text for word in DAMAGED):
        return (
            f"damaged ({text}); restore the folder from a copy, or go on from its last good snapshot with a new journal"
        )
    return f"{text}; nothing of this was kept"


# Whether a journal is what was written: structure, every row, the totals, and the head.
REMEDY = (
    "restore the folder from a copy, or start a new journal from its last good snapshot (snapshots/*.safetensors is a "
    "model like any other)"
)

ROWS = {table: f"SELECT * FROM {table}" for table in TABLES}


def verify(journal: Journal, *, accept_loss: bool = False) -> dict[str, Any]:
    """The totals, and what was kept with them; a JournalError names what is wrong.

    With `accept_loss` a journal that ends before its head is taken as it is. Rows that were changed are never taken.
    """
    with journal.errors():
        if journal.meta("format") != FORMAT:
            raise damaged(journal.path, f"it is not a {FORMAT!r}")
        found = journal.rows("PRAGMA integrity_check(1)")
        if found != [("ok",)]:
            raise damaged(journal.path, str(found[0][0]))
        about = journal.meta("totals")
        if not isinstance(about, dict):
            raise damaged(journal.path, "it has no totals")
        for table in TABLES:
            verify_table(journal.path, table, journal.stream(ROWS[table]), about["tables"][table])
        _verify_head(journal, about, accept_loss)
    journal.last, journal.commits, journal.totals = about["last"], about["commits"], about["tables"]
    return dict(about)


def verify_table(path: Path, table: str, rows: Iterable[Row], total: list[int]) -> None:
    """Whether all rows of a table are there, as they were written."""
    count = checks = 0
    for row in rows:
        if row[-1] != checksum(row[:-1]):
            raise damaged(path, f"{table} {row[0]!r} is not what was written")
        count, checks = count + 1, checks + row[-1]
    if [count, checks] != total:
        raise damaged(path, f"it has {count} rows of {table}, {total[0]} were written")


def _verify_head(journal: Journal, about: dict[str, Any], accept_loss: bool) -> None:
    head = journal.head
    if about["commits"] < head.commits and not accept_loss:
        raise damaged(
            journal.path,
            f"its newest part is missing: it ends with number {about['last']}, but {head.last} was acknowledged; "
            "accept_loss=True (--accept-loss) goes on without it",
        )
    text = journal.rows("SELECT value FROM meta WHERE key = 'totals'")[0][0]
    if about["commits"] == head.commits and zlib.crc32(text.encode()) != head.totals and not accept_loss:
        raise damaged(journal.path, "its totals are not those that were acknowledged last")


def damaged(path: Path, what: str) -> JournalError:
    """The error for a journal that is not what was written."""
    return JournalError(f"{path} is damaged: {what}; {REMEDY}")
