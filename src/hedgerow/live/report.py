"""What a live model says of itself, as plain values."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.drift import LONGEST, THRESHOLD
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.rows import label_of_json
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.tallies import Tallies
from hedgerow.live.writer import MADE, Writer, finite

Alarm = dict[str, Any]
Points = Sequence[dict[str, Any]]
ENOUGH = 100  # labels before weights say something about the sources
COLLAPSED, TRUSTED = 0.9, 0.5  # weight of experts without a source: now, and once before
STARVED, USUALLY = 200, 10
SEEN, EXPECTED = 5, 20


def raised(clf: OnlineTransferClassifier, tallies: Tallies, points: Points) -> list[Alarm]:
    """The alarms that hold now. Alarms: each is a rule over counted things, and says which numbers broke it.

    | rule                | raised when                                                                                |
    |---------------------|--------------------------------------------------------------------------------------------|
    | `negative-transfer` | after 100 labels experts that use no source hold over 90 % of the weight, and before they  |
    |                     | held less than half                                                                        |
    | `drift`             | `clf.drift_` found a change, at most 256 labels ago (`hedgerow.drift`)            |
    | `label-starvation`  | no label for 10 times as many events as usual, and at least 200                            |
    | `one-sided-class`   | a class with 5 labels or more that no source has, or one of the sources that no label has, |
    |                     | where 20 were expected                                                                     |
    """
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
    now = float(clf.weights_.array[alone].sum())
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


# How long calls take, and how many there are.
NEWEST = 1000  # calls whose time is kept


class Timing:
    """The newest calls of each kind."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}
        self._counts: deque[tuple[float, int, int]] = deque(maxlen=120)  # time, events, labels so far

    def took(self, kind: str, seconds: float) -> None:
        """One call."""
        self._seconds.setdefault(kind, deque(maxlen=NEWEST)).append(seconds)

    def latency(self) -> dict[str, dict[str, float | int]]:
        """p50, p99 and the longest of each kind."""
        found = {}
        for kind in ("predict", "label", "predict_then_learn"):
            sorted_ = sorted(self._seconds.get(kind, ()))
            if sorted_:
                at = {"p50": sorted_[len(sorted_) // 2], "p99": sorted_[int(len(sorted_) * 0.99)], "max": sorted_[-1]}
                found[kind] = {**at, "count": len(sorted_)}
        return found

    def rate(self, events: int, labels: int) -> dict[str, float]:
        """Events and labels a second over about the last minute, from the totals now and then."""
        now = time.monotonic()
        if not self._counts or now - self._counts[-1][0] >= 0.5:
            self._counts.append((now, events, labels))
        while len(self._counts) > 2 and now - self._counts[0][0] > 60:
            self._counts.popleft()
        then, events_then, labels_then = self._counts[0]
        passed = now - then
        if passed <= 0:
            return {"events": 0.0, "labels": 0.0}
        return {"events": (events - events_then) / passed, "labels": (labels - labels_then) / passed}


WAITING, LEARNED, GIVEN_UP = "waiting", "learned", "given up"


def stats(writer: Writer, snapshots: Snapshots, timing: Timing) -> dict[str, Any]:
    """Who is trusted, mistakes and their bound, what is waiting, how fast, how large."""
    clf, tallies, journal = writer.steps.clf, writer.tallies, writer.journal
    names = getattr(clf, "feature_names_in_", None)
    labels = [str(plain(label)) for label in clf.classes_]
    return {
        "method": clf.method,
        "reading": clf.reading if isinstance(clf.reading, str) else clf.reading.preset,
        "features": clf.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "classes": [plain(label) for label in clf.classes_],
        "sources": list(clf.source_names_),
        "experts": list(clf.expert_names_),
        "events": tallies.events,
        "labels": tallies.labels,
        "mistakes": tallies.mistakes,
        "given_up": tallies.given_up,
        "pending": len(writer.waiting),
        "unknown_labels": tallies.unknown_labels,
        "window": {"labels": len(tallies.window), "mistakes": sum(tallies.window)},
        "seen": clf.seen_,
        "bound": finite(clf.bound_),
        "guarantee": clf.guarantee_,
        "hedge_loss": finite(clf.hedge_loss_),
        "weights": dict(clf.weights_),
        "expert_mistakes": dict(zip(clf.expert_names_, clf.learner_.state["expert_mistakes"].tolist(), strict=True)),
        "discrepancy": {name: finite(d) for name, d in clf.discrepancy_.items()},
        "predicted": dict(zip(labels, _padded(tallies.predicted, len(labels)), strict=True)),
        "labelled": dict(zip(labels, _padded(tallies.labelled, len(labels)), strict=True)),
        "calibration": tallies.calibration(),
        "latency": timing.latency(),
        "rate": timing.rate(tallies.events, tallies.labels),
        "journal": _journal(writer),
        "snapshot": {**snapshot(snapshots), "due": writer.settings.snapshot_every - writer.steps.since},
        "last_event": tallies.last_event,
        "last_label": tallies.last_label,
    } | {"last_commit": journal.commits}


def _padded(counts: list[int], size: int) -> list[int]:
    return counts + [0] * (size - len(counts))


def _journal(writer: Writer) -> dict[str, int]:
    journal = writer.journal
    first = journal.row("SELECT min(number) FROM event")
    return {
        "bytes": journal.bytes,
        "first": int(first[0] or 0) if first else 0,
        "last": journal.last,
        "events_kept": journal.totals["event"][0],
    }


def snapshot(snapshots: Snapshots) -> dict[str, Any]:
    """The newest snapshot."""
    return {
        "number": snapshots.newest_number,
        "time": snapshots.time,
        "bytes": snapshots.bytes,
        "error": snapshots.error,
    }


def latest(writer: Writer, n: int) -> list[dict[str, Any]]:
    """The newest events, newest first."""
    if type(n) is not int or n < 0:
        raise InputError(f"latest {n!r}: how many events must be a whole number of at least 0")
    found = writer.journal.rows(
        "SELECT event.number, id, event.time, code, shares, label, correct FROM event LEFT JOIN answer USING (number) "
        "ORDER BY event.number DESC LIMIT ?",
        (n,),
    )
    return [event(writer, row) for row in found]


def event(writer: Writer, row: tuple[Any, ...]) -> dict[str, Any]:
    """One event, from number, id, time, code, shares, label and whether it was right."""
    import numpy as np

    number, id, time, code, shares, label, correct = row
    truth = None if label is None else label_of_json(label)
    status = WAITING if label is None else GIVEN_UP if truth is None else LEARNED
    return {
        "id": f"{MADE}{number}" if id is None else id,
        "number": number,
        "time": time,
        "prediction": plain(writer.steps.clf.classes_[code]),
        "probability": float(np.frombuffer(shares)[code]),
        "label": truth,
        "correct": None if correct is None else bool(correct),
        "status": status,
    }


def alarms(writer: Writer) -> list[dict[str, Any]]:
    """See `live/py`."""
    return raised(writer.steps.clf, writer.tallies, writer.history.points)
