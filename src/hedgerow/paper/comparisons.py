"""Statistics of the table: paired tests within each task, ranks over the tasks, and what they can and cannot show."""

from __future__ import annotations

import math

import numpy as np

from hedgerow.evaluate.stats import ALPHA, Ranking, Rates, against, friedman
from hedgerow.experiment.summaries import rate, summarise
from hedgerow.experiment.tables import Table, Value, chance, signed, values
from hedgerow.paper.paper_runs import PaperRuns
from hedgerow.paper.tasks import Task

REFERENCE = "oddm"
TOO_FEW = 6  # paired differences below which Wilcoxon's test cannot reach 0.05, whatever they are


def reference(runs: PaperRuns) -> str:
    """The method that the others are compared with: the paper's own if it was run, else the last one."""
    methods = runs.methods()
    return REFERENCE if REFERENCE in methods else methods[-1]


def paired(runs: PaperRuns, task: Task) -> Rates | None:
    """Rates on the (split, order) pairs that all methods have; None without two methods or a pair."""
    by_method = {
        m: {(row["split"], row["trial"]): rate(row) for row in rows}
        for m in runs.methods()
        if (rows := runs.rows_of("table", task.name, m))
    }
    common = sorted(set.intersection(*(set(found) for found in by_method.values()))) if by_method else []
    if len(by_method) < 2 or not common:
        return None
    return Rates(tuple(by_method), np.array([[found[key] for found in by_method.values()] for key in common]))


def within_tasks(runs: PaperRuns) -> Table:
    """The reference against each other method on each task: difference in points, Holm's p below."""
    first = reference(runs)
    others = [m for m in runs.methods() if m != first]
    rows, records = [], []
    for task in runs.tasks():
        rates = paired(runs, task)
        if rates is None or first not in rates.names:
            continue
        found = {pair.second: pair for pair in against(rates, first)}
        cells = [Value(task.title)]
        for m in others:
            if m not in found:
                cells.append(Value("–"))
                continue
            pair = found[m]
            better = pair.adjusted < ALPHA and pair.difference < 0
            cells.append(Value(signed(pair.difference), chance(pair.adjusted), "best" if better else ""))
            records.append(
                {"task": task.name, "first": first, "second": m, "difference": round(pair.difference, 4),
                 "pairs": pair.blocks, "p": pair.p, "p_holm": pair.adjusted}
            )  # fmt: skip
        rows.append(cells)
    note = (
        f"{runs.titles[first]} minus the method of the column, in points, paired by order; below zero it makes fewer "
        "mistakes. Second line: Wilcoxon's signed ranks (exact), Holm-corrected over the columns. Shaded: it makes "
        f"significantly fewer (p < {ALPHA})."
    )
    header = ["task", *(runs.titles[m] for m in others)]
    return Table("wilcoxon", f"{runs.titles[first]} against the others, task by task", header, rows, note, records)


def ranking(runs: PaperRuns) -> Ranking | None:
    """Friedman and Nemenyi over the tasks, on the mean rates; None without two tasks and two methods."""
    methods = runs.methods()
    full = [task for task in runs.tasks() if all(runs.rows_of("table", task.name, m) for m in methods)]
    if len(methods) < 2 or len(full) < 2:
        return None
    means = [[summarise(runs.rows_of("table", task.name, m)).mean for m in methods] for task in full]
    return friedman(Rates(tuple(methods), np.array(means)))


def ranks(runs: PaperRuns, found: Ranking) -> Table:
    """Mean ranks, the best first."""
    rows = [values([runs.titles[name], f"{mean:.2f}"]) for name, mean in found.ordered]
    return Table("ranks", f"Mean ranks over {found.tasks} tasks (1 is best)", ["method", "mean rank"], rows)


def sentences(runs: PaperRuns, found: Ranking | None) -> list[str]:
    """What the tests say, and what they cannot."""
    out = []
    if found is not None:
        best = found.ordered[0][0]
        apart = [
            runs.titles[name] for name, mean in found.ordered if mean - found.ordered[0][1] >= found.critical_difference
        ]
        out.append(
            f"Over {found.tasks} tasks Friedman's chi-square is {found.chi_square:.2f} ({chance(found.p)}), Iman and "
            f"Davenport's F {_number(found.f)} ({chance(found.f_p)}); Nemenyi's critical difference at {found.alpha} "
            f"is {found.critical_difference:.2f} ranks. {runs.titles[best]} has the best mean rank and differs "
            f"significantly from {', '.join(apart) if apart else 'no other method'}."
        )
    orders, splits = _sizes(runs)
    out.append(
        f"The {orders} orders of one split share its unlabelled rows, its sources and the instances of its stream: a "
        "small p says that the difference on this split does not depend on the order. It says nothing about another "
        "split, other instances or another task"
        + (
            "; run several splits (--splits) to see how much the split matters."
            if splits == 1
            else f". The {splits} splits here show how much the split matters, but they overlap, and the tests pool "
            "their orders as if all were independent: as evidence about further splits these p are too small."
        )
    )
    if orders * splits < TOO_FEW:
        out.append(
            f"With {orders * splits} paired runs Wilcoxon's test cannot fall below 0.05: run at least {TOO_FEW}."
        )
    out.append(
        "Only the ranks over tasks say something about tasks that were not run, and only if these tasks are a fair and "
        "independent sample. Tasks of one family share their domains, so they are not quite independent."
    )
    return out


def _sizes(runs: PaperRuns) -> tuple[int, int]:
    cells = [summarise(rows) for key, rows in runs.cells() if key[0] == "table"]
    return max(cell.orders // cell.splits for cell in cells), max(cell.splits for cell in cells)


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.2f}"
