"""How a run goes: what is counted, and how it is said."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field, fields, replace

from hedgerow.estimator import OnlineTransferClassifier

WINDOW = 200  # newest labels whose mistakes are shown apart


@dataclass
class Tally:
    """Counts of all runs of one journal, or of this run."""

    rows: int = 0
    labelled: int = 0
    mistakes: int = 0
    skipped: int = 0
    new_classes: int = 0
    repeated: int = 0
    line: int = 0
    window: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def __post_init__(self) -> None:
        self._began, self._before = time.monotonic(), self.rows

    def copy(self) -> Tally:
        """As it is now, of a run that began when this one did."""
        found = replace(self, window=self.window.copy())
        found._began, found._before = self._began, self._before
        return found

    def answered(self, wrong: list[bool]) -> None:
        """Labels, and which of them were predicted wrongly."""
        self.labelled += len(wrong)
        self.mistakes += sum(wrong)
        self.window.extend(wrong[-WINDOW:])

    def to_bytes(self) -> bytes:
        """For a journal."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return json.dumps({**counts, "window": [int(mistake) for mistake in self.window]}).encode()

    @classmethod
    def of_bytes(cls, data: bytes | None) -> Tally:
        """The inverse; nothing is a new one."""
        if data is None:
            return cls()
        found = json.loads(data)
        return cls(**{**found, "window": deque(found["window"], maxlen=WINDOW)})

    def words(self, clf: OnlineTransferClassifier, left: float | None = None) -> str:
        """The status line: rows, how fast, mistakes in all and lately, the most trusted expert; `left` of the input."""
        parts = [count(self.rows, "row")]
        passed = time.monotonic() - self._began
        if passed > 0.5 and self.rows > self._before:
            parts.append(f"{(self.rows - self._before) / passed:,.0f} rows/s")
            if left is not None and 0 < left < 1:
                parts.append(f"about {_time(passed * left / (1 - left))} left")
        if self.labelled:
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
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )
