"""What was run, read off the rows: the end of the report, the options of every method, the command for a part."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hedgerow.experiment.classifiers import every_option
from hedgerow.experiment.command import commands_given
from hedgerow.experiment.environment import circumstances
from hedgerow.experiment.tables import Table, values
from hedgerow.methods import RECIPES
from hedgerow.paper import published
from hedgerow.paper.options import PARTS, PaperOptions
from hedgerow.paper.paper_runs import PaperRuns
from hedgerow.paper.tasks import FAMILIES, TASKS


def command(runs: PaperRuns, out: str | Path, what: Sequence[str] = ()) -> str:
    """The command that adds parts of the report to the rows at hand; without parts, the one that made them."""
    words = ["hedgerow", "paper"]
    if len(runs.tasks()) < len(TASKS):
        words += ["--tasks", ",".join(task.name for task in runs.tasks() or runs.any_tasks())]
    words += _methods({row["method"] for row in runs.rows})
    trials = max((row["trial"] + 1 for row in runs.rows if row["group"] == "table"), default=PaperOptions.trials)
    splits = max((row["split"] + 1 for row in runs.rows if row["group"] == "table"), default=1)
    words += ["--trials", str(trials)] if trials != PaperOptions.trials else []
    words += ["--splits", str(splits)] if splits > 1 else []
    reading = readings(runs)
    words += ["--reading", reading[0]] if reading and reading[0] != "table" else []
    groups = {row["group"] for row in runs.rows}
    parts = list(what) or [part for part, needed in PARTS.items() if set(needed) <= groups]
    return shlex.join([*words, "--what", ",".join(parts), "--resume", "--out", str(out)])


def _methods(names: set[str]) -> list[str]:
    """The options for these methods: none for the paper's seven."""
    own = sorted(names - set(RECIPES))
    ours = [name for name in RECIPES if name in names and name not in published.METHODS]
    paper = [name for name in published.METHODS if name in names]
    if len(paper) < len(published.METHODS) or ours:
        first = ["all"] if len(paper) == len(published.METHODS) else [*paper, *own]
        chosen = ["--methods", ",".join([*first, *ours])]
    else:
        chosen = []
    return chosen + (["--plugin", "FILE.py"] if own else [])


def readings(runs: PaperRuns) -> list[str]:
    """Readings of the rows: one, unless files were put together by hand."""
    return sorted({str(row.get("reading")) for row in runs.rows})


def facts(runs: PaperRuns, out: Path) -> dict[str, str]:
    """What was run, for the end of the report."""
    table = [row for row in runs.rows if row["group"] == "table"]
    rows = table or list(runs.rows)
    trials = sorted({row["trial"] for row in rows})
    splits = sorted({row["split"] for row in rows})
    return {
        "command": commands_given(out) or command(runs, out),
        "reading": ", ".join(readings(runs)),
        "tasks": ", ".join(task.title for task in runs.tasks()),
        "methods": ", ".join(runs.titles[m] for m in runs.methods()),
        "orders": f"{len(trials)} of each stream (seeds {trials[0]} to {trials[-1]}), the same for every method",
        "splits": f"{len(splits)} (seeds {', '.join(map(str, splits))})"
        + ("; split 0 is the published one where the files have it" if 0 in splits else ""),
        "data": _checksums(runs),
        "run with": "; ".join(sorted({_versions(row) for row in runs.rows})),
        "results": f"{len(runs.rows)} runs in results.jsonl" + "".join(f"; {p}" for p in runs.problems),
        **{f"report {key}": value for key, value in circumstances().items()},
    }


def _checksums(runs: PaperRuns) -> str:
    found: dict[str, set[str]] = {}
    for row in runs.rows:
        if row["task"] in TASKS and "data" in row:
            found.setdefault(TASKS[row["task"]].family, set()).add(row["data"])
    mixed = " (rows of different data are mixed here)" if any(len(sums) > 1 for sums in found.values()) else ""
    return ", ".join(f"{FAMILIES[name]} {'/'.join(sorted(sums))}" for name, sums in found.items()) + mixed


def _versions(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in row.get("versions", {}).items())


def options(runs: PaperRuns, family: str) -> Table | None:
    """Every option of every method, as used for a family's table."""
    tasks = [task for task in runs.tasks() if task.family == family]
    columns: dict[str, dict[str, str]] = {}
    for method in runs.methods():
        rows = runs.rows_of("table", tasks[0].name, method) if tasks else []
        if rows:
            columns[method] = _options(method, rows[0])
    if not columns:
        return None
    names = dict.fromkeys(name for found in columns.values() for name in found)
    rows_ = [values([name, *(found.get(name, "–") for found in columns.values())]) for name in names]
    header = ["option", *(runs.titles[m] for m in columns)]
    note = "A dash: the method does not read the option."
    return Table(f"options-{family}", f"All options, {FAMILIES[family]}", header, rows_, note, folded=True)


def _options(method: str, row: dict[str, Any]) -> dict[str, str]:
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in row["options"].items()}
    found = every_option(method, row["reading"], given)
    return {name: _word(value) for name, value in found.items() if name != "horizon"}


def _word(value: object) -> str:
    if value is None:
        return "the method's own"
    return "+".join(map(str, value)) if isinstance(value, tuple) else f"{value}"
