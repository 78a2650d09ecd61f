"""From files to a fitted model: read the domains, match their columns, fit, and say what was found."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.cli.memory import LOCAL, choose_engine
from hedgerow.core.arrays import dense
from hedgerow.core.domains import Domain, same_columns
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.labels import Codes
from hedgerow.core.moments import Moments, discrepancy, gap
from hedgerow.core.preprocess import Preprocess
from hedgerow.data import read
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.files import check_writable, same_file
from hedgerow.inputs import numbers_of
from hedgerow.methods import Reading, reading_of
from hedgerow.rows.domains import read_unlabelled, unique_names
from hedgerow.rows.inputs import Files

# a classifier has a preprocessing of its own, and does not split
ANSWERS = [field.name for field in fields(Reading) if field.name not in ("preprocess", "split_rule", "preset")]


@dataclass(frozen=True)
class Separation:
    """How far a source is from the target before and after alignment; NaN where that is not defined.

        D(A) = sum_k |A^T g_k|^2 / tr cov(A^T x),   x a target row,   A = I before

    g_0 is the gap between the overall means, g_k between those of class k, by the aligner's pseudo-labels where it made
    some. Dividing by the target's own variance takes out the scale of A. It is not defined without target rows, in a
    kernel space, or without an aligner.
    """

    source: str
    before: float = float("nan")
    after: float = float("nan")


def separations(clf: OnlineTransferClassifier, sources: Sequence[Domain], target: Domain | None) -> list[Separation]:
    """One for each source of a classifier just fitted on these domains.

    >>> rng = np.random.default_rng(0)
    >>> s = Domain("s", rng.normal(size=(60, 4)) + [3, 0, 0, 0], np.arange(60) % 2)
    >>> t = Domain("t", rng.normal(size=(40, 4)))
    >>> clf = OnlineTransferClassifier("oddm", preprocess=(), dim=2).fit_domains([s], t)
    >>> [d] = separations(clf, [s], t)
    >>> d.after < d.before
    True
    """
    if target is None or len(target) < 2:
        return [Separation(source.name) for source in sources]
    learner = clf.learner_
    K, codes = learner.n_classes, Codes(clf.classes_)
    Xs, U = Preprocess(learner.plan.steps).fit_arrays(
        [numbers_of(clf.table_, s) for s in sources], numbers_of(clf.table_, target)
    )
    rows, linear = dense(U), bool(clf.info_) and not learner.plan.gammas
    found = []
    for i, (source, X) in enumerate(zip(sources, Xs, strict=True)):
        shared = len(clf.info_) != len(sources)
        there = Moments.of(U, clf.info_[0 if shared else i].pseudo_labels if clf.info_ else None, K)
        before = gap(Moments.of(X, codes.of(np.asarray(source.y)), K), there)
        after = gap(learner.source(i), there)  # of the source as the aligner moved it
        A = learner.projection(i) if linear else None
        d = [discrepancy(a, g) / max(_variance(rows, a), 1e-300) for a, g in ((None, before), (A, after))]
        found.append(Separation(source.name, d[0], d[1] if linear else float("nan")))
    return found


def _variance(rows: np.ndarray, A: np.ndarray | None) -> float:
    return float((rows if A is None else rows @ A).var(axis=0).sum())


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the domains it came from, how far apart they are, the time it took, and how it was made.

    `sources` has name, rows and classes of each.
    """

    clf: OnlineTransferClassifier
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
) -> Fitted:
    """Fit a classifier on sources and, perhaps, unlabelled target rows: files, folders or patterns.

    `engine`: local (in memory), a name of `hedgerow.dask.cluster`, or None: local if that has room.
    """
    clf = OnlineTransferClassifier(**options)
    chosen, why = choose_engine(sources, clf.method, engine)
    if chosen != LOCAL:
        return _fit_partitions(clf, sources, label, unlabelled, chosen, why)
    domains = [read(path, label=label, name=name) for path, name in zip(sources, unique_names(sources), strict=True)]
    target = None if unlabelled is None else read_unlabelled(unlabelled, label)
    began = time.perf_counter()
    clf.fit_domains(domains, target)
    seconds = time.perf_counter() - began
    if clf.table_ is None:
        domains, target = matched(domains, target)
    found = [(d.name, len(d), len(set(np.asarray(d.y).tolist()))) for d in domains]
    notes = () if clf.table_ is None else tuple(clf.table_.notes())
    return Fitted(clf, found, target, separations(clf, domains, target), seconds, notes)


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
    nothing = [Separation(name) for name, _, _ in report.sources]
    return Fitted(clf, list(report.sources), target, nothing, seconds, (note,))


