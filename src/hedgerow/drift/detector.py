"""The rule of `hedgerow.drift.evidence` for mistakes from anywhere, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.drift.evidence import EVERY, THRESHOLD, Drift, initial, look, report


class DriftDetector:
    """Told after every label whether the prediction was wrong, and whether each of `experts` others was.

    >>> detector = DriftDetector()
    >>> for t in range(600):
    ...     detector.update(t % 10 == 0 if t < 400 else t % 2 == 0)
    ...     if detector.drift_detected:
    ...         print("after label", t + 1)
    after label 432
    """

    def __init__(self, experts: int = 0, threshold: float = THRESHOLD) -> None:
        if not isinstance(experts, int) or experts < 0:
            raise InputError(f"experts={experts!r}: give their number, 0 or more")
        if not threshold > 0:
            raise InputError(f"threshold={threshold!r}: the evidence for an alarm must be above 0, e.g. {THRESHOLD}")
        self.experts, self.threshold = experts, threshold
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._counts = np.zeros(2 + self.experts, dtype=np.int64)
        self._state = initial(self._counts)
        self.drift_detected = False

    def update(self, x: float, experts: Sequence[float] = ()) -> None:
        """One label: 1 or True if the prediction was wrong; the same for each expert."""
        told = (x, *experts)
        if len(experts) != self.experts:
            raise InputError(f"{len(experts)} experts' mistakes were given, this detector has {self.experts} experts")
        if any(one not in (0, 1) for one in told):
            raise InputError(f"{told!r}: a mistake is 1 or True, none is 0 or False")
        self._counts[0] += 1
        self._counts[1:] += np.array(told, dtype=np.int64)
        due = self._counts[0] % EVERY == 0
        self.drift_detected = bool(due and look(self._state, self._counts, self.threshold))

    @property
    def drift_(self) -> Drift:
        """What is known so far."""
        return report(self._state, int(self._counts[0]))
