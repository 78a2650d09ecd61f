"""The report's tables, each computed from the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hedgerow.experiment.summaries import ENOUGH_ORDERS, Cell, summarise
from hedgerow.experiment.tables import Table, Value, values
from hedgerow.paper import published
from hedgerow.paper.paper_runs import PaperRuns, far, judged, published_cell
from hedgerow.paper.tasks import Task

RULES = ("fixed", "zero", "skip", "shrink")
RULE_TITLES = {
    "fixed": "no update", "zero": "unseen at zero", "skip": "unseen skipped", "shrink": "unseen shrunk",
}  # fmt: skip


def mistakes(runs: PaperRuns) -> Table:
    """The paper's table: mean and spread in each cell, the published numbers below them, the average over the tasks."""
    tasks, methods = runs.tasks(), runs.methods()
    cells = {
        (t.name, m): summarise(runs.rows_of("table", t.name, m)) for t in tasks for m in methods if _has(runs, t, m)
    }
    rows = [[Value(task.title), *_marked_row(task, methods, cells)] for task in tasks]
    if len(tasks) > 1:
        rows.append([Value("Average"), *(_average(tasks, m, cells) for m in methods)])
    return Table(
        "mistakes",
        "Mistakes in per cent of the stream",
        ["task", *(runs.titles[m] for m in methods)],
        rows,
        _mistakes_note(runs, cells),
        [_record(task, method, cell) for (task, method), cell in cells.items()],
    )


def _has(runs: PaperRuns, task: Task, method: str) -> bool:
    return bool(runs.rows_of("table", task.name, method))


def _marked_row(task: Task, methods: Sequence[str], cells: dict[tuple[str, str], Cell]) -> list[Value]:
    here = {m: cells[task.name, m] for m in methods if (task.name, m) in cells}
    lowest = min(cell.mean for cell in here.values())
    row = []
    for method in methods:
        if method not in here:
            row.append(Value("–"))
            continue
        paper = published_cell(task.name, method)
        marks = ["far"] if far(here[method], task.name, method) else []
        marks += ["best"] if here[method].mean == lowest else []
        row.append(Value(str(here[method]), f"{paper[0]:.2f} ± {paper[1]:.2f}" if paper else "", " ".join(marks)))
    return row


def _average(tasks: Sequence[Task], method: str, cells: dict[tuple[str, str], Cell]) -> Value:
    """Our average over the tasks that were run, and below it the published average over the same tasks."""
    if any((task.name, method) not in cells for task in tasks):
        return Value("–")
    paper = [published_cell(task.name, method) for task in tasks]
    theirs = [cell[0] for cell in paper if cell is not None]
    ours = np.mean([cells[task.name, method].mean for task in tasks])
    return Value(f"{ours:.2f}", f"{np.mean(theirs):.2f}" if theirs else "")


