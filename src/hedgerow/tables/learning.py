"""An encoder from the tables of all domains: what each column is, which are left out, which not everyone has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.frame import Frame
from hedgerow.core.values import DATE_FORMS, as_float, moment
from hedgerow.tables import cells
from hedgerow.tables.cells import missing
from hedgerow.tables.encoder import TableEncoder, encoded, together
from hedgerow.tables.kinds import PARTS, Boolean, Category, Column, Date, Hashed, Late, Number, Text
from hedgerow.tables.options import TableOptions

# What kind a column is, told from its cells in all domains; or why it is left out.
#
# A column with hardly any exceptions is what most of its cells are: the exceptions are then problems to be reported,
# not categories.
MOST_ALIKE = 0.9  # share of the cells that decides what a column is
DIFFERENT = 0.9  # share of different values from which a text tells rows apart, and nothing else
FEW_ROWS = 10  # with fewer, nothing is said about values that are all different
CATEGORIES = 32  # places of their own; with more values a column is hashed
RARE = 2  # rows: a value that fewer have is as good as unknown
HASHED, TEXT = 32, 256  # places
WORDS = 4  # a text has more of them, a category seldom
ID_NAME = re.compile(r"(^|[_\s.-])(id|uuid|guid|key|nr|number)$|[a-z]I[dD]$|^index$", re.IGNORECASE)
CONSTANT, EMPTY = "constant", "empty"
ID, ALL_DIFFERENT, LONG_TEXT = "id-like", "all different", "text (--text NAME uses its words)"


@dataclass(frozen=True)
class Seen:
    """The cells of a column that are not empty, domain by domain; `gaps`: some row of a domain that has it has none."""

    name: str
    domains: Sequence[Sequence[Any] | Array]
    gaps: bool

    @property
    def numbers(self) -> list[Array] | None:
        """Of all domains, if nothing else is there: then no cell has to be looked at by itself."""
        found = [domain for domain in self.domains if isinstance(domain, np.ndarray)]
        return found if len(found) == len(self.domains) and all(np.isfinite(each).all() for each in found) else None

    @property
    def every(self) -> list[Any]:
        """Of all domains."""
        return [cell for domain in self.domains for cell in (domain if isinstance(domain, list) else list(domain))]


def recognised(seen: Seen, options: TableOptions, start: float | None = None) -> Column | str:
    """The column, or the reason to leave it out."""
    name = seen.name
    if name in options.drop:
        return "dropped"
    if name in options.id:
        return "id"
    if not any(len(domain) for domain in seen.domains):
        return EMPTY
    numbers = seen.numbers if name not in (*options.time, *options.text) else None
    if numbers is not None:
        return _of_numbers(seen, numbers, name in options.keep)
    every = seen.every
    if name in options.time:
        return _date(seen, every, _form(every) or "number")
    if name in options.text:
        return Text(name, TEXT, gaps=seen.gaps)
    kept = name in options.keep
    if not kept and not seen.gaps and all(len(set(map(cells.text, domain))) <= 1 for domain in seen.domains):
        return CONSTANT
    return _by_content(seen, every, kept)


def _of_numbers(seen: Seen, domains: Sequence[Array], kept: bool) -> Column | str:
    """A column of numbers in every domain."""
    if not kept and not seen.gaps and all(len(each) == 0 or (each == each[0]).all() for each in domains):
        return CONSTANT
    return ID if not kept and _counts_rows(seen.name, domains) else Number(seen.name, gaps=seen.gaps)


def _by_content(seen: Seen, every: list[Any], kept: bool) -> Column | str:
    name, n = seen.name, len(every)
    if all(cells.truth(cell) is not None for cell in every) and not all(as_float(c) is not None for c in every):
        return Boolean(name, gaps=seen.gaps)
    numbers = [value for cell in every if (value := as_float(cell)) is not None]
    if len(numbers) == n or (n >= FEW_ROWS and len(numbers) >= MOST_ALIKE * n):
        read = [np.array([as_float(cell) for cell in domain], dtype=float) for domain in seen.domains]
        if not kept and _counts_rows(name, read):
            return ID
        return Number(name, gaps=seen.gaps)  # if all are 0 and 1: a count may have a 2 tomorrow
    form = _form(every)
    if form is not None:
        return _date(seen, every, form)
    return _of_text(seen, every, kept)


def _of_text(seen: Seen, every: list[Any], kept: bool) -> Column | str:
    name, n = seen.name, len(every)
    counts = Counter(map(cells.text, every))
    different = sum(len(set(map(cells.text, domain))) for domain in seen.domains)  # domains may have the same ids
    if not kept and n >= FEW_ROWS and different >= DIFFERENT * n:
        wordy = sum(len(text.split()) for text in counts) > WORDS * len(counts)
        return LONG_TEXT if wordy else ID if ID_NAME.search(name) else ALL_DIFFERENT
    if not kept and n >= FEW_ROWS and different > n / 2 and ID_NAME.search(name):
        return ID
    common = sorted(value for value, count in counts.items() if count >= RARE or n < FEW_ROWS)
    if len(common) > CATEGORIES or not common:
        return Hashed(name, HASHED, gaps=seen.gaps)
    return Category(name, tuple(common), gaps=seen.gaps)


def _counts_rows(name: str, domains: Sequence[Array]) -> bool:
    """Whether whole numbers only tell rows apart: all different, and called an id or without holes."""
    found = False
    for domain in domains:
        if not (domain == np.floor(domain)).all() or len(np.unique(domain)) < len(domain):
            return False
        if len(domain) < FEW_ROWS:
            continue
        if not ID_NAME.search(name) and domain.max() - domain.min() >= len(domain):
            return False
        found = True
    return found


def _form(every: list[Any]) -> str | None:
    """How dates are written here; None if the cells are none."""
    needed = MOST_ALIKE * len(every) if len(every) >= FEW_ROWS else len(every)
    best, most = None, 0
    for form in DATE_FORMS:
        found = sum(moment(cell, form) is not None for cell in every[:50])
        if 2 * found >= min(len(every), 50):
            found = sum(moment(cell, form) is not None for cell in every)
            if found > most:
                best, most = form, found
    return best if best is not None and most >= needed else None


def _date(seen: Seen, every: list[Any], form: str) -> Column:
    """With those turns of which the cells show at least a part, and which they do not only touch."""
    read = cells.number if form == "number" else lambda cell: moment(cell, form)
    moments = [value for cell in every if (value := read(cell)) is not None]
    if not moments:  # every cell will be reported
        return Date(seen.name, 0.0, (), "iso", gaps=seen.gaps)
    span = max(moments) - min(moments)
    turns = [turn for turn, length in PARTS.items() if span >= length / 2 and _turns(moments, turn)]
    return Date(seen.name, min(moments), tuple(turns), form, gaps=seen.gaps)


def _turns(moments: Sequence[float], turn: str) -> bool:
    """Whether moments differ within a turn: dates without a time of day all stand at midnight."""
    return len({round(value % PARTS[turn], 3) for value in moments}) > 1


NOT_HERE, NO_SOURCE = "the target does not have it", "no source has it"


@dataclass(frozen=True)
class Named:
    """A table of a domain, and how an error calls it."""

    where: str
    table: Frame


def learn(
    sources: Sequence[Named], target: Named | None, options: TableOptions, own_columns: bool = True
) -> tuple[TableEncoder, list[Array]]:
    """The encoder, and the numbers of every domain, the target's last.

    What a column is follows from its cells in all domains, without their labels. A target that is given says which
    columns it has. Without `own_columns` those that nothing can be transferred for are left out.
    """
    domains = [*sources, *([] if target is None else [target])]
    names = tuple(dict.fromkeys(name for domain in domains for name in domain.table.names))
    for name in options.named:
        if name not in names and name not in options.new:
            raise unknown("column", name, names)
    if options.new and not own_columns:
        raise InputError(f"new={list(options.new)}: this method cannot learn columns that no source has; use hedgerow")
    columns: list[Column] = []
    own: list[Column] = []
    left_out: dict[str, str] = {}
    own += [Late(name) for name in options.new if not _has(domains, name)]
    for name in names:
        if name in options.new and not _has(domains, name):
            continue
        seen = _seen(name, domains)
        found = recognised(seen, options)
        if isinstance(found, str):
            left_out[name] = found
        elif not sources or (_has(sources, name) and (target is None or _has([target], name))):
            columns.append(found)
        elif own_columns:
            own.append(replace(found, gaps=False))
        else:
            left_out[name] = NOT_HERE if _has(sources, name) else NO_SOURCE
    lacking = _lacking(names, domains, left_out)
    _check(columns, own, domains, left_out)
    encoder = TableEncoder(tuple(columns), left_out, tuple(own), lacking)
    return encoder, _numbers(encoder, domains)


def _numbers(encoder: TableEncoder, domains: Sequence[Named]) -> list[Array]:
    """Of all domains; every cell that cannot be used is named in one error."""
    problems = []
    for domain in domains:
        for column in encoder.used:
            cells = domain.table.column(column.name)
            if cells is not None:
                problems += [(domain, row, error) for row, error in encoded(column, cells).bad]
    if problems:
        raise InputError(together([f"{d.where}, {d.table.place(row)}, {error}" for d, row, error in problems]))
    return [encoder.encode(domain.table, fitting=True, where=domain.where) for domain in domains]


def _seen(name: str, domains: Sequence[Named]) -> Seen:
    parts, gaps = [], False
    for domain in domains:
        column = domain.table.column(name)
        if column is None:
            continue
        there = _there(column)
        gaps = gaps or 0 < len(there) < len(column)
        parts.append(there)
    return Seen(name, parts, gaps)


def _there(column: Array) -> Sequence[Any] | Array:
    """The cells that are not empty; of numbers, an array."""
    if column.dtype.kind == "f":
        return np.asarray(column[~np.isnan(column)])
    return [cell for cell in column.tolist() if not missing(cell)]


def _has(domains: Sequence[Named], name: str) -> bool:
    """Whether any of them has the column, with at least one cell that is not empty."""
    columns = [domain.table.column(name) for domain in domains]
    return any(len(_there(column)) > 0 for column in columns if column is not None)


def _lacking(names: Sequence[str], domains: Sequence[Named], left_out: dict[str, str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for name in names:
        without = tuple(domain.where for domain in domains if not _has([domain], name))
        if without and name not in left_out:
            found[name] = without
    return found


def _check(columns: list[Column], own: list[Column], domains: Sequence[Named], left_out: dict[str, str]) -> None:
    if columns:
        return
    if own:
        tables = "; ".join(f"{domain.where} has {', '.join(domain.table.names[:8])}" for domain in domains)
        raise InputError(f"no column is both in a source and in the target: nothing can be transferred ({tables})")
    reasons = ", ".join(f"{name} ({why})" for name, why in left_out.items()) or "there is none"
    raise InputError(f"no column can be used: {reasons}; --keep NAME (table={{'keep': [..]}}) keeps one all the same")
