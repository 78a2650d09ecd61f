"""Methods on streams as they are. A study is one function: its points are scenarios.

Orders of a stream are the same for all methods, so two methods are compared order by order: a lead is clear where
Wilcoxon's signed ranks over the orders say so or, with fewer orders than that test needs, where one method is better in
every order.
"""

from __future__ import annotations

import inspect
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.comparison.figures import GREY, Line
from hedgerow.comparison.measure import compile_loops
from hedgerow.comparison.page import Report, Section
from hedgerow.comparison.results import FILE, Row, curves
from hedgerow.comparison.runner import Folder, Unit, commands_given, find_methods, finished, named
from hedgerow.comparison.stats import ALPHA, wilcoxon
from hedgerow.comparison.tables import Table, lowest
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.values import count
from hedgerow.estimator import OnlineTransferClassifier
from reproduction import fitting
from reproduction import tasks as sc
from reproduction.figures import Panel, draw
from reproduction.fitting import expert_losses
from reproduction.runs import ENOUGH_ORDERS, Cell, Runs, Say
from reproduction.stream import at_once, last_known, majority, play
from reproduction.tasks import OwnFiles, Task, task_of
from reproduction.texts import figure, table, text

ALONE = "no sources"
OURS = ("hedgerow", "hedgerow-linear")
LIMIT = 2.0  # points: what transfer from bad sources may cost against no transfer at all
TESTED = 6  # orders from which on Wilcoxon's p can fall below .05: with n of them it is at least 2^(1 - n)
WINDOW = 4  # checkpoints: a tenth of a stream that has forty
RULES = {"majority": "majority rule", "last_label": "last label that is known"}
ROOM = 1.3  # the majority rule is drawn where it is at most this many times the worst method

Points = dict[str, Callable[[Task], Task]]


# the data sets of a study, and the target of each where none is named
TARGETS = {
    "digits": "shifted",
    "office-caltech": "webcam",
    "pie": "PIE5",
    "amazon-reviews": "kitchen",
    "office-googlenet": "webcam",
}

# the studies and their titles; there is a function for each below
TITLES = {
    "delay": "Labels that come late",
    "missing": "Labels that never come",
    "batches": "Labels in batches",
    "late-classes": "Classes that appear late, or only in the target",
    "missing-classes": "Classes missing from some sources",
    "drift": "A target that changes",
    "imbalance": "Rare classes",
    "order": "Labels that follow each other",
    "sources": "Sources of every kind",
}


@dataclass(frozen=True)
class Study:
    """Scenarios by name, in the order of the table; the first is without trouble. `axis` is what their strength is.

    A point "kind: strength" belongs to the panel of its kind.
    """

    name: str
    axis: str
    meaning: str
    points: Points

    @property
    def title(self) -> str:
        """What it is about."""
        return TITLES[self.name]

    @property
    def panels(self) -> list[tuple[str, str, dict[str, str]]]:
        """Each panel's title, the label of its axis, and the points on it by their names there."""
        plain = {point: point for point in self.points if ": " not in point}
        kinds: dict[str, dict[str, str]] = defaultdict(dict)
        for point in (point for point in self.points if point not in plain):
            kind, _, strength = point.partition(": ")
            kinds[kind] = {"0 %": next(iter(plain)), **kinds[kind], strength: point}
        if not kinds:
            return [("", self.axis, plain)]
        first = [("what is there in advance", "", plain)] if len(plain) > 1 else []
        return first + [(kind, self.axis, points) for kind, points in kinds.items()]


STUDIES: dict[str, Study] = {}


def study(name: str, axis: str = "") -> Callable[[Callable[[], Points]], None]:
    """Register a study of this name in TITLES: a function that gives its points, and says in its docstring what for."""

    def register(points: Callable[[], Points]) -> None:
        STUDIES[name] = Study(
            name, axis, " ".join((inspect.getdoc(points) or "").split()), points()
        )

    return register


def _percent(change: Callable[..., Task], *percents: int, kind: str = "", **more: Any) -> Points:
    """A scenario at these shares, in per cent."""
    return {
        f"{kind}{percent} %": partial(change, **more, share=percent / 100) for percent in percents
    }


