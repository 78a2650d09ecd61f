"""What a live model says of itself, as plain values: running scores, curves, alarms."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array, dense
from hedgerow.core.values import count
from hedgerow.drift import LONGEST, THRESHOLD
from hedgerow.events import row_of_bytes, rows_together
from hedgerow.findings import Bins, column_numbers
from hedgerow.live.journal import Journal
from hedgerow.task import CLASSES, NUMBERS, Model, Task, task_of

if TYPE_CHECKING:
    from hedgerow.live.journal import Snapshots
    from hedgerow.live.writer import Writer

WINDOW = 200  # newest labels whose mistakes are "windowed"
BINS = 10  # of the reliability diagram
Alarm = dict[str, Any]


@dataclass
class Scores(ABC):
    """Running scores, committed with every transaction: `ClassScores` or `NumberScores`.

    A mistake is another class than the label, or a label outside of the interval of the number that was predicted.
    The loss of the model and of each of its experts, by what was predicted and over the same labels: mistakes, or
    squared errors.
    """

    events: int = 0
    labels: int = 0
    mistakes: int = 0
    expired: int = 0
    unknown_labels: int = 0
    events_since_label: int = 0
    last_event: float | None = None
    last_label: float | None = None
    window: list[int] = field(default_factory=list)  # of the newest labels; 1: a mistake
    change: list[int] = field(
        default_factory=lambda: [0, 0]
    )  # last alarm of drift: after which label, of which event
    compared: list[float] = field(default_factory=lambda: [0, 0])  # labels, loss of the model
    expert_losses: list[float] = field(default_factory=list)

    def asked(self, codes: Array, time: float) -> None:
        """Predictions."""
        self.events += len(codes)
        self.events_since_label += len(codes)
        self.last_event = time

    def learned(
        self,
        truth: Array,
        codes: Array,
        said: Array,
        votes: Array | None,
        own: list[int] | None,
        time: float,
    ) -> Array:
        """Labels, their predictions (`Task.codes`, `Task.said`): whether each was as predicted.

        `votes` are those of the experts (None: not kept); `own`: the labels that these are of, if not all.
        """
        right, losses = self._judged(truth, codes, said)
        self.labels += len(right)
        self.mistakes += int((~right).sum())
        self.window = [*self.window, *(~right).astype(int).tolist()][-WINDOW:]
        self.last_label = time
        self.events_since_label = 0
        if votes is not None and len(votes):
            of, compared = (each if own is None else each[own] for each in (truth, losses))
            self.compared = [
                self.compared[0] + len(compared),
                self.compared[1] + compared.sum().item(),
            ]
            lost = self._losses(votes, of[:, None]).sum(axis=0)
            self.expert_losses = _added(self.expert_losses, lost)
        return right

    @abstractmethod
    def _judged(self, truth: Array, codes: Array, said: Array) -> tuple[Array, Array]:
        """Count labels: whether each was as predicted, and the loss of the model."""

    @abstractmethod
    def _losses(self, votes: Array, truth: Array) -> Array:
        """Of the experts."""

    def replaced(self) -> None:
        """Another model, with other experts, begins."""
        self.compared = [0, 0]
        self.expert_losses = []

    def counts(self) -> dict[str, Any]:
        """Events, labels and mistakes."""
        names = ("events", "labels", "expired", "mistakes", "last_event", "last_label")
        window = {"labels": len(self.window), "mistakes": sum(self.window)}
        return {**{name: getattr(self, name) for name in names}, "window": window}

    @abstractmethod
    def words(self, scale: Sequence[Any]) -> tuple[str, str]:
        """How good it was over all labels, and over the newest ones; there are some. `scale`: of the model."""

    @abstractmethod
    def point(self, clf: Any, before: dict[str, Any] | None) -> dict[str, Any]:
        """What a point of the curves has of the losses; `before` is the point before it."""

    @abstractmethod
    def about(self, clf: Any) -> dict[str, Any]:
        """Counts and all else that `stats` has of this task."""

    def one_sided(self, clf: Any) -> list[Alarm]:
        """Alarms about single classes."""
        return []


@dataclass
class ClassScores(Scores):
    """Mistakes, classes and how probable predictions were said to be."""

    predicted: list[int] = field(default_factory=list)  # by code
    labelled: list[int] = field(default_factory=list)
    # labels, sum of the predictions' probabilities, right ones
    bins: list[list[float]] = field(default_factory=lambda: [[0] * BINS, [0.0] * BINS, [0] * BINS])

    def asked(self, codes: Array, time: float) -> None:
        """Predictions."""
        super().asked(codes, time)
        self.predicted = _added(self.predicted, np.bincount(codes))

    def _judged(self, truth: Array, codes: Array, said: Array) -> tuple[Array, Array]:
        """As of all scores; `said` are the probabilities of the predictions."""
        right = codes == truth
        self.labelled = _added(self.labelled, np.bincount(truth))
        places = np.minimum((said * BINS).astype(int), BINS - 1)
        weights = (None, said, right)
        self.bins = [
            _added(sums, np.bincount(places, weight, BINS))
            for sums, weight in zip(self.bins, weights, strict=True)
        ]
        return right, ~right

    def _losses(self, votes: Array, truth: Array) -> Array:
        return np.asarray(votes != truth)

    def replaced(self) -> None:
        """Another model, with other classes, begins."""
        super().replaced()
        self.predicted = []
        self.labelled = []

    def words(self, scale: Sequence[Any]) -> tuple[str, str]:
        """Mistakes."""
        return (
            f"{count(self.mistakes, 'mistake')} in {self.labels} labelled ({self.mistakes / self.labels:.1%})",
            f"{sum(self.window) / len(self.window):.1%} of the last {len(self.window)}",
        )

    def point(self, clf: Any, before: dict[str, Any] | None) -> dict[str, Any]:
        """Mistakes of the model and of its experts, and how far the sources are."""
        none = [0] * len(clf.expert_names_)
        mistakes = self.expert_losses or none
        compared, then = (
            (0, none) if before is None else (before["compared"], before["expert_mistakes"])
        )
        gained = max(self.compared[0] - compared, 1)
        return {
            "mistakes": self.mistakes,
            "compared": self.compared[0],
            "windowed": sum(self.window) / max(len(self.window), 1),
            "expert_mistakes": mistakes,
            "expert_windowed": [
                (new - old) / gained for new, old in zip(mistakes, then, strict=True)
            ],
            "discrepancy": list(discrepancies(clf).values()),
        }

    def about(self, clf: Any) -> dict[str, Any]:
        """By class and by expert; calibration."""
        labels = CLASSES.scale(clf)
        losses = self.expert_losses or [0] * len(clf.expert_names_)
        return self.counts() | {
            "task": CLASSES.name,
            "reading": clf.reading_,
            "classes": labels,
            "hedge_loss": finite(clf.hedge_loss_),
            "compared": dict(zip(("labels", "mistakes"), self.compared, strict=True)),
            "expert_mistakes": dict(zip(clf.expert_names_, losses, strict=True)),
            "discrepancy": discrepancies(clf),
            "predicted": _by_label(labels, self.predicted),
            "labelled": _by_label(labels, self.labelled),
            "calibration": self._calibration(),
        }

    def _calibration(self) -> list[dict[str, float | None]]:
        """How probable predictions were said to be, and how often they were right."""
        return [
            {
                "from": i / BINS,
                "to": (i + 1) / BINS,
                "count": int(labels),
                "confidence": total / labels if labels else None,
                "right": right / labels if labels else None,
            }
            for i, (labels, total, right) in enumerate(zip(*self.bins, strict=True))
        ]

    def one_sided(self, clf: Any) -> list[Alarm]:
        """Classes that only the sources have, or only the labels."""
        if not len(clf.source_names_):
            return []
        scale = CLASSES.scale(clf)
        K = len(scale)
        sources = sum(
            (clf.learner_.source(i).class_counts for i in range(len(clf.source_names_))),
            np.zeros(K),
        )
        labelled = np.array(self.labelled + [0] * (K - len(self.labelled)))
        expected = sources / max(sources.sum(), 1) * self.labels
        alarms = []
        for code, label in enumerate(scale):
            n = int(labelled[code])
            usual = float(expected[code])
            if sources[code] == 0 and n >= SEEN:
                text = f"{n} labels are {label!r}, which no source has (rule: {SEEN} labels or more). It is "
                text += "learned from the target alone."
                title = f"Class {label!r} is in no source"
                values = {"class": label, "labels": n}
            elif n == 0 and usual >= EXPECTED:
                text = f"none of {self.labels} labels is {label!r}; {usual:.0f} were expected from the sources "
                text += f"(rule: {EXPECTED} or more). Does the target have it?"
                title = f"Class {label!r} never occurs"
                values = {"class": label, "expected": usual}
            else:
                continue
            alarms.append(_alarm("one-sided-class", title, text, 0, values))
        return alarms


@dataclass
class NumberScores(Scores):
    """Sums of errors, of y, and of the squared errors of its running mean; squared errors of the newest labels."""

    squared: float = 0.0
    absolute: float = 0.0
    total: float = 0.0
    mean_squared: float = 0.0
    recent: list[float] = field(default_factory=list)

    def _judged(self, truth: Array, codes: Array, said: Array) -> tuple[Array, Array]:
        """As of all scores; `said` are the numbers predicted and half the width of their intervals."""
        errors = np.abs(said[:, 0] - truth)
        inside = errors <= said[:, 1]
        squares = errors**2
        before = np.arange(self.labels, self.labels + len(truth))
        means = np.where(
            before > 0, (self.total + np.cumsum(truth) - truth) / np.maximum(before, 1), truth
        )
        self.mean_squared += float(((means - truth) ** 2).sum())
        self.total += float(truth.sum())
        self.squared += float(squares.sum())
        self.absolute += float(errors.sum())
        self.recent = [*self.recent, *squares.tolist()][-WINDOW:]
        return inside, squares

    def _losses(self, votes: Array, truth: Array) -> Array:
        return np.asarray((votes - truth) ** 2)

    def words(self, scale: Sequence[Any]) -> tuple[str, str]:
        """Errors, and how many labels were inside their intervals."""
        rmse = math.sqrt(self.squared / self.labels)
        mae = self.absolute / self.labels
        inside = f"{1 - self.mistakes / self.labels:.1%} inside their {scale[0]:.0%} intervals"
        lately = len(self.recent)
        return (
            f"RMSE {rmse:.4g}, MAE {mae:.4g} in {self.labels} labelled, {inside}",
            f"RMSE {math.sqrt(sum(self.recent) / lately):.4g} of the last {lately}",
        )

    def errors(self, experts: Sequence[str]) -> dict[str, Any]:
        """Roots of mean squared errors, of the model, of the running mean of y and of each expert; coverage."""
        losses = self.expert_losses or [math.nan] * len(experts)
        return {
            "squared_error": self.squared,
            "rmse": _root(self.squared, self.labels),
            "mae": finite(self.absolute / self.labels) if self.labels else None,
            "mean_rmse": _root(self.mean_squared, self.labels),
            "inside": (self.labels - self.mistakes) / self.labels if self.labels else None,
            "recent_rmse": _root(sum(self.recent), len(self.recent)),
            "compared_rmse": _root(self.compared[1], self.compared[0]),
            "expert_rmse": {
                name: _root(s, self.compared[0]) for name, s in zip(experts, losses, strict=False)
            },
        }

    def point(self, clf: Any, before: dict[str, Any] | None) -> dict[str, Any]:
        """Errors of the model and of its experts."""
        errors = self.errors(clf.expert_names_)
        return errors | {"expert_rmse": list(errors["expert_rmse"].values())}

    def about(self, clf: Any) -> dict[str, Any]:
        """Errors and coverage."""
        counts = self.counts()
        window = {"labels": counts["window"]["labels"], "outside": counts["window"]["mistakes"]}
        del counts["mistakes"]
        coverage = {str(level): finite(share) for level, share in clf.coverage_.items()}
        of_numbers = {"task": NUMBERS.name, "coverage": coverage, **self.errors(clf.expert_names_)}
        return counts | of_numbers | {"window": window}


SCORES: dict[str, type[Scores]] = {CLASSES.name: ClassScores, NUMBERS.name: NumberScores}


def scores_of(task: Task, kept: Mapping[str, Any]) -> Scores:
    """Scores as a journal has kept them (nothing: from the start); journals of format 4 kept those of both tasks."""
    kind = SCORES[task.name]
    names = {each.name for each in fields(kind)}
    return kind(**{name: value for name, value in kept.items() if name in names})


def _root(total: float, count: float) -> float | None:
    return finite(math.sqrt(total / count)) if count and total >= 0 else None


def _added(sums: Sequence[float], more: Array) -> list[Any]:
    """Two rows of sums, of which the shorter one has zeros at its end."""
    total = np.zeros(max(len(sums), len(more)), more.dtype)
    total[: len(sums)] = sums
    total[: len(more)] += more
    return total.tolist()


# The curves of a live model: a point every few labels, thinned out as the stream grows.
EVERY = 25  # labels between two points
MOST = 2000  # points; then every other one goes, and new ones come half as often


def finite(value: float) -> float | None:
    """A number that JSON can write, or None."""
    return float(value) if math.isfinite(value) else None


def discrepancies(clf: Any) -> dict[str, float | None]:
    """Mean squared distance between the means of a source and of the stream, in the source's space, by source.

    The means are those of all rows and of each class that both have shown: a mean of distances does not grow with every
    new class, as their sum (`clf.discrepancy_`) does. Not known (None) before the first label.
    """
    distances = task_of(clf).discrepancies(clf)
    if not distances or not clf.seen_:
        return dict.fromkeys(distances)
    learner = clf.learner_
    shown = learner.target.class_counts > 0
    means = [
        1 + int((shown & (learner.source(i).class_counts > 0)).sum())
        for i in range(len(clf.source_names_))
    ]
    return {name: finite(d / n) for (name, d), n in zip(distances.items(), means, strict=True)}


NEWEST_ROWS = 500  # events by which the distribution of a column is told
FEW_ROWS = 50


def shifts(clf: Model, journal: Journal) -> dict[str, list[float]]:
    """By column, the population stability index of the newest events, and the largest between sources.

    None before there are some events that the model has predicted, or of a model that kept no bins.
    """
    bins = clf.kept_.get("bins")
    now = journal.models()[-1]
    newest = "SELECT x FROM event WHERE number > ? ORDER BY number DESC LIMIT ?"
    rows = journal.rows(newest, (now.number, NEWEST_ROWS)) if bins else []
    if not bins or len(rows) < FEW_ROWS:
        return {}
    width, dtype = now.width, np.dtype(now.dtype)
    X = dense(rows_together([row_of_bytes(x, width, dtype) for (x,) in rows]))
    found = {}
    for name, span in zip(*clf.spans, strict=True):
        own = Bins.of_list(bins[name])
        found[name] = [own.index(column_numbers(X, span)), own.between]
    return found


class History:
    """Points, oldest first; each is also a row of the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.points: list[dict[str, Any]] = [
            json.loads(text)
            for (text,) in journal.rows("SELECT point FROM history ORDER BY number")
        ]

    def due(self, labels: int) -> bool:
        """Whether enough labels came since the last point."""
        if not self.points:
            return labels > 0
        every = EVERY
        while len(self.points) > 1 and every < self.points[1]["labels"] - self.points[0]["labels"]:
            every *= 2  # as far apart as the points that were left
        return bool(labels - self.points[-1]["labels"] >= every)

    def add(self, clf: Model, scores: Scores, number: int, time: float) -> None:
        """A point of now."""
        point: dict[str, Any] = {
            "number": number,
            "time": time,
            "labels": scores.labels,
            "seen": clf.seen_,
        }
        point |= {
            "bound": finite(clf.bound_),
            "weights": [round(weight, 6) for weight in clf.weights_.values()],
        }
        point |= scores.point(clf, self.points[-1] if self.points else None)
        self._journal.add("history", (number, json.dumps(point)))
        self.points.append(point)
        if len(self.points) > MOST:
            for old in self.points[1::2]:
                self._journal.delete("history", "number = ?", (old["number"],))
            self.points = self.points[::2]

    def clear(self) -> None:
        """The curves of another model, with other experts, begin."""
        self._journal.delete("history", "1")
        self.points = []


