"""What a live model says of itself, as plain values."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.values import plain
from hedgerow.drift import LONGEST, THRESHOLD
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.events import EXPIRED, LEARNED, OWN, PENDING, label_of_json
from hedgerow.live.journal import Journal, Model, interval_of
from hedgerow.regressor import OnlineTransferRegressor

if TYPE_CHECKING:
    from hedgerow.live.steps import Snapshots
    from hedgerow.live.writer import Writer

WINDOW = 200  # newest labels whose mistakes are "windowed"
BINS = 10  # of the reliability diagram


class Tallies:
    """Counters that are committed with every transaction."""

    def __init__(self) -> None:
        self.events = self.labels = self.mistakes = self.expired = self.unknown_labels = 0
        self.window: deque[bool] = deque(maxlen=WINDOW)  # True: a mistake
        self.predicted: list[int] = []  # by code
        self.labelled: list[int] = []
        self.bins = [[0, 0.0, 0] for _ in range(BINS)]  # labels, sum of the predictions' probabilities, right ones
        self.last_event: float | None = None
        self.last_label: float | None = None
        self.events_since_label = 0
        self.change = [0, 0]  # the last alarm of drift: after which label of the model, of which event
        # mistakes by what was predicted, of the model and of each of its experts, over the same labels
        self.compared = [0, 0]  # labels, mistakes of the model
        self.expert_mistakes: list[int] = []

    def asked(self, codes: Sequence[int], time: float) -> None:
        """Predictions."""
        self.events += len(codes)
        self.events_since_label += len(codes)
        self.last_event = time
        _add(self.predicted, codes)

    def answered(
        self, codes: Array, right: Sequence[bool], shares: Sequence[float], votes: Sequence[Array | None], time: float
    ) -> None:
        """Labels: their codes, whether each was predicted, how probable that was, and what each expert named then.

        Votes are None where another model, which was replaced since, made the prediction.
        """
        self.labels += len(codes)
        self.mistakes += len(right) - sum(right)
        self.window.extend(not ok for ok in right[-WINDOW:])
        self.last_label = time
        self.events_since_label = 0
        _add(self.labelled, codes.tolist())
        places = np.minimum((np.asarray(shares) * BINS).astype(int), BINS - 1)
        for place, share, ok in zip(places.tolist(), shares, right, strict=True):
            counts = self.bins[place]
            counts[0] += 1
            counts[1] += share
            counts[2] += ok
        own = [i for i, vote in enumerate(votes) if vote is not None]
        if own:
            wrong = (np.stack([votes[i] for i in own]) != codes[own][:, None]).sum(axis=0).tolist()  # type: ignore[misc]
            self.compared = [self.compared[0] + len(own), self.compared[1] + sum(not right[i] for i in own)]
            before = self.expert_mistakes or [0] * len(wrong)
            self.expert_mistakes = [a + b for a, b in zip(before, wrong, strict=True)]

    def replaced(self) -> None:
        """Another model, with other experts, begins."""
        self.compared, self.expert_mistakes, self.predicted, self.labelled = [0, 0], [], [], []

    def calibration(self) -> list[dict[str, float | int | None]]:
        """How probable predictions were said to be, and how often they were right."""
        return [
            {
                "from": i / BINS,
                "to": (i + 1) / BINS,
                "count": count,
                "confidence": total / count if count else None,
                "right": right / count if count else None,
            }
            for i, (count, total, right) in enumerate(self.bins)
        ]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "window": "".join("01"[mistake] for mistake in self.window)}


class NumberTallies(Tallies):
    """Those of a regressor: a mistake is a label outside of the interval; sums of squared and absolute errors."""

    def __init__(self) -> None:
        super().__init__()
        self.squared = self.absolute = 0.0
        self.total = self.mean_squared = 0.0  # of y; of the errors of its running mean
        self.expert_squared: list[float] = []  # over `compared` labels, as `compared_squared`
        self.compared_squared = 0.0
        self.recent: list[float] = []  # squared errors of the newest labels

    def measured(self, y: Array, P: Array, votes: Sequence[Array | None], time: float) -> list[bool]:
        """Labels, what was predicted for them and by each expert: whether each was inside its interval."""
        squares, inside = (P[:, 0] - y) ** 2, np.abs(P[:, 0] - y) <= P[:, 1]
        before = np.arange(self.labels, self.labels + len(y))
        means = np.where(before > 0, (self.total + np.cumsum(y) - y) / np.maximum(before, 1), y)
        self.mean_squared += float(((means - y) ** 2).sum())
        self.total += float(y.sum())
        self.labels += len(y)
        self.squared += float(squares.sum())
        self.absolute += float(np.sqrt(squares).sum())
        self.mistakes += int((~inside).sum())
        self.window.extend((~inside).tolist())
        self.recent = [*self.recent, *squares.tolist()][-WINDOW:]
        self.last_label, self.events_since_label = time, 0
        own = [i for i, vote in enumerate(votes) if vote is not None]
        if own:
            wrong = ((np.stack([votes[i] for i in own]) - y[own][:, None]) ** 2).sum(axis=0).tolist()  # type: ignore[misc]
            self.compared = [self.compared[0] + len(own), self.compared[1] + int((~inside[own]).sum())]
            self.compared_squared += float(squares[own].sum())
            before_now = self.expert_squared or [0.0] * len(wrong)
            self.expert_squared = [a + b for a, b in zip(before_now, wrong, strict=True)]
        return [bool(each) for each in inside]

    def replaced(self) -> None:
        """Another model, with other experts, begins."""
        super().replaced()
        self.expert_squared, self.compared_squared = [], 0.0

    def errors(self, experts: Sequence[str]) -> dict[str, Any]:
        """Roots of mean squared errors, of the model, of the running mean of y and of each expert; coverage."""
        squared = self.expert_squared or [math.nan] * len(experts)
        return {
            "squared_error": self.squared,
            "rmse": _root(self.squared, self.labels),
            "mae": finite(self.absolute / self.labels) if self.labels else None,
            "mean_rmse": _root(self.mean_squared, self.labels),
            "inside": (self.labels - self.mistakes) / self.labels if self.labels else None,
            "recent_rmse": _root(sum(self.recent), len(self.recent)),
            "compared_rmse": _root(self.compared_squared, self.compared[0]),
            "expert_rmse": {name: _root(s, self.compared[0]) for name, s in zip(experts, squared, strict=False)},
        }


def _root(total: float, count: int) -> float | None:
    return finite(math.sqrt(total / count)) if count and total >= 0 else None


def tallies_of_json(data: dict[str, Any]) -> Tallies:
    """The inverse of `to_json`."""
    tallies = NumberTallies() if "squared" in data else Tallies()
    vars(tallies).update({name: data[name] for name in vars(tallies) if name != "window"})
    tallies.window.extend(mark == "1" for mark in data["window"])
    return tallies


def _add(counts: list[int], codes: Sequence[int]) -> None:
    most = max(codes, default=-1)
    counts.extend([0] * (most + 1 - len(counts)))
    for code in codes:
        counts[code] += 1


# The curves of a live model: a point every few labels, thinned out as the stream grows.
EVERY = 25  # labels between two points
MOST = 2000  # points; then every other one goes, and new ones come half as often


def finite(value: float) -> float | None:
    """A number that JSON can write, or None."""
    return float(value) if math.isfinite(value) else None


def discrepancies(clf: OnlineTransferClassifier) -> dict[str, float | None]:
    """Mean squared distance between the means of a source and of the stream, in the source's space, by source.

    The means are those of all rows and of each class that both have shown: a mean of distances does not grow with every
    new class, as their sum (`clf.discrepancy_`) does. Not known (None) before the first label.
    """
    learner = clf.learner_
    if not clf.seen_:
        return dict.fromkeys(clf.source_names_)
    shown = learner.target_now().class_counts > 0
    means = [1 + int((shown & (learner.source(i).class_counts > 0)).sum()) for i in range(len(clf.source_names_))]
    return {name: finite(d / n) for (name, d), n in zip(clf.discrepancy_.items(), means, strict=True)}


class History:
    """Points, oldest first; each is also a row of the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.points: list[dict[str, Any]] = [
            json.loads(text) for (text,) in journal.rows("SELECT point FROM history ORDER BY number")
        ]

    def due(self, labels: int) -> bool:
        """Whether enough labels came since the last point."""
        if not self.points:
            return labels > 0
        every = EVERY
        while len(self.points) > 1 and every < self.points[1]["labels"] - self.points[0]["labels"]:
            every *= 2  # as far apart as the points that were left
        return bool(labels - self.points[-1]["labels"] >= every)

    def add(self, clf: Model, tallies: Tallies, number: int, time: float) -> None:
        """A point of now."""
        about: dict[str, Any] = {"number": number, "time": time, "labels": tallies.labels, "seen": clf.seen_}
        about |= {"bound": finite(clf.bound_), "weights": [round(weight, 6) for weight in clf.weights_.values()]}
        if isinstance(clf, OnlineTransferClassifier):
            point = about | self._mistakes(clf, tallies)
        else:
            assert isinstance(tallies, NumberTallies)
            errors = tallies.errors(clf.expert_names_)
            point = about | errors | {"expert_rmse": list(errors["expert_rmse"].values())}
        self._journal.add("history", (number, json.dumps(point)))
        self.points.append(point)
        if len(self.points) > MOST:
            for old in self.points[1::2]:
                self._journal.delete("history", "number = ?", (old["number"],))
            self.points = self.points[::2]

    def _mistakes(self, clf: OnlineTransferClassifier, tallies: Tallies) -> dict[str, Any]:
        """What only a classifier has."""
        none = [0] * len(clf.expert_names_)
        mistakes = tallies.expert_mistakes or none
        before: dict[str, Any] = self.points[-1] if self.points else {"compared": 0, "expert_mistakes": none}
        gained = max(tallies.compared[0] - before["compared"], 1)
        return {
            "mistakes": tallies.mistakes,
            "compared": tallies.compared[0],
            "windowed": sum(tallies.window) / max(len(tallies.window), 1),
            "expert_mistakes": mistakes,
            "expert_windowed": [
                (now - then) / gained for now, then in zip(mistakes, before["expert_mistakes"], strict=True)
            ],
            "discrepancy": list(discrepancies(clf).values()),
        }

    def clear(self) -> None:
        """The curves of another model, with other experts, begin."""
        self._journal.delete("history", "1")
        self.points = []


