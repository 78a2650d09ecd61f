"""Methods side by side on your own data: `hedgerow compare`, and `hedgerow.compare` in Python.

Each row of the stream is predicted before its label is learned. Every method is run with all sources and, where it uses
any, without each of them: what a source is worth is by how much the mistakes, or the error, rise. `compare_domains`
lets each of several domains be the target once.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from hedgerow.core.arrays import Array, as_narwhals
from hedgerow.core.domains import Domain, names_of_table, same_columns, split
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.values import Codes, is_missing, plain
from hedgerow.data import read
from hedgerow.estimator import OnlineTransferClassifier, arguments_of
from hedgerow.inputs import as_table, kind_of_targets, need_encoder
from hedgerow.kernels.regression import FADE, STEP
from hedgerow.lab import comparison as scores
from hedgerow.lab import rows as results
from hedgerow.lab import runner
from hedgerow.lab.comparison import COMPARED, FIRST, LEFT_OUT, READING, Comparison, DomainComparison, report
from hedgerow.lab.peers import MAIN, NUMBER_PEERS, PEERS, FittedPeer, missing_peers
from hedgerow.lab.rows import Row
from hedgerow.lab.runner import Folder, Unit
from hedgerow.lab.stream import at_once, evenly, majority
from hedgerow.lab.tasks import SEED, Arrivals, Task
from hedgerow.regressor import OnlineTransferRegressor, numbers
from hedgerow.rows.domains import order_in_time, read_timed, unique_names
from hedgerow.rows.inputs import stem

METHODS = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # what is compared where no method is named
ALONE = ("pa",)  # it learns from the stream alone: no source is worth anything to it
NUMBERS = "regress"  # the other task is "classify"
COVERAGE = 0.9  # of the intervals of numbers
Rows = Any  # a Domain, a file name, a table with names, or (X, y)
FILES = (str, os.PathLike)


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
    given = {"methods": methods, "orders": orders, "peers": peers, "options": options}
    return Comparison.of_rows(
        *_compared(tasks, given, Folder(Path(), jobs=jobs, engine=engine, plugins=tuple(plugins)))
    )


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
    tasks = tasks_of(domains, label, warmup, order_by, task)
    given = {"methods": methods, "orders": orders, "peers": peers, "options": options}
    folder = Folder(Path(), jobs=jobs, engine=engine, plugins=tuple(plugins))
    return DomainComparison(*_compared(tasks, given, folder))


def _compared(tasks: Sequence[Task], given: Mapping[str, Any], folder: Folder) -> tuple[list[Row], list[str]]:
    """The rows of these tasks, and what was said about them."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hedgerow-compare-") as out:
        own = replace(folder, out=Path(out), say=notes.append)
        runner.run(plan(own, tasks, **given), own)
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
    rows = None if unlabelled is None else _unlabelled(unlabelled, label, order_by)
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
        called = stem(str(rows)) if name in ("stream", "unlabelled") else name
        if order_by is None:
            return read(rows, label=label, name=called), None
        return read_timed(Path(rows), label, order_by, called)
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


def _unlabelled(rows: Rows, label: str | None, order_by: str | None) -> Domain:
    """Rows of the target that are known in advance; a label column that happens to be there is not looked at."""
    try:
        return _domain(rows, "unlabelled", label, order_by)[0].unlabelled()
    except InputError as error:
        if not str(error).startswith("unknown "):  # anything but "there is no such column"
            raise
    return _domain(rows, "unlabelled", None, order_by)[0].unlabelled()


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
    units = []
    for each in tasks:
        if not shuffled:
            each = replace(each, arrivals=partial(_in_time, len(each.stream)))
        unit = partial(_unit, each, orders=orders, given=given, data=data)
        units += [unit(name) for name in (*names, *others)]
        if len(tasks) == 1 and (len(task.sources) > 1 or task.warmup is not None):  # else nothing is left to fit on
            users = [name for name in names if name not in ALONE and (task.kind != NUMBERS or len(task.sources) > 1)]
            units += [unit(name, without=source.name) for name in users for source in task.sources]
    return units


def _in_time(n: int, order: int) -> Arrivals:
    return Arrivals(np.arange(n))


def _unit(task: Task, method: str, orders: int, given: dict[str, Any], data: str, without: str = "") -> Unit:
    """A method with all sources but one; what it is told of columns and classes is as with all of them."""
    left = replace(task, sources=tuple(source for source in task.sources if source.name != without))
    options: dict[str, Any] = {"random_state": SEED, **given}
    if not left.sources:
        options["classes"] = task.all_classes.tolist()
    if need_encoder(task.all_domains) and not need_encoder([d for d in left.all_domains if d is not left.stream]):
        options.setdefault("table", {})
    ours = _fit_numbers if task.kind == NUMBERS else None
    peer = _fit_peer if method in (NUMBER_PEERS if task.kind == NUMBERS else PEERS) else ours
    facts = partial(measure, whole=task, also={"comparison": data, "given": str(given)})
    return Unit(
        LEFT_OUT if without else COMPARED, task.name, method, lambda data_dir: left, facts,
        variant=without, orders=orders, reading=READING, options=options, fit=peer,
    )  # fmt: skip


def _fit_peer(unit: Unit, task: Task) -> FittedPeer:
    return FittedPeer(unit.method, task, unit.options.get("table"))


def _fit_numbers(unit: Unit, task: Task) -> OnlineTransferRegressor:
    table = unit.options.get("table", {} if need_encoder(task.all_domains) else None)
    reg = OnlineTransferRegressor(coverage=COVERAGE, random_state=SEED, table=table)
    return reg.fit_domains(list(task.sources), task.unlabelled)


def measure(
    unit: Unit, task: Task, model: Any, order: int, whole: Task | None = None, also: Mapping[str, Any] | None = None
) -> Row:
    """The facts of a finished order: predictions against labels along the stream, and what was run.

    `whole` is the task with all sources, where one was left out.
    """
    whole, stream = whole or task, task.arrived(order)
    at, shuffled = np.array(evenly(len(stream))), whole.arrivals is None
    own: Row = {"experts": [], "weights": [], "discrepancy": [], "options": {}, "notes": []}
    own |= {"sources": [source.name for source in task.sources]}
    if isinstance(model, FittedPeer):
        own["title"] = model.peer.title
    return {
        **own,
        **(_numbers if task.kind == NUMBERS else _classes)(unit, stream, model, whole, at),
        **(also or {}),
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
        "brier": scores.brier(p, right),
        "log_loss": scores.log_loss(p, right),
        "bins": scores.reliability(p, right),
        "by_class": scores.by_class(p, right),
        "classes": [plain(label) for label in whole.all_classes],
        "confusion": np.column_stack([pairs, counts]),
        "wrong": scores.packed(wrong[known]),
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
