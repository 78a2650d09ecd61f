"""A folder for files on their way, inside the models folder, so that a finished one can be moved into place at once."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path
from uuid import uuid4

from hedgerow.core.errors import InputError

PREFIX = ".work-"
YOUNG = 60.0  # seconds in which a folder without a lock may belong to a process that has just begun


class WorkFolder:
    """One a process, held by a lock: what a dead process left is removed, what a living one uses is not."""

    def __init__(self, models: Path) -> None:
        self._models = models
        self.path = models / f"{PREFIX}{uuid4().hex}"
        self._lock = -1

    def take(self) -> None:
        """Make the folder, and remove those whose process is gone."""
        if not self._models.is_dir():
            raise InputError(f"there is no folder {self._models}; make it, or name another with --models")
        try:
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise InputError(f"cannot write to {self._models}: {error.strerror}") from error
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for other in self._models.glob(f"{PREFIX}*"):
            if other != self.path and not other.is_symlink() and _is_free(other):
                shutil.rmtree(other, ignore_errors=True)

    def give_up(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _is_free(folder: Path) -> bool:
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except OSError:
        return time.time() - folder.stat().st_mtime > YOUNG
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