@study("delay", "labels late by D instances")
def _() -> Points:
    """The label of an instance arrives D instances later; what still waits at the end of the stream comes then."""
    return {str(rounds): partial(sc.delayed, rounds=rounds) for rounds in (0, 10, 50, 200)}


@study("missing", "labels missing")
def _() -> Points:
    """Each label is lost with the same probability. Mistakes are counted on all instances all the same."""
    return _percent(sc.lost, 0, 10, 50, 90, 99)


@study("batches", "labels in batches of B")
def _() -> Points:
    """Labels wait until B of them are there, and come together."""
    return {str(size): partial(sc.batched, size=size) for size in (1, 10, 50, 200)}


@study("late-classes", "share of the classes")
def _() -> Points:
    """A share of the classes, at least one, is in no source, or does not stream before half-time, or both. The
    first instance of a class that nobody named before is a mistake of every method.
    """
    kinds = {"only in the target": sc.only_in_target, "late": sc.appearing_late}
    kinds["only in the target, and late"] = sc.late_and_only_in_target
    points: Points = {"0 %": sc.as_it_is}
    for kind, change in kinds.items():
        points |= _percent(change, 20, 50, kind=f"{kind}: ")
    return points


@study("missing-classes", "classes missing from each source")
def _() -> Points:
    """Each source lacks a share of the classes, at least one, another draw for each; all are in some source."""
    return {"0 %": sc.as_it_is, **_percent(sc.missing_classes, 20, 50, 80)}


@study("drift")
def _() -> Points:
    """Mid-stream the target becomes another domain of its family, one that is no source: at once, little by
    little, or back and forth. The unlabelled rows are of the first domain. In "renamed" the domain stays
    and every class takes the name of the next.
    """
    return {kind: partial(sc.drifting, kind=kind) for kind in sc.DRIFTS}


@study("imbalance", "rows that the rare classes keep")
def _() -> Points:
    """Half of the classes keep only a share of their target rows, at least one each; the sources stay as they
    are.
    """
    return {"100 %": sc.as_it_is, **_percent(sc.imbalanced, 30, 10, 3)}


@study("order", "rows of the same class as the one before")
def _() -> Points:
    """With this probability the next row is one of the same class, as in a stream that nobody shuffled; the rows are
    the same at every point.
    """
    return {"0 %": sc.as_it_is, **_percent(sc.repeating, 50, 80, 95)}


@study("sources", "share of the sources")
def _() -> Points:
    """Few sources, no unlabelled target rows, sources whose labels are noise, are systematically wrong, or name
    classes that never stream. Each method is compared with itself without any source (it is told the list of
    classes, nothing else): what is worse than that is negative transfer.
    """
    points: Points = {
        "all sources": sc.as_it_is, "no unlabelled rows": sc.no_unlabelled, "one source": sc.one_source,
        ALONE: sc.no_sources,
    }  # fmt: skip
    kinds = {
        "labels shuffled": sc.shuffled,
        "classes exchanged": sc.exchanged,
        "other classes": sc.others,
    }
    for kind, relabel in kinds.items():
        points |= _percent(sc.relabelled, 50, 100, kind=f"{kind}: ", relabel=relabel)
    return points


def find_studies(name: str) -> list[Study]:
    """The study of this name; "all" is all of them, and commas join several.

    >>> [study.name for study in find_studies("delay,drift")]
    ['delay', 'drift']
    """
    return [STUDIES[each] for each in named("study", name, STUDIES)]


def listed() -> list[tuple[str, str, str]]:
    """Name, title and strengths of every study, or its kinds where it has several.

    >>> listed()[0]
    ('delay', 'Labels that come late', '0; 10; 50; 200')
    """
    kinds = {
        s.name: s.points if len(s.panels) == 1 else [title for title, _, _ in s.panels]
        for s in STUDIES.values()
    }
    return [(study.name, study.title, "; ".join(kinds[study.name])) for study in STUDIES.values()]


# -- runs -------------------------------------------------------------------------------------------------------


