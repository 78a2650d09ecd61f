"""`hedgerow study`: methods on streams as they are. A study is one entry of STUDIES: its points are scenarios.

Orders of a stream are the same for all methods, so two methods are compared order by order: a lead is clear where
Wilcoxon's signed ranks over the orders say so or, with fewer orders than that test needs, where one method is better in
every order.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError, unknown
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.lab import TARGETS
from hedgerow.lab import scenarios as sc
from hedgerow.lab.figures import GREY, Line, Panel, draw
from hedgerow.lab.report import Figure, Report, Section, Table, Value, count, paragraph
from hedgerow.lab.rows import ENOUGH_ORDERS, FILE, Cell, Row, Runs, Say
from hedgerow.lab.runner import Folder, Unit, commands_given, expert_losses, find_methods
from hedgerow.lab.stats import ALPHA, wilcoxon
from hedgerow.lab.stream import OnlineModel, evenly, events, play
from hedgerow.lab.tasks import Task, task_of
from hedgerow.learner import BLOCK

OURS = ("hedgerow", "hedgerow-linear")
ALONE = "no sources"
LIMIT = 2.0  # points: what transfer from bad sources may cost against no transfer at all
TESTED = 6  # orders from which on Wilcoxon's p can fall below .05: with n of them it is at least 2^(1 - n)
WINDOW = 4  # checkpoints: a tenth of a stream that has forty
ROOM = 1.3  # the majority rule is drawn where it is at most this many times the worst method
ABOUT = (
    "Labels late, missing or in batches, classes that nobody named before, a target that changes, rare classes, "
    "sources of every kind: how many mistakes each method makes, and where ours loses."
)


@dataclass(frozen=True)
class Study:
    """Scenarios by name in the order of the table, the panels that draw them, and a `reference` point to compare with.

    A panel is its title, the label of its axis, and the points on it by their names there.
    """

    name: str
    title: str
    meaning: str
    points: Mapping[str, sc.Scenario]
    panels: Sequence[tuple[str, str, Mapping[str, str]]]
    reference: str = ""


def _strengths(name: str, title: str, axis: str, points: Mapping[str, sc.Scenario], meaning: str) -> Study:
    return Study(name, title, meaning, points, [("", axis, {point: point for point in points})])


def _kinds(
    name: str, title: str, meaning: str, first: Mapping[str, sc.Scenario], axis: str,
    kinds: Mapping[str, Callable[[float], sc.Scenario]], shares: Sequence[int], start: str, reference: str = "",
) -> Study:  # fmt: skip
    """Several kinds of one trouble, each at these shares; `start` is the point without trouble."""
    points, panels = dict(first), []
    if reference:
        panels.append(("what is there in advance", "", {name: name for name in first}))
    for kind, scenario in kinds.items():
        names = {f"{percent} %": f"{kind}: {percent} %" for percent in shares}
        points |= {names[f"{percent} %"]: scenario(percent / 100) for percent in shares}
        panels.append((kind, axis, {"0 %": start, **names}))
    return Study(name, title, meaning, points, panels, reference)


def _late_and_absent(share: float) -> sc.Scenario:
    late, absent = sc.appearing_late(share), sc.only_in_target(share)
    return lambda task: late(absent(task))


STUDIES = {
    study.name: study
    for study in (
        _strengths(
            "delay", "Labels that come late", "labels late by D instances",
            {str(rounds): sc.delayed(rounds) for rounds in (0, 10, 50, 200)},
            "The label of an instance arrives D instances later; what still waits at the end of the stream comes then.",
        ),
        _strengths(
            "missing", "Labels that never come", "labels missing",
            {f"{percent} %": sc.lost(percent / 100) for percent in (0, 10, 50, 90, 99)},
            "Each label is lost with the same probability. Mistakes are counted on all instances all the same.",
        ),
        _strengths(
            "batches", "Labels in batches", "labels in batches of B",
            {str(size): sc.batched(size) for size in (1, 10, 50, 200)},
            "Labels wait until B of them are there, and come together.",
        ),
        _kinds(
            "late-classes", "Classes that appear late, or only in the target",
            "A share of the classes, at least one, is in no source, or does not stream before half-time, or both. The "
            "first instance of a class that nobody named before is a mistake of every method.",
            {"0 %": sc.as_it_is}, "share of the classes",
            {
                "only in the target": sc.only_in_target, "late": sc.appearing_late,
                "only in the target, and late": _late_and_absent,
            },
            (20, 50), "0 %",
        ),
        _strengths(
            "missing-classes", "Classes missing from some sources", "classes missing from each source",
            {"0 %": sc.as_it_is} | {f"{percent} %": sc.missing_classes(percent / 100) for percent in (20, 50, 80)},
            "Each source lacks a share of the classes, at least one, another draw for each; all are in some source.",
        ),
        _strengths(
            "drift", "A target that changes", "", {kind: sc.drifting(kind) for kind in sc.DRIFTS},
            "Mid-stream the target becomes another domain of its family, one that is no source: at once, little by "
            'little, or back and forth. The unlabelled rows are of the first domain. In "renamed" the domain stays '
            "and every class takes the name of the next.",
        ),
        _strengths(
            "imbalance", "Rare classes", "rows that the rare classes keep",
            {"100 %": sc.as_it_is} | {f"{percent} %": sc.imbalanced(percent / 100) for percent in (30, 10, 3)},
            "Half of the classes keep only a share of their target rows, at least one each; the sources stay as they "
            "are.",
        ),
        _kinds(
            "sources", "Sources of every kind",
            "Few sources, no unlabelled target rows, sources whose labels are noise, are systematically wrong, or name "
            "classes that never stream. Each method is compared with itself without any source (it is told the list of "
            "classes, nothing else): what is worse than that is negative transfer.",
            {
                "all sources": sc.as_it_is, "no unlabelled rows": sc.no_unlabelled, "one source": sc.one_source,
                ALONE: sc.no_sources,
            },
            "share of the sources",
            {
                "labels shuffled": partial(sc.relabelled, relabel=sc.shuffled),
                "classes exchanged": partial(sc.relabelled, relabel=sc.exchanged),
                "other classes": partial(sc.relabelled, relabel=sc.others),
            },
            (50, 100), "all sources", ALONE,
        ),
    )
}  # fmt: skip


def find_studies(name: str) -> list[Study]:
    """The study of this name; "all" is all of them, and commas join several.

    >>> [study.name for study in find_studies("delay,drift")]
    ['delay', 'drift']
    """
    wanted = [word.strip() for word in name.split(",") if word.strip()]
    if not wanted:
        raise InputError(f"no study named; choose one of {', '.join(STUDIES)}, or all (`hedgerow study --list`)")
    for word in wanted:
        if word != "all" and word not in STUDIES:
            raise unknown("study", word, [*STUDIES, "all"])
    return list(STUDIES.values()) if "all" in wanted else [STUDIES[word] for word in wanted]


def listed() -> list[tuple[str, str, str]]:
    """Name, title and strengths of every study, or its kinds where it has several.

    >>> listed()[0]
    ('delay', 'Labels that come late', '0; 10; 50; 200')
    """
    kinds = {s.name: s.points if len(s.panels) == 1 else [title for title, _, _ in s.panels] for s in STUDIES.values()}
    return [(study.name, study.title, "; ".join(kinds[study.name])) for study in STUDIES.values()]


# -- runs -------------------------------------------------------------------------------------------------------


def run(
    folder: Folder, name: str, data: str = "digits", target: str | None = None, methods: str = "all", orders: int = 5
) -> Path | None:
    """Check everything, run what is not in the folder yet and write the report; None if that was interrupted."""
    folder.begin()
    studies, names = find_studies(name), find_methods(methods)
    if data not in TARGETS:
        raise unknown("data set", data, TARGETS)
    if orders < 1:
        raise InputError(f"orders={orders}: at least one order of the stream is needed")
    targets = [word.strip() for word in (target or TARGETS[data]).split(",") if word.strip()]
    for each in targets:
        for study in studies:
            for point in study.points:
                make_task(study.name, point, data, each, folder.data_dir)
    folder.check("general")
    more: dict[str, Any] = {"split": sc.SEED, "orders": orders, "options": {"random_state": sc.SEED}}
    units = [
        Unit(study.name, f"{data}/{each}", m, partial(make_task, study.name, p, data, each), measure, p, **more)
        for study in studies
        for each in targets
        for p in study.points
        for m in names
    ]
    return folder.run(units, report)


def make_task(study: str, point: str, data: str, target: str, data_dir: str | None = None) -> Task:
    """The task of a point of a study."""
    return STUDIES[study].points[point](task_of(data, target, sc.SEED, data_dir=data_dir))


def wrong(model: OnlineModel, task: Task, order: int) -> Array:
    """Which predictions of the stream were mistakes, in order of arrival."""
    rows = task.arriving(order).rows
    X, y = task.stream.X[rows], np.asarray(task.stream.y)[rows]
    out = np.empty(len(rows), dtype=bool)
    for i, prediction in play(model, task.labels(events(zip(X, y, strict=True)), order), BLOCK):
        out[i] = prediction != y[i]
    return out


class Majority:
    """The rule that any learner has to beat: the most frequent label so far.

    >>> Majority().predict_then_learn(np.zeros((3, 1)), ["a", "b", "b"]).tolist()
    [None, 'a', 'a']
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def predict(self, X: Matrix) -> Array:
        """The same for every row."""
        best = self.counts.most_common(1)
        return np.full(X.shape[0], best[0][0] if best else None, dtype=object)

    def partial_fit(self, X: Matrix, y: Any) -> Majority:
        """Count the labels."""
        self.counts.update(label for label in y if label is not None)
        return self

    def predict_then_learn(self, X: Matrix, y: Any) -> Array:
        """Predict and count row by row."""
        out = np.empty(len(y), dtype=object)
        for i, label in enumerate(y):
            out[i] = self.predict(X[i : i + 1])[0]
            self.partial_fit(X, [label])
        return out


