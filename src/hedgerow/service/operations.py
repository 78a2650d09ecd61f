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
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

import hedgerow
from hedgerow.client import NAME_PATTERN
from hedgerow.core.errors import HedgerowError
from hedgerow.live import LiveModel
from hedgerow.service import ServiceSettings
from hedgerow.service.middleware import TEMPLATE, Caller, caller_of
from hedgerow.service.models import Entry, Models, as_problem
from hedgerow.service.schemas import PROBLEM_TYPE, Problem, ProblemDocument, convert, decode, encode

T = TypeVar("T")
P = ParamSpec("P")
Later = Callable[[], T]  # an answer that takes time to make or to encode: both happen in a thread
JSON = "application/json"
BINARY = "application/octet-stream"
CLOSE = {"Connection": "close"}
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
        self.status = 200
        self.sent_headers = dict[str, str]()

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

    async def look(self, read: Callable[[], T]) -> T:
        """What `read` finds, within the same bounds, in the thread in which the model or fleet is looked at."""
        entry = self.entry
        if entry.state != "ready":
            return read()  # which says so
        return await self.ask(asyncio.get_running_loop().run_in_executor, entry.reads, read)

    async def ask(self, verb: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        """What is asked of the model or fleet, unless too many wait for it already."""
        entry = self.entry
        settings = self.models.settings
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

    async def content(self) -> bytes:
        """The body, within the limits of a JSON body."""
        settings = self.models.settings
        parts = [part async for part in self.chunks(settings.max_body, settings.request_timeout)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check_type(self, wanted: str, default: str = "") -> None:
        """Refuse a body of another media type."""
        kind = self.headers.get("content-type", default).partition(";")[0].strip().lower()
        if kind != wanted:
            raise Problem("media-type", f"Content-Type is {kind or 'missing'}; send {wanted}")

    async def chunks(self, limit: int, seconds: float) -> AsyncIterator[bytes]:
        """The body as it arrives, refused as soon as it is too large, whatever its header says, or too slow."""
        too_large = Problem("too-large", f"the body has more than {limit} bytes", headers=CLOSE)
        length = self.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise too_large
        received = 0
        limits = self.models.receiving
        try:
            async with asyncio.timeout(seconds) as limit_of_time:
                limits.add(limit_of_time)
                async for part in self.stream():
                    received += len(part)
                    if received > limit:
                        raise too_large
                    yield part
        except TimeoutError:
            if self.models.stopping.is_set():
                raise Problem(
                    "not-ready",
                    "the service is stopping, and the body is not complete",
                    headers=CLOSE,
                ) from None
            raise Problem(
                "slow", f"the body was not complete after {seconds:g} s", headers=CLOSE
            ) from None
        finally:
            limits.discard(limit_of_time)


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
        caller = call.caller
        name = call.name
        if not any(
            caller.may(right, name) if name else caller.may_any(right) for right in self.rights
        ):
            whose = f"the model {name[:64]!r}" if name else "a model"
            raise Problem("forbidden", f"this needs the right {self.rights[0]!r} for {whose}")

    async def respond(self, call: Call) -> Response:
        """What the handler answers; it is encoded in a thread, with the work, if there is work left to do."""
        call.status = self.status
        arguments: list[Any] = []
        if self.reads:
            call.entry.check_ready()  # or say so before the body is read
            call.check_type(JSON)
            arguments.append(decode(await call.content(), self.body))
        if self.query is not None:
            arguments.append(convert(dict(call.query_params), self.query))
        if not self.awaited:
            content = await call.look(
                partial(self._encoded, partial(self.handler, call, *arguments))
            )
            return Response(content, call.status, call.sent_headers, JSON)
        answer = await self.handler(call, *arguments)
        if isinstance(answer, Response):
            return answer
        if answer is None:
            return Response(status_code=call.status)
        content = (
            await asyncio.to_thread(self._encoded, answer)
            if callable(answer)
            else self._encoded(answer)
        )
        return Response(content, call.status, call.sent_headers, JSON)

    def _encoded(self, answer: Any) -> bytes:
        answer = answer() if callable(answer) else answer
        return encode({self.under: answer} if self.under else answer)


OPERATIONS: list[Operation] = []
Handler = TypeVar("Handler", bound=Callable[..., Any])


def operation(method: str, path: str, *rights: str, **about: Any) -> Callable[[Handler], Handler]:
    """Declare a handler; its first docstring line is the summary in OpenAPI, its annotations are the types.

    A function looks at one model or fleet, in the thread for that. A coroutine function runs in the event loop, and may
    return `Later` what takes time to make or to encode.
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
        OPERATIONS.append(
            Operation(method, path, handler, rights, **{"id": handler.__name__, **types, **about})
        )
        return handler

    return declare


class _Endpoint:
    """All operations at one path."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._operations = {
            operation.method: operation for operation in OPERATIONS if operation.path == path
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the method and the caller's right, then let the handler answer."""
        call = Call(scope, receive, self._path)
        scope[TEMPLATE] = self._path
        operation = self._operations.get(scope["method"])
        if operation is None:
            caller_of(scope)
            allowed = ", ".join(sorted(self._operations))
            raise Problem(
                "method-not-allowed",
                f"{scope['method']} is not possible here",
                (),
                {"Allow": allowed},
            )
        operation.check_right(call)
        try:
            await (await operation.respond(call))(scope, receive, send)
        except HedgerowError as error:
            raise as_problem(error, call.models.folder) from error
        except OSError as error:
            raise Problem("storage", f"a file of the service: {error.strerror or error}") from error


def routes() -> list[Route]:
    """One route for each path; those of a model come first, since they come by the thousand."""
    paths = dict.fromkeys(operation.path for operation in OPERATIONS)
    return [
        Route(path, _Endpoint(path))
        for path in sorted(paths, key=lambda path: "{name}/" not in path)
    ]


# -- OpenAPI ----------------------------------------------------------------------------------------------------

REFERENCE = "#/components/schemas/{name}"
PATH_PART = {"type": "string"}
PROBLEM = {"$ref": "#/components/responses/Problem"}
WAIT = {"$ref": "#/components/responses/Wait"}
RETRY_AFTER = {
    "Retry-After": {
        "schema": {"type": "string"},
        "description": "Seconds to wait.",
        "required": True,
    }
}
OF_BODIES = (400, 408, 413, 415, 422, 429, 504)
OF_ROWS = (
    "PredictRequest",
    "LabelledInstances",
    "LabelRequest",
    "FleetPredict",
    "FleetLearn",
    "FleetLabelRequest",
    "ForgetRequest",
    "ForgetKeys",
)


def document(settings: ServiceSettings) -> dict[str, Any]:
    """The OpenAPI document."""
    types = {
        t for one in OPERATIONS for t in (one.body, one.query, one.answer) if t is not None
    } | {ProblemDocument}
    ordered = sorted(types, key=str)
    schemas_of, named = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    by_type = dict(zip(ordered, schemas_of, strict=True))
    for properties in (named[name]["properties"] for name in OF_ROWS):
        for key in {"instances", "labels", "keys", "ids"} & set(properties):
            properties[key]["maxItems"] = settings.max_rows
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        query = named[one.query.__name__]["properties"] if one.query else {}
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one, by_type, query)
    problem = {
        "description": "A problem",
        "content": {PROBLEM_TYPE: {"schema": by_type[ProblemDocument]}},
    }
    responses = {"Problem": problem, "Wait": {**problem, "headers": RETRY_AFTER}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "hedgerow", "version": hedgerow.__version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": named,
            "responses": responses,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [] if settings.token_file is None else [{"token": []}],
    }


def _described(one: Operation, by_type: dict[Any, Any], query: dict[str, Any]) -> dict[str, Any]:
    """One operation: parameters, body, answer, and every problem that it can answer with."""
    sends = one.sends if one.body is None else {JSON: {"schema": by_type[one.body]}}
    gives = one.gives if one.answer is None else {JSON: {"schema": by_type[one.answer]}}
    problems = {403, 421, 503, *one.errors}
    problems |= {401} if one.rights else set()
    problems |= {404} if "{" in one.path else set()
    problems |= {422} if one.query else set()
    problems |= set(OF_BODIES) if sends else set()
    responses: dict[str, Any] = {
        str(status): WAIT if status in (429, 503) else PROBLEM for status in sorted(problems)
    }
    for status in {one.status, 200} & {one.status, *problems}:
        responses[str(status)] = {"description": "Done", **({"content": gives} if gives else {})}
    described = {
        "operationId": one.id,
        "summary": (one.handler.__doc__ or "").strip(),
        "parameters": [
            *(
                _parameter(part[1:-1], "path", PATH_PART)
                for part in one.path.split("/")
                if part.startswith("{")
            ),
            *(_parameter(name, "query", schema) for name, schema in query.items()),
        ],
        "responses": responses,
    }
    if sends:
        described["requestBody"] = {"required": True, "content": sends}
    if not one.rights:
        described["security"] = []
    return described


def _parameter(name: str, where: str, schema: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "string", "pattern": NAME_PATTERN} if name == "name" else schema
    return {"name": name, "in": where, "required": where == "path", "schema": schema}
