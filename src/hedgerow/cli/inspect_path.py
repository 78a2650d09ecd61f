"""`hedgerow inspect`: what a model file or the folder of a live model is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.rows.wanted import listed


def inspected(path: Path) -> list[tuple[str, str]]:
    """Names and values, for a table of two columns."""
    if path.is_dir():
        return _journal(path)
    if not path.is_file():
        raise InputError(f"{path} is neither a model file nor the folder of a live model")
    return _model(path)


def _model(path: Path) -> list[tuple[str, str]]:
    from hedgerow.estimator import OnlineTransferClassifier

    clf = OnlineTransferClassifier.load(path)
    names = getattr(clf, "feature_names_in_", None)
    weights = sorted(clf.weights_.items(), key=lambda pair: -pair[1])
    constants = sum(clf.constants_.for_kernels(name).nbytes for name in clf.constants_)
    state = sum(array.nbytes for array in clf.learner_.arrays().values())
    apart = ", ".join(f"{name} {d:.3g}" for name, d in clf.discrepancy_.items())
    return [
        ("what", "a model file"),
        ("method", f"{clf.method} (reading {clf.reading if isinstance(clf.reading, str) else clf.reading.preset})"),
        ("features", str(clf.n_features_in_) + ("" if names is None else f": {listed(list(names))}")),
        ("classes", f"{len(clf.classes_)}: {listed(clf.classes_.tolist())}"),
        ("sources", f"{len(clf.source_names_)}: {listed(clf.source_names_)}"),
        ("labels learned", _mistakes(clf.seen_, clf.mistakes_)),
        ("guarantee", f"at most {clf.bound_:.1f}, on {clf.guarantee_}"),
        ("most trusted", ", ".join(f"{name} {weight:.0%}" for name, weight in weights[:5])),
        ("discrepancy", apart or "-"),
        ("size", f"{_bytes(path.stat().st_size)}; in memory {_bytes(constants)} constants, {_bytes(state)} state"),
        *(() if clf.table_ is None else clf.table_.rows()),
    ]  # fmt: skip


def _journal(path: Path) -> list[tuple[str, str]]:
    from hedgerow.live.look import look

    with look(path) as journal:
        found, point = journal.summary(), journal.newest_point()
    window = found["window"]
    rows = [
        ("what", "the folder of a live model"),
        ("method", found["method"]),
        ("features", str(found["features"])),
        ("classes", f"{len(found['classes'])}: {listed(found['classes'])}"),
        ("events", f"{found['events']}, the last {_ago(found['last_event'])}"),
        ("labels", f"{_mistakes(found['labels'], found['mistakes'])}; the last {_ago(found['last_label'])}"),
        ("last labels", _mistakes(window["labels"], window["mistakes"])),
        ("waiting", f"{found['pending']} for their labels; {found['given_up']} were given up"),
        ("kept", f"{found['kept']} events, {_bytes(found['bytes'])} with snapshots"),
        ("recovery", f"from snapshot {found['snapshot']}, then {found['steps_since_snapshot']} steps"),
    ]
    return rows + _trusted(path, point)


def _trusted(path: Path, point: dict[str, Any] | None) -> list[tuple[str, str]]:
    from hedgerow.estimator import OnlineTransferClassifier
    from hedgerow.live.snapshots import Snapshots

    snapshots = Snapshots(path)
    clf = OnlineTransferClassifier.load(snapshots.path(snapshots.newest_number))
    weights = list(clf.weights_.values()) if point is None else point["weights"]
    discrepancy = list(clf.discrepancy_.values()) if point is None else point["discrepancy"]
    pairs = sorted(zip(clf.expert_names_, weights, strict=True), key=lambda pair: -pair[1])
    return [
        ("sources", f"{len(clf.source_names_)}: {listed(clf.source_names_)}"),
        ("most trusted", ", ".join(f"{name} {weight:.0%}" for name, weight in pairs[:5])),
        ("discrepancy", ", ".join(f"{n} {d:.3g}" for n, d in zip(clf.source_names_, discrepancy, strict=True)) or "-"),
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
