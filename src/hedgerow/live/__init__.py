"""A model that runs: predictions go out, labels follow, and nothing that was acknowledged is ever lost.

>>> import tempfile, hedgerow
>>> from hedgerow.live import LiveModel
>>> domains = hedgerow.load("digits")
>>> clf = hedgerow.OnlineTransferClassifier("paio").fit_domains([domains["thin"], domains["tilted"]])
>>> new = domains["shifted"]
>>> with tempfile.TemporaryDirectory() as folder, LiveModel.create(folder + "/digits", clf) as live:
...     answer = live.predict(new.X[0], ids="a")
...     live.label("a", new.y[0]).status, live.label("a", new.y[0]).status, live.label("b", 1).status
('learned', 'duplicate', 'unknown')
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from hedgerow.core.errors import unknown
from hedgerow.core.registry import Limits

if TYPE_CHECKING:
    from hedgerow.events import LabelResult
    from hedgerow.live.model import Busy, LiveModel, Replaced
    from hedgerow.store import Closed, JournalError, Owned
    from hedgerow.task import Answer, NumberAnswer

_HOMES = {
    "live.model": ("Busy", "LiveModel", "Replaced"),
    "task": ("Answer", "NumberAnswer"),
    "store": ("Closed", "JournalError", "Owned"),
    "events": ("LabelResult",),
}

__all__ = [
    "Answer", "Busy", "Closed", "JournalError", "LabelResult", "LiveModel", "NumberAnswer", "Owned", "Replaced",
    "Settings",
]  # fmt: skip


SYNC = ("full", "normal")


@dataclass(frozen=True)
class Settings(Limits):
    """How a live model keeps what it needs.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever. The row is then
        used without a label, where the method can; the event is complete then, and stays as others do.
    max_pending : events that may wait for their labels; one more, and the oldest expires as after a time-out.
    keep_events : labelled and expired events that stay in the journal, for exports and for comparisons.
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


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"hedgerow.{home}"), name)
    raise AttributeError(f"module 'hedgerow.live' has no attribute {name!r}")
