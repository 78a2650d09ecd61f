"""What a key may be, and a batch of keyed rows checked row by row, so that one bad row need not stop the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError

Key = str | int
LONGEST = 200  # characters of a key


@dataclass(frozen=True)
class DeadLetter:
    """A row that could not be used: its place in the batch, its key as it came, and why."""

    row: int
    key: Any
    reason: str


def checked_key(key: Any) -> Key:
    """Text or a whole number, as Python has them.

    >>> checked_key(np.int64(7)), checked_key("site-7")
    (7, 'site-7')
    """
    if isinstance(key, str):
        if _is_text(key):
            return str.__str__(key)
    elif isinstance(key, int | np.integer) and not isinstance(key, bool) and -(2**63) <= key < 2**63:
        return int(key)
    raise InputError(
        f"key {str(key)[:40]!r} of type {type(key).__name__}: a key is text of 1 to {LONGEST} characters that UTF-8 "
        "can write, or a whole number of 64 bits; make it text with str(key)"
    )


def _is_text(key: str) -> bool:
    try:
        return 0 < len(key) <= LONGEST and (key.isascii() or bool(key.encode()))
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False


def checked_keys(keys: Sequence[Any] | Array, letters: list[DeadLetter] | None) -> tuple[list[Any], list[int]]:
    """The keys, and the places of those that can be used; the others are an error, or letters."""
    usable: list[Any] = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    good = []
    for i, key in enumerate(usable):
        if (type(key) is str and _is_text(key)) or (type(key) is int and -(2**63) <= key < 2**63):
            good.append(i)
            continue
        try:
            usable[i] = checked_key(key)
            good.append(i)
        except InputError as error:
            if letters is None:
                raise InputError(f"row {i}: {error}") from None
            letters.append(DeadLetter(i, key, str(error)))
    return usable, good
