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

What is answered is what the disk holds. `Store.commit` raises only if nothing was committed: what fails after that is
logged and made good by the next transaction. A commit of which SQLite does not know whether it reached the disk is
overwritten before it is refused.

What was deleted is overwritten in the file, and what was forgotten in its log, too: see `Store.forgetting`.
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
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

from hedgerow.core.errors import HedgerowError, InputError

DAMAGED = ("malformed", "not a database", "corrupt", "decode")  # words of SQLite's errors
WAL_BYTES = 16 << 20  # of the write-ahead log that stay on disk between checkpoints
WAIT = 5000  # milliseconds for the lock of another connection
ERASE_EVERY = 1.0  # seconds between two tries to empty a log that a reader keeps
TRIES = 5  # to copy files that are replaced meanwhile
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
            raise JournalError(
                f"cannot open {path}: {error.strerror}; the folder must be writable"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._file, 1000, 0).decode(errors="replace") or "another process"
            os.close(self._file)
            raise Owned(f"{folder} is in use by {owner}; stop it, or use another folder") from None
        if _identity(path) != _identity(self._file):  # the folder was moved between the two calls
            os.close(self._file)
            raise Owned(f"{folder} was in use by another process until now; try again")
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


def _identity(file: Path | int) -> tuple[int, int]:
    """Which file it is that has a path or a descriptor."""
    try:
        about = os.stat(file)
    except FileNotFoundError:
        return 0, 0
    return about.st_dev, about.st_ino


