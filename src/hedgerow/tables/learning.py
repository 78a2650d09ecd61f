"""An encoder from the tables of all domains: what each column is, which are left out, which are target-only.

A column with hardly any exceptions is what most of its cells are: the exceptions are then problems to be reported, not
categories. Labels are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.frame import Frame
from hedgerow.core.values import DATE_FORMS, as_float, moment
from hedgerow.tables.columns import (
    PERIODS,
    Boolean,
    Category,
    Column,
    Date,
    Hashed,
    Late,
    Number,
    Text,
    category,
    is_empty,
    number,
    truth,
)
from hedgerow.tables.encoder import TableEncoder, together

MOST_ALIKE = 0.9  # share of the cells that decides what a column is
DIFFERENT = 0.9  # share of different values from which a text tells rows apart, and nothing else
FEW_ROWS = 10  # with fewer, values that are all different mean nothing
FIRST_CELLS = 50  # by which forms of dates are tried
CATEGORIES = 32  # places of their own; with more values a column is hashed
RARE = 2  # rows: a value that fewer have is as good as unknown
HASHED, TEXT = 32, 256  # places
WORDS = 4  # a text has more of them, a category seldom
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|key|nr|number)$|[a-z]I[dD]$|^index$", re.IGNORECASE)
CONSTANT, EMPTY = "constant", "empty"
ID, ALL_DIFFERENT, LONG_TEXT = "id-like", "all different", "text (--text NAME uses its words)"
NOT_HERE, NO_SOURCE = "the target does not have it", "no source has it"
Cells = list[Any] | Array  # those of a column that are not empty: an array if all are floats


@dataclass(frozen=True)
class TableOptions:
    """What a user says about columns, by name; the others are recognised by their cells.

    Parameters
    ----------
    drop, keep
        Columns to leave out; columns to use though they would be left out.
    id, time, text
        Columns that are identifiers, moments, or texts whose words count.
    new
        Columns that no row has yet, learned from their first value on.

    Examples
    --------
    >>> TableOptions.of({"drop": "note"}).drop
    ('note',)
    """

    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Any) -> TableOptions:
        """From a mapping of names, or nothing; a column has one role."""
        if table is None or isinstance(table, TableOptions):
            return table or cls()
        if not isinstance(table, Mapping):
            raise InputError(f"table={table!r}: give a dict with some of {', '.join(cls.__dataclass_fields__)}")
        for key in table:
            if key not in cls.__dataclass_fields__:
                raise unknown("option of table", key, cls.__dataclass_fields__)
        options = cls(**{key: _names(key, value) for key, value in table.items()})
        roles: dict[str, str] = {}
        for role, names in asdict(options).items():
            for name in names:
                if name in roles:
                    raise InputError(f"the column {name!r} cannot be both {roles[name]} and {role}; name it once")
                roles[name] = role
        return options

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are named."""
        return tuple(name for names in asdict(self).values() for name in names)


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"table: {key}={value!r}; give the name of a column, or a list of names")
    return tuple(names)


@dataclass(frozen=True)
class Named:
    """A table of a domain, and how an error calls it."""

    where: str
    table: Frame


def learn(
    sources: Sequence[Named], target: Named | None, options: TableOptions, own_columns: bool = True
) -> tuple[TableEncoder, list[Array]]:
    """Learn an encoder from the cells of all domains.

    Parameters
    ----------
    sources, target
        The tables. A target that is given says which columns it has.
    options
        What the user says about columns.
    own_columns
        Whether the method can learn target-only columns; if not, they are left out.

    Returns
    -------
    encoder, numbers
        The encoder, and the numbers of every domain, the target's last.

    Raises
    ------
    InputError
        If a named column is in no table, no column can be used, or cells do not fit their columns: all are listed.
    """
    domains = [*sources, *([] if target is None else [target])]
    names = tuple(dict.fromkeys(name for domain in domains for name in domain.table.names))
    for name in options.named:
        if name not in names and name not in options.new:
            raise unknown("column", name, names)
    if options.new and not own_columns:
        raise InputError(f"new={list(options.new)}: this method cannot learn columns that no source has; use hedgerow")
    late = [name for name in options.new if not any(len(_filled(domain, name)) for domain in domains)]
    columns: list[Column] = []
    own: list[Column] = [Late(name) for name in late]
    left_out: dict[str, str] = {}
    lacking: dict[str, tuple[str, ...]] = {}
    for name in names:
        filled = [_filled(domain, name) for domain in domains]
        in_source, in_target = any(map(len, filled[: len(sources)])), target is None or len(filled[-1]) > 0
        gaps = any(0 < len(cells) < len(domain.table) for cells, domain in zip(filled, domains, strict=True))
        column = None if name in late else recognised(name, filled, gaps, options)
        if isinstance(column, Column):
            if not sources or (in_source and in_target):
                columns.append(column)
            elif own_columns:
                own.append(replace(column, gaps=False))
            else:
                column = NOT_HERE if in_source else NO_SOURCE
        if isinstance(column, str):
            left_out[name] = column
        elif not all(map(len, filled)):
            without = [domain.where for cells, domain in zip(filled, domains, strict=True) if not len(cells)]
            lacking[name] = tuple(without)
    _check(columns, own, domains, left_out)
    encoder = TableEncoder(tuple(columns), left_out, tuple(own), lacking)
    numbers, problems = [], []
    for domain in domains:
        rows, bad = encoder.read(domain.table.column, len(domain.table), absent=True)
        numbers.append(rows)
        problems += [f"{domain.where}, {domain.table.place(row)}, {error}" for row, error in bad]
    if problems:
        raise InputError(together(problems))
    return encoder, numbers


