"""`hedgerow replay`: a journal gone through again with other models, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.cli.fit_files import fit_files, parse_options
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.look import Event, Look, look
from hedgerow.live.rows import labels_together, rows_together
from hedgerow.live.steps import BLOCK


# What if another model had been there? A journal, gone through again: the same questions and labels, in order.
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
    found, events = WhatIf(), {}
    by_step: dict[int | None, list[Event]] = {}
    for event in journal.events():
        events[event.number] = event
        by_step.setdefault(event.step, []).append(event)
    kinds = {number: kind for number, kind, _, _ in journal.steps()}
    asked = [n for n, event in events.items() if kinds.get(event.step or 0) != BLOCK]
    said: dict[int, Any] = {}
    todo = sorted([*asked, *(number for number in kinds if number in by_step)])
    for done, number in enumerate(todo):
        if progress is not None and done % 256 == 0:
            progress(done, len(todo), "events")
        if number not in kinds:
            x = events[number].x
            if x is not None:
                said[number] = clf.predict_one(x)
        elif kinds[number] == BLOCK:
            _block(clf, by_step[number], found)
        else:
            _answer(clf, by_step[number], said, found)
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


def _answer(clf: OnlineTransferClassifier, events: list[Event], said: dict[int, Any], found: WhatIf) -> None:
    """Late labels, or one that was given up."""
    usable = [event for event in events if event.x is not None]
    found.without_features += len(events) - len(usable)
    if len(usable) == 1:
        clf.learn_one(usable[0].x, usable[0].label)
    elif usable:
        clf.partial_fit(rows_together([event.x for event in usable]), labels_together([e.label for e in usable]))
    for event in usable:
        _count(event, said.get(event.number), found)


def _count(event: Event, prediction: Any, found: WhatIf) -> None:
    found.changed += bool(prediction != event.prediction)
    if event.label is not None:
        found.labels += 1
        found.mistakes_then += not event.correct
        found.mistakes_now += bool(prediction != event.label)


Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Replayed:
    """A row a model."""

    header: list[str]
    rows: list[list[str]]
    note: str


def replay(
    journal: Path,
    models: Sequence[Path],
    methods: Sequence[str],
    sources: Sequence[Path],
    label: str | None,
    unlabelled: Path | None,
    options: Sequence[str],
    progress: Progress,
) -> Replayed:
    """Every model, and every method fitted on the sources, over the events of a journal."""
    if not models and not methods:
        raise InputError("name what to replay: --model FILE, or --method NAME with --source FILE and --label COLUMN")
    if methods and (not sources or label is None):
        raise InputError("--method is fitted first: give its --source files and their --label column")
    found: dict[str, WhatIf] = {}
    with look(journal) as events:
        for path in models:
            found[str(path)] = what_if(events, OnlineTransferClassifier.load(path), progress)
        for method in methods:
            clf = fit_files(list(sources), str(label), unlabelled, parse_options(options, method)).clf
            found[method] = what_if(events, clf, progress)
        summary = events.summary()
    first = next(iter(found.values()))
    rows = [[f"as it was ({summary['method']})", str(first.labels), *_share(first.mistakes_then, first.labels), "-"]]
    for name, result in found.items():
        rows.append([name, str(result.labels), *_share(result.mistakes_now, result.labels), str(result.changed)])
    note = ""
    if first.without_features:
        note = f"{first.without_features} labels are left out: their features are no longer kept (keep_events)"
    return Replayed(["", "labels", "mistakes", "share", "other predictions"], rows, note)


def _share(mistakes: int, labels: int) -> tuple[str, str]:
    return str(mistakes), f"{mistakes / labels:.1%}" if labels else "-"