def _mistakes_note(runs: PaperRuns, cells: dict[tuple[str, str], Cell]) -> str:
    orders, splits = {c.orders // c.splits for c in cells.values()}, max(c.splits for c in cells.values())
    counts = " or ".join(map(str, sorted(orders)))
    over = f"{counts} order{'s' if counts != '1' else ''} of the stream"
    spread = f"mean ± standard deviation over {over}"
    if splits > 1:
        spread = f"mean ± deviation over {over} within a split ± deviation of the means of {splits} splits"
    marks = (
        "†, shaded amber: differs from the published mean by more than both deviations together; see Differences."
        if any(map(judged, cells.values()))
        else f"With fewer than {ENOUGH_ORDERS} orders nothing is marked as different from the published mean."
    )
    return (
        f"First ours, {spread}; then, below or in brackets, as published ({published.ORDERS} orders; the average is of "
        f"the same tasks). Shaded green: the lowest of the row. {marks}"
    )


def _record(task: str, method: str, cell: Cell) -> dict[str, Any]:
    paper = published_cell(task, method) or (None, None)
    return {
        "task": task, "method": method, "mean": round(cell.mean, 4), "sd_orders": round(cell.sd, 4),
        "sd_splits": round(cell.between, 4) if cell.splits > 1 else None, "runs": cell.orders, "splits": cell.splits,
        "published_mean": paper[0], "published_sd": paper[1],
        "difference": None if paper[0] is None else round(cell.mean - paper[0], 4), "marked": far(cell, task, method),
    }  # fmt: skip


def inputs(runs: PaperRuns, variant: str) -> Table:
    """The table with the same preprocessing for every method."""
    tasks = [t for t in runs.tasks("inputs") if any(runs.rows_of("inputs", t.name, m, variant) for m in runs.methods())]
    methods = runs.methods("inputs")
    title = {
        "centred": "Each method's own scaling, then every domain centred and rows of unit length",
        "zscore+unit": "z-score by domain, then rows of unit length, for counts (Office+Caltech)",
    }.get(variant, variant)
    rows, table = [], []
    for task in tasks:
        found = {m: summarise(rows_) for m in methods if (rows_ := runs.rows_of("inputs", task.name, m, variant))}
        lowest = min(cell.mean for cell in found.values())
        rows.append([Value(task.title), *(_lowest(found.get(m), lowest) for m in methods)])
        table.append([found[m].mean if m in found else np.nan for m in methods])
    if len(tasks) > 1:
        rows.append(values(["Average", *(f"{mean:.2f}" for mean in np.mean(table, axis=0))]))
    note = f"Mean ± standard deviation over {_orders(runs, 'inputs')}, in per cent; the lowest of the row is shaded."
    return Table(f"inputs-{variant.replace('+', '-')}", title, ["task", *(runs.titles[m] for m in methods)], rows, note)


def refresh(runs: PaperRuns) -> Table:
    """No update of the alignment, and the update with each rule for classes not seen yet; as given and centred."""
    tasks = runs.tasks("refresh")
    header = ["task", *(f"{label}{RULE_TITLES[r]}" for label in ("", "centred: ") for r in RULES)]
    rows = []
    for task in tasks:
        found = [
            summarise(r) if (r := refresh_rows(runs, task, label + rule)) else None for label, rule in _refresh_keys()
        ]
        lows = [min((c.mean for c in half if c), default=0.0) for half in (found[:4], found[4:])]
        rows.append([Value(task.title), *(_lowest(cell, lows[i // 4]) for i, cell in enumerate(found))])
    note = (
        f"Mean ± standard deviation over {_orders(runs, 'refresh')}, in per cent; the lowest of each half is shaded. "
        "Centred: every domain's own mean is subtracted first (the target's is the running mean, never ahead of the "
        "stream), then rows are scaled to unit length."
    )
    return Table("refresh", "Effect of the refresh", header, rows, note)


def _refresh_keys() -> list[tuple[str, str]]:
    return [(label, rule) for label in ("", "centred ") for rule in RULES]


def refresh_rows(runs: PaperRuns, task: Task, variant: str) -> list[dict[str, Any]]:
    """Rows of one cell of the refresh table."""
    method = "oddm-fixed" if variant.endswith("fixed") else "oddm"
    return runs.rows_of("refresh", task.name, method, variant)


def seconds(runs: PaperRuns, what: str) -> Table:
    """Median seconds of the offline or the online stage."""
    methods = runs.methods()
    rows = []
    for task in runs.tasks():
        cells = [runs.rows_of("table", task.name, m) for m in methods]
        length = next(cell[0]["n"] for cell in cells if cell)
        medians = [float(np.median([row[f"seconds_{what}"] for row in cell])) if cell else np.nan for cell in cells]
        rows.append(values([f"{task.title} ({length})", *(_seconds(value) for value in medians)]))
    note = {
        "offline": "Alignment and source classifiers, one core; an alignment from the cache counts as long as its "
        "solution took. Methods without an alignment only train source classifiers.",
        "online": "The whole stream (its length is in brackets), predicting and learning, one core.",
    }[what]
    title = f"Seconds {what}, median over the orders"
    return Table(f"time-{what}", title, ["task", *(runs.titles[m] for m in methods)], rows, note)


def sensitivity(runs: PaperRuns, group: str, name: str, of: Callable[[str], float]) -> Table:
    """Mean rates at each value of an option: a row for each task and method."""
    header = sorted(runs.variants(group), key=of)
    rows = []
    for task in runs.tasks(group):
        for method in runs.methods(group):
            found = [summarise(r) if (r := runs.rows_of(group, task.name, method, v)) else None for v in header]
            if any(found):
                low = min(cell.mean for cell in found if cell)
                rows.append([*values([task.title, runs.titles[method]]), *(_lowest(cell, low) for cell in found)])
    note = f"Mean ± standard deviation over {_orders(runs, group)}, in per cent; the lowest of the row is shaded."
    return Table(group, f"Sensitivity to {name}", ["task", "method", *header], rows, note, folded=True)


def _lowest(cell: Cell | None, lowest: float) -> Value:
    return Value("–") if cell is None else Value(str(cell), mark="best" if cell.mean == lowest else "")


def _orders(runs: PaperRuns, group: str) -> str:
    counts = sorted({len(rows) for key, rows in runs.cells() if key[0] == group})
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} order{'' if counts[-1] == 1 else 's'}"


def _seconds(value: float) -> str:
    return "–" if value != value else f"{value:.3f}" if value < 10 else f"{value:.1f}"
