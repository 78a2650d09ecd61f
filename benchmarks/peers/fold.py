"""The rows as a grid: lines (a peer, its setting, what it was trained on) by tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow.paper.tasks import TASKS as PAPER
from peers.peer import SOURCES
from peers.registry import OURS, PEERS
from peers.streams import REVIEWS, WATCHES

Row = dict[str, Any]
Value = Callable[[Row], float | None]
OWN = OURS[0]


class Line(NamedTuple):
    """A line of the tables."""

    method: str
    variant: str
    training: str

    @property
    def title(self) -> str:
        if self.method in OURS:
            return f"**{self.method}**"
        return f"{self.method}, {self.variant}" + ("" if self.training == SOURCES else ", target only")


ORDER = (*sorted(PAPER, key=lambda task: PAPER[task].family), *REVIEWS, *WATCHES)


def title_of(task: str) -> str:
    """As the head of a column."""
    return PAPER[task].title if task in PAPER else task.split("/")[1] if task in REVIEWS else task


@dataclass
class Grid:
    """All rows by line and task; a cell is a list of rows, one an order."""

    cells: dict[tuple[Line, str], list[Row]]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Grid:
        cells: dict[tuple[Line, str], list[Row]] = {}
        for row in rows:
            line = Line(row["method"], row["variant"], row["training"])
            cells.setdefault((line, row["task"]), []).append(row)
        return cls(cells)

    @property
    def tasks(self) -> list[str]:
        """Those that ours and some peer have run."""
        return [t for t in self.own_tasks if any(line.method not in OURS and task == t for line, task in self.cells)]

    @property
    def own_tasks(self) -> list[str]:
        """Those that ours has run."""
        return [t for t in ORDER if (own_line(), t) in self.cells]

    @property
    def lines(self) -> list[Line]:
        """In the order of the registry."""
        found = {line for line, _ in self.cells}
        return sorted(found, key=lambda line: (list(PEERS).index(line.method), line.training, line.variant))

    def rows(self, line: Line, task: str) -> list[Row]:
        return self.cells.get((line, task), [])

    def finished(self, line: Line, task: str) -> bool:
        """Every order of it reached the end of the stream."""
        rows = self.rows(line, task)
        return bool(rows) and all(row["finished"] for row in rows)

    def mean(self, line: Line, task: str, value: Value) -> float | None:
        """Over the orders; None if one of them has none."""
        values = [value(row) for row in self.rows(line, task)]
        return None if not values or any(v is None for v in values) else float(np.mean(values))

    def average(self, line: Line, tasks: Iterable[str], value: Value) -> float | None:
        """Over these tasks; None if one was not finished."""
        values = [self.mean(line, t, value) if self.finished(line, t) else None for t in tasks]
        return None if not values or any(v is None for v in values) else float(np.mean(values))

    def common(self, line: Line, tasks: Iterable[str] | None = None) -> list[str]:
        """The tasks that it finished."""
        return [t for t in (self.tasks if tasks is None else tasks) if self.finished(line, t)]


def own_line(method: str = OWN) -> Line:
    """Ours."""
    return Line(method, "default", SOURCES)


def rate(row: Row) -> float | None:
    """Mistakes in percent of the rows that it reached."""
    return 100 * row["mistakes"] / row["n"] if row["n"] else None


def early(row: Row) -> float | None:
    """Mistakes in the first 50 labels."""
    return row.get("early")


def calibration(row: Row) -> float | None:
    """Expected calibration error of what it reached."""
    return row.get("calibration")


def step_ms(row: Row) -> float | None:
    """Milliseconds of CPU to predict and learn a row, on average."""
    return 1e3 * row["seconds_online"] / row["n"] if row["n"] else None


def offline(row: Row) -> float | None:
    """CPU seconds before the stream."""
    return row.get("seconds_offline")


def memory(row: Row) -> float | None:
    """Peak resident MiB above the process with packages and data in it."""
    return row.get("memory_mib")


def wrong(row: Row) -> np.ndarray:
    """Which rows it got wrong, as bits."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(row["wrong"]), dtype=np.uint8), count=row["n"]).astype(bool)


def ours_until(grid: Grid, row: Row, method: str = OWN) -> float | None:
    """Our mistakes in percent on the same rows: as many as this run reached."""
    for own in grid.rows(own_line(method), row["task"]):
        if (own["split"], own["trial"]) == (row["split"], row["trial"]) and row["n"]:
            return 100 * float(wrong(own)[: row["n"]].mean())
    return None