Points = Sequence[dict[str, Any]]
ENOUGH = 100  # labels before weights say something about the sources
COLLAPSED = 0.9  # weight of experts without a source: now, and once before
TRUSTED = 0.5
STARVED = 200
USUALLY = 10
SEEN = 5
EXPECTED = 20
RULES = ("negative-transfer", "drift", "label-starvation", "one-sided-class")


def raised(clf: Model, scores: Scores, points: Points) -> list[Alarm]:
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
    rules = [
        _negative_transfer(clf, scores, points),
        _drift(clf, scores),
        _starvation(scores, points),
    ]
    return [*(alarm for alarm in rules if alarm is not None), *scores.one_sided(clf)]


def without_source(names: Sequence[str]) -> list[bool]:
    """Which experts learn from the target alone, by their names.

    >>> without_source(["source a", "target", "target via a", "free: target only", "class frequencies"])
    [False, True, False, True, True]
    """
    return [
        name == "target" or name.endswith(": target only") or name == "class frequencies"
        for name in names
    ]


def _negative_transfer(clf: Model, scores: Scores, points: Points) -> Alarm | None:
    alone = np.array(without_source(clf.expert_names_))
    if scores.labels < ENOUGH or not alone.any() or alone.all() or not points:
        return None
    now = float(clf.weights_.array[alone].sum())
    held = [float(np.asarray(point["weights"])[alone].sum()) for point in points]
    if now <= COLLAPSED or min(held) >= TRUSTED:
        return None
    since = next(
        point["number"] for point, share in zip(points, held, strict=True) if share == min(held)
    )
    return _alarm(
        "negative-transfer",
        "The sources no longer help",
        f"experts that use no source hold {now:.0%} of the weight (rule: over {COLLAPSED:.0%} after {ENOUGH} labels; "
        f"it was {min(held):.0%}). A source may mislead: leave the worst one out, or fit again.",
        since,
        {"weight": now, "least": min(held)},
    )


