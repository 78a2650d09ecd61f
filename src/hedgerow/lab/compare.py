"""Methods side by side on your own data: `hedgerow compare`, and `hedgerow.compare` in Python.

Each row of the stream is predicted before its label is learned. Every method is run with all sources and, where it uses
any, without each of them: what a source is worth is by how much the mistakes, or the error, rise. `compare_domains`
lets each of several domains be the target once.

| measure  | of the probabilities p of an instance and its class y                 | best |
|----------|-----------------------------------------------------------------------|------|
| Brier    | sum_k (p_k - [k = y])^2, mean over the instances                       | 0    |
| log-loss | -ln max(p_y, 1e-6), mean over the instances                            | 0    |
| ECE      | |share right - mean confidence| of ten bins, mean over the instances   | 0    |
| recall   | share of a class that is recognised; in the table the mean over classes | 100 % |
| AUC      | P(p_k of an instance of class k > that of another); mean over classes  | 1    |

The confidence of a prediction is its largest probability. A class that was not known when an instance was predicted has
probability 0; the floor of the log-loss keeps one such instance from drowning all others.

| measure  | of predictions p, intervals of half width h, and labels y that are numbers                 | best     |
|----------|--------------------------------------------------------------------------------------------|----------|
| RMSE     | root of the mean of (p - y)^2                                                                | 0        |
| MAE      | mean of abs(p - y)                                                                           | 0        |
| coverage | share of labels with abs(p - y) <= h                                                         | as asked |
| width    | mean of 2 h                                                                                  | 0        |
| Winkler  | mean of 2 h + 2/(1 - coverage) max(abs(p - y) - h, 0): a narrow interval that misses is punished | 0    |

Intervals of other learners follow our rule, a quantile tracker, on their own misses.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import joblib
import numpy as np

from hedgerow.core.arrays import Array, as_narwhals
from hedgerow.core.domains import Domain, names_of_table, same_columns, split
from hedgerow.core.errors import InputError, require, unknown
from hedgerow.core.values import Codes, is_missing, plain
from hedgerow.data import read
from hedgerow.estimator import OnlineTransferClassifier, arguments_of
from hedgerow.inputs import as_table, kind_of_targets, need_encoder
from hedgerow.kernels.regression import FADE, STEP
from hedgerow.lab import figures, runner
from hedgerow.lab import report as pages
from hedgerow.lab import rows as results
from hedgerow.lab.figures import Line, Panel
from hedgerow.lab.peers import MAIN, NUMBER_PEERS, PEERS, REFIT, FittedPeer, missing_peers
from hedgerow.lab.report import Beside, Figure, Section, Table, Value, figure, lowest, table, text
from hedgerow.lab.rows import Row, Runs, curves
from hedgerow.lab.runner import Folder, Unit, commands_given
from hedgerow.lab.stats import ALPHA, Pair, against, friedman, mcnemar
from hedgerow.lab.stream import at_once, evenly, majority
from hedgerow.lab.tasks import SEED, Arrivals, Task
from hedgerow.regressor import OnlineTransferRegressor, numbers
from hedgerow.rows.domains import order_in_time, read_unlabelled, unique_names, without_time
from hedgerow.rows.inputs import stem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing


METHODS = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # what is compared where no method is named
ALONE = ("pa",)  # it learns from the stream alone: no source is worth anything to it
NUMBERS = "regress"  # the other task is "classify"
COVERAGE = 0.9  # of the intervals of numbers
Rows = Any  # a Domain, a file name, a table with names, or (X, y)
FILES = (str, os.PathLike)

COMPARED, LEFT_OUT = "compare", "without"  # groups of rows: all sources, and one left out
READING = "general"  # what a user gets who sets nothing
FIRST = 50  # labelled instances that count as the start of a stream
WINDOW = 4  # checkpoints: a tenth of a stream that has forty
BINS, FLOOR = 10, 1e-6  # of confidence; of a probability in the log-loss
LEAST = 10  # predictions of a bin that are enough to draw it
EXPERTS = 5  # experts that have a band of their own; the rest share one
SHOWN = 12  # classes up to which their shares are written into the figure; lines of the table of mistakes among them
CLASSES = 25  # classes that a figure of mistakes among them can show
STREAM, SO_FAR = "instances of the stream", "mistakes so far, %"  # labels of axes
SIZE = (6.2, 4.0)  # inches: two figures stand beside each other


def compare(
    sources: Mapping[str, Rows] | Sequence[Rows],
    stream: Rows,
    *,
    label: str | None = None,
    unlabelled: Rows | None = None,
    warmup: float | None = None,
    methods: str | Sequence[str] = METHODS,
    order_by: str | None = None,
    orders: int = 1,
    peers: str = "main",
    task: str | None = None,
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: str = runner.LOCAL,
    plugins: Sequence[str] = (),
) -> Comparison:
    """Methods side by side on your own data, each row of the stream predicted before its label is learned.

    The error that is reported is the prequential one: test, then train. Every method is also run without each source,
    so that you see what a source is worth. Use it to choose a method; use `OnlineTransferClassifier` itself once you
    have. A p-value here is about this stream: it says nothing about another one. Labels that are numbers are predicted
    by `OnlineTransferRegressor`, a running mean, and ridge and boosting that are refitted.

    Parameters
    ----------
    sources : list or mapping
        Labelled domains: each a `Domain`, a file name, a table with names (pandas, polars, pyarrow) or `(X, y)`. A
        mapping gives them names.
    stream : Domain, file name, table or (X, y)
        The labelled target, in its order in time. Rows without a label are predicted, and not counted.
    label : str, optional
        The label column of files and tables.
    unlabelled : Domain, file name, table or X, optional
        Rows of the target that are known in advance.
    warmup : float, optional
        Instead of `unlabelled`: the share of the stream's first rows to take as such.
    methods : str or list of str
        Names joined by commas, or "all"; `hedgerow methods` lists them.
    order_by : str, optional
        A column that the stream is sorted by; it is no feature.
    orders : int
        One is the stream in its order; several are shuffled, the same for every method.
    peers : str
        Learners of other packages: "main" (boosting and logistic regression of scikit-learn and, where it is installed,
        river's adaptive random forest), "all", "none", or names joined by commas.
    task : str, optional
        "classify" or "regress"; without it the labels tell.
    options : mapping, optional
        Options of `OnlineTransferClassifier`, for the methods that read them, such as `{"table": {"drop": ["note"]}}`.
    jobs : int
        Processes; -1 is one a core.
    engine : str
        "local", or a Dask cluster such as "dask://host:8786".
    plugins : list of str
        Python files that register methods.

    Returns
    -------
    Comparison
        `verdict`, `table`, `by_class`, `plots`; `save` writes the report.

    Raises
    ------
    InputError
        Sources or stream without labels, columns that do not match, an unknown method; nothing was run.

    References
    ----------
    A. P. Dawid, "Present position and potential developments: the prequential approach", 1984.

    Examples
    --------
    >>> import hedgerow
    >>> domains = hedgerow.load("digits")
    >>> sources = [domains["thin"], domains["faded"]]
    >>> comparison = compare(sources, domains["shifted"], warmup=0.3, methods="pa,paio", peers="none")
    >>> comparison
    Comparison of pa, paio on shifted: 248 instances, 1 order
    >>> comparison.verdict.split(":")[0]
    'PAIO makes the fewest mistakes'
    """
    tasks = [task_of(sources, stream, label, unlabelled, warmup, order_by, task)]
    place = {"jobs": jobs, "engine": engine, "plugins": tuple(plugins)}
    return Comparison.of_rows(*_compared(tasks, place, methods, orders, peers, options))


def compare_domains(
    domains: Mapping[str, Rows] | Sequence[Rows],
    *,
    label: str | None = None,
    warmup: float | None = 0.3,
    methods: str | Sequence[str] = METHODS,
    order_by: str | None = None,
    orders: int = 1,
    peers: str = "main",
    task: str | None = None,
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    engine: str = runner.LOCAL,
    plugins: Sequence[str] = (),
) -> DomainComparison:
    """Each domain as the target once, all others as its sources: which method is best over domains, by its ranks.

    Parameters
    ----------
    domains : list or mapping
        At least two labelled domains, as `compare` takes sources.
    warmup : float, optional
        The share of each target's first rows that is known in advance, without labels.
    label, methods, order_by, orders, peers, task, options, jobs, engine, plugins
        As in `compare`.

    Returns
    -------
    DomainComparison
        `verdict`, `table` (a row a target), `ranking` (Friedman, Nemenyi), `targets`; `save` writes the report.

    References
    ----------
    J. Demsar, "Statistical comparisons of classifiers over multiple data sets", JMLR 7, 2006.

    Examples
    --------
    >>> import hedgerow
    >>> domains = hedgerow.load("digits")
    >>> three = [domains[name] for name in ("thin", "faded", "shifted")]
    >>> compare_domains(three, methods="pa,paio,hedgerow-linear", peers="none").ranking.ordered[0]
    ('hedgerow-linear', 1.0)
    """
    place = {"jobs": jobs, "engine": engine, "plugins": tuple(plugins)}
    tasks = tasks_of(domains, label, warmup, order_by, task)
    return DomainComparison(*_compared(tasks, place, methods, orders, peers, options))


def _compared(tasks: Sequence[Task], place: Mapping[str, Any], *given: Any) -> tuple[list[Row], list[str]]:
    """The rows of these tasks, and what was said about them."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hedgerow-compare-") as out:
        folder = Folder(Path(out), say=notes.append, **place)
        runner.run(plan(folder, tasks, *given), folder)
        return results.read(out)[0], notes


