"""One cell, whatever it was written in: a gap, a number, yes or no, a moment, a text."""

from __future__ import annotations

import math
from typing import Any

from hedgerow.core.arrays import LARGEST
from hedgerow.core.frame import is_gap
from hedgerow.core.values import as_float

GAPS = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?", "-", "--", "nil"))
TRUE = frozenset(("true", "yes", "t", "y", "on"))
FALSE = frozenset(("false", "no", "f", "n", "off"))
WRITTEN = frozenset(("True", "False", "TRUE", "FALSE"))
EXACT = 2.0**53  # whole numbers below are themselves as floats
DAY = 86400.0
LARGE = max(LARGEST.values()) / 2**20  # a number beyond is no measurement, and its square would overflow


def missing(cell: Any) -> bool:
    """Whether a cell says that there is nothing.

    >>> missing(" "), missing("N/A"), missing(None), missing(0)
    (True, True, True, False)
    """
    return is_gap(cell) or (isinstance(cell, str) and cell.strip().lower() in GAPS)


def number(cell: Any) -> float | None:
    """A cell as a finite number; None if it is none.

    >>> number(" 2.5"), number(True), number("1_000"), number("inf")
    (2.5, 1.0, None, None)
    """
    value = as_float(cell)
    return value if value is not None and abs(value) <= LARGE else None


def truth(cell: Any) -> float | None:
    """Yes as 1, no as 0; None for anything else.

    >>> truth("Yes"), truth(False), truth(1), truth("maybe")
    (1.0, 0.0, 1.0, None)
    """
    if isinstance(cell, str):
        word = cell.strip().lower()
        return 1.0 if word in TRUE or word == "1" else 0.0 if word in FALSE or word == "0" else None
    return float(cell) if isinstance(cell, bool | int | float) and cell in (0, 1) else None


def text(cell: Any) -> str:
    """A cell as a category. Numbers are told apart by their value: a source whose codes all are numbers has no other.

    >>> text(3.0), text(" Oslo "), text(True), text("3.0"), text("007"), text("False")
    ('3', 'Oslo', 'true', '3', '7', 'false')
    """
    if isinstance(cell, str):
        said = cell.strip()
        value = as_float(said) if said[-1:].isdigit() or said[-1:] == "." else None
        if value is None or not abs(value) < EXACT:
            return said.lower() if said in WRITTEN else said
        cell = value
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and math.isfinite(cell) and cell == int(cell):
        return str(int(cell))
    return str(cell).strip()
