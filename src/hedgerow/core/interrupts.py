"""Signals that wait: Ctrl-C must not cut a step of learning in two.

Python runs a signal's handler between any two lines of the main thread, and Ctrl-C's raises KeyboardInterrupt there.
Inside `uninterrupted()` the handlers that Python would run are put aside; a signal that came is handled on leaving.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C functions: the module `signal` wraps them in enums, which takes ten times as long
import threading
from types import FrameType
from typing import Any

WAITING = (
    (_signal.SIGINT, _signal.SIGTERM, _signal.SIGALRM)
    if hasattr(_signal, "SIGALRM")
    else (_signal.SIGINT,)
)
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

    __slots__ = ("_came", "_handlers", "_open")

    def __enter__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self._handlers: dict[int, Any] = {}
        self._open = False
        if threading.current_thread() is not _MAIN:
            return  # handlers run in the main thread only
        for number in WAITING:
            handler = _signal.getsignal(number)
            if not callable(handler):
                continue
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, uninterrupted):
                if outer._open:
                    continue
                handler = outer._handlers[number]  # it was left behind, see `_note`
            self._handlers[number] = handler
            _signal.signal(number, self._note)
        self._open = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Keep a signal for later; or hand it on at once, while the context begins or ends.

        A handler that raises there can leave this one in place of another signal's, and must do no harm by it.
        """
        if self._open:
            self._came.append((number, frame))
        else:
            self._handlers[number](number, frame)

    def __exit__(self, *_: object) -> None:
        self._open = False
        try:
            for number, handler in self._handlers.items():
                _signal.signal(number, handler)
        finally:
            self._handle()

    def _handle(self) -> None:
        """Every signal that came, in order, whatever the handlers of those before it raise."""
        while self._came:
            number, frame = self._came.pop(0)
            try:
                self._handlers[number](number, frame)
            finally:
                self._handle()
