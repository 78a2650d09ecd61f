"""The encoder of a table: its columns in order, each with its numbers; what was left out, and why. All of it is JSON.

    numbers of a row = those of column 1, of column 2, ..     NaN is a gap, filled by the step `fill` of the learner

The columns of `own` stand last: no source has them (or not the target's warm-up), so nothing can be transferred for
them; the learner keeps their numbers out of its spaces and starts them at zero weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.frame import Frame
from hedgerow.core.values import usual_digits
from hedgerow.tables.cells import LARGE
from hedgerow.tables.kinds import BadCell, Column, Number, column_of_json

MOST = 20  # problems that one error lists


@dataclass(frozen=True)
class TableEncoder:
    """Columns that are used, those that are not with the reason, and those that some domains do not have."""

    columns: tuple[Column, ...]
    left_out: Mapping[str, str]
    own: tuple[Column, ...] = ()
    lacking: Mapping[str, tuple[str, ...]] | None = None

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """All columns, those of `own` last."""
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
        """How many of them, the last ones, are of columns that nothing is transferred for."""
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

        def numbers(cells: Sequence[Any]) -> list[float]:
            out: list[float] = []
            for column, at in steps:
                out += column(None if at is None else cells[at])
            return out

        return numbers

    def of_columns(self, columns: Mapping[str, list[Any]], rows: int) -> Array | None:
        """The numbers of many rows, by the cells of each column; None if one of these cannot be used."""
        parts = []
        for column in self.used:
            if column.name not in columns:
                parts.append(np.tile(column(None), (rows, 1)))
                continue
            found = encoded(column, columns[column.name])
            if found.bad:
                return None
            parts.append(found.numbers)
        return np.concatenate(parts, axis=1)

    def of_mapping(self, row: Mapping[Any, Any]) -> list[float]:
        """The numbers of one row; a name that it does not have is a gap."""
        return [value for column in self.used for value in column(row.get(column.name))]

    def encode(self, table: Frame, *, fitting: bool = False, where: str = "X") -> Array:
        """All rows. For `fitting` a column that the table does not have is absent, which is no gap of a row.

        Every cell that cannot be used is named in one error.
        """
        parts, problems = [], []
        for column in self.used:
            cells = table.column(column.name)
            if cells is None:
                parts.append(np.tile(column(None, absent=fitting), (len(table), 1)))
                continue
            found = encoded(column, cells)
            parts.append(found.numbers)
            problems += [f"{where}, {table.place(row)}, {error}" for row, error in found.bad]
        if problems:
            raise InputError(together(problems))
        return np.concatenate(parts, axis=1) if parts else np.empty((len(table), 0))

    def problems(self, table: Frame) -> dict[int, list[BadCell]]:
        """The rows of which some cells cannot be used, with these cells."""
        found: dict[int, list[BadCell]] = {}
        for column in self.used:
            cells = table.column(column.name)
            for row, error in [] if cells is None else encoded(column, cells).bad:
                found.setdefault(row, []).append(error)
        return found

    def problems_of_mapping(self, row: Mapping[Any, Any]) -> list[BadCell]:
        """The cells of one row that cannot be used."""
        found = []
        for column in self.used:
            try:
                column(row.get(column.name))
            except BadCell as error:
                found.append(error)
        return found

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
        found = [(column.name, column.words() + (", with gaps" if column.gaps else "")) for column in self.columns]
        found += [(column.name, f"{column.words()}; starts free: nothing to transfer") for column in self.own]
        return found + [(name, f"left out: {why}") for name, why in self.left_out.items()]

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


@dataclass(frozen=True)
class Encoded:
    """The numbers of a column, and the rows whose cells it cannot have."""

    numbers: Array
    bad: list[tuple[int, BadCell]]


def encoded(column: Column, cells: Array | list[Any]) -> Encoded:
    """A column of cells through a column."""
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind == "f" and isinstance(column, Number) and not (np.abs(cells) > LARGE).any():
            return Encoded(_with_gaps(column, cells), [])
        given = cells.tolist()
    else:
        given = cells
    if set(map(type, given)) <= {str, NoneType}:  # of other types, values that are equal may not be alike: 1 and true
        return _encoded_texts(column, given)
    rows: list[tuple[float, ...]] = []
    bad: list[tuple[int, BadCell]] = []
    for i, cell in enumerate(given):
        try:
            rows.append(column(cell))
        except BadCell as error:
            bad.append((i, error))
            rows.append(column(None))
    return Encoded(_matrix(column, rows), bad)


def _encoded_texts(column: Column, cells: list[str | None]) -> Encoded:
    """The same for texts: numbers at once, and of others each value once, however many rows have it."""
    if isinstance(column, Number):
        found = _plain_numbers(cells)
        if found is not None:
            return Encoded(_with_gaps(column, found), [])
    place = {cell: k for k, cell in enumerate(set(cells))}
    numbers: list[tuple[float, ...]] = []
    wrong: dict[str | None, BadCell] = {}
    for cell in place:
        try:
            numbers.append(column(cell))
        except BadCell as error:
            numbers.append(column(None))
            wrong[cell] = error
    bad = [(i, wrong[cell]) for i, cell in enumerate(cells) if cell in wrong] if wrong else []
    return Encoded(_matrix(column, numbers)[[place[cell] for cell in cells]], bad)


def _plain_numbers(cells: list[str | None]) -> Array | None:
    """Numbers and empty cells; None if a cell is anything else, which `cells.number` and `cells.missing` know."""
    try:
        found = np.array([float(cell) if cell else math.nan for cell in cells], dtype=np.float64)
    except ValueError:
        return None
    empty = cells.count("") + cells.count(None)
    if np.isnan(found).sum() > empty or (np.abs(found) > LARGE).any():  # "nan", "inf"
        return None
    return found if usual_digits("".join(filter(None, cells))) else None


def _with_gaps(column: Column, numbers: Array) -> Array:
    own = numbers[:, None]
    return np.hstack([own, np.isnan(own)]) if column.gaps else own


def _matrix(column: Column, rows: list[tuple[float, ...]]) -> Array:
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(column.names))


def together(problems: Sequence[str]) -> str:
    """All problems in one message."""
    if len(problems) == 1:
        return problems[0]
    more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
    return "\n".join([f"{len(problems)} problems:", *(f"  {text}" for text in problems[:MOST]), *more])
