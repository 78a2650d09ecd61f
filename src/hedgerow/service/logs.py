"""One JSON line a request, written by a thread of its own: no request waits for the terminal or the disk.

No token, query, id of an event, feature or label is ever written.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import deque
from typing import Any, TextIO

EVERY = 0.2  # seconds between two writes
MOST = 50_000  # lines that wait to be written; beyond, the oldest are dropped and counted


class Log:
    """Lines that wait to be written."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lines: deque[dict[str, Any]] = deque(maxlen=MOST)
        self._added = self._written = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._write_on, name="hedgerow-log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left; a stream that nobody reads is not waited for."""
        self._end.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def event(self, what: str, **values: Any) -> None:
        """A line about the service itself."""
        self._lines.append({"time": round(time.time(), 3), "event": what, **values})
        self._added += 1

    def request(
        self, method: str, path: str, status: int, seconds: float, model: str | None, request_id: str, trace: Any
    ) -> None:
        """A line about one request; `path` is the template of its route."""
        line: dict[str, Any] = {
            "time": round(time.time(), 3), "method": method, "path": path, "status": status,
            "ms": round(1e3 * seconds, 2), "model": model, "request": request_id,
        }  # fmt: skip
        self._lines.append(line if trace is None else {**line, **trace})
        self._added += 1

    def handler(self) -> logging.Handler:
        """For what libraries log: warnings and errors as lines like all others, without the text of exceptions."""
        made = _Lines(logging.WARNING)
        made.log = self
        return made

    def _write_on(self) -> None:
        while not self._end.wait(EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        lost = self._added - self._written - len(lines) - len(self._lines)
        if not lines:
            return
        self._written += len(lines)
        if lost > 0:
            self._written += lost
            lines.append({"time": round(time.time(), 3), "event": "lines were dropped", "lines": lost})
        stream = self._stream or sys.stderr
        try:
            stream.write("".join(f"{json.dumps(line)}\n" for line in lines))
            stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads the log any more; that must not end the service


class _Lines(logging.Handler):
    log: Log

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        self.log.event(str(record.msg)[:500], logger=record.name, level=record.levelname, error=error)
