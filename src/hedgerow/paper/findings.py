"""What the data says, in sentences computed from the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.experiment.summaries import summarise
from hedgerow.experiment.tables import signed
from hedgerow.paper import published
from hedgerow.paper.paper_runs import PaperRuns
from hedgerow.paper.tables import RULES, refresh_rows
from hedgerow.paper.tasks import FAMILIES, Task

RULE_WORDS = {
    "zero": "classes not seen yet at zero (the released code)",
    "skip": "classes not seen yet left out (the printed formula)",
    "shrink": "class means shrunk by n_k/(n_k + kappa)",
}
SMALL = 0.25  # points: less is called no change


def refresh(runs: PaperRuns) -> list[str]:
    """Does updating A help, and how much of the gain does centring alone give? Sentences for each family."""
    out = []
    for family, title in FAMILIES.items():
        tasks = [task for task in runs.tasks("refresh") if task.family == family and _complete(runs, task)]
        if tasks:
            out += _refresh_family(title, tasks, _refresh_means(runs, tasks))
    return out


def _complete(runs: PaperRuns, task: Task) -> bool:
    return all(refresh_rows(runs, task, label + rule) for label in ("", "centred ") for rule in RULES)


def _refresh_means(runs: PaperRuns, tasks: Sequence[Task]) -> dict[str, Array]:
    return {
        label + rule: np.array([summarise(refresh_rows(runs, task, label + rule)).mean for task in tasks])
        for label in ("", "centred ")
        for rule in RULES
    }


def _refresh_family(title: str, tasks: Sequence[Task], means: dict[str, Array]) -> list[str]:
    gains = {rule: means["fixed"] - means[rule] for rule in RULE_WORDS}
    out = [f"{title}: {verdict(gains[rule], 'updating A', RULE_WORDS[rule])}" for rule in RULE_WORDS]
    centred = {rule: means["centred fixed"] - means[f"centred {rule}"] for rule in RULE_WORDS}
    by_centring = means["fixed"] - means["centred fixed"]
    out.append(f"{title}: {verdict(by_centring, 'centring every domain, without any update of A,', '')}")
    out.append(
        f"{title}: after centring, updating A changes the rate by "
        + ", ".join(f"{signed(-float(gain.mean()))} ({rule})" for rule, gain in centred.items())
        + f" points on average; before it, by {signed(-float(gains['zero'].mean()))} (zero)."
    )
    out.append(_share(title, float(gains["zero"].mean()), float(centred["zero"].mean()), float(by_centring.mean())))
    return out


def verdict(gain: Array, what: str, how: str) -> str:
    """Whether something helps: over how many tasks, by how much; `gain` is in points a task, above zero is better.

    >>> verdict(np.array([2.0, 1.0, -0.5]), "updating A", "zero")
    'updating A with zero helps on 2 of 3 tasks and harms on 1; on average it lowers the rate by 0.83 points.'
    """
    mean, n = float(np.mean(gain)), len(gain)
    better, worse = int(np.sum(gain > SMALL)), int(np.sum(gain < -SMALL))
    with_how = f" with {how}" if how else ""
    on_average = (
        "changes the rate by less than a quarter of a point"
        if abs(mean) <= SMALL
        else f"{'lowers' if mean > 0 else 'raises'} the rate by {abs(mean):.2f} points"
    )
    return f"{what}{with_how} helps on {better} of {n} tasks and harms on {worse}; on average it {on_average}."


def _share(title: str, update: float, update_centred: float, centring: float) -> str:
    if update <= SMALL:
        return f"{title}: as published, the update gains nothing on average that centring could account for."
    gone = 1 - max(update_centred, 0.0) / update
    more = "more than" if centring > update else "less than"
    return (
        f"{title}: of the {update:.2f} points that the published update gains, {max(gone, 0.0):.0%} are gone once "
        f"every domain is centred; centring alone gains {centring:.2f} points, {more} the update."
    )


def inputs(runs: PaperRuns) -> list[str]:
    """How far the paper's method leads the best baseline under each scaling, over the tasks that were run with it."""
    baselines = [m for m in runs.methods("inputs") if m in published.METHODS[:5]]
    if not baselines or "oddm" not in runs.methods("inputs"):
        return []
    out = []
    for variant in runs.variants("inputs"):
        for family, title in FAMILIES.items():
            tasks = [t for t in runs.tasks("inputs") if t.family == family]
            same = _leads(runs, "inputs", variant, tasks, baselines)
            before = _leads(runs, "table", "", tasks, baselines)
            if len(same) and len(before):
                out.append(
                    f"{title}, {variant}: {runs.titles['oddm']} {_lead(same)}; with the table's own scalings it "
                    f"{_lead(before)}."
                )
    return out


def _lead(points: Array) -> str:
    mean = float(points.mean())
    return (
        f"{'leads' if mean > 0 else 'trails'} the best baseline of each task by {abs(mean):.2f} points on average "
        f"and beats it on {int((points > 0).sum())} of {len(points)} tasks"
    )


def _leads(runs: PaperRuns, group: str, variant: str, tasks: Sequence[Task], baselines: Sequence[str]) -> Array:
    """For each task, the rate of the best baseline minus that of ODDM."""
    leads = []
    for task in tasks:
        cells = [runs.rows_of(group, task.name, m, variant) for m in (*baselines, "oddm")]
        if all(cells):
            means = [summarise(cell).mean for cell in cells]
            leads.append(min(means[:-1]) - means[-1])
    return np.array(leads)


def agreement(runs: PaperRuns) -> list[str]:
    """How close the table comes to the published one: mean and largest difference of each method."""
    out = []
    for method in runs.methods():
        found = []
        for task in runs.tasks():
            rows = runs.rows_of("table", task.name, method)
            paper = published.TABLE.get(task.name, {}).get(method)
            if rows and paper:
                found.append((summarise(rows).mean - paper[0], task.title))
        if found:
            worst = max(found, key=lambda pair: abs(pair[0]))
            mean = np.mean([abs(miss) for miss, _ in found])
            off = f"{mean:.2f} points from the published means on average, most on {worst[1]} ({signed(worst[0])})"
            one = f"{signed(worst[0])} points from the published mean on {worst[1]}"
            out.append(f"{runs.titles[method]}: {off if len(found) > 1 else one}.")
    return out
