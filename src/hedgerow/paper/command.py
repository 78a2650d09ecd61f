"""What `hedgerow paper` does: check, run what is missing, write the report; interrupted, say how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.methods import METHODS, RECIPES
from hedgerow.paper import engine, published, results
from hedgerow.paper.experiments import Unit, check_reading, parts_of, units
from hedgerow.paper.report import report
from hedgerow.paper.settings import COMMANDS
from hedgerow.paper.tasks import find_tasks

WHAT = "table,curves,discrepancy,bound,stats,time"
INTERRUPTED = 130  # 128 + SIGINT

Say = Callable[[str], None]
Tell = Callable[[int, int, str], None]  # done, total, what


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


@dataclass(frozen=True)
class Outcome:
    """The report, or None and the exit code of an interrupted run."""

    report: Path | None
    code: int = 0


def find_methods(names: str) -> list[str]:
    """Methods by name, joined by commas; "all" is the paper's seven and whatever a plugin brought.

    >>> find_methods("oddm,pa")
    ['oddm', 'pa']
    >>> find_methods("all,hedgerow")
    ['pa', 'paio', 'homotl-1', 'homotl-2', 'homotlms', 'oddm-fixed', 'oddm', 'hedgerow']
    """
    every = [*published.METHODS, *(name for name in METHODS if name not in RECIPES)]
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    found = list(dict.fromkeys(name for word in wanted for name in (every if word == "all" else [word])))
    for name in found:
        METHODS[name]
    if not found:
        raise InputError(f"--methods {names!r} names no method; known: {', '.join(METHODS)}")
    return found


def plan(job: Job, say: Say) -> list[Unit]:
    """Everything that can be wrong is found here, before anything is run or written."""
    for plugin in job.plugins:
        engine.load_plugin(plugin)
    parts, tasks, methods = parts_of(job.what), find_tasks(job.tasks), find_methods(job.methods)
    check_reading(job.reading)
    if not parts:
        raise InputError(f"--what {job.what!r} names no part of the report")
    if not tasks:
        raise InputError(f"--tasks {job.tasks!r} names no task")
    if job.trials < 1 or job.splits < 1:
        raise InputError(f"trials={job.trials}, splits={job.splits}: at least one of each is needed")
    check_directory(job.out, job.resume, job.reading, say)
    tasks = engine.with_data(tasks, job.data_dir, say)
    return units(parts, tasks, methods, job.reading, job.trials, job.splits)


def check_directory(out: Path, resume: bool, reading: str, say: Say) -> None:
    """The directory can be written to, and what is in it belongs to the same reading."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; choose another folder with --out") from error
    found = results.read(out)
    for problem in found.problems:
        say(problem)
    others = sorted({str(row.get("reading")) for row in found.rows} - {reading})
    if others:
        raise InputError(
            f"{out} holds results of reading {', '.join(others)}, not {reading}: they would be mixed; choose "
            "another folder with --out"
        )
    if found.rows and not resume:
        raise InputError(
            f"{out} holds {len(found.rows)} results already; pass --resume to go on, or another folder with --out"
        )


def run(job: Job, arguments: Sequence[str], say: Say, tell: Tell) -> Outcome:
    """Run what is not there yet and write the report. `arguments` are the command's own, to be repeated."""
    work = plan(job, say)

    def make() -> Path:
        new = engine.run(
            work, job.out, jobs=job.jobs, data_dir=job.data_dir, plugins=job.plugins, resume=job.resume,
            progress=lambda p: tell(p.done, p.total, "runs") if p.total else None,
        )  # fmt: skip
        say(done(new, sum(unit.orders for unit in work) - new))
        return report(job.out)

    return attempt(job.out, arguments, say, make)


def done(new: int, kept: int) -> str:
    """What is said between the runs and the report.

    >>> done(3, 2)
    '3 runs done, 2 were there already; writing the report'
    """
    return f"{new} runs done" + (f", {kept} were there already" if kept else "") + "; writing the report"


def attempt(out: Path, arguments: Sequence[str], say: Say, make: Callable[[], Path]) -> Outcome:
    """The report that `make` writes; interrupted, say what is kept and how to go on."""
    with (out / COMMANDS).open("a", encoding="utf-8") as file:
        file.write(shlex.join(["hedgerow", *arguments]) + "\n")
    try:
        return Outcome(make())
    except KeyboardInterrupt:
        kept = len(results.read(out).rows)
        say(f"interrupted: {kept} finished runs are kept in {out}; go on with\n  {resume_command(arguments)}")
        return Outcome(None, INTERRUPTED)


def resume_command(arguments: Sequence[str]) -> str:
    """The command that goes on where this one stopped.

    >>> resume_command(["paper", "--tasks", "dslr", "--out", "my results"])
    "hedgerow paper --tasks dslr --out 'my results' --resume"
    """
    words = [*arguments] if "--resume" in arguments else [*arguments, "--resume"]
    return shlex.join(["hedgerow", *words])


__all__ = [
    "WHAT",
    "Job",
    "Outcome",
    "attempt",
    "check_directory",
    "done",
    "find_methods",
    "plan",
    "resume_command",
    "run",
]
