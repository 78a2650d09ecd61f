"""The sections of the report, over whatever rows are there; what is not there says how to get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hedgerow.experiment.page import Part, Section, Text
from hedgerow.experiment.summaries import ENOUGH_ORDERS, summarise
from hedgerow.experiment.tables import Findings, Missing
from hedgerow.experiment.writer import Writer
from hedgerow.paper import comparisons, diagram, differences, figures, findings, settings, tables, theory_section
from hedgerow.paper.paper_runs import PaperRuns, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def missing(w: Writer[PaperRuns], part: str, what: str) -> Missing:
    """A part without rows, and the command that runs it."""
    return Missing(what, settings.command(w.runs, w.out, [part]))


def sections(w: Writer[PaperRuns]) -> Iterator[Section]:
    """All sections, one after the other; each saves its tables and figures when it is made."""
    has_table = w.runs.has("table")
    if has_table:
        yield Section("Table of mistakes", _table(w), "table")
        yield Section("Differences", _differences(w), "differences")
        yield Section("Along the stream", _stream(w), "stream")
    yield Section("Sensitivity", _sensitivity(w), "sensitivity")
    yield Section("Effect of the refresh", _refresh(w), "refresh")
    yield Section("The same preprocessing for everybody", _inputs(w), "inputs")
    if has_table:
        yield Section("Theory", _theory(w), "theory")
        yield Section("Statistics", _statistics(w), "statistics")
        yield Section("Time", [w.table(tables.seconds(w.runs, what)) for what in ("offline", "online")], "time")


def _table(w: Writer[PaperRuns]) -> list[Part]:
    parts: list[Part] = [w.table(tables.mistakes(w.runs))]
    if agreement := findings.agreement(w.runs):
        parts += [
            w.picture(
                "agreement",
                figures.agreement(w.runs),
                "Our mean mistake rates and the published ones, a panel for each method.",
                "Filled circles: ours; open squares: as published; lines are one standard deviation over the orders.",
            ),
            Findings(agreement),
        ]
    return parts


def _differences(w: Writer[PaperRuns]) -> list[Part]:
    marked = differences.sentences(w.runs)
    parts: list[Part] = []
    if marked:
        cells = "1 cell differs" if len(marked) == 1 else f"{len(marked)} cells differ"
        parts += [Text(f"{cells} from the published mean by more than both deviations together.")]
        parts += [Findings(marked)]
    elif not any(judged(summarise(rows)) for key, rows in w.runs.cells() if key[0] == "table"):
        parts += [Text(f"Which cells differ is not judged: that takes at least {ENOUGH_ORDERS} orders of a stream.")]
    else:
        parts += [Text("No cell differs from the published mean by more than both deviations together.")]
    if facts := differences.facts(w.runs):
        parts += [Text("Known without any run:"), Findings(facts)]
    if w.runs.has("ablation"):
        causes = differences.causes(w.runs)
        parts += [w.table(causes)] if causes else []
        parts += [w.table(table) for table in differences.ablation(w.runs)]
    else:
        parts.append(missing(w, "ablation", "Each option switched alone, to find the causes, was not run."))
    closest = [s for m in differences.HOMOTL if (s := differences.closest_definition(w.runs, m))]
    if closest:
        parts.append(Findings(closest))
        found = [differences.definitions(w.runs, m) for m in differences.HOMOTL]
        parts += [w.table(table) for table in found if table]
    else:
        parts.append(missing(w, "definitions", "Other definitions of HomOTL-I and HomOTL-II were not run."))
    return parts


def _stream(w: Writer[PaperRuns]) -> list[Part]:
    parts: list[Part] = [
        w.picture(
            "curves",
            figures.curves(w.runs),
            "Running mistake rate of all methods along the stream, a panel for each task.",
            "Mistakes so far in per cent of the instances so far: means over the orders, bands of one standard "
            "deviation (the paper's Fig. 2, for all tasks).",
        )
    ]
    if any(row.get("discrepancy") for row in w.runs.rows):
        parts.append(
            w.picture(
                "discrepancy",
                figures.discrepancy(w.runs),
                "Discrepancy between target and sources along the stream, relative to its start, on a log scale.",
                "The aggregate MMD distance of the objective for A, with the true labels of the whole stream (which no "
                "method sees), relative to its start and averaged over the sources: geometric means over the first "
                "orders, bands from the lowest to the highest (the paper's Fig. 3, for all tasks). The distance is not "
                "relative to the spread of the data, which every update of A reduces too.",
            )
        )
    return parts


def _sensitivity(w: Writer[PaperRuns]) -> list[Part]:
    over = "Means over the orders, bands of one standard deviation"
    return [
        *_swept(
            w,
            "C",
            figures.sensitivity_C,
            "Mistake rate of all methods against C, a panel for each task.",
            f"{over} (the paper's Fig. 4, for all tasks).",
        ),
        *_swept(
            w,
            "Tw",
            figures.sensitivity_Tw,
            "Mistake rate against the number of labels between two updates of A.",
            f"{over} (the paper's Fig. 5).",
        ),
    ]


def _swept(
    w: Writer[PaperRuns], option: str, draw: Callable[[PaperRuns], Figure], alt: str, caption: str
) -> list[Part]:
    """Figure and table of one option's values, or how to get them."""
    group, name = f"sensitivity-{option}", option.replace("Tw", "T_w")
    if not w.runs.has(group):
        return [missing(w, group, f"The sensitivity to {name} was not run.")]
    return [
        w.picture(group, draw(w.runs), alt, caption),
        w.table(tables.sensitivity(w.runs, group, name, figures.value_of)),
    ]