def _drift(clf: Model, scores: Scores) -> Alarm | None:
    """Long enough to be seen, and never back by itself: what goes on, or comes again, raises an alarm of its own."""
    drift = clf.drift_
    if drift.last is None or drift.change is None or not drift.is_fresh(clf.seen_):
        return None
    label = scores.labels - (
        clf.seen_ - drift.last
    )  # as the journal counts: the model may have had labels before
    change = drift.change
    what = task_of(clf).misses
    when = f"After label {label}" if label > 0 else "Before the first label of this journal"
    return _alarm(
        "drift",
        "The target seems to have changed",
        f"{when}: {change.recent:.0%} {what} in {change.window} labels, where {change.explained:.0%} were usual "
        f"(evidence {change.evidence:.1f}, rule: over {THRESHOLD:.0f}; of the prediction or of the best expert until "
        "then, whichever changed more for the worse). Look at the events since then; if mistakes stay, fit again with "
        f"newer rows. Shown for {LONGEST} labels.",
        scores.change[1] if scores.change[0] == drift.last else 0,  # 0: before this journal
        {"label": label, "alarms": drift.alarms, **vars(change)},
    )


def _starvation(scores: Scores, points: Points) -> Alarm | None:
    usual = (scores.events - scores.events_since_label) / max(scores.labels, 1)
    limit = max(STARVED, USUALLY * usual)
    if scores.events_since_label <= limit:
        return None
    return _alarm(
        "label-starvation",
        "Labels have stopped arriving",
        f"{scores.events_since_label} events since the last label (rule: more than {limit:.0f}, that is {USUALLY} "
        f"times the usual {usual:.1f}, and at least {STARVED}). Is the sender of labels still running?",
        points[-1]["number"] if points else 0,
        {"events": scores.events_since_label, "limit": limit},
    )


