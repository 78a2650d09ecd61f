"""Operations of the API: method, path, right and types of a handler, from which routes and OpenAPI are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import hedgerow
from hedgerow.core.errors import HedgerowError
from hedgerow.live import LiveModel
from hedgerow.service import schemas
from hedgerow.service.middleware import TEMPLATE, Caller, caller_of
from hedgerow.service.models import Entry, Models, as_problem
from hedgerow.service.schemas import PROBLEM_TYPE, Problem, ProblemDocument, convert, decode, encode
from hedgerow.service.settings import ServiceSettings

T = TypeVar("T")
P = ParamSpec("P")
Later = Callable[[], T]  # an answer that takes time to make or to encode: both happen in a thread
JSON = "application/json"
BINARY = "application/octet-stream"
ABOUT = "Live models: instances come in, predictions go out, labels follow. Errors are RFC 9457 problem documents."


class Call(Request):
    """A request to an operation: the caller's rights were checked.

    `models` are all of the service; `name` is the model that the path names, `kind` what the path is about: a fleet, or
    a model. `status` and `sent_headers` are of the answer.
    """

    def __init__(self, scope: Scope, receive: Receive, path: str) -> None:
        super().__init__(scope, receive)
        self.models: Models = scope["app"].state.models
        self.name = str(scope["path_params"].get("name", ""))
        self.kind = "fleet" if path.startswith("/v1/fleets") else "model"
        self.status, self.sent_headers = 200, dict[str, str]()

    @property
    def caller(self) -> Caller:
        """Who calls."""
        return caller_of(self.scope)

    @property
    def entry(self) -> Entry:
        """The model or fleet of the call, open or not."""
        entry = self.models[self.name]
        if entry.kind != self.kind:
            raise Problem("no-model", f"{self.name[:64]!r} is a {entry.kind}, not a {self.kind}")
        return entry

    @property
    def live(self) -> LiveModel:
        """The open model of the call; a problem while it is not open."""
        return self.entry.model

    async def ask(self, verb: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        """What the one writer of the model or fleet answers, unless too many wait for it already."""
        entry, settings = self.entry, self.models.settings
        entry.check_ready()
        if entry.waiting >= settings.max_waiting:
            raise Problem("busy", f"{entry.waiting} requests wait for {entry.name!r}")
        entry.waiting += 1
        try:
            async with asyncio.timeout(settings.request_timeout):
                return await verb(*args, **options)
        except TimeoutError:
            raise Problem("timed-out", f"no answer within {settings.request_timeout:g} s") from None
        finally:
            entry.waiting -= 1

    def locate(self, path: str) -> None:
        """Say where the thing that was made is, as callers reach it, perhaps through a proxy."""
        self.sent_headers["Location"] = f"{self.scope.get('root_path', '')}{path}"

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


@dataclass(frozen=True)
class Operation:
    """A method at a path. `rights`: one of them is needed, for the model that the path names or, without one, for any.

    `body`, `query` and `answer` are types of `schemas`; `sends` and `gives` are media types of what has none. The
    answer stands alone or, with `under`, in a field of this name.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    rights: tuple[str, ...] = ()
    id: str = ""
    body: Any = None
    media: str = "application/json"  # of the body
    reads: bool = False  # the handler takes the body, read and validated
    awaited: bool = False  # the handler is a coroutine function
    query: Any = None
    answer: Any = None
    under: str = ""
    status: int = 200
    sends: dict[str, Any] = field(default_factory=dict)
    gives: dict[str, Any] = field(default_factory=dict)
    errors: tuple[int, ...] = ()

    def check_right(self, call: Call) -> None:
        """Refuse a caller who has none of the rights."""
        if not self.rights:
            return
        caller, name = call.caller, call.name
        if not any(caller.may(right, name) if name else caller.may_any(right) for right in self.rights):
            whose = f"the model {name[:64]!r}" if name else "a model"
            raise Problem("forbidden", f"this needs the right {self.rights[0]!r} for {whose}")

    async def respond(self, call: Call) -> Response:
        """What the handler answers; it is encoded in a thread, with the work, if there is work left to do."""
        call.status, arguments = self.status, []
        if self.reads:
            call.entry.check_ready()  # or say so before the body is read
            call.check_type(JSON)
            arguments.append(decode(await call.content(), self.body))
        if self.query is not None:
            arguments.append(convert(dict(call.query_params), self.query))
        if self.awaited:
            answer = await self.handler(call, *arguments)
        else:
            answer = partial(self.handler, call, *arguments)
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=call.status)
        content = await asyncio.to_thread(self._encoded, answer) if callable(answer) else self._encoded(answer)
        return Response(content, call.status, call.sent_headers, JSON)

    def _encoded(self, answer: Any) -> bytes:
        answer = answer() if callable(answer) else answer
        return encode({self.under: answer} if self.under else answer)


OPERATIONS: list[Operation] = []
Handler = TypeVar("Handler", bound=Callable[..., Any])


def operation(method: str, path: str, *rights: str, **about: Any) -> Callable[[Handler], Handler]:
    """Declare a handler; its first docstring line is the summary in OpenAPI, its annotations are the types.

    A function is called in a thread. A coroutine function runs in the event loop, and may return `Later` what takes
    time to make or to encode.
    """

    def declare(handler: Handler) -> Handler:
        hints = get_type_hints(handler)
        answer = hints.pop("return")
        if get_origin(answer) in (Union, UnionType):  # or later
            answer = get_args(answer)[0]
        types: dict[str, Any] = {name: hints[name] for name in ("body", "query") if name in hints}
        types |= {"reads": "body" in hints, "awaited": iscoroutinefunction(handler)}
        if "under" in about:
            name = str(about.get("id", handler.__name__)).title().replace("_", "")
            answer = msgspec.defstruct(f"{name}Answer", [(about["under"], answer)])
        if answer not in (Response, NoneType):
            types["answer"] = answer
        OPERATIONS.append(Operation(method, path, handler, rights, **{"id": handler.__name__, **types, **about}))
        return handler

    return declare


class _Endpoint:
    """All operations at one path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._operations = {operation.method: operation for operation in OPERATIONS if operation.path == path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the method and the caller's right, then let the handler answer."""
        call, scope[TEMPLATE] = Call(scope, receive, self._path), self._path
        operation = self._operations.get(scope["method"])
        if operation is None:
            caller_of(scope)
            allowed = ", ".join(sorted(self._operations))
            raise Problem("method-not-allowed", f"{scope['method']} is not possible here", (), {"Allow": allowed})
        operation.check_right(call)
        try:
            await (await operation.respond(call))(scope, receive, send)
        except HedgerowError as error:
            raise as_problem(error, call.models.folder) from error


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
    described: dict[str, Any] = {"operationId": one.id, "summary": (one.handler.__doc__ or "").strip()}
    described["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": PATTERNS.get(name, "")}}
        for name in (part[1:-1] for part in one.path.split("/") if part.startswith("{"))
    ] + [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in query.items()]
    sends = one.sends if one.body is None else {one.media: {"schema": by_type[one.body]}}
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