def _filled(domain: Named, name: str) -> Cells:
    """The cells of a column that are not empty; none if the domain does not have it."""
    column = domain.table.column(name)
    if column is None:
        return []
    if column.dtype.kind == "f":
        return np.asarray(column[~np.isnan(column)])
    return [cell for cell in column.tolist() if not is_empty(cell)]


def _check(columns: list[Column], own: list[Column], domains: Sequence[Named], left_out: dict[str, str]) -> None:
    """Refuse tables of which nothing can be transferred."""
    if columns:
        return
    if own:
        tables = "; ".join(f"{domain.where} has {', '.join(domain.table.names[:8])}" for domain in domains)
        raise InputError(f"no column is both in a source and in the target: nothing can be transferred ({tables})")
    reasons = ", ".join(f"{name} ({why})" for name, why in left_out.items()) or "there is none"
    raise InputError(f"no column can be used: {reasons}; --keep NAME (table={{'keep': [..]}}) keeps one all the same")


def recognised(name: str, domains: Sequence[Cells], gaps: bool, options: TableOptions) -> Column | str:
    """The column of these cells, which are not empty, domain by domain; or the reason to leave it out."""
    if name in options.drop or name in options.id:
        return "dropped" if name in options.drop else "id"
    if not any(map(len, domains)):
        return EMPTY
    kept = name in options.keep
    if name in options.text:
        return Text(name, TEXT, gaps=gaps)
    if name in options.time:
        every = [cell for domain in domains for cell in domain]
        return _date(name, every, gaps, _date_form(every) or "number")
    if not kept and not gaps and all(map(_is_constant, domains)):
        return CONSTANT
    floats = [domain for domain in domains if isinstance(domain, np.ndarray) and np.isfinite(domain).all()]
    if len(floats) + sum(not len(domain) for domain in domains if isinstance(domain, list)) < len(domains):
        every = [cell for domain in domains for cell in domain]
        count, n = sum(as_float(cell) is not None for cell in every), len(every)
        if count < n and all(truth(cell) is not None for cell in every):
            return Boolean(name, gaps=gaps)
        if count < n and (n < FEW_ROWS or count < MOST_ALIKE * n):
            form = _date_form(every)
            return _text(name, domains, every, gaps, kept) if form is None else _date(name, every, gaps, form)
        floats = [np.array([as_float(cell) for cell in domain], dtype=float) for domain in domains]
    # a column of 0 and 1 is a number as well: a count may have a 2 tomorrow
    return ID if not kept and _counts_rows(name, floats) else Number(name, gaps=gaps)


def _is_constant(cells: Cells) -> bool:
    if isinstance(cells, np.ndarray):
        return bool((cells == cells[:1]).all())
    return len(set(map(category, cells))) <= 1


def _text(name: str, domains: Sequence[Cells], every: list[Any], gaps: bool, kept: bool) -> Column | str:
    """Categories, unless the values tell rows apart and nothing else."""
    n, counts = len(every), Counter(map(category, every))
    different = sum(len(set(map(category, domain))) for domain in domains)  # domains may have the same ids
    if not kept and n >= FEW_ROWS and different >= DIFFERENT * n:
        wordy = sum(len(text.split()) for text in counts) > WORDS * len(counts)
        return LONG_TEXT if wordy else ID if ID_NAME.search(name) else ALL_DIFFERENT
    if not kept and n >= FEW_ROWS and different > n / 2 and ID_NAME.search(name):
        return ID
    common = sorted(value for value, count in counts.items() if count >= RARE or n < FEW_ROWS)
    if len(common) > CATEGORIES or not common:
        return Hashed(name, HASHED, gaps=gaps)
    return Category(name, tuple(common), gaps=gaps)


def _counts_rows(name: str, domains: Sequence[Array]) -> bool:
    """Whether whole numbers only tell rows apart: all different, and called an id or without holes."""
    for domain in domains:
        if not (domain == np.floor(domain)).all() or len(np.unique(domain)) < len(domain):
            return False
        if len(domain) >= FEW_ROWS and not ID_NAME.search(name) and domain.max() - domain.min() >= len(domain):
            return False
    return any(len(domain) >= FEW_ROWS for domain in domains)


def _date_form(every: list[Any]) -> str | None:
    """How dates are written here; None if the cells are none."""

    def count(form: str, cells: list[Any]) -> int:
        return sum(moment(cell, form) is not None for cell in cells)

    first = every[:FIRST_CELLS]
    counts = {form: count(form, every) for form in DATE_FORMS if 2 * count(form, first) >= len(first)}
    best = max(counts, key=counts.__getitem__, default=None)
    needed = MOST_ALIKE * len(every) if len(every) >= FEW_ROWS else len(every)
    return best if best is not None and counts[best] >= needed else None


def _date(name: str, every: list[Any], gaps: bool, form: str) -> Column:
    """With those periods of which the cells span at least half, and within which they differ."""
    moments = [s for cell in every if (s := number(cell) if form == "number" else moment(cell, form)) is not None]
    if not moments:  # every cell will be reported
        return Date(name, 0.0, (), "iso", gaps=gaps)
    span = max(moments) - min(moments)
    turns = [
        turn
        for turn, length in PERIODS.items()
        if span >= length / 2 and len({round(value % length, 3) for value in moments}) > 1
    ]
    return Date(name, min(moments), tuple(turns), form, gaps=gaps)
