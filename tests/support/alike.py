"""Rows of results that are the same but for the last digits of sums.

The last digit of a sum depends on where its numbers lie in memory: two runs of one engine may differ there.
"""

from __future__ import annotations

from typing import Any

import pytest


def alike(ours: Any, theirs: Any) -> bool:
    """Equal, or numbers that differ in their last digits, wherever they stand."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or ours == pytest.approx(theirs, rel=1e-12)
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        numbers = [x for x in (*ours, *theirs) if isinstance(x, float)]
        if numbers and len(numbers) == 2 * len(ours):
            return ours == pytest.approx(
                theirs, rel=1e-9, abs=1e-12
            )  # sums of sums, some of them next to zero
        return all(map(alike, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(
            alike(ours[name], theirs[name]) for name in ours
        )
    return bool(ours == theirs)
