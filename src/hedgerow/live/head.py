"""How far the journal has come, kept beside it: SQLite takes a write-ahead log that was cut short for a shorter log.

The file has two slots, written in turn, so that one is whole whenever the process ends. It is written after every
commit and before anything is acknowledged; so a journal that has fewer commits than its head has lost some.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from pathlib import Path

from hedgerow.live.errors import JournalError

SLOT = struct.Struct("<4sQQI")  # mark, commits, last number, checksum of the journal's totals
MARK = b"hdg1"
SIZE = SLOT.size + 4
logger = logging.getLogger("hedgerow.live")


def acknowledged(folder: Path) -> int:
    """How many commits the head of a folder speaks of, read without touching it."""
    path = folder / "head"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    good = [slot for slot in (_read(data[at : at + SIZE]) for at in (0, SIZE)) if slot is not None]
    if not good:
        raise JournalError(f"{path} is damaged: nobody can tell whether the newest events are there")
    return max(good)[0]


class Head:
    """The head of a journal. `commits`, `last` and `totals` are what the newest slot says."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.path = folder / "head"
        if not create and not self.path.exists():
            raise JournalError(
                f"{self.path} is missing: without it nobody can tell whether the newest events are there"
            )
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            found = [_read(os.pread(self._file, SIZE, slot * SIZE)) for slot in (0, 1)]
        except OSError as error:
            raise JournalError(f"cannot open {self.path}: {error.strerror}") from error
        good = [slot for slot in found if slot is not None]
        if not create and not good:
            raise JournalError(f"{self.path} is damaged: restore it from a copy, or go on with accept_loss=True")
        if not create and len(good) < len(found):
            logger.error("one of the two slots of %s is damaged; the other one is used", self.path)
        self.commits, self.last, self.totals = max(good, default=(0, 0, 0))

    def write(self, commits: int, last: int, totals: int) -> None:
        """After a commit."""
        self._write(commits % 2, commits, last, totals)

    def begin_again(self, commits: int, last: int, totals: int) -> None:
        """The loss of what was acknowledged beyond this is accepted: neither slot may speak of it any more."""
        for slot in (0, 1):
            self._write(slot, commits, last, totals)

    def _write(self, slot: int, commits: int, last: int, totals: int) -> None:
        data = SLOT.pack(MARK, commits, last, totals)
        os.pwrite(self._file, data + zlib.crc32(data).to_bytes(4, "little"), slot * SIZE)
        self.commits, self.last, self.totals = commits, last, totals

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _read(data: bytes) -> tuple[int, int, int] | None:
    if len(data) != SIZE or zlib.crc32(data[: SLOT.size]) != int.from_bytes(data[SLOT.size :], "little"):
        return None
    mark, commits, last, totals = SLOT.unpack(data[: SLOT.size])
    return (commits, last, totals) if mark == MARK else None
