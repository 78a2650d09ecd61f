"""What a user can set of a live model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hedgerow.core.errors import unknown
from hedgerow.core.registry import Limits

SYNC = ("full", "normal")


@dataclass(frozen=True)
class Settings(Limits):
    """How a live model keeps what it needs.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever. The row is then
        used without a label, where the method can, and its features are dropped.
    max_pending : events that may wait for their labels; one more, and the oldest expires as after a time-out.
    keep_events : labelled and expired events that stay in the journal, for exports and for `hedgerow replay`.
    snapshot_every : labels between two snapshots: recovery repeats at most so many.
    keep_seconds : such events older than this go, whatever `keep_events` says; None: age does not matter.
    max_bytes : the journal is kept below this, as far as events may go at all; None: only the others limit it.
    sync : "full" survives a power failure, "normal" the end of the process only, and writes less.
    """

    snapshot_every: int = 5_000
    keep_seconds: float | None = None
    max_bytes: int | None = None
    sync: str = "full"

    LEAST: ClassVar[Mapping[str, int]] = {**Limits.LEAST, "snapshot_every": 1, "max_bytes": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sync not in SYNC:
            raise unknown("choice for sync", self.sync, SYNC)
