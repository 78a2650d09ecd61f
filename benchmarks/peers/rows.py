"""rows.jsonl: one row a finished run, appended whole; of two rows of the same run the later one counts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROWS = Path(__file__).parent / "rows.jsonl"
KEY = ("task", "method", "variant", "training", "split", "trial")
Row = dict[str, Any]


def read(path: Path = ROWS) -> list[Row]:
    """All rows; of two of the same run, the later one."""
    lines = path.read_text().splitlines() if path.is_file() else []
    rows: dict[tuple[Any, ...], Row] = {}
    for line in lines:
        if line.startswith("{") and line.endswith("}"):  # a killed run may have left half a line
            row = json.loads(line)
            rows[tuple(row[name] for name in KEY)] = row
    return list(rows.values())


def append(row: Row, path: Path = ROWS) -> None:
    """One write, on disk when this returns."""
    begun = path.is_file() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    with path.open("ab") as file:
        file.write((b"\n" if begun else b"") + json.dumps(row, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def compact(path: Path = ROWS) -> None:
    """One line a run, so that rows that were made again do not stand twice."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in read(path))
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)
