"""What a user can set of a stream of keys."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from hedgerow.core.errors import InputError

WHOLE = {"max_pending": 1, "keep_events": 0, "cached_keys": 0}


@dataclass(frozen=True)
class Settings:
    """How the learners of a stream wait and remember; every number is of one key, but `cached_keys`.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever. The row is then
        used without a label, where the method can, and its features are dropped.
    max_pending : events that may wait for their labels; one more, and the oldest is given up as after a time-out.
    keep_events : answered events whose ids are remembered, so that a label or a row that comes again is known.
    idle_ttl : seconds without a change after which Spark drops a key; None keeps keys for ever.
    cached_keys : learners that a Python worker keeps ready between two batches.

    >>> Settings(label_timeout=3600).timed
    True
    """

    label_timeout: float | None = None
    max_pending: int = 1_000
    keep_events: int = 100
    idle_ttl: float | None = None
    cached_keys: int = 2_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), WHOLE.get(field.name, 0.001)
            if value is None and field.name not in WHOLE:
                continue
            number = isinstance(value, int) if field.name in WHOLE else isinstance(value, int | float)
            if not number or isinstance(value, bool) or not math.isfinite(value) or value < least:
                raise InputError(f"{field.name}={value!r}: must be a number of at least {least}")
        if self.idle_ttl is not None and self.label_timeout is not None and self.idle_ttl <= self.label_timeout:
            raise InputError(
                f"idle_ttl={self.idle_ttl!r}: a key would be dropped before its labels are given up; "
                f"give more than label_timeout={self.label_timeout!r}"
            )

    @property
    def timed(self) -> bool:
        """Whether Spark's clock is needed."""
        return self.label_timeout is not None or self.idle_ttl is not None

    @property
    def timeout_ms(self) -> int | None:
        """The time-out in Spark's milliseconds."""
        return None if self.label_timeout is None else int(self.label_timeout * 1000)

    @property
    def ttl_ms(self) -> int | None:
        """The time to live in Spark's milliseconds."""
        return None if self.idle_ttl is None else int(self.idle_ttl * 1000)
