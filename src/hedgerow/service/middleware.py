"""Before any operation: who calls and whether that may be, request ids, security headers, problems, the log.

A token file has lines of `TOKEN RIGHTS MODELS`: rights are read, predict, learn and admin, joined by commas; models are
names joined by commas, or * for all. Each right stands for itself, so that a device that predicts cannot read the
journal; admin has all of them. A token may have several lines. Lines that begin with # are comments.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import logging
import os
import re
import secrets
import stat
import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hedgerow.core.errors import InputError, unknown
from hedgerow.service import LOOPBACK_NAMES
from hedgerow.service.metrics import Requests
from hedgerow.service.schemas import Problem

logger = logging.getLogger("hedgerow.service")

# -- tokens -----------------------------------------------------------------------------------------------------

RIGHTS = ("read", "predict", "learn", "admin")
SHORTEST = 16  # characters of a token
MAKE_ONE = "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"


@dataclass(frozen=True)
class Caller:
    """What one caller may do: pairs of a right and a model's name, * for all models."""

    grants: frozenset[tuple[str, str]]

    def may(self, right: str, model: str) -> bool:
        """Whether this right was given for this model (or `*`: for all)."""
        asked = {(each, name) for each in (right, "admin") for name in (model, "*")}
        return not self.grants.isdisjoint(asked)

    def may_any(self, right: str) -> bool:
        """Whether this right was given for at least one model."""
        return any(granted in (right, "admin") for granted, _ in self.grants)


EVERYBODY = Caller(frozenset({("admin", "*")}))  # where there is no token file: loopback only


LOOK_EVERY = 1.0  # seconds between two looks at whether the token file has changed


class Tokens:
    """The tokens of a file that nobody else can read, by digest; read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = _version(path)
        self._looked = time.monotonic()
        self._callers = self._read()

    def _look_again(self) -> None:
        """Read the file if it has changed; if it cannot be used, what was read before stays, and the log says why."""
        self._looked = time.monotonic()
        version = _version(self._path)
        if version == self._version:
            return
        self._version = (
            version  # from before the file is read: a change meanwhile is found at the next look
        )
        try:
            self._callers = self._read()
        except InputError as error:
            logger.warning(
                "the token file was not read again, and the earlier tokens stay valid: %s", error
            )
        else:
            logger.warning("the token file has changed and was read again")

    def _read(self) -> dict[bytes, Caller]:
        path = self._path
        try:
            with path.open(encoding="utf-8") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                lines = file.read().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the token file {path}: {error}") from error
        if mode & 0o077:
            raise InputError(
                f"the token file {path} has mode {mode:04o}, so others can read it: chmod 600 {path}"
            )
        grants: dict[bytes, set[tuple[str, str]]] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                token, granted = _parsed(line, f"{path}, line {number}")
                grants.setdefault(_digest(token), set()).update(granted)
        if not grants:
            raise InputError(
                f"the token file {path} has no token; a line is TOKEN RIGHTS MODELS; {MAKE_ONE}"
            )
        return {digest: Caller(frozenset(granted)) for digest, granted in grants.items()}

    def caller(self, authorization: str) -> Caller | None:
        """Whose header this is: `Bearer TOKEN`."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self._look_again()
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            return None
        sent = _digest(token.strip())
        match = None
        for (
            digest,
            caller,
        ) in self._callers.items():  # all of them: the time says nothing about which is near
            if hmac.compare_digest(digest, sent):
                match = caller
        return match


def _version(path: Path) -> tuple[int, ...]:
    """What changes with a file, or with its mode; nothing if it is not there."""
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_size


def _parsed(line: str, where: str) -> tuple[str, set[tuple[str, str]]]:
    parts = line.split()
    if len(parts) != 3:
        raise InputError(
            f"{where}: {len(parts)} words; a line is TOKEN RIGHTS MODELS, e.g. `.. predict,learn *`"
        )
    token = parts[0]
    rights = parts[1].split(",")
    models = parts[2].split(",")
    if len(token) < SHORTEST:
        raise InputError(f"{where}: a token of {len(token)} characters can be guessed; {MAKE_ONE}")
    for right in rights:
        if right not in RIGHTS:
            raise InputError(f"{where}: {unknown('right', right, RIGHTS)}")
    return token, {(right, model) for right in rights for model in models if model}


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


# -- the log ----------------------------------------------------------------------------------------------------

# One JSON line a request, written by a thread of its own: no request waits for the terminal or the disk.
# No token, query, id of an event, feature or label is ever written.

REPEAT_SECONDS = 10.0  # between two lines of one message of a library
WRITE_EVERY = 0.2  # seconds between two writes
MOST_LINES = 50_000  # lines that wait to be written; further ones are dropped and counted