def _alarm(rule: str, title: str, text: str, since: int, values: dict[str, Any]) -> Alarm:
    return {"rule": rule, "title": title, "text": text, "since": since, "values": values}


# How long calls take, and how many there are.
NEWEST = 1000  # calls whose time is kept
KINDS = {
    "predict_many": "predict",
    "label_all": "label",
}  # verbs whose time is counted as another's


class Timing:
    """The newest calls of each kind."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}

    @contextmanager
    def of(self, verb: str) -> Iterator[None]:
        """One call."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = self._seconds.setdefault(KINDS.get(verb, verb), deque(maxlen=NEWEST))
            seconds.append(time.perf_counter() - began)

    def latency(self) -> dict[str, dict[str, float | int]]:
        """p50, p99 and the longest of each kind."""
        latencies = {}
        for kind in ("predict", "label", "predict_then_learn"):
            sorted_ = sorted(self._seconds.get(kind, ()))
            if sorted_:
                at = {
                    "p50": sorted_[len(sorted_) // 2],
                    "p99": sorted_[int(len(sorted_) * 0.99)],
                    "max": sorted_[-1],
                }
                latencies[kind] = {**at, "count": len(sorted_)}
        return latencies


def stats(writer: Writer, snapshots: Snapshots, timing: Timing) -> dict[str, Any]:
    """Who is trusted, mistakes and their bound, what is waiting, how fast, how large."""
    clf = writer.clf
    scores = writer.scores
    model = writer.models[-1]
    journal = writer.journal
    first = journal.row("SELECT min(number) FROM event")
    about = {
        "method": model.method,
        "features": clf.n_features_in_,
        "feature_names": model.names,
        "sources": list(clf.source_names_),
        "experts": list(clf.expert_names_),
        "pending": len(writer.pending),
        "unknown_labels": scores.unknown_labels,
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
        "label_delay": _delay(journal),
        "drift_alarms": clf.drift_.alarms,
        "shifts": shifts(clf, journal),
        "latency": timing.latency(),
        "journal": {
            "bytes": journal.bytes,
            "first": int(first[0] or 0) if first else 0,
            "last": journal.last,
            "events_kept": journal.totals["event"][0],
        },
        "snapshot": snapshots.about(),
        "last_commit": journal.commits,
    }
    return about | scores.about(clf)


def _by_label(labels: list[Any], counts: list[int]) -> dict[str, int]:
    return dict(zip(map(str, labels), counts + [0] * (len(labels) - len(counts)), strict=True))


def _delay(journal: Journal) -> float | None:
    """Mean seconds between the prediction and the label of the newest events that have one; None if none has."""
    newest = "SELECT number, time FROM answer WHERE label != 'null' ORDER BY number DESC LIMIT 200"
    row = journal.row(
        f"SELECT avg(max(0, labelled.time - event.time)) FROM ({newest}) AS labelled JOIN event USING (number)"
    )
    return None if row is None else row[0]
