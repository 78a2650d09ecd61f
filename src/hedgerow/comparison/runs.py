"""The rows of a comparison: who leads, whether that is more than luck, and what each source was worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow.comparison.measures import reliability, unpacked
from hedgerow.comparison.run import COMPARED, LEFT_OUT
from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.evaluate.calibration import Reliability
from hedgerow.evaluate.folds import Row, windows
from hedgerow.evaluate.mcnemar import against_each
from hedgerow.evaluate.stats import ALPHA, Pair, Rates, against
from hedgerow.experiment.results import Results
from hedgerow.experiment.summaries import Cell, RunIndex, rate, summarise


@dataclass(frozen=True)
class Worth:
    """What a source was worth to a method: points by which its mistakes rise without it, and their spread."""

    source: str
    points: float
    spread: float


class ComparisonRuns(RunIndex):
    """The rows of one comparison; every method has the same orders of the same stream."""

    @classmethod
    def read(cls, found: Results) -> ComparisonRuns:
        """The rows of a folder; an error without any."""
        if not any(row["group"] == COMPARED for row in found.rows):
            raise InputError("no results of a comparison; run `hedgerow compare --help` to see how")
        return cls.of(found)

    @cached_property
    def task(self) -> str:
        """The name of the stream."""
        return str(next(row["task"] for row in self.rows if row["group"] == COMPARED))

    @cached_property
    def names(self) -> list[str]:
        """Methods, ours in the order of their table, then peers."""
        return self.methods(COMPARED)

    @property
    def notes(self) -> list[str]:
        """What the encoder of tables left out, and which columns not every source has."""
        every = (row for name in self.names for row in self.of_method(name))
        return list(dict.fromkeys(note for row in every for note in row.get("notes", ())))

    def of_method(self, method: str) -> list[Row]:
        """The rows of a method with all sources, by order."""
        return self.rows_of(COMPARED, self.task, method)

    @property
    def orders(self) -> int:
        """Orders of the stream that every method has."""
        return min(len(self.of_method(name)) for name in self.names)

    @property
    def shuffled(self) -> bool:
        """Whether the orders are drawn; one that is not is the order in time."""
        return bool(self.of_method(self.names[0])[0]["shuffled"])

    @property
    def n(self) -> int:
        """Labelled instances of the stream."""
        return int(self.of_method(self.names[0])[0]["n"])

    def cell(self, method: str) -> Cell:
        """Mistakes in per cent, with their spread over the orders."""
        return summarise(self.of_method(method))

    def first(self, method: str) -> float:
        """Mistakes in per cent of the first 50 labelled instances."""
        return float(np.mean([100 * row["first_mistakes"] / row["first_n"] for row in self.of_method(method)]))

    def windowed(self, method: str) -> tuple[Array, Array]:
        """Ends of the windows of a tenth of the stream, and the mistakes in each in per cent (orders x windows)."""
        rows = [{"curve_at": row["labels"], "curve": row["curve"]} for row in self.of_method(method)]
        usable = [row for row in rows if np.all(np.diff([0, *row["curve_at"]]) > 0)]  # else a window has no label
        return windows(usable) if usable else (np.empty(0), np.empty((0, 0)))

    def mean(self, method: str, name: str) -> float:
        """The mean of a number of the rows."""
        return float(np.mean([row[name] for row in self.of_method(method)]))

    def bins(self, method: str) -> Reliability:
        """Confidence against how often it was right, all orders together."""
        return Reliability.pooled(reliability(row) for row in self.of_method(method))

    def microseconds(self, method: str) -> float:
        """Time an instance: the median, because a run that shared its core says nothing about the method."""
        rows = self.of_method(method)
        return float(np.median([1e6 * row["seconds_online"] / row["instances"][-1] for row in rows]))

    @cached_property
    def ranked(self) -> list[str]:
        """Methods by their mistakes, the fewest first; equal ones by their log-loss."""
        return sorted(self.names, key=lambda name: (round(self.cell(name).mean, 9), self.mean(name, "log_loss")))

    @property
    def leader(self) -> str:
        """The method with the fewest mistakes."""
        return self.ranked[0]

    @property
    def by_orders(self) -> bool:
        """Whether there are orders enough to test over them; else the instances of the first order are the pairs.

        If one method is better in every order, Wilcoxon's p is 2^(1 - orders), and Holm's at most so many times that
        as there are other methods: with fewer orders nothing could ever be significant.
        """
        return 2.0 ** (1 - self.orders) * (len(self.names) - 1) < ALPHA

    def pairs(self) -> list[Pair]:
        """The leader against every other method: over the orders, or over the instances of the first."""
        if len(self.names) < 2:
            return []
        if self.by_orders:
            columns = [[rate(row) for row in self.of_method(name)[: self.orders]] for name in self.names]
            return against(Rates(tuple(self.names), np.array(columns).T), self.leader)
        return against_each(self.leader, {name: unpacked(self.of_method(name)[0]) for name in self.names})

    def alike(self) -> list[str]:
        """Methods that the test cannot tell from the leader."""
        return [pair.second for pair in self.pairs() if not pair.adjusted < ALPHA]

    def worths(self, method: str) -> list[Worth]:
        """What each source was worth to a method, the most valuable first; empty where that was not run."""
        whole = {row["trial"]: rate(row) for row in self.of_method(method)}
        found = []
        for source in self.variants(LEFT_OUT, method):
            rows = self.rows_of(LEFT_OUT, self.task, method, source)
            d = np.array([rate(row) - whole[row["trial"]] for row in rows if row["trial"] in whole])
            if len(d):
                found.append(Worth(source, float(d.mean()), float(d.std(ddof=1)) if len(d) > 1 else 0.0))
        return sorted(found, key=lambda worth: -worth.points)
