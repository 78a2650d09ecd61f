"""Operations of the API: method, path, right and types of a handler, from which routes and OpenAPI are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import hedgerow
from hedgerow.live import LiveModel
from hedgerow.service import schemas
from hedgerow.service.middleware import TEMPLATE, Caller, caller_of
from hedgerow.service.models import Entry, Models
from hedgerow.service.schemas import PROBLEM_TYPE, Problem, ProblemDocument, convert, decode, encode
from hedgerow.service.settings import ServiceSettings

T = TypeVar("T")
JSON = "application/json"
BINARY = "application/octet-stream"
ABOUT = "Live models: instances come in, predictions go out, labels follow. Errors are RFC 9457 problem documents."


class Call(Request):
    """A request to an operation: the caller's rights were checked."""

    @property
    def models(self) -> Models:
        """All models of the service."""
        models: Models = self.app.state.models
        return models

    @property
    def caller(self) -> Caller:
        """Who calls."""
        return caller_of(self.scope)

    @property
    def name(self) -> str:
        """The model that the path names."""
        return str(self.path_params["name"])

    @property
    def entry(self) -> Entry:
        """The model or fleet of the call, open or not."""
        entry, kind = self.models[self.name], "fleet" if self.scope[TEMPLATE].startswith("/v1/fleets") else "model"
        if entry.kind != kind:
            raise Problem("no-model", f"{self.name[:64]!r} is a {entry.kind}, not a {kind}")
        return entry

    @property
    def live(self) -> LiveModel:
        """The open model of the call; a problem while it is not open."""
        return self.entry.model

    def address(self, path: str) -> str:
        """A path of this service as callers reach it, perhaps through a proxy."""
        return f"{self.scope.get('root_path', '')}{path}"

    async def json(self, kind: type[T]) -> T:  # type: ignore[override]
        """The JSON body, validated."""
        self.check_type(JSON)
        return decode(await self.content(), kind)

    async def content(self) -> bytes:
        """The body, within the limits of a JSON body."""
        settings = self.models.settings
        parts = [part async for part in self.chunks(settings.max_body, settings.body_timeout)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check_type(self, wanted: str, default: str = "") -> None:
        """Refuse a body of another media type."""
        kind = self.headers.get("content-type", default).partition(";")[0].strip().lower()
        if kind != wanted:
            raise Problem("media-type", f"Content-Type is {kind or 'missing'}; send {wanted}")

    async def chunks(self, limit: int, seconds: float) -> AsyncIterator[bytes]:
        """The body as it arrives, refused as soon as it is too large, whatever its header says, or too slow."""
        close = {"Connection": "close"}
        too_large = Problem("too-large", f"the body has more than {limit} bytes", headers=close)
        length = self.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise too_large
        received, more = 0, True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    part, more = message.get("body", b""), message.get("more_body", False)
                    received += len(part)
                    if received > limit:
                        raise too_large
                    if part:
                        yield part
        except TimeoutError:
            raise Problem("slow", f"the body was not complete after {seconds:g} s", headers=close) from None


Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """A method at a path. `rights`: one of them is needed, for the model that the path names or, without one, for any.

    `body`, `query` and `answer` are types of `schemas`; `sends` and `gives` are media types of those that are not JSON.
    """

    method: str
    path: str
    handler: Handler
    rights: tuple[str, ...] = ()
    body: Any = None
    query: Any = None
    answer: Any = None
    status: int = 200
    sends: dict[str, Any] = field(default_factory=dict)
    gives: dict[str, Any] = field(default_factory=dict)
    errors: tuple[int, ...] = ()

    def check_right(self, call: Call) -> None:
        """Refuse a caller who has none of the rights."""
        if not self.rights:
            return
        caller, name = call.caller, call.path_params.get("name")
        if not any(caller.may_any(right) if name is None else caller.may(right, name) for right in self.rights):
            whose = "a model" if name is None else f"the model {name[:64]!r}"
            raise Problem("forbidden", f"this needs the right {self.rights[0]!r} for {whose}")


OPERATIONS: list[Operation] = []


def operation(method: str, path: str, *rights: str, **about: Any) -> Callable[[Handler], Handler]:
    """Declare a handler: its first docstring line is the summary in OpenAPI."""

    def declare(handler: Handler) -> Handler:
        OPERATIONS.append(Operation(method, path, handler, rights, **about))
        return handler

    return declare


def respond(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A small answer as JSON."""
    return Response(encode(value), status, headers, JSON)


async def respond_from(work: Callable[[], Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer that takes time to make or to encode: both in a thread, so that the event loop serves others."""
    return Response(await asyncio.to_thread(lambda: encode(work())), status, headers, JSON)


def query_of(call: Call, kind: type[T]) -> T:
    """The query of the address, validated."""
    return convert(dict(call.query_params), kind)


class _Endpoint:
    """All operations at one path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._operations = {operation.method: operation for operation in OPERATIONS if operation.path == path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the method and the caller's right, then let the handler answer."""
        call, scope[TEMPLATE] = Call(scope, receive), self._path
        operation = self._operations.get(scope["method"])
        if operation is None:
            caller_of(scope)
            allowed = ", ".join(sorted(self._operations))
            raise Problem("method-not-allowed", f"{scope['method']} is not possible here", (), {"Allow": allowed})
        operation.check_right(call)
        await (await operation.handler(call))(scope, receive, send)


def routes() -> list[Route]:
    """One route for each path; those of a model come first, since they come by the thousand."""
    paths = dict.fromkeys(operation.path for operation in OPERATIONS)
    return [Route(path, _Endpoint(path)) for path in sorted(paths, key=lambda path: "{name}/" not in path)]


# -- OpenAPI ----------------------------------------------------------------------------------------------------

REFERENCE = "#/components/schemas/{name}"
PATTERNS = {"name": schemas.NAME_PATTERN, "job": "^[0-9a-f]{32}$"}
RETRY_AFTER = {"Retry-After": {"schema": {"type": "string"}, "description": "Seconds to wait.", "required": True}}
OF_BODIES = (400, 408, 413, 415, 422, 429, 504)


def document(settings: ServiceSettings) -> dict[str, Any]:
    """The OpenAPI document."""
    types = {t for one in OPERATIONS for t in (one.body, one.query, one.answer) if t is not None} | {ProblemDocument}
    ordered = sorted(types, key=str)
    schemas_of, components = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    by_type = dict(zip(ordered, schemas_of, strict=True))
    for name in ("PredictRequest", "LabelledInstances", "LabelRequest", "FleetPredict", "FleetLearn", "ForgetRequest"):
        for key in ("instances", "labels", "keys", "ids"):
            if key in components[name]["properties"]:
                components[name]["properties"][key]["maxItems"] = settings.max_rows
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        query = components[one.query.__name__]["properties"] if one.query else {}
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, by_type, query, settings)
    about = {"title": "hedgerow", "version": hedgerow.__version__, "description": ABOUT}
    described: dict[str, Any] = {"openapi": "3.1.0", "info": about, "paths": paths}
    described["components"] = {"schemas": components}
    if settings.token_file is not None:
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return described


def _described(one: Operation, by_type: dict[Any, Any], query: dict[str, Any], settings: ServiceSettings) -> Any:
    """One operation: parameters, body, answer, and every problem that it can answer with."""
    described: dict[str, Any] = {"operationId": one.handler.__name__, "summary": (one.handler.__doc__ or "").strip()}
    described["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": PATTERNS.get(name, "")}}
        for name in (part[1:-1] for part in one.path.split("/") if part.startswith("{"))
    ] + [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in query.items()]
    sends = one.sends if one.body is None else {JSON: {"schema": by_type[one.body]}}
    if sends:
        described["requestBody"] = {"required": True, "content": sends}
    gives = one.gives if one.answer is None else {JSON: {"schema": by_type[one.answer]}}
    responses: dict[str, Any] = {str(one.status): {"description": "Successful response"}}
    if gives:
        responses[str(one.status)]["content"] = gives
    statuses = {403, 421, 503, *one.errors}
    statuses |= {401} if one.rights else set()
    statuses |= {404} if "{" in one.path else set()
    statuses |= {422} if one.query else set()
    statuses |= set(OF_BODIES) if sends else set()
    if 200 in statuses:
        responses["200"] = {"description": "Replaced", "content": gives}
    for status in sorted(statuses - {200}):
        content = {PROBLEM_TYPE: {"schema": by_type[ProblemDocument]}}
        responses[str(status)] = {"description": "A problem document", "content": content}
        if status in (429, 503):
            responses[str(status)]["headers"] = RETRY_AFTER
    described["responses"] = responses
    if settings.token_file is not None and one.rights:
        described["security"] = [{"token": []}]
    return described