def run(
    folder: Folder, name: str, data: str | OwnFiles = "digits", target: str | None = None, methods: str = "all",
    orders: int = 5, data_dir: str | None = None,
) -> Path | None:  # fmt: skip
    """Check everything, run what is not in the folder yet and write the report; None if that was interrupted."""
    folder.begin(orders=orders)
    studies = find_studies(name)
    names = find_methods(methods)
    if isinstance(data, OwnFiles):
        family = "own"
        usual = list(data.load())[-1]
    elif data in TARGETS:
        family = data
        usual = TARGETS[data]
    else:
        raise unknown("data set", data, TARGETS)
    targets = [word.strip() for word in (target or usual).split(",") if word.strip()]
    places = [
        (study.name, point, each) for study in studies for each in targets for point in study.points
    ]
    for study_name, point, each in places:
        make_task(study_name, point, data, each, data_dir)
    folder.check(reading="general")
    units = [
        Unit(
            study_name,
            f"{family}/{each}",
            method,
            partial(_compiled, method, study_name, point, data, each, data_dir),
            fitting.fit_unit,
            measure,
            point,
            sc.SEED,
            orders,
            {"random_state": sc.SEED},
            clock=fitting.clock,
            also={"reading": "general"},
        )
        for study_name, point, each in places
        for method in names
    ]
    return folder.run(units, report)


def make_task(
    study: str, point: str, data: str | OwnFiles, target: str, data_dir: str | None = None
) -> Task:
    """The task of a point of a study."""
    return STUDIES[study].points[point](task_of(data, target, sc.SEED, data_dir=data_dir))


def _compiled(method: str, *place: Any) -> Task:
    """The same, and the loops of the method ready before a clock runs."""
    compile_loops(method)
    return make_task(*place)


def wrong(model: Any, task: Task, order: int) -> Array:
    """Which predictions of the stream were mistakes, in order of arrival."""
    stream = task.arrived(order)
    return np.array(
        play(model, stream.X, task.labels(at_once(stream.y), order)) != np.asarray(stream.y),
        dtype=bool,
    )


def measure(unit: Unit, task: Task, clf: OnlineTransferClassifier, trial: int) -> Row:
    """What a row says of a finished order."""
    began = time.perf_counter()
    mistakes = wrong(clf, task, trial)
    seconds = time.perf_counter() - began
    y = np.asarray(task.arrived(trial).y)
    labels = task.labels(at_once(y), trial)
    return {
        **expert_losses(clf),
        **finished(mistakes, seconds),
        "balanced": float(np.mean([mistakes[y == label].mean() for label in np.unique(y)])),
        "majority": int(np.sum(majority(labels) != y)),
        "last_label": int(np.sum(last_known(labels) != y)),
        "changes": task.arriving(trial).changes,
        "learned": clf.seen_,
        "sources": [source.name for source in task.sources],
        "unlabelled": 0 if task.warmup is None else len(task.warmup),
        "options": {"dim": clf.dim_},
        "seeds": {"task": sc.SEED, "order": trial},
    }


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
        return cls(
            rival, round(float(d.mean()), 9), float(d.sem()), clear, len(d)
        )  # rounded: equal counts are equal

    def __str__(self) -> str:
        """As printed.

        >>> str(Lead("pa", 1.234, 0.5, True)), str(Lead("pa", -3.0, float("nan"), False))
        ('1.2 ± 0.5 points', '3.0 points')
        """
        return (
            f"{abs(self.points):.1f}"
            + (f" ± {self.error:.1f}" if self.error == self.error else "")
            + " points"
        )