def run(folder: Folder, tasks: Sequence[Task], **given: Any) -> Path | None:
    """What `hedgerow compare` does: run what is not in the folder yet and write the report; None if interrupted."""
    return folder.run(plan(folder, tasks, **given), report)


# -- files, tables and arrays to a task -------------------------------------------------------------------------


def tasks_of(
    domains: Mapping[str, Rows] | Sequence[Rows], label: str | None = None, warmup: float | None = None,
    order_by: str | None = None, kind: str | None = None,
) -> list[Task]:  # fmt: skip
    """A task for each domain as the target."""
    named = dict(_named(domains))
    if len(named) < 2:
        raise InputError(
            f"{len(named)} domain: each is the target once, and the others are its sources; give two or more"
        )
    pairs = [({name: rows for name, rows in named.items() if name != target}, target) for target in named]
    made = [task_of(others, named[target], label, None, warmup, order_by, kind, target) for others, target in pairs]
    if len({task.kind for task in made}) > 1:
        raise InputError(
            "the labels of some domains look like numbers, those of others like classes; say which: --task"
        )
    return made


def task_of(
    sources: Mapping[str, Rows] | Sequence[Rows], stream: Rows, label: str | None = None,
    unlabelled: Rows | None = None, warmup: float | None = None, order_by: str | None = None,
    kind: str | None = None, name: str = "stream",
) -> Task:  # fmt: skip
    """Everything read, the columns matched by name, the stream in its order, its first rows taken as warm-up."""
    if kind not in (None, "classify", NUMBERS):
        raise unknown("task", str(kind), ("classify", NUMBERS))
    if unlabelled is not None and warmup:
        raise InputError(f"warmup={warmup} and unlabelled rows: give one of them")
    labelled = [_domain(each, called, label, order_by)[0] for called, each in _named(sources)]
    if not labelled:
        raise InputError("no source: a comparison needs at least one labelled source")
    target, times = _domain(stream, name, label, order_by)
    if order_by is not None:
        if times is None:
            raise unknown("time column of the stream", order_by, target.feature_names or ())
        target = target.rows(order_in_time(times, order_by, target.name))
    rows = None if unlabelled is None else _domain(unlabelled, "unlabelled", label, order_by)[0].unlabelled()
    if warmup:
        rows, target = split(target, warmup, seed=None)
    for source in labelled:
        if source.y is None:
            raise InputError(f"source {source.name!r} has no labels; name its label column, or give (X, y)")
    if target.y is None:
        raise InputError(f"stream {target.name!r} has no labels, so mistakes cannot be counted; name its label column")
    if is_missing(target.y).all():
        raise InputError(f"stream {target.name!r}: every label is missing, so mistakes cannot be counted")
    every = [*labelled, target, *([rows] if rows is not None and len(rows) else [])]
    every = every if need_encoder(every) else same_columns(every)
    checksum = joblib.hash([(domain.name, domain.feature_names, domain.X, domain.y) for domain in every])[:16]
    *before, target = every[: len(labelled) + 1]
    last = every[-1] if every[-1] is not target else None
    kind = kind or (NUMBERS if _has_numbers([*before, target]) else "classify")
    return Task(target.name, tuple(before), last, target, checksum, kind=kind)


def _has_numbers(domains: Sequence[Domain]) -> bool:
    """Whether labels are numbers to be predicted, not classes."""
    known = [y[~is_missing(y)] for y in (np.asarray(domain.y) for domain in domains)]
    return all(y.dtype.kind in "iuf" for y in known) and kind_of_targets(np.concatenate(known)) == "numbers"


def _named(sources: Mapping[str, Rows] | Sequence[Rows]) -> list[tuple[str, Rows]]:
    """The sources with names that differ: their own, those of their files, else their numbers."""
    if isinstance(sources, Mapping):
        return [(str(name), rows) for name, rows in sources.items()]
    every = [sources] if isinstance(sources, (Domain, *FILES)) else list(sources)
    of_files = iter(unique_names([Path(rows) for rows in every if isinstance(rows, FILES)]))
    names = [
        next(of_files) if isinstance(rows, FILES) else rows.name if isinstance(rows, Domain) else f"source {i}"
        for i, rows in enumerate(every, start=1)
    ]
    again = [name for name in names if names.count(name) > 1]
    if again:
        raise InputError(f"two sources are named {again[0]!r}; give a mapping of names to sources")
    return list(zip(names, every, strict=True))


def _domain(rows: Rows, name: str, label: str | None, order_by: str | None) -> tuple[Domain, Any]:
    """A domain and, if it has that column, its times. The target's own name is kept, or is that of its file."""
    if isinstance(rows, Domain):
        return (rows if name == "stream" else replace(rows, name=name)), None
    if isinstance(rows, FILES):
        called = stem(str(rows)) if name == "stream" else name
        domain = read_unlabelled(rows, label) if name == "unlabelled" else read(rows, label=label, name=called)
        return (domain, None) if order_by is None else without_time(domain, order_by)
    if isinstance(rows, tuple):
        if len(rows) != 2:
            raise InputError(f"{name}: a tuple of {len(rows)}; give (X, y)")
        return Domain(name, *rows), None
    columns = names_of_table(rows, name)
    if columns is None:
        return Domain(name, rows), None
    frame = as_narwhals(rows, name)
    y, times = (frame[column].to_numpy() if column in columns else None for column in (label, order_by))
    return Domain(name, frame.drop([label, order_by], strict=False).to_native(), y), times


