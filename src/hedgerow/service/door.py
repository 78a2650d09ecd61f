"""Every request passes here: is it for us, who sends it; headers on the way out, a line in the log, no error unsaid."""

from __future__ import annotations

import itertools
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hedgerow.service.logs import Log
from hedgerow.service.metrics import Requests
from hedgerow.service.problems import Problem, document
from hedgerow.service.schemas import OPEN
from hedgerow.service.settings import LOOPBACK_NAMES, Stop
from hedgerow.service.tokens import EVERYBODY, NOBODY, Caller, Tokens

Handler = Callable[[Request], Awaitable[Response]]
SECURITY = {
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    b"object-src 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
NO_STORE = (b"cache-control", b"no-store")
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="hedgerow"'}
BROWSER_CHALLENGE = {"WWW-Authenticate": 'Basic realm="hedgerow: any name, and a token as the password"'}


class Door:
    """The outermost part of the application."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens | None,
        host: str,
        log: Log,
        requests: Requests,
        stop: Stop,
        hot: Mapping[str, Handler],
    ) -> None:
        self._app, self._tokens, self._log, self._requests, self._stop = app, tokens, log, requests, stop
        self._hot = hot
        self._hosts = {*LOOPBACK_NAMES, host}
        self._run, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        request_id = f"{self._run}-{next(self._numbers)}"
        scope["hedgerow.instance"] = f"{scope['path'][:200]}#{request_id}"

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_security(message.get("headers", ()), request_id)
            await send(message)

        trace = None
        try:
            self._let_in(scope)
            handler = self._shortcut(scope)
            if handler is None:
                await self._app(scope, receive, send_with_headers)
            else:
                await (await handler(Request(scope, receive)))(scope, receive, send_with_headers)
        except Problem as problem:
            await document(problem, scope["hedgerow.instance"])(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            trace = _without_values(error)
            if not status:
                said = Problem("internal", "an error inside; the log has more under the id in `instance`")
                await document(said, scope["hedgerow.instance"])(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - began, request_id, trace)

    def _shortcut(self, scope: Scope) -> Handler | None:
        """The handler of a call that comes by the thousand: the application's router would take as long as all else."""
        if scope["method"] != "POST" or scope.get("root_path"):
            return None
        _, *parts = scope["path"].split("/")
        if len(parts) != 4 or parts[0] != "v1" or parts[1] != "models" or parts[3] not in self._hot:
            return None
        scope["path_params"], scope["hedgerow.template"] = {"name": parts[2]}, f"/v1/models/{{name}}/{parts[3]}"
        return self._hot[parts[3]]

    def _let_in(self, scope: Scope) -> None:
        """Who the caller is, in `scope`; a problem if nobody may call like this."""
        headers = dict(scope["headers"])
        if self._stop.is_set():
            raise Problem("not-ready", "the service is ending", headers={"Connection": "close"})
        host = headers.get(b"host", b"").decode("latin-1")
        if self._tokens is None and _name_of(host) not in self._hosts:
            raise Problem("misdirected", "the header Host names no address that is served here without tokens")
        origin = headers.get(b"origin")
        if origin is not None and _site_of(origin.decode("latin-1")) != host:
            raise Problem("cross-origin", "the header Origin names another site")
        scope["hedgerow.caller"] = self._caller(scope, headers)

    def _caller(self, scope: Scope, headers: dict[bytes, bytes]) -> Caller:
        if self._tokens is None:
            return EVERYBODY
        given = headers.get(b"authorization")
        caller = None if given is None else self._tokens.caller(given.decode("latin-1"))
        if caller is not None:
            return caller
        path: str = scope["path"]
        if path in OPEN or path == "/" or path.startswith(("/problems/", "/models/", "/static/")):
            return NOBODY  # the pages hold no data: what they show they ask for with a token
        detail = "the header Authorization is missing" if given is None else "the token is not one of this service"
        browser = b"text/html" in headers.get(b"accept", b"")
        raise Problem("unauthorised", detail, headers=BROWSER_CHALLENGE if browser else CHALLENGE)

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str, trace: Any) -> None:
        template = scope.get("hedgerow.template") or getattr(scope.get("route"), "path", None) or "unmatched"
        self._requests.note(scope["method"], template, status, seconds)
        model = scope.get("path_params", {}).get("name", "")[:64] or None
        self._log.request(scope["method"], template, status, seconds, model, request_id, trace)


def _name_of(host: str) -> str:
    """A Host header without its port.

    >>> _name_of("[::1]:8080"), _name_of("localhost"), _name_of("127.0.0.1:80")
    ('::1', 'localhost', '127.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _site_of(origin: str) -> str | None:
    """Host and port of an Origin header, None for one that has none.

    >>> _site_of("http://localhost:8080"), _site_of("null"), _site_of("http://[")
    ('localhost:8080', None, None)
    """
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None


def _with_security(headers: Any, request_id: str) -> list[tuple[bytes, bytes]]:
    given = list(headers)
    there = {name for name, _ in given}
    given += [(name, value) for name, value in SECURITY.items() if name not in there]
    if NO_STORE[0] not in there:
        given.append(NO_STORE)
    given.append((b"x-request-id", request_id.encode()))
    return given


def _without_values(error: BaseException) -> dict[str, Any]:
    """Where an error happened; its text is left out, since it may have features or labels in it."""
    frames = traceback.extract_tb(error.__traceback__)
    return {"error": type(error).__name__, "at": [f"{f.filename}:{f.lineno} {f.name}" for f in frames]}
