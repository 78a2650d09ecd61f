"""A look at what is there: a model file, the folder of a live model, and its journal replayed with other models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.cli.fit_files import fit_files, parse_options
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.look import Event, Look, look
from hedgerow.live.rows import labels_together, rows_together
from hedgerow.live.snapshots import Snapshots
from hedgerow.live.steps import BLOCK
from hedgerow.rows.wanted import listed

Progress = Callable[[int, int, str], None]

# -- hedgerow inspect -------------------------------------------------------------------------------------------


def inspected(path: Path) -> list[tuple[str, str]]:
    """Names and values, for a table of two columns."""
    if path.is_dir():
        return _journal(path)
    if not path.is_file():
        raise InputError(f"{path} is neither a model file nor the folder of a live model")
    return _model(path)


def _model(path: Path) -> list[tuple[str, str]]:
    clf = OnlineTransferClassifier.load(path)
    names = getattr(clf, "feature_names_in_", None)
    constants = sum(clf.constants_.for_kernels(name).nbytes for name in clf.constants_)
    state = sum(array.nbytes for array in clf.learner_.arrays().values())
    return [
        ("what", "a model file"),
        ("method", f"{clf.method} (reading {clf.reading if isinstance(clf.reading, str) else clf.reading.preset})"),
        ("features", str(clf.n_features_in_) + ("" if names is None else f": {listed(list(names))}")),
        ("classes", f"{len(clf.classes_)}: {listed(clf.classes_.tolist())}"),
        ("labels learned", _mistakes(clf.seen_, clf.mistakes_)),
        ("guarantee", f"at most {clf.bound_:.1f}, on {clf.guarantee_}"),
        *_trusted(clf, clf.weights_, clf.discrepancy_),
        ("size", f"{_bytes(path.stat().st_size)}; in memory {_bytes(constants)} constants, {_bytes(state)} state"),
        *(() if clf.table_ is None else clf.table_.rows()),
    ]  # fmt: skip


def _journal(path: Path) -> list[tuple[str, str]]:
    with look(path) as journal:
        counts, point = journal.summary(), journal.newest_point()
    window = counts["window"]
    rows = [
        ("what", "the folder of a live model"),
        ("method", counts["method"]),
        ("features", str(counts["features"])),
        ("classes", f"{len(counts['classes'])}: {listed(counts['classes'])}"),
        ("events", f"{counts['events']}, the last {_ago(counts['last_event'])}"),
        ("labels", f"{_mistakes(counts['labels'], counts['mistakes'])}; the last {_ago(counts['last_label'])}"),
        ("last labels", _mistakes(window["labels"], window["mistakes"])),
        ("waiting", f"{counts['pending']} for their labels; {counts['given_up']} were given up"),
        ("kept", f"{counts['kept']} events, {_bytes(counts['bytes'])} with snapshots"),
        ("recovery", f"from snapshot {counts['snapshot']}, then {counts['steps_since_snapshot']} steps"),
    ]
    snapshots = Snapshots(path)
    clf = OnlineTransferClassifier.load(snapshots.path(snapshots.newest_number))
    if point is None:
        return rows + _trusted(clf, clf.weights_, clf.discrepancy_)
    weights, discrepancy = (
        dict(zip(names, point[key], strict=True))
        for names, key in ((clf.expert_names_, "weights"), (clf.source_names_, "discrepancy"))
    )
    return rows + _trusted(clf, weights, discrepancy)


def _trusted(
    clf: OnlineTransferClassifier, weights: Mapping[str, float], discrepancy: Mapping[str, float]
) -> list[tuple[str, str]]:
    """Sources, the experts with the largest weights, and how far each source is from the target."""
    largest = sorted(weights.items(), key=lambda pair: -pair[1])[:5]
    return [
        ("sources", f"{len(clf.source_names_)}: {listed(clf.source_names_)}"),
        ("most trusted", ", ".join(f"{name} {weight:.0%}" for name, weight in largest)),
        ("discrepancy", ", ".join(f"{name} {d:.3g}" for name, d in discrepancy.items()) or "-"),
    ]


def _mistakes(labels: int, mistakes: int) -> str:
    return f"{labels}, {mistakes} mistakes ({mistakes / labels:.1%})" if labels else "0"


def _ago(then: float | None) -> str:
    if then is None:
        return "never"
    passed = max(time.time() - then, 0)
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if passed >= 2 * size:
            return f"{passed / size:.0f} {name} ago"
    return f"{passed:.0f} seconds ago"


def _bytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


# -- hedgerow replay --------------------------------------------------------------------------------------------


@dataclass
class WhatIf:
    """Mistakes over the labelled events whose features are kept, as they were and as they would have been."""

    labels: int = 0
    mistakes_then: int = 0
    mistakes_now: int = 0
    without_features: int = 0
    changed: int = 0  # predictions that are others


def what_if(journal: Look, clf: OnlineTransferClassifier, progress: Progress | None = None) -> WhatIf:
    """Give a model the events of a journal, in the order of their questions and labels; it learns."""
    if clf.n_features_in_ != journal.width:
        raise InputError(f"the model has {clf.n_features_in_} features, the journal's rows have {journal.width}")
    result, events = WhatIf(), dict[int, Event]()
    by_step: dict[int | None, list[Event]] = {}
    for event in journal.events():
        events[event.number] = event
        by_step.setdefault(event.step, []).append(event)
    kinds = {number: kind for number, kind, _, _ in journal.steps()}
    asked = [n for n, event in events.items() if kinds.get(event.step or 0) != BLOCK]
    predictions: dict[int, Any] = {}
    todo = sorted([*asked, *(number for number in kinds if number in by_step)])
    for done, number in enumerate(todo):
        if progress is not None and done % 256 == 0:
            progress(done, len(todo), "events")
        if number not in kinds:
            x = events[number].x
            if x is not None:
                predictions[number] = clf.predict_one(x)
        elif kinds[number] == BLOCK:
            _block(clf, by_step[number], result)
        else:
            _answer(clf, by_step[number], predictions, result)
    return result


def _block(clf: OnlineTransferClassifier, events: list[Event], result: WhatIf) -> None:
    usable = [event for event in events if event.x is not None]
    result.without_features += len(events) - len(usable)
    if not usable:
        return
    labels = labels_together([event.label for event in usable])
    predictions = clf.predict_then_learn(rows_together([event.x for event in usable]), labels)
    for event, prediction in zip(usable, predictions.tolist(), strict=True):
        _count(event, prediction, result)


def _answer(clf: OnlineTransferClassifier, events: list[Event], predictions: dict[int, Any], result: WhatIf) -> None:
    """Late labels, or one that was given up."""
    usable = [event for event in events if event.x is not None]
    result.without_features += len(events) - len(usable)
    if len(usable) == 1:
        clf.learn_one(usable[0].x, usable[0].label)
    elif usable:
        clf.partial_fit(rows_together([event.x for event in usable]), labels_together([e.label for e in usable]))
    for event in usable:
        _count(event, predictions.get(event.number), result)


def _count(event: Event, prediction: Any, result: WhatIf) -> None:
    result.changed += bool(prediction != event.prediction)
    if event.label is not None:
        result.labels += 1
        result.mistakes_then += not event.correct
        result.mistakes_now += bool(prediction != event.label)


def replay(
    journal: Path,
    models: Sequence[Path],
    methods: Sequence[str],
    sources: Sequence[Path],
    label: str | None,
    unlabelled: Path | None,
    options: Sequence[str],
    progress: Progress,
) -> tuple[list[list[str]], str]:
    """Every model, and every method fitted on the sources, over the events of a journal: a row each, and a note."""
    if not models and not methods:
        raise InputError("name what to replay: --model FILE, or --method NAME with --source FILE and --label COLUMN")
    if methods and (not sources or label is None):
        raise InputError("--method is fitted first: give its --source files and their --label column")
    results: dict[str, WhatIf] = {}
    with look(journal) as events:
        for path in models:
            results[str(path)] = what_if(events, OnlineTransferClassifier.load(path), progress)
        for method in methods:
            clf = fit_files(list(sources), str(label), unlabelled, parse_options(options, method)).clf
            results[method] = what_if(events, clf, progress)
        summary = events.summary()
    first = next(iter(results.values()))
    rows = [[f"as it was ({summary['method']})", str(first.labels), *_share(first.mistakes_then, first.labels), "-"]]
    for name, result in results.items():
        rows.append([name, str(result.labels), *_share(result.mistakes_now, result.labels), str(result.changed)])
    note = ""
    if first.without_features:
        note = f"{first.without_features} labels are left out: their features are no longer kept (keep_events)"
    return rows, note


def _share(mistakes: int, labels: int) -> tuple[str, str]:
    return str(mistakes), f"{mistakes / labels:.1%}" if labels else "-"
