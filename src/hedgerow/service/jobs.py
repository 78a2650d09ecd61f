"""Fits in the background: each a process of its own, at most so many at once; none survives the service."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from starlette.requests import Request

from hedgerow.core.errors import InputError
from hedgerow.service.bodies import chunks
from hedgerow.service.models import Entry, Models
from hedgerow.service.problems import Problem
from hedgerow.service.settings import ServiceSettings
from hedgerow.service.worker import MODEL

KEPT = 100  # ended jobs that are remembered


@dataclass
class Job:
    """One fit."""

    entry: Entry
    folder: Path
    id: str = field(default_factory=lambda: uuid4().hex)
    state: str = "waiting"
    progress: float = 0.0
    text: str = "waiting for its turn"
    error: str | None = None
    created: float = field(default_factory=time.time)
    ended: float | None = None
    task: asyncio.Task[None] | None = None
    installing: bool = False  # its model is being opened: too late to stop

    @property
    def over(self) -> bool:
        """Whether nothing will happen any more."""
        return self.state in ("done", "failed", "cancelled")

    def to_json(self) -> dict[str, Any]:
        """As callers see it."""
        names = ("id", "state", "progress", "text", "error", "created", "ended")
        return {"model": self.entry.name, **{name: getattr(self, name) for name in names}}


class Jobs:
    """All jobs of one service."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._jobs: dict[str, Job] = {}
        self._turn = asyncio.Semaphore(models.settings.jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(sorted(self._jobs.values(), key=lambda job: -job.created))

    def __getitem__(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            raise Problem("no-job", "there is no job of this id")
        return self._jobs[job_id]

    def check_room(self) -> None:
        """Refuse one more than may wait."""
        settings, active = self._models.settings, sum(not job.over for job in self._jobs.values())
        if active >= settings.jobs + settings.jobs_waiting:
            raise Problem("busy", f"{active} jobs run or wait already")

    def start(self, entry: Entry, folder: Path) -> Job:
        """Queue a fit of the files in a folder of its own, for a reserved name."""
        over = [job for job in self if job.over]
        for old in over[KEPT:]:
            del self._jobs[old.id]
        job = Job(entry, folder)
        self._jobs[job.id] = job
        job.task = asyncio.create_task(self._run(job))
        return job

    async def cancel(self, job: Job) -> None:
        """End a job; its process and its files are gone afterwards."""
        if job.over or job.installing or job.task is None:
            raise Problem("finished", f"the job is {'opening its model' if job.installing else job.state}")
        job.task.cancel()
        await asyncio.gather(job.task, return_exceptions=True)

    async def close(self) -> None:
        """Cancel all, but let a model that is being opened become whole."""
        active = [job for job in self._jobs.values() if not job.over]
        for job in active:
            if job.task is not None and not job.installing:
                job.task.cancel()
        await asyncio.gather(*(job.task for job in active if job.task is not None), return_exceptions=True)

    async def _run(self, job: Job) -> None:
        settings = self._models.settings

        def tell(said: dict[str, Any]) -> None:
            job.progress = float(said.get("progress", job.progress))
            job.text = str(said.get("text", job.text))

        try:
            async with self._turn:
                job.state, job.text = "running", "starting"
                await work("fit", job.folder, settings.job_seconds, settings.worker_bytes, tell)
                job.progress, job.text, job.installing = 0.95, "opening the model", True
                await self._models.install(job.entry, job.folder / MODEL)
            job.state, job.progress, job.text = "done", 1.0, "done"
        except asyncio.CancelledError:
            job.state, job.text = "cancelled", "cancelled"
            raise
        except InputError as error:
            job.state, job.error = "failed", str(error)
        except Problem as problem:
            job.state, job.error = "failed", problem.text
        except Exception as error:
            job.state, job.error = "failed", f"an error inside ({type(error).__name__})"
            raise
        finally:
            job.ended, job.installing = time.time(), False
            self._models.release(job.entry)
            await asyncio.to_thread(shutil.rmtree, job.folder, ignore_errors=True)


# -- workers --------------------------------------------------------------------------------------------------

# Running `hedgerow.service.worker`: its lines, its limits, its end.


LINE = 1 << 20  # longest line of a worker
PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL


async def work(task: str, path: Path, seconds: float, memory: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Run one task to its end; what it says goes to `tell`. If this is cancelled, the process is ended."""
    limits = json.dumps({"seconds": seconds, "bytes": memory})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hedgerow.service.worker", task, limits, str(path),
        stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LINE,
    )  # fmt: skip
    error = None
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None
            async for line in process.stdout:
                said = _parsed(line)
                error = said.get("error", error)
                tell(said)
            code = await process.wait()
    except TimeoutError:
        raise InputError(f"it took longer than the {seconds:g} s that the service allows") from None
    finally:
        await asyncio.shield(_ended(process))
    if error is not None:
        raise InputError(str(error))
    if code != 0:
        raise InputError(f"its process ended with code {code}: it may need more memory or time than the service allows")


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(PATIENCE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    if process.stdin is not None:
        process.stdin.close()


# -- uploads --------------------------------------------------------------------------------------------------

# Files that callers send: written to the work folder as they arrive, looked at before they are believed.


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
