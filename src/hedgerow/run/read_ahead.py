"""The next blocks of a file, read while the last one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
DEPTH = 2  # blocks that wait
LOOK = 0.1  # seconds between two looks at whether anybody still wants them


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in order, made in a thread of its own, whose errors are raised here.

    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    made: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(DEPTH)
    over = threading.Event()

    def put(kind: str, item: T | BaseException | None) -> bool:
        while not over.is_set():
            try:
                made.put((kind, item), timeout=LOOK)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, name="hedgerow-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, item = made.get()
            if kind == "end":
                return
            if kind == "error":
                raise item  # type: ignore[misc]
            yield item  # type: ignore[misc]
    finally:
        over.set()
        thread.join()
