"""A journal, read without touching it, also while another process writes to it: its events, exports, copies."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Matrix, is_sparse
from hedgerow.core.domains import Domain, Frame
from hedgerow.core.errors import InputError, require
from hedgerow.events import EXPIRED, LEARNED, OWN, PENDING, label_of_json, row_of_bytes
from hedgerow.files import check_writable
from hedgerow.live.journal import Journal, Model, interval_of, model_at
from hedgerow.live.report import NumberTallies, tallies_of_json
from hedgerow.live.steps import Snapshots, Steps
from hedgerow.store import JournalError, copied

EVENTS = (
    "SELECT event.number, id, event.time, code, shares, x, raw, answer.label, correct, answer.time, answer.step "
    "FROM event LEFT JOIN features USING (number) LEFT JOIN answer USING (number) ORDER BY event.number"
)
STEPS = "SELECT number, kind, first, last FROM step ORDER BY number"
GROUP = 10_000  # rows of a Parquet file that are written together
SUFFIXES = (".jsonl", ".parquet")
TRIES = 5  # to read what another process replaces meanwhile


@dataclass(frozen=True)
class Event:
    """A prediction, its features if they are still there, its label if it came; `step`: when, among all numbers.

    `x` is the row as the model reads it, `features` as it came: by name, where there are names.
    """

    number: int
    id: str
    time: float
    prediction: Any
    probability: float | None  # of the class; a number has an interval
    interval: tuple[float, float] | None
    x: Matrix | None
    features: dict[str, Any] | list[Any] | None
    label: Any
    correct: bool | None
    labelled: float | None
    step: int | None

    @property
    def status(self) -> str:
        """pending, learned or expired."""
        return PENDING if self.step is None else EXPIRED if self.label is None else LEARNED


class Look:
    """An open journal, to read."""

    def __init__(self, journal: Journal) -> None:
        self._journal, self.folder = journal, journal.folder
        journal.check_format()
        self.models = journal.models()
        now = self.models[-1]
        self.method, self.width, self.names, self.classes = now.method, now.width, now.names, now.classes
        self.totals: dict[str, Any] = journal.meta("totals")
        self.tallies = tallies_of_json(self.totals["tallies"])
        self._whole: set[str] = set()
        if self.totals["commits"] < journal.head.commits:
            raise journal.damaged("its newest part is missing, events that were acknowledged are not there")

    def _check(self, *tables: str) -> None:
        """Nothing is shown of a table that is not what was written."""
        for table in tables:
            if table not in self._whole:
                self._journal.verify_table(table, self.totals["tables"][table])
                self._whole.add(table)

    def events(self) -> Iterator[Event]:
        """Every event that is kept, oldest first."""
        self._check("event", "features", "answer")
        classes = {model.number: model.classes for model in self.models}
        for number, id, time, code, shares, x, raw, label, correct, labelled, step in self._journal.stream(EVENTS):
            model = model_at(self.models, step)  # by which the row was learned: it was read again for another one
            row = None if x is None else row_of_bytes(x, model.width, np.dtype(model.dtype))
            made_by, P = model_at(self.models, number), np.frombuffer(shares)
            is_number = made_by.coverage is not None
            prediction = float(P[0]) if is_number else classes[made_by.number][code]
            probability, interval = (None, interval_of(P)) if is_number else (float(P[code]), None)
            yield Event(
                number, f"{OWN}{number}" if id is None else id, time, prediction, probability, interval, row,
                json.loads(raw) if raw is not None else _features(row, model.names),
                None if label is None else label_of_json(label), None if correct is None else bool(correct),
                labelled, step,
            )  # fmt: skip

    def steps(self) -> list[tuple[int, str, int, int]]:
        """Number, kind, first and last event of every step that is kept."""
        self._check("step")
        return [(n, str(kind), a, b) for n, kind, a, b in self._journal.rows(STEPS)]

    def model(self) -> Model:
        """The model as it is at this moment of the journal: a snapshot, and the steps after it."""
        self._check("step", "answer", "features")
        number, clf = Snapshots(self.folder).newest(self.totals["last"])
        steps = Steps(clf)
        steps.repeat(self._journal, number)
        return steps.clf

    def rows(self) -> Domain:
        """The rows that are kept, as they came, in the order in which they were learned; None is a label that is not.

        A model can be fitted again with them: without labels as rows of the target, then with the labels.
        """
        events = [event for event in self.events() if event.features is not None]
        events.sort(key=lambda event: (event.step is None, event.step, event.number))
        if not events:
            raise InputError(f"{self.folder}: its journal keeps no rows (keep_events, keep_seconds); nothing to fit on")
        encoder = self.model().table_
        if (
            encoder is not None
            and not encoder.only_numbers
            and any(list(e.features or ()) == self.names for e in events)
        ):
            raise InputError(
                f"{self.folder}: rows of its journal came as numbers of the model's encoder, not by the names of their "
                "columns; fit from the files they came from"
            )
        y = np.empty(len(events), dtype=object)
        y[:] = [event.label for event in events]
        table = Frame.of_rows([_named(event) for event in events])
        if table.plain:
            names = None if self.names is None else list(table.names)
            return Domain("journal", table.numbers(), y, feature_names=names)
        return Domain("journal", table, y)

    def summary(self) -> dict[str, Any]:
        """Counts, sizes and times, of a journal of which every row is as it was written."""
        self._journal.verify()
        tallies, tables, snapshots = self.tallies, self.totals["tables"], Snapshots(self.folder)
        since = self._journal.rows("SELECT count(*) FROM step WHERE number > ?", (snapshots.newest_number,))[0][0]
        return {
            "method": self.method,
            "features": self.width,
            "classes": self.classes,
            "events": tallies.events,
            "labels": tallies.labels,
            "mistakes": tallies.mistakes,
            "window": {"labels": len(tallies.window), "mistakes": sum(tallies.window)},
            "errors": tallies.errors([]) if isinstance(tallies, NumberTallies) else None,
            "pending": int(tables["event"][0] - tables["answer"][0]),
            "expired": tallies.expired,
            "last_event": tallies.last_event,
            "last_label": tallies.last_label,
            "kept": tables["event"][0],
            "replaced": len(self.models) - 1,
            "snapshot": snapshots.newest_number,
            "steps_since_snapshot": int(since),
            "bytes": sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()),
        }


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


def _features(row: Matrix | None, names: list[str] | None) -> dict[str, Any] | list[Any] | None:
    """The numbers of a row, by name where there are names; a gap is None."""
    if row is None:
        return None
    numbers = (row.toarray()[0] if is_sparse(row) else row).tolist()
    values = [None if value != value else value for value in numbers]
    return values if names is None else dict(zip(names, values, strict=True))


# -- export ------------------------------------------------------------------------------------------------------------


def export(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> int:
    """Write every event that a journal keeps to a .jsonl or .parquet file, which must be new; how many there were."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(f"{target}: a journal is exported to a {' or '.join(SUFFIXES)} file")
    if target.exists():
        raise InputError(f"{target} is there already; choose another name")
    check_writable(target)
    aside = target.with_name(f".{target.name}.part")
    try:
        with look(folder) as journal:
            count = _json_lines(journal, aside) if target.suffix.lower() == ".jsonl" else _parquet(journal, aside)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    return count


