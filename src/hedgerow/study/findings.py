"""What the rows of a study say, in words: who makes fewer mistakes where, computed and never typed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.evaluate.folds import Row
from hedgerow.experiment.summaries import RunIndex, rate, summarise
from hedgerow.study.studies import OURS, Study

LIMIT = 2.0  # points: what transfer from bad sources may cost against no transfer at all
Measure = Callable[[Row], float]


@dataclass(frozen=True)
class StudyRuns:
    """The rows of one study on one task."""

    index: RunIndex
    study: Study
    task: str

    def rows(self, method: str, point: str) -> list[Row]:
        """The rows of a method at a point, in the order of their trials."""
        return self.index.rows_of(self.study.name, self.task, method, point)

    @property
    def points(self) -> list[str]:
        """The points that have rows."""
        return [p for p in self.study.points if any(self.rows(m, p) for m in self.index.styles())]

    @property
    def methods(self) -> list[str]:
        """The methods that have rows."""
        return [m for m in self.index.styles() if any(self.rows(m, p) for p in self.study.points)]

    @property
    def orders(self) -> int:
        """The largest number of orders of a cell."""
        return max(len(self.rows(m, p)) for m in self.methods for p in self.points)

    def title(self, method: str) -> str:
        """As people know it."""
        return self.index.titles[method]


@dataclass(frozen=True)
class Gap:
    """The first's mistake rate minus the second's, in points, over the orders that both have; its standard error."""

    points: float
    error: float

    def __str__(self) -> str:
        """As printed.

        >>> str(Gap(1.234, 0.5)), str(Gap(-3.0, float("nan")))
        ('1.2 ± 0.5 points', '3.0 points')
        """
        return f"{abs(self.points):.1f}" + (f" ± {self.error:.1f}" if self.error == self.error else "") + " points"

    @property
    def clear(self) -> bool:
        """Whether the difference is larger than its standard error."""
        return not abs(self.points) <= self.error


def gap(first: Sequence[Row], second: Sequence[Row], measure: Measure = rate) -> Gap | None:
    """The mean difference, order by order; None where they share no order.

    >>> a, b = {"trial": 0, "mistakes": 20, "n": 100}, {"trial": 0, "mistakes": 15, "n": 100}
    >>> gap([a], [b])
    Gap(points=5.0, error=nan)
    """
    one, two = ({row["trial"]: measure(row) for row in rows} for rows in (first, second))
    d = np.array([one[k] - two[k] for k in sorted(one.keys() & two.keys())])
    if not len(d):
        return None
    return Gap(float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan"))


def balanced(row: Row) -> float:
    """The mean of the classes' own mistake rates, in per cent: every class counts the same."""
    return 100 * float(row["balanced"])


def majority(row: Row) -> float:
    """Mistakes of the majority rule on the same stream, in per cent."""
    return 100 * float(row["majority"]) / float(row["n"])


def sentences(runs: StudyRuns) -> Iterator[str]:
    """Everything that is said about a study on a task."""
    ours = [m for m in runs.methods if m in OURS]
    for method in ours:
        yield from _against_baselines(runs, method, rate, "mistakes")
        if runs.study.name == "imbalance":
            yield from _against_baselines(runs, method, balanced, "mistakes with every class counted the same")
    if runs.study.reference:
        for method in runs.methods:
            yield from _against_itself(runs, method)
    yield from _against_majority(runs)


def _against_baselines(runs: StudyRuns, method: str, measure: Measure, what: str) -> Iterator[str]:
    baselines = [m for m in runs.methods if m not in OURS]
    lost, leads = [], []
    for point in runs.points:
        rivals = [m for m in baselines if runs.rows(m, point)]
        if not rivals or not runs.rows(method, point):
            continue
        best = min(rivals, key=lambda m: float(np.mean([measure(row) for row in runs.rows(m, point)])))
        found = gap(runs.rows(method, point), runs.rows(best, point), measure)
        if found and found.points > 0:
            noise = "" if found.clear else " (within one standard error)"
            lost.append(f"at “{point}” to {runs.title(best)}, by {found}{noise}")
        elif found:
            leads.append((found.points, point, best, found))
    name, total = runs.title(method), len(lost) + len(leads)
    if lost:
        yield f"{name} loses in {what} at {len(lost)} of {total} points: {'; '.join(lost)}."
    if leads:
        _, point, best, found = max(leads, key=lambda lead: lead[0])
        where = f"at all {total} points" if not lost else f"at the other {len(leads)}"
        yield (
            f"{name} is not behind any baseline in {what} {where}; the closest is {runs.title(best)} at “{point}”, "
            f"{found} behind."
        )


def _against_itself(runs: StudyRuns, method: str) -> Iterator[str]:
    """Whether a method with sources is worse than the same method without any."""
    alone = runs.rows(method, runs.study.reference)
    gaps = [
        (found.points, point, found)
        for point in runs.points
        if point != runs.study.reference and (found := gap(runs.rows(method, point), alone))
    ]
    if not gaps:
        return
    most, point, found = max(gaps, key=lambda each: each[0])
    name = runs.title(method)
    if most <= 0:
        yield f"{name} is at no point worse than itself without sources."
        return
    over = sum(points > LIMIT for points, _, _ in gaps)
    word = f"more than {LIMIT:g} points worse at {over}" if over else f"within {LIMIT:g} points at all"
    yield f"{name} against itself without sources: {word} of {len(gaps)} points; the worst is “{point}”, by {found}."


def _against_majority(runs: StudyRuns) -> Iterator[str]:
    for method in runs.methods:
        for point in runs.points:
            rows = runs.rows(method, point)
            if rows and (behind := summarise(rows).mean - float(np.mean([majority(row) for row in rows]))) > 0:
                yield f"{runs.title(method)} at “{point}” is {behind:.1f} points worse than the majority rule."
