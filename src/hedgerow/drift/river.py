"""The same rule as a drift detector of river: `pip install river`.

>>> from river.base import DriftDetector
>>> isinstance(MistakesDrift(), DriftDetector), MistakesDrift().clone().threshold
(True, 8.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.core.errors import require
from hedgerow.drift.evidence import THRESHOLD, Drift, DriftDetector

Base: Any = require("river.base", extra="river").DriftAndWarningDetector  # it is a DriftDetector too
if TYPE_CHECKING:
    Base = object
WARNING = 0.5  # of the evidence for an alarm


class MistakesDrift(Base):  # type: ignore[misc]
    """Fed with 0 and 1 (right and wrong), and with the mistakes of experts if it was told of some."""

    def __init__(self, experts: int = 0, threshold: float = THRESHOLD) -> None:
        super().__init__()
        self.experts, self.threshold = experts, threshold
        self._rule = DriftDetector(experts, threshold)

    def update(self, x: float, experts: Sequence[float] = ()) -> None:
        """One label."""
        self._rule.update(x, experts)
        self._drift_detected = self._rule.drift_detected
        self._warning_detected = self._rule.drift_.level > WARNING

    @property
    def drift_(self) -> Drift:
        """What is known so far."""
        return self._rule.drift_
