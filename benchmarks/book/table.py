"""What the measured tables share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Markdown; all columns but the first are numbers."""
    names = list(header)
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def mistakes(row: Row) -> float:
    """In percent of the stream."""
    return 100 * float(row["mistakes"]) / float(row["n"])
