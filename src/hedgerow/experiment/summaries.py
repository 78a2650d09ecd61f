"""Rows of a results file, found by the cell of a table they belong to, and summarised as means and spreads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from hedgerow.evaluate.folds import Row
from hedgerow.experiment.results import Results
from hedgerow.methods import METHODS, RECIPES

ENOUGH_ORDERS = 5  # of a split: the spread of fewer may be zero by chance


@dataclass(frozen=True)
class Cell:
    """Mistake rates in per cent: the mean, its spread over orders within a split (`sd`) and over splits (`between`)."""

    mean: float
    sd: float
    orders: int
    splits: int = 1
    between: float = 0.0

    @property
    def spread(self) -> float:
        """Both spreads together."""
        return float(np.hypot(self.sd, self.between))

    @property
    def brief(self) -> str:
        """With one decimal, and the spread over the orders where there are several.

        >>> Cell(45.3, 1.26, 20).brief, Cell(45.3, 0.0, 1).brief
        ('45.3 ± 1.3', '45.3')
        """
        return f"{self.mean:.1f}" + (f" ± {self.sd:.1f}" if self.orders > 1 else "")

    def __str__(self) -> str:
        """As printed.

        >>> str(Cell(45.3, 1.26, 20)), str(Cell(45.3, 1.26, 60, 3, 0.71))
        ('45.30 ± 1.26', '45.30 ± 1.26 ± 0.71')
        """
        return f"{self.mean:.2f} ± {self.sd:.2f}" + (f" ± {self.between:.2f}" if self.splits > 1 else "")


def rate(row: Row) -> float:
    """Mistakes in per cent of the stream (Eq. 17 of the paper)."""
    return 100.0 * float(row["mistakes"]) / float(row["n"])


def deviation(rates: Sequence[float]) -> float:
    """The standard deviation over orders, of a sample; zero for a single one.

    >>> deviation([1.0, 3.0, 5.0]), deviation([1.0])
    (2.0, 0.0)
    """
    return float(np.std(rates, ddof=1)) if len(rates) > 1 else 0.0


def summarise(rows: Iterable[Row]) -> Cell:
    """The rows of one cell.

    >>> summarise([{"split": 0, "mistakes": 10, "n": 100}, {"split": 0, "mistakes": 14, "n": 100}]).mean
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
        between=deviation(means),
    )


def apart(one: Cell, other: Cell) -> bool:
    """Whether two means differ by more than both spreads together.

    >>> apart(Cell(20.0, 1.0, 5), Cell(23.0, 1.0, 5)), apart(Cell(20.0, 2.0, 5), Cell(23.0, 1.0, 5))
    (True, False)
    """
    return abs(one.mean - other.mean) > one.spread + other.spread


@dataclass(frozen=True)
class RunIndex:
    """All rows of a results file by (group, task, method, variant)."""

    rows: Sequence[Row]
    problems: Sequence[str] = ()
    _by_cell: dict[tuple[str, str, str, str], list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Results) -> Self:
        """Index a results file; rows of a cell are sorted, because workers finish in any order."""
        index = cls(results.rows, tuple(results.problems))
        for row in sorted(results.rows, key=lambda row: (row["split"], row["trial"])):
            index._by_cell.setdefault((row["group"], row["task"], row["method"], row["variant"]), []).append(row)
        return index

    def rows_of(self, group: str, task: str, method: str, variant: str = "") -> list[Row]:
        """The rows of one cell, by split and order; empty if there are none."""
        return self._by_cell.get((group, task, method, variant), [])

    def cells(self) -> Iterator[tuple[tuple[str, str, str, str], list[Row]]]:
        """Every (group, task, method, variant) with its rows."""
        return iter(self._by_cell.items())

    def has(self, group: str) -> bool:
        """Whether any row of this group is there."""
        return any(key[0] == group for key in self._by_cell)

    def methods(self, group: str) -> list[str]:
        """Methods with rows in a group: our own in the order of their table, then the others by name."""
        found = {key[2] for key in self._by_cell if key[0] == group}
        return [name for name in self.styles() if name in found]

    def variants(self, group: str, method: str | None = None) -> list[str]:
        """Variants in a group, by name: the order of the rows depends on who finished first."""
        return sorted({key[3] for key in self._by_cell if key[0] == group and method in (None, key[2])})

    @cached_property
    def titles(self) -> dict[str, str]:
        """Titles of the methods: from the rows, so that a plugin need not be loaded to read its results."""
        named = {name: METHODS[name].title for name in METHODS}
        return {row["method"]: str(row.get("title") or named.get(row["method"], row["method"])) for row in self.rows}

    def styles(self) -> dict[str, int]:
        """A number for each method, for its colour, line and marker: the same in every figure."""
        others = sorted({row["method"] for row in self.rows} - set(RECIPES))
        return {name: i for i, name in enumerate((*RECIPES, *others))}