# -- what is run ------------------------------------------------------------------------------------------------


def plan(
    folder: Folder, tasks: Sequence[Task], methods: str | Sequence[str] = METHODS, orders: int = 1, peers: str = "main",
    options: Mapping[str, Any] | None = None,
) -> list[Unit]:  # fmt: skip
    """Check everything, then list what is to be run: methods and peers; on one task, methods without each source."""
    folder.begin(orders=orders)
    task, given, shuffled = tasks[0], dict(options or {}), orders > 1
    if task.kind == NUMBERS:
        names, others = ["hedgerow"], list(NUMBER_PEERS)
        if other := given.keys() - {"table"}:
            raise InputError(f"{', '.join(sorted(other))}: for classifiers, and the labels are numbers; leave it out")
    else:
        names = runner.find_methods(methods if isinstance(methods, str) else ",".join(methods))
        others = [] if peers == "none" else runner.named("peer", peers.replace("main", ",".join(MAIN)), PEERS)
        arguments_of(names[0], given)  # an unknown option is named here
        if missing := missing_peers(others):
            folder.say(missing)
        others = [name for name in others if PEERS[name].installed]
    data = task.checksum if len(tasks) == 1 else joblib.hash([each.checksum for each in tasks])[:16]
    folder.check(READING, comparison=data, shuffled=shuffled, given=str(given))
    if shuffled:
        folder.say(f"{orders} orders: the stream is shuffled; with --orders 1 it is kept in its order in time")
    if task.warmup is None:
        folder.say("no unlabelled rows: nothing is aligned before the stream; --warmup .3 or --unlabelled gives some")
    if not shuffled:
        tasks = [replace(each, arrivals=partial(_in_time, len(each.stream))) for each in tasks]
    runs = [(each, name, "") for each in tasks for name in (*names, *others)]
    if len(tasks) == 1 and (len(task.sources) > 1 or (task.warmup is not None and task.kind != NUMBERS)):
        # else nothing is left to fit on
        users = [name for name in names if name not in ALONE]
        runs += [(tasks[0].without(source.name), name, source.name) for name in users for source in task.sources]
    more: dict[str, Any] = {"orders": orders, "reading": READING, "options": {"random_state": SEED, **given}}
    also = {"comparison": data, "given": str(given)}
    return [
        Unit(
            LEFT_OUT if without else COMPARED, each.name, name, partial(_given, each), measure, without, **more,
            fit=_fit_peer if name in others else _fit_numbers if task.kind == NUMBERS else None, also=also,
        )
        for each, name, without in runs
    ]  # fmt: skip


def _in_time(n: int, order: int) -> Arrivals:
    return Arrivals(np.arange(n))


def _given(task: Task, data_dir: str | None) -> Task:
    return task


def _fit_peer(unit: Unit, task: Task) -> FittedPeer:
    return FittedPeer(unit.method, task, unit.options.get("table"))


def _fit_numbers(unit: Unit, task: Task) -> OnlineTransferRegressor:
    table = unit.options.get("table", {} if need_encoder((task.whole or task).all_domains) else None)
    reg = OnlineTransferRegressor(coverage=COVERAGE, random_state=SEED, table=table)
    return reg.fit_domains(list(task.sources), task.unlabelled)


def measure(unit: Unit, task: Task, model: Any, order: int) -> Row:
    """The facts of a finished order: predictions against labels along the stream, and what was run."""
    whole, stream = task.whole or task, task.arrived(order)
    at, shuffled = np.array(evenly(len(stream))), whole.arrivals is None
    own: Row = {"experts": [], "weights": [], "discrepancy": [], "options": {}, "notes": []}
    own |= {"sources": [source.name for source in task.sources]}
    if isinstance(model, FittedPeer):
        own["title"] = model.peer.title
    return {
        **own,
        **(_numbers if task.kind == NUMBERS else _classes)(unit, stream, model, whole, at),
        "kind": task.kind,
        "instances": at,
        "shuffled": shuffled,
        "seeds": {"model": SEED, "order": order if shuffled else None},
        "domains": {
            "sources": {source.name: len(source) for source in whole.sources},
            "unlabelled": {} if whole.warmup is None else {whole.warmup.name: len(whole.warmup)},
            "stream": {whole.stream.name: len(whole.stream)},
            "columns": whole.stream.X.shape[1],
        },
    }


def _numbers(unit: Unit, stream: Domain, model: Any, whole: Task, at: Array) -> Row:
    """Predictions, half the width of intervals and labels; a mistake is a label outside of its interval."""
    y = numbers(np.asarray(stream.y), stream.name)
    known = ~np.isnan(y)
    if isinstance(model, FittedPeer):
        p, seconds = model.run(stream)
        t = np.concatenate([numbers(np.asarray(source.y), source.name) for source in whole.sources])
        half = tracked(p, y, float(np.std(t)), COVERAGE)
    else:
        began = clock.perf_counter()
        trace = model.trace_then_learn(stream.X if model.table_ is None else as_table(stream), y)
        p, half, seconds = trace.predictions, trace.half[:, 0], clock.perf_counter() - began
    outside = known & ~(np.abs(p - y) <= half)
    return {
        **runner.finished(outside, seconds, known), "predictions": p[known], "half": half[known], "labels": y[known],
        "coverage": COVERAGE, "notes": [] if getattr(model, "table_", None) is None else model.table_.notes(),
    }  # fmt: skip


def tracked(p: Array, y: Array, deviation: float, coverage: float) -> Array:
    """Half the width of an interval before each label, by the regressor's tracker without a local scale."""
    q = top = 1.645 * deviation
    half = np.empty(len(p))
    for i, miss in enumerate(np.abs(y - p)):
        half[i] = q
        if miss == miss:
            top = max(FADE * top, miss)
            q = max(q + STEP * top * ((miss > q) - (1 - coverage)), 0.0)
    return half


def _classes(unit: Unit, stream: Domain, model: Any, whole: Task, at: Array) -> Row:
    """Mistakes, calibration, scores of each class, and which class was taken for which.

    Predictions are places in the table of the classes, -1 for none, which is a mistake.
    """
    table = Codes(whole.all_classes)
    codes = table.of(np.asarray(stream.y))
    known, K, own = codes >= 0, len(table.classes), dict[str, Any]()
    if isinstance(model, FittedPeer):
        p, seconds = model.run(stream)
        total = p.sum(axis=1, keepdims=True)
        predicted = np.where(total[:, 0] > 0, p.argmax(axis=1), -1)
        p = np.where(total > 0, p / np.where(total > 0, total, 1), 1 / K)
    else:
        predicted, p, seconds, own = _explained(model, stream, table, at, unit.group != LEFT_OUT)
    wrong, first = (predicted != codes) & known, np.flatnonzero(known)[:FIRST]
    pairs, counts = np.unique(np.column_stack([codes, predicted])[known], axis=0, return_counts=True)
    p, right = p[known], codes[known]
    return {
        **runner.finished(wrong, seconds, known),
        **own,
        "first_mistakes": int(wrong[first].sum()),
        "first_n": len(first),
        "majority": int(np.sum((majority(at_once([c if c >= 0 else None for c in codes.tolist()])) != codes)[known])),
        "brier": brier(p, right),
        "log_loss": log_loss(p, right),
        "bins": reliability(p, right),
        "by_class": by_class(p, right),
        "classes": [plain(label) for label in whole.all_classes],
        "confusion": np.column_stack([pairs, counts]),
        "wrong": np.packbits(wrong[known]).tobytes().hex(),
    }


