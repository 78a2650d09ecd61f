"""From files to a fitted model: read the domains, match their columns, fit, and say what was found."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.cli.memory import LOCAL, choose_engine
from hedgerow.core.arrays import Array, dense
from hedgerow.core.domains import Domain, same_columns
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.core.preprocess import Preprocess
from hedgerow.core.values import Codes
from hedgerow.data import read
from hedgerow.estimator import OnlineTransferClassifier, arguments_of
from hedgerow.events import labels_together
from hedgerow.files import check_writable, same_file
from hedgerow.inputs import NEW_CLASSES, all_labels, kind_of_targets, numbers_of
from hedgerow.regressor import OnlineTransferRegressor
from hedgerow.rows.domains import read_unlabelled, unique_names
from hedgerow.rows.inputs import Files

Separation = tuple[float, float]  # before and after alignment; NaN where that is not defined
TASKS = CLASSIFY, REGRESS = "classify", "regress"
UNDEFINED = (float("nan"), float("nan"))


def separations(clf: OnlineTransferClassifier, sources: Sequence[Domain], target: Domain | None) -> list[Separation]:
    """How far each source of a classifier just fitted on these domains is from the target, before and after alignment.

        D(A) = sum_k |A^T g_k|^2 / tr cov(A^T x),   x a target row,   A = I before

    g_0 is the gap between the overall means, g_k between those of class k, by the aligner's pseudo-labels where it made
    some. Dividing by the target's own variance takes out the scale of A. It is not defined without target rows, in a
    kernel space, or without an aligner.

    >>> rng = np.random.default_rng(0)
    >>> s = Domain("s", rng.normal(size=(60, 4)) + [3, 0, 0, 0], np.arange(60) % 2)
    >>> t = Domain("t", rng.normal(size=(40, 4)))
    >>> clf = OnlineTransferClassifier("oddm", preprocess=(), dim=2).fit_domains([s], t)
    >>> [(before, after)] = separations(clf, [s], t)
    >>> after < before
    True
    """
    if target is None or len(target) < 2:
        return [UNDEFINED] * len(sources)
    learner = clf.learner_
    info = [each for each in clf.info_ if each.rank]  # of alignments
    K, codes = learner.n_classes, Codes(clf.classes_)
    Xs, U = Preprocess(learner.plan.steps).fit_arrays(
        [numbers_of(clf.table_, s) for s in sources], numbers_of(clf.table_, target)
    )
    rows, linear = dense(U), bool(info) and not learner.plan.gammas

    def distance(A: Array | None, gaps: Array) -> float:
        variance = float((rows if A is None else rows @ A).var(axis=0).sum())
        return discrepancy(A, gaps) / max(variance, 1e-300)

    pairs = []
    for i, (source, X) in enumerate(zip(sources, Xs, strict=True)):
        shared = len(info) != len(sources)
        there = Moments.of(U, info[0 if shared else i].pseudo_labels if info else None, K)
        before = distance(None, gap(Moments.of(X, codes.of(np.asarray(source.y)), K), there))
        # of the source as the aligner moved it
        after = distance(learner.projection(i), gap(learner.source(i), there)) if linear else float("nan")
        pairs.append((before, after))
    return pairs


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the domains it came from, how far apart they are, the time it took, and how it was made.

    `sources` has name, rows and classes (different labels) of each.
    """

    clf: OnlineTransferClassifier | OnlineTransferRegressor
    sources: list[tuple[str, int, int]]
    unlabelled: Domain | None
    separations: list[Separation]
    seconds: float
    notes: tuple[str, ...] = ()


def check_output(output: Path, inputs: Sequence[Path]) -> None:
    """Refuse a place for the model that cannot be written, or is one of the files to read, before any work is done."""
    for path in (file for input in inputs for file in _files(input)):
        if same_file(output, path):
            raise InputError(f"--output {output} would overwrite {path}, which is to be read; choose another name")
    check_writable(output)


def _files(input: Path) -> Sequence[Path]:
    """The files that an input means; itself if it means none, which is for the reader to say."""
    try:
        return Files.of(str(input)).paths
    except InputError:
        return [input]


