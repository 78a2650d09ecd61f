"""The calls about fits: send the files, follow the job, cancel it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response

from hedgerow.core.errors import InputError
from hedgerow.methods import METHODS
from hedgerow.rows.inputs import COMPRESSED, SUFFIXES, format_of
from hedgerow.service import schemas
from hedgerow.service.api import Name, allow
from hedgerow.service.bodies import chunks, kind_of
from hedgerow.service.jobs import Jobs
from hedgerow.service.models import Models
from hedgerow.service.problems import Problem, invalid
from hedgerow.service.schemas import as_json, problems
from hedgerow.service.worker import JOB

OTHERS = (".npz", ".svmlight", ".libsvm", ".svm", ".mat")  # beside tables
FILES = 64
FIELDS = 16
FIELD_BYTES = 64 << 10
KNOWN = {"sources", "unlabelled", "label", "method", "options"}
FORM = {
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
JobId = Annotated[str, InPath(pattern="^[0-9a-f]{32}$")]


def router(models: Models, jobs: Jobs) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/v1", tags=["fits"])
    _add_fit(routes, models, jobs)
    _add_jobs(routes, jobs)
    return routes


def _add_fit(routes: APIRouter, models: Models, jobs: Jobs) -> None:
    """Send the files."""

    @routes.post(
        "/models/{name}/fit", status_code=202, response_model=schemas.Job,
        responses=problems(400, 404, 408, 409, 413, 415, 422, 429, 504),
        openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}},
    )  # fmt: skip
    async def fit(name: Name, request: Request) -> Response:
        """Fit a model on files (CSV, Parquet, ..) in the background; it goes live under this name when it is done."""
        allow(request, "admin", name)
        jobs.check_room()
        entry = models.reserve(name)
        folder = models.work.path / f"fit-{uuid4().hex}"
        started = False
        try:
            form = await _form(request, models)
            async with _closing(form):
                folder.mkdir(mode=0o700)
                await asyncio.to_thread(_write, form, folder)
            job = jobs.start(entry, folder)
            started = True
        finally:
            if not started:
                models.release(entry)
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return as_json(job.to_json(), 202, {"Location": f"/v1/jobs/{job.id}"})


def _add_jobs(routes: APIRouter, jobs: Jobs) -> None:
    """Follow a job, cancel it."""

    @routes.get("/jobs", response_model=schemas.JobList)
    async def list_jobs(request: Request) -> Response:
        """All jobs of models that the caller administers, newest first."""
        caller = request.scope["hedgerow.caller"]
        if not caller.may_any("admin"):
            raise Problem("forbidden", "this needs the right 'admin' for a model")
        return as_json({"jobs": [job.to_json() for job in jobs if caller.may("admin", job.entry.name)]})

    @routes.get("/jobs/{job}", response_model=schemas.Job, responses=problems(404, 422))
    async def look(job: JobId, request: Request) -> Response:
        """How far a job is."""
        _allow_job(request, jobs, job)
        return as_json(jobs[job].to_json())

    @routes.delete("/jobs/{job}", response_model=schemas.Job, responses=problems(404, 409, 422))
    async def cancel(job: JobId, request: Request) -> Response:
        """Cancel a job that waits or runs: its process is ended and its files are removed."""
        _allow_job(request, jobs, job)
        await jobs.cancel(jobs[job])
        return as_json(jobs[job].to_json())


def _allow_job(request: Request, jobs: Jobs, job: str) -> None:
    """A job that the caller may not see is one that is not there."""
    caller = request.scope["hedgerow.caller"]
    if not caller.may_any("admin"):
        raise Problem("forbidden", "this needs the right 'admin' for a model")
    if not caller.may("admin", jobs[job].entry.name):
        raise Problem("no-job", "there is no job of this id")


class _closing:
    """The files of a form, closed at the end."""

    def __init__(self, form: FormData) -> None:
        self._form = form

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        await self._form.close()


async def _form(request: Request, models: Models) -> FormData:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise Problem("media-type", f"Content-Type is {kind or 'missing'}; send multipart/form-data")
    settings = models.settings
    parts = chunks(request, settings.upload_bytes, settings.upload_seconds)
    parser = MultiPartParser(request.headers, parts, max_files=FILES, max_fields=FIELDS, max_part_size=FIELD_BYTES)  # type: ignore[arg-type,unused-ignore]
    try:
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise Problem("malformed", f"not a multipart form: {getattr(error, 'message', 'no boundary')}") from None


def _write(form: FormData, folder: Path) -> None:
    """The files under names of our own, and what to do with them."""
    for key in form:
        if key not in KNOWN:
            raise invalid(key[:100], f"unknown field; there are {', '.join(sorted(KNOWN))}")
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
    job = {
        "sources": sources, "unlabelled": target, "label": _text(form, "label", None), "method": method,
        "options": _options(_text(form, "options", "{}")),
    }  # fmt: skip
    (folder / JOB).write_text(json.dumps(job), encoding="utf-8")


def _saved(file: Any, folder: Path, field: str, own: str) -> dict[str, str]:
    if not isinstance(file, UploadFile):
        raise invalid(field, "must be a file")
    given = Path((file.filename or "").replace("\\", "/"))
    try:
        known = format_of(given) is not None or given.suffix.lower() in OTHERS
    except InputError as error:
        raise invalid(field, str(error)) from None
    if not known:
        raise invalid(field, f"a file name that ends in {', '.join((*SUFFIXES, *OTHERS))} is needed to know the format")
    suffix = "".join(given.suffixes[-2:] if given.suffix.lower() in COMPRESSED else given.suffixes[-1:])
    stored = f"{own}{suffix.lower()}"
    with (folder / stored).open("xb") as out:
        shutil.copyfileobj(file.file, out)
    return {"file": stored, "name": re.sub(r"[^\w.-]+", "_", given.name.removesuffix(suffix))[:64] or own}


def _text(form: FormData, key: str, default: str | None) -> str:
    values = form.getlist(key)
    if len(values) > 1 or (values and not isinstance(values[0], str)):
        raise invalid(key, "must be one text")
    value = str(values[0]) if values else default
    if not value:
        raise invalid(key, "missing")
    return value


def _options(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise invalid("options", f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise invalid("options", f"must be an object, not {kind_of(found)}")
    return found


def _refused(text: str) -> None:
    raise InputError(f"{text} is no number")
