"""The application, put together of its parts, and `hedgerow serve`: uvicorn in one process."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hedgerow.core.errors import InputError
from hedgerow.service import ServiceSettings
from hedgerow.service.demo import stream_digits
from hedgerow.service.metrics import Requests
from hedgerow.service.middleware import Log, RequestMiddleware, Tokens, caller_of, inside
from hedgerow.service.models import Models
from hedgerow.service.operations import JSON, document, routes
from hedgerow.service.routes import pages
from hedgerow.service.schemas import Problem, encode

ENDING = (signal.SIGTERM, signal.SIGINT)


def build(settings: ServiceSettings, *, demo: bool = False) -> Starlette:
    """The application: `hedgerow.service.create_app`, which also insists on a token file. `demo` streams digits."""
    if settings.models is None or not settings.models.is_dir():
        raise InputError(
            f"no folder at {settings.models}: make it first; each live model gets a folder in it"
        )
    tokens = None if settings.token_file is None else Tokens(settings.token_file)
    models = Models(settings.models, settings)
    log = Log()
    requests = Requests()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        log.start()
        logging.getLogger().addHandler(log)
        models.start()
        stream = asyncio.create_task(stream_digits(models)) if demo else None
        log.add(event="started", folder=str(models.folder), models=[entry.name for entry in models])
        try:
            with _signals_watched(models.stop):
                yield
        finally:
            models.stop()
            if stream is not None:
                await stream
            await models.close()
            log.add(event="ended")
            logging.getLogger().removeHandler(log)
            log.stop()

    described = cache(lambda: encode(document(settings)))

    async def openapi(_: Request) -> Response:
        return Response(described(), media_type=JSON)

    app = Starlette(
        routes=[*routes(), Route("/openapi.json", openapi), *pages()],
        middleware=[
            Middleware(RequestMiddleware, log, requests, tokens, settings.host, models.stopping)
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _not_found},
    )
    app.router.redirect_slashes = False
    app.state.models = models
    app.state.log = log
    app.state.requests = requests
    return app


@contextmanager
def _signals_watched(stop: Callable[[], None]) -> Iterator[None]:
    """Tell requests at once that the service ends; the server's own handlers of these signals are called too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in ENDING}

    def end(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)
        server = before[signal.Signals(number)]
        if callable(server):
            server(number, frame)

    watched = [number for number in ENDING if callable(before[number])]
    for number in watched:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in watched:
            if signal.getsignal(number) is end:
                signal.signal(number, before[number])


async def _not_found(request: Request, error: Exception) -> Response:
    """What no route answers."""
    assert isinstance(error, HTTPException)
    if not inside(request.scope).startswith("/static/"):
        caller_of(request.scope)
    if error.status_code == 405:
        raise Problem(
            "method-not-allowed",
            f"{request.method} is not possible here",
            (),
            {"Allow": "GET, HEAD"},
        )
    raise Problem("not-found", "there is nothing at this address")


# -- the server -------------------------------------------------------------------------------------------------

CONNECTIONS = (
    1000  # at the same time; requests beyond that are answered 503, as long as descriptors are left
)
ENDING_SECONDS = 30  # that requests have to finish after SIGTERM
BACKLOG = 512  # connections that may wait to be accepted


def serve(settings: ServiceSettings, *, demo: bool, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; then requests finish, and every model is closed with a snapshot."""
    app = build(settings, demo=demo)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=min(CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2),
        backlog=BACKLOG,
        timeout_graceful_shutdown=ENDING_SECONDS,
    )
    listener = _listener(settings)
    host, port = listener.getsockname()[:2]
    # uvicorn raises the signal that ended it once more: by then everything is done, and the exit code is 0
    for each in ENDING:
        signal.signal(each, lambda *_: None)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    tell(f"serving {settings.models} at {address}")
    uvicorn.Server(config).run([listener])


def _listener(settings: ServiceSettings) -> socket.socket:
    """A socket that takes connections from now on; they wait until the server has started."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (settings.host, settings.port), family=family, backlog=BACKLOG
        )
    except OSError as error:
        raise InputError(
            f"cannot listen at {settings.host}:{settings.port}: {error.strerror or error}"
        ) from error
    return socket.socket(
        fileno=listener.detach()
    )  # which asks for its protocol: asyncio then sets TCP_NODELAY
