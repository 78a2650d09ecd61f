"""A look at a model file or the folder of a live model; backups of folders, and how they come back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.base import OnlineTransferEstimator
from hedgerow.core.errors import InputError
from hedgerow.core.values import is_gap, shown
from hedgerow.data import read
from hedgerow.fleet.store import FleetStore
from hedgerow.inputs import as_table
from hedgerow.live.journal import Journal
from hedgerow.live.look import look
from hedgerow.live.report import discrepancies, shifts
from hedgerow.regressor import load_model
from hedgerow.rows.wanted import listed
from hedgerow.store import Store, copy_folder
from hedgerow.task import so_far, task_of

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
    task = task_of(model)
    drift = model.drift_
    alarms = (
        f"{drift.alarms} alarms, the last after label {drift.last}" if drift.alarms else "no alarm"
    )
    names = getattr(model, "feature_names_in_", None)
    constants = sum(model.constants_.for_kernels(name).nbytes for name in model.constants_)
    state = sum(array.nbytes for array in model.learner_.arrays().values())
    return [
        ("what", "a model file"),
        ("method", task.kind(model)),
        *task.rows(model),
        ("labels learned", so_far(model) or "0"),
        ("drift", alarms),
        (
            "features",
            str(model.n_features_in_) + ("" if names is None else f": {listed(list(names))}"),
        ),
        ("guarantee", _guarantee(model)),
        *_trusted(model),
        *(("fitted", each.note) for each in model.info_),  # a file keeps of it what was sampled
        (
            "size",
            f"{_bytes(path.stat().st_size)}; in memory {_bytes(constants)} constants, {_bytes(state)} state",
        ),
        *(() if model.table_ is None else model.table_.rows()),
    ]


def _guarantee(model: OnlineTransferEstimator) -> str:
    return f"at most {model.bound_:.1f}, on {model.guarantee_}" if model.seen_ else "no labels yet"


def _journal(path: Path) -> list[tuple[str, str]]:
    with look(path) as journal:
        counts = journal.summary()
        clf = journal.model()
        moved = sorted(shifts(clf, journal).items(), key=lambda pair: -pair[1][0])[:5]
    so_far_now, lately = counts["words"]
    rows = [
        ("what", "the folder of a live model"),
        ("method", counts["method"]),
        ("features", str(counts["features"])),
        *(
            [("classes", f"{len(counts['classes'])}: {listed(counts['classes'])}")]
            if counts["classes"]
            else []
        ),
        ("events", f"{counts['events']}, the last {_ago(counts['last_event'])}"),
        ("labels", f"{so_far_now}; the last {_ago(counts['last_label'])}"),
        ("last labels", lately),
        ("waiting", f"{counts['pending']} for their labels; {counts['expired']} have expired"),
        ("kept", f"{counts['kept']} events, {_bytes(counts['bytes'])} with snapshots"),
        (
            "recovery",
            f"from snapshot {counts['snapshot']}, then {counts['steps_since_snapshot']} steps",
        ),
    ]
    if moved:
        most = ", ".join(f"{name} {now:.2f} ({between:.2f})" for name, (now, between) in moved)
        rows.append(("columns that differ", f"{most} (stability index; between the sources)"))
    return rows + _trusted(clf)


def _trusted(model: OnlineTransferEstimator) -> list[tuple[str, str]]:
    """Sources, the experts with the largest weights, and how far each source is from the target."""
    largest = sorted(model.weights_.items(), key=lambda pair: -pair[1])[:5]
    rows = [
        ("sources", f"{len(model.source_names_)}: {listed(model.source_names_)}"),
        ("most trusted", ", ".join(f"{name} {weight:.0%}" for name, weight in largest)),
    ]
    now = discrepancies(model)
    gaps = [f"{name} {'none yet' if d is None else f'{d:.3g}'}" for name, d in now.items()]
    at_fit = [f"{name} {d:.3g}" for name, d in model.kept_.get("discrepancy", {}).items()]
    if at_fit:
        rows.append(("discrepancy at the fit", f"{', '.join(at_fit)} (of the unlabelled rows)"))
    if gaps:
        rows.append(("discrepancy", f"{', '.join(gaps)} (mean squared distance of means)"))
    if kept := model.kept_.get("importances", {}):
        most = sorted(kept.items(), key=lambda pair: -pair[1])[:5]
        rows.append(("columns that matter most", ", ".join(f"{name} {x:.0%}" for name, x in most)))
    return rows


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


# -- hedgerow explain -------------------------------------------------------------------------------------------


def explained(path: Path, row: str) -> Any:
    """The prediction of a model, or of a live model, for a row with its reasons, also by column."""
    if path.is_dir():
        with look(path) as journal:
            model = journal.model()
    else:
        model = load_model(path)
    return model.explain_one(_row(row), by_column=True)


def _row(text: str) -> Any:
    """A row in JSON, by name or in order; or that of a file, of which `FILE:3` is the third."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"--row {shown(text)}: not JSON ({error})") from error
    file, mark, number = text.rpartition(":")
    at = int(number) if mark and number.isdecimal() else 1
    domain = read(file if mark and number.isdecimal() else text)
    if not 1 <= at <= len(domain):
        raise InputError(f"--row {text}: {domain.name} has {len(domain)} rows; the first is 1")
    table = as_table(domain)
    cells = {name: np.asarray(table.column(name)).tolist()[at - 1] for name in table.names}
    return {name: cell for name, cell in cells.items() if not is_gap(cell)}


# -- hedgerow backup, restore ------------------------------------------------------------------------------------


def copy(folder: Path, target: Path) -> None:
    """Copy a live model or a fleet, or bring a copy back."""
    copy_folder(folder, target, _kind(folder))


def _kind(folder: Path) -> type[Store]:
    kinds: tuple[type[Store], ...] = (Journal, FleetStore)
    for kind in kinds:
        if (folder / kind.FILE).is_file():
            return kind
    raise InputError(
        f"{folder} has neither {Journal.FILE} nor {FleetStore.FILE}: it is neither a live model nor a fleet"
    )
