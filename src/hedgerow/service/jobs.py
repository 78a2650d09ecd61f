"""Fits in the background: each a process of its own, at most so many at once; none survives the service."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from hedgerow.core.errors import InputError
from hedgerow.service.models import Entry, Models
from hedgerow.service.problems import Problem
from hedgerow.service.worker import MODEL
from hedgerow.service.workers import work

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