def matched(sources: Sequence[Domain], target: Domain | None) -> tuple[list[Domain], Domain | None]:
    """All domains with the columns of the first, in its order; a missing or an additional column is refused by name.

    >>> a = Domain("a", [[1.0, 2.0]], ["u"], feature_names=["p", "q"])
    >>> b = Domain("b", [[3.0, 4.0]], ["u"], feature_names=["q", "p"])
    >>> matched([a, b], None)[0][1].X.tolist()
    [[4.0, 3.0]]
    """
    done = same_columns([*sources, *([] if target is None else [target])])
    return done[: len(sources)], None if target is None else done[-1]


def parse_options(pairs: Sequence[str], method: str = "hedgerow", reading: str = "general") -> dict[str, Any]:
    """Keyword arguments of the classifier from key=value pairs, the answers of a reading among them.

    Numbers, None and lists are written as in Python, the rest is text.

    >>> parse_options(["dim=20", "preprocess=zscore+unit"], "oddm")
    {'method': 'oddm', 'reading': 'general', 'dim': 20, 'preprocess': 'zscore+unit'}
    >>> parse_options(["lam=0.5"], "oddm", "authors")["reading"].lam
    0.5
    """
    options = _parsed(pairs, [*OnlineTransferClassifier().get_params(), *ANSWERS])
    answers = {name: options.pop(name) for name in ANSWERS if name in options}
    chosen = reading_of(reading, method, **answers) if answers else reading
    return {"method": method, "reading": chosen, **options}


def table_options(**names: Sequence[str] | None) -> dict[str, Any] | None:
    """What was said about columns; None if nothing was.

    >>> table_options(drop=["note"], keep=None)
    {'drop': ['note']}
    """
    return {key: list(value) for key, value in names.items() if value} or None


def _parsed(pairs: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    options = {}
    for pair in pairs:
        key, mark, value = pair.partition("=")
        if not mark:
            raise InputError(f"--option {pair!r}: write key=value, for instance dim=50")
        if key not in known:
            raise unknown("option", key, known)
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key] = value
    return options


@dataclass(frozen=True)
class FitSummary:
    """A table of the domains and a few lines about the model."""

    header: list[str]
    rows: list[list[str]]
    lines: list[str]


def summary(fitted: Fitted) -> FitSummary:
    """What a person wants to know after a fit: a column only where there is something to put into it."""
    clf, found = fitted.clf, fitted.separations
    header = ["domain", "role", "rows", "classes"]
    rows = [[name, "source", str(count), str(classes)] for name, count, classes in fitted.sources]
    measures = {"discrepancy": [s.before for s in found], "after alignment": [s.after for s in found]}
    measured = {name: values for name, values in measures.items() if not np.isnan(values).all()}
    for name, values in measured.items():
        header.append(name)
        for row, value in zip(rows, values, strict=True):
            row.append(_digits(value))
    if fitted.unlabelled is not None:
        target = [fitted.unlabelled.name, "unlabelled target", str(len(fitted.unlabelled))]
        rows.append(target + ["-"] * (len(header) - len(target)))
    lines = [
        f"{clf.method} ({clf.reading}): {clf.n_features_in_} features, spaces of {clf.dim_} dimensions, "
        f"{len(clf.classes_)} classes, {len(clf.expert_names_)} experts, {fitted.seconds:.2f} s",
        *fitted.notes,
    ]
    if fitted.unlabelled is None:
        lines.append(
            "no unlabelled target rows: nothing could be aligned yet; --unlabelled gives the stream a better start"
        )
    if measured:
        lines += _about_discrepancy(clf)
    return FitSummary(header, rows, lines)


def _about_discrepancy(clf: OnlineTransferClassifier) -> list[str]:
    steps = clf.learner_.plan.steps
    if steps:
        where = (
            f"after the preprocessing of this method ({' + '.join(steps)}); compare it only with methods that share it"
        )
    else:
        where = "as it is, without preprocessing"
    return [
        "discrepancy: squared gaps between the means of source and target, overall and by (pseudo-)class,",
        "relative to the target's variance; the smaller, the more alike",
        f"it is measured on the input {where}",
    ]


def _digits(value: float) -> str:
    return "-" if value != value else f"{value:.3g}"
