"""The sections of the report, over whatever rows are there; what is not there says how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.evaluate import plots
from hedgerow.evaluate.report import Part, Picture, Section, Text, write
from hedgerow.paper import comparisons, diagram, differences, figures, findings, settings, tables
from hedgerow.paper import theory_section as promises
from hedgerow.paper.book import Book
from hedgerow.paper.sheets import Findings, Missing, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150


@dataclass
class Writer:
    """Makes parts for the page from sheets and figures, and saves each as files on the way."""

    book: Book
    out: Path

    def sheet(self, sheet: Sheet) -> Sheet:
        """A table, saved as CSV, Markdown and LaTeX."""
        sheet.save(self.out / "tables")
        return sheet

    def picture(self, name: str, figure: Figure, alt: str, caption: str) -> Picture:
        """A figure, saved as PNG and SVG."""
        folder = self.out / "figures"
        folder.mkdir(parents=True, exist_ok=True)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once: each of the two files would do it twice
        figure.savefig(folder / f"{name}.png", dpi=DPI, bbox_inches="tight")
        text = plots.svg(figure)
        write(folder / f"{name}.svg", text)
        return Picture(text, plots.darkened(text), alt, caption)

    def missing(self, part: str, what: str) -> Missing:
        """A part without rows."""
        return Missing(what, settings.command(self.book, self.out, [part]))


def sections(w: Writer) -> Iterator[Section]:
    """All sections, one after the other; each saves its tables and figures when it is made."""
    has_table = w.book.has("table")
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
        yield Section("Time", [w.sheet(tables.seconds(w.book, what)) for what in ("offline", "online")], "time")


def _table(w: Writer) -> list[Part]:
    parts: list[Part] = [w.sheet(tables.mistakes(w.book))]
    if agreement := findings.agreement(w.book):
        parts += [
            w.picture(
                "agreement",
                figures.agreement(w.book),
                "Our mean mistake rates and the published ones, a panel for each method.",
                "Filled circles: ours; open squares: as published; lines are one standard deviation over the orders.",
            ),
            Findings(agreement),
        ]
    return parts


def _differences(w: Writer) -> list[Part]:
    marked = differences.sentences(w.book)
    parts: list[Part] = []
    if marked:
        cells = "1 cell differs" if len(marked) == 1 else f"{len(marked)} cells differ"
        parts += [Text(f"{cells} from the published mean by more than both deviations together.")]
        parts += [Findings(marked)]
    else:
        parts += [Text("No cell differs from the published mean by more than both deviations together.")]
    if facts := differences.facts(w.book):
        parts += [Text("Known without any run:"), Findings(facts)]
    if w.book.has("ablation"):
        causes = differences.causes(w.book)
        parts += [w.sheet(causes)] if causes else []
        parts += [w.sheet(sheet) for sheet in differences.ablation(w.book)]
    else:
        parts.append(w.missing("ablation", "Each option switched alone, to find the causes, was not run."))
    closest = [s for m in differences.HOMOTL if (s := differences.closest_definition(w.book, m))]
    if closest:
        parts.append(Findings(closest))
        sheets = [differences.definitions(w.book, m) for m in differences.HOMOTL]
        parts += [w.sheet(sheet) for sheet in sheets if sheet]
    else:
        parts.append(w.missing("definitions", "Other definitions of HomOTL-I and HomOTL-II were not run."))
    return parts


def _stream(w: Writer) -> list[Part]:
    parts: list[Part] = [
        w.picture(
            "curves",
            figures.curves(w.book),
            "Running mistake rate of all methods along the stream, a panel for each task.",
            "Mistakes so far in per cent of the instances so far: means over the orders, bands of one standard "
            "deviation (the paper's Fig. 2, for all tasks).",
        )
    ]
    if any(row.get("discrepancy") for row in w.book.rows):
        parts.append(
            w.picture(
                "discrepancy",
                figures.discrepancy(w.book),
                "Discrepancy between target and sources along the stream, relative to its start, on a log scale.",
                "The aggregate MMD distance of the objective for A, with the true labels of the whole stream (which no "
                "method sees), relative to its start and averaged over the sources: geometric means over the first "
                "orders, bands from the lowest to the highest (the paper's Fig. 3, for all tasks). The distance is not "
                "relative to the spread of the data, which every update of A reduces too.",
            )
        )
    return parts


def _sensitivity(w: Writer) -> list[Part]:
    parts: list[Part] = []
    if w.book.has("sensitivity-C"):
        parts += [
            w.picture(
                "sensitivity-C",
                figures.sensitivity_C(w.book),
                "Mistake rate of all methods against C, a panel for each task.",
                "Means over the orders, bands of one standard deviation (the paper's Fig. 4, for all tasks).",
            ),
            w.sheet(tables.sensitivity(w.book, "sensitivity-C", "C", figures.value_of)),
        ]
    else:
        parts.append(w.missing("sensitivity-C", "The sensitivity to C was not run."))
    if w.book.has("sensitivity-Tw"):
        parts += [
            w.picture(
                "sensitivity-Tw",
                figures.sensitivity_Tw(w.book),
                "Mistake rate against the number of labels between two updates of A.",
                "Means over the orders, bands of one standard deviation (the paper's Fig. 5).",
            ),
            w.sheet(tables.sensitivity(w.book, "sensitivity-Tw", "T_w", figures.value_of)),
        ]
    else:
        parts.append(w.missing("sensitivity-Tw", "The sensitivity to T_w was not run."))
    return parts


def _refresh(w: Writer) -> list[Part]:
    if not w.book.has("refresh"):
        return [w.missing("refresh", "No update of A, and updates by each rule, with and without centring: not run.")]
    return [
        Findings(findings.refresh(w.book)),
        w.picture(
            "refresh",
            figures.refresh(w.book),
            "Points gained by updating A, for each task and rule for classes not seen yet.",
            "Mistake rate without any update minus the rate with it: right of the line, updating helps.",
        ),
        w.sheet(tables.refresh(w.book)),
    ]


def _inputs(w: Writer) -> list[Part]:
    if not w.book.has("inputs"):
        return [w.missing("inputs", "The table with the same preprocessing for every method was not run.")]
    variants = [v for v in ("centred", "zscore+unit") if v in w.book.variants("inputs")]
    return [Findings(findings.inputs(w.book)), *(w.sheet(tables.inputs(w.book, variant)) for variant in variants)]


def _theory(w: Writer) -> list[Part]:
    parts: list[Part] = [Findings(promises.sentences(w.book)), w.sheet(promises.summary(w.book))]
    parts.append(
        w.picture(
            "counter-example",
            promises.figure(),
            "Mistakes along three streams that break the Theorem, beside its bound.",
            "Streams on which the Theorem is false. 'scores' is the paper's way to combine experts; the others have "
            "guarantees of their own.",
        )
    )
    parts.append(w.sheet(promises.table(w.book)))
    if not w.book.has("mixers"):
        parts.append(w.missing("bound", "Mixers with a guarantee (vote, simplex scores, log-loss) were not run."))
    return parts


def _statistics(w: Writer) -> list[Part]:
    ranking = comparisons.ranking(w.book)
    parts: list[Part] = [Findings(comparisons.sentences(w.book, ranking))]
    if len(w.book.methods()) > 1:
        parts.append(w.sheet(comparisons.within_tasks(w.book)))
    if ranking is not None:
        parts += [
            w.picture(
                "critical-difference",
                diagram.critical_difference(ranking, w.book.titles, w.book.styles()),
                "Mean ranks of the methods on a line, with bars over those that Nemenyi's test cannot tell apart.",
                "Mean ranks over the tasks, the best on the left; a bar joins methods that Nemenyi's test cannot tell "
                "apart.",
            ),
            w.sheet(comparisons.ranks(w.book, ranking)),
        ]
    return parts
