"""What a user can set of a live model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from hedgerow.core.errors import InputError, unknown
from hedgerow.core.registry import of_json

SYNC = ("full", "normal")


@dataclass(frozen=True)
class Settings:
    """How a live model keeps what it needs.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever. The row is then
        used without a label, where the method can, and its features are dropped.
    max_pending : events that may wait for their labels; one more, and the oldest is given up as after a time-out.
    snapshot_every : labels between two snapshots: recovery repeats at most so many.
    keep_events : answered events that stay in the journal, for exports and for `hedgerow replay`.
    keep_seconds : answered events older than this go, whatever `keep_events` says; None: age does not matter.
    max_bytes : the journal is kept below this, as far as events may go at all; None: only the others limit it.
    sync : "full" survives a power failure, "normal" the end of the process only, and writes less.
    """

    label_timeout: float | None = None
    max_pending: int = 100_000
    snapshot_every: int = 5_000
    keep_events: int = 100_000
    keep_seconds: float | None = None
    max_bytes: int | None = None
    sync: str = "full"

    def __post_init__(self) -> None:
        least = {"max_pending": 1, "snapshot_every": 1, "keep_events": 0, "max_bytes": 1}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or field.name == "sync":
                continue
            number = isinstance(value, int) if field.name in least else isinstance(value, int | float)
            if not number or isinstance(value, bool) or not math.isfinite(value) or value < least.get(field.name, 0):
                raise InputError(f"{field.name}={value!r}: must be a number of at least {least.get(field.name, 0)}")
        if self.sync not in SYNC:
            raise unknown("choice for sync", self.sync, SYNC)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Settings:
        """The inverse."""
        return of_json(cls, data)
