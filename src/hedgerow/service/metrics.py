"""Prometheus metrics, in a registry of the application's own."""

from __future__ import annotations

import itertools
import math
import platform
import time
from collections import Counter as Counted
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

import hedgerow
from hedgerow.live.report import RULES
from hedgerow.service.models import Entry

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MOST_SOURCES = 100  # of a model that have a sample each
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
        ProcessCollector(registry=self.registry)
        build = Info("hedgerow_build", "What runs here", registry=self.registry)
        build.info({"version": hedgerow.__version__, "python": platform.python_version()})
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


def _stat(name: str) -> Callable[[dict[str, Any]], float]:
    return lambda stats: math.nan if stats[name] is None else stats[name]


def _is_said(stats: dict[str, Any], name: str) -> bool:
    """Whether a model has this number: mistakes and calibration are of classes, errors of numbers."""
    return {"calibration_error": "calibration"}.get(name, name) in stats or name not in ONLY


Table = tuple[tuple[str, str, Callable[[dict[str, Any]], float]], ...]
COUNTERS: Table = (
    ("events", "Events that were predicted", _stat("events")),
    ("labels", "Labels that were learned", _stat("labels")),
    ("mistakes", "Predictions that their label showed wrong", _stat("mistakes")),
    ("expired", "Events whose label is no longer awaited", _stat("expired")),
    ("unknown_labels", "Labels for ids that are not in the journal", _stat("unknown_labels")),
    ("drift_alarms", "Changes of the target that were found", _stat("drift_alarms")),
    ("squared_error", "Sum of squared errors of predicted numbers", _stat("squared_error")),
)
GAUGES: Table = (
    ("pending", "Events whose label is awaited", _stat("pending")),
    ("journal_bytes", "Size of the journal", lambda s: s["journal"]["bytes"]),
    ("snapshot_age_seconds", "Time since the last snapshot", lambda s: _age(s["snapshot"].get("time"))),
    ("snapshot_failed", "Whether the last snapshot failed", lambda s: float(s["snapshot"].get("error") is not None)),
    ("label_age_seconds", "Time since the last label", lambda s: _age(s["last_label"])),
    ("label_delay_seconds", "Time from prediction to label, mean of the newest", _stat("label_delay")),
    ("inside", "Share of labels inside their interval", _stat("inside")),
    ("calibration_error", "Expected calibration error of the predictions", lambda s: _calibration(s["calibration"])),
)


ONLY = ("mistakes", "calibration_error", "squared_error", "inside")  # which not every model has


FLEET_GAUGES = {
    "ready": "Whether the fleet answers",
    "queue": "Requests that wait for the fleet",
    "held": "Keys in memory",
    "bytes": "Memory that keys take",
    "misses": "Keys that were read from disk",
    "evicted": "Keys that left memory",
    "rows_stored": "Rows in the states of keys",
    "journal_bytes": "Size of the journal",
    "file_bytes": "Size of the file",
}


class _ModelCollector:
    """What the models say about themselves, asked when somebody looks."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def collect(self) -> Iterator[Metric]:
        """The families, with a sample a model."""
        ready = GaugeMetricFamily("hedgerow_model_ready", "Whether the model answers", labels=["model"])
        queue = GaugeMetricFamily("hedgerow_model_queue", "Requests that wait for the model", labels=["model"])
        alarms = GaugeMetricFamily("hedgerow_model_alarms", "Alarms that hold now", labels=["model", "rule"])
        distance = GaugeMetricFamily(
            "hedgerow_model_discrepancy",
            "Mean squared distance of means",
            labels=["model", "source"],
        )
        stats = {}
        for entry in (each for each in self._entries if each.kind == "model"):
            ready.add_metric([entry.name], float(entry.state == "ready"))
            queue.add_metric([entry.name], entry.waiting)
            if entry.state == "ready" and entry.live is not None:
                about = stats[entry.name] = entry.live.stats()
                rules = Counted(alarm["rule"] for alarm in entry.live.alarms())
                for rule in RULES:
                    alarms.add_metric([entry.name, rule], rules[rule])
                for source, value in itertools.islice(about.get("discrepancy", {}).items(), MOST_SOURCES):
                    distance.add_metric([entry.name, source], math.nan if value is None else value)
        yield from (ready, queue, alarms, distance)
        for kind, table in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, text, value in table:
                family = kind(f"hedgerow_model_{name}", text, labels=["model"])
                for model, about in stats.items():
                    if _is_said(about, name):
                        family.add_metric([model], value(about))
                yield family


class _FleetCollector:
    """The same of fleets."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries

    def collect(self) -> Iterator[Metric]:
        """The families, with a sample a fleet."""
        stats = {entry.name: entry.fleet.stats() if entry.fleet is not None else {} for entry in self._entries}
        ready = {entry.name: {"ready": entry.state == "ready", "queue": entry.waiting} for entry in self._entries}
        for name, text in FLEET_GAUGES.items():
            family = GaugeMetricFamily(f"hedgerow_fleet_{name}", text, labels=["fleet"])
            for fleet, about in stats.items():
                value = {**about, **ready[fleet]}.get(name)
                if value is not None:
                    family.add_metric([fleet], float(value))
            yield family


def _age(then: float | None) -> float:
    return math.nan if then is None else max(0.0, time.time() - then)


def _calibration(bins: list[dict[str, Any]]) -> float:
    """Distance between how probable predictions were said to be and how often they were right, weighted by count."""
    labels = sum(each["count"] for each in bins)
    gaps = sum(each["count"] * abs(each["confidence"] - each["right"]) for each in bins if each["count"])
    return gaps / labels if labels else math.nan


def exposition(requests: Requests, entries: list[Entry]) -> bytes:
    """The text that Prometheus reads, of these models only."""
    models = CollectorRegistry()
    models.register(_ModelCollector(entries))
    models.register(_FleetCollector([entry for entry in entries if entry.kind == "fleet"]))
    return generate_latest(requests.registry) + generate_latest(models)
