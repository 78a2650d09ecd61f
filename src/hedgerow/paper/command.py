"""What `hedgerow paper` does: check, run what is missing, write the report; interrupted, say how to go on."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.errors import InputError
from hedgerow.experiment.command import Outcome, Say, Tell, check_directory, find_methods, run_and_report
from hedgerow.experiment.engines import engine_of
from hedgerow.experiment.plugins import load_plugin
from hedgerow.paper import published
from hedgerow.paper.experiments import Unit, check_reading, parts_of, units
from hedgerow.paper.options import PaperOptions
from hedgerow.paper.report import report
from hedgerow.paper.run import run_unit
from hedgerow.paper.tasks import find_tasks, with_data


def plan(options: PaperOptions, say: Say) -> list[Unit]:
    """Check every option, then list what is to be run: errors come before anything is run or written."""
    engine_of(options.engine, options.jobs)
    for plugin in options.plugins:
        load_plugin(plugin)
    parts, tasks, methods = (
        parts_of(options.what),
        find_tasks(options.tasks),
        find_methods(options.methods, published.METHODS),
    )
    check_reading(options.reading)
    if not parts:
        raise InputError(f"--what {options.what!r} names no part of the report")
    if not tasks:
        raise InputError(f"--tasks {options.tasks!r} names no task")
    if options.trials < 1 or options.splits < 1:
        raise InputError(f"trials={options.trials}, splits={options.splits}: at least one of each is needed")
    check_directory(options.out, options.resume, options.reading, say)
    tasks = with_data(tasks, options.data_dir, say)
    return units(parts, tasks, methods, options.reading, options.trials, options.splits)


def run(options: PaperOptions, arguments: Sequence[str], say: Say, tell: Tell) -> Outcome:
    """Run what is not in the folder yet and write the report. `arguments` are the command's, to be shown again."""
    return run_and_report(plan(options, say), run_unit, report, options, arguments, say, tell)
