"""The report of `hedgerow paper`: every table and figure of the paper, the published numbers beside ours.

A section is a function from the rows to what stands in it (`SECTIONS`); what was not run says how to get it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.lab import theory
from hedgerow.lab.figures import Dots, Line, Panel, critical_difference, dots, draw
from hedgerow.lab.paper import (
    FAMILIES,
    PUBLISHED,
    PUBLISHED_METHODS,
    PUBLISHED_ORDERS,
    RULES,
    TASKS,
    UPDATES,
    family_of,
)
from hedgerow.lab.report import Figure, Missing, Part, Report, Section, Table, Value, chance, count, paragraph, signed
from hedgerow.lab.rows import ENOUGH_ORDERS, Cell, Runs, Say
from hedgerow.lab.runner import commands_given
from hedgerow.lab.stats import ALPHA, Ranking, against, friedman
from hedgerow.lab.tasks import options_read, reading_answers
from hedgerow.methods import METHODS

TITLE = "HomOTL-ODDM, reproduced"
ABOUT = (
    "The experiments of Du, Tan, Chen, Zhang and Wang (ECAI 2020) on online transfer learning from several sources, "
    "run again on their tasks: published numbers beside ours, and what the data says about the paper's claims."
)

# -- rows beside the published numbers --------------------------------------------------------------------------


class PaperRuns(Runs):
    """The rows of `hedgerow paper`, and the command that ran them; without a group, those of the table are meant."""

    command = "hedgerow paper"

    def tasks(self, group: str = "table") -> list[str]:
        """Tasks with rows in a group, in the paper's order."""
        there = set(super().tasks(group))
        return [task for task in TASKS if task in there]

    def methods(self, group: str = "table") -> list[str]:
        """Methods with rows in a group, in the paper's order."""
        return super().methods(group)

    def at(self, task: str, method: str) -> Cell | None:
        """A cell of the table."""
        return self.cell("table", task, method)

    def means(self, group: str, tasks: Sequence[str], method: str, variant: str = "") -> Array:
        """The mean rates on these tasks; NaN where nothing was run."""
        cells = [self.cell(group, task, method, variant) for task in tasks]
        return np.array([cell.mean if cell else np.nan for cell in cells])

    def change(self, task: str, method: str, variant: str) -> float:
        """Points by which a switch changes the table's mean, over the orders that both have; NaN without any."""
        base, other = (self.part(*key) for key in (("table", task, method), ("ablation", task, method, variant)))
        base = base[base["split"] == 0].set_index("trial")["rate"]
        return float((other.set_index("trial")["rate"] - base).mean())

    def far_cells(self) -> list[tuple[str, str, Cell]]:
        """All cells of the table that differ from the published ones by more than both spreads."""
        cells = ((task, m, self.at(task, m)) for task in self.tasks() for m in self.methods())
        return [(task, method, cell) for task, method, cell in cells if cell and far(cell, task, method)]


def judged(cell: Cell) -> bool:
    """Whether a cell has orders enough that its spread says something."""
    return cell.orders // cell.splits >= ENOUGH_ORDERS


def far(cell: Cell, task: str, method: str) -> bool:
    """Whether our mean differs from the published one by more than both spreads together."""
    paper = PUBLISHED.get((task, method))
    return paper is not None and judged(cell) and abs(cell.mean - paper.mean) > cell.spread + paper.spread


def lowest(cells: Sequence[Cell | None]) -> list[Value]:
    """Cells of a row, the lowest marked."""
    low = min((cell.mean for cell in cells if cell), default=0.0)
    return [Value(str(c), mark="best" if c.mean == low else "") if c else Value("–") for c in cells]


def _orders(runs: PaperRuns, group: str) -> str:
    counts = sorted({cell.orders for cell in runs.cells(group)})
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Mean ± standard deviation over {span} order{'' if counts[-1] == 1 else 's'}, in per cent; the lowest of"


# -- sections ---------------------------------------------------------------------------------------------------


