"""What is written in a cell: one rule for numbers, one for dates and one for names, whoever reads it.

| rule   | is one                                              | is none                                   |
|--------|-----------------------------------------------------|-------------------------------------------|
| number | what Python's `float` reads, in the digits 0 to 9   | `1_000`, `1,000`, digits of other scripts |
| date   | ISO 8601, or one of `DATE_FORMS`, in the same digits | `Tuesday`, `2024`                         |
| name   | text in Unicode's composed form (NFC)               |                                           |
"""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

_UNAMBIGUOUS = ("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S")
_DAY_FIRST = ("%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S")
_MONTH_FIRST = ("%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S")
DATE_FORMS = ("iso", *_UNAMBIGUOUS, *_MONTH_FIRST, *_DAY_FIRST)  # in the order in which they are tried
_SHORTEST = 6  # letters of the shortest date


def usual_digits(text: str) -> bool:
    """Whether a number in this text can only be one of the digits 0 to 9, without underscores.

    >>> usual_digits("1000"), usual_digits("1_000"), usual_digits("\u0663")
    (True, False, False)
    """
    return text.isascii() and "_" not in text


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


def moment(cell: Any, form: str = "iso") -> float | None:
    """Seconds since 1970 (UTC where nothing else is said), to the microsecond; None for what is no date of this form.

    >>> moment("1970-01-02"), moment("2.1.1970", "%d.%m.%Y"), moment("Tuesday"), moment(date(1970, 1, 2))
    (86400.0, 86400.0, None, 86400.0)
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
            when = datetime.fromisoformat(text) if form == "iso" else datetime.strptime(text, form)
        except (ValueError, OverflowError):
            return None
    else:
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()


def composed(text: str) -> str:
    """A name in Unicode's composed form: a letter and its accent are one name, however they were typed.

    >>> composed("Caf" + "e\u0301") == "Caf\u00e9"
    True
    """
    return text if text.isascii() else unicodedata.normalize("NFC", text)
