"""What is waited for and remembered of events. Apart from `hedgerow.events`, so that a command starts without NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from hedgerow.core.errors import InputError


@dataclass(frozen=True)
class Limits:
    """What is waited for and remembered.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever.
    max_pending : events that may wait for their labels; one more, and the oldest expires.
    keep_events : events that are remembered after they were labelled or expired.
    """

    label_timeout: float | None = None
    max_pending: int = 100_000
    keep_events: int = 100_000

    LEAST: ClassVar[Mapping[str, int]] = {"max_pending": 1, "keep_events": 0}  # of whole numbers

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), self.LEAST.get(field.name, 0)
            if value is None or isinstance(value, str):
                continue
            number = isinstance(value, int) if field.name in self.LEAST else isinstance(value, int | float)
            if not number or isinstance(value, bool) or not math.isfinite(value) or value < least:
                raise InputError(f"{field.name}={value!r}: must be a number of at least {least}")