def _refresh(w: Writer[PaperRuns]) -> list[Part]:
    if not w.runs.has("refresh"):
        return [missing(w, "refresh", "No update of A, and updates by each rule, with and without centring: not run.")]
    return [
        Findings(findings.refresh(w.runs)),
        w.picture(
            "refresh",
            figures.refresh(w.runs),
            "Points gained by updating A, for each task and rule for classes not seen yet.",
            "Mistake rate without any update minus the rate with it: right of the line, updating helps.",
        ),
        w.table(tables.refresh(w.runs)),
    ]


def _inputs(w: Writer[PaperRuns]) -> list[Part]:
    if not w.runs.has("inputs"):
        return [missing(w, "inputs", "The table with the same preprocessing for every method was not run.")]
    variants = [v for v in ("centred", "zscore+unit") if v in w.runs.variants("inputs")]
    return [Findings(findings.inputs(w.runs)), *(w.table(tables.inputs(w.runs, variant)) for variant in variants)]


def _theory(w: Writer[PaperRuns]) -> list[Part]:
    parts: list[Part] = [Findings(theory_section.sentences(w.runs)), w.table(theory_section.summary(w.runs))]
    parts.append(
        w.picture(
            "counter-example",
            theory_section.figure(),
            "Mistakes along three streams that break the Theorem, beside its bound.",
            "Streams on which the Theorem is false. 'scores' is the paper's way to combine experts; the others have "
            "guarantees of their own.",
        )
    )
    parts.append(w.table(theory_section.table(w.runs)))
    if not w.runs.has("mixers"):
        parts.append(missing(w, "bound", "Mixers with a guarantee (vote, simplex scores, log-loss) were not run."))
    return parts


def _statistics(w: Writer[PaperRuns]) -> list[Part]:
    ranking = comparisons.ranking(w.runs)
    parts: list[Part] = [Findings(comparisons.sentences(w.runs, ranking))]
    if len(w.runs.methods()) > 1:
        parts.append(w.table(comparisons.within_tasks(w.runs)))
    if ranking is not None:
        parts += [
            w.picture(
                "critical-difference",
                diagram.critical_difference(ranking, w.runs.titles, w.runs.styles()),
                "Mean ranks of the methods on a line, with bars over those that Nemenyi's test cannot tell apart.",
                "Mean ranks over the tasks, the best on the left; a bar joins methods that Nemenyi's test cannot tell "
                "apart.",
            ),
            w.table(comparisons.ranks(w.runs, ranking)),
        ]
    return parts