def _explained(
    clf: OnlineTransferClassifier, stream: Domain, table: Codes, at: Array, follow: bool
) -> tuple[Array, Array, float, Row]:
    """Predictions, probabilities, seconds, and what only our methods have: of one block, so that no call is timed.

    To `follow` the discrepancy at the checkpoints takes a run of its own, where the method has any: cut into as many
    blocks, the run that is timed would take up to three times as long on a short stream.
    """
    X, y = (stream.X if clf.table_ is None else as_table(stream)), np.asarray(stream.y)
    follow = follow and len(clf.discrepancy_) > 0 and bool(np.isfinite(clf.discrepancy_.array).all())
    again, distances = copy.deepcopy(clf), []
    for start, end in pairwise([0, *at]) if follow else ():
        again.partial_fit(X[start:end], y[start:end])
        distances.append(again.discrepancy_.array.tolist())
    began = clock.perf_counter()
    explained = clf.explain_then_learn(X, y)
    seconds = clock.perf_counter() - began
    places = table.of(np.asarray(explained.classes))
    p = np.zeros((len(y), len(table.classes)))
    p[:, places] = explained.probabilities
    own = {"weights": explained.weights[at - 1], "sources": clf.source_names_, "discrepancy": distances}
    own |= {"notes": [] if clf.table_ is None else clf.table_.notes(), "options": {"dim": clf.dim_}}
    return places[explained.codes], p, seconds, runner.expert_losses(clf) | own


# -- scores of predictions --------------------------------------------------------------------------------------


def brier(p: Array, codes: Array) -> float:
    """The mean squared distance between the probabilities (a column a class) and what came.

    >>> brier(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]))
    0.25
    """
    return float(((p - np.eye(p.shape[1])[codes]) ** 2).sum(axis=1).mean())


def log_loss(p: Array, codes: Array) -> float:
    """The mean of -ln of the probability of the class that came, which counts as at least 1e-6.

    >>> round(log_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])), 3)
    7.254
    """
    return float(-np.log(np.maximum(p[np.arange(len(codes)), codes], FLOOR)).mean())


def reliability(p: Array, codes: Array) -> dict[str, list[float]]:
    """Predictions in bins of confidence: how many, the sum of their confidences, how many were right.

    >>> reliability(np.array([[0.95, 0.05], [0.45, 0.55]]), np.array([0, 0]))["right"]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return {
        "count": np.bincount(bins, minlength=BINS).tolist(),
        "confidence": np.bincount(bins, weights=confidence, minlength=BINS).tolist(),
        "right": np.bincount(bins[right], minlength=BINS).tolist(),
    }


def calibration_error(bins: Mapping[str, Any]) -> float:
    """The expected calibration error of bins of confidence.

    >>> calibration_error(reliability(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])))
    0.25
    """
    return float(np.abs(np.subtract(bins["right"], bins["confidence"])).sum() / max(np.sum(bins["count"]), 1))


def by_class(p: Array, codes: Array) -> dict[str, list[float | None]]:
    """Of each class that came: its AUC against all others, None where nothing else came, and its log-loss.

    >>> by_class(np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 1, 0]))["auc"]
    [1.0, 1.0]
    """
    from scipy.stats import rankdata

    aucs: list[float | None] = []
    losses: list[float | None] = []
    for k in range(p.shape[1]):
        own = codes == k
        n, others = int(own.sum()), int((~own).sum())
        above = rankdata(p[:, k])[own].sum() - n * (n + 1) / 2
        aucs.append(float(above / (n * others)) if n and others else None)
        losses.append(log_loss(p[own], codes[own]) if n else None)
    return {"auc": aucs, "log_loss": losses}


def unpacked(row: Mapping[Any, Any]) -> Array:
    """Which labelled instances of a row were mistakes: a bit each, as text.

    >>> unpacked({"wrong": "8180", "n": 9}).astype(int).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1, 1]
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(row["wrong"]), dtype=np.uint8))[: row["n"]].astype(bool)


# -- tables -----------------------------------------------------------------------------------------------------

BY_CLASS = {"recall": ".1f", "precision": ".1f", "auc": ".3f", "log_loss": ".3f"}  # forms of the columns of classes


def _methods_table(c: Comparison) -> Table:
    """A row a method, the fewest mistakes or the lowest error first; the best of each column is marked."""
    kind = "methods" if c.measure == "mistakes" else "learners"
    columns: list[list[Any]] = [[c.titles[name] for name in c.ranked]]
    for name, (_, form, best) in c.columns.items():
        texts = [f"{x:{form}}" for x in c.table[name]]
        if name == "mistakes" and c.orders > 1:
            texts = [f"{text} ± {sd:.1f}" for text, sd in zip(texts, c.table["sd"], strict=True)]
        columns.append([*lowest(best * c.table[name], texts, form)] if best else texts)
    rows = [*zip(*columns, strict=True)]
    if c.majority == c.majority:
        rows.append(("majority rule", f"{c.majority:.1f}", *["–"] * (len(columns) - 2)))
    header = [kind.removesuffix("s"), *(title for title, _, _ in c.columns.values())]
    peers = bool(PEERS.keys() & set(c.methods))
    return table(kind, header, rows, c.table.to_dict("records"), c=c, refit=REFIT, peers=peers)


def _classes_table(c: Comparison) -> Table:
    """Class by class for the leader, the rarest first; the CSV has every method."""
    own = c.by_class.loc[c.leader].sort_values("instances", kind="stable")
    rows = [
        [label, times(line["instances"]), *(pages.number(line[name], form) for name, form in BY_CLASS.items())]
        for label, line in own.iterrows()
    ]
    header = ["class", "instances", "recall, %", "precision, %", "AUC", "log-loss"]
    records = c.by_class.reset_index().to_dict("records")
    return table("classes", header, rows, records, leader=c.titles[c.leader], folded=len(rows) > SHOWN)


def _tests_table(c: Comparison) -> Table | str:
    """The leader against the others."""
    numbers = c.measure == "rmse"
    rows = [
        [c.titles[pair.second], f"{pair.difference:.3g}" if numbers else pages.signed(pair.difference), pair.blocks,
         Value(pages.chance(pair.adjusted), mark="best" * pair.clear)]
        for pair in c.pairs
    ]  # fmt: skip
    header, leader = ["method", "difference", "pairs that differ", "p"], c.titles[c.leader]
    return table("significance", header, rows, c=c, leader=leader, numbers=numbers) if rows else text("one-method")


def times(count: float) -> str:
    """A count as a count; a mean over orders with one decimal, where it is no whole number.

    >>> times(1234.0), times(2.5)
    ('1,234', '2.5')
    """
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"


