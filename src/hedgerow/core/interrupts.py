"""Signals that wait: Ctrl-C must not cut a step of learning in two.

Python runs a signal's handler between any two lines of the main thread, and Ctrl-C's raises KeyboardInterrupt there.
Inside `uninterrupted()` the handlers that Python would run are put aside; a signal that came is handled on leaving.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C functions: the module `signal` wraps them in enums, which takes ten times as long
import threading
from types import FrameType
from typing import Any

WAITING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGALRM) if hasattr(_signal, "SIGALRM") else (_signal.SIGINT,)
_MAIN = threading.main_thread()


class uninterrupted:
    """A context in which Ctrl-C, SIGTERM and SIGALRM wait until it ends.

    >>> import signal
    >>> try:
    ...     with uninterrupted():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("done")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    done
    interrupted
    """

    __slots__ = ("_came", "_handlers")

    def __enter__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self._handlers: list[tuple[int, Any]] = []
        if threading.current_thread() is not _MAIN:
            return  # handlers run in the main thread only
        for number in WAITING:
            handler = _signal.getsignal(number)
            if callable(handler) and getattr(handler, "__func__", None) is not uninterrupted._note:
                self._handlers.append((number, handler))
                _signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers:
            _signal.signal(number, handler)
        for number, handler in self._handlers:
            for came, frame in self._came:
                if came == number:
                    handler(number, frame)