def _record(event: Event) -> dict[str, Any]:
    if event.interval is None:
        about, outcome = {"probability": event.probability}, "correct"
    else:
        about, outcome = {"low": event.interval[0], "high": event.interval[1]}, "inside"
    return {
        "id": event.id,
        "number": event.number,
        "time": event.time,
        "features": event.features,
        "prediction": event.prediction,
        **about,
        "label": event.label,
        "labelled": event.labelled,
        outcome: event.correct,
        "status": event.status,
    }


def _json_lines(journal: Look, path: Path) -> int:
    with path.open("w", encoding="utf-8") as file:
        lines = (json.dumps(_record(event), ensure_ascii=False) + "\n" for event in journal.events())
        return sum(bool(file.write(line)) for line in lines)


def _parquet(journal: Look, path: Path) -> int:
    """A column a feature. Labels, and features as they came, are numbers where all are, else text."""
    pa, parquet = require("pyarrow", extra="files"), require("pyarrow.parquet", extra="files")
    names: dict[str, set[type]] = {}
    for event in journal.events():
        for name, value in _named(event).items():
            names.setdefault(name, set()).add(type(value))
    is_number = journal.models[-1].coverage is not None
    label = pa.float64() if is_number else _type(pa, {type(label) for label in journal.classes})
    about = ["low", "high"] if is_number else ["probability"]
    kinds = {name: _type(pa, found - {type(None)}) for name, found in names.items()}
    schema = pa.schema([
        ("id", pa.string()), ("number", pa.int64()), ("time", pa.float64()), ("prediction", label),
        *((name, pa.float64()) for name in about), ("label", label), ("labelled", pa.float64()),
        ("inside" if is_number else "correct", pa.bool_()), ("status", pa.string()),
        *((f"feature.{name}", kind) for name, kind in kinds.items()),
    ])  # fmt: skip
    texts = {field.name for field in schema if field.type == pa.string()}
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        events = journal.events()
        while group := list(islice(events, GROUP)):
            rows = []
            for event in group:
                flat = _record(event) | {f"feature.{name}": value for name, value in _named(event).items()}
                rows.append({k: str(v) if k in texts and v is not None else v for k, v in flat.items()})
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(group)
    return count


def _named(event: Event) -> dict[str, Any]:
    if isinstance(event.features, dict):
        return event.features
    return {f"x{i}": value for i, value in enumerate(event.features or [])}


def _type(pa: Any, kinds: set[type]) -> Any:
    """Numbers as numbers, anything else by its text."""
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()


# -- copies ------------------------------------------------------------------------------------------------------------


def backup(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy the folder of a live model, also while it runs, to a new one, which can be opened like the first.

    The journal is copied as it is at one moment, with snapshots from which it can be recovered; the copy is verified.
    """
    source = Path(folder)
    with copied(source, Path(target), Journal) as place:
        for _ in range(TRIES):
            for name in ("snapshots", "models"):
                shutil.rmtree(place / name, ignore_errors=True)
                if (source / name).is_dir():
                    shutil.copytree(source / name, place / name, ignore_dangling_symlinks=True)
            journal = Journal(source, read_only=True)
            try:
                with journal.errors():
                    journal.copy_to(place)
            finally:
                journal.close()
            # what was copied is older than the journal: it will do unless the journal has lost steps meanwhile
            if Snapshots(place).newest_number >= Snapshots(source).oldest:
                return
        raise JournalError(f"{source}: its snapshots were replaced {TRIES} times while it was copied; try again")