class Head:
    """How far the file has come, kept beside it: `commits`, `last` and `totals` of the newest commit.

    Two slots are written in turn, so that one is whole whenever the process ends; each is written after a commit and
    before anything is acknowledged.
    """

    def __init__(self, folder: Path, *, create: bool = False, read_only: bool = False) -> None:
        self.path = folder / "head"
        if not create and not self.path.exists():
            raise JournalError(
                f"{self.path} is missing: without it the newest part cannot be verified"
            )
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        try:
            self._file = os.open(self.path, flags | os.O_CLOEXEC, 0o600)
            slots = [_slot(os.pread(self._file, SIZE, place * SIZE)) for place in (0, 1)]
        except OSError as error:
            raise JournalError(f"cannot open {self.path}: {error.strerror}") from error
        whole = [slot for slot in slots if slot is not None]
        if not create and not whole:
            raise JournalError(
                f"{self.path} is damaged: restore it from a copy, or open with accept_loss=True"
            )
        if not create and not read_only and len(whole) < len(slots):
            logger.error("one of the two slots of %s is damaged; the other one is used", self.path)
        self.commits, self.last, self.totals = max(whole, default=(0, 0, 0))

    def write(self, commits: int, last: int, totals: int, *, both: bool = False) -> None:
        """After a commit; in `both` slots if neither may speak any more of what was acknowledged beyond it.

        The first commit is written to both.
        """
        data = SLOT.pack(MARK, commits, last, totals)
        for place in (0, 1) if both or not self.commits else (commits % 2,):
            os.pwrite(self._file, data + zlib.crc32(data).to_bytes(4, "little"), place * SIZE)
        self.commits = commits
        self.last = last
        self.totals = totals

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _slot(data: bytes) -> tuple[int, int, int] | None:
    if len(data) != SIZE or zlib.crc32(data[: SLOT.size]) != int.from_bytes(
        data[SLOT.size :], "little"
    ):
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
    ALONG: ClassVar[tuple[str, ...]] = ()  # files, and folders of files, that belong to it
    RENEWED: ClassVar[str] = (
        ""  # the folder among them whose files come and go, of which a copy needs some
    )
    REMEDY: ClassVar[str] = "restore the folder from a copy"
    OLDER: ClassVar[tuple[str, ...]] = ()  # formats before this one that can be read
    MOVE: ClassVar[str]  # what to do with a file of an earlier version
    WHAT: ClassVar[str]  # what a folder with such a file is called
    MADE: ClassVar[str]  # what makes one
    LEFT: ClassVar[tuple[str, ...]]  # files that are left of one where its own file is not there

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
        self.folder = folder
        self.path = folder / self.FILE
        self._pid = os.getpid()
        self._read_only = read_only
        self._head_due: tuple[int, int, int] | None = None  # what the head could not be told
        self._erase_again = 0.0
        self.open_transaction = False
        if not create and not self.path.is_file():
            raise JournalError(f"{folder} has no {self.FILE}")
        # a reader looks at the head before the file, which may only have more
        self.head = Head(folder, create=create or accept_loss, read_only=read_only)
        with on_error(self.head.close), self.errors():
            self._connect(create, read_only, sync, page)
        self.totals: dict[str, list[int]] = {table: [0, 0] for table in self.TABLES}
        self.last = self.commits = 0

    # -- folders ------------------------------------------------------------------------------------------------

    @classmethod
    def own(cls, folder: Path) -> Owner:
        """The lock of a folder that has one of this version."""
        if not (folder / cls.FILE).is_file():
            raise InputError(f"{folder} has no {cls.WHAT}; {cls.MADE} makes one")
        cls.check_version(folder)
        return Owner(folder)

    @classmethod
    def own_new(cls, folder: Path) -> Owner:
        """The lock of a new or empty folder; nothing in it is written before."""
        cls._check_new(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JournalError(f"cannot make the folder {folder}: {error.strerror}") from error
        owner = Owner(folder)
        with on_error(owner.release):
            cls._check_new(folder)  # now that nobody else can make one
        return owner

    @classmethod
    def _check_new(cls, folder: Path) -> None:
        if (folder / cls.FILE).exists():
            raise InputError(
                f"{folder} has a {cls.WHAT} already: open it, or choose another folder"
            )
        for file in (file for pattern in cls.LEFT for file in folder.glob(pattern)):
            raise InputError(
                f"{folder} has what is left of another {cls.WHAT} ({file.name}); choose another folder"
            )

    @classmethod
    @contextmanager
    def new(cls, folder: Path, **options: Any) -> Iterator[Self]:
        """A new file, to be filled, which is written aside and renamed: a folder has a whole one or none."""
        aside = folder / "new"
        try:
            shutil.rmtree(aside, ignore_errors=True)  # of a process that ended here
            aside.mkdir()
            with closing(cls(aside, create=True, **options)) as store, store.errors():
                yield store
            for name in ("head", cls.FILE):
                os.replace(aside / name, folder / name)
            sync_path(folder)
        except OSError as error:
            raise JournalError(
                f"cannot write to {folder}: {error.strerror}; nothing of this was kept"
            ) from error
        shutil.rmtree(aside, ignore_errors=True)

    @classmethod
    def remove(cls, folder: Path) -> None:
        """What was not created is not there."""
        for file in (*folder.glob(f"{cls.FILE}*"), *folder.glob("head")):
            with suppress(OSError):
                file.unlink()
        if (folder / cls.FILE).exists():
            raise JournalError(
                f"{folder}: the disk takes nothing more, but has a {cls.WHAT} now: open it, or remove the folder"
            )

    def _connect(self, create: bool, read_only: bool, sync: str, page: int) -> None:
        log = self._log_bytes
        if read_only:
            # SQLite makes files beside one that it reads, unless that cannot change
            fixed = "" if log or os.access(self.folder, os.W_OK) else "&immutable=1"
            address = f"{self.path.resolve().as_uri()}?mode=ro{fixed}"
            self._db = sqlite3.connect(address, uri=True, timeout=WAIT / 1000)
            self._db.execute("BEGIN")  # one moment, however long it is looked at
        else:
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=WAIT / 1000
            )
            if create:
                self._db.execute(f"PRAGMA page_size = {page}")
            self._set("journal_mode", "WAL", "wal")
            self.set_sync(sync)
            self._set("journal_size_limit", WAL_BYTES, WAL_BYTES)
            self._set("secure_delete", "ON", 1)  # in pages that are freed, too
            if create:
                self._db.executescript(META + self.SCHEMA)
                self.set_meta("format", self.FORMAT)
        # a log of another process may have what was forgotten
        self.erasing = bool(log) and not read_only
        self._inode = _identity(self.path)
        self._insert = {}
        for table in self.TABLES:
            columns = len(self.rows(f"PRAGMA table_info({table})"))
            self._insert[table] = f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"

    def _set(self, option: str, value: Any, expected: Any) -> None:
        """Set an option of SQLite's, which answers with what it has set."""
        (found,) = self.rows(f"PRAGMA {option} = {value}")[0]
        if found != expected:
            raise JournalError(
                f"{self.path}: SQLite has {option} {found} here, {value} is needed; put the folder on a local disk"
            )

    def set_sync(self, sync: str) -> None:
        """Whether a commit waits for the disk ("full"), or survives the end of the process only ("normal")."""
        self._db.execute(f"PRAGMA synchronous = {'FULL' if sync == 'full' else 'NORMAL'}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """SQLite's errors as ours, with what to do."""
        try:
            yield
        except (
            sqlite3.Error,
            UnicodeDecodeError,
        ) as error:  # a name in the schema that is no text is not SQLite's
            raise JournalError(f"{self.path}: {self._explained(error)}") from error
        except OSError as error:
            raise JournalError(
                f"{self.folder}: {error.strerror or error}{self._nothing_kept}"
            ) from error

    @property
    def _nothing_kept(self) -> str:
        return "" if self._read_only else "; nothing of this was kept"

    def _explained(self, error: sqlite3.Error | UnicodeDecodeError) -> str:
        text = str(error)
        if "full" in text:
            return f"the disk is full{self._nothing_kept}. Free some space and try again"
        if "readonly" in text:
            return f"the file or its disk is read-only{self._nothing_kept}. Make it writable and try again"
        if self._read_only and "unable to open" in text:
            return (
                "its write-ahead log cannot be read where nothing can be written; copy the folder to another disk and "
                "read it there"
            )
        if isinstance(error, UnicodeDecodeError) or any(word in text for word in DAMAGED):
            return f"damaged ({text}); {self.REMEDY}"
        return text + self._nothing_kept

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
        if _identity(self.path) != self._inode:
            raise JournalError(
                f"{self.path} was replaced while it was open; nothing was written. Open the folder again"
            )
        if self._head_due is not None:  # a commit that could be lost unnoticed stays the only one
            try:
                self.head.write(*self._head_due)
            except OSError as error:
                raise JournalError(
                    f"cannot write to {self.head.path}: {error.strerror}; nothing of this was kept"
                ) from error
            self._head_due = None
        self._before = (
            self.last,
            self.commits,
            {table: list(pair) for table, pair in self.totals.items()},
        )
        self._db.execute("BEGIN IMMEDIATE")
        self.open_transaction = True

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
        count, checks = self._db.execute(
            f'SELECT count(*), sum("check") FROM {table} WHERE {where}', values
        ).fetchone()
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
        self._db.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (checksum((key, text)), key, text)
        )
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
        """Everything since `begin`, durably; `more` goes with the totals. Afterwards the head says so.

        An error means that nothing was committed. What fails later is logged, and done by the next transaction.
        """
        self.commits += 1
        about = {"last": self.last, "commits": self.commits, "tables": self.totals, **more}
        text = self.set_meta("totals", about)
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._withdraw(error)
            raise
        self.open_transaction = False
        acknowledged = self.commits, self.last, zlib.crc32(text.encode())
        try:
            self.head.write(*acknowledged)
        except OSError as error:
            self._head_due = acknowledged
            logger.error("%s: %s; the next transaction tries again", self.head.path, error.strerror)
        if self.erasing and time.monotonic() >= self._erase_again:
            self.erase()

    def _withdraw(self, error: sqlite3.Error) -> None:
        """Overwrite what a failed commit has left in the log, or it would be there when the file is opened again."""
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            return  # it ends before the mark of a commit
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._db.execute("UPDATE meta SET value = value WHERE key = 'totals'")
        except sqlite3.Error:
            raise JournalError(
                f"{self.path}: {error}. The disk did not say whether it has this, and takes nothing else: it may be "
                "there when the folder is opened again. Ask again then, under the same ids"
            ) from error

    def rollback(self) -> None:
        """Forget everything since `begin`."""
        if self.open_transaction:
            self.open_transaction = False
            self.last, self.commits, self.totals = self._before
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    # -- forgetting ---------------------------------------------------------------------------------------------

    def forgetting(self) -> None:
        """Within a transaction: older pages, with rows that it deletes, leave the log with the commit.

        `erasing`, after it, says whether a reader still keeps them; a later commit tries again.
        """
        self.erasing = True
        self._erase_again = 0.0

    def erase(self) -> bool:
        """Empty the log. False if a reader needs it: `erasing` stays, and commits try again, once in a while."""
        try:
            self._db.execute("PRAGMA busy_timeout = 0")  # nobody waits for a reader
            (busy, *_) = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]
        except sqlite3.Error as error:
            busy = 1
            logger.error("%s: its log cannot be emptied: %s; tried again later", self.path, error)
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {WAIT}")
        self.erasing = bool(busy)
        self._erase_again = time.monotonic() + ERASE_EVERY
        return not busy

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
        self.last = about["last"]
        self.commits = about["commits"]
        self.totals = about["tables"]
        return dict(about)

    def check_format(self) -> None:
        """Refuse a file of another version, with the remedy."""
        if (found := self.meta("format")) not in (self.FORMAT, *self.OLDER):
            raise self.other_format(self.path, found)

    @classmethod
    def check_version(cls, folder: Path) -> None:
        """The same before the file is opened for writing; what else may be wrong with it is found later."""
        path = folder / cls.FILE
        mode = (
            "ro" if path.with_name(f"{cls.FILE}-wal").exists() else "ro&immutable=1"
        )  # which leaves no files behind
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)) as db:
                (found,) = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
            found = json.loads(found)
        except (sqlite3.Error, TypeError, ValueError):
            return
        if found != cls.FORMAT:
            raise cls.other_format(path, found)

    @classmethod
    def other_format(cls, path: Path, found: Any) -> JournalError:
        """The error for a file of another version."""
        return JournalError(
            f"{path}: its format is {found!r}, this version writes {cls.FORMAT!r}; nothing was changed. Of an earlier "
            f"version: {cls.MOVE}, or use the version that wrote it. Of a later one: upgrade hedgerow"
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
                "it can be opened without that part with accept_loss=True (--setting accept_loss=True)"
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

    @classmethod
    def check_copy(cls, folder: Path) -> None:
        """Raise a JournalError unless everything can be recovered from a copy; nothing in it changes."""
        with closing(cls(folder, read_only=True)) as store:
            store.verify(content=True)

    # -- sizes, the end -----------------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """What the file and its write-ahead log take on disk."""
        return self.path.stat().st_size + self._log_bytes

    @property
    def _log_bytes(self) -> int:
        log = self.path.with_name(f"{self.FILE}-wal")
        return log.stat().st_size if log.exists() else 0

    @property
    def used_bytes(self) -> int:
        """What of the file is in use: freed pages are used again before it grows."""
        size, pages, free = (
            self.rows(f"PRAGMA {name}")[0][0]
            for name in ("page_size", "page_count", "freelist_count")
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


def copy_folder(source: Path, target: Path, kind: type[Store]) -> None:
    """Copy the folder of a store, also while it runs, to a new folder: as it is at one moment, whole or not at all.

    Everything is recovered from the copy before it gets its name. A backup and its restoration are such copies.
    """
    if not (source / kind.FILE).is_file():
        raise JournalError(f"{source} has no {kind.FILE}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise JournalError(f"{target} already exists; name a new or empty folder")
    place = target.with_name(f".{target.name}.part")
    try:
        place.mkdir(parents=True, exist_ok=True)
        owner = Owner(place)
        try:
            with on_error(lambda: shutil.rmtree(place, ignore_errors=True)):
                _copy_at_one_moment(source, place, kind)
                for path in (place / "lock", *place.glob(f"{kind.FILE}-*")):
                    path.unlink()
                for path in (*place.rglob("*"), place):
                    sync_path(path)
                os.replace(place, target)
            with on_error(lambda: shutil.rmtree(target, ignore_errors=True)):
                sync_path(target.parent)
        finally:
            owner.release()
    except OSError as error:
        raise JournalError(f"cannot write to {target}: {error.strerror or error}") from error


def _copy_at_one_moment(source: Path, place: Path, kind: type[Store]) -> None:
    """The file, by SQLite's own backup, and the files that belong to it, so that everything can be recovered."""
    for _ in range(TRIES):
        for left in place.iterdir():  # of the try before, or of a process that ended here
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name != "lock":
                left.unlink()
        before = _along(source, kind)
        try:
            for path in before:
                (place / path).parent.mkdir(exist_ok=True)
                shutil.copyfile(source / path, place / path)
        except FileNotFoundError:
            continue  # one that was no longer needed
        kind.copy(source, place)
        changed = {path.parts[0] for path, _ in before.items() ^ _along(source, kind).items()}
        if changed <= {kind.RENEWED}:
            try:
                return kind.check_copy(place)
            except JournalError:
                if not changed:
                    raise
    raise JournalError(
        f"{source}: its files were replaced {TRIES} times while it was copied; try again"
    )


def _along(folder: Path, kind: type[Store]) -> dict[Path, tuple[int, int]]:
    """The files that belong to a store, and which ones they are."""
    names = [folder / name for name in kind.ALONG]
    paths = [path for name in names for path in (name, *name.glob("[!.]*")) if path.is_file()]
    return {path.relative_to(folder): _identity(path) for path in paths}


def sync_path(path: Path) -> None:
    """Put a file or the names in a folder on disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
