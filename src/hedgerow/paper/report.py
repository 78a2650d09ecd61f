"""The report: one page over the rows of a directory, and every table and figure as files of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.experiment import results
from hedgerow.experiment.page import Contents, Facts, Section, Text, page, write
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
    found = results.read_and_say(out, say)
    if not found.rows:
        raise InputError(f"{out / results.FILE} has no results; run `hedgerow paper --out {directory}` first")
    runs = PaperRuns.of(found)
    writer = Writer(runs, out)
    under = list(sections(writer))
    options = [table for family in FAMILIES if (table := settings.options(runs, family))]
    run = Section("What was run", [Facts(settings.facts(runs, out)), *map(writer.table, options)], "run")
    head = Section("What this is", [Text(ABOUT), Contents([*under, run])])
    return write(out / FILE, page(TITLE, verdict(runs), [head, *under, run], {})).resolve()
