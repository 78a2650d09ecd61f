"""What kind a column is, told from its cells in all domains; or why it is left out.

A column with hardly any exceptions is what most of its cells are: the exceptions are then problems to be reported, not
categories.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.tables import cells
from hedgerow.tables.kinds import PARTS, Boolean, Category, Column, Date, Hashed, Number, Text
from hedgerow.tables.options import TableOptions

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
    if all(cells.truth(cell) is not None for cell in every) and not all(cells.as_float(c) is not None for c in every):
        return Boolean(name, gaps=seen.gaps)
    numbers = [value for cell in every if (value := cells.as_float(cell)) is not None]
    if len(numbers) == n or (n >= FEW_ROWS and len(numbers) >= MOST_ALIKE * n):
        read = [np.array([cells.as_float(cell) for cell in domain], dtype=float) for domain in seen.domains]
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
    for form in cells.ALL_FORMATS:
        found = sum(cells.moment(cell, form) is not None for cell in every[:50])
        if 2 * found >= min(len(every), 50):
            found = sum(cells.moment(cell, form) is not None for cell in every)
            if found > most:
                best, most = form, found
    return best if best is not None and most >= needed else None


def _date(seen: Seen, every: list[Any], form: str) -> Column:
    """With those turns of which the cells show at least a part, and which they do not only touch."""
    read = cells.number if form == "number" else lambda cell: cells.moment(cell, form)
    moments = [value for cell in every if (value := read(cell)) is not None]
    if not moments:  # every cell will be reported
        return Date(seen.name, 0.0, (), "iso", gaps=seen.gaps)
    span = max(moments) - min(moments)
    turns = [turn for turn, length in PARTS.items() if span >= length / 2 and _turns(moments, turn)]
    return Date(seen.name, min(moments), tuple(turns), form, gaps=seen.gaps)


def _turns(moments: Sequence[float], turn: str) -> bool:
    """Whether moments differ within a turn: dates without a time of day all stand at midnight."""
    return len({round(value % PARTS[turn], 3) for value in moments}) > 1
