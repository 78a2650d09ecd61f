"""Rows of finished runs: JSON lines on disk.

results.jsonl has one row a finished run, appended whole, so that a killed run loses at most the row it was in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]  # a finished run as plain values

FILE = "results.jsonl"
CELL = ("group", "task", "method", "variant")  # the runs of one cell of a table
KEY = (*CELL, "split", "trial")
NUMBERS = ("split", "trial", "mistakes", "n", "seconds_offline", "seconds_online")
NEEDED = ("reading", "options")


def append(folder: str | Path, row: Mapping[str, Any], file: str = FILE) -> None:
    """Append one row by a single write, so that rows of several processes do not mix; on disk when this returns."""
    line = json.dumps(row, separators=(",", ":"), default=lambda value: value.tolist()) + "\n"
    with (Path(folder) / file).open("ab", buffering=0) as stream:
        stream.write(line.encode())
        os.fsync(stream.fileno())


def read(folder: str | Path) -> tuple[list[Row], list[str]]:
    """All rows, of two of the same run the later one; and what is wrong with lines that are no row."""
    path = Path(folder) / FILE
    rows: dict[tuple[Any, ...], Row] = {}
    problems = []
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        row = _checked(json.loads(line))
                        rows[tuple(row[name] for name in KEY)] = row
                    except (ValueError, KeyError, TypeError) as error:
                        problems.append(f"{path}, line {number}: not a result ({error}); left out")
    return list(rows.values()), problems


def _checked(row: Any) -> Row:
    """The row, if it has all that the tables need; else an error that says what is missing."""
    if not isinstance(row, dict):
        raise TypeError(f"{type(row).__name__}, not an object")
    missing = [name for name in dict.fromkeys((*KEY, *NUMBERS, *NEEDED)) if name not in row]
    if missing:
        raise ValueError(f"no {', '.join(missing)}")
    bad = [
        name
        for name in NUMBERS
        if isinstance(row[name], bool) or not isinstance(row[name], int | float)
    ]
    if bad or row["n"] < 1:
        raise ValueError(f"{', '.join(bad) or 'n'} is not a valid number")
    return row


def end_last_line(folder: str | Path) -> None:
    """End a line that a killed run left open, so that the next row starts on its own."""
    path = Path(folder) / FILE
    if path.is_file() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def curves(part: pd.DataFrame, window: int = 0) -> tuple[Array, Array]:
    """Mistakes along the stream in per cent: the checkpoints in labels, and the rates (orders x checkpoints).

    Of all labels so far or, with a `window`, of those since that many checkpoints before. Orders whose checkpoints are
    not those of the first, or lie so close that a window has no label, are left out.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"curve_at": [[10, 20, 30]], "curve": [[5, 6, 6]]})
    >>> curves(rows)[1].tolist(), curves(rows, window=1)[1].tolist()
    ([[50.0, 30.0, 20.0]], [[50.0, 10.0, 0.0]])
    """
    length = len(part["curve_at"].iloc[0])
    rows = part[part["curve_at"].map(len) == length]
    columns = (np.array(rows[name].to_list(), dtype=float) for name in ("curve_at", "curve"))
    at, counts = (np.pad(column, ((0, 0), (1, 0))) for column in columns)
    if not window:
        return at[0, 1:], 100 * counts[:, 1:] / np.maximum(at[:, 1:], 1)
    usable = (np.diff(at) > 0).all(axis=1)
    width = min(window, length)
    at = at[usable]
    counts = counts[usable]
    ends = at[0, width:] if len(at) else np.empty(0)
    return ends, 100 * (counts[:, width:] - counts[:, :-width]) / (at[:, width:] - at[:, :-width])