def _clearly(orders: int) -> str:
    """What a clear lead is, of so many orders."""
    return (
        "significantly (paired over the orders, Wilcoxon's p < 0.05)"
        if orders >= TESTED
        else "in every order"
    )


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
        return [
            m
            for m in self.runs.methods(self.study.name)
            if any(self.cell(m, p) for p in self.study.points)
        ]

    @cached_property
    def points(self) -> list[str]:
        """The points that have rows."""
        return [
            p
            for p in self.study.points
            if any(self.cell(m, p) for m in self.runs.methods(self.study.name))
        ]

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

    def lead(
        self, method: str, point: str, rivals: Sequence[str], measure: str = "rate"
    ) -> Lead | None:
        """Over the best of the rivals at a point; None where either was not run."""
        rates = {m: self.rates(m, point, measure) for m in (*rivals, method) if self.cell(m, point)}
        own = rates.pop(method, None)
        best = min(rates, key=lambda name: float(rates[name].mean()), default="")
        return Lead.over(best, own, rates[best]) if best and own is not None else None

    def rule(self, name: str, point: str) -> float:
        """Mistakes of a rule at a point, in per cent; NaN where it was not counted. No method changes it."""
        parts = [self.part(m, point) for m in self.methods]
        if name not in self.runs.frame:
            return float("nan")
        return float(
            np.concatenate([(100 * p[name] / p["n"]).to_numpy(dtype=float) for p in parts]).mean()
        )


def studies_in(runs: Runs) -> list[StudyRuns]:
    """Every study on every target that has rows, in the order of the table of studies."""
    return [
        StudyRuns(runs, study, task)
        for study in STUDIES.values()
        for task in runs.tasks(study.name)
    ]


def sentences(of: StudyRuns) -> Iterator[str]:
    """Everything that is said about a study on a task."""
    for method in (m for m in of.methods if m in OURS):
        yield from _against_baselines(of, method, "rate", "mistakes")
        if of.study.name == "imbalance":
            yield from _against_baselines(
                of, method, "balanced", "mistakes with every class counted the same"
            )
    if ALONE in of.study.points:
        for method in of.methods:
            yield from _against_itself(of, method)
    for method, point in ((m, p) for m in of.methods for p in of.points):
        cell = of.cell(method, point)
        for name, title in RULES.items():
            if cell and (behind := cell.mean - of.rule(name, point)) > 0:
                yield f"{of.runs.titles[method]} at “{point}” is {behind:.1f} points worse than the {title}."


def _against_baselines(of: StudyRuns, method: str, measure: str, what: str) -> Iterator[str]:
    titles = of.runs.titles
    baselines = [m for m in of.methods if m not in OURS]
    leads = {p: lead for p in of.points if (lead := of.lead(method, p, baselines, measure))}
    lost, kept = (
        {p: lead for p, lead in leads.items() if (lead.points < 0) == behind}
        for behind in (True, False)
    )
    words = {
        "titles": titles,
        "method": titles[method],
        "what": what,
        "leads": leads,
        "lost": lost,
        "kept": kept,
    }
    if lost:
        yield text("loses", **words, clearly=_clearly)
    if kept:
        yield text("not-behind", **words, point=min(kept, key=lambda p: kept[p].points))


def _against_itself(of: StudyRuns, method: str) -> Iterator[str]:
    """Whether a method with sources is worse than the same method without any."""
    name = of.runs.titles[method]
    alone = of.rates(method, ALONE)
    costs = {
        p: cost
        for p in of.points
        if p != ALONE and (cost := Lead.over(method, alone, of.rates(method, p)))
    }
    worst = max(costs, key=lambda p: costs[p].points, default="")
    if worst and costs[worst].points <= 0:
        yield f"{name} is at no point worse than itself without sources."
    elif worst:
        over = sum(cost.points > LIMIT for cost in costs.values())
        words = {"limit": f"{LIMIT:g}", "points": len(costs)}
        yield text(
            "against-itself", method=name, over=over, worst=worst, cost=costs[worst], **words
        )


# -- the verdict ------------------------------------------------------------------------------------------------


