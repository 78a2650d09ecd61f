"""From files to a fitted model: read the domains, match their columns, fit, and say what was found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.cli.options import pairs as given_pairs
from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import InputError, unknown
from hedgerow.data import read
from hedgerow.estimator import OnlineTransferClassifier, arguments_of
from hedgerow.events import labels_together
from hedgerow.files import check_writable, same_file
from hedgerow.findings import Findings
from hedgerow.inputs import (
    CLASSIFY,
    NEW_CLASSES,
    REGRESS,
    TASKS,
    all_labels,
    as_table,
    examined,
    kind_of_targets,
    task_of_labels,
)
from hedgerow.methods import Recipe, method_of, named
from hedgerow.regressor import OnlineTransferRegressor, load_model
from hedgerow.rows.domains import read_unlabelled, unique_names
from hedgerow.rows.inputs import Files
from hedgerow.rows.parquet import ParquetSource
from hedgerow.task import CLASSES
from hedgerow.task import task_of as task_of_model

SHARE = 2  # one in so many bytes of the free memory may be the sources' numbers
GIB = 2**30
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the domains it came from, the time it took, and how it was made.

    `sources` has name, rows and classes (different labels) of each.
    """

    clf: OnlineTransferClassifier | OnlineTransferRegressor
    sources: list[tuple[str, int, int]]
    unlabelled: Domain | None
    seconds: float
    notes: tuple[str, ...] = ()


def check_output(output: Path, inputs: Sequence[Path]) -> None:
    """Refuse a place for the model that cannot be written, or is one of the files to read, before any work is done."""
    for path in (file for input in inputs for file in _files(input)):
        if same_file(output, path):
            raise InputError(
                f"--output {output} would overwrite {path}, which is an input; choose another name"
            )
    check_writable(output)


def _files(input: Path) -> Sequence[Path]:
    """The files that an input means; itself if it means none, which is for the reader to say."""
    try:
        return Files.of(str(input)).paths
    except InputError:
        return [input]


def check_files(
    files: Sequence[Path], label: str | None, target: Path | None, model: Path | None, table: Any
) -> tuple[Findings, list[str]]:
    """What is to be known of files before a model is fitted on them; and what a model would miss in each."""
    names = unique_names(files)
    domains = [read(path, label=label, name=name) for path, name in zip(files, names, strict=True)]
    rows = None if target is None else read_unlabelled(target, label)
    task = CLASSIFY if label is None else task_of_labels([np.asarray(d.y) for d in domains], label)
    found = examined(domains, rows, table, task, stops=False)
    if model is None or (encoder := load_model(model).table_) is None:
        return found, []
    every = [*domains, *([] if rows is None else [rows])]
    lacks = [(d.name, encoder.missing_from(d.feature_names or as_table(d).names)) for d in every]
    return found, [f"{name}: {text}, says {model}" for name, text in lacks if text]


def fit_files(
    sources: Sequence[Path],
    label: str,
    unlabelled: Path | None,
    options: Mapping[str, Any],
    journal: Path | None = None,
    task: str | None = None,
    coverage: Sequence[float] | None = None,
) -> Fitted:
    """Fit a model on sources and, perhaps, unlabelled target rows: files, folders or patterns.

    Parquet sources that take more than half of the free memory are read part by part. `journal`: the folder of a live
    model; its rows are rows of the target, and what it has learned is learned again. `task`: classify or regress;
    `coverage`: of sets or intervals; None: as the labels are.
    """
    if task not in (None, *TASKS):
        raise unknown("choice for --task", str(task), TASKS)
    clf = OnlineTransferClassifier(**options)
    if journal is not None:
        if unlabelled is not None:
            raise InputError("--from-journal has the rows of the target: leave out --unlabelled")
        return _fit_again(clf, sources, label, journal)
    target = None if unlabelled is None else read_unlabelled(unlabelled, label)
    why = "" if task == REGRESS else why_partitioned(sources, clf.method)
    return _fit(clf, sources, label, target, task, coverage, why)


def _regressor(
    clf: OnlineTransferClassifier, label: str, coverage: Sequence[float] | None
) -> OnlineTransferRegressor:
    """A regressor with what it shares of the classifier's options."""
    usual = named(OnlineTransferClassifier().get_params())
    given = named(clf.get_params(deep=False))
    shared = {name: given[name] for name in ("table", "random_state")}
    other = [
        name
        for name, value in given.items()
        if value != usual[name] and name not in (*shared, "options")
    ]
    if other:
        raise InputError(
            f"{', '.join(other)}: for classifiers, and the label {label!r} is a number; leave it out, or say --task "
            "classify"
        )
    return OnlineTransferRegressor(coverage=list(coverage or [0.9]), **shared)


def _fit(
    clf: OnlineTransferClassifier, sources: Sequence[Path], label: str, target: Domain | None,
    task: str | None = None, coverage: Sequence[float] | None = None, why: str = "",
) -> Fitted:  # fmt: skip
    """`why`: the sources are Parquet, and are read part by part."""
    named = zip(sources, unique_names(sources), strict=True)
    model: OnlineTransferClassifier | OnlineTransferRegressor = clf
    domains: list[Any] = [
        ParquetSource(path, label, name) if why else read(path, label=label, name=name)
        for path, name in named
    ]
    began = time.perf_counter()
    labels = [source.labels if why else np.asarray(source.y) for source in domains]
    if why:
        found = _classes_apart(labels, label, task, why)
        notes = []
    else:
        found = task_of_labels(labels, label, task)
        notes = examined(domains, target, clf.table, found).texts
    if found == REGRESS:
        model = _regressor(clf, label, coverage)
        remedy = "" if task else " (for classes: --task classify)"
        notes.append(f"the label {label!r} is a number: regression{remedy}")
    elif coverage:
        clf.set_params(coverage=list(coverage))
    if task == CLASSIFY and clf.max_classes is None:
        clf.set_params(max_classes=len(set(all_labels(labels).tolist())) + NEW_CLASSES)
    model.fit_domains(domains, target)
    seconds = time.perf_counter() - began
    if target is not None:
        model.keep("discrepancy", task_of_model(model).discrepancies(model))
    if why:
        passes = max(source.passes for source in domains)
        parts = sum(len(source.partitions) for source in domains)
        notes.append(f"read part by part, as {why}: {passes} passes over {parts} parts")
    notes += [each.note for each in model.info_ if each.note]
    read_from = [
        (source.name, source.count if why else len(source), len(set(different.tolist())))
        for source, different in zip(domains, labels, strict=True)
    ]
    return Fitted(model, read_from, target, seconds, tuple(notes))


