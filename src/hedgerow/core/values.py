"""What is written in a cell: one rule for numbers, one for dates and one for names, whoever reads it.

| rule   | is one                                              | is none                                   |
|--------|-----------------------------------------------------|-------------------------------------------|
| number | what Python's `float` reads, in the digits 0 to 9   | `1_000`, `1,000`, digits of other scripts |
| date   | ISO 8601, 31.1.2024, 2024/1/31, or by `DATE_FORMS`  | `Tuesday`, `2024`                         |
| name   | text in Unicode's composed form (NFC)               |                                           |
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

DATE_FORMS = MONTH_FIRST, DAY_FIRST = "month first", "day first"  # what 1/2/2024 is; any other date says it itself
_DATE = re.compile(r"(\d{1,4})([./])(\d{1,2})\2(\d{1,4})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2}))?)?")
_SHORTEST = 6  # letters of the shortest date


def usual_digits(text: str) -> bool:
    """Whether a number in this text can only be one of the digits 0 to 9, without underscores.

    >>> usual_digits("1000"), usual_digits("1_000"), usual_digits("\u0663")
    (True, False, False)
    """
    return text.isascii() and "_" not in text


def is_gap(value: Any) -> bool:
    """Whether a value or a label stands for none: None, NaN of any type, NaT, NumPy's masked, pandas' NA.

    >>> is_gap(None), is_gap(float("nan")), is_gap(np.datetime64("NaT")), is_gap(""), is_gap(0)
    (True, True, True, False, False)
    """
    kind = type(value)
    if kind is str or kind is int:  # nearly all are, and a column may be long
        return False
    if value is None or value is np.ma.masked or kind.__name__ in ("NAType", "NaTType"):  # pandas need not be there
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, Number) and bool(value != value)


def as_float(cell: Any) -> float | None:
    """A cell as a number, be it infinite or NaN; None if it is none.

    >>> as_float(" 2.5"), as_float(True), as_float("1_000"), as_float("\u0663"), as_float("inf")
    (2.5, 1.0, None, None, inf)
    """
    if isinstance(cell, str):
        if not usual_digits(cell) and not usual_digits(cell.strip()):
            return None
    elif not isinstance(cell, int | float | Decimal) and not hasattr(cell, "__float__"):
        return None
    try:
        return float(cell)
    except OverflowError:  # a whole number beyond all floats
        return math.inf
    except (TypeError, ValueError):
        return None


def as_whole(cell: str) -> int | None:
    """A text as a whole number, which is not rounded by way of a float; None if it is none.

    >>> as_whole("9007199254740993"), as_whole("1_0"), as_whole("1.0")
    (9007199254740993, None, None)
    """
    if not usual_digits(cell) and not usual_digits(cell.strip()):
        return None
    try:
        return int(cell)
    except ValueError:
        return None


def moment(cell: Any, form: str = MONTH_FIRST) -> float | None:
    """Seconds since 1970 (UTC where nothing else is said), to the microsecond; None for what is no date.

    >>> moment("1970-01-02"), moment("2.1.1970"), moment("Tuesday"), moment(date(1970, 1, 2))
    (86400.0, 86400.0, None, 86400.0)
    >>> moment("1/2/1970 06:00"), moment("2/1/1970 06:00", DAY_FIRST), moment("1/13/1970", DAY_FIRST)
    (108000.0, 108000.0, None)
    """
    if isinstance(cell, datetime):
        when = cell
    elif isinstance(cell, date):
        when = datetime.combine(cell, time())
    elif isinstance(cell, str):
        text = cell.strip()
        if len(text) < _SHORTEST or not text[0].isdigit() or not text.isascii():
            return None
        try:
            parts = _DATE.fullmatch(text)
            when = datetime.fromisoformat(text) if parts is None else _written(parts, form)
        except (ValueError, OverflowError):
            return None
    else:
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def _written(parts: re.Match[str], form: str) -> datetime:
    """2024/1/31, 31.1.2024 or, by the form, 1/31/2024 or 31/1/2024, perhaps with a time."""
    first, mark, second, third, hour, minute, seconds = parts.groups(default="0")
    year, month, day = third, second, first
    if mark == "/" and len(first) == 4:
        year, day = first, third
    elif mark == "/" and form == MONTH_FIRST:
        month, day = first, second
    if len(year) != 4:
        raise ValueError("a year has four digits")
    return datetime(int(year), int(month), int(day), int(hour), int(minute), int(seconds))


def date_form(cells: Iterable[Any], usual: str = MONTH_FIRST) -> str:
    """How these cells, of one file or table, write their dates: as most of them can be read, else as is usual.

    >>> date_form(["1/2/2024", "31/2/2024"]), date_form(["1/2/2024", "2024-01-31"], DAY_FIRST), date_form(["13/1/2024"])
    ('month first', 'day first', 'day first')
    """
    slashed = [cell for cell in cells if isinstance(cell, str) and "/" in cell]
    readable = {form: sum(moment(cell, form) is not None for cell in slashed) for form in DATE_FORMS}
    return max(DATE_FORMS, key=lambda form: (readable[form], form == usual))


def composed(text: str) -> str:
    """A name in Unicode's composed form: a letter and its accent are one name, however they were typed.

    >>> composed("Caf" + "e\u0301") == "Caf\u00e9"
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)
