"""The report of `hedgerow study`: who leads where, what trouble costs, a table and a figure for each study."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.lab.figures import GREY, Line, Panel, draw
from hedgerow.lab.report import Report, Section, Table, count, figure, lowest, paragraph, table
from hedgerow.lab.rows import ENOUGH_ORDERS, FILE, Cell, Runs, Say, curves
from hedgerow.lab.runner import commands_given
from hedgerow.lab.stats import ALPHA, wilcoxon
from hedgerow.lab.study import ALONE, STUDIES, Study, find_studies

OURS = ("hedgerow", "hedgerow-linear")
LIMIT = 2.0  # points: what transfer from bad sources may cost against no transfer at all
TESTED = 6  # orders from which on Wilcoxon's p can fall below .05: with n of them it is at least 2^(1 - n)
WINDOW = 4  # checkpoints: a tenth of a stream that has forty
ROOM = 1.3  # the majority rule is drawn where it is at most this many times the worst method
ABOUT = (
    "Labels late, missing or in batches, classes that nobody named before, a target that changes, rare classes, "
    "sources of every kind: how many mistakes each method makes, and where ours loses."
)

# -- what the rows say ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lead:
    """Points by which a method is ahead of a rival, order by order; below zero behind it.

    `error` is their standard error. `clear`: significant by Wilcoxon's signed ranks over the orders or, of fewer orders
    than that test needs, all one way.
    """

    rival: str
    points: float
    error: float
    clear: bool
    orders: int = 1

    @classmethod
    def over(cls, rival: str, own: Any, other: Any) -> Lead | None:
        """Of rates by order (pandas series); None where they share no order."""
        d = (other - own).dropna()
        if d.empty:
            return None
        one_way = len(d) > 1 and bool((d > 0).all() or (d < 0).all())
        clear = wilcoxon(d, np.zeros(len(d))).p < ALPHA if len(d) >= TESTED else one_way
        return cls(rival, round(float(d.mean()), 9), float(d.sem()), clear, len(d))  # rounded: equal counts are equal

    def __str__(self) -> str:
        """As printed.

        >>> str(Lead("pa", 1.234, 0.5, True)), str(Lead("pa", -3.0, float("nan"), False))
        ('1.2 ± 0.5 points', '3.0 points')
        """
        return f"{abs(self.points):.1f}" + (f" ± {self.error:.1f}" if self.error == self.error else "") + " points"


def _clearly(orders: int) -> str:
    """What a clear lead is, of so many orders."""
    return "significantly (paired over the orders, Wilcoxon's p < 0.05)" if orders >= TESTED else "in every order"


@dataclass(frozen=True)
class StudyRuns:
    """The rows of one study on one task."""

    runs: Runs
    study: Study
    task: str

    @property
    def name(self) -> str:
        """As part of the names of files."""
        return f"{self.study.name}-{self.task.replace('/', '-')}"

    @cached_property
    def methods(self) -> list[str]:
        """The methods that have rows."""
        return [m for m in self.runs.methods(self.study.name) if any(self.cell(m, p) for p in self.study.points)]

    @cached_property
    def points(self) -> list[str]:
        """The points that have rows."""
        return [p for p in self.study.points if any(self.cell(m, p) for m in self.runs.methods(self.study.name))]

    def cell(self, method: str, point: str) -> Cell | None:
        """Mistakes in per cent."""
        return self.runs.cell(self.study.name, self.task, method, point)

    def part(self, method: str, point: str) -> Any:
        """The rows of a cell, by order."""
        return self.runs.part(self.study.name, self.task, method, point)

    def rates(self, method: str, point: str, measure: str = "rate") -> Any:
        """A measure of a cell by order, in per cent: mistakes, or "balanced", where every class counts the same."""
        rates = self.part(method, point).set_index("trial")[measure]
        return rates if measure == "rate" else 100 * rates.astype(float)

    def lead(self, method: str, point: str, rivals: Sequence[str], measure: str = "rate") -> Lead | None:
        """Over the best of the rivals at a point; None where either was not run."""
        rates = {m: self.rates(m, point, measure) for m in (*rivals, method) if self.cell(m, point)}
        own = rates.pop(method, None)
        best = min(rates, key=lambda name: float(rates[name].mean()), default="")
        return Lead.over(best, own, rates[best]) if best and own is not None else None

    def majority(self, point: str) -> float:
        """Mistakes of the majority rule at a point, in per cent; it does not depend on the method."""
        parts = [self.part(m, point) for m in self.methods]
        return float(np.concatenate([(100 * p["majority"] / p["n"]).to_numpy(dtype=float) for p in parts]).mean())


def studies_in(runs: Runs) -> list[StudyRuns]:
    """Every study on every target that has rows, in the order of the table of studies."""
    return [StudyRuns(runs, study, task) for study in STUDIES.values() for task in runs.tasks(study.name)]


def sentences(of: StudyRuns) -> Iterator[str]:
    """Everything that is said about a study on a task."""
    for method in (m for m in of.methods if m in OURS):
        yield from _against_baselines(of, method, "rate", "mistakes")
        if of.study.name == "imbalance":
            yield from _against_baselines(of, method, "balanced", "mistakes with every class counted the same")
    if ALONE in of.study.points:
        for method in of.methods:
            yield from _against_itself(of, method)
    if "majority" in of.runs.frame:
        for method, point in ((m, p) for m in of.methods for p in of.points):
            cell = of.cell(method, point)
            if cell and (behind := cell.mean - of.majority(point)) > 0:
                yield f"{of.runs.titles[method]} at “{point}” is {behind:.1f} points worse than the majority rule."


def _against_baselines(of: StudyRuns, method: str, measure: str, what: str) -> Iterator[str]:
    titles, baselines = of.runs.titles, [m for m in of.methods if m not in OURS]
    leads = {p: lead for p in of.points if (lead := of.lead(method, p, baselines, measure))}
    lost = {point: lead for point, lead in leads.items() if lead.points < 0}
    kept = {point: lead for point, lead in leads.items() if lead.points >= 0}
    if lost:
        listed = (
            f"at “{p}” to {titles[lead.rival]}, by {lead}" + ("" if lead.clear else f" (not {_clearly(lead.orders)})")
            for p, lead in lost.items()
        )
        yield f"{titles[method]} loses in {what} at {len(lost)} of {len(leads)} points: {'; '.join(listed)}."
    if kept:
        point = min(kept, key=lambda p: kept[p].points)
        where = f"at the other {len(kept)}" if lost else f"at all {len(leads)} points"
        yield (
            f"{titles[method]} is not behind any baseline in {what} {where}; the closest is "
            f"{titles[kept[point].rival]} at “{point}”, {kept[point]} behind."
        )


def _against_itself(of: StudyRuns, method: str) -> Iterator[str]:
    """Whether a method with sources is worse than the same method without any."""
    name, alone = of.runs.titles[method], of.rates(method, ALONE)
    costs = {p: cost for p in of.points if p != ALONE and (cost := Lead.over(method, alone, of.rates(method, p)))}
    worst = max(costs, key=lambda p: costs[p].points, default="")
    if worst and costs[worst].points <= 0:
        yield f"{name} is at no point worse than itself without sources."
    elif worst:
        over = sum(cost.points > LIMIT for cost in costs.values())
        word = f"more than {LIMIT:g} points worse at {over}" if over else f"within {LIMIT:g} points at all"
        yield (
            f"{name} against itself without sources: {word} of {len(costs)} points; the worst is “{worst}”, by "
            f"{costs[worst]}."
        )


# -- the verdict ------------------------------------------------------------------------------------------------


def verdict(every: Sequence[StudyRuns]) -> str:
    """What somebody should know who reads nothing else: who leads, where not, what trouble costs, what follows."""
    standing = Standing(every)
    if not standing.conditions:
        nothing = "No condition with trouble has been run yet, so nothing is said about it here."
        return paragraph([standing.scope(), nothing])
    return paragraph([standing.scope(), standing.lead(), standing.behind(), standing.cost(), standing.meaning()])


class Standing:
    """Where the leader stands: the method that has the fewest mistakes in most conditions.

    A condition is a point of a study on a target, but the first, which is without trouble: one run in most studies.
    `own` are the leader's leads over the best of all others, the largest difference to its disadvantage first.
    """

    def __init__(self, every: Sequence[StudyRuns]) -> None:
        self.every, self.titles = every, every[0].runs.titles
        self.methods = list(dict.fromkeys(method for of in every for method in of.methods))
        self.tasks = list(dict.fromkeys(of.task for of in every))
        self.conditions = [(of, p) for of in every for p in list(of.study.points)[1:] if p in of.points]
        counts = [cell.orders for of in every for m in of.methods for p in of.points if (cell := of.cell(m, p))]
        self.fewest, self.most = min(counts), max(counts)
        leads = {m: self._leads(m) for m in self.methods}

        def wins(method: str) -> tuple[int, float]:
            means = [cell.mean for of, p in self.conditions if (cell := of.cell(method, p))]
            return sum(lead.points >= 0 for _, _, lead in leads[method]), -float(np.mean(means or [100.0]))

        self.leader = max(self.methods, key=wins)  # of those that win as often, the one with fewer mistakes on average
        self.own = sorted(leads[self.leader], key=lambda each: each[2].points)
        self.title = self.titles[self.leader]

    def _leads(self, method: str) -> list[tuple[StudyRuns, str, Lead]]:
        rivals = [m for m in self.methods if m != method]
        return [(of, p, lead) for of, p in self.conditions if (lead := of.lead(method, p, rivals))]

    @cached_property
    def worst(self) -> tuple[float, StudyRuns, str, dict[str, float]] | None:
        """The condition that costs the leader most: what it costs it, where that is, what it costs each method."""
        losses = []
        for of, p in self.conditions:
            cells = {m: (of.cell(m, p), of.cell(m, next(iter(of.study.points)))) for m in of.methods}
            costs = {m: there.mean - before.mean for m, (there, before) in cells.items() if there and before}
            if self.leader in costs:
                losses.append((costs[self.leader], of, p, costs))
        return max(losses, key=lambda each: each[0], default=None)

    def _name(self, of: StudyRuns, point: str) -> str:
        return f"“{point}” ({of.study.title}{f', {of.task}' if len(self.tasks) > 1 else ''})"

    def scope(self) -> str:
        """What was run."""
        studies = count(len({of.study.name for of in self.every}), "study", "studies")
        where = self.tasks[0] if len(self.tasks) == 1 else count(len(self.tasks), "target")
        orders = (f"{self.fewest} to " if self.fewest < self.most else "") + count(self.most, "order")
        return f"{count(len(self.methods), 'method')} in {studies} on {where}, {orders} of each stream."

    def lead(self) -> str:
        """In how many conditions it makes the fewest mistakes, and whether by more than luck of the order."""
        if not self.own:
            return ""
        won = [lead for _, _, lead in self.own if lead.points >= 0]
        spoiled = {(of.study.name, of.task) for of, _, lead in self.own if lead.points < 0}
        there = {(of.study.name, of.task) for of, _, _ in self.own}
        whole = f", throughout in {len(there - spoiled)} of {len(there)} studies" if spoiled and len(there) > 1 else ""
        number = f"all {len(won)}" if len(won) == len(self.own) else f"{len(won)} of {len(self.own)}"
        text = f"{self.title} makes the fewest mistakes in {number} conditions with trouble{whole}"
        if self.fewest == 1:
            return text + ". With one order nobody knows how much of a lead is due to the order of the stream."
        clear = sum(lead.clear for lead in won)
        some = f"in {clear} of them; in the other {len(won) - clear} the order of the stream may explain it"
        whole = "there" if len(won) == 1 else "in all of them" if clear else "in none of them"
        return f"{text}; it is ahead {_clearly(self.fewest)} {whole if clear in (0, len(won)) else some}."

    def behind(self) -> str:
        """In how many it does not, and where most."""
        lost = [each for each in self.own if each[2].points < 0]
        if not lost:
            return ""
        of, point, lead = lost[0]
        text = f"It is behind in {len(lost)}{':' if len(lost) == 1 else ', most'} at {self._name(of, point)}"
        text += f" {self.titles[lead.rival]} makes {-lead.points:.1f} points fewer mistakes"
        return text + ("." if self.fewest == 1 else f", {'' if lead.clear else 'but not '}{_clearly(lead.orders)}.")

    def cost(self) -> str:
        """The largest loss of the leader when the trouble grows, and who loses least there."""
        if self.worst is None:
            return ""
        own, of, point, losses = self.worst
        if own <= 0:
            return f"No trouble here costs {self.title} anything."
        there = float(of.rates(self.leader, point).mean())
        least = min(losses, key=lambda method: losses[method])
        others = f"; least it costs {self.titles[least]}, {losses[least]:.1f} points"
        others = "" if len(losses) == 1 else "; all others lose more there" if least == self.leader else others
        return (
            f"The trouble that costs {self.title} most is {self._name(of, point)}: {there:.1f} % mistakes instead of "
            f"{there - own:.1f} %, {own:.1f} points more{others}."
        )

    def meaning(self) -> str:
        """What a reader should do: a choice only where most leads are clear, weighed against the trouble itself."""
        if not self.own:
            return ""
        more = f"{ENOUGH_ORDERS} orders or more (--orders)"
        if self.fewest == 1:
            return f"What that means: run {more} before you choose a method by this page."
        few = f"{self.fewest} orders are few: take it as a hint, and run {more} before you rely on it."
        hint, leads = few if self.fewest < ENOUGH_ORDERS else "", [lead for _, _, lead in self.own]
        if 2 * sum(lead.clear and lead.points > 0 for lead in leads) < len(leads):
            unsafe = "no method here is a safe choice: the order of the stream matters as much as the method."
            return paragraph([f"What that means: {unsafe}", hint])
        bad = [(of, p) for of, p, lead in self.own if lead.points < 0 and lead.clear]
        unless = f", but not where a stream is like {self._name(*bad[0])}" if bad else ""
        median, cost = float(np.median([lead.points for lead in leads])), self.worst[0] if self.worst else 0.0
        weighed = (
            "more than any trouble costs it."
            if cost <= median
            else f"and trouble costs it up to {cost:.1f}: to mend the stream may gain more than to change the method."
        )
        begin = f"What that means: begin with {self.title}{unless}."
        return paragraph([begin, f"Its median lead over the next best is {median:.1f} points, {weighed}", hint])


# -- tables, figures, the page ----------------------------------------------------------------------------------


def mistakes(of: StudyRuns) -> Table:
    """Mistakes in per cent: one row for each point, one column for each method, the lowest of each row marked."""
    rows = {point: {m: of.cell(m, point) for m in of.methods} for point in of.points}
    cells = [
        [point, *lowest([c and c.mean for c in row.values()], [c and c.brief for c in row.values()])]
        for point, row in rows.items()
    ]
    records: list[dict[str, Any]] = [
        {"study": of.study.name, "task": of.task, "point": point, "method": m, "mean": c.mean, "sd": c.sd}
        | {"orders": c.orders, "n": int(of.part(m, point)["n"].iloc[0])}
        | {"balanced": float(of.rates(m, point, "balanced").mean())}
        for point, row in rows.items()
        for m, c in row.items()
        if c
    ]
    orders, lengths = (sorted({r[name] for r in records}) for name in ("orders", "n"))
    header, instances = (
        ["", *(of.runs.titles[m] for m in of.methods)],
        " to ".join(map(str, dict.fromkeys((lengths[0], lengths[-1])))),
    )
    return table(
        "study", header, cells, records, name=of.name, study=of.study.title, task=of.task, orders=orders[-1],
        instances=instances,
    )  # fmt: skip


def around(of: StudyRuns) -> Table | None:
    """Mistakes in the tenths of the stream before and after an abrupt change, and in the last one."""
    rows = []
    for method in (m for m in of.methods if of.study.name == "drift" and of.cell(m, "abrupt")):
        part = of.part(method, "abrupt")
        at, rates = curves(part, WINDOW)
        change, mean = part["changes"].iloc[0][0], rates.mean(axis=0)
        places = [int(np.searchsorted(at, at[0] * k + change)) for k in (0, 1)]
        rows.append([of.runs.titles[method], *(f"{mean[min(i, len(mean) - 1)]:.1f}" for i in (*places, len(mean) - 1))])
    header = ["method", "tenth before", "tenth after", "last tenth"]
    return table("change", header, rows, name=f"{of.name}-change", task=of.task) if rows else None


def strengths(of: StudyRuns) -> Any:
    """Mistakes against strength, a panel for each kind; for rare classes one more that weighs all classes the same."""
    rare = of.study.name == "imbalance"
    shown = [(panel, "rate", "mistakes, %") for panel in of.study.panels]
    shown += [(of.study.panels[0], "balanced", "mistakes, %, mean of the classes")] if rare else []
    panels = []
    for (title, axis, points), measure, ylabel in shown:
        lines = []
        for method in of.methods:
            rates = {x: of.rates(method, p, measure) for x, p in enumerate(points.values()) if of.cell(method, p)}
            if rates:
                lines.append(Line.over(of.runs.titles[method], of.runs.styles[method], list(rates), rates.values()))
        panels.append(Panel(title, lines, axis, ylabel, (-0.2, len(points) - 0.8), ticks=list(points)))
    figure = draw(panels, columns=2, size=(4.4, 3.0), sparse=False, shared=False)
    heights = [of.majority(p) for p in of.points] if rare else []
    if rare and min(heights) <= ROOM * max(max(line.y) for line in panels[0].lines):
        axes, end = figure.axes[0], len(heights) - 1
        limits = axes.get_ylim()
        axes.plot(range(len(heights)), heights, color=GREY, linewidth=1.2)
        axes.annotate("majority rule", (end, heights[-1]), color=GREY, fontsize=9, ha="right", va="bottom")
        axes.set_ylim(0, min(max(limits[1], 1.04 * max(heights)), 100.0))
    return figure


def along(of: StudyRuns) -> Any:
    """Mistakes in a moving window along the stream, one panel for each point; upright lines show changes."""
    panels = []
    for point in of.points:
        parts = {m: of.part(m, point) for m in of.methods if of.cell(m, point)}
        windows = {m: curves(part, WINDOW) for m, part in parts.items()}
        lines = [Line(of.runs.titles[m], of.runs.styles[m], at, Y.mean(axis=0)) for m, (at, Y) in windows.items()]
        changes = list(parts.values())[-1]["changes"].iloc[0]
        panels.append(Panel(point, lines, "instances of the stream", "mistakes in a window, %", changes=changes))
    end = max(line.x[-1] for panel in panels for line in panel.lines)
    return draw([replace(panel, xlim=(0, end)) for panel in panels], columns=2, size=(4.4, 3.0), shared=False)


def _section(of: StudyRuns) -> Section:
    kind, drawing = ("along", along(of)) if of.study.name == "drift" else ("strengths", strengths(of))
    shown = figure(kind, drawing, name=of.name, study=of.study.title, task=of.task)
    parts = [of.study.meaning, shown, list(sentences(of)), mistakes(of), around(of)]
    return Section(f"{of.study.title}: {of.task}", [part for part in parts if part], of.name)


def report(out: str | Path, say: Say = lambda text: None) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    folder = Path(out)
    first = f"run `hedgerow study all --out {shlex.quote(str(out))}` first"
    runs = Runs.read(folder, say, first)
    every = studies_in(runs)
    if not every:
        raise InputError(f"{folder / FILE} has no results of a study; {first}")
    own = runs.frame[runs.frame["group"].isin(STUDIES)]
    facts = {
        "command": commands_given(folder),
        "options": "reading='general', all others at their defaults; seed 0 for split, classes and sources",
        "orders": f"up to {runs.frame['trial'].max() + 1}, the same for every method",
        "data": ", ".join(sorted(set(own["task"].str.partition("/")[0] + " " + own["data"]))),
        "results": f"{len(runs.frame)} runs in {FILE}" + "".join(f"; {problem}" for problem in runs.problems),
    }
    sections = [_section(of) for of in every]
    return Report("hedgerow: streams as they are", verdict(every), sections, facts, ABOUT).save(folder)


def tables(out: str | Path, name: str) -> list[Table]:
    """The tables of the studies of this name over the rows that are there, for the terminal."""
    names = {study.name for study in find_studies(name)}
    return [mistakes(of) for of in studies_in(Runs.read(out)) if of.study.name in names]
