"""The encoder of a table: its columns in order, each with its numbers; what was left out, and why. All of it is JSON.

    numbers of a row = those of column 1, of column 2, ..     NaN is a gap, filled by the step `fill` of the learner

The columns of `own` stand last and are target-only: no source has them (or not the target's warm-up), so nothing can be
transferred for them; the learner keeps their numbers out of its spaces and starts them at zero weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.frame import Frame
from hedgerow.tables.columns import BadCell, Column, Number, column_of_json

MOST = 20  # problems that one error lists


@dataclass(frozen=True)
class TableEncoder:
    """From the cells of a table to numbers, as `clf.table_` of a model that was fitted on tables.

    Parameters
    ----------
    columns
        The columns that every domain has.
    left_out
        The names of columns that are not used, and why.
    own
        The target-only columns.
    lacking
        Columns that are used, and the domains that do not have them.

    Examples
    --------
    >>> import pandas as pd
    >>> from hedgerow import OnlineTransferClassifier
    >>> X = pd.DataFrame({"city": ["Oslo", "Rome"] * 10, "age": [20.5, 31.0, None, 47.5, 18.0] * 4})
    >>> clf = OnlineTransferClassifier("pa").fit(X, [0, 1] * 10)
    >>> clf.table_
    TableEncoder: 2 columns become 4 numbers
      city: category of 2
      age: number, with gaps
    >>> clf.table_.of_mapping({"city": "Rome", "age": "33"})
    [0.0, 1.0, 33.0, 0.0]
    """

    columns: tuple[Column, ...]
    left_out: Mapping[str, str]
    own: tuple[Column, ...] = ()
    lacking: Mapping[str, tuple[str, ...]] | None = None

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """All columns, the target-only ones last."""
        return (*self.columns, *self.own)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return tuple(column.name for column in self.used)

    @cached_property
    def feature_names(self) -> list[str]:
        """A name for every number."""
        return [name for column in self.used for name in column.names]

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        return len(self.feature_names)

    @property
    def own_width(self) -> int:
        """How many of them, the last ones, are of target-only columns."""
        return sum(len(column.names) for column in self.own)

    @property
    def only_numbers(self) -> bool:
        """Whether every column that is transferred is of numbers."""
        return all(isinstance(column, Number) for column in self.columns)

    # -- rows ---------------------------------------------------------------------------------------------------

    def bound(self, names: Sequence[str]) -> Callable[[Sequence[Any]], list[float]]:
        """The function from the cells of a row, in the order of these names, to its numbers."""
        place = {name: i for i, name in enumerate(names)}
        steps = [(column, place.get(column.name)) for column in self.used]
        return lambda cells: [value for column, at in steps for value in column(None if at is None else cells[at])]

    def of_mapping(self, row: Mapping[Any, Any]) -> list[float]:
        """The numbers of one row; a name that it does not have is a gap."""
        return [value for column in self.used for value in column(row.get(column.name))]

    def of_columns(self, columns: Mapping[str, list[Any]], rows: int) -> Array | None:
        """The numbers of many rows, by the cells of each column; None if one of these cannot be used."""
        numbers, bad = self.read(columns.get, rows)
        return None if bad else numbers

    def encode(self, table: Frame, *, fitting: bool = False, where: str = "X") -> Array:
        """The numbers of a table.

        Parameters
        ----------
        table
            Its rows.
        fitting
            Whether the model is being fitted: a column that the table does not have is then absent, which is no gap of
            a row.
        where
            How an error calls the table.

        Raises
        ------
        InputError
            One error with every cell that cannot be used.
        """
        numbers, bad = self.read(table.column, len(table), fitting)
        if bad:
            raise InputError(together([f"{where}, {table.place(row)}, {error}" for row, error in bad]))
        return numbers

    def read(
        self, column_of: Callable[[str], Array | list[Any] | None], rows: int, absent: bool = False
    ) -> tuple[Array, list[tuple[int, BadCell]]]:
        """The numbers of many rows, and the cells that cannot be used with their rows.

        `column_of` gives the cells of a column by its name, or None, which is a gap in every row, or `absent`.
        """
        parts: list[Array] = [np.empty((rows, 0))]
        bad: list[tuple[int, BadCell]] = []
        for column in self.used:
            cells = column_of(column.name)
            if cells is None:
                parts.append(np.tile(column(None, absent), (rows, 1)))
                continue
            numbers, errors = column.encode(cells)
            parts.append(numbers)
            bad += errors.items()
        return np.concatenate(parts, axis=1), bad

    # -- JSON and people ----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "own": [column.to_json() for column in self.own],
            "left_out": dict(self.left_out),
            "lacking": {name: list(domains) for name, domains in (self.lacking or {}).items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableEncoder:
        """The inverse; data from a file is not trusted."""
        left_out, lacking = dict(data["left_out"]), dict(data["lacking"])
        if not all(isinstance(text, str) for text in (*left_out, *left_out.values(), *lacking)):
            raise InputError("a table whose names are no text")
        columns, own = ([column_of_json(each) for each in data[key]] for key in ("columns", "own"))
        names = [column.name for column in (*columns, *own)]
        if len(set(names)) < len(names) or not names:
            raise InputError("a table without columns, or with one of them twice")
        return cls(tuple(columns), left_out, tuple(own), {str(k): tuple(map(str, v)) for k, v in lacking.items()})

    def rows(self) -> list[tuple[str, str]]:
        """A line a column: its name and what it becomes, or why it does not."""
        return [
            *((column.name, column.words() + (", with gaps" if column.gaps else "")) for column in self.columns),
            *((column.name, f"{column.words()}; starts free: nothing to transfer") for column in self.own),
            *((name, f"left out: {why}") for name, why in self.left_out.items()),
        ]

    def notes(self) -> list[str]:
        """What a person should know: columns left out, and columns that not everyone has."""
        lines = []
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            lines.append(f"left out, {why}: {', '.join(names)}")
        for name, domains in (self.lacking or {}).items():
            lines.append(f"column {name!r} is not in {', '.join(domains)}")
        return lines

    def __repr__(self) -> str:
        lines = [f"  {name}: {what}" for name, what in self.rows()]
        return "\n".join([f"TableEncoder: {len(self.used)} columns become {self.width} numbers", *lines])


def together(problems: Sequence[str]) -> str:
    """All problems in one message."""
    if len(problems) == 1:
        return problems[0]
    more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
    return "\n".join([f"{len(problems)} problems:", *(f"  {text}" for text in problems[:MOST]), *more])
