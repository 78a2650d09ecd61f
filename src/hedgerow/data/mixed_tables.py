"""Files whose columns are not all numbers, or have gaps, as domains: every cell as it is written.

What is wrong with rows is reported together: each with its line, and what to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.mixed import Mixed, cells
from hedgerow.data.csv_records import DELIMITERS
from hedgerow.data.json_rows import JsonRows
from hedgerow.data.matching import AsTheyAre, Wanted
from hedgerow.data.open_files import Files, Table
from hedgerow.data.stretches import Bad

MOST = 20  # bad rows that one error lists


def read_mixed(files: Files, label: str | None) -> tuple[Mixed, list[Any]]:
    """The rows of all files, and their labels as they are written."""
    parts: list[Mixed] = []
    labels: list[Any] = []
    problems: list[str] = []
    for number in range(len(files)):
        table = files.open(number)
        try:
            found = _rows(files, number, table, label, labels, problems)
        except InputError as error:
            raise InputError(f"{files.prefix(number)}{error}") from error
        finally:
            table.close()
        if found is not None:
            parts.append(found)
    if problems:
        raise InputError(_together(problems))
    if not parts:
        what = "a header and no rows" if files.format in DELIMITERS else "no rows"
        raise InputError(f"{files.name(0)}: {what}; a domain needs at least one instance")
    return _joined(parts), labels


def _rows(
    files: Files, number: int, table: Table, label: str | None, labels: list[Any], problems: list[str]
) -> Mixed | None:
    table.match(Wanted(0, None, label, None, table=AsTheyAre()))
    unit, blocks, lines = "line" if files.text else "row", [], []
    for stretch in table.stretches():
        problems += [_words(files.name(number), unit, bad) for bad in stretch.bad]
        if len(stretch.X):
            blocks.append(stretch.X)
            lines.append(stretch.lines[stretch.kinds == 0])
            labels += stretch.labels or ()
    if not blocks:
        return None
    X, where = np.concatenate(blocks), np.concatenate(lines)
    if isinstance(table, JsonRows):
        found = Mixed.of_rows(X[:, 0].tolist())
        return Mixed(found.names, found.columns, where, unit)
    names = [name for name in table.names if name != label]
    return Mixed(tuple(names), tuple(_typed(X[:, j]) for j in range(X.shape[1])), where, unit)


def _words(file: str, unit: str, bad: Bad) -> str:
    mark = ", " if bad.reason.startswith("column") else ": "
    return f"{file}: {unit} {bad.line}{mark}{bad.reason}"


def _typed(column: Array) -> Array:
    """Numbers as floats, where every cell is one; empty cells are gaps."""
    found = column.tolist()
    try:
        if any(isinstance(cell, str) and "_" in cell for cell in found):  # which Python allows in a number
            raise ValueError
        return np.array([np.nan if cell is None or cell == "" else float(cell) for cell in found], np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    return cells([None if isinstance(cell, str) and not cell.strip() else cell for cell in found])


def _joined(parts: list[Mixed]) -> Mixed:
    """Files of one source, one after the other; a column that a file does not have is a gap there."""
    if len(parts) == 1:
        return parts[0]
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    columns = []
    for name in names:
        found = [part.column(name) for part in parts]
        own = [np.full(len(p), None, object) if c is None else c for c, p in zip(found, parts, strict=True)]
        alike = all(c.dtype.kind == "f" for c in own)
        columns.append(np.concatenate(own) if alike else cells(np.concatenate([c.astype(object) for c in own])))
    lines = np.concatenate([part.lines for part in parts if part.lines is not None])
    return Mixed(names, tuple(columns), lines, parts[0].unit)


def _together(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
    return "\n".join([f"{len(problems)} rows cannot be read:", *(f"  {text}" for text in problems[:MOST]), *more])