def measure(unit: Unit, task: Task, clf: OnlineTransferClassifier, trial: int) -> Row:
    """What a row says of a finished order."""
    began = time.perf_counter()
    mistakes = wrong(clf, task, trial)
    seconds = time.perf_counter() - began
    arrivals = task.arriving(trial)
    y, n = np.asarray(task.stream.y)[arrivals.rows], len(mistakes)
    at = np.array(evenly(n))
    return {
        **expert_losses(clf),
        "mistakes": int(mistakes.sum()),
        "n": n,
        "balanced": float(np.mean([mistakes[y == label].mean() for label in np.unique(y)])),
        "majority": int(wrong(Majority(), task, trial).sum()),
        "changes": arrivals.changes,
        "seconds_online": seconds,
        "curve_at": at,
        "curve": np.cumsum(mistakes)[at - 1],
        "learned": clf.seen_,
        "sources": clf.source_names_,
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
        d = (other - own).dropna().to_numpy()
        if not len(d):
            return None
        test = wilcoxon(d, np.zeros(len(d)))
        one_way = len(d) > 1 and (bool((d > 0).all()) or bool((d < 0).all()))
        clear = test.p < ALPHA if len(d) >= TESTED else one_way
        error = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
        return cls(rival, round(float(d.mean()), 9), error, clear, len(d))  # rounded: equal counts are equal

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
        means = {m: float(self.rates(m, point, measure).mean()) for m in rivals if self.cell(m, point)}
        if not means or not self.cell(method, point):
            return None
        best = min(means, key=lambda name: means[name])
        return Lead.over(best, self.rates(method, point, measure), self.rates(best, point, measure))

    def majority(self, point: str) -> float:
        """Mistakes of the majority rule at a point, in per cent; it does not depend on the method."""
        parts = [self.part(m, point) for m in self.methods]
        return float(np.concatenate([(100 * p["majority"] / p["n"]).to_numpy(dtype=float) for p in parts]).mean())


def studies_in(runs: Runs) -> list[StudyRuns]:
    """Every study on every target that has rows, in the order of the table of studies."""
    return [StudyRuns(runs, study, task) for study in STUDIES.values() for task in runs.tasks(study.name)]


def sentences(of: StudyRuns) -> Iterator[str]:
    """Everything that is said about a study on a task."""
    titles = of.runs.titles
    for method in (m for m in of.methods if m in OURS):
        yield from _against_baselines(of, method, "rate", "mistakes")
        if of.study.name == "imbalance":
            yield from _against_baselines(of, method, "balanced", "mistakes with every class counted the same")
    if of.study.reference:
        for method in of.methods:
            yield from _against_itself(of, method)
    for method in of.methods:
        for point in of.points:
            cell = of.cell(method, point)
            if cell and "majority" in of.runs.frame and (behind := cell.mean - of.majority(point)) > 0:
                yield f"{titles[method]} at “{point}” is {behind:.1f} points worse than the majority rule."


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
    name, alone = of.runs.titles[method], of.rates(method, of.study.reference)
    rest = [point for point in of.points if point != of.study.reference]
    costs = {p: cost for p in rest if (cost := Lead.over(method, alone, of.rates(method, p)))}
    if not costs:
        return
    worst = max(costs, key=lambda p: costs[p].points)
    if costs[worst].points <= 0:
        yield f"{name} is at no point worse than itself without sources."
        return
    over = sum(cost.points > LIMIT for cost in costs.values())
    word = f"more than {LIMIT:g} points worse at {over}" if over else f"within {LIMIT:g} points at all"
    yield (
        f"{name} against itself without sources: {word} of {len(costs)} points; the worst is “{worst}”, by "
        f"{costs[worst]}."
    )


# -- the verdict ------------------------------------------------------------------------------------------------


def verdict(every: Sequence[StudyRuns]) -> str:
    """What somebody should know who reads nothing else: who leads, where not, what trouble costs, what follows."""
    standing = _Standing(every)
    if not standing.conditions:
        nothing = "No condition with trouble has been run yet, so nothing is said about it here."
        return paragraph([standing.scope(), nothing])
    return paragraph([standing.scope(), standing.lead(), standing.behind(), standing.cost(), standing.meaning()])


class _Standing:
    """Where the leader stands: the method that has the fewest mistakes in most conditions.

    A condition is a point of a study on a target, but the first, which is without trouble: one run in most studies.
    """

    def __init__(self, every: Sequence[StudyRuns]) -> None:
        self.every, self.titles = every, every[0].runs.titles
        self.methods = list(dict.fromkeys(method for of in every for method in of.methods))
        self.tasks = list(dict.fromkeys(of.task for of in every))
        self.conditions = [(of, p) for of in every for p in list(of.study.points)[1:] if p in of.points]
        counts = [cell.orders for of in every for m in of.methods for p in of.points if (cell := of.cell(m, p))]
        self.fewest, self.most = min(counts), max(counts)

    def leads(self, method: str) -> list[tuple[StudyRuns, str, Lead]]:
        """A method's lead over the best of all others in every condition in which it has a rival."""
        rivals = [m for m in self.methods if m != method]
        return [(of, p, lead) for of, p in self.conditions if (lead := of.lead(method, p, rivals))]

    @cached_property
    def leader(self) -> str:
        """Of methods that win as often, the one with the fewer mistakes on average."""

        def standing(method: str) -> tuple[int, float]:
            means = [cell.mean for of, p in self.conditions if (cell := of.cell(method, p))]
            return sum(lead.points >= 0 for _, _, lead in self.leads(method)), -float(np.mean(means or [100.0]))

        return max(self.methods, key=standing)

    @cached_property
    def own(self) -> list[tuple[StudyRuns, str, Lead]]:
        """The leader's leads, the largest difference to its disadvantage first."""
        return sorted(self.leads(self.leader), key=lambda each: each[2].points)

    @cached_property
    def losses(self) -> dict[tuple[int, str], dict[str, float]]:
        """Points that the trouble of each condition costs each method, where the leader's is known."""
        out = {}
        for of, p in self.conditions:
            cells = {m: (of.cell(m, p), of.cell(m, next(iter(of.study.points)))) for m in of.methods}
            costs = {m: there.mean - before.mean for m, (there, before) in cells.items() if there and before}
            if self.leader in costs:
                out[self.every.index(of), p] = costs
        return out

    @cached_property
    def worst(self) -> tuple[StudyRuns, str, dict[str, float]] | None:
        """The condition that costs the leader most, and what it costs each method."""
        if not self.losses:
            return None
        i, point = max(self.losses, key=lambda key: self.losses[key][self.leader])
        return self.every[i], point, self.losses[i, point]

    def name(self, of: StudyRuns, point: str) -> str:
        return f"“{point}” ({of.study.title}{f', {of.task}' if len(self.tasks) > 1 else ''})"

    def scope(self) -> str:
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
        text = f"{self.titles[self.leader]} makes the fewest mistakes in {number} conditions with trouble{whole}"
        if self.fewest == 1:
            return text + ". With one order nobody knows how much of a lead is due to the order of the stream."
        clear, how = sum(lead.clear for lead in won), _clearly(self.fewest)
        if clear in (0, len(won)):
            where = "there" if len(won) == 1 else "in all of them" if clear else "in none of them"
            return text + f"; it is ahead {how} {where}."
        return text + (
            f"; it is ahead {how} in {clear} of them; in the other {len(won) - clear} the order of the stream may "
            "explain it."
        )

    def behind(self) -> str:
        lost = [each for each in self.own if each[2].points < 0]
        if not lost:
            return ""
        of, point, lead = lost[0]
        most = ":" if len(lost) == 1 else ", most"
        text = f"It is behind in {len(lost)}{most} at {self.name(of, point)}"
        text += f" {self.titles[lead.rival]} makes {-lead.points:.1f} points fewer mistakes"
        return text + ("." if self.fewest == 1 else f", {'' if lead.clear else 'but not '}{_clearly(lead.orders)}.")

    def cost(self) -> str:
        """The largest loss of the leader when the trouble grows, and who loses least there."""
        if self.worst is None:
            return ""
        of, point, losses = self.worst
        own, title = self.leader, self.titles[self.leader]
        if losses[own] <= 0:
            return f"No trouble here costs {title} anything."
        there = float(of.rates(own, point).mean())
        text = f"The trouble that costs {title} most is {self.name(of, point)}: {there:.1f} % mistakes instead of "
        text += f"{there - losses[own]:.1f} %, {losses[own]:.1f} points more"
        least = min(losses, key=lambda method: losses[method])
        if len(losses) == 1:
            return text + "."
        if least == own:
            return text + "; all others lose more there."
        return text + f"; least it costs {self.titles[least]}, {losses[least]:.1f} points."

    def meaning(self) -> str:
        """What a reader should do: a choice only where most leads are clear, weighed against the trouble itself."""
        if not self.own:
            return ""
        more = f"{ENOUGH_ORDERS} orders or more (--orders)"
        if self.fewest == 1:
            return f"What that means: run {more} before you choose a method by this page."
        few = f"{self.fewest} orders are few: take it as a hint, and run {more} before you rely on it."
        hint = few if self.fewest < ENOUGH_ORDERS else ""
        leads = [lead for _, _, lead in self.own]
        if 2 * sum(lead.clear and lead.points > 0 for lead in leads) < len(leads):
            unsafe = "no method here is a safe choice: the order of the stream matters as much as the method."
            return paragraph([f"What that means: {unsafe}", hint])
        bad = [(of, p) for of, p, lead in self.own if lead.points < 0 and lead.clear]
        unless = f", but not where a stream is like {self.name(*bad[0])}" if bad else ""
        median = float(np.median([lead.points for lead in leads]))
        cost = self.worst[2][self.leader] if self.worst else 0.0
        weighed = f"Its median lead over the next best is {median:.1f} points, " + (
            "more than any trouble costs it."
            if cost <= median
            else f"and trouble costs it up to {cost:.1f}: to mend the stream may gain more than to change the method."
        )
        return paragraph([f"What that means: begin with {self.titles[self.leader]}{unless}.", weighed, hint])


# -- tables, figures, the page ----------------------------------------------------------------------------------


def table(of: StudyRuns) -> Table:
    """Mistakes in per cent: one row for each point, one column for each method, the lowest of each row marked."""
    cells: list[list[object]] = []
    records: list[dict[str, Any]] = []
    for point in of.points:
        row = {m: cell for m in of.methods if (cell := of.cell(m, point))}
        lowest = min(round(cell.mean, 1) for cell in row.values())
        marks = {m: Value(c.brief, mark="best" if round(c.mean, 1) == lowest else "") for m, c in row.items()}
        cells.append([point, *(marks.get(m, "–") for m in of.methods)])
        records += [
            {"study": of.study.name, "task": of.task, "point": point, "method": m, "mean": c.mean, "sd": c.sd}
            | {"orders": c.orders, "n": int(of.part(m, point)["n"].iloc[0])}
            | {"balanced": float(of.rates(m, point, "balanced").mean())}
            for m, c in row.items()
        ]
    orders, lengths = max(r["orders"] for r in records), sorted({r["n"] for r in records})
    counted = "one order" if orders == 1 else f"mean ± standard deviation over {orders} orders"
    shared = f"{lengths[0]} to {lengths[-1]}" if len(lengths) > 1 else f"{lengths[0]}"
    note = (
        f"Mistakes in per cent of {shared} instances, {counted} of the stream; one "
        "split and one draw of classes and sources, the same for every method. The spread is that of the order alone."
    )
    title = f"{of.study.title}: mistakes in %, {of.task}"
    return Table(of.name, title, ["", *(of.runs.titles[m] for m in of.methods)], cells, note, records)


def around(of: StudyRuns) -> Table | None:
    """Mistakes in the tenths of the stream before and after an abrupt change, and in the last one."""
    methods = [m for m in of.methods if of.study.name == "drift" and of.cell(m, "abrupt")]
    rows = []
    for method in methods:
        at, rates = windows(of.part(method, "abrupt"))
        mean, change = rates.mean(axis=0), of.part(method, "abrupt")["changes"].iloc[0][0]
        places = [int(np.searchsorted(at, at[0] * k + change)) for k in (0, 1)]
        rows.append([of.runs.titles[method], *(f"{mean[min(i, len(mean) - 1)]:.1f}" for i in (*places, len(mean) - 1))])
    header = ["method", "tenth before", "tenth after", "last tenth"]
    return Table(f"{of.name}-change", f"Around the abrupt change, {of.task}", header, rows) if rows else None


def windows(part: Any, width: int = WINDOW) -> tuple[Array, Array]:
    """Ends of the windows of a tenth of the stream, and the mistakes in each in per cent (orders x windows).

    >>> import pandas as pd
    >>> windows(pd.DataFrame({"curve_at": [[10, 20, 30]], "curve": [[5, 6, 6]]}), width=1)[1].tolist()
    [[50.0, 10.0, 0.0]]
    """
    at = np.array([0, *part["curve_at"].iloc[0]])
    curves = np.array([[0, *curve] for curve in part["curve"] if len(curve) == len(at) - 1], dtype=float)
    width = min(width, len(at) - 1)
    return at[width:], 100 * (curves[:, width:] - curves[:, :-width]) / (at[width:] - at[:-width])


def strengths(of: StudyRuns) -> Any:
    """Mistakes against strength, a panel for each kind; for rare classes one more that weighs all classes the same."""
    rare = of.study.name == "imbalance"
    shown = [(panel, "rate", "mistakes, %") for panel in of.study.panels]
    shown += [(of.study.panels[0], "balanced", "mistakes, %, mean of the classes")] if rare else []
    panels = []
    for (title, axis, points), measure, ylabel in shown:
        lines = []
        for method in of.methods:
            there = [(x, of.rates(method, p, measure)) for x, p in enumerate(points.values()) if of.cell(method, p)]
            if there:
                mean = np.array([rates.mean() for _, rates in there])
                sd = np.array([rates.std() if len(rates) > 1 else 0.0 for _, rates in there])
                x = np.array([x for x, _ in there])
                style = of.runs.styles[method]
                lines.append(Line(of.runs.titles[method], style, x, mean, mean - sd, mean + sd))
        xlim = (-0.2, len(points) - 0.8)
        panels.append(Panel(title, lines, axis, ylabel, xlim, ticks=list(points)))
    figure = draw(panels, columns=2, size=(4.4, 3.0), sparse=False, shared=False)
    if rare:
        _add_majority(figure.axes[0], [of.majority(p) for p in of.points], max(max(line.y) for line in panels[0].lines))
    return figure


def _add_majority(axes: Any, heights: Sequence[float], top: float) -> None:
    if min(heights) <= ROOM * top:
        limits = axes.get_ylim()
        axes.plot(range(len(heights)), heights, color=GREY, linewidth=1.2)
        axes.annotate("majority rule", (len(heights) - 1, heights[-1]), color=GREY, fontsize=9, ha="right", va="bottom")
        axes.set_ylim(0, min(max(limits[1], 1.04 * max(heights)), 100.0))


def along(of: StudyRuns) -> Any:
    """Mistakes in a moving window along the stream, one panel for each point; upright lines show changes."""
    panels = []
    for point in of.points:
        lines = []
        methods = [m for m in of.methods if of.cell(m, point)]
        for method in methods:
            at, rates = windows(of.part(method, point))
            lines.append(Line(of.runs.titles[method], of.runs.styles[method], at, rates.mean(axis=0)))
        changes = of.part(methods[-1], point)["changes"].iloc[0]
        panels.append(Panel(point, lines, "instances of the stream", "mistakes in a window, %", changes=changes))
    figure = draw(panels, columns=2, size=(4.4, 3.0), shared=False)
    for axes in figure.axes:
        axes.set_xlim(0, max(line.x[-1] for panel in panels for line in panel.lines))
    return figure


def _section(of: StudyRuns) -> Section:
    drift = of.study.name == "drift"
    caption = (
        "Mistakes in a window of a tenth of the stream, mean over the orders; upright lines: where the stream changes."
        if drift
        else "Means over the orders; bands are one standard deviation."
    )
    figure = Figure(of.name, along(of) if drift else strengths(of), f"{of.study.title} on {of.task}.", caption)
    parts = [of.study.meaning, figure, list(sentences(of)), table(of), around(of)]
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
    data = sorted({f"{task.partition('/')[0]} {data}" for task, data in zip(own["task"], own["data"], strict=True)})
    facts = {
        "command": commands_given(folder),
        "options": "reading='general', all others at their defaults; seed 0 for split, classes and sources",
        "orders": f"up to {runs.frame['trial'].max() + 1}, the same for every method",
        "data": ", ".join(data),
        "results": f"{len(runs.frame)} runs in {FILE}" + "".join(f"; {problem}" for problem in runs.problems),
    }
    sections = [_section(of) for of in every]
    return Report("hedgerow: streams as they are", verdict(every), sections, facts, ABOUT).save(folder)


def tables(out: str | Path, name: str) -> list[Table]:
    """The tables of the studies of this name over the rows that are there, for the terminal."""
    names = {study.name for study in find_studies(name)}
    return [table(of) for of in studies_in(Runs.read(out)) if of.study.name in names]