def mistakes(runs: PaperRuns) -> Table:
    """The paper's table: mean and spread in each cell, the published numbers below them, the average over the tasks."""
    tasks, methods = runs.tasks(), runs.methods()
    cells, records = [], []
    for task in tasks:
        row = lowest([runs.at(task, m) for m in methods])
        for j, method in enumerate(methods):
            cell, paper = runs.at(task, method), PUBLISHED.get((task, method))
            if cell:
                marks = " ".join((["far"] if far(cell, task, method) else []) + row[j].mark.split())
                row[j] = Value(row[j].text, str(paper) if paper else "", marks)
                records.append(_record(task, method, cell, paper))
        cells.append([TASKS[task], *row])
    if len(tasks) > 1:
        theirs = {m: [PUBLISHED[task, m].mean for task in tasks if (task, m) in PUBLISHED] for m in methods}
        below = {m: f"{np.mean(means):.2f}" if means else "" for m, means in theirs.items()}
        ours = {m: float(runs.means("table", tasks, m).mean()) for m in methods}
        cells.append(["Average", *(Value(f"{x:.2f}", below[m]) if x == x else "–" for m, x in ours.items())])
    all_cells = runs.cells("table")
    counts = " or ".join(map(str, sorted({c.orders // c.splits for c in all_cells})))
    over, splits = f"{counts} order{'s' if counts != '1' else ''} of the stream", max(c.splits for c in all_cells)
    spread = f"mean ± standard deviation over {over}"
    if splits > 1:
        spread = f"mean ± deviation over {over} within a split ± deviation of the means of {splits} splits"
    marks = (
        "†, shaded amber: differs from the published mean by more than both deviations together; see Differences."
        if any(map(judged, all_cells))
        else f"With fewer than {ENOUGH_ORDERS} orders nothing is marked as different from the published mean."
    )
    note = (
        f"First ours, {spread}; then, below or in brackets, as published ({PUBLISHED_ORDERS} orders; the average is of "
        f"the same tasks). Shaded green: the lowest of the row. {marks}"
    )
    header = ["task", *(runs.titles[m] for m in methods)]
    return Table("mistakes", "Mistakes in per cent of the stream", header, cells, note, records)


def _record(task: str, method: str, cell: Cell, paper: Cell | None) -> dict[str, Any]:
    return {
        "task": task, "method": method, "mean": round(cell.mean, 4), "sd_orders": round(cell.sd, 4),
        "sd_splits": round(cell.between, 4) if cell.splits > 1 else None, "runs": cell.orders, "splits": cell.splits,
        "published_mean": paper.mean if paper else None, "published_sd": paper.sd if paper else None,
        "difference": round(cell.mean - paper.mean, 4) if paper else None, "marked": far(cell, task, method),
    }  # fmt: skip


def _table_section(runs: PaperRuns) -> Iterator[Part]:
    yield mistakes(runs)
    tasks, agreement, panels = runs.tasks(), [], {}
    for method in runs.methods():
        cells = [(runs.at(task, method), PUBLISHED.get((task, method)), TASKS[task]) for task in tasks]
        misses = [(cell.mean - paper.mean, title) for cell, paper, title in cells if cell and paper]
        if misses:
            worst = max(misses, key=lambda pair: abs(pair[0]))
            mean = np.mean([abs(miss) for miss, _ in misses])
            off = f"{mean:.2f} points from the published means on average, most on {worst[1]} ({signed(worst[0])})"
            one = f"{signed(worst[0])} points from the published mean on {worst[1]}"
            agreement.append(f"{runs.titles[method]}: {off if len(misses) > 1 else one}.")
            ours = [(c.mean, c.spread) if c else (np.nan, 0.0) for c, _, _ in cells]
            theirs = [(p.mean, p.sd) if p else (np.nan, 0.0) for _, p, _ in cells]
            panels[runs.titles[method]] = [
                Dots("ours", 5, [x for x, _ in ours], [sd for _, sd in ours]),
                Dots("published", 0, [x for x, _ in theirs], [sd for _, sd in theirs], hollow=True),
            ]
    if agreement:
        size = (2.3, 1.0 + 0.24 * len(tasks))
        figure = dots(panels, [TASKS[t] for t in tasks], "mistakes, %", columns=4, size=size, step=0.34, line=False)
        shows = "Our mean mistake rates (filled) and the published ones (open), a panel for each method."
        yield Figure("agreement", figure, shows, "Lines are one standard deviation over the orders.")
        yield agreement


ALIKE = 0.3  # points: a switch that comes within this of the best one explains a cell as well
HOMOTL = ("homotl-1", "homotl-2")
UNKNOWN_ORDER = ("paio", "homotlms", *HOMOTL)
PIE_IMAGES = (
    "The PIE images at hand went through JPEG, so their pixels are not the published ones: every PIE row may "
    "move for that reason alone, and no switch can show it."
)
SOURCE_ORDER = (
    "The order of the source rows behind the published baselines is not known. Here each order "
    "of the stream draws its own (reading 'table'), so our deviations include its effect."
)
DEFINITIONS = (
    "HomOTL-I and HomOTL-II were published for two classes; how the paper extended them to several is not "
    "known. The definitions that were tried are in the table of definitions."
)


def switches(runs: PaperRuns, task: str, method: str, cell: Cell) -> list[tuple[str, float]]:
    """Every switch of the ablation and the cell's distance from the published mean with it, the closest first."""
    miss = cell.mean - PUBLISHED[task, method].mean
    changes = ((variant, runs.change(task, method, variant)) for variant in runs.variants("ablation", method))
    return sorted(((v, miss + change) for v, change in changes if change == change), key=lambda pair: abs(pair[1]))


def explain(runs: PaperRuns, task: str, method: str, cell: Cell) -> str:
    """Sentences on a marked cell: how far off it is, and which single switch, if any was run, brings it closest."""
    paper = PUBLISHED[task, method]
    miss, room = cell.mean - paper.mean, cell.spread + paper.sd
    causes = ["an unknown definition for several classes"] if method in HOMOTL else []
    causes += ["pixels that went through JPEG"] if family_of(task) == "pie" else []
    causes += ["an unknown order of the source rows"] if method in UNKNOWN_ORDER else []
    unproved = f"Possible, not shown: {', '.join(causes)}." if causes else "No cause is known."
    start = (
        f"{runs.titles[method]} on {TASKS[task]}: {cell.mean:.2f}, published {paper.mean:.2f}, {signed(miss)} points "
        f"(both deviations together: {room:.2f})."
    )
    tried = switches(runs, task, method, cell)
    if not tried:
        return f"{start} No single switch was tried on it. {unproved}"
    best, left = tried[0]
    inside = abs(left) <= room
    if abs(left) >= abs(miss):
        cause = f"None of the {len(tried)} single switches brings it closer."
    else:
        cause = (
            f"Of {len(tried)} single switches, {best} brings it closest: {paper.mean + left:.2f} "
            f"({signed(left)}), {'inside' if inside else 'still outside'} the deviations."
        )
        others = [(v, m) for v, m in tried[1:] if abs(m) <= min(abs(left) + ALIKE, abs(miss))]
        if others:
            cause += f" About as close: {'; '.join(f'{v} ({signed(m)})' for v, m in others[:3])}."
    return paragraph([start, cause, "" if inside else unproved])


def causes(runs: PaperRuns) -> Table | None:
    """Each marked cell's distance from the published mean under each single switch; None if there is none."""
    rows, records = [], []
    for task, method, cell in runs.far_cells():
        tried, miss = switches(runs, task, method, cell), cell.mean - PUBLISHED[task, method].mean
        if tried:
            moves = [f"{variant} {signed(left)}" for variant, left in tried]
            rows.append(
                [TASKS[task], runs.titles[method], signed(miss), moves[0], Value("; ".join(moves[1:4]), mark="words")]
            )
            shared = {"task": task, "method": method, "difference": round(miss, 4)}
            records += [shared | {"switch": v, "difference_with_switch": round(left, 4)} for v, left in tried]
    header = ["task", "method", "difference", "closest switch", "next"]
    note = "Differences from the published mean in points, as run and with one option switched; the CSV has all."
    title = "Marked cells and the switches that move them"
    return Table("differences", title, header, rows, note, records) if rows else None


def ablation(runs: PaperRuns, method: str) -> Table:
    """What each single switch does to each task, in points against the table."""
    tasks, rows, records = runs.tasks("ablation"), [], []
    for variant in runs.variants("ablation", method):
        changes = [runs.change(task, method, variant) for task in tasks]
        rows.append([variant, *map(signed, changes), signed(float(np.mean(changes)))])
        shared = {"method": method, "variant": variant}
        records += [shared | {"task": t, "change": round(c, 4)} for t, c in zip(tasks, changes, strict=True)]
    note = "Change of the mean mistake rate in points, over the same orders; below zero is better than the table's."
    header = ["switch", *(TASKS[task] for task in tasks), "mean"]
    title = f"One switch at a time: {runs.titles[method]}"
    return Table(f"ablation-{method}", title, header, rows, note, records, folded=True)


def definitions(runs: PaperRuns, method: str) -> tuple[str, Table] | None:
    """Each definition of HomOTL-I or -II against the published numbers, the closest first, and which one that is."""
    tasks = [task for task in runs.tasks("definitions") if (task, method) in PUBLISHED]
    paper = np.array([PUBLISHED[task, method].mean for task in tasks])
    misses = {v: runs.means("definitions", tasks, method, v) - paper for v in runs.variants("definitions", method)}
    ranked = sorted(
        ((v, each) for v, each in misses.items() if len(each) and np.isfinite(each).all()),
        key=lambda pair: float(np.abs(pair[1]).mean()),
    )
    if not ranked:
        return None
    variant, best = ranked[0]
    worst = int(np.argmax(np.abs(best)))
    sentence = (
        f"{runs.titles[method]}: of {len(ranked)} definitions, '{variant}' is closest over "
        f"{count(len(tasks), 'task')}; it misses the published means by {np.mean(np.abs(best)):.2f} points "
        f"on average, most on {TASKS[tasks[worst]]} ({signed(best[worst])})."
    )
    rows = [[v, *map(signed, each), f"{np.abs(each).mean():.2f}", signed(max(each, key=abs))] for v, each in ranked]
    header = ["definition", *(TASKS[task] for task in tasks), "mean miss", "largest"]
    note = "Our mean minus the published one, in points; the mean is of absolute values. The closest comes first."
    title = f"Definitions of {runs.titles[method]} for several classes"
    return sentence, Table(f"definitions-{method}", title, header, rows, note)


def _differences(runs: PaperRuns) -> Iterator[Part]:
    marked = runs.far_cells()
    if marked:
        cells = "1 cell differs" if len(marked) == 1 else f"{len(marked)} cells differ"
        yield f"{cells} from the published mean by more than both deviations together."
        yield [explain(runs, *each) for each in marked]
    elif not any(map(judged, runs.cells("table"))):
        yield f"Which cells differ is not judged: that takes at least {ENOUGH_ORDERS} orders of a stream."
    else:
        yield "No cell differs from the published mean by more than both deviations together."
    methods = set(runs.methods())
    known = [PIE_IMAGES] if any(family_of(task) == "pie" for task in runs.tasks()) else []
    known += [SOURCE_ORDER] if set(UNKNOWN_ORDER) & methods else []
    known += [DEFINITIONS] if set(HOMOTL) & methods else []
    if known:
        yield "Known without any run:"
        yield known
    if runs.has("ablation"):
        yield causes(runs)
        yield from (ablation(runs, method) for method in runs.methods("ablation"))
    else:
        yield _missing(runs, "ablation", "Each option switched alone, to find the causes, was not run.")
    closest = [each for method in HOMOTL if (each := definitions(runs, method))]
    if closest:
        yield [sentence for sentence, _ in closest]
        yield from (table for _, table in closest)
    else:
        yield _missing(runs, "definitions", "Other definitions of HomOTL-I and HomOTL-II were not run.")


def _missing(runs: PaperRuns, part: str, what: str) -> Missing:
    """A part without rows: what it would show, and how to get it."""
    return Missing(what, f"{runs.command} --what {part} --resume")


def _along(runs: PaperRuns, column: str, log: str) -> list[Panel]:
    """A curve of the table's runs, a panel for each task, from the start of its stream to the end."""
    panels = []
    for task in runs.tasks():
        lines = []
        for method in runs.methods():
            part = runs.part("table", task, method)
            part = part[part[column].map(bool)] if column in part else part[:0]
            if len(part):
                at = np.array(part[f"{column}_at"].iloc[0])
                values = np.array([row for row in part[column] if len(row) == len(at)], dtype=float)
                name, j, x = runs.titles[method], runs.styles[method], 100 * at / at[-1]
                if log:
                    ratios = values / values[:, :1]
                    middle = np.exp(np.log(ratios).mean(axis=0))
                    lines.append(Line(name, j, x, middle, ratios.min(axis=0), ratios.max(axis=0)))
                else:
                    lines.append(Line.sd(name, j, x, 100 * values / at))
        n = runs.frame[(runs.frame["group"] == "table") & (runs.frame["task"] == task)]["n"].iloc[0]
        ylabel = "discrepancy / its start" if log else "mistakes so far, %"
        if lines:
            panels.append(Panel(f"{TASKS[task]}, {n} instances", lines, "share of the stream, %", ylabel, (0.0, 100.0)))
    return panels


def _stream(runs: PaperRuns) -> Iterator[Part]:
    yield Figure(
        "curves",
        draw(_along(runs, "curve", "")),
        "Mistakes so far in per cent of the instances so far, along the stream (the paper's Fig. 2, for all tasks).",
        "Means over the orders, bands of one standard deviation.",
    )
    distances = _along(runs, "discrepancy", "y")
    if distances:
        yield Figure(
            "discrepancy",
            draw(distances, log="y"),
            "Discrepancy between target and sources along the stream (the paper's Fig. 3, for all tasks).",
            "The aggregate MMD distance of the objective for A, with the true labels of the whole stream (which no "
            "method sees), relative to its start and averaged over the sources: geometric means over the first "
            "orders, bands from the lowest to the highest. It is not relative to the spread of the data, which every "
            "update of A reduces too.",
        )


def value_of(variant: str) -> float:
    """The number in a variant's name.

    >>> value_of("C=0.05")
    0.05
    """
    return float(variant.partition("=")[2])


def sensitivity(runs: PaperRuns, option: str) -> Iterator[Part]:
    """Mistakes against the values of C (a panel a task) or of T_w (a panel a method and family): figure and table."""
    group, name = f"sensitivity-{option}", option.replace("Tw", "T_w")
    if not runs.has(group):
        yield _missing(runs, group, f"The sensitivity to {name} was not run.")
        return
    values = sorted(runs.variants(group), key=value_of)
    tasks, methods = runs.tasks(group), runs.methods(group)

    def line(task: str, method: str, name: str, style: int) -> Line:
        rates = {value_of(v): runs.rates(group, task, method, v).to_numpy() for v in values}
        rates = {value: each for value, each in rates.items() if len(each)}
        mean, sd = (np.array([f(each) for each in rates.values()]) for f in (np.mean, np.std))
        return Line(name, style, np.array(list(rates)), mean, mean - sd, mean + sd)

    if option == "C":
        of_task = {t: [line(t, m, runs.titles[m], runs.styles[m]) for m in methods] for t in tasks}
        panels = [Panel(TASKS[t], lines, "C", "mistakes, %") for t, lines in of_task.items()]
        figure = draw(panels, log="x", sparse=False)
        shows = "Mistake rate of all methods against C (the paper's Fig. 4, for all tasks)."
    else:
        families = [family for family in FAMILIES if any(family_of(task) == family for task in tasks)]
        panels = [
            Panel(
                f"{runs.titles[method]}, {FAMILIES[family]}",
                [line(t, method, TASKS[t], j) for j, t in enumerate(t for t in tasks if family_of(t) == family)],
                "labels between two updates, $T_w$", "mistakes, %",
            )
            for method in methods
            for family in families
        ]  # fmt: skip
        figure = draw(panels, columns=len(families), size=(4.9, 3.6), names="ends", log="x", sparse=False, shared=False)
        shows = "Mistake rate against the number of labels between two updates of A (the paper's Fig. 5)."
    yield Figure(group, figure, shows, "Means over the orders, bands of one standard deviation.")
    rows = []
    for task in tasks:
        for method in methods:
            cells = [runs.cell(group, task, method, v) for v in values]
            if any(cells):
                rows.append([TASKS[task], runs.titles[method], *lowest(cells)])
    note = f"{_orders(runs, group)} the row is shaded."
    yield Table(group, f"Sensitivity to {name}", ["task", "method", *values], rows, note, folded=True)


# -- the effect of the refresh, the same inputs for everybody ---------------------------------------------------

RULE_WORDS = {
    "zero": "classes not seen yet at zero (the released code)",
    "skip": "classes not seen yet left out (the printed formula)",
    "shrink": "class means shrunk by n_k/(n_k + kappa)",
}
SMALL = 0.25  # points: less is called no change


def _refresh_means(runs: PaperRuns, tasks: Sequence[str], variant: str) -> Array:
    return runs.means("refresh", tasks, "oddm-fixed" if variant.endswith("fixed") else "oddm", variant)


def refresh(runs: PaperRuns) -> Iterator[Part]:
    """Does updating A help, and how much of the gain does centring alone give?"""
    if not runs.has("refresh"):
        yield _missing(runs, "refresh", "No update of A, and updates by each rule, with and without centring: not run.")
        return
    tasks, labels = runs.tasks("refresh"), {"": "as given", "centred ": "every domain centred"}
    yield [sentence for family in FAMILIES for sentence in refresh_sentences(runs, family)]
    gains = {
        title: [
            Dots(
                f"unseen classes {RULES[rule].removeprefix('unseen ')}", j,
                _refresh_means(runs, tasks, f"{label}fixed") - _refresh_means(runs, tasks, label + rule),
            )
            for j, rule in enumerate(UPDATES, start=4)
        ]
        for label, title in labels.items()
    }  # fmt: skip
    names = [TASKS[task] for task in tasks]
    figure = dots(gains, names, "points gained by updating A", columns=2, size=(4.1, 0.7 + 0.36 * len(tasks)))
    shows = "Mistake rate without any update of A minus the rate with it, for each rule for classes not seen yet."
    yield Figure("refresh", figure, shows, "Right of the line, updating helps.")
    rows = []
    for task in tasks:
        halves = [
            [runs.cell("refresh", task, "oddm-fixed" if r == "fixed" else "oddm", label + r) for r in RULES]
            for label in labels
        ]
        rows.append([TASKS[task], *(value for half in halves for value in lowest(half))])
    note = (
        f"{_orders(runs, 'refresh')} each half is shaded. "
        "Centred: every domain's own mean is subtracted first (the target's is the running mean, never ahead of the "
        "stream), then rows are scaled to unit length."
    )
    header = ["task", *(f"{label}{title}" for label in ("", "centred: ") for title in RULES.values())]
    yield Table("refresh", "Effect of the refresh", header, rows, note)


def refresh_sentences(runs: PaperRuns, family: str) -> Iterator[str]:
    """What the update and centring do on the tasks of a family that were run with every rule."""
    title, tasks = FAMILIES[family], [task for task in runs.tasks("refresh") if family_of(task) == family]
    means = {label + rule: _refresh_means(runs, tasks, label + rule) for label in ("", "centred ") for rule in RULES}
    whole = np.isfinite(np.array(list(means.values()))).all(axis=0) if tasks else np.zeros(0, dtype=bool)
    if not whole.any():
        return
    means = {name: values[whole] for name, values in means.items()}
    gains = {rule: means["fixed"] - means[rule] for rule in UPDATES}
    centred = {rule: means["centred fixed"] - means[f"centred {rule}"] for rule in UPDATES}
    centring = means["fixed"] - means["centred fixed"]
    for rule in UPDATES:
        yield f"{title}: {helps(gains[rule], f'updating A with {RULE_WORDS[rule]}')}"
    yield f"{title}: {helps(centring, 'centring every domain, without any update of A,')}"
    after = ", ".join(f"{signed(-float(gain.mean()))} ({rule})" for rule, gain in centred.items())
    yield (
        f"{title}: after centring, updating A changes the rate by {after} points on average; before it, by "
        f"{signed(-float(gains['zero'].mean()))} (zero)."
    )
    update = float(gains["zero"].mean())
    if update <= SMALL:
        yield f"{title}: as published, the update gains nothing on average that centring could account for."
        return
    gone, by_centring = 1 - max(float(centred["zero"].mean()), 0.0) / update, float(centring.mean())
    yield (
        f"{title}: of the {update:.2f} points that the published update gains, {max(gone, 0.0):.0%} are gone once "
        f"every domain is centred; centring alone gains {by_centring:.2f} points, "
        f"{'more' if by_centring > update else 'less'} than the update."
    )


def helps(gain: Array, what: str) -> str:
    """Whether something helps: over how many tasks, by how much; `gain` is in points a task, above zero is better.

    >>> helps(np.array([2.0, 1.0, -0.5]), "updating A")
    'updating A helps on 2 of 3 tasks and harms on 1; on average it lowers the rate by 0.83 points.'
    """
    mean = float(np.mean(gain))
    better, worse = int(np.sum(gain > SMALL)), int(np.sum(gain < -SMALL))
    on_average = (
        "changes the rate by less than a quarter of a point"
        if abs(mean) <= SMALL
        else f"{'lowers' if mean > 0 else 'raises'} the rate by {abs(mean):.2f} points"
    )
    return f"{what} helps on {better} of {len(gain)} tasks and harms on {worse}; on average it {on_average}."


INPUT_TITLES = {
    "centred": "Each method's own scaling, then every domain centred and rows of unit length",
    "zscore+unit": "z-score by domain, then rows of unit length, for counts (Office+Caltech)",
}


def inputs(runs: PaperRuns) -> Iterator[Part]:
    """The table with the same preprocessing for every method, and how far the paper's leads under each."""
    if not runs.has("inputs"):
        yield _missing(runs, "inputs", "The table with the same preprocessing for every method was not run.")
        return
    yield list(input_sentences(runs))
    methods = runs.methods("inputs")
    for variant in (v for v in INPUT_TITLES if v in runs.variants("inputs")):
        tasks = [t for t in runs.tasks("inputs") if any(runs.cell("inputs", t, m, variant) for m in methods)]
        rows = [[TASKS[t], *lowest([runs.cell("inputs", t, m, variant) for m in methods])] for t in tasks]
        if len(tasks) > 1:
            rows.append(["Average", *(f"{runs.means('inputs', tasks, m, variant).mean():.2f}" for m in methods)])
        header, note = ["task", *(runs.titles[m] for m in methods)], f"{_orders(runs, 'inputs')} the row is shaded."
        yield Table(f"inputs-{variant.replace('+', '-')}", INPUT_TITLES[variant], header, rows, note)


def input_sentences(runs: PaperRuns) -> Iterator[str]:
    """How far the paper's method leads the best baseline under each scaling, over the tasks that were run with it."""
    baselines = [m for m in runs.methods("inputs") if m in PUBLISHED_METHODS[:5]]
    if not baselines or "oddm" not in runs.methods("inputs"):
        return

    def lead(group: str, variant: str, tasks: Sequence[str]) -> str:
        means = np.array([runs.means(group, tasks, m, variant) for m in (*baselines, "oddm")])
        means = means[:, np.isfinite(means).all(axis=0)]
        points = means[:-1].min(axis=0, initial=np.inf) - means[-1]
        mean = float(points.mean()) if len(points) else float("nan")
        return (
            f"{'leads' if mean > 0 else 'trails'} the best baseline of each task by {abs(mean):.2f} points on average "
            f"and beats it on {int((points > 0).sum())} of {len(points)} tasks"
        )

    for variant in runs.variants("inputs"):
        for family, title in FAMILIES.items():
            tasks = [t for t in runs.tasks("inputs") if family_of(t) == family]
            same, before = lead("inputs", variant, tasks), lead("table", "", tasks)
            if not any(words.endswith(" 0 tasks") for words in (same, before)):
                yield (f"{title}, {variant}: {runs.titles['oddm']} {same}; with the table's own scalings it {before}.")


# -- statistics and time ----------------------------------------------------------------------------------------

REFERENCE = "oddm"
TOO_FEW = 6  # paired differences below which Wilcoxon's test cannot reach 0.05, whatever they are


def reference(runs: PaperRuns) -> str:
    """The method that the others are compared with: the paper's own if it was run, else the last one."""
    return REFERENCE if REFERENCE in runs.methods() else runs.methods()[-1]


def within_tasks(runs: PaperRuns) -> Table:
    """The reference against each other method on each task: difference in points, Holm's p below."""
    first = reference(runs)
    others = [m for m in runs.methods() if m != first]
    rows, records = [], []
    for task in runs.tasks():
        there = [m for m in runs.methods() if runs.at(task, m)]
        rates = {m: runs.rates("table", task, m) for m in there}
        common = [key for key in sorted(rates[there[0]].index) if all(key in rates[m].index for m in there)]
        if len(there) < 2 or not common or first not in there:
            continue
        pairs = {p.second: p for p in against({m: rates[m].loc[common].to_numpy() for m in there}, first)}
        better = {m: p.adjusted < ALPHA and p.difference < 0 for m, p in pairs.items()}
        shown = {
            m: Value(signed(p.difference), chance(p.adjusted), "best" if better[m] else "") for m, p in pairs.items()
        }
        rows.append([TASKS[task], *(shown.get(m, "–") for m in others)])
        records += [
            {"task": task, "first": first, "second": p.second, "difference": round(p.difference, 4)}
            | {"pairs": p.blocks, "p": p.p, "p_holm": p.adjusted}
            for p in pairs.values()
        ]
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
    means = {m: runs.means("table", runs.tasks(), m) for m in methods}
    full = np.isfinite(np.array(list(means.values()))).all(axis=0)
    return friedman({m: each[full] for m, each in means.items()}) if len(methods) > 1 and full.sum() > 1 else None


def rank_sentences(runs: PaperRuns, ranks: Ranking | None) -> Iterator[str]:
    """What the tests say, and what they cannot."""
    if ranks is not None:
        best, lowest_rank = ranks.ordered[0]
        apart = [runs.titles[name] for name, mean in ranks.ordered if mean - lowest_rank >= ranks.critical_difference]
        yield (
            f"Over {ranks.tasks} tasks Friedman's chi-square is {ranks.chi_square:.2f} ({chance(ranks.p)}), Iman and "
            f"Davenport's F {'infinite' if math.isinf(ranks.f) else f'{ranks.f:.2f}'} ({chance(ranks.f_p)}); Nemenyi's "
            f"critical difference at {ALPHA} is {ranks.critical_difference:.2f} ranks. {runs.titles[best]} has the "
            f"best mean rank and differs significantly from {', '.join(apart) if apart else 'no other method'}."
        )
    cells = runs.cells("table")
    orders, splits = max(cell.orders // cell.splits for cell in cells), max(cell.splits for cell in cells)
    yield (
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
        yield f"With {orders * splits} paired runs Wilcoxon's test cannot fall below 0.05: run at least {TOO_FEW}."
    yield (
        "Only the ranks over tasks say something about tasks that were not run, and only if these tasks are a fair and "
        "independent sample. Tasks of one family share their domains, so they are not quite independent."
    )


def _statistics(runs: PaperRuns) -> Iterator[Part]:
    ranks = ranking(runs)
    yield list(rank_sentences(runs, ranks))
    if len(runs.methods()) > 1:
        yield within_tasks(runs)
    if ranks is not None:
        shows = "Mean ranks over the tasks, the best on the left."
        joined = "A bar joins methods that Nemenyi's test cannot tell apart."
        yield Figure("critical-difference", critical_difference(ranks, runs.titles, runs.styles), shows, joined)
        rows = [[runs.titles[name], f"{mean:.2f}"] for name, mean in ranks.ordered]
        yield Table("ranks", f"Mean ranks over {ranks.tasks} tasks (1 is best)", ["method", "mean rank"], rows)


def seconds(runs: PaperRuns, what: str, note: str) -> Table:
    """Median seconds of the offline or the online stage."""
    rows, methods = [], runs.methods()
    for task in runs.tasks():
        parts = [runs.part("table", task, m) for m in methods]
        medians = [part[f"seconds_{what}"].median() for part in parts]
        length = next(part["n"].iloc[0] for part in parts if len(part))
        shown = ("–" if x != x else f"{x:.3f}" if x < 10 else f"{x:.1f}" for x in medians)
        rows.append([f"{TASKS[task]} ({length})", *shown])
    header = ["task", *(runs.titles[m] for m in methods)]
    return Table(f"time-{what}", f"Seconds {what}, median over the orders", header, rows, note)


def _time(runs: PaperRuns) -> Iterator[Part]:
    yield seconds(
        runs, "offline",
        "Alignment and source classifiers, one core; an alignment from the cache counts as long as its "
        "solution took. Methods without an alignment only train source classifiers.",
    )  # fmt: skip
    yield seconds(runs, "online", "The whole stream (its length is in brackets), predicting and learning, one core.")


def _theory(runs: PaperRuns) -> Iterator[Part]:
    yield from theory.parts(runs, TASKS)
    if not runs.has("mixers"):
        yield _missing(runs, "bound", "Mixers with a guarantee (vote, simplex scores, log-loss) were not run.")


def _sensitivity(runs: PaperRuns) -> Iterator[Part]:
    yield from sensitivity(runs, "C")
    yield from sensitivity(runs, "Tw")


# title, anchor, what stands there, whether it is about the table's runs
SECTIONS = (
    ("Table of mistakes", "table", _table_section, True),
    ("Differences", "differences", _differences, True),
    ("Along the stream", "stream", _stream, True),
    ("Sensitivity", "sensitivity", _sensitivity, False),
    ("Effect of the refresh", "refresh", refresh, False),
    ("The same preprocessing for everybody", "inputs", inputs, False),
    ("Theory", "theory", _theory, True),
    ("Statistics", "statistics", _statistics, True),
    ("Time", "time", _time, True),
)


# -- the page ---------------------------------------------------------------------------------------------------


def verdict(runs: PaperRuns) -> str:
    """What somebody should know who reads nothing else: what was run, who leads, how near the paper, what broke."""
    if not runs.has("table"):
        return "The table of mistakes was not run, so nothing is said here about the paper's numbers as a whole."
    tasks, frame = runs.tasks(), runs.frame
    orders = int(frame[frame["group"] == "table"]["trial"].max()) + 1
    where = TASKS[tasks[0]] if len(tasks) == 1 else f"{len(tasks)} tasks"
    scope = f"{count(len(runs.methods()), 'method')} on {where}, {count(orders, 'order')} of each stream."
    return paragraph([scope, _leader(runs), _agreement(runs), theory.verdict(runs)])


def _leader(runs: PaperRuns) -> str:
    """The paper's own method among those that were run on the same tasks."""
    subject, methods = reference(runs), runs.methods()
    means = np.array([runs.means("table", runs.tasks(), m) for m in methods]).T
    full = np.isfinite(means).all(axis=1)
    tasks, means = [task for task, whole in zip(runs.tasks(), full, strict=True) if whole], means[full]
    if not tasks or len(methods) < 2:
        return ""
    own, average = methods.index(subject), means.mean(axis=0)
    theirs = [PUBLISHED[task, subject].mean for task in tasks if (task, subject) in PUBLISHED]
    published = f" (published: {np.mean(theirs):.2f} %)" if len(theirs) == len(tasks) else ""
    name, best = runs.titles[subject], int(average.argmin())
    text = f"{name} makes {average[own]:.2f} % mistakes{published}"
    if len(tasks) > 1:
        wins = int((means.argmin(axis=1) == own).sum())
        text = f"{name} makes the fewest mistakes on {wins} of {len(tasks)} tasks and {average[own]:.2f} % on average"
        text += published
    fewest = f"; the fewest are those of {runs.titles[methods[best]]}, {average[best]:.2f} %."
    return text + (", the fewest of all." if best == own else fewest)


def _agreement(runs: PaperRuns) -> str:
    """How near our means are to the published ones."""
    cells = [(cell, paper) for key, paper in PUBLISHED.items() if (cell := runs.at(*key))]
    if not cells:
        return ""
    off = np.mean([abs(cell.mean - paper.mean) for cell, paper in cells])
    text = f"Our means lie {off:.2f} points from the published ones on average; "
    if not any(judged(cell) for cell, _ in cells):
        return text + f"with fewer than {ENOUGH_ORDERS} orders it is not judged which of them differ."
    return text + f"{len(runs.far_cells())} of {len(cells)} differ by more than both deviations together."


def report(out: str | Path, say: Say = lambda text: None) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    folder = Path(out)
    command = f"hedgerow paper --out {shlex.quote(str(out))}"
    runs = PaperRuns.read(folder, say, f"run `{command}` first")
    runs.command = commands_given(folder).rpartition(" · ")[2] or command
    sections = []
    for title, anchor, make, of_table in SECTIONS:
        if runs.has("table") or not of_table:
            sections.append(Section(title, [part for part in make(runs) if part], anchor))
    options = [table for family in FAMILIES if (table := _options(runs, family))]
    return Report(TITLE, verdict(runs), sections, _facts(runs, folder), ABOUT, options).save(folder)


def _facts(runs: PaperRuns, folder: Path) -> dict[str, str]:
    """What was run, for the end of the report."""
    frame = runs.frame
    rows = frame[frame["group"] == "table"] if runs.has("table") else frame
    trials, splits = sorted(set(rows["trial"])), sorted(set(rows["split"]))
    sums: dict[str, set[str]] = {}
    for task, data in zip(frame["task"], frame["data"], strict=True):
        if task in TASKS:
            sums.setdefault(FAMILIES[family_of(task)], set()).add(data)
    mixed = " (rows of different data are mixed here)" if any(len(each) > 1 for each in sums.values()) else ""
    versions = {", ".join(f"{name} {number}" for name, number in each.items()) for each in frame["versions"]}
    return {
        "command": commands_given(folder),
        "reading": ", ".join(sorted(set(frame["reading"]))),
        "tasks": ", ".join(TASKS[task] for task in runs.tasks()),
        "methods": ", ".join(runs.titles[m] for m in runs.methods()),
        "orders": f"{len(trials)} of each stream (seeds {trials[0]} to {trials[-1]}), the same for every method",
        "splits": f"{len(splits)} (seeds {', '.join(map(str, splits))})"
        + ("; split 0 is the published one where the files have it" if 0 in splits else ""),
        "data": ", ".join(f"{name} {'/'.join(sorted(each))}" for name, each in sums.items()) + mixed,
        "run with": "; ".join(sorted(versions)),
        "results": f"{len(frame)} runs in results.jsonl" + "".join(f"; {p}" for p in runs.problems),
    }


def _options(runs: PaperRuns, family: str) -> Table | None:
    """Every option of every method, as used for a family's table."""
    tasks = [task for task in runs.tasks() if family_of(task) == family]
    columns = {
        m: options_used(m, part["reading"].iloc[0], part["options"].iloc[0])
        for m in runs.methods()
        if tasks and len(part := runs.part("table", tasks[0], m))
    }
    names = dict.fromkeys(name for options in columns.values() for name in options if name != "horizon")
    rows = [[name, *(options.get(name, "–") for options in columns.values())] for name in names]
    header, note = ["option", *(runs.titles[m] for m in columns)], "A dash: the method does not read the option."
    title = f"All options, {FAMILIES[family]}"
    return Table(f"options-{family}", title, header, rows, note, folded=True) if rows else None


def options_used(method: str, reading: str, options: dict[str, Any]) -> dict[str, str]:
    """In words: the reading's answers that the method reads, then the classifier's remaining options with a value.

    Of a method that is not registered here (a plugin's, in a folder of results) nothing is left out.
    """
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    answers = reading_answers(method, reading, given)
    read = options_read(method, given) if method in METHODS else answers.keys()
    used = {name: value for name, value in answers.items() if name in read}
    used |= {name: value for name, value in given.items() if name not in answers and value is not None}
    words = {name: "+".join(map(str, v)) if isinstance(v, tuple) else f"{v}" for name, v in used.items()}
    return {name: "the method's own" if used[name] is None else word for name, word in words.items()}
