"""The curves of a live model: a point every few labels, thinned out as the stream grows."""

from __future__ import annotations

import json
import math
from typing import Any

from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.journal import Journal
from hedgerow.live.tallies import Tallies

EVERY = 25  # labels between two points
MOST = 2000  # points; then every other one goes, and new ones come half as often


def finite(value: float) -> float | None:
    """A number that JSON can write, or None."""
    return float(value) if math.isfinite(value) else None


class History:
    """Points, oldest first; each is also a row of the journal."""

    def __init__(self, journal: Journal, start: dict[str, Any]) -> None:
        """`start` says what the experts' mistakes were before the first event."""
        self._journal, self._start = journal, {"labels": 0, **start}
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

    def add(self, clf: OnlineTransferClassifier, tallies: Tallies, number: int, time: float) -> None:
        """A point of now."""
        learner = clf.learner_
        before = self.points[-1] if self.points else self._start
        mistakes = learner.state["expert_mistakes"].tolist()
        gained = max(tallies.labels - before["labels"], 1)
        point = {
            "number": number,
            "time": time,
            "labels": tallies.labels,
            "mistakes": tallies.mistakes,
            "windowed": sum(tallies.window) / max(len(tallies.window), 1),
            "seen": clf.seen_,
            "bound": finite(clf.bound_),
            "weights": [round(weight, 6) for weight in clf.weights_.tolist()],
            "expert_mistakes": mistakes,
            "expert_windowed": [
                max(now - then, 0) / gained for now, then in zip(mistakes, before["expert_mistakes"], strict=True)
            ],
            "discrepancy": [finite(value) for value in clf.discrepancy_],
        }
        self._journal.add("history", (number, json.dumps(point)))
        self.points.append(point)
        if len(self.points) > MOST:
            for old in self.points[1::2]:
                self._journal.delete("history", "number = ?", (old["number"],))
            self.points = self.points[::2]
