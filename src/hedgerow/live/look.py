"""A journal, looked at without touching it, also while another process writes to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError
from hedgerow.core.labels import labels_from_json, plain
from hedgerow.live.journal import Journal
from hedgerow.live.rows import label_of_json, row_of_bytes
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.tallies import Tallies
from hedgerow.store import JournalError

EVENTS = (
    "SELECT event.number, id, event.time, code, shares, x, answer.label, correct, answer.time, answer.step "
    "FROM event LEFT JOIN features USING (number) LEFT JOIN answer USING (number) ORDER BY event.number"
)
STEPS = "SELECT number, kind, first, last FROM step ORDER BY number"


@dataclass(frozen=True)
class Event:
    """A prediction, its features if they are still there, its label if it came; `step`: when, among all numbers."""

    number: int
    id: str
    time: float
    prediction: Any
    probability: float
    x: Matrix | None
    label: Any
    correct: bool | None
    labelled: float | None
    step: int | None

    @property
    def status(self) -> str:
        """waiting, learned or given up."""
        return "waiting" if self.step is None else "given up" if self.label is None else "learned"


class Look:
    """An open journal, to read."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self.folder = journal, journal.folder
        if journal.meta("format") != Journal.FORMAT:
            raise JournalError(f"{self.folder}: its journal is not a {Journal.FORMAT!r}")
        about = journal.meta("rows")
        self.method, self.width, self.names = about["method"], int(about["width"]), about["names"]
        self._dtype = np.dtype(about["dtype"])
        self.totals: dict[str, Any] = journal.meta("totals")
        self.tallies = Tallies.from_json(self.totals["tallies"])
        self._whole: set[str] = set()
        if self.totals["commits"] < journal.head.commits:
            raise journal.damaged("its newest part is missing, events that were acknowledged are not there")

    @property
    def classes(self) -> Array:
        """All classes so far."""
        return labels_from_json(self._journal.meta("classes"))

    def _check(self, *tables: str) -> None:
        """Nothing is shown of a table that is not what was written."""
        for table in tables:
            if table not in self._whole:
                self._journal.verify_table(table, self.totals["tables"][table])
                self._whole.add(table)

    def events(self) -> Iterator[Event]:
        """Every event that is kept, oldest first."""
        self._check("event", "features", "answer")
        labels = [plain(label) for label in self.classes]
        for number, id, time, code, shares, x, label, correct, labelled, step in self._journal.stream(EVENTS):
            yield Event(
                number, f"#{number}" if id is None else id, time, labels[code], float(np.frombuffer(shares)[code]),
                None if x is None else row_of_bytes(x, self.width, self._dtype),
                None if label is None else label_of_json(label), None if correct is None else bool(correct),
                labelled, step,
            )  # fmt: skip

    def steps(self) -> list[tuple[int, str, int, int]]:
        """Number, kind, first and last event of every step that is kept."""
        self._check("step")
        return [(n, str(kind), a, b) for n, kind, a, b in self._journal.rows(STEPS)]

    def newest_point(self) -> dict[str, Any] | None:
        """The newest point of the curves."""
        self._check("history")
        row = self._journal.row("SELECT point FROM history ORDER BY number DESC LIMIT 1")
        return None if row is None else dict(json.loads(row[0]))

    def summary(self) -> dict[str, Any]:
        """Counts, sizes and times."""
        tallies, snapshots = self.tallies, Snapshots(self.folder)
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return {
            "method": self.method,
            "features": self.width,
            "classes": [plain(label) for label in self.classes],
            "events": tallies.events,
            "labels": tallies.labels,
            "mistakes": tallies.mistakes,
            "window": {"labels": len(tallies.window), "mistakes": sum(tallies.window)},
            "pending": self._pending(),
            "given_up": tallies.given_up,
            "last_event": tallies.last_event,
            "last_label": tallies.last_label,
            "kept": self.totals["tables"]["event"][0],
            "snapshot": snapshots.newest_number,
            "steps_since_snapshot": self._since(snapshots.newest_number),
            "bytes": sum(path.stat().st_size for path in files),
        }

    def _pending(self) -> int:
        tables = self.totals["tables"]
        return int(tables["event"][0] - tables["answer"][0])

    def _since(self, number: int) -> int:
        return int(self._journal.rows("SELECT count(*) FROM step WHERE number > ?", (number,))[0][0])


@contextmanager
def look(folder: str | os.PathLike[str]) -> Iterator[Look]:
    """Open a journal to read it."""
    path = Path(folder)
    if not (path / Journal.FILE).is_file():
        raise InputError(f"{path} has no {Journal.FILE}: it is not the folder of a live model")
    journal = Journal(path, read_only=True)
    try:
        with journal.errors():
            yield Look(journal)
    finally:
        journal.close()
