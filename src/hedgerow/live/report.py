"""What a live model says of itself, as plain values."""

from __future__ import annotations

from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.core.labels import plain
from hedgerow.live import alarm_rules
from hedgerow.live.history import finite
from hedgerow.live.rows import label_of_json
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.timing import Timing
from hedgerow.live.writer import MADE, Writer

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
        "weights": dict(zip(clf.expert_names_, clf.weights_.tolist(), strict=True)),
        "expert_mistakes": dict(zip(clf.expert_names_, clf.learner_.state["expert_mistakes"].tolist(), strict=True)),
        "discrepancy": {name: finite(d) for name, d in zip(clf.source_names_, clf.discrepancy_, strict=True)},
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
    """See `live/alarm_rules.py`."""
    return alarm_rules.raised(writer.steps.clf, writer.tallies, writer.history.points)
