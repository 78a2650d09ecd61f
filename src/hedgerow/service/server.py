"""Running the application with uvicorn: one process, an end that loses nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hedgerow.core.errors import InputError
from hedgerow.service.app import create_app
from hedgerow.service.settings import ServiceSettings

HEADER_SECONDS = 30.0  # that a connection may take to send the header of a request


def serve(models: Path, settings: ServiceSettings, *, demo: bool, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; then requests finish, and every model is closed with a snapshot."""
    if not models.is_dir():
        raise InputError(f"there is no folder {models}; make it, or name another with --models")
    app = create_app(models, settings, demo=demo)
    listener = _listener(settings)
    host, port = listener.getsockname()[:2]
    tell(f"serving {models} at http://{f'[{host}]' if ':' in host else host}:{port}")
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, date_header=True, http=Patient, ws="none",
        timeout_graceful_shutdown=int(settings.shutdown_seconds), lifespan="on",
    )  # fmt: skip
    logging.getLogger().addHandler(app.state.log.handler())
    # uvicorn raises the signal that ended it once more: by then everything is done, and the exit code is 0
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: None)
    Server(config, app.state.stop.set).run([listener])


def _listener(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio then sets TCP_NODELAY
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen at {settings.host}:{settings.port}: {error.strerror or error}") from error
    return listener


class Server(uvicorn.Server):
    """Says that the end has come before it waits for connections: streams of events would never end by themselves."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, finish requests, end the application."""
        for listener in self.servers:
            listener.close()
        self._ending()
        await super().shutdown(sockets)


class Patient(H11Protocol):
    """Closes a connection that does not bring the header of its request to an end; uvicorn would wait for ever."""

    def connection_made(self, transport: Any) -> None:
        """Begin to watch."""
        super().connection_made(transport)
        self._watch(asyncio.get_running_loop(), self.cycle)

    def _watch(self, loop: asyncio.AbstractEventLoop, seen: Any) -> None:
        self._watching = loop.call_later(HEADER_SECONDS, self._look, loop, seen)

    def _look(self, loop: asyncio.AbstractEventLoop, seen: Any) -> None:
        if self.transport.is_closing():
            return
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.cycle is seen and self.timeout_keep_alive_task is None:
            self.transport.close()
        else:
            self._watch(loop, self.cycle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to watch any more."""
        self._watching.cancel()
        super().connection_lost(exc)