def fit_files(
    sources: Sequence[Path],
    label: str,
    unlabelled: Path | None,
    options: Mapping[str, Any],
    engine: str | None = None,
    journal: Path | None = None,
    task: str | None = None,
    coverage: Sequence[float] | None = None,
) -> Fitted:
    """Fit a model on sources and, perhaps, unlabelled target rows: files, folders or patterns.

    `engine`: local (in memory), a name of `hedgerow.dask.cluster`, or None: local if that has room. `journal`: the
    folder of a live model; its rows are rows of the target, and what it has learned is learned again. `task`: classify
    or regress; `coverage`: of sets or intervals; None: as the labels are.
    """
    if task not in (None, *TASKS):
        raise unknown("choice for --task", str(task), TASKS)
    clf = OnlineTransferClassifier(**options)
    chosen, why = choose_engine(sources, clf.method, engine)
    if journal is not None:
        if unlabelled is not None or chosen != LOCAL:
            raise InputError("--from-journal has the rows of the target: leave out --unlabelled and --engine")
        return _fit_again(clf, sources, label, journal)
    if chosen != LOCAL:
        if task == REGRESS:
            raise InputError("--task regress needs the sources in memory: say --engine local")
        return _fit_partitions(clf, sources, label, unlabelled, chosen, why)
    target = None if unlabelled is None else read_unlabelled(unlabelled, label)
    return _fit(clf, sources, label, target, task, coverage)


def task_of(domains: Sequence[Domain], label: str) -> str:
    """Whether the labels of all sources are classes or numbers; an error if they may be either."""
    parts = [np.asarray(d.y) for d in domains]
    labels = np.concatenate(parts) if all(y.dtype.kind in "iuf" for y in parts) else all_labels(parts)
    kind = kind_of_targets(labels)
    if kind is None:
        raise InputError(
            f"the label {label!r} has {len(np.unique(labels))} different whole numbers: say --task classify if they "
            "name classes, --task regress if they are amounts"
        )
    return REGRESS if kind == "numbers" else CLASSIFY


def _regressor(clf: OnlineTransferClassifier, label: str, coverage: Sequence[float] | None) -> OnlineTransferRegressor:
    """A regressor with what it shares of the classifier's options."""
    usual, given = OnlineTransferClassifier().get_params(), clf.get_params()
    shared = {name: given[name] for name in ("table", "random_state")}
    other = [name for name, value in given.items() if value != usual[name] and name not in shared]
    if other:
        raise InputError(
            f"{', '.join(other)}: for classifiers, and the label {label!r} is a number; leave it out, or say --task "
            "classify"
        )
    return OnlineTransferRegressor(coverage=list(coverage or [0.9]), **shared)


def _fit(
    clf: OnlineTransferClassifier, sources: Sequence[Path], label: str, target: Domain | None,
    task: str | None = None, coverage: Sequence[float] | None = None,
) -> Fitted:  # fmt: skip
    domains = [read(path, label=label, name=name) for path, name in zip(sources, unique_names(sources), strict=True)]
    found = [(d.name, len(d), len(set(np.asarray(d.y).tolist()))) for d in domains]
    model: OnlineTransferClassifier | OnlineTransferRegressor = clf
    notes = []
    if (task or task_of(domains, label)) == REGRESS:
        model = _regressor(clf, label, coverage)
        remedy = "" if task else " (--task classify makes classes)"
        notes.append(f"the label {label!r} is a number: regression{remedy}")
    elif coverage:
        clf.set_params(coverage=list(coverage))
    if task == CLASSIFY and clf.max_classes is None:
        clf.set_params(max_classes=len(set(all_labels([np.asarray(d.y) for d in domains]).tolist())) + NEW_CLASSES)
    began = time.perf_counter()
    model.fit_domains(domains, target)
    seconds = time.perf_counter() - began
    apart = [UNDEFINED] * len(domains)
    if model is clf:
        every = [*domains, *([] if target is None else [target])]
        every = same_columns(every) if clf.table_ is None else every
        domains, target = every[: len(domains)], None if target is None else every[-1]
        apart = separations(clf, domains, target)
    notes += [each.note for each in model.info_ if each.note]
    notes += () if model.table_ is None else model.table_.notes()
    return Fitted(model, found, target, apart, seconds, tuple(notes))


def _fit_again(clf: OnlineTransferClassifier, sources: Sequence[Path], label: str, journal: Path) -> Fitted:
    """With the rows of a journal, and what was learned from them, in the same order."""
    from hedgerow.live.look import look

    with look(journal) as events:
        rows = events.domain()
    fitted = _fit(clf, sources, label, Domain(rows.name, rows.X, feature_names=rows.feature_names), CLASSIFY)
    assert isinstance(fitted.clf, OnlineTransferClassifier)
    labels = np.asarray(rows.y)
    known = np.flatnonzero([value is not None for value in labels])
    if len(known):
        clf.partial_fit(rows.X[known], labels_together(labels[known].tolist()))
    what = f"{len(known)} labels of {len(labels)} rows, {clf.mistakes_} mistakes on the way"
    return replace(fitted, notes=(*fitted.notes, f"learned again from {journal}: {what}"))


