"""The calls about models: list, create, look, delete, numbers over time, snapshot, export."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal
from uuid import uuid4

from fastapi import APIRouter, Query, Request
from fastapi import Path as InPath
from starlette.responses import Response, StreamingResponse

from hedgerow.core.errors import HedgerowError
from hedgerow.live import LiveModel
from hedgerow.live.export import export as write_export
from hedgerow.service import schemas
from hedgerow.service.hot import checked
from hedgerow.service.jobs import TYPE, checked_model, received
from hedgerow.service.models import Entry, Models, as_problem
from hedgerow.service.problems import Problem
from hedgerow.service.schemas import as_json, finite, problems
from hedgerow.service.settings import PATTERN, Stop
from hedgerow.service.tokens import Caller

Name = Annotated[str, InPath(pattern=PATTERN, description="The model.")]
SHORT = ("method", "features", "classes", "events", "labels", "mistakes")
LONG = (*SHORT, "reading", "feature_names", "sources", "experts")
EXPORTS = {"jsonl": "application/jsonl", "parquet": "application/vnd.apache.parquet"}
BYTES = {"schema": {"type": "string", "format": "binary"}}


def router(models: Models, stop: Stop) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])
    _add_life(routes, models)
    _add_numbers(routes, models)
    _add_changes(routes, models, stop)
    _add_files(routes, models)
    return routes


def _add_life(routes: APIRouter, models: Models) -> None:
    """What models there are: list, create, look, delete."""

    @routes.get("", response_model=schemas.ModelList, response_model_exclude_none=True)
    async def list_models(request: Request) -> Response:
        """The models that the caller may read."""
        caller: Caller = request.scope["hedgerow.caller"]
        if not caller.may_any("read"):
            raise Problem("forbidden", "this needs the right 'read' for a model")
        found = [await _summary(entry, SHORT) for entry in models if caller.may("read", entry.name)]
        return as_json({"models": found})

    @routes.put(
        "/{name}", status_code=201, response_model=schemas.Model,
        responses=problems(400, 404, 408, 409, 413, 415, 422, 429, 504),
        openapi_extra={"requestBody": {"required": True, "content": {TYPE: BYTES}}},
    )  # fmt: skip
    async def create(name: Name, request: Request) -> Response:
        """A model file (safetensors, as `hedgerow fit` writes it) becomes a live model of this name."""
        allow(request, "admin", name)
        entry = models.reserve(name)
        try:
            async with received(request, models) as file:
                await checked_model(file, models.settings)
                await models.install(entry, file)
        finally:
            models.release(entry)
        return as_json(await _summary(models[name], LONG), 201, {"Location": f"/v1/models/{name}"})

    @routes.get("/{name}", response_model=schemas.Model, responses=problems(404, 422))
    async def look(name: Name, request: Request) -> Response:
        """What a model is, and how it is."""
        return as_json(await _summary(checked(request, models, "read"), LONG))

    @routes.delete("/{name}", status_code=204, responses=problems(404, 422))
    async def delete(name: Name, request: Request) -> Response:
        """Close a model and remove its state, its journal and its snapshots."""
        allow(request, "admin", name)
        await models.delete(name)
        return Response(status_code=204)


def _add_numbers(routes: APIRouter, models: Models) -> None:
    """How a model is and was."""

    @routes.get("/{name}/stats", responses={200: {"model": dict[str, Any]}, **problems(404, 422)}, response_model=None)
    async def stats(name: Name, request: Request) -> Response:
        """Counts, weights, discrepancy, balance of classes, calibration, latency, sizes."""
        live = checked(request, models, "read").model
        return as_json(await asyncio.to_thread(live.stats))

    @routes.get("/{name}/history", response_model=schemas.History, responses=problems(404, 422))
    async def history(name: Name, request: Request) -> Response:
        """Mistakes, weights and discrepancy over time."""
        live = checked(request, models, "read").model
        return as_json({"points": await asyncio.to_thread(live.history)})

    @routes.get("/{name}/latest", response_model=schemas.Latest, responses=problems(404, 422))
    async def latest(name: Name, request: Request, n: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
        """The newest events with their labels, if these came."""
        live = checked(request, models, "read").model
        return as_json({"events": await asyncio.to_thread(live.latest, n)})

    @routes.get("/{name}/alarms", response_model=schemas.Alarms, responses=problems(404, 422))
    async def alarms(name: Name, request: Request) -> Response:
        """What is wrong now, with the rule and the numbers behind it."""
        live = checked(request, models, "read").model
        return as_json({"alarms": await asyncio.to_thread(live.alarms)})


def _add_changes(routes: APIRouter, models: Models, stop: Stop) -> None:
    """Numbers while they change."""

    @routes.get(
        "/{name}/events", response_model=None, responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Until either ends"},
            **problems(404, 422, 429),
        },
    )  # fmt: skip
    async def events(name: Name, request: Request) -> Response:
        """Server-sent events: `stats` at most twice a second while something changes."""
        entry = checked(request, models, "read")
        entry.model  # noqa: B018  # not ready: say so
        reading = sum(other.readers.count for other in models if other.readers is not None)
        readers = readers_of(entry, stop, reading, models.settings.streams)
        return StreamingResponse(readers.stream(), media_type="text/event-stream")


def _add_files(routes: APIRouter, models: Models) -> None:
    """What a model has on disk: a snapshot, its journal, itself."""

    @routes.post(
        "/{name}/snapshot", response_model=None,
        responses={200: {"model": dict[str, Any]}, **problems(404, 422, 429, 504)},
    )  # fmt: skip
    async def snapshot(name: Name, request: Request) -> Response:
        """Write the state to disk now."""
        entry = checked(request, models, "admin")
        return as_json(await models.call(entry, lambda live, _: live.aio.snapshot()))

    @routes.get(
        "/{name}/export", response_model=None, responses={
            200: {"content": dict.fromkeys(EXPORTS.values(), BYTES), "description": "The journal"},
            **problems(404, 422),
        },
    )  # fmt: skip
    async def export(name: Name, request: Request, format: Literal["jsonl", "parquet"] = "jsonl") -> Response:
        """The events that the journal still has, with features, predictions and labels."""
        entry = checked(request, models, "read")
        entry.model  # noqa: B018  # not ready: say so
        file = models.work.path / f"export-{uuid4().hex}.{format}"
        return await _file(lambda path: write_export(entry.folder, path), file, f"{name}.{format}", EXPORTS[format])

    @routes.get(
        "/{name}/model", response_model=None,
        responses={200: {"content": {TYPE: BYTES}, "description": "The model as it is"}, **problems(404, 422)},
    )  # fmt: skip
    async def model(name: Name, request: Request) -> Response:
        """The newest state as a model file."""
        live = checked(request, models, "read").model
        file = models.work.path / f"export-{uuid4().hex}.safetensors"
        return await _file(lambda path: path.write_bytes(live.to_bytes()), file, f"{name}.safetensors", TYPE)


def allow(request: Request, right: str, name: str) -> None:
    """Refuse a caller without this right for this model."""
    caller: Caller = request.scope["hedgerow.caller"]
    if not caller.may(right, name):
        raise Problem("forbidden", f"this needs the right {right!r} for {'all models' if name == '*' else repr(name)}")


async def _summary(entry: Entry, keys: tuple[str, ...]) -> dict[str, Any]:
    if entry.state != "ready" or entry.live is None:
        return {"name": entry.name, "ready": False, "error": entry.error or f"the model is {entry.state}"}
    found = await asyncio.to_thread(entry.live.stats)
    return {"name": entry.name, "ready": True, **{key: found[key] for key in keys}}


async def _file(write: Any, file: Path, name: str, kind: str) -> Response:
    """A file made for one caller, gone when it was sent."""
    try:
        await asyncio.to_thread(write, file)
    except HedgerowError as error:
        file.unlink(missing_ok=True)
        raise as_problem(error) from error
    stream = file.open("rb")
    file.unlink()  # it is gone when it was sent, or when the caller went
    headers = {
        "Content-Length": str(os.fstat(stream.fileno()).st_size),
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return StreamingResponse(_parts(stream), media_type=kind, headers=headers)


async def _parts(stream: BinaryIO) -> AsyncIterator[bytes]:
    with stream:
        while part := await asyncio.to_thread(stream.read, 1 << 20):
            yield part


# -- events ---------------------------------------------------------------------------------------------------

# Server-sent events of a model: one task a model asks it, every reader gets the newest, a slow one misses some.


EVERY = 0.5  # seconds between two events at least
HEARTBEAT = 10.0  # seconds between comment lines, so that nobody takes silence for an end
LATEST = 20


class Readers:
    """The readers of one model, and the newest that there is for them."""

    def __init__(self, entry: Entry, stop: Stop) -> None:
        self._entry, self._stop = entry, stop
        self._text, self._number = b"", 0
        self._changed = asyncio.Event()
        self.count = 0
        self._task: asyncio.Task[None] | None = None

    async def stream(self) -> AsyncIterator[bytes]:
        """Events until the service or the model ends, or the reader goes."""
        self.count += 1
        if self._task is None or self._task.done():
            self._number = 0  # what was told to earlier readers is old
            self._task = asyncio.create_task(self._ask())
        seen, spoke = 0, time.monotonic()
        try:
            yield b"retry: 2000\n\n"
            while not self._stop.is_set() and not self._task.done():
                if self._number != seen:
                    seen, spoke = self._number, time.monotonic()
                    yield self._text
                elif time.monotonic() - spoke >= HEARTBEAT:
                    spoke = time.monotonic()
                    yield b": still here\n\n"
                await self._wait()
        finally:
            self.count -= 1

    async def _wait(self) -> None:
        changed = self._changed
        try:
            async with asyncio.timeout(HEARTBEAT / 10):
                await changed.wait()
        except TimeoutError:
            return

    async def _ask(self) -> None:
        """Ask the model as long as somebody reads."""
        marker: Any = None
        while self.count and not self._stop.is_set():
            live = self._entry.live
            if live is None:
                break
            try:
                found = await asyncio.to_thread(_event, live, marker)
            except HedgerowError:  # closed meanwhile: the readers are told by the end of their streams
                break
            if found is not None:
                marker, self._text = found
                self._number += 1
                self._changed.set()
                self._changed = asyncio.Event()
            if await self._stop.within(EVERY):
                break
        self._changed.set()
        self._changed = asyncio.Event()


def _event(live: LiveModel, marker: Any) -> tuple[Any, bytes] | None:
    """What is new since `marker`, written once for all readers."""
    stats, alarms = live.stats(), live.alarms()
    counts = [stats[key] for key in ("events", "labels", "mistakes", "given_up", "pending", "unknown_labels")]
    now = (counts, [(alarm["rule"], alarm["since"]) for alarm in alarms])
    if now == marker:
        return None
    points = live.history()
    told = {
        "stats": stats,
        "point": points[-1] if points else None,
        "latest": live.latest(LATEST),
        "alarms": alarms,
    }
    return now, f"event: stats\ndata: {json.dumps(finite(told), separators=(',', ':'))}\n\n".encode()


def readers_of(entry: Entry, stop: Stop, others: int, most: int) -> Readers:
    """The readers of a model, if one more may come."""
    if others >= most:
        raise Problem("busy", f"{others} readers of events are connected, as many as allowed")
    if entry.readers is None:
        entry.readers = Readers(entry, stop)
    readers: Readers = entry.readers
    return readers