def verdict(every: Sequence[StudyRuns]) -> str:
    """What somebody should know who reads nothing else: who leads, where not, what trouble costs, what follows.

    The leader is the method that has the fewest mistakes in most conditions, and of those that win as often the one
    with fewer mistakes on average. A condition is a point of a study on a target, but the first, which is without
    trouble: one run in most studies.
    """
    titles = every[0].runs.titles
    tasks = list(dict.fromkeys(of.task for of in every))
    methods = list(dict.fromkeys(method for of in every for method in of.methods))
    conditions = [(of, p) for of in every for p in list(of.study.points)[1:] if p in of.points]
    counts = [
        cell.orders
        for of in every
        for m in of.methods
        for p in of.points
        if (cell := of.cell(m, p))
    ]
    fewest = min(counts)
    most = max(counts)

    def wins(method: str) -> tuple[int, float]:
        means = [cell.mean for of, p in conditions if (cell := of.cell(method, p))]
        return sum(lead.points >= 0 for _, _, lead in leads[method]), -float(
            np.mean(means or [100.0])
        )

    def place(of: StudyRuns, point: str) -> str:
        return f"“{point}” ({of.study.title}{f', {of.task}' if len(tasks) > 1 else ''})"

    def costs(of: StudyRuns, point: str) -> dict[str, float]:
        """Points that the trouble of a condition costs each method, against the study's first point."""
        cells = {
            m: (of.cell(m, point), of.cell(m, next(iter(of.study.points)))) for m in of.methods
        }
        return {
            titles[m]: there.mean - before.mean
            for m, (there, before) in cells.items()
            if there and before
        }

    leads = {
        m: [
            (of, p, lead)
            for of, p in conditions
            if (lead := of.lead(m, p, [r for r in methods if r != m]))
        ]
        for m in methods
    }
    leader = max(methods, key=wins)
    own = sorted(leads[leader], key=lambda each: each[2].points)
    won, lost = ([each for each in own if (each[2].points >= 0) == wins] for wins in (True, False))
    dear = [
        (cost[titles[leader]], each, cost)
        for each in conditions
        if titles[leader] in (cost := costs(*each))
    ]
    words: dict[str, Any] = {"cost": None}
    if dear:
        words["cost"], (of, point), cost = max(dear, key=lambda each: each[0])
        least = min(cost, key=cost.__getitem__)
        words |= {
            "cost_at": place(of, point),
            "there": of.rates(leader, point).mean(),
            "least": least,
            "costs": cost,
        }
    bad = [place(of, point) for of, point, lead in lost if lead.clear]
    studies, spoiled = ({(of.study.name, of.task) for of, _, _ in some} for some in (own, lost))
    return text(
        "study-verdict", **words, methods=count(len(methods), "method"),
        studies=count(len({of.study.name for of in every}), "study", "studies"),
        where=tasks[0] if len(tasks) == 1 else count(len(tasks), "target"),
        orders=(f"{fewest} to " if fewest < most else "") + count(most, "order"), fewest=fewest, enough=ENOUGH_ORDERS,
        conditions=bool(conditions), leader=titles[leader], titles=titles, own=len(own), won=len(won), lost=len(lost),
        worst=lost[0][2] if lost else None, lost_at=place(*lost[0][:2]) if lost else "", clearly=_clearly,
        whole_studies=len(studies - spoiled), all_studies=len(studies), clear=sum(lead.clear for _, _, lead in won),
        safe=2 * sum(lead.clear and lead.points > 0 for _, _, lead in own) >= len(own), unless=bad[0] if bad else "",
        median=float(np.median([lead.points for _, _, lead in own])) if own else 0.0,
    )  # fmt: skip


# -- tables, figures, the page ----------------------------------------------------------------------------------


def mistakes(of: StudyRuns) -> Table:
    """Mistakes in per cent: one row for each point, one column for each method, the lowest of each row marked."""
    rows = {point: {m: of.cell(m, point) for m in of.methods} for point in of.points}
    cells = [
        [
            point,
            *lowest([c and c.mean for c in row.values()], [c and c.brief for c in row.values()]),
        ]
        for point, row in rows.items()
    ]
    records: list[dict[str, Any]] = [
        {
            "study": of.study.name,
            "task": of.task,
            "point": point,
            "method": m,
            "mean": c.mean,
            "sd": c.sd,
        }
        | {"orders": c.orders, "n": int(of.part(m, point)["n"].iloc[0])}
        | {"balanced": float(of.rates(m, point, "balanced").mean())}
        for point, row in rows.items()
        for m, c in row.items()
        if c
    ]
    orders, lengths = (sorted({r[name] for r in records}) for name in ("orders", "n"))
    words = {"study": of.study.title, "task": of.task, "orders": orders[-1]}
    words["instances"] = " to ".join(map(str, dict.fromkeys((lengths[0], lengths[-1]))))
    return table(
        "study",
        ["", *(of.runs.titles[m] for m in of.methods)],
        cells,
        records,
        name=of.name,
        **words,
    )


