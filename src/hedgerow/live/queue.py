"""Requests that wait for the one writer of a live model: many threads and tasks, one order, one commit for several.

A request is data: a verb of the `Writer` and its arguments. The writer is looked up when the request is executed: after
a transaction that was rolled back it is another one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.live.writer import SEVERAL, Writer

TOGETHER = 256  # requests that share a commit
MICRO_BATCHES = {"label": "label_all", "predict": "predict_together"}  # what several of one instance are executed as


class Busy(HedgerowError):
    """Too much is waiting; nothing was done, and it may be tried again."""


class Request:
    """A verb of the writer and its arguments, then what came of it. `notify` is called when it is done.

    `alone`: nothing else shares its transaction, of which nothing is kept if it fails.
    """

    __slots__ = ("alone", "args", "done", "error", "notify", "result", "settled", "verb")

    def __init__(
        self, verb: str, args: tuple[Any, ...] = (), alone: bool = False, notify: Callable[[], None] | None = None
    ) -> None:
        self.verb, self.args, self.alone, self.notify = verb, args, alone, notify
        self.result: Any = None
        self.error: BaseException | None = None
        self.settled = self.done = False  # settled: what came of it is on disk

    def execute(self, writer: Writer) -> None:
        """Do it; what the caller did wrong is the request's own error, anything else everybody's."""
        try:
            self.result = getattr(writer, self.verb)(*self.args)
        except InputError as error:
            self.error = error

    def finish(self) -> None:
        """Say that it is done."""
        self.done = True
        if self.notify is not None:
            self.notify()

    def outcome(self) -> Any:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result


def execute(writer: Writer, batch: list[Request]) -> None:
    """Requests that came at the same time: labels as one block, then single instances as one, then the rest in order.

    Nobody among them had an answer yet, so every order is one in which they could have come.
    """
    rest = batch
    for verb, several in MICRO_BATCHES.items() if len(batch) >= SEVERAL else ():
        some = [request for request in rest if request.verb == verb]
        if len(some) < SEVERAL:
            continue
        rest = [request for request in rest if request.verb != verb]
        try:
            results = getattr(writer, several)([request.args for request in some])
        except InputError:  # of one of them: each for itself, so that the others have their answers
            rest = some + rest
            continue
        for request, result in zip(some, results, strict=True):
            request.result = result
        writer.snapshot_if_due()
    for request in rest:
        request.execute(writer)
        if request.alone and request.error is not None and writer.journal.open_transaction:
            raise request.error  # some of it was done
        writer.snapshot_if_due()


class Queue:
    """Requests in the order in which they came. Whoever gets the lock does what is waiting, for all.

    Threads call `do`, tasks await `do_async`, for which one thread of the queue's own works.
    """

    def __init__(self, take: Callable[[list[Request]], None]) -> None:
        self._take = take
        self._waiting: deque[Request] = deque()
        self.lock = threading.RLock()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock, self._working, self._worker = threading.Lock(), False, 0
        self._done: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, request: Request) -> Any:
        """Wait until a request is done."""
        self._waiting.append(request)
        while not request.done:
            self._work()
        return request.outcome()

    async def do_async(self, request: Request) -> Any:
        """The same without keeping the event loop waiting."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def notify() -> None:
            if threading.get_ident() == self._worker:
                self._done.append(future)  # a group is told together
            else:  # a thread of the caller's was there first
                _tell([future])

        request.notify = notify
        self._waiting.append(request)
        with self._pool_lock:
            if not self._working:
                self._working = True
                self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="hedgerow-live")
                self._pool.submit(self._work_for_tasks)
        await future
        return request.outcome()

    def _work(self) -> None:
        """Do some of what is waiting."""
        with self.lock:
            batch: list[Request] = []
            try:
                while self._waiting and len(batch) < TOGETHER:
                    if batch and (batch[0].alone or self._waiting[0].alone):
                        break
                    batch.append(self._waiting.popleft())
                if batch:
                    self._take(batch)
            except BaseException as error:
                for request in batch:
                    if not request.settled:
                        request.error = request.error or error
                raise
            finally:
                for request in batch:
                    request.finish()

    def _work_for_tasks(self) -> None:
        self._worker = threading.get_ident()
        while True:
            with suppress(BaseException):  # every request of the group has it as its own error
                self._work()
            done, self._done = self._done, []
            _tell(done)
            with self._pool_lock:
                if not self._waiting:
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
