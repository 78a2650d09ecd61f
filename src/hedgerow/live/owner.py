"""One process a live model: a lock on a file, which the system gives back however the process ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from hedgerow.live.errors import JournalError, Owned


class Owner:
    """The lock of a folder, held until `release`."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"cannot open {path}: {error.strerror}; a live model writes to its folder") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _described(os.pread(self._file, 1000, 0))
            os.close(self._file)
            raise Owned(f"{folder} is in use by {owner}; stop it, or use another folder") from None
        about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(about).encode(), 0)
        except OSError as error:
            os.close(self._file)
            raise JournalError(f"cannot write to {path}: {error.strerror}") from error

    def release(self) -> None:
        """Let others have it."""
        os.close(self._file)


def _described(text: bytes) -> str:
    try:
        about = json.loads(text)
        return f"process {about['pid']} on {about['host']} (since {about['since']})"
    except (ValueError, TypeError, KeyError):
        return "another process"