def _sources_table(c: Comparison) -> Table | str:
    """What each source was worth to each method, by its worth to the first."""
    if c.worth.empty:
        return text("no-source-left-out")
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[methods[0]].index)
    cells = {
        key: (pages.signed(points) if c.measure == "mistakes" else f"{points:+.4g}")
        + (f" ± {sd:.1f}" if c.orders > 1 else "")
        for key, points, sd in c.worth.itertuples()
    }
    rows = [[source, *(cells[method, source] for method in methods)] for source in sources]
    records = c.worth.swaplevel().reindex([(source, method) for source in sources for method in methods]).reset_index()
    header = ["source", *(c.titles[name] for name in methods)]
    return table("sources", header, rows, records.to_dict("records"), rmse=c.measure == "rmse")


def _confusion_table(c: Comparison) -> Table:
    """Which classes the leader takes for which, the most frequent mistakes first, as shares of the class."""
    square, orders = c.confusion(c.leader), len(c.of(c.leader))
    names, sizes = {-1: "nothing yet", **dict(enumerate(c.shared["classes"]))}, square.sum(axis=1)
    counts = square.stack().sort_values(ascending=False, kind="stable")
    wrong = [(i, j, n) for (i, j), n in counts.items() if i != j and n][:SHOWN]
    rows = [[names[i], names[j], times(n / orders), f"{100 * n / sizes[i]:.1f} %"] for i, j, n in wrong]
    header = ["class", "taken for", "times", "of the class"]
    return table("confusion", header, rows, leader=c.titles[c.leader], orders=orders)


# -- figures ----------------------------------------------------------------------------------------------------


def _along(lines: Sequence[Line], xlabel: str, ylabel: str, log: str = "") -> Drawing:
    """Lines along the stream, with their names at their ends."""
    xlim = (0, max(float(line.x[-1]) for line in lines))
    drawing = figures.draw([Panel("", lines, xlabel, ylabel, xlim)], names="ends", log=log)
    drawing.set_size_inches(*SIZE)
    return drawing


def running(c: Comparison) -> list[Line]:
    """Mistakes so far along the stream, of each method."""
    rows = {name: c.of(name) for name in c.methods}
    return [
        Line.over(c.titles[name], j, part["instances"].iloc[0], curves(part)[1].T)
        for j, (name, part) in enumerate(rows.items())
    ]


def _running(c: Comparison) -> Figure:
    return figure("running-mistakes", _along(running(c), STREAM, SO_FAR), orders=c.orders)


def _windowed(c: Comparison) -> Figure | None:
    """How good each method is now, whatever was before; None where labels are too few for windows."""
    windows = [curves(c.of(name), WINDOW) for name in c.methods]
    if not all(len(at) for at, _ in windows):
        return None
    lines = [
        Line(c.titles[m], j, at, Y.mean(axis=0)) for j, (m, (at, Y)) in enumerate(zip(c.methods, windows, strict=True))
    ]
    return figure("windowed-mistakes", _along(lines, f"labelled {STREAM}", "mistakes in the last tenth, %"))


def _weights(c: Comparison) -> Figure | None:
    """Which experts were trusted when, in the first order of the best method that has several."""
    method = next((name for name in c.ranked if len(c.of(name)["experts"].iloc[0]) > 1), None)
    if method is None:
        return None
    row, title = c.of(method).iloc[0], f"{c.titles[method]}, first order"
    drawing = figures.expert_weights(row["instances"], row["weights"], row["experts"], title, most=EXPERTS)
    drawing.set_size_inches(*SIZE)
    return figure("expert-weights", drawing)


def distances(c: Comparison) -> Figure | None:
    """Distance between target and sources, relative to its first value; None where no method has one."""
    lines = []
    for j, name in enumerate(c.methods):
        means = np.array([np.mean(each, axis=1) for each in c.of(name)["discrepancy"] if each])
        if len(means) and (means[:, 0] > 0).all():
            lines.append(Line.ratio(c.titles[name], j, c.of(name)["instances"].iloc[0], means))
    if not lines:
        return None
    drawing = _along(lines, STREAM, "discrepancy / its start (log scale)", log="y")
    from matplotlib.ticker import LogLocator

    drawing.axes[0].yaxis.set_minor_locator(LogLocator(subs=(2, 5)))  # more names would overlap
    drawing.axes[0].yaxis.set_minor_formatter("{x:g}")
    return figure("distances", drawing, name="discrepancy")


def _reliability(c: Comparison) -> Figure:
    """Confidence against how often it was right."""
    lines = []
    for j, name in enumerate(c.methods):
        bins = c.bins(name)
        full = bins["count"] >= min(LEAST, bins["count"].max())
        x, y = (100 * bins[part][full] / bins["count"][full] for part in ("confidence", "right"))
        lines.append(Line(c.titles[name], j, x, y))
    drawing = figures.draw([Panel("", lines, "confidence, %", "right, %", xlim=(0, 100))], size=SIZE, sparse=False)
    [axes] = drawing.axes
    for drawn in axes.lines:
        drawn.set_clip_on(False)  # markers at 0 and 100 % are whole
    axes.plot([0, 100], [0, 100], color=figures.TEXT, linewidth=0.9, linestyle=figures.DOTTED)
    axes.set_ylim(0, 100)
    return figure("reliability", drawing, least=LEAST)


def _confusion(c: Comparison) -> Figure | None:
    """What the leader takes for what, each class as 100 %; None with more classes than a figure can show."""
    classes, leader = [str(label) for label in c.shared["classes"]], c.titles[c.leader]
    K = len(classes)
    if K > CLASSES:
        return None
    places = dict.fromkeys(("index", "columns"), range(K))  # without predictions that were none
    square = c.confusion(c.leader).reindex(**places, fill_value=0).to_numpy()
    share = 100 * square / np.maximum(square.sum(axis=1, keepdims=True), 1)
    side = min(2.2 + 0.42 * K, 9.0)
    with figures.figure_of(side + 0.8, side) as drawing:
        axes = drawing.add_subplot()
        image = axes.imshow(share, cmap="Blues", vmin=0, vmax=100)
        axes.grid(False)
        axes.set_xticks(range(K), classes, rotation=90 if max(map(len, classes)) > 3 else 0)
        axes.set_yticks(range(K), classes)
        axes.set(xlabel="taken for", ylabel="class", title=leader)
        for i, j in zip(*np.nonzero(share >= 0.5), strict=True) if K <= SHOWN else ():
            ink = "#fefefe" if share[i, j] > 55 else "#222222"  # by what is behind, and no colour that a theme changes
            axes.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", fontsize=8.5, color=ink)
        drawing.colorbar(image, ax=axes, label="% of the class", shrink=0.8).outline.set_visible(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return figure("confusion-shares", drawing, name="confusion", leader=leader)


def _worth(c: Comparison) -> Figure | None:
    """Points by which the mistakes rise without each source, ordered by the best method; None if that was not run."""
    if c.worth.empty:
        return None
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[next(name for name in c.ranked if name in methods)].index)
    series = []
    for name in methods:
        worth = c.worth.loc[name].reindex(sources)
        errors = worth["sd"].tolist() if c.orders > 1 else None
        series.append(figures.Dots(c.titles[name], c.methods.index(name), worth["points"].tolist(), errors))
    size, step = (6.2, 0.6 + 0.28 * len(sources) * max(len(methods), 2)), 0.7 / len(methods)
    xlabel = "points more mistakes without it" if c.measure == "mistakes" else "rise of the RMSE without it"
    drawing = figures.dots({"": series}, sources, xlabel, columns=1, size=size, step=step)
    return figure("sources-left-out", drawing, name="sources")


