"""Files that callers send: written to the work folder as they arrive, looked at before they are believed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from starlette.requests import Request

from hedgerow.core.errors import InputError
from hedgerow.service.bodies import chunks
from hedgerow.service.models import Models
from hedgerow.service.problems import Problem
from hedgerow.service.settings import ServiceSettings
from hedgerow.service.workers import work

TYPE = "application/octet-stream"
CHECK_SECONDS = 120.0


@asynccontextmanager
async def received(request: Request, models: Models) -> AsyncIterator[Path]:
    """The body as a file that is gone afterwards."""
    kind = request.headers.get("content-type", TYPE).partition(";")[0].strip().lower()
    if kind != TYPE:
        raise Problem("media-type", f"Content-Type is {kind}; send {TYPE}")
    settings, file = models.settings, models.work.path / f"upload-{uuid4().hex}"
    try:
        with file.open("xb") as out:
            async for part in chunks(request, settings.upload_bytes, settings.upload_seconds):
                await asyncio.to_thread(out.write, part) if len(part) > 1 << 20 else out.write(part)
        yield file
    finally:
        file.unlink(missing_ok=True)


async def checked_model(file: Path, settings: ServiceSettings) -> None:
    """Refuse what is not a sound model: first what its header shows, then in a process of its own."""
    _check_header(file, settings.header_bytes)
    try:
        await work("check", file, CHECK_SECONDS, settings.worker_bytes, lambda _: None)
    except InputError as error:
        raise Problem("invalid", str(error)) from error


def _check_header(file: Path, most: int) -> None:
    size = file.stat().st_size
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
        if size < 10 or length > size - 8:
            raise Problem("invalid", "the body is not a model file: send what `hedgerow fit` or `save` wrote")
        if length > most:
            raise Problem("too-large", f"the header of the model file has {length} bytes; at most {most}")
        try:
            header = json.loads(data.read(length))
            ours = "hedgerow" in header["__metadata__"]
        except (ValueError, KeyError, TypeError, RecursionError):
            ours = False
    if not ours:
        raise Problem("invalid", "the body is not a model file: send what `hedgerow fit` or `save` wrote")
