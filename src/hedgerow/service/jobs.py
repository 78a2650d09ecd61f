"""Models from files that callers send: uploads, and fits in the background, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response

from hedgerow.core.errors import InputError
from hedgerow.methods import METHODS
from hedgerow.rows.inputs import COMPRESSED, SUFFIXES, format_of
from hedgerow.service import schemas
from hedgerow.service.models import Entry, Models
from hedgerow.service.operations import BINARY, Call, operation, respond, respond_from
from hedgerow.service.routes import BYTES, LONG, MODEL, etag, summary
from hedgerow.service.schemas import Problem, invalid, kind_of
from hedgerow.service.worker import JOB, MODEL_FILE

# -- operations -------------------------------------------------------------------------------------------------

FORM: dict[str, Any] = {
    "type": "object",
    "required": ["sources", "label"],
    "additionalProperties": False,
    "properties": {
        "sources": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}},
        "unlabelled": {"type": "string", "format": "binary", "description": "Rows of the target; better with them."},
        "label": {"type": "string", "minLength": 1, "description": "The column of labels in the sources."},
        "method": {"type": "string", "default": "hedgerow", "description": "As `hedgerow methods` lists them."},
        "options": {"type": "string", "default": "{}", "description": "A JSON object, as for `hedgerow fit --option`."},
    },
}
MULTIPART = "multipart/form-data"


@operation("PUT", MODEL, "admin", answer=schemas.Model, status=201, sends={BINARY: BYTES}, errors=(200, 409, 412))
async def create_model(call: Call) -> Response:
    """A model file (safetensors) becomes a live model of this name, or with If-Match takes the place of a running one.

    If-Match has the ETag of the model that is to be replaced, or *. Events stay; the new model learns what waits.
    """
    expected = call.headers.get("if-match")
    if expected is None:
        await receive_model(call, call.models.reserve(call.name))
    else:
        await receive_model(call, call.entry, expected.strip('" ') if expected.strip() != "*" else None)
    entry, headers = call.entry, {"Location": call.address(f"/v1/models/{call.name}")}
    headers["ETag"] = await asyncio.to_thread(etag, entry.model)
    return await respond_from(lambda: summary(entry, LONG), 201 if expected is None else 200, headers)


async def receive_model(call: Call, entry: Entry, expected: str | None = None) -> None:
    """Check a model file that is sent; then it becomes the model of a reserved name, or replaces an open one."""
    models, settings = call.models, call.models.settings
    file = models.work.path / f"upload-{uuid4().hex}"
    try:
        call.check_type(BINARY, default=BINARY)
        with file.open("xb") as out:
            async for part in call.chunks(settings.max_upload, settings.upload_timeout):
                await asyncio.to_thread(out.write, part) if len(part) > 1 << 20 else out.write(part)
        _check_header(file, settings.max_header)
        try:
            await work("check", file, CHECK_SECONDS, settings.max_worker, lambda _: None)
        except InputError as error:
            raise Problem("invalid", str(error)) from error
        if entry.state == "arriving":
            await models.install(entry, file)
        else:
            await models.replace(entry, file, expected)
    finally:
        models.release(entry)
        file.unlink(missing_ok=True)


@operation(
    "POST", f"{MODEL}/fit", "admin", answer=schemas.JobStatus, status=202, sends={MULTIPART: {"schema": FORM}},
    errors=(409,),
)  # fmt: skip
async def fit(call: Call) -> Response:
    """Fit a model on files (CSV, Parquet, ..) in the background; it goes live under this name when it is done."""
    models, jobs = call.models, _jobs(call)
    jobs.check_room()
    entry = models.reserve(call.name)
    folder = models.work.path / f"fit-{uuid4().hex}"
    job = None
    try:
        form = await _form(call)
        try:
            folder.mkdir(mode=0o700)
            await asyncio.to_thread(_write, form, folder)
        finally:
            await form.close()
        job = jobs.start(entry, folder)
    finally:
        if job is None:
            models.release(entry)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return respond(job.status, 202, {"Location": call.address(f"/v1/jobs/{job.status.id}")})


@operation("GET", "/v1/jobs", "admin", answer=schemas.JobList)
async def list_jobs(call: Call) -> Response:
    """All jobs of models that the caller administers, newest first."""
    jobs = [job.status for job in _jobs(call) if call.caller.may("admin", job.entry.name)]
    return respond(schemas.JobList(jobs))


@operation("GET", "/v1/jobs/{job}", "admin", answer=schemas.JobStatus)
async def get_job(call: Call) -> Response:
    """How far a job is."""
    return respond(_job(call).status)


@operation("DELETE", "/v1/jobs/{job}", "admin", answer=schemas.JobStatus, errors=(409,))
async def cancel_job(call: Call) -> Response:
    """Cancel a job that waits or runs: its process is ended and its files are removed."""
    job = _job(call)
    await _jobs(call).cancel(job)
    return respond(job.status)


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


class Jobs:
    """All jobs of one service: at most so many at once; none survives it."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._jobs: dict[str, Job] = {}
        self._running = asyncio.Semaphore(models.settings.max_jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(sorted(self._jobs.values(), key=lambda job: -job.status.created))

    def get(self, job_id: str) -> Job | None:
        """The job of this id."""
        return self._jobs.get(job_id)

    def check_room(self) -> None:
        """Refuse one more than may wait."""
        settings, active = self._models.settings, sum(not job.over for job in self._jobs.values())
        if active >= settings.max_jobs + settings.max_jobs_waiting:
            raise Problem("busy", f"{active} jobs run or wait already")

    def start(self, entry: Entry, folder: Path) -> Job:
        """Queue a fit of the files in a folder of its own, for a reserved name."""
        for old in [job for job in self if job.over][KEPT:]:
            del self._jobs[old.status.id]
        job = Job(entry, folder, schemas.JobStatus(uuid4().hex, entry.name, time.time()))
        self._jobs[job.status.id] = job
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
        tasks = [job.task for job in self._jobs.values() if not job.over and job.task is not None]
        for job in self._jobs.values():
            if job.task in tasks and not job.installing:
                job.task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
        except (InputError, Problem) as error:
            status.state, status.error = "failed", str(error)
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
KILL_AFTER = 5.0  # seconds between SIGTERM and SIGKILL


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
        await asyncio.shield(_end(process))
    if error is not None:
        raise InputError(str(error))
    if code != 0:
        raise InputError(f"its process ended with code {code}: it may need more memory or time than the service allows")


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(KILL_AFTER):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    if process.stdin is not None:
        process.stdin.close()


# -- files that callers send ------------------------------------------------------------------------------------

OTHER_SUFFIXES = (".npz", ".svmlight", ".libsvm", ".svm", ".mat")  # beside tables
NO_MODEL = "the body is not a model file: send what `hedgerow fit` or `save` wrote"


def _check_header(file: Path, most: int) -> None:
    """Refuse what the header of a file shows to be no model, before a process is started for it."""
    size = file.stat().st_size
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
        if size < 10 or length > size - 8:
            raise Problem("invalid", NO_MODEL)
        if length > most:
            raise Problem("too-large", f"the header of the model file has {length} bytes; at most {most}")
        try:
            ours = "hedgerow" in json.loads(data.read(length))["__metadata__"]
        except (ValueError, KeyError, TypeError, RecursionError):
            ours = False
    if not ours:
        raise Problem("invalid", NO_MODEL)


async def _form(call: Call) -> FormData:
    call.check_type(MULTIPART)
    settings = call.models.settings
    parts: Any = call.chunks(settings.max_upload, settings.upload_timeout)
    parser = MultiPartParser(call.headers, parts, max_files=64, max_fields=16, max_part_size=64 << 10)
    try:
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Problem("malformed", f"not a multipart form: {getattr(error, 'message', 'no boundary')}") from None


def _write(form: FormData, folder: Path) -> None:
    """The files under names of our own, and what to do with them."""
    for key in form:
        if key not in FORM["properties"]:
            raise invalid(key[:100], f"unknown field; there are {', '.join(sorted(FORM['properties']))}")
    sources = [_saved(file, folder, f"sources[{i}]", f"source-{i}") for i, file in enumerate(form.getlist("sources"))]
    if not sources:
        raise invalid("sources", "missing; send at least one labelled file")
    names = [source["name"] for source in sources]
    for i, source in enumerate(sources):
        if names.count(source["name"]) > 1:
            source["name"] = f"{source['name']}#{i + 1}"
    unlabelled = form.get("unlabelled")
    target = None if unlabelled is None else _saved(unlabelled, folder, "unlabelled", "unlabelled")
    method = _text(form, "method", "hedgerow")
    if method not in METHODS:
        raise invalid("method", f"unknown method; there are {', '.join(METHODS)}")
    try:
        options = json.loads(_text(form, "options", "{}"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise invalid("options", f"not JSON: {error}") from None
    if not isinstance(options, dict):
        raise invalid("options", f"must be an object, not {kind_of(options)}")
    label = _text(form, "label", "")
    job = {"sources": sources, "unlabelled": target, "label": label, "method": method, "options": options}
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


def _text(form: FormData, key: str, default: str) -> str:
    values = form.getlist(key)
    if len(values) > 1 or (values and not isinstance(values[0], str)):
        raise invalid(key, "must be one text")
    value = str(values[0]) if values else default
    if not value:
        raise invalid(key, "missing")
    return value


def _no_number(text: str) -> None:
    raise InputError(f"{text} is no number")