class Log(logging.Handler):
    """Lines that wait to be written.

    As a handler it takes what libraries log, warnings and errors, without the text of exceptions; a message that
    repeats is written every so often, with its count.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines = deque[dict[str, Any]]()
        self._dropped = 0
        self._last = dict[str, tuple[float, int]]()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write_on, name="hedgerow-log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what is left; a stream that nobody reads is not waited for."""
        self._end.set()
        self._thread.join(timeout=2.0)

    def add(self, **line: Any) -> None:
        """A line about a request or about the service itself."""
        if len(self._lines) < MOST_LINES:
            self._lines.append({"time": time.time(), **line})
        else:
            self._dropped += 1

    def emit(self, record: logging.LogRecord) -> None:
        """A line about what a library logged."""
        text = record.getMessage()[:500]
        now = time.monotonic()
        last, repeats = self._last.get(text, (-REPEAT_SECONDS, 0))
        if now - last < REPEAT_SECONDS:
            self._last[text] = (last, repeats + 1)
            return
        if len(self._last) > 1000:
            self._last.clear()
        self._last[text] = (now, 0)
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        about = {"logger": record.name, "level": record.levelname, "error": error}
        self.add(event=text, **about, **({"repeats": repeats} if repeats else {}))

    def _write_on(self) -> None:
        while not self._end.wait(WRITE_EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if self._dropped:
            lines.append(
                {"time": time.time(), "event": "lines were dropped", "lines": self._dropped}
            )
            self._dropped = 0
        for line in lines:
            line["time"] = datetime.fromtimestamp(line["time"], UTC).isoformat(
                timespec="milliseconds"
            )
        # a log that nobody reads any more must not end the service
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("".join(f"{json.dumps(line)}\n" for line in lines))
            sys.stderr.flush()


# -- every request ----------------------------------------------------------------------------------------------

CALLER = "hedgerow.caller"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="hedgerow"'}
OWN_SITE = (
    None,
    b"same-origin",
    b"none",
)  # values of Sec-Fetch-Site: no browser, our page, an address typed in


def inside(scope: Scope) -> str:
    """The path of a request, without what a proxy has put before it."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def caller_of(scope: Scope) -> Caller:
    """Who calls; a problem for whoever needs a token and has none."""
    caller: Caller | Problem = scope[CALLER]
    if isinstance(caller, Problem):
        raise caller
    return caller


TEMPLATE = (
    "hedgerow.template"  # in the scope: the path of the operation, with its parameters by name
)
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
SECURITY = {
    b"content-security-policy": b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"object-src 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


INTERNAL = Problem("internal", "internal error; the log has details under the id in `instance`")


class RequestMiddleware:
    """Who calls, an id, security headers, a log line and a metric for every request; errors as problems.

    The id is the caller's own, from the header X-Request-ID, if it can stand in a log.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: Log,
        requests: Requests,
        tokens: Tokens | None,
        host: str,
        stopping: asyncio.Event,
    ) -> None:
        self._app = app
        self._log = log
        self._requests = requests
        self._tokens = tokens
        self._stopping = stopping
        self._hosts = {*LOOPBACK_NAMES, host}
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        own = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = own if REQUEST_ID.fullmatch(own) else f"{self._run}-{next(self._numbers)}"
        status = 0
        about: dict[str, Any] = {}

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = list(message.get("headers", ()))
                names = {name for name, _ in own}
                own += [(name, value) for name, value in SECURITY.items() if name not in names]
                message["headers"] = [*own, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            self._check(scope, headers)
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            status = status or 499
        except Exception as error:
            problem = error if isinstance(error, Problem) else INTERNAL
            about = {} if problem is error else _without_values(error)
            if not status:
                with contextlib.suppress(ClientDisconnect):
                    await problem.response(f"{scope['path'][:200]}#{request_id}")(
                        scope, receive, answer
                    )
        finally:
            self._note(scope, request_id, status, time.perf_counter() - began, about)

    def _note(
        self, scope: Scope, request_id: str, status: int, seconds: float, about: dict[str, Any]
    ) -> None:
        """A metric and a line of the log."""
        method = scope["method"]
        path = scope.get(TEMPLATE, "unmatched")
        model = scope.get("path_params", {}).get("name", "")[:64] or None
        if status == 401:  # somebody without a token: which address was asked for, and from where
            about = {"address": scope["path"][:200], "client": (scope.get("client") or [None])[0]}
        self._requests.note(method, path, status, seconds)
        ms = round(1e3 * seconds, 2)
        self._log.add(
            method=method, path=path, status=status, ms=ms, model=model, request=request_id, **about
        )

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """One request: a problem if nobody may send it, else the caller stands in the scope."""
        path = inside(scope)
        scope[CALLER] = self._caller(headers)
        close = {"Connection": "close"}
        if self._stopping.is_set():
            raise Problem("not-ready", "the service is stopping", headers=close)
        if (
            b"content-length" in headers and b"transfer-encoding" in headers
        ):  # others may see two requests in it
            raise Problem(
                "malformed",
                "Content-Length and Transfer-Encoding stand side by side",
                headers=close,
            )
        host = headers.get(b"host", b"").decode("latin-1")
        if self._tokens is None and _split(f"//{host}").hostname not in self._hosts:
            raise Problem(
                "misdirected", "the header Host names no address that is served here without tokens"
            )
        origin = headers.get(b"origin")
        if origin is not None and _split(origin.decode("latin-1")).netloc != host:
            raise Problem("cross-origin", "the header Origin names another site")
        is_page = path == "/" or path.startswith(
            ("/models/", "/static/")
        )  # a link to it may stand anywhere
        if headers.get(b"sec-fetch-site") not in OWN_SITE and not is_page:
            raise Problem("cross-origin", "the header Sec-Fetch-Site names another site")

    def _caller(self, headers: dict[bytes, bytes]) -> Caller | Problem:
        if self._tokens is None:
            return EVERYBODY
        sent = headers.get(b"authorization")
        caller = None if sent is None else self._tokens.caller(sent.decode("latin-1"))
        if caller is not None:
            return caller
        detail = "the header Authorization is missing" if sent is None else "unknown token"
        return Problem("unauthorised", detail, headers=CHALLENGE)


def _without_values(error: BaseException) -> dict[str, Any]:
    """Where an error happened; its text is left out, since it may have features or labels in it."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__name__,
        "at": [f"{f.filename}:{f.lineno} {f.name}" for f in frames],
    }


def _split(address: str) -> SplitResult:
    """The parts of an address; empty ones of what is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
