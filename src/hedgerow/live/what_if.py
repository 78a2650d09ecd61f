"""What if another model had been there? A journal, gone through again: the same questions and labels, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.look import Event, Look
from hedgerow.live.rows import labels_together, rows_together
from hedgerow.live.steps import BLOCK, GIVEN_UP


@dataclass
class WhatIf:
    """Mistakes over the labelled events whose features are kept, as they were and as they would have been."""

    labels: int = 0
    mistakes_then: int = 0
    mistakes_now: int = 0
    without_features: int = 0
    changed: int = 0  # predictions that are others


def what_if(
    journal: Look, clf: OnlineTransferClassifier, progress: Callable[[int, int, str], None] | None = None
) -> WhatIf:
    """Give a model the events of a journal, in the order of their questions and labels; it learns."""
    if clf.n_features_in_ != journal.width:
        raise InputError(f"the model has {clf.n_features_in_} features, the journal's rows have {journal.width}")
    found, events = WhatIf(), {event.number: event for event in journal.events()}
    blocks = {n for _, kind, first, last in journal.steps() if kind == BLOCK for n in range(first, last + 1)}
    said: dict[int, Any] = {}
    todo = sorted(
        [(n, None) for n in events if n not in blocks] + [(s[0], s) for s in journal.steps()], key=lambda t: t[0]
    )
    for done, (number, step) in enumerate(todo):
        if progress is not None and done % 256 == 0:
            progress(done, len(todo), "events")
        if step is None:
            event = events[number]
            if event.x is not None:
                said[number] = clf.predict_one(event.x)
        elif step[1] == BLOCK:
            _block(clf, [events[n] for n in range(step[2], step[3] + 1) if n in events], found)
        elif step[2] in events:
            _answer(clf, events[step[2]], said.get(step[2]), step[1], found)
    return found


def _block(clf: OnlineTransferClassifier, events: list[Event], found: WhatIf) -> None:
    usable = [event for event in events if event.x is not None]
    found.without_features += len(events) - len(usable)
    if not usable:
        return
    labels = labels_together([event.label for event in usable])
    predictions = clf.predict_then_learn(rows_together([event.x for event in usable]), labels)
    for event, prediction in zip(usable, predictions.tolist(), strict=True):
        _count(event, prediction, found)


def _answer(clf: OnlineTransferClassifier, event: Event, prediction: Any, kind: str, found: WhatIf) -> None:
    if event.x is None:
        found.without_features += 1
        return
    clf.learn_one(event.x, None if kind == GIVEN_UP else event.label)
    _count(event, prediction, found)


def _count(event: Event, prediction: Any, found: WhatIf) -> None:
    found.changed += bool(prediction != event.prediction)
    if event.label is not None:
        found.labels += 1
        found.mistakes_then += not event.correct
        found.mistakes_now += bool(prediction != event.label)
