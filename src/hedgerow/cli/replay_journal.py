"""`hedgerow replay`: a journal gone through again with other models, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hedgerow.cli.fit_files import fit_files, parse_options
from hedgerow.core.errors import InputError
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.live.look import look
from hedgerow.live.what_if import WhatIf, what_if

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