def _fit_partitions(
    clf: OnlineTransferClassifier, sources: Sequence[Path], label: str, unlabelled: Path | None, engine: str, why: str
) -> Fitted:
    """The same without the sources in memory: they are asked for statistics, on a cluster."""
    from hedgerow.dask import fit

    target = None if unlabelled is None else read_unlabelled(unlabelled, label)
    began = time.perf_counter()
    fit(clf, dict(zip(unique_names(sources), sources, strict=True)), label, target, engine=engine)
    seconds, report = time.perf_counter() - began, clf.partitions_
    note = f"fitted from statistics on {engine}{why}: {report.passes} passes over {report.partitions} partitions"
    return Fitted(clf, list(report.sources), target, [UNDEFINED] * len(sources), seconds, (note,))


def parse_options(pairs: Sequence[str], method: str = "hedgerow", reading: str = "general") -> dict[str, Any]:
    """Keyword arguments of the classifier from key=value pairs, the answers of a reading among them.

    Numbers, None and lists are written as in Python, the rest is text.

    >>> parse_options(["dim=20", "preprocess=zscore+unit"], "oddm")
    {'method': 'oddm', 'reading': 'general', 'dim': 20, 'preprocess': 'zscore+unit'}
    >>> parse_options(["lam=0.5"], "oddm", "authors")["reading"].lam
    0.5
    """
    return arguments_of(method, {"reading": reading, **parse_pairs(pairs)})


def parse_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """Options by name from key=value pairs.

    >>> parse_pairs(["dim=20", "preprocess=zscore+unit"])
    {'dim': 20, 'preprocess': 'zscore+unit'}
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark:
            raise InputError(f"--option {pair!r}: write key=value, for instance dim=50")
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key] = value
    return options


def summary(fitted: Fitted) -> tuple[list[str], list[list[str]], list[str]]:
    """What a person wants to know after a fit: header and rows of a table of the domains, and lines about the model.

    A column stands there only where there is something to put into it.
    """
    clf, target = fitted.clf, fitted.unlabelled
    classes = isinstance(clf, OnlineTransferClassifier)
    names, counts, values = zip(*fitted.sources, strict=True)
    columns: dict[str, Sequence[Any]] = {"domain": names, "role": ["source"] * len(names), "rows": counts}
    columns["classes" if classes else "values"] = values
    apart = dict(zip(("discrepancy", "after alignment"), zip(*fitted.separations, strict=True), strict=True))
    apart = {name: each for name, each in apart.items() if not np.isnan(each).all()}
    columns |= {name: ["-" if x != x else f"{x:.3g}" for x in each] for name, each in apart.items()}
    rows = [list(map(str, row)) for row in zip(*columns.values(), strict=True)]
    if target is not None:
        rows.append([target.name, "unlabelled target", str(len(target)), *["-"] * (len(columns) - 3)])
    if isinstance(clf, OnlineTransferClassifier):
        kind, targets = f"{clf.method} ({clf.reading})", f"{len(clf.classes_)} classes"
    else:
        kind, targets = "OnlineTransferRegressor", f"intervals of {', '.join(f'{c:.0%}' for c in clf.coverage_)}"
    lines = [
        f"{kind}: {clf.n_features_in_} features, spaces of {clf.dim_} dimensions, {targets}, "
        f"{len(clf.expert_names_)} experts, {fitted.seconds:.2f} s",
        *fitted.notes,
    ]
    if target is None and classes:
        lines.append(
            "no unlabelled target rows: nothing could be aligned yet; --unlabelled gives the stream a better start"
        )
    if apart and isinstance(clf, OnlineTransferClassifier):
        steps = " + ".join(clf.learner_.plan.steps)
        after = f"after the preprocessing of this method ({steps}); compare it only with methods that share it"
        lines += [
            "discrepancy: squared gaps between the means of source and target, overall and by (pseudo-)class,",
            "relative to the target's variance; the smaller, the more alike",
            f"it is measured on the input {after if steps else 'as it is, without preprocessing'}",
        ]
    return list(columns), rows, lines
