"""Requests that wait for the one writer of a live model: many threads and tasks, one order, one commit for several."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from hedgerow.core.errors import HedgerowError

TOGETHER = 256  # requests that share a commit
T = TypeVar("T")


class Request(Generic[T]):
    """Something to do within a transaction, and what came of it. `told` is called when it is done.

    `alone`: nothing else shares its transaction, of which nothing is kept if it fails.
    """

    __slots__ = ("alone", "done", "error", "kind", "result", "settled", "told", "work")

    def __init__(
        self, kind: str, work: Callable[[], T], told: Callable[[], None] | None = None, alone: bool = False
    ) -> None:
        self.kind, self.work, self.told, self.alone = kind, work, told, alone
        self.result: T | None = None
        self.error: BaseException | None = None
        self.settled = self.done = False  # settled: what came of it is on disk

    def run(self) -> None:
        """Do it; what the caller did wrong is the request's own error, anything else everybody's."""
        try:
            self.result = self.work()
        except HedgerowError as error:
            if isinstance(error, ValueError):
                self.error = error
            else:
                raise

    def finish(self) -> None:
        """Say that it is done."""
        self.done = True
        if self.told is not None:
            self.told()

    def outcome(self) -> T:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


class Queue:
    """Requests in the order in which they came. Whoever gets the lock does what is waiting, for all."""

    def __init__(self, take: Callable[[list[Request[Any]]], None]) -> None:
        self._take = take
        self._waiting: deque[Request[Any]] = deque()
        self.lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._waiting)

    def do(self, request: Request[T]) -> T:
        """Wait until a request is done."""
        self._waiting.append(request)
        while not request.done:
            self.work()
        return request.outcome()

    def put(self, request: Request[Any]) -> None:
        """Leave a request to whoever works next."""
        self._waiting.append(request)

    def work(self) -> None:
        """Do some of what is waiting."""
        with self.lock:
            batch: list[Request[Any]] = []
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
