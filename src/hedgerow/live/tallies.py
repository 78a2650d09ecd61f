"""What a live model counts beside its learner: for people, plots and alarms."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

WINDOW = 200  # newest labels whose mistakes are "windowed"
BINS = 10  # of the reliability diagram


class Tallies:
    """Counters that are committed with every transaction."""

    def __init__(self) -> None:
        self.events = self.labels = self.mistakes = self.given_up = self.unknown_labels = 0
        self.window: deque[bool] = deque(maxlen=WINDOW)  # True: a mistake
        self.predicted: list[int] = []  # by code
        self.labelled: list[int] = []
        self.bins = [[0, 0.0, 0] for _ in range(BINS)]  # labels, sum of the predictions' probabilities, right ones
        self.last_event: float | None = None
        self.last_label: float | None = None
        self.events_since_label = 0
        self.change = [0, 0]  # the last alarm of drift: after which label of the model, of which event

    def asked(self, codes: Sequence[int], time: float) -> None:
        """Predictions."""
        self.events += len(codes)
        self.events_since_label += len(codes)
        self.last_event = time
        _add(self.predicted, codes)

    def answered(self, codes: Sequence[int], right: Sequence[bool], shares: Sequence[float], time: float) -> None:
        """Labels: their codes, whether the prediction was right, and how probable it was said to be."""
        self.labels += len(codes)
        self.mistakes += len(right) - sum(right)
        self.window.extend(not ok for ok in right[-WINDOW:])
        self.last_label = time
        self.events_since_label = 0
        _add(self.labelled, codes)
        places = np.minimum((np.asarray(shares) * BINS).astype(int), BINS - 1)
        for place, share, ok in zip(places.tolist(), shares, right, strict=True):
            found = self.bins[place]
            found[0] += 1
            found[1] += share
            found[2] += ok

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

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tallies:
        """The inverse."""
        tallies = cls()
        data = {"change": tallies.change, **data}  # which journals of 0.1.0 do not have
        vars(tallies).update({name: data[name] for name in vars(tallies) if name != "window"})
        tallies.window.extend(mark == "1" for mark in data["window"])
        return tallies


def _add(counts: list[int], codes: Sequence[int]) -> None:
    most = max(codes, default=-1)
    counts.extend([0] * (most + 1 - len(counts)))
    for code in codes:
        counts[code] += 1
