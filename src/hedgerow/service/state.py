"""Whether the service is ending: what waits without an end (streams of events) must then stop."""

from __future__ import annotations

import asyncio


class Stop:
    """A flag that can be waited for, set from a signal handler or by the end of the application."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Say that the service is ending."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it is ending."""
        return self._event.is_set()

    async def within(self, seconds: float) -> bool:
        """Wait for so long, or until the service is ending: whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
