"""`hedgerow study`: methods on streams as they are. A study is one function: its points are scenarios.

Orders of a stream are the same for all methods, so two methods are compared order by order: a lead is clear where
Wilcoxon's signed ranks over the orders say so or, with fewer orders than that test needs, where one method is better in
every order.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.core.arrays import Array, Matrix
from hedgerow.core.errors import InputError, unknown
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.lab import STUDIES as TITLES
from hedgerow.lab import TARGETS
from hedgerow.lab import tasks as sc
from hedgerow.lab.rows import Row
from hedgerow.lab.runner import Folder, Unit, expert_losses, find_methods, finished
from hedgerow.lab.stream import OnlineModel, events, play
from hedgerow.lab.tasks import Task, task_of
from hedgerow.learner import BLOCK

ALONE = "no sources"
Points = dict[str, Callable[[Task], Task]]


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
        STUDIES[name] = Study(name, axis, " ".join((inspect.getdoc(points) or "").split()), points())

    return register


def _percent(change: Callable[..., Task], *percents: int, kind: str = "", **more: Any) -> Points:
    """A scenario at these shares, in per cent."""
    return {f"{kind}{percent} %": partial(change, **more, share=percent / 100) for percent in percents}


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
    kinds = {"labels shuffled": sc.shuffled, "classes exchanged": sc.exchanged, "other classes": sc.others}
    for kind, relabel in kinds.items():
        points |= _percent(sc.relabelled, 50, 100, kind=f"{kind}: ", relabel=relabel)
    return points


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
    from hedgerow.lab.study_report import report

    folder.begin()
    studies, names = find_studies(name), find_methods(methods)
    if data not in TARGETS:
        raise unknown("data set", data, TARGETS)
    if orders < 1:
        raise InputError(f"orders={orders}: at least one order of the stream is needed")
    targets = [word.strip() for word in (target or TARGETS[data]).split(",") if word.strip()]
    places = [(study.name, point, each) for study in studies for each in targets for point in study.points]
    for study_name, point, each in places:
        make_task(study_name, point, data, each, folder.data_dir)
    folder.check("general")
    more: dict[str, Any] = {"split": sc.SEED, "orders": orders, "options": {"random_state": sc.SEED}}
    units = [
        Unit(study_name, f"{data}/{each}", m, partial(make_task, study_name, p, data, each), measure, p, **more)
        for study_name, p, each in places
        for m in names
    ]
    return folder.run(units, report)


def make_task(study: str, point: str, data: str, target: str, data_dir: str | None = None) -> Task:
    """The task of a point of a study."""
    return STUDIES[study].points[point](task_of(data, target, sc.SEED, data_dir=data_dir))


def wrong(model: OnlineModel, task: Task, order: int) -> Array:
    """Which predictions of the stream were mistakes, in order of arrival."""
    stream = task.arrived(order)
    y = np.asarray(stream.y)
    mistakes = np.empty(len(y), dtype=bool)
    for i, prediction in play(model, task.labels(events(zip(stream.X, y, strict=True)), order), BLOCK):
        mistakes[i] = prediction != y[i]
    return mistakes


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
        predictions = np.empty(len(y), dtype=object)
        for i, label in enumerate(y):
            predictions[i] = self.predict(X[i : i + 1])[0]
            self.partial_fit(X, [label])
        return predictions


def measure(unit: Unit, task: Task, clf: OnlineTransferClassifier, trial: int) -> Row:
    """What a row says of a finished order."""
    began = time.perf_counter()
    mistakes = wrong(clf, task, trial)
    seconds = time.perf_counter() - began
    y = np.asarray(task.arrived(trial).y)
    return {
        **expert_losses(clf),
        **finished(mistakes, seconds),
        "balanced": float(np.mean([mistakes[y == label].mean() for label in np.unique(y)])),
        "majority": int(wrong(Majority(), task, trial).sum()),
        "changes": task.arriving(trial).changes,
        "learned": clf.seen_,
        "sources": clf.source_names_,
        "unlabelled": 0 if task.warmup is None else len(task.warmup),
        "options": {"dim": clf.dim_},
        "seeds": {"task": sc.SEED, "order": trial},
    }
