"""Alarms: each is a rule over counted things, and says which numbers broke it.

| rule                | raised when                                                                                |
|---------------------|--------------------------------------------------------------------------------------------|
| `negative-transfer` | after 100 labels experts that use no source hold over 90 % of the weight, and before they  |
|                     | held less than half                                                                        |
| `drift`             | `clf.drift_` found a change, at most 256 labels ago (`hedgerow.drift.evidence`)            |
| `label-starvation`  | no label for 10 times as many events as usual, and at least 200                            |
| `one-sided-class`   | a class with 5 labels or more that no source has, or one of the sources that no label has, |
|                     | where 20 were expected                                                                     |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.labels import plain
from hedgerow.drift.evidence import LONGEST, THRESHOLD
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.tallies import Tallies

Alarm = dict[str, Any]
Points = Sequence[dict[str, Any]]
ENOUGH = 100  # labels before weights say something about the sources
COLLAPSED, TRUSTED = 0.9, 0.5  # weight of experts without a source: now, and once before
STARVED, USUALLY = 200, 10
SEEN, EXPECTED = 5, 20


def raised(clf: OnlineTransferClassifier, tallies: Tallies, points: Points) -> list[Alarm]:
    """The alarms that hold now."""
    found = [
        _negative_transfer(clf, tallies, points),
        _drift(clf, tallies, points),
        _starvation(tallies, points),
        *_one_sided(clf, tallies),
    ]
    return [alarm for alarm in found if alarm is not None]


def without_source(names: Sequence[str]) -> list[bool]:
    """Which experts learn from the target alone, by their names.

    >>> without_source(["source a", "target", "target via a", "free: target only", "class frequencies"])
    [False, True, False, True, True]
    """
    return [name == "target" or name.endswith(": target only") or name == "class frequencies" for name in names]


def _negative_transfer(clf: OnlineTransferClassifier, tallies: Tallies, points: Points) -> Alarm | None:
    alone = np.array(without_source(clf.expert_names_))
    if tallies.labels < ENOUGH or not alone.any() or alone.all() or not points:
        return None
    now = float(clf.weights_[alone].sum())
    held = [float(np.asarray(point["weights"])[alone].sum()) for point in points]
    if now <= COLLAPSED or min(held) >= TRUSTED:
        return None
    since = next(point["number"] for point, share in zip(points, held, strict=True) if share == min(held))
    return _alarm(
        "negative-transfer",
        "The sources no longer help",
        f"experts that use no source hold {now:.0%} of the weight (rule: over {COLLAPSED:.0%} after {ENOUGH} labels; "
        f"it was {min(held):.0%}). The sources may mislead: leave the worst one out, or fit again.",
        since,
        {"weight": now, "least": min(held)},
    )


def _drift(clf: OnlineTransferClassifier, tallies: Tallies, points: Points) -> Alarm | None:
    """Long enough to be seen, and never back by itself: what goes on, or comes again, raises an alarm of its own."""
    drift = clf.drift_
    if drift.last is None or drift.change is None or not drift.is_fresh(clf.seen_):
        return None
    label = tallies.labels - (clf.seen_ - drift.last)  # as the journal counts: the model may have had labels before
    change = drift.change
    when = f"After label {label}" if label > 0 else "Before the first label of this journal"
    return _alarm(
        "drift",
        "The target seems to have changed",
        f"{when}: {change.recent:.0%} mistakes in {change.window} labels, of the prediction or of the best expert "
        f"until then, whichever was worse; the {change.explained:.0%} of the better one before do not explain them "
        f"(evidence {change.evidence:.1f}, rule: over {THRESHOLD:.0f}). Look at the events since then; if mistakes "
        f"stay, fit again with newer rows. Shown for {LONGEST} labels.",
        _event_of_change(tallies, points, drift.last),
        {"label": label, "alarms": drift.alarms, **vars(change)},
    )


def _event_of_change(tallies: Tallies, points: Points, last: int) -> int:
    """The event whose label raised the alarm; if that was before events were noted, the point before it."""
    label, number = tallies.change
    if label == last:
        return number
    return next((int(point["number"]) for point in reversed(points) if point["seen"] <= last), 0)


def _starvation(tallies: Tallies, points: Points) -> Alarm | None:
    usual = (tallies.events - tallies.events_since_label) / max(tallies.labels, 1)
    limit = max(STARVED, USUALLY * usual)
    if tallies.events_since_label <= limit:
        return None
    return _alarm(
        "label-starvation",
        "Labels no longer come",
        f"{tallies.events_since_label} events since the last label (rule: more than {limit:.0f}, that is {USUALLY} "
        f"times the usual {usual:.1f}, and at least {STARVED}). Is whatever sends the labels still running?",
        points[-1]["number"] if points else 0,
        {"events": tallies.events_since_label, "limit": limit},
    )


def _one_sided(clf: OnlineTransferClassifier, tallies: Tallies) -> list[Alarm]:
    if not len(clf.source_names_):
        return []
    K = len(clf.classes_)
    sources = sum((clf.learner_.source(i).class_counts for i in range(len(clf.source_names_))), np.zeros(K))
    labelled = np.array(tallies.labelled + [0] * (K - len(tallies.labelled)))
    alarms = []
    for code in np.flatnonzero((sources == 0) & (labelled >= SEEN)):
        label = plain(clf.classes_[code])
        alarms.append(
            _alarm(
                "one-sided-class",
                f"Class {label!r} is in no source",
                f"{int(labelled[code])} labels say {label!r}, which no source has (rule: {SEEN} labels or more). It is "
                "learned from the target alone.",
                0,
                {"class": label, "labels": int(labelled[code])},
            )
        )
    expected = sources / max(sources.sum(), 1) * tallies.labels
    for code in np.flatnonzero((labelled == 0) & (expected >= EXPECTED)):
        label = plain(clf.classes_[code])
        alarms.append(
            _alarm(
                "one-sided-class",
                f"Class {label!r} never comes",
                f"none of {tallies.labels} labels is {label!r}; {expected[code]:.0f} were expected by the sources "
                f"(rule: {EXPECTED} or more). Does the target have it?",
                0,
                {"class": label, "expected": float(expected[code])},
            )
        )
    return alarms


def _alarm(rule: str, title: str, text: str, since: int, values: dict[str, Any]) -> Alarm:
    return {"rule": rule, "title": title, "text": text, "since": since, "values": values}
