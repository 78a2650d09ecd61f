"""A folder with one SQLite file that keeps what was acknowledged: transactions, checksums, a head, a lock.

SQLite checks the structure of a file, not its content, and takes a write-ahead log that was cut short for a shorter
one. A `Store` adds what is missing:

| what                                     | finds                                            | cost at opening      |
|------------------------------------------|--------------------------------------------------|----------------------|
| `head`, written after every commit       | commits that were acknowledged and are gone      | two small reads      |
| totals: rows and checksums of each table | rows that something else added, lost or replaced | a pass without blobs |
| a checksum of every row                  | rows whose content was changed                   | every byte is read   |

A live model's journal checks every row when it is opened; a fleet, which may be larger than memory, when it reads one.
Live models (`live/journal.py`) and fleets (`fleet/store.py`) are schemas on this class.
"""

from __future__ import annotations

import fcntl
import json
import logging
import marshal
import os
import shutil
import socket
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from hedgerow.core.errors import HedgerowError

DAMAGED = ("malformed", "not a database", "corrupt", "decode")  # words of SQLite's errors
WAL_BYTES = 16 << 20  # of the write-ahead log that stay on disk between checkpoints
PAGE = 4096  # bytes, SQLite's own choice
SLOT = struct.Struct("<4sQQI")  # mark, commits, last number, checksum of the totals
MARK = b"hdg1"
SIZE = SLOT.size + 4
logger = logging.getLogger("hedgerow.store")
Row = tuple[Any, ...]


class JournalError(HedgerowError):
    """The file or a snapshot cannot be written or read as it was written; the last good state is kept."""


class Owned(HedgerowError):
    """Another process has the folder open."""


class Closed(HedgerowError):
    """It was closed."""


@contextmanager
def on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Undo something if what follows fails."""
    try:
        yield
    except BaseException:
        undo()
        raise


class Owner:
    """The lock of a folder, held until `release`; the system gives it back however the process ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"cannot open {path}: {error.strerror}; the folder must be writable") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._file, 1000, 0).decode(errors="replace") or "another process"
            os.close(self._file)
            raise Owned(f"{folder} is in use by {owner}; stop it, or use another folder") from None
        about = f"process {os.getpid()} on {socket.gethostname()} (since {time.strftime('%Y-%m-%d %H:%M:%S')})"
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, about.encode(), 0)
        except OSError as error:
            os.close(self._file)
            raise JournalError(f"cannot write to {path}: {error.strerror}") from error

    def release(self) -> None:
        """Let others have it."""
        os.close(self._file)


class Head:
    """How far the file has come, kept beside it: `commits`, `last` and `totals` of the newest commit.

    Two slots are written in turn, so that one is whole whenever the process ends; each is written after a commit and
    before anything is acknowledged.
    """

    def __init__(self, folder: Path, *, create: bool = False, read_only: bool = False) -> None:
        self.path = folder / "head"
        if not create and not self.path.exists():
            raise JournalError(f"{self.path} is missing: without it nobody can tell whether the newest part is there")
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        try:
            self._file = os.open(self.path, flags | os.O_CLOEXEC, 0o600)
            slots = [_slot(os.pread(self._file, SIZE, place * SIZE)) for place in (0, 1)]
        except OSError as error:
            raise JournalError(f"cannot open {self.path}: {error.strerror}") from error
        whole = [slot for slot in slots if slot is not None]
        if not create and not whole:
            raise JournalError(f"{self.path} is damaged: restore it from a copy, or open with accept_loss=True")
        if not create and not read_only and len(whole) < len(slots):
            logger.error("one of the two slots of %s is damaged; the other one is used", self.path)
        self.commits, self.last, self.totals = max(whole, default=(0, 0, 0))

    def write(self, commits: int, last: int, totals: int, *, both: bool = False) -> None:
        """After a commit; in `both` slots if neither may speak any more of what was acknowledged beyond it."""
        data = SLOT.pack(MARK, commits, last, totals)
        for place in (0, 1) if both else (commits % 2,):
            os.pwrite(self._file, data + zlib.crc32(data).to_bytes(4, "little"), place * SIZE)
        self.commits, self.last, self.totals = commits, last, totals

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _slot(data: bytes) -> tuple[int, int, int] | None:
    if len(data) != SIZE or zlib.crc32(data[: SLOT.size]) != int.from_bytes(data[SLOT.size :], "little"):
        return None
    mark, commits, last, totals = SLOT.unpack(data[: SLOT.size])
    return (commits, last, totals) if mark == MARK else None


