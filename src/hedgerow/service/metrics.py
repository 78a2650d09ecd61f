"""Prometheus metrics, in a registry of the application's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hedgerow.service.models import Entry

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")


class Requests:
    """How many requests there were, of which kind, and how long they took."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "path")
        self._count = Counter(
            "hedgerow_requests", "Requests that were answered", (*labels, "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "hedgerow_request_seconds", "Time from request to answer", labels, registry=self.registry, buckets=BUCKETS
        )
        self._known: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def note(self, method: str, path: str, status: int, seconds: float) -> None:
        """One request; `path` is the template of its route, so that the number of metrics is bounded."""
        if method not in METHODS:
            method = "other"
        pair = self._known.get((method, path, status))
        if pair is None:
            pair = self._count.labels(method, path, str(status)), self._seconds.labels(method, path)
            self._known[method, path, status] = pair
        pair[0].inc()
        pair[1].observe(seconds)


COUNTERS = (
    ("events", "Events that were predicted", lambda s: s["events"]),
    ("labels", "Labels that were learned", lambda s: s["labels"]),
    ("mistakes", "Predictions that their label showed wrong", lambda s: s["mistakes"]),
    ("given_up", "Events whose label is no longer awaited", lambda s: s["given_up"]),
    ("unknown_labels", "Labels for ids that are not in the journal", lambda s: s["unknown_labels"]),
)
GAUGES = (
    ("pending", "Events whose label is awaited", lambda s: s["pending"]),
    ("journal_bytes", "Size of the journal", lambda s: s["journal"]["bytes"]),
    ("snapshot_age_seconds", "Time since the last snapshot", lambda s: _age(s["snapshot"])),
    ("snapshot_failed", "Whether the last snapshot failed", lambda s: float(s["snapshot"].get("error") is not None)),
)


class _ModelCollector:
    """What the models say about themselves, asked when somebody looks."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def collect(self) -> Iterator[Metric]:
        """The families, with a sample a model."""
        ready = GaugeMetricFamily("hedgerow_model_ready", "Whether the model answers", labels=["model"])
        queue = GaugeMetricFamily("hedgerow_model_queue", "Requests that wait for the model", labels=["model"])
        stats = {}
        for entry in self._entries:
            ready.add_metric([entry.name], float(entry.state == "ready"))
            queue.add_metric([entry.name], entry.waiting)
            if entry.state == "ready" and entry.live is not None:
                stats[entry.name] = entry.live.stats()
        yield from (ready, queue)
        for kind, table in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, text, value in table:
                family = kind(f"hedgerow_model_{name}", text, labels=["model"])
                for model, counts in stats.items():
                    family.add_metric([model], value(counts))
                yield family


def _age(snapshot: dict[str, Any]) -> float:
    written = snapshot.get("time")
    return float("nan") if written is None else max(0.0, time.time() - written)


def exposition(requests: Requests, entries: list[Entry]) -> bytes:
    """The text that Prometheus reads, of these models only."""
    models = CollectorRegistry()
    models.register(_ModelCollector(entries))
    return generate_latest(requests.registry) + generate_latest(models)
