"""A model that runs: predictions go out, labels follow, and nothing that was acknowledged is ever lost.

>>> import tempfile, hedgerow
>>> from hedgerow.live import LiveModel
>>> domains = hedgerow.load("digits")
>>> clf = hedgerow.OnlineTransferClassifier("paio").fit_domains([domains["thin"], domains["tilted"]])
>>> new = domains["shifted"]
>>> with tempfile.TemporaryDirectory() as folder, LiveModel.create(folder + "/digits", clf) as live:
...     answer = live.predict(new.X[0], id="a")
...     live.label("a", new.y[0]).status, live.label("a", new.y[0]).status, live.label("b", 1).status
('learned', 'duplicate', 'unknown')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.events import LabelResult
    from hedgerow.live.model import LiveModel, Replaced
    from hedgerow.live.queue import Busy
    from hedgerow.live.settings import Settings
    from hedgerow.live.writer import Answer, NumberAnswer
    from hedgerow.store import Closed, JournalError, Owned

_HOMES = {
    "Answer": "hedgerow.live.writer",
    "Busy": "hedgerow.live.queue",
    "Closed": "hedgerow.store",
    "JournalError": "hedgerow.store",
    "LabelResult": "hedgerow.events",
    "LiveModel": "hedgerow.live.model",
    "NumberAnswer": "hedgerow.live.writer",
    "Owned": "hedgerow.store",
    "Replaced": "hedgerow.live.model",
    "Settings": "hedgerow.live.settings",
}

__all__ = [
    "Answer", "Busy", "Closed", "JournalError", "LabelResult", "LiveModel", "NumberAnswer", "Owned", "Replaced",
    "Settings",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hedgerow.live' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
