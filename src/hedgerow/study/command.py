"""What `hedgerow study` does: check, run what is missing, write the report; interrupted, say how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.errors import InputError, unknown
from hedgerow.experiment import engine, results
from hedgerow.experiment.command import Outcome, Say, Tell, attempt, check_directory, done, find_methods
from hedgerow.experiment.summaries import Book
from hedgerow.experiment.tables import Sheet
from hedgerow.methods import RECIPES
from hedgerow.study.report import pages_of, report, table
from hedgerow.study.run import READING, Unit, run_unit
from hedgerow.study.scenarios import scene
from hedgerow.study.studies import STUDIES, find_studies

METHODS = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"
TARGETS = {"digits": "shifted", "office-caltech": "webcam", "pie": "PIE5", "amazon-reviews": "kitchen"}


@dataclass(frozen=True)
class Job:
    """The options of the command; `target` may join several by commas, and without one the data's own is taken."""

    name: str
    data: str = "digits"
    target: str | None = None
    methods: str = METHODS
    orders: int = 5
    jobs: int = -1
    data_dir: str | None = None
    out: Path = Path("hedgerow-study")
    resume: bool = False
    plugins: tuple[str, ...] = ()


def plan(job: Job, say: Say) -> list[Unit]:
    """Everything that can be wrong is found here, before anything is run or written.

    >>> units = plan(Job("delay", methods="pa,oddm", orders=3, out=Path("."), resume=True), print)
    >>> len(units), units[0]
    (8, Unit(study='delay', data='digits', target='shifted', method='pa', point='0', orders=3))
    """
    for plugin in job.plugins:
        engine.load_plugin(plugin)
    studies, methods = find_studies(job.name), find_methods(job.methods, RECIPES)
    if job.data not in TARGETS:
        raise unknown("data set", job.data, TARGETS)
    if job.orders < 1:
        raise InputError(f"orders={job.orders}: at least one order of the stream is needed")
    targets = [word.strip() for word in (job.target or TARGETS[job.data]).split(",") if word.strip()]
    scenes = {target: scene(job.data, target, job.data_dir) for target in targets}
    for study in studies:
        for made in scenes.values():
            for scenario in study.points.values():
                scenario(made)
    check_directory(job.out, job.resume, READING, say)
    return [
        Unit(study.name, job.data, target, method, point, job.orders)
        for study in studies
        for target in targets
        for point in study.points
        for method in methods
    ]


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


def tables(job: Job) -> list[Sheet]:
    """The tables of the studies that were asked for, over the rows that are there."""
    names = {study.name for study in find_studies(job.name)}
    book = Book.of(results.read(job.out))
    return [table(pages) for pages in pages_of(book) if pages.study.name in names]


def listed() -> list[tuple[str, str, str]]:
    """Name, title and strengths of every study, or its kinds where it has several.

    >>> listed()[0]
    ('delay', 'Labels that come late', '0; 10; 50; 200')
    """
    kinds = {s.name: s.points if len(s.panels) == 1 else [panel.title for panel in s.panels] for s in STUDIES.values()}
    return [(study.name, study.title, "; ".join(kinds[study.name])) for study in STUDIES.values()]
