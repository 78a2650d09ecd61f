"""The report in one paragraph, computed from the rows: what was run, who leads, how near the paper, what broke."""

from __future__ import annotations

import numpy as np

from hedgerow.experiment.summaries import ENOUGH_ORDERS, summarise
from hedgerow.experiment.words import count, paragraph
from hedgerow.paper.comparisons import reference
from hedgerow.paper.paper_runs import PaperRuns, far_cells, judged, published_cell
from hedgerow.paper.theory import verdicts


def verdict(runs: PaperRuns) -> str:
    """What somebody should know who reads nothing else."""
    if not runs.has("table"):
        return "The table of mistakes was not run, so nothing is said here about the paper's numbers as a whole."
    return paragraph([_scope(runs), _leader(runs), _agreement(runs), _theorem(runs)])


def _scope(runs: PaperRuns) -> str:
    methods, tasks = len(runs.methods()), runs.tasks()
    orders = max(row["trial"] + 1 for row in runs.rows if row["group"] == "table")
    where = tasks[0].title if len(tasks) == 1 else f"{len(tasks)} tasks"
    return f"{count(methods, 'method')} on {where}, {count(orders, 'order')} of each stream."


def _leader(runs: PaperRuns) -> str:
    """The paper's own method among those that were run on the same tasks."""
    subject, methods = reference(runs), runs.methods()
    tasks = [task for task in runs.tasks() if all(runs.rows_of("table", task.name, m) for m in methods)]
    if not tasks or len(methods) < 2:
        return ""
    means = np.array([[summarise(runs.rows_of("table", t.name, m)).mean for m in methods] for t in tasks])
    ours, average = methods.index(subject), means.mean(axis=0)
    wins = int((means.argmin(axis=1) == ours).sum())
    theirs = [cell[0] for task in tasks if (cell := published_cell(task.name, subject))]
    published = f" (published: {np.mean(theirs):.2f} %)" if len(theirs) == len(tasks) else ""
    name, lowest = runs.titles[subject], int(average.argmin())
    if len(tasks) > 1:
        said = f"{name} makes the fewest mistakes on {wins} of {len(tasks)} tasks and "
        said += f"{average[ours]:.2f} % on average{published}"
    else:
        said = f"{name} makes {average[ours]:.2f} % mistakes{published}"
    if lowest == ours:
        return said + ", the fewest of all."
    return said + f"; the fewest are those of {runs.titles[methods[lowest]]}, {average[lowest]:.2f} %."


def _agreement(runs: PaperRuns) -> str:
    """How near our means are to the published ones."""
    found = [
        (summarise(rows), paper[0])
        for task in runs.tasks()
        for method in runs.methods()
        if (rows := runs.rows_of("table", task.name, method)) and (paper := published_cell(task.name, method))
    ]
    if not found:
        return ""
    off = np.mean([abs(cell.mean - mean) for cell, mean in found])
    said = f"Our means lie {off:.2f} points from the published ones on average; "
    if not any(judged(cell) for cell, _ in found):
        return said + f"with fewer than {ENOUGH_ORDERS} orders it is not judged which of them differ."
    return said + f"{len(list(far_cells(runs)))} of {len(found)} differ by more than both deviations together."


def _theorem(runs: PaperRuns) -> str:
    """Theorem 1 in these runs; that it is false does not depend on them."""
    found = [v for v in verdicts(runs.rows) if v.claim == "theorem"]
    if not found:
        return ""
    broken, total = sum(v.violations for v in found), sum(v.runs for v in found)
    here = f"is broken in {broken} of {count(total, 'run')}" if broken else f"holds in {count(total, 'run')}"
    return f"The bound of the paper's Theorem 1 {here}; it is false in general: Theory shows streams that break it."
