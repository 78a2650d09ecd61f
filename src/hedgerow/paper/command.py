"""What `hedgerow paper` does: check, run what is missing, write the report; interrupted, say how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.experiment import engine
from hedgerow.experiment.command import Outcome, Say, Tell, attempt, check_directory, done, find_methods
from hedgerow.paper import published
from hedgerow.paper.experiments import Unit, check_reading, parts_of, units
from hedgerow.paper.report import report
from hedgerow.paper.run import run_unit
from hedgerow.paper.tasks import find_tasks, with_data

WHAT = "table,curves,discrepancy,bound,stats,time"


@dataclass(frozen=True)
class Job:
    """The options of the command."""

    tasks: str = "all"
    methods: str = "all"
    trials: int = 20
    splits: int = 1
    reading: str = "table"
    what: str = WHAT
    jobs: int = -1
    data_dir: str | None = None
    out: Path = Path("hedgerow-paper")
    resume: bool = False
    plugins: tuple[str, ...] = ()


def plan(job: Job, say: Say) -> list[Unit]:
    """Everything that can be wrong is found here, before anything is run or written."""
    for plugin in job.plugins:
        engine.load_plugin(plugin)
    parts, tasks, methods = parts_of(job.what), find_tasks(job.tasks), find_methods(job.methods, published.METHODS)
    check_reading(job.reading)
    if not parts:
        raise InputError(f"--what {job.what!r} names no part of the report")
    if not tasks:
        raise InputError(f"--tasks {job.tasks!r} names no task")
    if job.trials < 1 or job.splits < 1:
        raise InputError(f"trials={job.trials}, splits={job.splits}: at least one of each is needed")
    check_directory(job.out, job.resume, job.reading, say)
    tasks = with_data(tasks, job.data_dir, say)
    return units(parts, tasks, methods, job.reading, job.trials, job.splits)


def run(job: Job, arguments: Sequence[str], say: Say, tell: Tell) -> Outcome:
    """Run what is not there yet and write the report. `arguments` are the command's own, to be repeated."""
    work = plan(job, say)

    def make() -> Path:
        new = engine.run(
            work, run_unit, job.out, jobs=job.jobs, data_dir=job.data_dir, plugins=job.plugins,
            progress=lambda p: tell(p.done, p.total, "runs") if p.total else None,
        )  # fmt: skip
        say(done(new, sum(unit.orders for unit in work) - new))
        return report(job.out)

    return attempt(job.out, arguments, say, make)
