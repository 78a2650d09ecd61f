"""Signals that wait until the work in hand is done."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from types import FrameType


class Interrupts:
    """Ctrl-C and SIGTERM, held back while a row is in hand. `signal` is the one that came, or 0."""

    def __init__(self) -> None:
        self.signal = 0
        self._waiting = False

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._caught) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, _: FrameType | None) -> None:
        again = self.signal != 0
        self.signal = number
        if self._waiting or again:
            raise KeyboardInterrupt

    def lines(self, source: Iterable[str]) -> Iterator[str]:
        """The lines of the source, until an interrupt."""
        iterator = iter(source)
        while not self.signal:
            self._waiting = True
            try:
                line = next(iterator, None)
            finally:
                self._waiting = False
            if line is None:
                return
            yield line
