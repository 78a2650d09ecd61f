"""Requests that wait for the one writer of a live model: many threads and tasks, one order, one commit for several.

A request is data: a verb of the `Writer` and its arguments. The writer is looked up when the request is executed: after
a transaction that was rolled back it is another one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.live.engine import SEVERAL
from hedgerow.live.writer import Writer

TOGETHER = 256  # requests that share a commit
# what several of one instance are executed as
MICRO_BATCHES: dict[Any, Any] = {Writer.label: Writer.label_all, Writer.predict: Writer.predict_together}


class Busy(HedgerowError):
    """Too much is waiting; nothing was done, and it may be tried again."""


class Request(Future[Any]):
    """A verb of the writer and its arguments; as a future, what came of it, when that is on disk.

    `alone`: nothing else shares its transaction, of which nothing is kept if it fails. One that is cancelled while it
    waits is done all the same.
    """

    def __init__(self, verb: Callable[..., Any], args: tuple[Any, ...] = (), alone: bool = False) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self.verb, self.args, self.alone = verb, args, alone
        self.answer: Any = None
        self.error: InputError | None = None

    def execute(self, writer: Writer) -> None:
        """Do it; what the caller did wrong is the request's own error, anything else everybody's."""
        try:
            self.answer = self.verb(writer, *self.args)
        except InputError as error:
            self.error = error

    def settle(self, error: BaseException | None = None) -> None:
        """Say what came of it, unless that was said: its answer, its own error, or everybody's."""
        if self.done():
            return
        if self.error is None and error is None:
            self.set_result(self.answer)
        else:
            self.set_exception(self.error or error)


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
            answers = several(writer, [request.args for request in some])
        except InputError:  # of one of them: each for itself, so that the others have their answers
            rest = some + rest
            continue
        for request, answer in zip(some, answers, strict=True):
            request.answer = answer
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
        self._pool = ThreadPoolExecutor(1, "hedgerow-live")  # its thread starts when it is needed

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, request: Request) -> Any:
        """Wait until a request is done."""
        self._waiting.append(request)
        while not request.done():
            self._work()
        return request.result()

    async def do_async(self, request: Request) -> Any:
        """The same without keeping the event loop waiting."""
        self._waiting.append(request)
        self._pool.submit(self._work)
        return await asyncio.wrap_future(request)

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
                    request.settle(error)
                raise
