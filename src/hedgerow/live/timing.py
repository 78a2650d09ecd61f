"""How long calls take, and how many there are."""

from __future__ import annotations

import time
from collections import deque

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
