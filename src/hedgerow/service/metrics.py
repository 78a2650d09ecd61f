"""Prometheus metrics, in a registry of the application's own."""

from __future__ import annotations

import itertools
import platform
import time
from collections import Counter as Counted
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

import hedgerow
from hedgerow.live.report import RULES
from hedgerow.service.models import Entry

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
MOST = 100  # sources or columns of a model that have a sample each
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")


class Requests:
    """How many requests there were, of which kind, and how long they took."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "path")
        self._count = Counter(
            "hedgerow_requests",
            "Requests that were answered",
            (*labels, "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "hedgerow_request_seconds",
            "Time from request to answer",
            labels,
            registry=self.registry,
            buckets=BUCKETS,
        )
        ProcessCollector(registry=self.registry)
        build = Info("hedgerow_build", "What runs here", registry=self.registry)
        build.info({"version": hedgerow.__version__, "python": platform.python_version()})

    def note(self, method: str, path: str, status: int, seconds: float) -> None:
        """One request; `path` is the template of its route, so that the number of metrics is bounded."""
        if method not in METHODS:
            method = "other"
        self._count.labels(method, path, str(status)).inc()
        self._seconds.labels(method, path).observe(seconds)


# By kind: the metrics and their help. A sample is there if the model or fleet has that number.
METRICS = {
    "model": {
        "ready": "Whether the model answers",
        "queue": "Requests that wait for the model",
        "alarms": "Alarms that hold now",
        "discrepancy": "Mean squared distance of means",
        "column_shift": "Population stability index of the newest events",
        "column_shift_of_sources": "The largest population stability index between sources",
        "events": "Events that were predicted",
        "labels": "Labels that were learned",
        "mistakes": "Predictions that their label showed wrong",
        "expired": "Events whose label is no longer awaited",
        "unknown_labels": "Labels for ids that are not in the journal",
        "drift_alarms": "Changes of the target that were found",
        "squared_error": "Sum of squared errors of predicted numbers",
        "pending": "Events whose label is awaited",
        "journal_bytes": "Size of the journal",
        "snapshot_age_seconds": "Time since the last snapshot",
        "snapshot_failed": "Whether the last snapshot failed",
        "label_age_seconds": "Time since the last label",
        "label_delay_seconds": "Time from prediction to label, mean of the newest",
        "inside": "Share of labels inside their interval",
        "calibration_error": "Expected calibration error of the predictions",
    },
    "fleet": {
        "ready": "Whether the fleet answers",
        "queue": "Requests that wait for the fleet",
        "held": "Keys in memory",
        "bytes": "Memory that keys take",
        "misses": "Keys that were read from disk",
        "evicted": "Keys that left memory",
        "rows_stored": "Rows in the states of keys",
        "journal_bytes": "Size of the journal",
        "file_bytes": "Size of the file",
    },
}
COUNTERS = (
    "events",
    "labels",
    "mistakes",
    "expired",
    "unknown_labels",
    "drift_alarms",
    "squared_error",
)
LABELS = {  # of metrics that have several samples a model
    "alarms": "rule",
    "discrepancy": "source",
    "column_shift": "column",
    "column_shift_of_sources": "column",
}


def numbers_of(entry: Entry) -> dict[str, Any]:
    """What an open model or fleet says about itself, by the names of metrics."""
    assert entry.opened is not None
    stats = entry.opened.stats()
    live = entry.live
    if live is None:
        return stats
    shifts = list(stats["shifts"].items())[:MOST]
    raised = Counted(alarm["rule"] for alarm in live.alarms())
    entry.alarms = {rule: raised[rule] for rule in RULES}
    return {
        **stats,
        "discrepancy": dict(itertools.islice(stats.get("discrepancy", {}).items(), MOST)),
        "column_shift": {name: each[0] for name, each in shifts},
        "column_shift_of_sources": {name: each[1] for name, each in shifts},
        "journal_bytes": stats["journal"]["bytes"],
        "snapshot_age_seconds": _age(stats["snapshot"]["time"]),
        "snapshot_failed": stats["snapshot"]["error"] is not None,
        "label_age_seconds": _age(stats["last_label"]),
        "label_delay_seconds": stats["label_delay"],
        "calibration_error": _calibration(stats.get("calibration", ())),
    }


Told = list[tuple[Entry, dict[str, Any] | str]]  # what each said, or why it said nothing


def _age(then: float | None) -> float | None:
    return None if then is None else max(0.0, time.time() - then)


def _calibration(bins: Iterable[dict[str, Any]]) -> float | None:
    """Distance between how probable predictions were said to be and how often they were right, weighted by count."""
    filled = [each for each in bins if each["count"]]
    gaps = sum(each["count"] * abs(each["confidence"] - each["right"]) for each in filled)
    return gaps / sum(each["count"] for each in filled) if filled else None


class _Collector:
    """What the models and fleets said about themselves, asked when somebody looked."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def collect(self) -> Iterator[Metric]:
        """The families, with a sample a model, or more."""
        for kind, metrics in METRICS.items():
            numbers = {
                entry.name: {
                    **(said if isinstance(said, dict) else {}),
                    # an alarm holds until the model says otherwise, and it says nothing while it is broken
                    "alarms": entry.alarms,
                    "queue": entry.waiting,
                    "ready": isinstance(said, dict),
                }
                for entry, said in self._told
                if entry.kind == kind
            }
            for metric, text in metrics.items():
                label = [LABELS[metric]] if metric in LABELS else []
                family = CounterMetricFamily if metric in COUNTERS else GaugeMetricFamily
                samples = family(f"hedgerow_{kind}_{metric}", text, labels=[kind, *label])
                for name, said in numbers.items():
                    values = said.get(metric)
                    for key, value in (values or {} if label else {"": values}).items():
                        if value is not None:
                            written = key.encode(errors="backslashreplace").decode()
                            samples.add_metric([name, written][: 1 + len(label)], float(value))
                yield samples


def exposition(requests: Requests, told: Told) -> bytes:
    """The text that Prometheus reads, of these models only."""
    models = CollectorRegistry()
    models.register(_Collector(told))
    return generate_latest(requests.registry) + generate_latest(models)
