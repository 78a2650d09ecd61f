"""What to try next, in sentences; each says what it was read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hedgerow.estimator.known import Known

FEW = 50  # labels: before, shares say little
FAR = 3.0  # times the median discrepancy
OURS = ("hedgerow", "hedgerow-linear")


def advice(clf: Known) -> list[str]:
    """At most a handful; none is an answer too."""
    found, seen = [], clf.seen_
    if not seen:
        found.append("No label was learned yet: predict_then_learn(X, y), or learn_one(x, y) after each prediction.")
    drift = clf.drift_
    if drift.is_fresh(seen):
        found.append(
            f"The target seems to have changed after label {drift.last} ({drift.alarms} alarm"
            f"{'s' if drift.alarms > 1 else ''}): look at the rows since then, or fit again with newer ones."
        )
    counts = clf.learner_.target_now().class_counts
    if seen >= FEW and clf.mistakes_ / seen >= 1 - counts.max() / max(counts.sum(), 1):
        found.append(
            f"{clf.mistakes_ / seen:.0%} mistakes are no better than always naming the most frequent class: are labels "
            "and columns those of the sources?"
        )
    apart = clf.discrepancy_
    if len(apart) > 2 and apart.max() > FAR * np.median(apart) > 0:
        far = clf.source_names_[int(apart.argmax())]
        found.append(
            f"Source {far!r} is {apart.max() / np.median(apart):.0f} times as far as the median: try without it."
        )
    if getattr(clf, "method", OURS[0]) not in OURS:
        found.append("Compare with method='hedgerow', our own learner.")
    return found
