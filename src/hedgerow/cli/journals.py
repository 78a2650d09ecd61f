"""A look at what is there: a model file, the folder of a live model, and its journal replayed with other models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.base import OnlineTransferEstimator
from hedgerow.cli.fit_files import CLASSIFY, fit_files, parse_options
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.events import rows_together
from hedgerow.fleet.store import FleetStore
from hedgerow.fleet.store import backup as fleet_backup
from hedgerow.live.journal import EventRow, Journal
from hedgerow.live.look import Look, look
from hedgerow.live.look import backup as live_backup
from hedgerow.live.report import discrepancies
from hedgerow.live.steps import BLOCK, Steps
from hedgerow.regressor import OnlineTransferRegressor, load_model
from hedgerow.rows.wanted import listed
from hedgerow.show import so_far
from hedgerow.store import Store, restore

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
    model = load_model(path)
    names = getattr(model, "feature_names_in_", None)
    constants = sum(model.constants_.for_kernels(name).nbytes for name in model.constants_)
    state = sum(array.nbytes for array in model.learner_.arrays().values())
    return [
        ("what", "a model file"),
        *(_numbers(model) if isinstance(model, OnlineTransferRegressor) else _classes(model)),
        ("features", str(model.n_features_in_) + ("" if names is None else f": {listed(list(names))}")),
        ("guarantee", f"at most {model.bound_:.1f}, on {model.guarantee_}"),
        *_trusted(model),
        *(("fitted", each.note) for each in model.info_),  # a file keeps of it what was sampled
        ("size", f"{_bytes(path.stat().st_size)}; in memory {_bytes(constants)} constants, {_bytes(state)} state"),
        *(() if model.table_ is None else model.table_.rows()),
    ]


def _classes(clf: OnlineTransferClassifier) -> list[tuple[str, str]]:
    return [
        ("method", f"{clf.method} (reading {clf.reading if isinstance(clf.reading, str) else clf.reading.preset})"),
        ("classes", f"{len(clf.classes_)}: {listed(clf.classes_.tolist())}"),
        ("input", " + ".join(clf.learner_.plan.steps) or "as it is"),
        ("labels learned", _mistakes(clf.seen_, clf.mistakes_)),
    ]


def _numbers(reg: OnlineTransferRegressor) -> list[tuple[str, str]]:
    drift, alarms = reg.drift_, "no alarm"
    if drift.alarms:
        alarms = f"{drift.alarms} alarms, the last after label {drift.last}"
    return [
        ("method", "OnlineTransferRegressor, which predicts numbers"),
        ("labels learned", so_far(reg) or "0"),
        ("drift", alarms),
    ]


def _journal(path: Path) -> list[tuple[str, str]]:
    with look(path) as journal:
        counts, clf = journal.summary(), journal.model()
    so_far_now, lately = (_mistakes(each["labels"], each["mistakes"]) for each in (counts, counts["window"]))
    errors = counts["errors"]
    if errors and counts["labels"]:
        all_inside, now_inside = (f"{1 - n['mistakes'] / n['labels']:.1%} inside" for n in (counts, counts["window"]))
        so_far_now = f"{counts['labels']}, RMSE {errors['rmse']:.4g}, MAE {errors['mae']:.4g}, {all_inside}"
        lately = f"{counts['window']['labels']}, RMSE {errors['recent_rmse']:.4g}, {now_inside}"
    rows = [
        ("what", "the folder of a live model"),
        ("method", counts["method"]),
        ("features", str(counts["features"])),
        *(() if errors else [("classes", f"{len(counts['classes'])}: {listed(counts['classes'])}")]),
        ("events", f"{counts['events']}, the last {_ago(counts['last_event'])}"),
        ("labels", f"{so_far_now}; the last {_ago(counts['last_label'])}"),
        ("last labels", lately),
        ("waiting", f"{counts['pending']} for their labels; {counts['expired']} have expired"),
        ("kept", f"{counts['kept']} events, {_bytes(counts['bytes'])} with snapshots"),
        ("recovery", f"from snapshot {counts['snapshot']}, then {counts['steps_since_snapshot']} steps"),
    ]
    return rows + _trusted(clf)


def _trusted(model: OnlineTransferEstimator) -> list[tuple[str, str]]:
    """Sources, the experts with the largest weights, and how far each source is from the target."""
    largest = sorted(model.weights_.items(), key=lambda pair: -pair[1])[:5]
    rows = [
        ("sources", f"{len(model.source_names_)}: {listed(model.source_names_)}"),
        ("most trusted", ", ".join(f"{name} {weight:.0%}" for name, weight in largest)),
    ]
    if isinstance(model, OnlineTransferClassifier):
        gaps = [f"{name} {'not known yet' if d is None else f'{d:.3g}'}" for name, d in discrepancies(model).items()]
        rows.append(("discrepancy", f"{', '.join(gaps)} (mean squared distance of means)" if gaps else "-"))
    return rows


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


# -- hedgerow backup, restore ------------------------------------------------------------------------------------


def back_up(folder: Path, target: Path) -> None:
    """Copy a live model or a fleet."""
    (live_backup if _kind(folder) is Journal else fleet_backup)(folder, target)


def bring_back(folder: Path, target: Path) -> None:
    """Copy a backup to its place."""
    restore(folder, target, _kind(folder))


def _kind(folder: Path) -> type[Store]:
    kinds: tuple[type[Store], ...] = (Journal, FleetStore)
    for kind in kinds:
        if (folder / kind.FILE).is_file():
            return kind
    raise InputError(f"{folder} has neither {Journal.FILE} nor {FleetStore.FILE}: it is no live model and no fleet")


# -- hedgerow replay --------------------------------------------------------------------------------------------


class WhatIf(NamedTuple):
    """Mistakes over the labelled events that are kept, as they were and as they would have been."""

    labels: int
    mistakes_then: int
    mistakes_now: int
    changed: int  # predictions that are others


def what_if(journal: Look, clf: OnlineTransferClassifier, progress: Progress | None = None) -> WhatIf:
    """Give a model the events of a journal, in the order of their questions and labels; it learns."""
    if clf.n_features_in_ != journal.now.width:
        raise InputError(f"the model has {clf.n_features_in_} features, the journal's rows have {journal.now.width}")
    kinds, by_step, predictions = journal.steps(), dict[int, list[EventRow]](), dict[int, Any]()
    asked: dict[int, EventRow] = {}
    for event in journal.events():
        if event.step in kinds:
            by_step.setdefault(event.step, []).append(event)
        if kinds.get(event.step or 0) != BLOCK:
            asked[event.number] = event
    steps, todo = Steps(clf), sorted([*asked, *by_step])
    for done, number in enumerate(todo):
        if progress is not None and done % 256 == 0:
            progress(done, len(todo), "events")
        if number in by_step:
            rows, labels = zip(*((event.x, event.label) for event in by_step[number]), strict=True)
            if kinds[number] == BLOCK:
                codes = steps.block(rows_together(list(rows)), list(labels)).codes
                numbers = [event.number for event in by_step[number]]
                predictions |= dict(zip(numbers, clf.classes_[codes].tolist(), strict=True))
            else:
                steps.late(list(rows), list(labels))
        else:
            predictions[number] = clf.predict_one(asked[number].x)
    learned = [event for events in by_step.values() for event in events]
    labelled = [event for event in learned if event.label is not None]
    then = sum(not event.correct for event in labelled)
    now = sum(bool(predictions.get(event.number) != event.label) for event in labelled)
    changed = sum(bool(predictions.get(event.number) != event.prediction) for event in learned)
    return WhatIf(len(labelled), then, now, changed)


def replay(
    journal: Path,
    models: Sequence[Path],
    methods: Sequence[str],
    sources: Sequence[Path],
    label: str | None,
    unlabelled: Path | None,
    options: Sequence[str],
    progress: Progress,
) -> list[list[str]]:
    """Every model, and every method fitted on the sources, over the events of a journal: a row each."""
    if not models and not methods:
        raise InputError("name what to replay: --model FILE, or --method NAME with --source FILE and --label COLUMN")
    if methods and (not sources or label is None):
        raise InputError("--method is fitted first: give its --source files and their --label column")
    results: dict[str, WhatIf] = {}
    with look(journal) as events:
        if events.now.coverage is not None:
            raise InputError(f"{journal} predicts numbers; a replay counts mistakes, which are of classes")
        for path in models:
            results[str(path)] = what_if(events, OnlineTransferClassifier.load(path), progress)
        for method in methods:
            clf = fit_files(list(sources), str(label), unlabelled, parse_options(options, method), task=CLASSIFY).clf
            assert isinstance(clf, OnlineTransferClassifier)
            results[method] = what_if(events, clf, progress)
        summary = events.summary()
    first = next(iter(results.values()))

    def row(name: str, mistakes: int, changed: object) -> list[str]:
        share = f"{mistakes / first.labels:.1%}" if first.labels else "-"
        return [name, str(first.labels), str(mistakes), share, str(changed)]

    rows = [row(f"as it was ({summary['method']})", first.mistakes_then, "-")]
    return rows + [row(name, result.mistakes_now, result.changed) for name, result in results.items()]
