"""The page of a folder of study results: the verdict, then for every study and target a curve, a table, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.evaluate.folds import windows
from hedgerow.experiment import results
from hedgerow.experiment.command import commands_given
from hedgerow.experiment.environment import circumstances
from hedgerow.experiment.page import Contents, Part, Section, Text, page, write
from hedgerow.experiment.summaries import Cell, RunIndex, summarise
from hedgerow.experiment.tables import Findings, Table, Value, values
from hedgerow.experiment.writer import FILE, Writer
from hedgerow.study import figures
from hedgerow.study.findings import StudyRuns, balanced, sentences
from hedgerow.study.studies import STUDIES
from hedgerow.study.verdict import verdict

TITLE = "hedgerow: streams as they are"
ABOUT = (
    "Labels late, missing or in batches, classes that nobody named before, a target that changes, rare classes, "
    "sources of every kind: how many mistakes each method makes, and where ours loses."
)


def studies_in(index: RunIndex) -> Iterator[StudyRuns]:
    """Every study on every target that has rows, in the order of the table of studies."""
    for study in STUDIES.values():
        for task in sorted({row["task"] for row in index.rows if row["group"] == study.name}):
            yield StudyRuns(index, study, task)


def table(runs: StudyRuns) -> Table:
    """Mistakes in per cent: one row for each point, one column for each method, the lowest of each row marked."""
    rows, records = [], []
    for point in runs.points:
        cells = {m: summarise(found) for m in runs.methods if (found := runs.rows(m, point))}
        lowest = min(round(cell.mean, 1) for cell in cells.values())
        shown = [
            _value(cells[m], round(cells[m].mean, 1) == lowest) if m in cells else Value("–") for m in runs.methods
        ]
        rows.append([Value(point), *shown])
        records += [
            {"study": runs.study.name, "task": runs.task, "point": point, "method": m, "mean": c.mean, "sd": c.sd}
            | {"orders": c.orders, "n": runs.rows(m, point)[0]["n"]}
            | {"balanced": float(np.mean([balanced(row) for row in runs.rows(m, point)]))}
            for m, c in cells.items()
        ]
    lengths = sorted({row["n"] for m in runs.methods for p in runs.points for row in runs.rows(m, p)})
    several = f"mean ± standard deviation over {runs.orders} orders"
    counted = "one order" if runs.orders == 1 else several
    shared = f"{lengths[0]} to {lengths[-1]}" if len(lengths) > 1 else f"{lengths[0]}"
    note = (
        f"Mistakes in per cent of {shared} instances, {counted} of the stream; one "
        "split and one draw of classes and sources, the same for every method. The spread is that of the order alone."
    )
    header = ["", *map(runs.title, runs.methods)]
    return Table(_name(runs), f"{runs.study.title}: mistakes in %, {runs.task}", header, rows, note, records)


def around(runs: StudyRuns) -> Table | None:
    """Mistakes in the tenths of the stream before and after an abrupt change, and in the last one."""
    found = {m: runs.rows(m, "abrupt") for m in runs.methods if runs.rows(m, "abrupt")}
    if runs.study.name != "drift" or not found:
        return None
    rows = []
    for method, rows_of_method in found.items():
        at, rates = windows(rows_of_method)
        mean, change = rates.mean(axis=0), rows_of_method[0]["changes"][0]
        places = [int(np.searchsorted(at, at[0] * k + change)) for k in (0, 1)]
        shown = [f"{mean[min(i, len(mean) - 1)]:.1f}" for i in (*places, len(mean) - 1)]
        rows.append(values([runs.title(method), *shown]))
    header = ["method", "tenth before", "tenth after", "last tenth"]
    return Table(f"{_name(runs)}-change", f"Around the abrupt change, {runs.task}", header, rows)


def report(directory: str | Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """Write the report on a directory's results; nothing is run. The path of the page."""
    out = Path(directory)
    found = results.read_and_say(out, say)
    index = RunIndex.of(found)
    every = list(studies_in(index))
    if not every:
        raise InputError(f"{out / results.FILE} has no results of a study; run `hedgerow study all --out {out}` first")
    writer = Writer(index, out)
    under = [Section(f"{p.study.title}: {p.task}", _parts(writer, p), _name(p)) for p in every]
    head = Section("What this is", [Text(ABOUT), Contents(under)])
    return write(out / FILE, page(TITLE, verdict(every), [head, *under], _facts(index, out))).resolve()


def _parts(writer: Writer[RunIndex], runs: StudyRuns) -> list[Part]:
    said = list(sentences(runs))
    drift = runs.study.name == "drift"
    draw = figures.along if drift else figures.strengths
    caption = (
        "Mistakes in a window of a tenth of the stream, mean over the orders; upright lines: where the stream changes."
        if drift
        else "Means over the orders; bands are one standard deviation."
    )
    alt = f"{runs.study.title} on {runs.task}: a line for each method."
    change = around(runs)
    return [
        Text(runs.study.meaning),
        writer.picture(_name(runs), draw(runs), alt, caption),
        *([Findings(said)] if said else []),
        writer.table(table(runs)),
        *([writer.table(change)] if change else []),
    ]


def _value(cell: Cell, best: bool) -> Value:
    return Value(cell.brief, mark="best" if best else "")


def _name(runs: StudyRuns) -> str:
    return f"{runs.study.name}-{runs.task.replace('/', '-')}"


def _facts(index: RunIndex, out: Path) -> dict[str, str]:
    checksums = {f"{row['task'].partition('/')[0]} {row['data']}" for row in index.rows if row["group"] in STUDIES}
    return {
        "command": commands_given(out),
        "options": "reading='general', all others at their defaults; seed 0 for split, classes and sources",
        "orders": f"up to {max(row['trial'] for row in index.rows) + 1}, the same for every method",
        "data": ", ".join(sorted(checksums)),
        "results": f"{len(index.rows)} runs in {results.FILE}" + "".join(f"; {p}" for p in index.problems),
        **circumstances(),
    }
