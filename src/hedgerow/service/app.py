"""The application, its parts put together, and the server that runs it.

Any ASGI server can run what `create_app` returns; `hedgerow serve` uses `serve`: uvicorn in one process, with limits on
connections and an end that loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from hedgerow.core.errors import InputError
from hedgerow.service import inference  # noqa: F401  # declares its operations
from hedgerow.service.demo import stream_digits
from hedgerow.service.jobs import Jobs
from hedgerow.service.metrics import Requests
from hedgerow.service.middleware import TEMPLATE, Log, RequestMiddleware, Tokens, caller_of
from hedgerow.service.models import Models
from hedgerow.service.operations import JSON, document, routes
from hedgerow.service.routes import pages
from hedgerow.service.schemas import Problem, encode
from hedgerow.service.settings import ServiceSettings
from hedgerow.service.webhook import post_alarms


def create_app(folder: Path, settings: ServiceSettings | None = None, *, demo: bool = False) -> Starlette:
    """An ASGI application that serves the live models in a folder; one process only, since it owns them.

    Parameters
    ----------
    folder : Path
        Every folder in it is a live model, and a file NAME.safetensors without one becomes the live model NAME.
    settings : ServiceSettings, optional
        Limits and tokens; host and port are used to tell which Host headers are ours.
    demo : bool
        Also stream the embedded digits into a model of their own.

    Returns
    -------
    Starlette
        With `lifespan`: an ASGI server opens the models when it starts and closes them, with a snapshot, at its end.

    Raises
    ------
    InputError
        The token file cannot be read, is readable by others, or has a line that cannot be used.

    Examples
    --------
    >>> from pathlib import Path
    >>> app = create_app(Path("models"))  # nothing is opened before the server starts
    >>> {"/v1/models/{name}/predict", "/v2/models/{name}/infer", "/metrics"} <= {route.path for route in app.routes}
    True
    """
    settings = settings or ServiceSettings()
    tokens = None if settings.token_file is None else Tokens(settings.token_file)
    models, log, requests = Models(Path(folder), settings), Log(), Requests()
    jobs = Jobs(models)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        log.start()
        models.start()
        stream = asyncio.create_task(stream_digits(models)) if demo else None
        webhook = None if settings.webhook is None else asyncio.create_task(post_alarms(models, settings.webhook))
        log.add(event="started", folder=str(models.folder), models=[entry.name for entry in models])
        try:
            yield
        finally:
            models.stopping.set()
            if stream is not None:
                await stream
            if webhook is not None:
                webhook.cancel()
            await jobs.close()
            await models.close()
            log.add(event="ended")
            log.stop()

    described = cache(lambda: encode(document(settings)))

    async def openapi(_: Request) -> Response:
        return Response(described(), media_type=JSON)

    middleware = [Middleware(RequestMiddleware, log, requests, tokens, settings.host, models.stopping)]
    app = Starlette(
        routes=[*routes(), Route("/openapi.json", openapi), *pages()], middleware=middleware, lifespan=lifespan,
        exception_handlers={HTTPException: _not_found},
    )  # fmt: skip
    app.router.redirect_slashes = False
    app.state.stop, app.state.models, app.state.log, app.state.requests = models.stopping, models, log, requests
    app.state.jobs, app.state.tokens = jobs, tokens
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    """What no route answers."""
    assert isinstance(error, HTTPException)
    if not request.scope["path"].removeprefix(request.scope.get("root_path", "")).startswith("/static/"):
        caller_of(request.scope)
    if error.status_code == 405:
        raise Problem("method-not-allowed", f"{request.method} is not possible here", (), {"Allow": "GET, HEAD"})
    raise Problem("not-found", "there is nothing at this address")


# -- the server -------------------------------------------------------------------------------------------------

HEADER_SECONDS = 15.0  # between two looks at connections: the header of a request must arrive within two of them
BACKLOG = 512  # connections that may wait to be accepted
AT_ONCE = 16  # that asyncio accepts before it looks at any of them: above the limit for a moment
STREAM_SECONDS = 1.0  # that readers of events and senders of bodies have to go after SIGTERM


def serve(models: Path, settings: ServiceSettings, *, demo: bool, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; then requests finish, and every model is closed with a snapshot."""
    if not models.is_dir():
        raise InputError(f"there is no folder {models}; make it, or name another with --models")
    app = create_app(models, settings, demo=demo)
    BoundedProtocol.most = min(settings.max_connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, date_header=True, http=BoundedProtocol,
        ws="none", timeout_graceful_shutdown=math.ceil(settings.shutdown_timeout), lifespan="on", backlog=AT_ONCE,
        ssl_certfile=settings.tls_cert, ssl_keyfile=settings.tls_key, root_path=settings.root_path,
        proxy_headers=bool(settings.trusted_proxies), forwarded_allow_ips=settings.trusted_proxies,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise InputError(f"cannot read the TLS files {settings.tls_cert} and {settings.tls_key}: {error}") from error
    listener = _listener(settings)
    host, port = listener.getsockname()[:2]
    logging.getLogger().addHandler(app.state.log)
    # uvicorn raises the signal that ended it once more: by then everything is done, and the exit code is 0
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: None)
    scheme = "http" if settings.tls_cert is None else "https"
    address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    Server(config, app, lambda: tell(f"serving {models} at {address}")).run([listener])


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
    """Tells when it listens; at the end, streams and half-sent bodies are not waited for."""

    def __init__(self, config: uvicorn.Config, app: Starlette, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening, self._state = listening, app.state

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)  # asyncio has one number for both
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._read_again)
        loop.call_later(HEADER_SECONDS, self._close_silent, {})
        if self.started:
            self._listening()

    def _read_again(self) -> None:
        """Tokens and certificates as their files have them now; what cannot be used changes nothing."""
        try:
            if self._state.tokens is not None:
                self._state.tokens.read()
            if self.config.ssl is not None and self.config.ssl_certfile is not None:
                self.config.ssl.load_cert_chain(self.config.ssl_certfile, self.config.ssl_keyfile)
        except (InputError, OSError) as error:
            self._state.log.add(event="tokens and certificates were not read again", reason=str(error))
        else:
            self._state.log.add(event="tokens and certificates were read again")

    def _close_silent(self, before: dict[Any, Any]) -> None:
        """Close connections that have begun no request since the last look; uvicorn would wait for ever.

        Those that had a request before have uvicorn's own timer.
        """
        now = {one: one.cycle for one in self.server_state.connections if isinstance(one, BoundedProtocol)}
        for one, cycle in now.items():
            if one in before and before[one] is cycle and one.is_idle and one.timeout_keep_alive_task is None:
                one.transport.close()
        asyncio.get_running_loop().call_later(HEADER_SECONDS, self._close_silent, now)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, finish requests, end the application."""
        for listener in self.servers:
            listener.close()
        self._state.stop.set()
        asyncio.get_running_loop().call_later(STREAM_SECONDS, self._abort_streams)
        await super().shutdown(sockets)

    def _abort_streams(self) -> None:
        for connection in list(self.server_state.connections):
            cycle = getattr(connection, "cycle", None)
            if cycle is None or cycle.more_body or str(cycle.scope.get(TEMPLATE)).endswith("/events"):
                connection.transport.abort()


class BoundedProtocol(H11Protocol):
    """Closes idle connections for new ones: uvicorn would accept as many as the process has descriptors."""

    most = 1000  # connections

    def connection_made(self, transport: Any) -> None:
        """Beyond `most`, the oldest that does nothing makes room, or this one is refused."""
        super().connection_made(transport)
        self._began = time.monotonic()
        if len(self.connections) > self.most:
            others = [one for one in self.connections if isinstance(one, BoundedProtocol)]
            idle = [one for one in others if one.is_idle and not one.transport.is_closing()]
            min(idle, key=lambda one: one._began, default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no request of the connection is being answered."""
        return self.cycle is None or self.cycle.response_complete
