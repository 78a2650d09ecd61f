"""The runs of the paper's report: its tasks in their order, and each cell of the table beside the published one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.experiment.summaries import ENOUGH_ORDERS, Cell, RunIndex, apart, rate, summarise
from hedgerow.paper import published
from hedgerow.paper.tasks import TASKS, Task


class PaperRuns(RunIndex):
    """The rows of `hedgerow paper`; without a group, those of the table are meant."""

    def tasks(self, group: str = "table") -> list[Task]:
        """Tasks with rows in a group, in the paper's order."""
        found = {key[1] for key in self._by_cell if key[0] == group}
        return [task for task in TASKS.values() if task.name in found]

    def any_tasks(self) -> list[Task]:
        """Tasks with rows in any group."""
        found = {key[1] for key in self._by_cell}
        return [task for task in TASKS.values() if task.name in found]

    def methods(self, group: str = "table") -> list[str]:
        """Methods with rows in a group, in the paper's order."""
        return super().methods(group)

    def change(self, task: str, method: str, group: str, variant: str) -> float:
        """Points by which a variant changes the table's mean, over the orders that both have; NaN without any."""
        base = {row["trial"]: rate(row) for row in self.rows_of("table", task, method) if row["split"] == 0}
        other = {row["trial"]: rate(row) for row in self.rows_of(group, task, method, variant)}
        common = sorted(base.keys() & other.keys())
        return float(np.mean([other[k] - base[k] for k in common])) if common else float("nan")


def published_cell(task: str, method: str) -> tuple[float, float] | None:
    """The paper's mean and deviation, if it has this cell.

    >>> published_cell("dslr", "pa")
    (52.64, 3.24)
    """
    return published.TABLE.get(task, {}).get(method)


def judged(cell: Cell) -> bool:
    """Whether a cell has orders enough that its spread says something."""
    return cell.orders // cell.splits >= ENOUGH_ORDERS


def far(cell: Cell, task: str, method: str) -> bool:
    """Whether our mean differs from the published one by more than both spreads together."""
    paper = published_cell(task, method)
    return paper is not None and judged(cell) and apart(cell, Cell(*paper, published.ORDERS))


def far_cells(runs: PaperRuns) -> Iterator[tuple[Task, str, Cell]]:
    """All cells of the table that differ by more than both spreads."""
    for task in runs.tasks():
        for method in runs.methods():
            rows = runs.rows_of("table", task.name, method)
            if rows and far(summarise(rows), task.name, method):
                yield task, method, summarise(rows)
