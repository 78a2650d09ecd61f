"""Models from files that callers send: uploads, and fits in the background, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from hedgerow.core.errors import HedgerowError, InputError
from hedgerow.methods import METHODS
from hedgerow.rows.inputs import COMPRESSED, SUFFIXES, format_of
from hedgerow.service import schemas
from hedgerow.service.models import Entry, Models, without_paths
from hedgerow.service.operations import BINARY, Call, Later, operation
from hedgerow.service.routes import BYTES, FLEET, MODEL, summary, tag
from hedgerow.service.schemas import Problem, convert, invalid
from hedgerow.service.worker import JOB, MODEL_FILE

# -- operations -------------------------------------------------------------------------------------------------

MULTIPART = "multipart/form-data"


@operation("PUT", MODEL, "admin", id="create_model", status=201, sends={BINARY: BYTES}, errors=(200, 409, 412))
@operation("PUT", FLEET, "admin", id="create_fleet", status=201, sends={BINARY: BYTES}, errors=(409,))
async def create(call: Call) -> schemas.Model | Later[schemas.Model]:
    """A model file (safetensors) becomes a live model of this name, or with If-Match takes the place of a running one.

    If-Match has the ETag of the model that is to be replaced, or *. Events stay; the new model learns what waits. In a
    fleet, a model file that has learned no label of a target becomes the start of every key.
    """
    expected = call.headers.get("if-match") if call.kind == "model" else None
    if expected is None:
        await _receive(call, call.models.reserve(call.name, call.kind))
    else:
        await _receive(call, call.entry, expected.strip('" ') if expected.strip() != "*" else None)
        call.status = 200
    call.locate(f"/v1/{call.kind}s/{call.name}")
    await asyncio.to_thread(tag, call)
    return lambda: summary(call.entry)


async def _receive(call: Call, entry: Entry, expected: str | None = None) -> None:
    """Check a model file that is sent; then it becomes the model of a reserved name, or replaces an open one."""
    models, settings = call.models, call.models.settings
    file = models.scratch("upload")
    try:
        call.check_type(BINARY, default=BINARY)
        with file.open("xb") as out:
            async for part in call.chunks(settings.max_upload, settings.upload_timeout):
                await asyncio.to_thread(out.write, part) if len(part) > 1 << 20 else out.write(part)
        await work("check", file, CHECK_SECONDS, settings.max_worker, lambda _: None)
        if entry.state == "arriving":
            await models.install(entry, file)
        else:
            await call.ask(asyncio.to_thread, entry.replace, file, expected)
    finally:
        models.release(entry)
        file.unlink(missing_ok=True)


@operation("POST", f"{MODEL}/fit", "admin", status=202, body=schemas.FitForm, media=MULTIPART, errors=(409,))
async def fit(call: Call) -> schemas.JobStatus:
    """Fit a model on files (CSV, Parquet, ..) in the background; it goes live under this name when it is done."""
    models, jobs = call.models, _jobs(call)
    jobs.check_room()
    entry, folder = models.reserve(call.name), models.scratch("fit")
    with ExitStack() as undo:
        undo.callback(models.release, entry)
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        async with _form(call) as form:
            folder.mkdir(mode=0o700)
            await asyncio.to_thread(_write, form, folder)
        job = jobs.start(entry, folder)
        undo.pop_all()
    call.locate(f"/v1/jobs/{job.status.id}")
    return job.status


@operation("GET", "/v1/jobs", "admin", under="jobs")
async def list_jobs(call: Call) -> list[schemas.JobStatus]:
    """All jobs of models that the caller administers, newest first."""
    return [job.status for job in reversed(_jobs(call).values()) if call.caller.may("admin", job.entry.name)]


@operation("GET", "/v1/jobs/{job}", "admin")
async def get_job(call: Call) -> schemas.JobStatus:
    """How far a job is."""
    return _job(call).status


@operation("DELETE", "/v1/jobs/{job}", "admin", errors=(409,))
async def cancel_job(call: Call) -> schemas.JobStatus:
    """Cancel a job that waits or runs: its process is ended and its files are removed."""
    job = _job(call)
    await _jobs(call).cancel(job)
    return job.status


def _jobs(call: Call) -> Jobs:
    jobs: Jobs = call.app.state.jobs
    return jobs


def _job(call: Call) -> Job:
    """The job of a call; one that the caller may not see is one that is not there."""
    job = _jobs(call).get(call.path_params["job"])
    if job is None or not call.caller.may("admin", job.entry.name):
        raise Problem("no-job", "there is no job of this id")
    return job


# -- jobs -------------------------------------------------------------------------------------------------------

KEPT = 100  # ended jobs that are remembered


@dataclass
class Job:
    """One fit: what callers see of it, and what runs it."""

    entry: Entry
    folder: Path
    status: schemas.JobStatus
    task: asyncio.Task[None] | None = None
    installing: bool = False  # its model is being opened: too late to stop

    @property
    def over(self) -> bool:
        """Whether nothing will happen any more."""
        return self.status.state in ("done", "failed", "cancelled")


class Jobs(dict[str, Job]):
    """All jobs of one service by id: at most so many at once; none survives it."""

    def __init__(self, models: Models) -> None:
        super().__init__()
        self._models, self._running = models, asyncio.Semaphore(models.settings.max_jobs)

    def check_room(self) -> None:
        """Refuse one more than may wait."""
        settings, active = self._models.settings, sum(not job.over for job in self.values())
        if active >= settings.max_jobs + settings.max_jobs_waiting:
            raise Problem("busy", f"{active} jobs run or wait already")

    def start(self, entry: Entry, folder: Path) -> Job:
        """Queue a fit of the files in a folder of its own, for a reserved name."""
        for old in [job.status.id for job in self.values() if job.over][:-KEPT]:
            del self[old]
        job = Job(entry, folder, schemas.JobStatus(uuid4().hex, entry.name, time.time()))
        self[job.status.id] = job
        job.task = asyncio.create_task(self._run(job))
        return job

    async def cancel(self, job: Job) -> None:
        """End a job; its process and its files are gone afterwards."""
        if job.over or job.installing or job.task is None:
            raise Problem("finished", f"the job is {'opening its model' if job.installing else job.status.state}")
        job.task.cancel()
        await asyncio.gather(job.task, return_exceptions=True)

    async def close(self) -> None:
        """Cancel all, but let a model that is being opened become whole."""
        active = [job for job in self.values() if not job.over]
        for job in active:
            if job.task is not None and not job.installing:
                job.task.cancel()
        await asyncio.gather(*(job.task for job in active if job.task is not None), return_exceptions=True)

    async def _run(self, job: Job) -> None:
        settings, status = self._models.settings, job.status

        def tell(line: dict[str, Any]) -> None:
            status.progress = float(line.get("progress", status.progress))
            status.text = str(line.get("text", status.text))

        try:
            async with self._running:
                status.state, status.text = "running", "starting"
                await work("fit", job.folder, settings.job_timeout, settings.max_worker, tell)
                status.progress, status.text, job.installing = 0.95, "opening the model", True
                await self._models.install(job.entry, job.folder / MODEL_FILE)
            status.state, status.progress, status.text = "done", 1.0, "done"
        except asyncio.CancelledError:
            status.state, status.text = "cancelled", "cancelled"
            raise
        except (HedgerowError, Problem) as error:
            status.state, status.error = "failed", without_paths(error, self._models.folder)
        except Exception as error:
            status.state, status.error = "failed", f"an error inside ({type(error).__name__})"
            raise
        finally:
            status.ended, job.installing = time.time(), False
            self._models.release(job.entry)
            await asyncio.to_thread(shutil.rmtree, job.folder, ignore_errors=True)


# -- workers ----------------------------------------------------------------------------------------------------

CHECK_SECONDS = 120.0
LONGEST_LINE = 1 << 20


async def work(task: str, path: Path, seconds: float, memory: int, tell: Callable[[dict[str, Any]], None]) -> None:
    """Run one task of `hedgerow.service.worker` to its end; its lines go to `tell`. Cancelled, the process is ended."""
    limits = json.dumps({"seconds": seconds, "bytes": memory})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hedgerow.service.worker", task, limits, str(path),
        stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=LONGEST_LINE,
    )  # fmt: skip
    error = None
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None
            async for text in process.stdout:
                line = json.loads(text)
                error = line.get("error", error)
                tell(line)
            code = await process.wait()
    except TimeoutError:
        raise InputError(f"it took longer than the {seconds:g} s that the service allows") from None
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.shield(process.wait())
    if error is not None:
        raise InputError(str(error))
    if code != 0:
        raise InputError(f"its process ended with code {code}: it may need more memory or time than the service allows")


# -- files that callers send ------------------------------------------------------------------------------------

OTHER_SUFFIXES = (".npz", ".svmlight", ".libsvm", ".svm", ".mat")  # beside tables


@asynccontextmanager
async def _form(call: Call) -> AsyncIterator[schemas.FitForm]:
    """The form, whose files are closed at the end."""
    call.check_type(MULTIPART)
    settings = call.models.settings
    parts: Any = call.chunks(settings.max_upload, settings.upload_timeout)
    parser = MultiPartParser(call.headers, parts, max_files=64, max_fields=16, max_part_size=64 << 10)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Problem("malformed", f"not a multipart form: {getattr(error, 'message', 'no boundary')}") from None
    try:
        lists = {key: form.getlist(key) for key in form}
        one = {key: values[0] for key, values in lists.items() if len(values) == 1 and key != "sources"}
        yield convert({**lists, **one}, schemas.FitForm)
    finally:
        await form.close()


def _write(form: schemas.FitForm, folder: Path) -> None:
    """The files under names of our own, and what to do with them."""
    sources = [_saved(file, folder, f"sources[{i}]", f"source-{i}") for i, file in enumerate(form.sources)]
    names = [source["name"] for source in sources]
    for i, source in enumerate(sources):
        if names.count(source["name"]) > 1:
            source["name"] = f"{source['name']}#{i + 1}"
    target = None if form.unlabelled is None else _saved(form.unlabelled, folder, "unlabelled", "unlabelled")
    if form.method not in METHODS:
        raise invalid("method", f"unknown method; there are {', '.join(METHODS)}")
    try:
        options = msgspec.json.decode(form.options, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise invalid("options", f"not a JSON object: {error}") from None
    job = {"sources": sources, "unlabelled": target, "label": form.label, "method": form.method, "options": options}
    (folder / JOB).write_text(json.dumps(job), encoding="utf-8")


def _saved(file: Any, folder: Path, field: str, own: str) -> dict[str, str]:
    if not isinstance(file, UploadFile):
        raise invalid(field, "must be a file")
    sent = Path((file.filename or "").replace("\\", "/"))
    try:
        known = format_of(sent) is not None or sent.suffix.lower() in OTHER_SUFFIXES
    except InputError as error:
        raise invalid(field, str(error)) from None
    if not known:
        suffixes = ", ".join((*SUFFIXES, *OTHER_SUFFIXES))
        raise invalid(field, f"a file name that ends in {suffixes} is needed to know the format")
    suffix = "".join(sent.suffixes[-2:] if sent.suffix.lower() in COMPRESSED else sent.suffixes[-1:])
    stored = f"{own}{suffix.lower()}"
    with (folder / stored).open("xb") as out:
        shutil.copyfileobj(file.file, out)
    return {"file": stored, "name": re.sub(r"[^\w.-]+", "_", sent.name.removesuffix(suffix))[:64] or own}
