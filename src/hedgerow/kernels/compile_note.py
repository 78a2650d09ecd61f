"""A sign of life while loops are compiled: to the logger "hedgerow", and one line on a terminal."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from numba.core import event

from hedgerow.kernels.cache_folders import usable

log = logging.getLogger("hedgerow")
CANNOT_KEEP = "compiling, in every process: no folder to keep it in; `python -m hedgerow warm` tells the remedy"


class Note(event.Listener):
    """Hears of every compilation in this process, one at a time (numba holds a lock), and minds those of our loops.

    A loop that was found in a folder is not compiled, and gives no event.
    """

    def __init__(self) -> None:
        self.loops: set[Callable[..., Any]] = set()
        self.compiled, self.seconds = 0, 0.0
        self._depth, self._began = 0, 0.0  # a loop that calls another has it compiled on the way

    def on_start(self, found: Any) -> None:
        """A compilation begins; before the first one that is said."""
        if found.data["dispatcher"].py_func not in self.loops:
            return
        if self.compiled == self._depth == 0:
            _say("compiling, once per installation" if usable()[0] else CANNOT_KEEP)
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1

    def on_end(self, found: Any) -> None:
        """A compilation is over."""
        loop = found.data["dispatcher"].py_func
        if loop not in self.loops:
            return
        self._depth -= 1
        self.compiled += 1
        if self._depth == 0:
            taken = time.perf_counter() - self._began
            self.seconds += taken
            log.info("compiled %s in %.1f s, %.1f s so far", loop.__name__, taken, self.seconds)


def _say(what: str) -> None:
    log.info(what)
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"hedgerow: {what}", file=sys.stderr, flush=True)


NOTE = Note()
register: Any = event.register
register("numba:compile", NOTE)