Alarm = dict[str, Any]
Points = Sequence[dict[str, Any]]
ENOUGH = 100  # labels before weights say something about the sources
COLLAPSED, TRUSTED = 0.9, 0.5  # weight of experts without a source: now, and once before
STARVED, USUALLY = 200, 10
SEEN, EXPECTED = 5, 20
RULES = ("negative-transfer", "drift", "label-starvation", "one-sided-class")


def raised(clf: Model, tallies: Tallies, points: Points) -> list[Alarm]:
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
    rules = [_negative_transfer(clf, tallies, points), _drift(clf, tallies), _starvation(tallies, points)]
    classes = _one_sided(clf, tallies) if isinstance(clf, OnlineTransferClassifier) else []
    return [*(alarm for alarm in rules if alarm is not None), *classes]


def without_source(names: Sequence[str]) -> list[bool]:
    """Which experts learn from the target alone, by their names.

    >>> without_source(["source a", "target", "target via a", "free: target only", "class frequencies"])
    [False, True, False, True, True]
    """
    return [name == "target" or name.endswith(": target only") or name == "class frequencies" for name in names]


def _negative_transfer(clf: Model, tallies: Tallies, points: Points) -> Alarm | None:
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


def _drift(clf: Model, tallies: Tallies) -> Alarm | None:
    """Long enough to be seen, and never back by itself: what goes on, or comes again, raises an alarm of its own."""
    drift = clf.drift_
    if drift.last is None or drift.change is None or not drift.is_fresh(clf.seen_):
        return None
    label = tallies.labels - (clf.seen_ - drift.last)  # as the journal counts: the model may have had labels before
    change = drift.change
    what = "mistakes" if isinstance(clf, OnlineTransferClassifier) else "large misses (over half the deviation of y)"
    when = f"After label {label}" if label > 0 else "Before the first label of this journal"
    return _alarm(
        "drift",
        "The target seems to have changed",
        f"{when}: {change.recent:.0%} {what} in {change.window} labels, of the prediction or of the best expert "
        f"until then, whichever was worse; the {change.explained:.0%} of the better one before do not explain them "
        f"(evidence {change.evidence:.1f}, rule: over {THRESHOLD:.0f}). Look at the events since then; if mistakes "
        f"stay, fit again with newer rows. Shown for {LONGEST} labels.",
        tallies.change[1] if tallies.change[0] == drift.last else 0,  # 0: before this journal
        {"label": label, "alarms": drift.alarms, **vars(change)},
    )


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
        latencies = {}
        for kind in ("predict", "label", "predict_then_learn"):
            sorted_ = sorted(self._seconds.get(kind, ()))
            if sorted_:
                at = {"p50": sorted_[len(sorted_) // 2], "p99": sorted_[int(len(sorted_) * 0.99)], "max": sorted_[-1]}
                latencies[kind] = {**at, "count": len(sorted_)}
        return latencies

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


def stats(writer: Writer, snapshots: Snapshots, timing: Timing) -> dict[str, Any]:
    """Who is trusted, mistakes and their bound, what is waiting, how fast, how large."""
    clf, tallies, model = writer.clf, writer.tallies, writer.models[-1]
    about = {
        "method": model.method,
        "features": clf.n_features_in_,
        "feature_names": model.names,
        "sources": list(clf.source_names_),
        "experts": list(clf.expert_names_),
        "events": tallies.events,
        "labels": tallies.labels,
        "expired": tallies.expired,
        "pending": len(writer.pending),
        "unknown_labels": tallies.unknown_labels,
        "seen": clf.seen_,
        "bound": finite(clf.bound_),
        "guarantee": clf.guarantee_,
        "weights": dict(clf.weights_),
        "model": {
            "digest": model.digest,
            "number": model.number,
            "since": model.time,
            "reason": model.reason,
            "replaced": len(writer.models) - 1,
        },
        "label_delay": _delay(writer),
        "drift_alarms": clf.drift_.alarms,
        "latency": timing.latency(),
        "rate": timing.rate(tallies.events, tallies.labels),
        "journal": _journal(writer),
        "snapshot": {**snapshots.about(), "due": writer.settings.snapshot_every - writer.steps.since},
        "last_event": tallies.last_event,
        "last_label": tallies.last_label,
        "last_commit": writer.journal.commits,
    }
    of_task = _of_classes(clf, tallies) if isinstance(clf, OnlineTransferClassifier) else _of_numbers(clf, tallies)
    return about | of_task


def _of_classes(clf: OnlineTransferClassifier, tallies: Tallies) -> dict[str, Any]:
    counts = tallies.expert_mistakes or [0] * len(clf.expert_names_)
    labels = [str(plain(label)) for label in clf.classes_]
    return {
        "task": "classes",
        "reading": clf.reading if isinstance(clf.reading, str) else clf.reading.preset,
        "classes": [plain(label) for label in clf.classes_],
        "mistakes": tallies.mistakes,
        "window": {"labels": len(tallies.window), "mistakes": sum(tallies.window)},
        "hedge_loss": finite(clf.hedge_loss_),
        "compared": {"labels": tallies.compared[0], "mistakes": tallies.compared[1]},
        "expert_mistakes": dict(zip(clf.expert_names_, counts, strict=True)),
        "discrepancy": discrepancies(clf),
        "predicted": dict(zip(labels, _padded(tallies.predicted, len(labels)), strict=True)),
        "labelled": dict(zip(labels, _padded(tallies.labelled, len(labels)), strict=True)),
        "calibration": tallies.calibration(),
    }


def _of_numbers(clf: OnlineTransferRegressor, tallies: Tallies) -> dict[str, Any]:
    assert isinstance(tallies, NumberTallies)
    lately = {"labels": len(tallies.window), "outside": sum(tallies.window)}
    return {
        "task": "numbers",
        "coverage": {str(level): finite(share) for level, share in clf.coverage_.items()},
        "window": lately,
        **tallies.errors(clf.expert_names_),
    }


def _padded(counts: list[int], size: int) -> list[int]:
    return counts + [0] * (size - len(counts))


def _delay(writer: Writer) -> float | None:
    """Mean seconds between the prediction and the label of the newest events that have one; None if none has."""
    newest = "SELECT number, time FROM answer WHERE label != 'null' ORDER BY number DESC LIMIT 200"
    row = writer.journal.row(
        f"SELECT avg(max(0, labelled.time - event.time)) FROM ({newest}) AS labelled JOIN event USING (number)"
    )
    return None if row is None else row[0]


def _journal(writer: Writer) -> dict[str, int]:
    journal = writer.journal
    first = journal.row("SELECT min(number) FROM event")
    return {
        "bytes": journal.bytes,
        "first": int(first[0] or 0) if first else 0,
        "last": journal.last,
        "events_kept": journal.totals["event"][0],
    }


def latest(writer: Writer, n: int) -> list[dict[str, Any]]:
    """The newest events, newest first."""
    if type(n) is not int or n < 0:
        raise InputError(f"latest {n!r}: how many events must be a whole number of at least 0")
    rows = writer.journal.rows(
        "SELECT event.number, id, event.time, code, shares, label, correct FROM event LEFT JOIN answer USING (number) "
        "ORDER BY event.number DESC LIMIT ?",
        (n,),
    )
    return [_event(writer, *row) for row in rows]


def _event(
    writer: Writer, number: int, id: str | None, time: float, code: int, shares: bytes, label: str | None, correct: Any
) -> dict[str, Any]:
    truth, P = None if label is None else label_of_json(label), np.frombuffer(shares)
    is_number = writer.models[-1].coverage is not None
    return {
        "id": f"{OWN}{number}" if id is None else id,
        "number": number,
        "time": time,
        "prediction": float(P[0]) if is_number else writer.label_at(number, code),
        **({"interval": interval_of(P)} if is_number else {"probability": float(P[code])}),
        "label": truth,
        "correct": None if correct is None else bool(correct),
        "status": PENDING if label is None else EXPIRED if truth is None else LEARNED,
    }