def checksum(row: Row) -> int:
    """Of all values of a row but its checksum.

    >>> checksum((1, None, b"x", .5)) == checksum((1, None, b"y", .5))
    False
    """
    # version 2 of the format: equal values are equal bytes, which objects they are notwithstanding
    return zlib.crc32(marshal.dumps(row, 2))


META = 'CREATE TABLE meta ("check" INTEGER NOT NULL, key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;'


class Store:
    """The SQLite file of a folder and its head. Rows change within a transaction: `begin`, then `commit` or `rollback`.

    A subclass says its schema. The first column of each table of `TABLES` is "check", the checksum of the others.
    `last` is the newest number that was given out, `commits` counts transactions, `totals` has rows and the sum of
    checksums of each table.
    """

    FILE: ClassVar[str]
    FORMAT: ClassVar[str]
    SCHEMA: ClassVar[str]
    TABLES: ClassVar[tuple[str, ...]]
    REMEDY: ClassVar[str] = "restore the folder from a copy"

    def __init__(
        self,
        folder: Path,
        *,
        create: bool = False,
        read_only: bool = False,
        sync: str = "full",
        accept_loss: bool = False,
        page: int = PAGE,
    ) -> None:
        self.folder, self.path, self._pid = folder, folder / self.FILE, os.getpid()
        self.open_transaction = False
        if not create and not self.path.is_file():
            raise JournalError(f"{folder} has no {self.FILE}")
        # a reader looks at the head before the file, which may only have more
        self.head = Head(folder, create=create or accept_loss, read_only=read_only)
        with on_error(self.head.close), self.errors():
            self._connect(create, read_only, sync, page)
        self.totals: dict[str, list[int]] = {table: [0, 0] for table in self.TABLES}
        self.last = self.commits = 0

    def _connect(self, create: bool, read_only: bool, sync: str, page: int) -> None:
        if read_only:
            self._db = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=5)
            self._db.execute("BEGIN")  # one moment, however long it is looked at
        else:
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
            if create:
                self._db.execute(f"PRAGMA page_size = {page}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self.set_sync(sync)
            self._db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            if create:
                self._db.executescript(META + self.SCHEMA)
                self.set_meta("format", self.FORMAT)
        self._inode = self._identity()
        self._insert = {}
        for table in self.TABLES:
            columns = len(self.rows(f"PRAGMA table_info({table})"))
            self._insert[table] = f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"

    def set_sync(self, sync: str) -> None:
        """Whether a commit waits for the disk ("full"), or survives the end of the process only ("normal")."""
        self._db.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """SQLite's errors as ours, with what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # a name in the schema that is no text is not SQLite's
            raise JournalError(f"{self.path}: {self._explained(error)}") from error
        except OSError as error:
            raise JournalError(f"{self.folder}: {error.strerror or error}; nothing of this was kept") from error

    def _explained(self, error: sqlite3.Error | UnicodeDecodeError) -> str:
        text = str(error)
        if "full" in text:
            return "the disk is full; nothing of this was kept. Free some space and try again"
        if "readonly" in text:
            return "the file or its disk is read-only; nothing of this was kept. Make it writable and try again"
        if isinstance(error, UnicodeDecodeError) or any(word in text for word in DAMAGED):
            return f"damaged ({text}); {self.REMEDY}"
        return f"{text}; nothing of this was kept"

    def damaged(self, what: str) -> JournalError:
        """The error for a file that is not what was written."""
        return JournalError(f"{self.path} is damaged: {what}; {self.REMEDY}")

    # -- writing ------------------------------------------------------------------------------------------------

    def next(self) -> int:
        """A new number."""
        self.last += 1
        return self.last

    def begin(self) -> None:
        """Start a transaction, unless one is open. Only the process that opened the file may, and only in that file."""
        if self.open_transaction:
            return
        if os.getpid() != self._pid:
            raise Owned(
                f"{self.folder} was opened by process {self._pid}, of which this one ({os.getpid()}) is a copy; "
                "nothing was written. Open it after the fork, in one process"
            )
        if self._identity() != self._inode:
            raise JournalError(
                f"{self.path} was replaced while it was open; nothing was written. Open the folder again"
            )
        self._before = (self.last, self.commits, {table: list(pair) for table, pair in self.totals.items()})
        self._db.execute("BEGIN IMMEDIATE")
        self.open_transaction = True

    def _identity(self) -> tuple[int, int]:
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            return 0, 0
        return stat.st_dev, stat.st_ino

    def add(self, table: str, row: Row) -> None:
        """One row; its checksum is added."""
        self.add_many(table, [row])

    def add_many(self, table: str, rows: Iterable[Row]) -> None:
        """Rows; their checksums are added."""
        complete = [(checksum(row), *row) for row in rows]
        self._db.executemany(self._insert[table], complete)
        self._count(table, len(complete), sum(row[0] for row in complete))

    def delete(self, table: str, where: str, values: Sequence[Any] = ()) -> int:
        """Rows that are no longer needed; how many there were."""
        count, checks = self._db.execute(f'SELECT count(*), sum("check") FROM {table} WHERE {where}', values).fetchone()
        if count:
            self._db.execute(f"DELETE FROM {table} WHERE {where}", values)
            self._count(table, -count, -checks)
        return int(count)

    def _count(self, table: str, rows: int, checks: int) -> None:
        total = self.totals[table]
        total[0] += rows
        total[1] += checks

    def set_meta(self, key: str, value: Any) -> str:
        """Something about the whole file, as JSON."""
        text = json.dumps(value)
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (checksum((key, text)), key, text))
        return text

    def meta(self, key: str) -> Any:
        """What `set_meta` kept; None if there is nothing."""
        text = self._meta_text(key)
        return None if text is None else json.loads(text)

    def _meta_text(self, key: str) -> str | None:
        row = self.row('SELECT "check", value FROM meta WHERE key = ?', (key,))
        if row is None:
            return None
        if row[0] != checksum((key, row[1])):
            raise self.damaged(f"its {key} are not what was written")
        return str(row[1])

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
                f"{self.head.path}: {error.strerror}; what was asked is on disk, it may be asked again"
            ) from error

    def rollback(self) -> None:
        """Forget everything since `begin`."""
        if self.open_transaction:
            self.open_transaction = False
            self.last, self.commits, self.totals = self._before
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    # -- reading ------------------------------------------------------------------------------------------------

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a query."""
        return self._db.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> Row | None:
        """The first row of a query."""
        row = self._db.execute(query, values).fetchone()
        return None if row is None else tuple(row)

    def stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a query, not all at once."""
        return iter(self._db.execute(query, values))

    def checked(self, table: str, rows: Iterable[Row]) -> Iterator[Row]:
        """Whole rows of a table without their checksums, which are compared."""
        for check, *row in rows:
            if check != checksum(tuple(row)):
                raise self.damaged(f"{table} {row[0]!r} is not what was written")
            yield tuple(row)

    # -- whether it is what was written -------------------------------------------------------------------------

    def verify(self, *, accept_loss: bool = False, content: bool = True) -> dict[str, Any]:
        """The totals, and what was kept with them; a JournalError names what is wrong.

        With `accept_loss` a file that ends before its head is taken as it is, and the head begins again there. Rows
        that were changed are never taken; without `content` they are checked when they are read.
        """
        with self.errors():
            self.check_format()
            if content and (report := self.rows("PRAGMA integrity_check(1)")) != [("ok",)]:
                raise self.damaged(str(report[0][0]))
            text = self._meta_text("totals")
            if text is None:
                raise self.damaged("it has no totals")
            about: dict[str, Any] = json.loads(text)
            for table in self.TABLES:
                self.verify_table(table, about["tables"][table], content)
            self._verify_head(about, zlib.crc32(text.encode()), accept_loss)
        self.last, self.commits, self.totals = about["last"], about["commits"], about["tables"]
        return dict(about)

    def check_format(self) -> None:
        """Refuse a file of another version, with the remedy."""
        if (found := self.meta("format")) != self.FORMAT:
            raise JournalError(
                f"{self.path}: its format is {found!r}, this version reads {self.FORMAT!r}; use the version that wrote "
                f"it, or {self.REMEDY}"
            )

    def verify_table(self, table: str, total: list[int], content: bool = True) -> None:
        """Whether all rows of a table are there; with `content`, as they were written."""
        if content:
            for _ in self.checked(table, self.stream(f"SELECT * FROM {table}")):
                pass
        counted = self.rows(f'SELECT count(*), coalesce(sum("check"), 0) FROM {table}')[0]
        if list(counted) != total:
            raise self.damaged(f"it has {counted[0]} rows of {table}, {total[0]} were written")

    def _verify_head(self, about: dict[str, Any], totals: int, accept_loss: bool) -> None:
        head = self.head
        if accept_loss:
            head.write(about["commits"], about["last"], totals, both=True)
        elif about["commits"] < head.commits:
            raise self.damaged(
                f"its newest part is missing: it ends with number {about['last']}, but {head.last} was acknowledged; "
                "it can be opened without that part with accept_loss=True (--accept-loss)"
            )
        elif about["commits"] == head.commits and totals != head.totals:
            raise self.damaged("its totals are not those that were acknowledged last")

    # -- copies -------------------------------------------------------------------------------------------------

    @classmethod
    def copy(cls, source: Path, folder: Path) -> None:
        """A copy of the file at one moment, by SQLite's own backup, with a head of its own; others may write."""
        store = cls(source, read_only=True)
        with closing(store), store.errors(), closing(sqlite3.connect(folder / cls.FILE)) as target:
            store._db.backup(target)
            (text,) = target.execute("SELECT value FROM meta WHERE key = 'totals'").fetchone()
        about = json.loads(text)
        with closing(Head(folder, create=True)) as head:
            head.write(about["commits"], about["last"], zlib.crc32(text.encode()), both=True)

    # -- sizes, the end -----------------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """What the file and its write-ahead log take on disk."""
        paths = (self.path, self.path.with_name(self.FILE + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    @property
    def used_bytes(self) -> int:
        """What of the file is in use: freed pages are used again before it grows."""
        size, pages, free = (
            self.rows(f"PRAGMA {name}")[0][0] for name in ("page_size", "page_count", "freelist_count")
        )
        return int(size * (pages - free))

    def close(self) -> None:
        """Close both files; a forked copy of the process leaves them to the one that opened them."""
        if os.getpid() != self._pid:
            return
        try:
            self._db.close()
        finally:
            self.head.close()


@contextmanager
def copied(source: Path, target: Path, kind: type[Store]) -> Iterator[Path]:
    """A new folder for the copy of a store: what is put there is verified, and appears whole or not at all."""
    if not (source / kind.FILE).is_file():
        raise JournalError(f"{source} has no {kind.FILE}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise JournalError(f"{target} is there already; name a new or empty folder")
    place = target.with_name(f".{target.name}.part")
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        yield place
        with closing(kind(place)) as copy:
            copy.verify(content=True)
        if target.exists():
            target.rmdir()
        os.replace(place, target)
    except OSError as error:
        raise JournalError(f"cannot write to {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def restore(backup: Path, target: Path, kind: type[Store]) -> None:
    """Copy a backup, which stays as it is, to a new folder, where its model or fleet can be opened."""
    with copied(backup, target, kind) as place:
        shutil.copytree(backup, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lock"))
