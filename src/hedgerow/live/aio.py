"""The asyncio face: what many tasks ask for at the same time is taken in order and committed together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from hedgerow.live.answers import Answer, Labelled
from hedgerow.live.errors import Busy
from hedgerow.live.requests import Request

if TYPE_CHECKING:
    from hedgerow.live.model import LiveModel

MOST_WAITING = 1024  # requests
T = TypeVar("T")


class AsyncLiveModel:
    """The verbs of a `LiveModel`, to be awaited. One thread works; `Busy` is raised when too much is waiting.

    A request that was cancelled while it waited is done all the same: it may be in the journal.
    """

    def __init__(self, live: LiveModel, most_waiting: int = MOST_WAITING) -> None:
        self._live, self.most_waiting = live, most_waiting
        self._pool: ThreadPoolExecutor | None = None
        self._lock, self._working, self._worker = threading.Lock(), False, 0
        self._done: list[asyncio.Future[None]] = []

    async def predict(self, x: Any, id: str | None = None) -> Answer:
        """See `LiveModel.predict`."""
        return await self._do("predict", lambda: self._live._writer.predict(x, id))

    async def predict_many(self, X: Any, ids: Sequence[str] | None = None) -> list[Answer]:
        """See `LiveModel.predict_many`."""
        return await self._do("predict", lambda: self._live._writer.predict_many(X, ids))

    async def label(self, id: str, y: Any) -> Labelled:
        """See `LiveModel.label`."""
        return await self._do("label", lambda: self._live._writer.label(id, y))

    async def label_many(self, labels: Sequence[tuple[str, Any]]) -> list[Labelled]:
        """See `LiveModel.label_many`."""
        return await self._do("label", lambda: self._live._writer.label_many(labels))

    async def predict_then_learn(self, X: Any, y: Any, ids: Sequence[str] | None = None) -> list[Answer]:
        """See `LiveModel.predict_then_learn`."""
        return await self._do("predict_then_learn", lambda: self._live._writer.predict_then_learn(X, y, ids))

    async def look(self, read: Callable[[LiveModel], T]) -> T:
        """What `read` says of the live model (its stats, say), without keeping the event loop waiting."""
        return await asyncio.get_running_loop().run_in_executor(None, read, self._live)

    async def snapshot(self) -> dict[str, Any]:
        """See `LiveModel.snapshot`."""
        return await self.look(lambda live: live.snapshot())

    async def _do(self, kind: str, work: Callable[[], T]) -> T:
        live, loop = self._live, asyncio.get_running_loop()
        if live.waiting >= self.most_waiting:
            raise Busy(f"{live.waiting} requests are waiting for this model; try again in a moment")
        future: asyncio.Future[None] = loop.create_future()
        began = time.perf_counter()

        def told() -> None:
            if threading.get_ident() == self._worker:
                self._done.append(future)  # a group is told together
            else:  # a thread of the caller's was there first
                _tell([future])

        request: Request[T] = Request(kind, work, told)
        live._queue.put(request)
        self._start()
        await future
        live._timing.took(kind, time.perf_counter() - began)
        return request.outcome()

    # -- the thread that works ----------------------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            if self._working:
                return
            self._working = True
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-live")
            self._pool.submit(self._work)

    def _work(self) -> None:
        live, self._worker = self._live, threading.get_ident()
        while True:
            with suppress(BaseException):  # every request of the group has it as its own error
                live._queue.work()
            done, self._done = self._done, []
            _tell(done)
            with self._lock:
                if not live.waiting:
                    self._working = False
                    return


def _tell(futures: list[asyncio.Future[None]]) -> None:
    """Say that these are done, each to the event loop of its own; one that was closed has nobody who waits."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        by_loop.setdefault(future.get_loop(), []).append(future)
    for loop, its_own in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, its_own)


def _set(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
