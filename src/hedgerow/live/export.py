"""The events of a journal as JSON lines or Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hedgerow.core.arrays import is_sparse
from hedgerow.core.errors import InputError, require
from hedgerow.files import check_writable
from hedgerow.live.look import Event, Look, look

GROUP = 10_000  # rows of a Parquet file that are written together
SUFFIXES = (".jsonl", ".parquet")


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


def json_lines(journal: Look) -> Iterator[str]:
    """One line an event."""
    for event in journal.events():
        yield json.dumps(_record(journal, event), ensure_ascii=False) + "\n"


def _json_lines(journal: Look, path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for line in json_lines(journal):
            file.write(line)
            count += 1
    return count


def _record(journal: Look, event: Event) -> dict[str, Any]:
    return {
        "id": event.id,
        "number": event.number,
        "time": event.time,
        "features": _features(journal, event),
        "prediction": event.prediction,
        "probability": event.probability,
        "label": event.label,
        "labelled": event.labelled,
        "correct": event.correct,
        "status": event.status,
    }


def _values(event: Event) -> list[float | None] | None:
    """The numbers of a row; a gap is null."""
    if event.x is None:
        return None
    row = event.x.toarray()[0] if is_sparse(event.x) else event.x
    return [None if value != value else value for value in row.tolist()]


def _features(journal: Look, event: Event) -> Any:
    values = _values(event)
    if values is None or journal.names is None:
        return values
    return dict(zip(journal.names, values, strict=True))


def _parquet(journal: Look, path: Path) -> int:
    pa, parquet = require("pyarrow", extra="files"), require("pyarrow.parquet", extra="files")
    names = journal.names or [f"x{i}" for i in range(journal.width)]
    kind = _label_type(pa, journal)
    fields = [
        ("id", pa.string()), ("number", pa.int64()), ("time", pa.float64()), ("prediction", kind),
        ("probability", pa.float64()), ("label", kind), ("labelled", pa.float64()), ("correct", pa.bool_()),
        ("status", pa.string()), *((f"feature.{name}", pa.float64()) for name in names),
    ]  # fmt: skip
    schema, count = pa.schema(fields), 0
    with parquet.ParquetWriter(path, schema) as writer:
        for group in _groups(journal):
            writer.write_table(
                pa.Table.from_pylist([_flat(names, event, kind == pa.string()) for event in group], schema)
            )
            count += len(group)
    return count


def _groups(journal: Look) -> Iterator[list[Event]]:
    group: list[Event] = []
    for event in journal.events():
        group.append(event)
        if len(group) == GROUP:
            yield group
            group = []
    if group:
        yield group


def _label_type(pa: Any, journal: Look) -> Any:
    """Numbers as numbers, anything else by its text."""
    kinds = {type(label) for label in journal.classes.tolist()}
    return pa.int64() if kinds == {int} else pa.float64() if kinds == {float} else pa.string()


def _flat(names: list[str], event: Event, text: bool) -> dict[str, Any]:
    def written(label: Any) -> Any:
        return str(label) if text and label is not None else label

    values = _values(event) or [None] * len(names)
    record = {
        "id": event.id, "number": event.number, "time": event.time, "prediction": written(event.prediction),
        "probability": event.probability, "label": written(event.label), "labelled": event.labelled,
        "correct": event.correct, "status": event.status,
    }  # fmt: skip
    return record | {f"feature.{name}": value for name, value in zip(names, values, strict=True)}
