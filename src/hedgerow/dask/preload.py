"""What a worker of our own cluster does when it starts: Ctrl-C is its owner's to handle."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Dask calls this in the new process. Ctrl-C goes to every process of a terminal; a worker leaves it alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