def around(of: StudyRuns) -> Table | None:
    """Mistakes in the tenths of the stream before and after an abrupt change, and in the last one."""
    rows = []
    for method in (m for m in of.methods if of.study.name == "drift" and of.cell(m, "abrupt")):
        part = of.part(method, "abrupt")
        at, rates = curves(part, WINDOW)
        change = part["changes"].iloc[0][0]
        mean = rates.mean(axis=0)
        places = [int(np.searchsorted(at, at[0] * k + change)) for k in (0, 1)]
        rows.append(
            [
                of.runs.titles[method],
                *(f"{mean[min(i, len(mean) - 1)]:.1f}" for i in (*places, len(mean) - 1)),
            ]
        )
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
            rates = {
                x: of.rates(method, p, measure)
                for x, p in enumerate(points.values())
                if of.cell(method, p)
            }
            if rates:
                lines.append(
                    Line.over(
                        of.runs.titles[method], of.runs.styles[method], list(rates), rates.values()
                    )
                )
        panels.append(
            Panel(title, lines, axis, ylabel, (-0.2, len(points) - 0.8), ticks=list(points))
        )
    figure = draw(panels, columns=2, size=(4.4, 3.0), sparse=False, shared=False)
    heights = [of.rule("majority", p) for p in of.points] if rare else []
    if rare and min(heights) <= ROOM * max(max(line.y) for line in panels[0].lines):
        axes = figure.axes[0]
        end = len(heights) - 1
        limits = axes.get_ylim()
        axes.plot(range(len(heights)), heights, color=GREY, linewidth=1.2)
        axes.annotate(
            "majority rule", (end, heights[-1]), color=GREY, fontsize=9, ha="right", va="bottom"
        )
        axes.set_ylim(0, min(max(limits[1], 1.04 * max(heights)), 100.0))
    return figure


def along(of: StudyRuns) -> Any:
    """Mistakes in a moving window along the stream, one panel for each point; upright lines show changes."""
    panels = []
    for point in of.points:
        parts = {m: of.part(m, point) for m in of.methods if of.cell(m, point)}
        windows = {m: curves(part, WINDOW) for m, part in parts.items()}
        lines = [
            Line(of.runs.titles[m], of.runs.styles[m], at, Y.mean(axis=0))
            for m, (at, Y) in windows.items()
        ]
        changes = list(parts.values())[-1]["changes"].iloc[0]
        panels.append(
            Panel(
                point, lines, "instances of the stream", "mistakes in a window, %", changes=changes
            )
        )
    end = max(line.x[-1] for panel in panels for line in panel.lines)
    return draw(
        [replace(panel, xlim=(0, end)) for panel in panels],
        columns=2,
        size=(4.4, 3.0),
        shared=False,
    )


def _section(of: StudyRuns) -> Section:
    kind, drawing = (
        ("along", along(of)) if of.study.name == "drift" else ("strengths", strengths(of))
    )
    shown = figure(kind, drawing, name=of.name, study=of.study.title, task=of.task)
    parts = [of.study.meaning, shown, list(sentences(of)), mistakes(of), around(of)]
    return Section(f"{of.study.title}: {of.task}", [part for part in parts if part], of.name)


def report(out: str | Path, say: Say = lambda text: None) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    folder = Path(out)
    first = f"run `python -m reproduction study all --out {shlex.quote(str(out))}` first"
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
        "results": f"{len(runs.frame)} runs in {FILE}"
        + "".join(f"; {problem}" for problem in runs.problems),
    }
    sections = [_section(of) for of in every]
    return Report(
        "hedgerow: streams as they are", verdict(every), sections, facts, text("about-study")
    ).save(folder)


def tables(out: str | Path, name: str) -> list[Table]:
    """The tables of the studies of this name over the rows that are there, for the terminal."""
    names = {study.name for study in find_studies(name)}
    return [mistakes(of) for of in studies_in(Runs.read(out)) if of.study.name in names]
