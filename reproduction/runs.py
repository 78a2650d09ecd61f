"""The rows of a folder as a pandas frame, and the cells of tables made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from hedgerow.comparison.results import CELL, FILE, KEY, NUMBERS, Row, read
from hedgerow.core.errors import InputError, require
from hedgerow.methods import METHODS, RECIPES

if TYPE_CHECKING:
    import pandas as pd

Say = Callable[[str], None]
ENOUGH_ORDERS = 5  # of a split: the spread of fewer may be zero by chance


class Cell(NamedTuple):
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
        return f"{self.mean:.2f} ± {self.sd:.2f}" + (
            f" ± {self.between:.2f}" if self.splits > 1 else ""
        )


class Runs:
    """The rows of a folder as a pandas frame, sorted by split and order: workers finish in any order.

    `frame` has a column for each field of the rows, and `rate`: mistakes in per cent of the stream, the paper's
    Eq. 17.
    """

    def __init__(self, rows: Sequence[Row], problems: Sequence[str] = ()) -> None:
        pandas = require("pandas", "lab")
        self.problems = list(problems)
        frame = pandas.DataFrame(list(rows), columns=None if rows else [*KEY, *NUMBERS])
        frame["rate"] = 100.0 * frame["mistakes"] / frame["n"]
        self.frame: pd.DataFrame = frame.sort_values(
            ["split", "trial"], kind="stable", ignore_index=True
        )
        self._parts = dict(iter(self.frame.groupby(list(CELL), sort=False)))

    @classmethod
    def read(cls, folder: str | Path, say: Say = lambda _: None, missing: str = "") -> Self:
        """The rows of a folder, after what is wrong with the file was said; without any rows, the error `missing`."""
        rows, problems = read(folder)
        for problem in problems:
            say(problem)
        if not rows:
            raise InputError(f"{Path(folder) / FILE} has no results; {missing}")
        return cls(rows, problems)

    def part(self, group: str, task: str, method: str, variant: str = "") -> pd.DataFrame:
        """The rows of one cell, by split and order; empty if there are none."""
        return self._parts.get((group, task, method, variant), self.frame.iloc[:0])

    def rates(self, group: str, task: str, method: str, variant: str = "") -> pd.Series[float]:
        """The mistake rates of a cell by (split, trial): what two methods are paired by."""
        return self.part(group, task, method, variant).set_index(["split", "trial"])["rate"]

    @cached_property
    def _cells(self) -> dict[tuple[str, ...], Cell]:
        splits = self.frame.groupby([*CELL, "split"])["rate"].agg(["mean", "var", "size"])
        cells = splits.groupby(list(CELL)).agg(
            mean=("mean", "mean"), sd=("var", "mean"), orders=("size", "sum"), splits=("size", "size"),
            between=("mean", "std"),
        )  # fmt: skip
        cells["sd"] **= 0.5
        return {key: Cell(*row) for key, *row in cells.fillna(0.0).itertuples(name=None)}

    def cell(self, group: str, task: str, method: str, variant: str = "") -> Cell | None:
        """The summary of a cell; None where nothing was run."""
        return self._cells.get((group, task, method, variant))

    def cells(self, group: str) -> list[Cell]:
        """The summaries of all cells of a group."""
        return [cell for key, cell in self._cells.items() if key[0] == group]

    def has(self, group: str) -> bool:
        """Whether any row of this group is there."""
        return any(key[0] == group for key in self._parts)

    def tasks(self, group: str) -> list[str]:
        """Tasks with rows in a group, by name."""
        return sorted({key[1] for key in self._parts if key[0] == group})

    def methods(self, group: str) -> list[str]:
        """Methods with rows in a group: our own in the order of their table, then the others by name."""
        there = {key[2] for key in self._parts if key[0] == group}
        return [name for name in self.styles if name in there]

    def variants(self, group: str, method: str | None = None) -> list[str]:
        """Variants in a group, by name."""
        return sorted(
            {key[3] for key in self._parts if key[0] == group and method in (None, key[2])}
        )

    @cached_property
    def titles(self) -> dict[str, str]:
        """Titles of the methods: from the rows, so that a plugin need not be loaded to read its results."""
        known = {name: METHODS[name].title for name in METHODS}
        named = self.frame.drop_duplicates("method").set_index("method").get("title", default={})
        titles = {method: named.get(method) for method in self.frame["method"].unique()}
        return {
            m: title if isinstance(title, str) and title else known.get(m, m)
            for m, title in titles.items()
        }

    @cached_property
    def styles(self) -> dict[str, int]:
        """A number for each method, for its colour, line and marker: the same in every figure."""
        others = sorted(set(self.frame["method"]) - set(RECIPES))
        return {name: i for i, name in enumerate((*RECIPES, *others))}
