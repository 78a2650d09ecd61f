"""One thing at a time in a thread of its own: snapshots are written while the model goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """A thread that is started when it is first needed."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None
        self._lock = threading.Lock()

    def do(self, work: Callable[[], None]) -> None:
        """Work after what was given before."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="hedgerow-snapshot")
            self._last = self._pool.submit(work)

    def wait(self) -> None:
        """Until everything given so far is done."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Finish, and end the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