def _classes_apart(labels: list[Array], label: str, task: str | None, why: str) -> str:
    """The task of sources that are read part by part, of which the different labels are known: only classes."""
    if task is None and kind_of_targets(all_labels(labels)) == "numbers":
        raise InputError(
            f"the label {label!r} is a number, and a regression needs its sources in memory: {why}; fit on fewer rows, "
            "or say --task classify if the numbers name classes"
        )
    return CLASSIFY


def _fit_again(
    clf: OnlineTransferClassifier, sources: Sequence[Path], label: str, journal: Path
) -> Fitted:
    """With the rows of a journal, and what was learned from them, in the same order."""
    from hedgerow.live.look import look

    with look(journal) as events:
        rows = events.domain()
    fitted = _fit(
        clf, sources, label, Domain(rows.name, rows.X, feature_names=rows.feature_names), CLASSIFY
    )
    labels = np.asarray(rows.y)
    known = np.flatnonzero([value is not None for value in labels])
    if len(known):
        clf.predict_then_learn(rows.X[known], labels_together(labels[known].tolist()))
    what = f"{len(known)} labels of {len(labels)} rows, {clf.mistakes_} mistakes"
    return replace(fitted, notes=(*fitted.notes, f"learned again from {journal}: {what}"))


def why_partitioned(sources: Sequence[Path], method: str | Recipe) -> str:
    """Why the sources are to be read part by part: they take more than half of the free memory. Else empty.

    That is for Parquet, and for methods that need statistics of their sources only.
    """
    if not method_of(method).merges:
        return ""
    size = size_of(sources)
    free = free_memory()
    if size is None or free is None or size * SHARE <= free:
        return ""
    return f"the sources take {size / GIB:.1f} GiB of memory, and {free / GIB:.1f} GiB are free"


def size_of(sources: Sequence[Path]) -> int | None:
    """Bytes of the sources' numbers in memory, by what the ends of their files say; None if not all are Parquet."""
    try:
        import pyarrow.parquet as pq

        every = [Files.of(str(source)) for source in sources]
        if any(files.format != "parquet" for files in every):
            return None
        ends = [pq.read_metadata(path) for files in every for path in files.paths]
    except (
        ImportError,
        OSError,
        ValueError,
        InputError,
    ):  # pyarrow's own are ValueErrors; the reader says what is wrong
        return None
    return sum(8 * int(end.num_rows) * int(end.num_columns) for end in ends)


def free_memory() -> int | None:
    """Bytes that programs may still take without anything being put aside for them; None where nobody says."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    available = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(available[0][1]) if available else None


def parse_options(
    pairs: Sequence[str], method: str = "hedgerow", reading: str = "general"
) -> dict[str, Any]:
    """Keyword arguments of the classifier from key=value pairs, the answers of a reading among them.

    Numbers, None and lists are written as in Python, the rest is text.

    >>> parse_options(["dim=20", "preprocess=zscore+unit"], "oddm")
    {'method': 'oddm', 'preprocess': 'zscore+unit', 'options': PaperOptions(dim=20)}
    >>> parse_options(["lam=0.5"], "oddm", "authors")["options"].reading.lam
    0.5
    """
    return arguments_of(method, {"reading": reading, **given_pairs(pairs)})


def summary(fitted: Fitted) -> tuple[list[str], list[list[str]], list[str]]:
    """What a person wants to know after a fit: header and rows of a table of the domains, and lines about the model.

    A column stands there only where there is something to put into it.
    """
    clf = fitted.clf
    target = fitted.unlabelled
    task = task_of_model(clf)
    names, counts, values = zip(*fitted.sources, strict=True)
    columns: dict[str, Sequence[Any]] = {
        "domain": names,
        "role": ["source"] * len(names),
        "rows": counts,
    }
    columns[task.values] = values
    apart = clf.kept_.get("discrepancy", {})
    if apart:
        columns["discrepancy"] = [f"{distance:.3g}" for distance in apart.values()]
    rows = [list(map(str, row)) for row in zip(*columns.values(), strict=True)]
    if target is not None:
        rows.append(
            [target.name, "unlabelled target", str(len(target)), *["-"] * (len(columns) - 3)]
        )
    lines = [
        f"{task.kind(clf)}: {clf.n_features_in_} features, spaces of {clf.dim_} dimensions, {task.size(clf)}, "
        f"{len(clf.expert_names_)} experts, {fitted.seconds:.2f} s",
        *fitted.notes,
    ]
    if target is None and task is CLASSES:
        lines.append("no target rows: alignment skipped; add --unlabelled for a better start")
    if apart:
        lines.append(
            "discrepancy: squared gaps between the means of source and target in the model's space, overall and by "
            "class; the smaller, the more alike. Compare it only with models of the same method"
        )
    return list(columns), rows, lines
