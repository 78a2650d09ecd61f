"""The report: one page over the rows of a directory, and every table and figure as files of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.experiment import results
from hedgerow.experiment.page import Facts, Section, Text, page, write
from hedgerow.experiment.writer import FILE, Writer
from hedgerow.paper import settings
from hedgerow.paper.paper_runs import PaperRuns
from hedgerow.paper.sections import sections
from hedgerow.paper.tasks import FAMILIES
from hedgerow.paper.verdict import verdict

TITLE = "HomOTL-ODDM, reproduced"
ABOUT = (
    "The experiments of Du, Tan, Chen, Zhang and Wang (ECAI 2020) on online transfer learning from several sources, "
    "run again on their tasks: published numbers beside ours, and what the data says about the paper's claims."
)


def report(directory: str | Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """Write the report on a directory's results; nothing is run. The path of the page."""
    out = Path(directory)
    found = results.read(out)
    for problem in found.problems:
        say(problem)
    if not found.rows:
        raise InputError(f"{out / results.FILE} has no results; run `hedgerow paper --out {directory}` first")
    runs = PaperRuns.of(found)
    writer = Writer(runs, out)
    under = list(sections(writer))
    options = [table for family in FAMILIES if (table := settings.options(runs, family))]
    run = Section("What was run", [Facts(settings.facts(runs, out)), *map(writer.table, options)], "run")
    head = Section("What this is", [Text(ABOUT), _Contents([*under, run])])
    return write(out / FILE, page(TITLE, verdict(runs), [head, *under, run], {})).resolve()


@dataclass(frozen=True)
class _Contents:
    """Links to the sections."""

    sections: Sequence[Section]

    def html(self) -> str:
        links = " ".join(f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in self.sections)
        return f"<nav>{links}</nav>"