def _running_error(c: NumberComparison) -> Figure:
    """Error so far along the stream, over the deviation of the labels."""
    at = np.unique(np.linspace(1, c.n, min(c.n, 60)).astype(int))
    lines = [
        Line(c.titles[name], j, at, np.sqrt(np.cumsum(squares)[at - 1] / at))
        for j, (name, squares) in enumerate(c._squares.items())
    ]
    return figure("running-error", _along(lines, "labels", "RMSE so far / deviation of the labels"))


# -- what the rows say ------------------------------------------------------------------------------------------

# sections of a report: the functions that make the parts of each, those in a tuple beside each other
Sections = Mapping[str, Sequence[Callable[[Any], Any] | tuple[Callable[[Any], Any], ...]]]
ABOUT_LUCK_AND_SOURCES: Sections = {
    "Is it more than luck?": [_tests_table], "What each source was worth": [_worth, _sources_table],
}  # fmt: skip


class _Page:
    """What a comparison and one over domains share: rows that a folder keeps, and a page about them."""

    records: list[Row]
    call = "hedgerow.compare(...)"

    def report(self, command: str) -> pages.Report:
        """The page: the verdict, figures and tables, and at the end what was run."""
        raise NotImplementedError

    def save(self, folder: str | Path) -> Path:
        """The report, its figures and tables, and the rows into a new folder; the path of the report."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        if results.read(out)[0]:
            raise InputError(f"{out} holds results already; choose another folder")
        for row in self.records:
            results.append(out, row)
        return self.report(self.call).save(out)


class Comparison(_Page):
    """A finished comparison, as `hedgerow.compare` returns it; a notebook shows its verdict, curves and table.

    Attributes
    ----------
    verdict : str
        What somebody should know who reads nothing else.
    table : pandas.DataFrame
        The numbers of each method, shares in per cent, the fewest mistakes first, equal ones by their log-loss.
    rows : pandas.DataFrame
        Every run: a method, perhaps without a source, in one order. `records` are the same as a folder has them.
    worth : pandas.DataFrame
        By how many points mistakes rise without a source, by method and source.
    pairs : list of Pair
        The leader against each other method, tested over the orders or over the instances of the first.
    plots : dict
        The figures by name, as matplotlib's.
    notes : list of str
        What the command line would print: that it shuffles, which peers are not installed.
    """

    measure, noun = "mistakes", "instances"  # what methods are ranked by, and what is counted
    order: tuple[str, ...] = ("mistakes", "log_loss")
    shown = ("methods", "classes", "sources")  # tables in a terminal
    sections: ClassVar[Sections] = {
        "Along the stream": [(_running, _windowed)],
        "Mistakes, calibration, time": [_methods_table],
        "Class by class": [_classes_table],
        **ABOUT_LUCK_AND_SOURCES,
        "Whether probabilities mean what they say": [_reliability],
        "What is taken for what": [(_confusion, _confusion_table)],
        "Inside": [(_weights, distances)],
    }
    # of the table of methods: what stands above a column, its format, and whether the lowest (1) or highest is best
    columns: Mapping[str, tuple[str, str, int]] = {
        "mistakes": ("mistakes, %", ".1f", 1), "first": (f"first {FIRST}, %", ".1f", 1),
        "last_tenth": ("last tenth, %", ".1f", 1), "worst_tenth": ("worst tenth, %", ".1f", 1),
        "recall": ("recall, %", ".1f", -1), "auc": ("AUC", ".3f", -1), "ece": ("ECE, %", ".1f", 1),
        "brier": ("Brier", ".3f", 1), "log_loss": ("log-loss", ".3f", 1),
        "microseconds": ("µs an instance", ".0f", 1), "seconds_offline": ("offline, s", ".3f", 1),
    }  # fmt: skip

    def __init__(self, rows: list[Row], notes: Sequence[str] = (), task: str = "") -> None:
        self.records, self.notes = [row for row in rows if task in ("", row["task"])], list(notes)
        self._runs = Runs([row | {"loss": self._loss(row)} for row in self.records])
        if not self._runs.has(COMPARED):
            raise InputError("no results of a comparison; run `hedgerow compare --help` to see how")
        self.rows, [self.task] = self._runs.frame, self._runs.tasks(COMPARED)
        self.methods, self.titles = self._runs.methods(COMPARED), self._runs.titles  # ours in their order, then peers
        self.orders = min(len(self.of(name)) for name in self.methods)
        self.shared = self.of(self.methods[0]).iloc[0]  # what does not depend on the method is in every row
        self.shuffled, self.n = bool(self.shared["shuffled"]), int(self.shared["n"])
        table = require("pandas", "lab").DataFrame([self._numbers(name) for name in self.methods])
        self.table = table.sort_values(list(self.order), key=lambda column: column.round(9), ignore_index=True)
        self.ranked = list(self.table["method"])
        self.leader = self.ranked[0]

    @staticmethod
    def of_rows(rows: list[Row], notes: Sequence[str] = (), task: str = "") -> Comparison:
        """The comparison of these rows: of classes, or of numbers."""
        kind = NumberComparison if rows and rows[0].get("kind") == NUMBERS else Comparison
        return kind(rows, notes, task)

    def _loss(self, row: Row) -> float:
        """Of a run: what a source is worth is by how much it rises."""
        return float(100.0 * row["mistakes"] / row["n"])

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        return f"Comparison of {methods} on {self.task}: {self.n} {self.noun}, {pages.count(self.orders, 'order')}"

    def of(self, method: str) -> pd.DataFrame:
        """The rows of a method with all sources, by order."""
        return self._runs.part(COMPARED, self.task, method)

    def _numbers(self, method: str) -> Row:
        rows, cell = self.of(method), self._runs.cell(COMPARED, self.task, method)
        assert cell is not None  # of a method that has rows
        at, rates = curves(rows, WINDOW)
        tenths = rates.mean(axis=0) if len(at) else np.full(1, np.nan)
        return {
            "method": method, "mistakes": cell.mean, "sd": cell.sd, "orders": cell.orders, "n": self.n,
            "first": float((100 * rows["first_mistakes"] / rows["first_n"]).mean()),
            "last_tenth": float(tenths[-1]), "worst_tenth": float(tenths.max()),
            **self.by_class.loc[method, ["recall", "auc"]].mean(), "ece": 100 * calibration_error(self.bins(method)),
            "brier": float(rows["brier"].mean()), "log_loss": float(rows["log_loss"].mean()),
            # the median, because a run that shared its core says nothing about the method
            "microseconds": float((1e6 * rows["seconds_online"] / rows["instances"].str[-1]).median()),
            "seconds_offline": float(rows["seconds_offline"].mean()),
        }  # fmt: skip

    def bins(self, method: str) -> dict[str, Array]:
        """Confidence against how often it was right, all orders together."""
        every = self.of(method)["bins"]
        return {name: np.sum([bins[name] for bins in every], axis=0) for name in ("count", "confidence", "right")}

    def confusion(self, method: str) -> pd.DataFrame:
        """How often which class (a row) was taken for which (a column; -1: for none yet), all orders together."""
        triples = [triple for each in self.of(method)["confusion"] for triple in each]
        counts = require("pandas", "lab").DataFrame(triples, columns=["class", "prediction", "count"])
        return counts.pivot_table("count", "class", "prediction", aggfunc="sum", fill_value=0)

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """By method and class: instances, recall and precision in per cent, AUC and log-loss; means over the orders."""
        pandas, tables = require("pandas", "lab"), {}
        for method in self.methods:
            rows, square = self.of(method), self.confusion(method)
            codes, came = square.index, square.sum(axis=1)
            hits = np.diag(square.reindex(columns=codes, fill_value=0))
            scores = {
                name: pandas.DataFrame([each[name] for each in rows["by_class"]], dtype=float).mean()[codes]
                for name in ("auc", "log_loss")
            }
            shares = {"recall": 100 * hits / came, "precision": 100 * hits / square.sum().reindex(codes)}
            made = pandas.DataFrame({"instances": came / len(rows), **shares, **scores})
            tables[method] = made.set_axis([self.shared["classes"][k] for k in codes])
        return pandas.concat(tables, names=["method", "class"])

    @property
    def majority(self) -> float:
        """Mistakes of the rule that predicts the most frequent label so far, in per cent."""
        rows = self.of(self.methods[0])
        return float((100 * rows["majority"] / rows["n"]).mean()) if "majority" in rows else float("nan")

    @property
    def by_orders(self) -> bool:
        """Whether there are orders enough to test over them; else the instances of the first order are the pairs.

        If one method is better in every order, Wilcoxon's p is 2^(1 - orders), and Holm's at most so many times that
        as there are other methods: with fewer orders nothing could ever be significant.
        """
        return 2.0 ** (1 - self.orders) * (len(self.methods) - 1) < ALPHA

    @cached_property
    def pairs(self) -> list[Pair]:
        """The leader against every other method: over the orders, or over the instances of the first."""
        rows = {name: self.of(name).head(self.orders) for name in self.methods}
        if self.by_orders:
            return against({name: part["rate"].to_numpy() for name, part in rows.items()}, self.leader)
        return against({name: unpacked(part.iloc[0]) for name, part in rows.items()}, self.leader, mcnemar)

    @cached_property
    def worth(self) -> pd.DataFrame:
        """Points by which the mistakes of each method rise without each source, and their deviation over the orders.

        Indexed by method and source, the most valuable source of a method first; empty where none was left out.
        """
        without, whole = (self.rows[self.rows["group"] == group] for group in (LEFT_OUT, COMPARED))
        both = without.merge(whole[["method", "trial", "loss"]], on=["method", "trial"], suffixes=("", "_whole"))
        rises = (both["loss"] - both["loss_whole"]).groupby([both["method"], both["variant"].rename("source")])
        worth = rises.agg(points="mean", sd="std").fillna(0.0)
        return worth.sort_values("points", ascending=False, kind="stable").reindex(self.methods, level="method")

    @property
    def column_notes(self) -> list[str]:
        """What the encoder of tables left out, and which columns not every source has."""
        return list(dict.fromkeys(note for name in self.methods for notes in self.of(name)["notes"] for note in notes))

    @property
    def verdict(self) -> str:
        """Who leads and by how much, who starts best, whose probabilities are best, what the sources are worth."""
        titles, pairs = self.titles, {pair.second: pair for pair in self.pairs}
        second, first = (self.ranked[1] if pairs else ""), self.table.set_index("method")["first"]
        user = next((name for name in self.ranked if name in self.worth.index), "")  # the best that was tried without
        return text(
            "compare-verdict", c=self, titles=titles, own=self.table.iloc[0], second=titles.get(second, ""),
            pair=pairs.get(second), behind=self.table["mistakes"].diff().iloc[1] if second else 0.0, first=first,
            others=", ".join(titles[name] for name, pair in pairs.items() if not pair.clear and name != second),
            first_n=min(FIRST, self.n), best=self.table.loc[self.table["log_loss"].idxmin()], user=titles.get(user, ""),
            worth=list(self.worth.loc[user, "points"].items()) if user else [],
        )  # fmt: skip

    @cached_property
    def _sections(self) -> list[Section]:
        made = {title: [self._part(make) for make in makes] for title, makes in self.sections.items()}
        return [Section(title, [p for p in parts if p]) for title, parts in made.items() if any(parts)]

    def _part(self, make: Any) -> Any:
        if not isinstance(make, tuple):
            return make(self)
        there = [part for part in map(self._part, make) if part]
        return Beside(there) if there else None

    @property
    def _figures(self) -> dict[str, Figure]:
        return {part.name: part for part in pages.parts_of(self._sections) if isinstance(part, Figure)}

    @property
    def plots(self) -> dict[str, Drawing]:
        """The figures by name, as matplotlib's."""
        return {name: figure.drawing for name, figure in self._figures.items()}

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows."""
        return [part for part in pages.parts_of(self._sections) if isinstance(part, Table) and part.name in self.shown]

    def report(self, command: str) -> pages.Report:
        """The page: the verdict, the curves, tables, and at the end what was run."""
        title = f"hedgerow: methods compared on {self.task}"
        return pages.Report(title, self.verdict, self._sections, _facts(self, command))

    def _repr_html_(self) -> str:
        """The verdict, the curves and the table, for notebooks."""
        first = next(iter(self._figures.values()))
        return "".join(map(pages.fragment, (self.verdict, first, self.tables[0])))


class NumberComparison(Comparison):
    """A finished comparison whose labels are numbers, as `hedgerow.compare` returns it then.

    Attributes
    ----------
    table : pandas.DataFrame
        The measures of each learner, the lowest RMSE first, and the seconds that it took.
    predictions : pandas.DataFrame
        The labels of the first order, and the prediction of each learner before each of them.
    pairs : list of Pair
        The leader against each other learner: Wilcoxon's signed ranks of the squared errors of the first order, Holm's
        correction. Labels that follow each other are taken for independent, so p is rather too small.
    """

    measure, noun, order = "rmse", "labels", ("rmse",)
    shown = ("learners", "significance", "sources")
    sections: ClassVar[Sections] = {
        "Along the stream": [_running_error], "Errors, intervals, time": [_methods_table], **ABOUT_LUCK_AND_SOURCES,
    }  # fmt: skip
    columns: Mapping[str, tuple[str, str, int]] = {
        "rmse": ("RMSE", ".4g", 1), "mae": ("MAE", ".4g", 1), "coverage": ("coverage", ".1%", 0),
        "width": ("width", ".4g", 1), "winkler": ("Winkler", ".4g", 1), "seconds": ("seconds", ".2f", 0),
    }  # fmt: skip

    def _loss(self, row: Row) -> float:
        return float(np.sqrt(np.mean(np.subtract(row["predictions"], row["labels"]) ** 2)))

    def _numbers(self, method: str) -> Row:
        rows = self.of(method)
        p, half, y = (np.concatenate(rows[name].to_list()) for name in ("predictions", "half", "labels"))
        miss = np.abs(p - y)
        winkler = 2 * half + 2 / (1 - self.shared["coverage"]) * np.maximum(miss - half, 0)
        return {
            "method": method, "rmse": rows["loss"].mean(), "sd": rows["loss"].std(), "mae": miss.mean(),
            "coverage": (miss <= half).mean(), "width": 2 * half.mean(), "winkler": winkler.mean(),
            "seconds": (rows["seconds_offline"] + rows["seconds_online"]).mean(),
        }  # fmt: skip

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """The labels of the first order, and what each learner predicted."""
        told = {name: self.of(name)["predictions"].iloc[0] for name in self.methods}
        return require("pandas", "lab").DataFrame({"label": self.shared["labels"], **told})

    @cached_property
    def _squares(self) -> dict[str, Array]:
        """Squared errors over the variance of the labels."""
        y = self.predictions["label"].to_numpy()
        scale = float(np.var(y)) or 1.0
        return {name: (self.predictions[name].to_numpy() - y) ** 2 / scale for name in self.methods}

    @cached_property
    def pairs(self) -> list[Pair]:
        """The leader against every other learner."""
        return against(self._squares, self.leader)

    @property
    def verdict(self) -> str:
        """Who leads and by how much, and whether its intervals hold."""
        first, second = self.table.iloc[0], self.table.iloc[1]
        pair = next(pair for pair in self.pairs if pair.second == second["method"])
        ours = self.table.set_index("method").loc["hedgerow"]
        return text("numbers-verdict", c=self, first=first, second=second, pair=pair, ours=ours)


class DomainComparison(_Page):
    """Each domain as the target once, as `hedgerow.compare_domains` returns it.

    Attributes
    ----------
    verdict : str
        What somebody should know who reads nothing else.
    targets : dict of Comparison
        What was found on each target.
    table : pandas.DataFrame
        Mistakes in per cent, or the RMSE, a row a target, a column a method.
    ranking : Ranking
        Mean ranks over the targets; Friedman's test, Nemenyi's critical difference.
    notes : list of str
        What the command line would print.
    """

    call = "hedgerow.compare_domains(...)"

    def __init__(self, rows: list[Row], notes: Sequence[str] = ()) -> None:
        self.records, self.notes = rows, list(notes)
        names = list(dict.fromkeys(row["task"] for row in rows if row["group"] == COMPARED))
        self.targets = {name: Comparison.of_rows(rows, task=name) for name in names}
        self.first = first = self.targets[names[0]]
        self.column_notes = first.column_notes
        columns = {name: c.table.set_index("method")[c.measure] for name, c in self.targets.items()}
        self.table: pd.DataFrame = require("pandas", "lab").DataFrame(columns).T[first.methods]
        self.ranking = friedman({name: self.table[name].to_numpy() for name in first.methods})

    def __repr__(self) -> str:
        return f"DomainComparison of {', '.join(self.first.methods)} over {', '.join(self.targets)}"

    @property
    def verdict(self) -> str:
        """Who has the best mean rank, from whom it differs, and who has the fewest mistakes on average."""
        places, lost = self.table.round(9).rank(axis=1, method="min"), self.majority - self.table.min(axis=1)
        best = self.ranking.ordered[0][0]
        words = {"c": self.first, "ranks": self.ranking, "means": self.table.mean(), "domains": len(self.targets)}
        wins, beaten = int((places[best] == 1).sum()), list(lost.index[lost <= 0])
        return text("domains-verdict", best=best, wins=wins, beaten=beaten, **words)

    @property
    def majority(self) -> pd.Series[float]:
        """Mistakes of the majority rule on each target, in per cent; NaN for numbers."""
        values = {name: c.majority for name, c in self.targets.items()}
        return require("pandas", "lab").Series(values, dtype=float)

    @property
    def tables(self) -> list[Table]:
        """The tables that a terminal shows: targets against methods, and the mean ranks."""
        c, form, cells = self.first, ".1f" if self.first.measure == "mistakes" else ".3f", []
        for name, each in self.targets.items():
            row, sds = self.table.loc[name], each.table.set_index("method")["sd"]
            spreads = [f" ± {sds[method]:{form}}" if c.orders > 1 else "" for method in row.index]
            shown = [f"{x:{form}}{spread}" for x, spread in zip(row, spreads, strict=True)]
            cells.append([f"{name} ({each.n})", *lowest(row, shown, form)])
        ranks = dict(self.ranking.ordered)
        for title, row, digits in (
            ("Average", self.table.mean(), form), ("Mean rank", [ranks[name] for name in self.table], ".2f"),
        ):  # fmt: skip
            cells.append([title, *lowest(row, [f"{x:{digits}}" for x in row], digits)])
        header, rule = ["target", *(c.titles[name] for name in self.table)], self.majority
        if rule.notna().all():
            header.append("majority rule")
            last = [*(f"{x:{form}}" for x in (*rule, rule.mean())), "–"]
            cells = [[*row, value] for row, value in zip(cells, last, strict=True)]
        records = self.table.rename_axis("target").reset_index().to_dict("records")
        return [table("domains", header, cells, records, orders=c.orders, rmse=c.measure == "rmse")]

    def report(self, command: str) -> pages.Report:
        """The page: the verdict, the table, the ranks, each target, and what was run."""
        c = self.first
        drawing = figures.critical_difference(self.ranking, c.titles, {m: i for i, m in enumerate(c.methods)})
        along = [
            replace(own, name=f"{own.name}-{name}".replace("/", "-"), shows=f"{name}: {own.shows}")
            for name, each in self.targets.items()
            for own in [next(iter(each._figures.values()))]
        ]
        sections = [
            Section("Targets and methods", self.tables),
            Section("Ranks", [figure("critical-difference", drawing), text("ranks-over-tasks")]),
            Section("Along each stream", [Beside(along)]),
        ]
        facts = _facts(c, command) | {"sources": "of each target all other domains", "unlabelled": "", "stream": ""}
        facts["domains"] = ", ".join(f"{name} ({each.n} {each.noun} streamed)" for name, each in self.targets.items())
        facts["results"] = f"{len(self.records)} runs"
        shown = {name: value for name, value in facts.items() if value}
        return pages.Report("hedgerow: methods compared over domains", self.verdict, sections, shown)

    def _repr_html_(self) -> str:
        return "".join(map(pages.fragment, (self.verdict, *self.tables)))


def comparison_in(out: str | Path) -> Comparison | DomainComparison:
    """What the rows of a folder are: one target, or each domain as the target once."""
    rows = results.read(out)[0]
    return DomainComparison(rows) if len({row["task"] for row in rows}) > 1 else Comparison.of_rows(rows)


def report(out: Path) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    return comparison_in(out).report(commands_given(out)).save(out)


def _facts(c: Comparison, command: str) -> dict[str, str]:
    """What was run, for the end of the report."""
    domains, left = c.shared["domains"], len(c.worth)
    orders = f"{c.orders} shuffled (seeds 0 to {c.orders - 1})" if c.shuffled else "one, that of the stream"

    def counted(rows: Mapping[str, int], more: str = "") -> str:
        return ", ".join(f"{name} ({n} rows{more})" for name, n in rows.items())

    facts = {
        "command": command,
        "sources": counted(domains["sources"]),
        "unlabelled": counted(domains["unlabelled"]) or "none",
        "stream": counted(domains["stream"], f", {c.n} labelled"),
        "table": f"{domains['columns']} columns, "
        + ("labels are numbers" if c.measure == "rmse" else f"{len(c.shared['classes'])} classes"),
        "columns": "; ".join(c.column_notes),
        "data": str(c.shared["comparison"]),
        "methods": ", ".join(c.titles[name] for name in c.methods),
        "options": f"reading={READING!r}, random_state={SEED}, "
        + (f"{c.shared['given']}, " if c.shared["given"] != "{}" else "")
        + "all others at their defaults",
        "orders": f"{orders}; the same for every method",
        "results": f"{len(c.records)} runs" + (f", {left} of them cells without a source" if left else ""),
        "commit": pages.commit(),
    }
    return {name: text for name, text in facts.items() if text}
