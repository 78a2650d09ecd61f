"""The application: its parts put together. Any ASGI server can run it; `hedgerow serve` uses uvicorn."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

import hedgerow
from hedgerow.service import api, fits, hot, metrics, oip, schemas
from hedgerow.service.demo import Demo
from hedgerow.service.door import Door
from hedgerow.service.jobs import Jobs
from hedgerow.service.logs import Log
from hedgerow.service.metrics import Requests
from hedgerow.service.models import Models
from hedgerow.service.problems import FieldError, Problem, document
from hedgerow.service.settings import ServiceSettings, Stop
from hedgerow.service.tokens import Tokens

ABOUT = "Live models: instances come in, predictions go out, labels follow. Errors are RFC 9457 problem documents."


def create_app(models: Path, settings: ServiceSettings | None = None, *, demo: bool = False) -> FastAPI:
    """An application that serves the live models in a folder."""
    settings = settings or ServiceSettings()
    tokens = None if settings.token_file is None else Tokens.read(settings.token_file)
    held, log, requests, stop = Models(Path(models), settings), Log(), Requests(), Stop()
    jobs = Jobs(held)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log.start()
        held.start()
        stream = Demo(held, stop) if demo else None
        if stream is not None:
            stream.start()
        log.event("started", folder=str(held.folder), models=[entry.name for entry in held])
        try:
            yield
        finally:
            stop.set()
            if stream is not None:
                await stream.close()
            await jobs.close()
            await held.close()
            log.event("ended")
            log.stop()

    app = FastAPI(
        title="hedgerow", version=hedgerow.__version__, description=ABOUT, lifespan=lifespan, docs_url=None,
        redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    app.state.stop, app.state.models, app.state.log = stop, held, log
    events, shortcuts = hot.router(held)
    calls = [metrics.router(held, requests), events, api.router(held, stop), fits.router(held, jobs), oip.router(held)]
    _include(app, calls)
    app.add_middleware(Door, tokens=tokens, host=settings.host, log=log, requests=requests, stop=stop, hot=shortcuts)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    schemas.install(app, settings)
    return app


def _include(app: FastAPI, routers: list[APIRouter]) -> None:
    """All calls, and the pages where they are installed; the routes are kept by which a refused method is explained."""
    if importlib.util.find_spec("hedgerow.service.app") is not None:
        routers = [*routers, importlib.import_module("hedgerow.service.app").router]
    for router in routers:
        app.include_router(router)
    app.state.routes = [route for router in routers for route in router.routes]


async def _http(request: Request, error: Exception) -> Response:
    """Problems as they are, and those of the framework in the same form."""
    assert isinstance(error, HTTPException)
    if not isinstance(error, Problem):
        if error.status_code == 405:
            allowed = ", ".join(sorted(_methods(request)))
            error = Problem("method-not-allowed", f"{request.method} is not possible here", (), {"Allow": allowed})
        elif error.status_code == 404:
            error = Problem("not-found", "there is nothing at this address")
        else:
            error = Problem("malformed", "the request cannot be read")
    return document(error, request.scope["hedgerow.instance"])


async def _validation(request: Request, error: Exception) -> Response:
    """What FastAPI found in path and query."""
    assert isinstance(error, RequestValidationError)
    fields = [FieldError(".".join(map(str, found["loc"][1:])), str(found["msg"])) for found in error.errors()]
    said = Problem("invalid", "; ".join(f"{field}: {detail}" for field, detail in fields[:3]), fields)
    return document(said, request.scope["hedgerow.instance"])


def _methods(request: Request) -> set[str]:
    """Every method that some route has for this path."""
    routes = [route for route in request.app.state.routes if isinstance(route, Route)]
    return {
        method for route in routes if route.path_regex.match(request.scope["path"]) for method in route.methods or ()
    }


# -- pages ----------------------------------------------------------------------------------------------------

# The pages people look at: a list of models, and one model live. Files only; all numbers come from the API.
#
# The pages hold no data, so they are served without a token; what they read from the API needs one where the
# service has tokens, and the page asks for it. Everything is read once, at import: a name that is not in the table
# does not exist, so no path can leave the folder, and a page goes on working while the package is being replaced.


POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept, but asked for again with its digest: a new version is seen at once
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}


class Page(NamedTuple):
    """A file of the page: its bytes, its media type and a digest that changes with them."""

    content: bytes
    media: str
    tag: str


def _pages(folder: Traversable, prefix: str = "") -> dict[str, Page]:
    found: dict[str, Page] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found.update(_pages(entry, f"{prefix}{entry.name}/"))
        elif (media := TYPES.get(entry.name[entry.name.rfind(".") :])) is not None:
            content = entry.read_bytes()
            found[prefix + entry.name] = Page(content, media, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


PAGES = _pages(files("hedgerow.service") / "static")
READ = ["GET", "HEAD"]
router = APIRouter(include_in_schema=False)


def _answer(name: str, request: Request) -> Response:
    page = PAGES.get(name)
    if page is None:
        return PlainTextResponse(f"there is no page {name!r}\n", status_code=404, headers=HEADERS)
    headers = {**HEADERS, "ETag": page.tag}
    if request.headers.get("if-none-match") == page.tag:
        return Response(status_code=304, headers=headers)
    return Response(page.content, media_type=page.media, headers=headers)


@router.api_route("/", methods=READ)
def models(request: Request) -> Response:
    """The list of models."""
    return _answer("index.html", request)


@router.api_route("/models/{name}", methods=READ)
def model(name: str, request: Request) -> Response:
    """One model, live; the page itself says so if there is none of that name."""
    return _answer("model.html", request)


@router.api_route("/static/{name:path}", methods=READ)
def static(name: str, request: Request) -> Response:
    """Scripts, styles and the drawing library, with its licence."""
    return _answer(name, request)
