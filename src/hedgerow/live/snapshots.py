"""Snapshots: model files in a folder, named by the number of the step that they were taken at."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.files import read_header, write_whole
from hedgerow.store import JournalError

KEPT = 2  # newest snapshots that stay: the journal has what came after the older one
logger = logging.getLogger("hedgerow.live")


class Snapshots:
    """The snapshots of a live model, oldest first in `numbers`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "snapshots"
        self.error: str | None = None  # why the newest could not be written
        self.time: float | None = None
        self.bytes = 0
        self._damaged: set[int] = set()  # those that are there and cannot be read
        found = self.numbers
        self.oldest, self.newest_number = (found[0], found[-1]) if found else (0, 0)

    @property
    def numbers(self) -> list[int]:
        """Of the files that are there."""
        return sorted(int(path.stem) for path in self.folder.glob("*.safetensors") if path.stem.isdigit())

    def path(self, number: int) -> Path:
        """Where a snapshot is."""
        return self.folder / f"{number:015d}.safetensors"

    def write(self, number: int, data: bytes) -> None:
        """Write one aside and rename it; only then the oldest go. An error is kept in `error`, and all files are."""
        try:
            self.folder.mkdir(exist_ok=True)
            write_whole(self.path(number), data)
            self._damaged.discard(number)
            kept = [found for found in self.numbers if found not in self._damaged][-KEPT:]
            for old in self.numbers:
                if old not in kept:
                    self.path(old).unlink(missing_ok=True)
            self.oldest, self.newest_number = kept[0], kept[-1]
        except (InputError, OSError) as error:
            self.error = str(error)
            logger.error(
                "snapshot %d was not written: %s; the journal has everything since the last one", number, error
            )
            return
        self.error, self.time, self.bytes = None, time.time(), len(data)

    def _check_older(self, numbers: list[int], used: int) -> None:
        """Whether those that are kept in reserve are whole: one that is not is said, and no longer counted on."""
        self.oldest = used
        for number in reversed(numbers):
            try:
                read_header(self.path(number).read_bytes(), str(self.path(number)))
            except (InputError, OSError) as error:
                logger.error("%s; it was kept in reserve, and is not needed now", error)
                self._damaged.add(number)
                return
            self.oldest = number

    def newest(self, last: int) -> tuple[int, OnlineTransferClassifier]:
        """The newest snapshot that is whole. One that is newer than the journal's last number is refused."""
        numbers = self.numbers
        if numbers and numbers[-1] > last:
            raise JournalError(
                f"{self.path(numbers[-1])} is newer than the journal, which ends with number {last}: the journal has "
                "lost its end; restore the folder from a copy, or start a new journal from this snapshot"
            )
        wrong = []
        for number in reversed(numbers):
            try:
                clf = OnlineTransferClassifier.load(self.path(number))
            except InputError as error:
                logger.error("%s; going on from the one before", error)
                wrong.append(str(error))
                self._damaged.add(number)
                continue
            stat = self.path(number).stat()
            self.time, self.bytes, self.newest_number = stat.st_mtime, stat.st_size, number
            self._check_older([other for other in numbers if other < number], number)
            return number, clf
        reasons = "; ".join(wrong) or "there is none"
        raise JournalError(f"{self.folder}: no snapshot can be used ({reasons}); restore the folder from a copy")
