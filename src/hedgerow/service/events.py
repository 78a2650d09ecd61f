"""Server-sent events of a model: one task a model asks it, every reader gets the newest, a slow one misses some."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from hedgerow.live import LiveModel
from hedgerow.service.json_text import finite
from hedgerow.service.models import Entry
from hedgerow.service.problems import Problem
from hedgerow.service.state import Stop

EVERY = 0.5  # seconds between two events at least
HEARTBEAT = 10.0  # seconds between comment lines, so that nobody takes silence for an end
LATEST = 20


class Readers:
    """The readers of one model, and the newest that there is for them."""

    def __init__(self, entry: Entry, stop: Stop) -> None:
        self._entry, self._stop = entry, stop
        self._text, self._number = b"", 0
        self._changed = asyncio.Event()
        self.count = 0
        self._task: asyncio.Task[None] | None = None

    async def stream(self) -> AsyncIterator[bytes]:
        """Events until the service or the model ends, or the reader goes."""
        self.count += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask())
        seen, spoke = 0, time.monotonic()
        try:
            yield b"retry: 2000\n\n"
            while not self._stop.is_set() and not self._task.done():
                if self._number != seen:
                    seen, spoke = self._number, time.monotonic()
                    yield self._text
                elif time.monotonic() - spoke >= HEARTBEAT:
                    spoke = time.monotonic()
                    yield b": still here\n\n"
                await self._wait()
        finally:
            self.count -= 1

    async def _wait(self) -> None:
        changed = self._changed
        try:
            async with asyncio.timeout(HEARTBEAT / 10):
                await changed.wait()
        except TimeoutError:
            return

    async def _ask(self) -> None:
        """Ask the model as long as somebody reads."""
        marker: Any = None
        while self.count and not self._stop.is_set():
            live = self._entry.live
            if live is None:
                break
            found = await asyncio.to_thread(_event, live, marker)
            if found is not None:
                marker, self._text = found
                self._number += 1
                self._changed.set()
                self._changed = asyncio.Event()
            if await self._stop.within(EVERY):
                break
        self._changed.set()
        self._changed = asyncio.Event()


def _event(live: LiveModel, marker: Any) -> tuple[Any, bytes] | None:
    """What is new since `marker`, written once for all readers."""
    stats, alarms = live.stats(), live.alarms()
    counts = [stats[key] for key in ("events", "labels", "mistakes", "given_up", "pending", "unknown_labels")]
    now = (counts, [(alarm["rule"], alarm["since"]) for alarm in alarms])
    if now == marker:
        return None
    points = live.history()
    told = {
        "stats": stats,
        "point": points[-1] if points else None,
        "latest": live.latest(LATEST),
        "alarms": alarms,
    }
    return now, f"event: stats\ndata: {json.dumps(finite(told), separators=(',', ':'))}\n\n".encode()


def readers_of(entry: Entry, stop: Stop, others: int, most: int) -> Readers:
    """The readers of a model, if one more may come."""
    if others >= most:
        raise Problem("busy", f"{others} readers of events are connected, as many as allowed")
    if entry.readers is None:
        entry.readers = Readers(entry, stop)
    readers: Readers = entry.readers
    return readers
