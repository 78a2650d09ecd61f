"""What `hedgerow study` does: check, run what is missing, write the report; interrupted, say how to go on."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.errors import InputError, unknown
from hedgerow.experiment import results
from hedgerow.experiment.command import Outcome, Say, Tell, check_directory, find_methods, run_and_report
from hedgerow.experiment.engines import engine_of
from hedgerow.experiment.plugins import load_plugin
from hedgerow.experiment.summaries import RunIndex
from hedgerow.experiment.tables import Table
from hedgerow.methods import RECIPES
from hedgerow.study.options import TARGETS, StudyOptions
from hedgerow.study.report import report, studies_in, table
from hedgerow.study.run import READING, Unit, run_unit
from hedgerow.study.scenarios import stream_task
from hedgerow.study.studies import STUDIES, find_studies


def plan(options: StudyOptions, say: Say) -> list[Unit]:
    """Check every option, then list what is to be run: errors come before anything is run or written.

    >>> from pathlib import Path
    >>> units = plan(StudyOptions("delay", methods="pa,oddm", orders=3, out=Path("."), resume=True), print)
    >>> len(units), units[0]
    (8, Unit(study='delay', data='digits', target='shifted', method='pa', point='0', orders=3))
    """
    engine_of(options.engine, options.jobs)
    for plugin in options.plugins:
        load_plugin(plugin)
    studies, methods = find_studies(options.name), find_methods(options.methods, RECIPES)
    if options.data not in TARGETS:
        raise unknown("data set", options.data, TARGETS)
    if options.orders < 1:
        raise InputError(f"orders={options.orders}: at least one order of the stream is needed")
    targets = [word.strip() for word in (options.target or TARGETS[options.data]).split(",") if word.strip()]
    tasks = {target: stream_task(options.data, target, options.data_dir) for target in targets}
    for study in studies:
        for made in tasks.values():
            for scenario in study.points.values():
                scenario(made)
    check_directory(options.out, options.resume, READING, say)
    return [
        Unit(study.name, options.data, target, method, point, options.orders)
        for study in studies
        for target in targets
        for point in study.points
        for method in methods
    ]


def run(options: StudyOptions, arguments: Sequence[str], say: Say, tell: Tell) -> Outcome:
    """Run what is not in the folder yet and write the report. `arguments` are the command's, to be shown again."""
    return run_and_report(plan(options, say), run_unit, report, options, arguments, say, tell)


def tables(options: StudyOptions) -> list[Table]:
    """The tables of the studies that were asked for, over the rows that are there."""
    names = {study.name for study in find_studies(options.name)}
    index = RunIndex.of(results.read(options.out))
    return [table(runs) for runs in studies_in(index) if runs.study.name in names]


def listed() -> list[tuple[str, str, str]]:
    """Name, title and strengths of every study, or its kinds where it has several.

    >>> listed()[0]
    ('delay', 'Labels that come late', '0; 10; 50; 200')
    """
    kinds = {s.name: s.points if len(s.panels) == 1 else [panel.title for panel in s.panels] for s in STUDIES.values()}
    return [(study.name, study.title, "; ".join(kinds[study.name])) for study in STUDIES.values()]
