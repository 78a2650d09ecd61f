"""Has the target changed? Mistakes in windows against what the comparator of the guarantee explains.

`clf.drift_` is what a model says of itself; `DriftDetector` is the same rule for mistakes from anywhere, and
`hedgerow.drift.river` has it as a detector of river.
"""

from __future__ import annotations

from hedgerow.drift.evidence import Change, Drift, DriftDetector

__all__ = ["Change", "Drift", "DriftDetector"]
