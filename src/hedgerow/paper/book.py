"""The results file as a book: rows by the cell of the report they belong to, folded into means and spreads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.methods import METHODS
from hedgerow.paper import published
from hedgerow.paper.results import Results
from hedgerow.paper.tasks import TASKS, Task

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """Mistake rates in per cent: mean, standard deviation over orders within a split, and of the means of splits."""

    mean: float
    sd: float
    orders: int
    splits: int = 1
    between: float = 0.0

    @property
    def spread(self) -> float:
        """Both spreads together."""
        return float(np.hypot(self.sd, self.between))

    def __str__(self) -> str:
        """As printed.

        >>> str(Cell(45.3, 1.26, 20)), str(Cell(45.3, 1.26, 60, 3, 0.71))
        ('45.30 ± 1.26', '45.30 ± 1.26 ± 0.71')
        """
        return f"{self.mean:.2f} ± {self.sd:.2f}" + (f" ± {self.between:.2f}" if self.splits > 1 else "")


def rate(row: Row) -> float:
    """Mistakes in per cent of the stream."""
    return 100.0 * float(row["mistakes"]) / float(row["n"])


def fold(rows: Iterable[Row]) -> Cell:
    """The rows of one cell.

    >>> fold([{"split": 0, "mistakes": 10, "n": 100}, {"split": 0, "mistakes": 14, "n": 100}]).mean
    12.0
    """
    by_split: dict[int, list[float]] = {}
    for row in rows:
        by_split.setdefault(row["split"], []).append(rate(row))
    means = [float(np.mean(rates)) for rates in by_split.values()]
    within = [float(np.var(rates, ddof=1)) for rates in by_split.values() if len(rates) > 1]
    return Cell(
        mean=float(np.mean(means)),
        sd=float(np.sqrt(np.mean(within))) if within else 0.0,
        orders=sum(map(len, by_split.values())),
        splits=len(means),
        between=float(np.std(means, ddof=1)) if len(means) > 1 else 0.0,
    )


@dataclass(frozen=True)
class Book:
    """All rows of a results file by (group, task, method, variant)."""

    rows: Sequence[Row]
    problems: Sequence[str] = ()
    _index: dict[tuple[str, str, str, str], list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Results) -> Book:
        """Index a results file; rows of a cell are sorted, because workers finish in any order."""
        book = cls(results.rows, tuple(results.problems))
        for row in sorted(results.rows, key=lambda row: (row["split"], row["trial"])):
            book._index.setdefault((row["group"], row["task"], row["method"], row["variant"]), []).append(row)
        return book

    def cell(self, group: str, task: str, method: str, variant: str = "") -> list[Row]:
        """The rows of one cell, by split and order; empty if there are none."""
        return self._index.get((group, task, method, variant), [])

    def cells(self) -> Iterator[tuple[tuple[str, str, str, str], list[Row]]]:
        """Every (group, task, method, variant) with its rows."""
        return iter(self._index.items())

    def has(self, group: str) -> bool:
        """Whether any row of this group is there."""
        return any(key[0] == group for key in self._index)

    def tasks(self, group: str = "table") -> list[Task]:
        """Tasks with rows in a group, in the paper's order."""
        found = {key[1] for key in self._index if key[0] == group}
        return [task for task in TASKS.values() if task.name in found]

    def any_tasks(self) -> list[Task]:
        """Tasks with rows in any group."""
        found = {key[1] for key in self._index}
        return [task for task in TASKS.values() if task.name in found]

    def methods(self, group: str = "table") -> list[str]:
        """Methods with rows in a group: the paper's in its order, then the others by name."""
        found = {key[2] for key in self._index if key[0] == group}
        return [name for name in self.styles() if name in found]

    def variants(self, group: str, method: str | None = None) -> list[str]:
        """Variants in a group, by name: the order of the rows depends on who finished first."""
        return sorted({key[3] for key in self._index if key[0] == group and method in (None, key[2])})

    @cached_property
    def titles(self) -> dict[str, str]:
        """Titles of the methods: from the rows, so that a plugin need not be loaded to read its results."""
        named = {name: METHODS[name].title for name in METHODS}
        return {row["method"]: str(row.get("title") or named.get(row["method"], row["method"])) for row in self.rows}

    def styles(self) -> dict[str, int]:
        """A number for each method, for its colour, line and marker: the same in every figure."""
        others = sorted({row["method"] for row in self.rows} - set(published.METHODS))
        return {name: i for i, name in enumerate((*published.METHODS, *others))}

    def change(self, task: str, method: str, group: str, variant: str) -> float:
        """Points by which a variant changes the table's mean, over the orders that both have; NaN without any."""
        base = {row["trial"]: rate(row) for row in self.cell("table", task, method) if row["split"] == 0}
        other = {row["trial"]: rate(row) for row in self.cell(group, task, method, variant)}
        common = sorted(base.keys() & other.keys())
        return float(np.mean([other[k] - base[k] for k in common])) if common else float("nan")

    def means(self, group: str, methods: Sequence[str], variant: str = "") -> Array:
        """Mean rates, tasks x methods, of the tasks that have all of them."""
        rows = [[self.cell(group, task.name, m, variant) for m in methods] for task in self.tasks(group)]
        full = [[fold(cell).mean for cell in row] for row in rows if all(row)]
        return np.array(full).reshape(len(full), len(methods))


def published_cell(task: str, method: str) -> tuple[float, float] | None:
    """The paper's mean and deviation, if it has this cell.

    >>> published_cell("dslr", "pa")
    (52.64, 3.24)
    """
    return published.TABLE.get(task, {}).get(method)


def far(cell: Cell, task: str, method: str) -> bool:
    """Whether our mean differs from the published one by more than both spreads together."""
    paper = published_cell(task, method)
    return paper is not None and abs(cell.mean - paper[0]) > cell.spread + paper[1]


def far_cells(book: Book) -> Iterator[tuple[Task, str, Cell]]:
    """All cells of the table that differ by more than both spreads."""
    for task in book.tasks():
        for method in book.methods():
            rows = book.cell("table", task.name, method)
            if rows and far(fold(rows), task.name, method):
                yield task, method, fold(rows)
