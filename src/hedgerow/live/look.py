"""A journal, read without touching it, also while another process writes to it: its events, and exports of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from hedgerow.core.domains import Domain, Frame
from hedgerow.core.errors import InputError, require
from hedgerow.core.values import objects
from hedgerow.files import check_writable
from hedgerow.live.journal import LAST, EventRow, Journal, Snapshots, recovered
from hedgerow.live.report import scores_of
from hedgerow.store import Head, JournalError, on_error
from hedgerow.task import TASKS, Model, Task

GROUP = 10_000  # rows of a Parquet file that are written together
SUFFIXES = (".jsonl", ".parquet")


class Look(Journal):
    """A journal at one moment, to read: `now` is its newest model. Nothing is shown that is not what was written.

    Events of journals of format 4 can be read, their models cannot.
    """

    OLDER = ("hedgerow journal 4",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, read_only=True)
        self._verified: set[str] = set()
        with on_error(self.close), self.errors():
            self.check_format()
            self.now = self.models()[-1]
            self.about = self.meta("totals")
            if self.about["commits"] < self.head.commits:
                raise self.damaged("its newest part is missing: acknowledged events are not in it")

    def _check(self, *tables: str) -> None:
        for table in tables:
            if table not in self._verified:
                self.verify_table(table, self.about["tables"][table])
                self._verified.add(table)

    def events(self, newest: int | None = None, until: int = LAST) -> Iterator[EventRow]:
        """Every event that is kept, oldest first; or so many of the newest up to a number, newest first."""
        self._check("event", "answer")
        return super().events(newest, until)

    @property
    def task(self) -> Task:
        """Whether its models predict classes or numbers."""
        return TASKS[self.now.task]

    def model(self) -> Model:
        """The model as it is at this moment of the journal: a snapshot, and the steps after it."""
        if (found := self.meta("format")) != self.FORMAT:
            raise self.other_format(self.path, found)
        self._check("step", "answer", "event")
        try:
            return recovered(self, Snapshots(self.folder), self.about).clf
        except JournalError:
            with closing(Head(self.folder, read_only=True)) as head:
                if head.commits == self.about["commits"]:
                    raise
            raise JournalError(f"{self.folder}: it changed while it was read; try again") from None

    def domain(self) -> Domain:
        """The rows that are kept, as they came, in the order in which they were learned; None is a label that is not.

        A model can be fitted again with them: without labels as rows of the target, then with the labels.
        """
        events = sorted(
            self.events(), key=lambda event: (event.step is None, event.step, event.number)
        )
        if not events:
            raise InputError(
                f"{self.folder}: its journal keeps no rows (keep_events, keep_seconds); nothing to fit on"
            )
        rows = [event.features for event in events]
        names = self.now.names
        as_they_came = [event.raw is not None for event in events]
        encodes = self.now.encodes
        if encodes is None:
            encodes = any(
                came and list(row) != names for came, row in zip(as_they_came, rows, strict=True)
            )
        if encodes and not all(as_they_came):
            raise InputError(
                f"{self.folder}: rows of its journal came as numbers of the model's encoder, not by the names of their "
                "columns; fit from the files they came from"
            )
        y = objects(event.label for event in events)
        table = Frame.of_rows([_named(row) for row in rows])
        if table.plain:
            return Domain(
                "journal",
                table.numbers(),
                y,
                feature_names=None if names is None else list(table.names),
            )
        return Domain("journal", table, y)

    def summary(self) -> dict[str, Any]:
        """Counts, sizes and times, of a journal of which every row is as it was written."""
        self.verify()
        scores = scores_of(self.task, self.about["scores"])
        snapshots = Snapshots(self.folder)
        since = self.rows("SELECT count(*) FROM step WHERE number > ?", (snapshots.newest_number,))[
            0
        ][0]
        return {
            "method": self.now.method,
            "features": self.now.width,
            "classes": self.now.classes,
            **scores.counts(),
            "words": scores.words(self.now.scale) if scores.labels else ("0", "0"),
            "pending": int(self.totals["event"][0] - self.totals["answer"][0]),
            "kept": self.totals["event"][0],
            "replaced": len(self.models()) - 1,
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
    with closing(Look(path)) as journal, journal.errors():
        yield journal


# -- export ------------------------------------------------------------------------------------------------------------


def export(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> int:
    """Write every event that a journal keeps to a .jsonl or .parquet file, which must be new; how many there were."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InputError(f"{target}: a journal is exported to a {' or '.join(SUFFIXES)} file")
    if target.exists():
        raise InputError(f"{target} already exists; choose another name")
    check_writable(target)
    aside = target.with_name(f".{target.name}.part")
    try:
        with look(folder) as journal:
            count = (
                _json_lines(journal, aside)
                if target.suffix.lower() == ".jsonl"
                else _parquet(journal, aside)
            )
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    return count


def _record(event: EventRow, task: Task) -> dict[str, Any]:
    before = {
        name: getattr(event, name) for name in ("id", "number", "time", "features", "prediction")
    }
    after = {
        "label": event.label,
        "labelled": event.labelled,
        task.outcome: event.correct,
        "status": event.status,
    }
    return before | task.columns(event.measured) | after


def _json_lines(journal: Look, path: Path) -> int:
    with path.open("w", encoding="utf-8") as file:
        lines = (
            json.dumps(_record(event, journal.task), ensure_ascii=False) + "\n"
            for event in journal.events()
        )
        return sum(bool(file.write(line)) for line in lines)


def _parquet(journal: Look, path: Path) -> int:
    """A column a feature. Labels, and features as they came, are numbers where all are, else text."""
    pa = require("pyarrow", extra="files")
    parquet = require("pyarrow.parquet", extra="files")
    names: dict[str, set[type]] = {}
    labels: set[type] = set()
    for event in journal.events():
        labels |= {_kind(event.prediction), _kind(event.label)}
        for name, value in _named(event.features).items():
            names.setdefault(name, set()).add(_kind(value))
    task = journal.task
    label = _type(pa, labels)
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("number", pa.int64()),
            ("time", pa.float64()),
            ("prediction", label),
            *((name, pa.float64()) for name in task.measures),
            ("label", label),
            ("labelled", pa.float64()),
            (task.outcome, pa.bool_()),
            ("status", pa.string()),
            *((f"feature.{name}", _type(pa, found)) for name, found in names.items()),
        ]
    )
    made = {pa.string(): str, pa.float64(): float}
    reads = {field.name: made[field.type] for field in schema if field.type in made}
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        events = journal.events()
        while group := list(islice(events, GROUP)):
            rows = []
            for event in group:
                flat = _record(event, task) | {
                    f"feature.{name}": value for name, value in _named(event.features).items()
                }
                rows.append(
                    {k: reads[k](v) if k in reads and v is not None else v for k, v in flat.items()}
                )
            writer.write_table(pa.Table.from_pylist(rows, schema))
            count += len(group)
    return count


def _named(features: dict[str, Any] | list[Any]) -> dict[str, Any]:
    return (
        features
        if isinstance(features, dict)
        else {f"x{i}": value for i, value in enumerate(features)}
    )


def _kind(value: Any) -> type:
    """Whole numbers that Parquet does not have are text."""
    kind = type(value)
    return str if kind is int and not -(2**63) <= value < 2**63 else kind


def _type(pa: Any, kinds: set[type]) -> Any:
    """Numbers as numbers, anything else by its text."""
    kinds = kinds - {type(None)}
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds <= {int, float} else pa.string()
