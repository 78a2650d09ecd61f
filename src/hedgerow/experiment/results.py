"""results.jsonl: one row a finished run, appended whole, so that a killed run loses at most the row it was in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "results.jsonl"
KEY = ("group", "task", "method", "variant", "split", "trial")
NUMBERS = ("split", "trial", "mistakes", "n", "seconds_offline", "seconds_online")
NEEDED = ("reading", "options", "expert_mistakes", "expert_loss", "hedge_loss", "beta", "bound", "guarantee")


@dataclass(frozen=True)
class Results:
    """The rows of a results file, and what was wrong with lines that are none."""

    rows: list[dict[str, Any]]
    problems: list[str]

    def keys(self) -> set[tuple[Any, ...]]:
        """What is there already."""
        return {tuple(row[name] for name in KEY) for row in self.rows}

    def where(self, **wanted: Any) -> list[dict[str, Any]]:
        """Rows with these values."""
        return [row for row in self.rows if all(row[name] == value for name, value in wanted.items())]


def append(directory: str | Path, row: Mapping[str, Any]) -> None:
    """Append one row by a single write, so that rows of several processes do not mix; on disk when this returns."""
    line = json.dumps(row, separators=(",", ":"), default=_plain) + "\n"
    handle = os.open(Path(directory) / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read(directory: str | Path) -> Results:
    """All rows; of two rows of the same run, the later one. A line that is no row is reported and left out."""
    path = Path(directory) / FILE
    if not path.is_file():
        return Results([], [])
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    problems = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _checked(json.loads(line))
                rows[tuple(row[name] for name in KEY)] = row
            except (ValueError, KeyError, TypeError) as error:
                problems.append(f"{path}, line {number}: not a result ({error}); left out")
    return Results(list(rows.values()), problems)


def read_and_say(directory: str | Path, say: Callable[[str], None]) -> Results:
    """All rows, after everything that is wrong with the file was said: how every report begins."""
    found = read(directory)
    for problem in found.problems:
        say(problem)
    return found


def _checked(row: Any) -> dict[str, Any]:
    """The row, if it has all that the tables need; else an error that says what is missing."""
    if not isinstance(row, dict):
        raise TypeError(f"{type(row).__name__}, not an object")
    missing = [name for name in (*KEY, *NUMBERS, *NEEDED) if name not in row]
    if missing:
        raise ValueError(f"no {', '.join(dict.fromkeys(missing))}")
    bad = [name for name in NUMBERS if isinstance(row[name], bool) or not isinstance(row[name], int | float)]
    if bad or row["n"] < 1:
        raise ValueError(f"{', '.join(bad) or 'n'} is no number that can stand there")
    return row


def mend(directory: str | Path) -> None:
    """End a line that a killed run left open, so that the next row starts on its own."""
    path = Path(directory) / FILE
    if path.is_file() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot stand in a results file")
