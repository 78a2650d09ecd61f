"""How a run goes: what is counted, and how it is said."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

from hedgerow.base import OnlineTransferEstimator
from hedgerow.core.arrays import Array
from hedgerow.regressor import OnlineTransferRegressor

WINDOW = 200  # newest labels whose mistakes are shown apart
Say = Callable[[str], None]


@dataclass
class Tally:
    """Counts of all runs of one journal, or of this run."""

    rows: int = 0
    labelled: int = 0
    mistakes: int = 0
    squared: float = 0.0
    absolute: float = 0.0
    inside: int = 0
    skipped: int = 0
    new_classes: int = 0
    repeated: int = 0
    line: int = 0
    window: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def copy(self) -> Tally:
        """As it is now."""
        return replace(self, window=self.window.copy())

    def answered(self, wrong: list[bool]) -> None:
        """Labels, and which of them were predicted wrongly."""
        self.labelled += len(wrong)
        self.mistakes += sum(wrong)
        self.window.extend(wrong[-WINDOW:])

    def missed(self, misses: Array, half: Array) -> None:
        """Labels that are numbers: by how much each was missed, and half the width of its interval."""
        squares = misses**2
        self.labelled += len(misses)
        self.squared += float(squares.sum())
        self.absolute += float(abs(misses).sum())
        self.inside += int((abs(misses) <= half).sum())
        self.window.extend(squares[-WINDOW:].tolist())

    def to_bytes(self) -> bytes:
        """For a journal."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({**counts, "window": list(map(float, self.window))}).encode()

    @classmethod
    def of_bytes(cls, data: bytes | None) -> Tally:
        """The inverse; nothing is a new one."""
        counts = {} if data is None else json.loads(data)
        return cls(**{**counts, "window": deque(counts.get("window", ()), maxlen=WINDOW)})

    def words(self, clf: OnlineTransferEstimator, began: float, before: int, left: float | None = None) -> str:
        """The status line: rows, how fast since the run `began` after so many `before`, mistakes in all and lately, the
        most trusted expert; `left` of the input."""
        parts = [count(self.rows, "row")]
        passed = time.monotonic() - began
        if passed > 0.5 and self.rows > before:
            parts.append(f"{(self.rows - before) / passed:,.0f} rows/s")
            if left is not None and 0 < left < 1:
                parts.append(f"about {_time(passed * left / (1 - left))} left")
        if self.labelled and isinstance(clf, OnlineTransferRegressor):
            rmse, mae = math.sqrt(self.squared / self.labelled), self.absolute / self.labelled
            parts.append(f"RMSE {rmse:.4g}, MAE {mae:.4g} in {self.labelled} labelled")
            parts.append(f"{self.inside / self.labelled:.1%} inside their {next(iter(clf.coverage_)):.0%} intervals")
            if self.labelled > WINDOW:
                lately = math.sqrt(sum(self.window) / len(self.window))
                parts.append(f"RMSE {lately:.4g} of the last {len(self.window)}")
        elif self.labelled:
            share = f"{self.mistakes / self.labelled:.1%}"
            parts.append(f"{count(self.mistakes, 'mistake')} in {self.labelled} labelled ({share})")
            if self.labelled > WINDOW:
                parts.append(f"{sum(self.window) / len(self.window):.1%} of the last {len(self.window)}")
        if len(clf.expert_names_) > 1:
            best, weight = max(clf.weights_.items(), key=lambda pair: pair[1])
            parts.append(f"most trusted: {best} ({weight:.0%})")
        if self.new_classes:
            parts.append(count(self.new_classes, "new class", "new classes"))
        if self.repeated:
            parts.append(f"{count(self.repeated, 'row')} that came before, by the id, and were not learned again")
        if self.skipped:
            parts.append(f"{count(self.skipped, 'bad row')} skipped")
        return " · ".join(parts)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> count(1, "row"), count(2, "class", "classes")
    ('1 row', '2 classes')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
