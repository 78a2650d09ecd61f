"""The section on theory: every claim beside every run, and the streams that break the Theorem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.evaluate.plots import Theme, colour_of, draw_line, label_ends, style
from hedgerow.experiment.tables import Table, Value, values
from hedgerow.paper.counterexamples import Example, learned_experts, loud_expert, split_vote
from hedgerow.paper.paper_runs import PaperRuns
from hedgerow.paper.tasks import TASKS
from hedgerow.paper.theory import CLAIMS, Verdict, verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIO, BEST, LEARNED_RATIO = 4.0, 25, 100.0  # the counter-examples that are drawn
CLAIM_TITLES = {
    "theorem": "the Theorem, on mistakes",
    "theorem, loss": "the Theorem's bound, on the weighted loss (with our beta, not the one it asks for)",
    "step": "Hedge's bound for the beta used, on mistakes",
    "hedge": "Hedge's bound for the beta used, on the weighted loss",
    "vote": "weighted vote",
    "simplex": "simplex scores",
    "log-loss": "log-loss mixture",
}


def table(runs: PaperRuns) -> Table:
    """One line for each task, method, variant and claim."""
    found = verdicts(runs.rows)
    order = {name: i for i, name in enumerate(TASKS)}
    found.sort(key=lambda v: (v.variant, runs.styles()[v.method], order.get(v.task, 99), list(CLAIMS).index(v.claim)))
    rows = [
        values([
            TASKS[v.task].title if v.task in TASKS else v.task,
            runs.titles[v.method] + (f", {v.variant}" if v.variant else ""),
            CLAIM_TITLES[v.claim], f"{v.mistakes:.1f}", f"{v.best:.1f}", f"{v.value:.1f}", f"{v.bound:.1f}",
            f"{v.nearest:.2f}", f"{v.violations}/{v.runs}",
        ])
        for v in found
    ]  # fmt: skip
    header = ["task", "method", "claim", "M", "M_min", "bounded", "bound", "nearest", "broken"]
    note = (
        "Means over the runs: mistakes M, mistakes of the best expert M_min, the quantity that the claim bounds and "
        "its bound. Nearest: the largest ratio of the two in any run; above 1 the claim was broken."
    )
    records = [
        {"task": v.task, "method": v.method, "variant": v.variant, "claim": v.claim, "proved": CLAIMS[v.claim].proved,
         "mistakes": v.mistakes, "best_expert": v.best, "bounded": v.value, "bound": v.bound, "nearest": v.nearest,
         "broken": v.violations, "runs": v.runs}
        for v in found
    ]  # fmt: skip
    return Table("bounds", "Every claim, task by task", header, rows, note, records, folded=True)


def summary(runs: PaperRuns) -> Table:
    """Each claim against each method: in how many runs it was broken, and how near it came."""
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for v in verdicts(runs.rows):
        groups.setdefault((v.claim, v.method, v.variant), []).append(v)
    columns = sorted({key[1:] for key in groups}, key=lambda key: (key[1] != "", runs.styles()[key[0]], key[1]))
    rows = []
    for claim in (claim for claim in CLAIMS if any(key[0] == claim for key in groups)):
        cells = [
            Value(CLAIM_TITLES[claim], CLAIMS[claim].formula, "words"),
            Value("yes" if CLAIMS[claim].proved else "no"),
        ]
        for column in columns:
            found = groups.get((claim, *column), [])
            broken, total = sum(v.violations for v in found), sum(v.runs for v in found)
            near = max((v.nearest for v in found), default=0.0)
            cells.append(Value(f"{broken} of {total}", f"{near:.2f}", "far" if broken else "") if found else Value("–"))
        rows.append(cells)
    header = ["claim", "proved", *(runs.titles[m] + (f", {variant}" if variant else "") for m, variant in columns)]
    note = (
        "In each cell: how many runs broke the claim; below, the largest ratio of the quantity to its bound in any "
        "run; above 1 the claim is broken (†). M_min: mistakes of the best of N experts; L: an expert's loss."
    )
    return Table("claims", "What is promised and what happened", header, rows, note)


def sentences(runs: PaperRuns) -> list[str]:
    """Which claims hold in the runs, and that one of them is false all the same."""
    groups: dict[str, list[Verdict]] = {}
    for v in verdicts(runs.rows):
        groups.setdefault(v.claim, []).append(v)
    out = []
    for claim in (claim for claim in CLAIMS if claim in groups):
        found = groups[claim]
        total, broken = sum(v.runs for v in found), sum(v.violations for v in found)
        where = sorted({TASKS[v.task].title for v in found if not v.holds and v.task in TASKS})
        kept = f"broken in {broken} of {total} runs ({', '.join(where)})" if broken else f"kept in all {total} runs"
        title = CLAIM_TITLES[claim][0].upper() + CLAIM_TITLES[claim][1:]
        out.append(f"{title} ({'proved' if CLAIMS[claim].proved else 'not proved'}): {kept}.")
    example = loud_expert(RATIO, BEST)
    out.append(
        f"The Theorem is false: with one expert whose scores are {RATIO:g} times as large as those of the best, summed "
        f"scores err {int(example.mistakes['scores'][-1])} times where it allows {example.bounds['theorem']:.1f}, and "
        f"the number grows without limit as the scores grow. Where it held above, that is luck of the data."
    )
    return out


def examples() -> list[Example]:
    """The streams that are drawn: scripted scores, a disagreement, and the method itself."""
    return [loud_expert(RATIO, BEST), split_vote(BEST), learned_experts(LEARNED_RATIO)]


def figure(theme: Theme = "light", shown: Sequence[Example] | None = None) -> Figure:
    """Mistakes of each combination on the streams that break the Theorem, beside its bound."""
    from matplotlib.figure import Figure as NewFigure

    shown = examples() if shown is None else shown
    with style(theme) as colours:
        figure = NewFigure(figsize=(4.6 * len(shown), 3.7), layout="constrained")
        for i, example in enumerate(shown, start=1):
            axes = figure.add_subplot(1, len(shown), i)
            ends = []
            last = min(len(example.weighted_loss), 3 * max(int(example.mistakes["scores"][-1]), 10))
            for j, (name, counts) in zip((6, 5, 3, 4), example.mistakes.items(), strict=False):
                draw_line(axes, np.arange(1, last + 1), counts[:last], j, colour_of(j, colours))
                ends.append((float(counts[last - 1]), name, colour_of(j, colours)))
            bound = example.bounds["theorem"]
            axes.axhline(bound, color=colours["text"], linewidth=2)
            ends.append((bound, "Theorem's bound", colours["text"]))
            axes.set(title=example.title, xlabel="rounds", xlim=(0, last))
            axes.set_ylim(0, 1.15 * max(bound, *(end[0] for end in ends)))
            label_ends(axes, ends, gap=0.075)
        figure.axes[0].set_ylabel("mistakes so far")
        return figure
