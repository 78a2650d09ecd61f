"""The conditions of the studies: every point with trouble, beside the same stream without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hedgerow.experiment.summaries import Cell, apart, summarise
from hedgerow.study.findings import StudyRuns
from hedgerow.study.studies import Study


@dataclass(frozen=True)
class Lead:
    """Points by which a method is ahead of the best of the others, below zero behind it."""

    rival: str
    points: float
    clear: bool  # larger than the spread of the orders of both


@dataclass(frozen=True)
class Condition:
    """One point of one study on one target: mistakes of each method there, and where there is no trouble."""

    study: Study
    task: str
    point: str
    cells: Mapping[str, Cell]
    without: Mapping[str, Cell]

    def lead(self, method: str) -> Lead | None:
        """Of a method over the best of the others; None where it was run alone or not at all."""
        others = {name: cell for name, cell in self.cells.items() if name != method}
        if method not in self.cells or not others:
            return None
        rival = min(others, key=lambda name: others[name].mean)
        # rounded, so that equal counts of mistakes are equal
        points = round(others[rival].mean - self.cells[method].mean, 9)
        return Lead(rival, points, apart(others[rival], self.cells[method]))

    def losses(self) -> dict[str, float]:
        """Points that the trouble costs each method."""
        there = (name for name in self.cells if name in self.without)
        return {name: self.cells[name].mean - self.without[name].mean for name in there}


def conditions(every: Sequence[StudyRuns]) -> Iterator[Condition]:
    """All points but the first of each study, which is without trouble: one run in most, drift has a source fewer."""
    for runs in every:
        first, *rest = runs.study.points
        without = _cells(runs, first)
        for point in rest:
            if cells := _cells(runs, point):
                yield Condition(runs.study, runs.task, point, cells, without)


def _cells(runs: StudyRuns, point: str) -> dict[str, Cell]:
    return {method: summarise(rows) for method in runs.methods if (rows := runs.rows(method, point))}
