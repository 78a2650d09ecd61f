"""The pages people look at: a list of models, and one model live. Files only; all numbers come from the API.

The pages hold no data, so they are served without a token; what they read from the API needs one where the service has
tokens, and the page asks for it. Everything is read once, at import: a name that is not in the table does not exist, so
no path can leave the folder, and a page goes on working while the package is being replaced.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

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
