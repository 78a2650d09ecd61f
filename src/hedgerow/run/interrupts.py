"""Signals that wait until the work in hand is done, and streams on which waiting can be interrupted."""

from __future__ import annotations

import io
import os
import select
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
AT_ONCE = 65536  # bytes of input


class Interrupted(Exception):
    """A signal came while there was nothing to do but wait."""


class Interrupts:
    """Ctrl-C and SIGTERM, counted. `signal` is the first that came, or 0.

    A signal never breaks into the work: whoever waits on a stream (`reading`, `write`) also waits on a pipe to which
    the system writes at every signal, and gives up then. So it does not matter when a signal comes, nor how many
    follow it, and nothing can cut off what is done after the first: the saving.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.count = 0
        self._opening = False
        self._saving = False

    def __enter__(self) -> Interrupts:
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        self._pipe_before = signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._caught) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        # After an interrupt nothing is left but to exit with its code, which another signal must not change.
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.signal else handler)
        signal.set_wakeup_fd(self._pipe_before)
        os.close(self._wake)
        os.close(self._woken)

    def _caught(self, number: int, _: FrameType | None) -> None:
        self.count += 1
        self.signal = self.signal or number
        if self._saving and self.count > 1:
            os.write(
                2, b"still saving\n"
            )  # not by Python's streams: one of them may be in the middle of a write
        if self._opening:
            self._opening = False
            raise Interrupted

    @contextmanager
    def opening(self, begins: bool = True) -> Iterator[None]:
        """A block that a signal breaks off, to open a named pipe can take for ever; one that came before, as well.

        Unless nothing `begins` by it: a block of rows is in hand, which is finished.
        """
        self._opening = True
        try:
            if begins and self.signal:
                raise Interrupted
            yield
        finally:
            self._opening = False

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A block in which a further signal is answered by a word."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    def reading(self, descriptor: int) -> io.BufferedReader:
        """The bytes of a descriptor; `Interrupted` where a signal comes first."""
        return io.BufferedReader(_Awaited(descriptor, self._wake), AT_ONCE)

    def write(self, descriptor: int, data: bytes) -> None:
        """All of the data, unless nobody takes it and a signal comes: `Interrupted`."""
        rest = memoryview(data)
        # As many bytes as a pipe takes without blocking whenever it takes any; a file takes all.
        most = len(rest) if stat.S_ISREG(os.fstat(descriptor).st_mode) else select.PIPE_BUF
        while rest:
            _, free, _ = select.select([], [descriptor], [], 0)
            if not free:
                _, free, _ = select.select([self._wake], [descriptor], [])
            if not free:
                raise Interrupted
            rest = rest[os.write(descriptor, rest[:most]) :]


class _Awaited(io.RawIOBase):
    """A descriptor to read from until something can be read from `wake`."""

    def __init__(self, descriptor: int, wake: int) -> None:
        self._descriptor = descriptor
        self._wake = wake

    def readable(self) -> bool:
        """Whether it can be read: io asks."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """What is there, as soon as something is."""
        ready, _, _ = select.select([self._descriptor, self._wake], [], [])
        if self._wake in ready:
            raise Interrupted
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)
