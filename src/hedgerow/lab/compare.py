"""Methods side by side on your own data: `hedgerow compare`, and `hedgerow.compare` in Python.

Each row of the stream is predicted before its label is learned. Every method is run with all sources and, where it uses
any, without each of them: what a source is worth is by how much the mistakes rise.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from hedgerow.core.arrays import Array, as_narwhals
from hedgerow.core.domains import Domain, same_columns, split
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.feature_names import names_of_table
from hedgerow.core.labels import Codes, is_missing, plain
from hedgerow.data import read
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.inputs import as_table, need_encoder
from hedgerow.lab import comparison as scores
from hedgerow.lab import rows as results
from hedgerow.lab import runner
from hedgerow.lab.comparison import COMPARED, FIRST, LEFT_OUT, READING, Comparison, report
from hedgerow.lab.peers import PEERS, FittedPeer, missing_peers
from hedgerow.lab.rows import Row
from hedgerow.lab.runner import Folder, Unit
from hedgerow.lab.stream import cut, evenly
from hedgerow.lab.stream import run as run_blocks
from hedgerow.lab.tasks import SEED, Arrivals, Task
from hedgerow.rows.domains import order_in_time, read_timed, unique_names
from hedgerow.rows.inputs import stem

METHODS = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # what is compared where no method is named
ALONE = ("pa",)  # it learns from the stream alone: no source is worth anything to it
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
    time: str | None = None,
    orders: int = 1,
    peers: bool = False,
    jobs: int = 1,
    engine: str = runner.LOCAL,
    plugins: Sequence[str] = (),
) -> Comparison:
    """Methods side by side on your own data, each row of the stream predicted before its label is learned.

    The error that is reported is the prequential one: test, then train. Every method is also run without each source,
    so that you see what a source is worth. Use it to choose a method; use `OnlineTransferClassifier` itself once you
    have. A p-value here is about this stream: it says nothing about another one.

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
    time : str, optional
        A column that the stream is sorted by; it is no feature.
    orders : int
        One is the stream in its order; several are shuffled, the same for every method.
    peers : bool
        Also learners of scikit-learn and, where it is installed, river.
    jobs : int
        Processes; -1 is one a core.
    engine : str
        "local", or a Dask cluster such as "dask://host:8786".
    plugins : list of str
        Python files that register methods.

    Returns
    -------
    Comparison
        `verdict`, `table`, `plots`; `save` writes the report.

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
    >>> comparison = compare([domains["thin"], domains["faded"]], domains["shifted"], warmup=0.3, methods="pa,paio")
    >>> comparison
    Comparison of pa, paio on shifted: 248 instances, 1 order
    >>> comparison.verdict.split(":")[0]
    'PAIO makes the fewest mistakes'
    """
    task = task_of(sources, stream, label, unlabelled, warmup, time)
    names = methods if isinstance(methods, str) else ",".join(methods)
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hedgerow-compare-") as out:
        folder = Folder(Path(out), jobs=jobs, engine=engine, plugins=tuple(plugins), say=notes.append)
        units = plan(folder, task, names, orders, peers)
        runner.run(units, out, engine=engine, jobs=jobs, plugins=folder.plugins)
        return Comparison(results.read(out)[0], notes)


def run(
    folder: Folder, sources: Sequence[Path], stream: Path, label: str, *, methods: str = METHODS, orders: int = 1,
    peers: bool = False, **rows: Any,
) -> Path | None:  # fmt: skip
    """What `hedgerow compare` does: run what is not in the folder yet and write the report; None if interrupted.

    `rows` are `unlabelled`, `warmup` and `time`, as in `compare`.
    """
    return folder.run(plan(folder, task_of(sources, stream, label, **rows), methods, orders, peers), report)


# -- files, tables and arrays to a task -------------------------------------------------------------------------


def task_of(
    sources: Mapping[str, Rows] | Sequence[Rows],
    stream: Rows,
    label: str | None = None,
    unlabelled: Rows | None = None,
    warmup: float | None = None,
    time: str | None = None,
) -> Task:
    """Everything read, the columns matched by name, the stream in its order, its first rows taken as warm-up."""
    if unlabelled is not None and warmup:
        raise InputError(f"warmup={warmup} and unlabelled rows: give one of them")
    labelled = [_domain(each, name, label, time)[0] for name, each in _named(sources)]
    if not labelled:
        raise InputError("no source: a comparison needs at least one labelled source")
    target, times = _domain(stream, "stream", label, time)
    if time is not None:
        if times is None:
            raise unknown("time column of the stream", time, target.feature_names or ())
        target = target.rows(order_in_time(times, time, target.name))
    rows = None if unlabelled is None else _unlabelled(unlabelled, label, time)
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
    return Task(target.name, tuple(before), every[-1] if every[-1] is not target else None, target, checksum)


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


def _domain(rows: Rows, name: str, label: str | None, time: str | None) -> tuple[Domain, Any]:
    """A domain and, if it has that column, its times. The target's own name is kept, or is that of its file."""
    if isinstance(rows, Domain):
        return (rows if name == "stream" else replace(rows, name=name)), None
    if isinstance(rows, FILES):
        called = stem(str(rows)) if name in ("stream", "unlabelled") else name
        if time is None:
            return read(rows, label=label, name=called), None
        return read_timed(Path(rows), label, time, called)
    if isinstance(rows, tuple):
        if len(rows) != 2:
            raise InputError(f"{name}: a tuple of {len(rows)}; give (X, y)")
        return Domain(name, *rows), None
    columns = names_of_table(rows, name)
    if columns is None:
        return Domain(name, rows), None
    frame = as_narwhals(rows, name)
    y, times = (frame[column].to_numpy() if column in columns else None for column in (label, time))
    return Domain(name, frame.drop([label, time], strict=False).to_native(), y), times


def _unlabelled(rows: Rows, label: str | None, time: str | None) -> Domain:
    """Rows of the target that are known in advance; a label column that happens to be there is not looked at."""
    try:
        return _domain(rows, "unlabelled", label, time)[0].unlabelled()
    except InputError as error:
        if not str(error).startswith("unknown "):  # anything but "there is no such column"
            raise
    return _domain(rows, "unlabelled", None, time)[0].unlabelled()


# -- what is run ------------------------------------------------------------------------------------------------


def plan(folder: Folder, task: Task, methods: str, orders: int, peers: bool) -> list[Unit]:
    """Check everything, then list what is to be run: every method and peer, then methods without each source."""
    folder.begin(orders=orders)
    names = runner.find_methods(methods)
    shuffled = orders > 1
    folder.check(READING, data=task.checksum, shuffled=shuffled)
    if peers and (missing := missing_peers()):
        folder.say(missing)
    if shuffled:
        folder.say(f"{orders} orders: the stream is shuffled; with --orders 1 it is kept in its order in time")
    if task.warmup is None:
        folder.say("no unlabelled rows: nothing is aligned before the stream; --warmup .3 or --unlabelled gives some")
    if not shuffled:
        in_time = Arrivals(np.arange(len(task.stream)))
        task = replace(task, arrivals=lambda order: in_time)
    others = [name for name, peer in PEERS.items() if peers and peer.installed]
    units = [_unit(task, name, orders) for name in (*names, *others)]
    if len(task.sources) == 1 and task.warmup is None:
        return units  # nothing would be left to fit on
    return units + [_unit(task, name, orders, s.name) for name in names if name not in ALONE for s in task.sources]


def _unit(task: Task, method: str, orders: int, without: str = "") -> Unit:
    """A method with all sources but one; what it is told of columns and classes is as with all of them."""
    left = replace(task, sources=tuple(source for source in task.sources if source.name != without))
    options: dict[str, Any] = {"random_state": SEED}
    if not left.sources:
        options["classes"] = task.all_classes.tolist()
    if need_encoder(task.all_domains) and not need_encoder([d for d in left.all_domains if d is not left.stream]):
        options["table"] = {}
    peer = (lambda unit, task: FittedPeer(unit.method, task)) if method in PEERS else None
    return Unit(
        LEFT_OUT if without else COMPARED, task.name, method, lambda data_dir: left, partial(measure, whole=task),
        variant=without, orders=orders, reading=READING, options=options, fit=peer,
    )  # fmt: skip


def measure(unit: Unit, task: Task, model: Any, order: int, whole: Task | None = None) -> Row:
    """The facts of a finished order: mistakes along the stream, calibration, which class was taken for which.

    `whole` is the task with all sources, where one was left out. Predictions are places in the table of its classes, -1
    for none, which is a mistake; a learner of another package has no experts.
    """
    whole = whole or task
    stream, table = task.arrived(order), Codes(whole.all_classes)
    codes = table.of(np.asarray(stream.y))
    known, at = codes >= 0, np.array(evenly(len(codes)))
    if isinstance(model, FittedPeer):
        predicted, p, seconds = model.run(stream)
        own = {"title": PEERS[unit.method].title, "experts": [], "weights": [], "discrepancy": [], "options": {}}
        own |= {"sources": [source.name for source in task.sources], "notes": []}
    else:
        predicted, p, seconds, own = _explained(model, stream, table, at, unit.group != LEFT_OUT)
    wrong, first = (predicted != codes) & known, np.flatnonzero(known)[:FIRST]
    pairs, counts = np.unique(np.column_stack([codes, predicted])[known], axis=0, return_counts=True)
    shuffled = whole.arrivals is None
    return {
        **runner.finished(wrong, seconds, known),
        **own,
        "first_mistakes": int(wrong[first].sum()),
        "first_n": len(first),
        "instances": at,
        "brier": scores.brier(p[known], codes[known]),
        "log_loss": scores.log_loss(p[known], codes[known]),
        "bins": scores.reliability(p[known], codes[known]),
        "classes": [plain(label) for label in whole.all_classes],
        "confusion": np.column_stack([pairs, counts]),
        "wrong": scores.packed(wrong[known]),
        "shuffled": shuffled,
        "seeds": {"model": SEED, "order": order if shuffled else None},
        "domains": {
            "sources": {source.name: len(source) for source in whole.sources},
            "unlabelled": {} if whole.warmup is None else {whole.warmup.name: len(whole.warmup)},
            "stream": {whole.stream.name: len(whole.stream)},
            "columns": whole.stream.X.shape[1],
        },
    }


def _explained(
    clf: OnlineTransferClassifier, stream: Domain, table: Codes, at: Array, follow: bool
) -> tuple[Array, Array, float, Row]:
    """Predictions, probabilities, seconds, and what only our methods have: of one block, so that no call is timed.

    To `follow` the discrepancy at the checkpoints takes a run of its own, where the method has any.
    """
    X, y = (stream.X if clf.table_ is None else as_table(stream)), np.asarray(stream.y)
    follow = follow and len(clf.discrepancy_) > 0 and bool(np.isfinite(clf.discrepancy_.array).all())
    again = copy.deepcopy(clf)
    distances = [again.discrepancy_.array.tolist() for _ in run_blocks(again, cut(X, y, at.tolist()))] if follow else []
    began = clock.perf_counter()
    explained = clf.explain_then_learn(X, y)
    seconds = clock.perf_counter() - began
    places = table.of(np.asarray(explained.classes))
    p = np.zeros((len(y), len(table.classes)))
    p[:, places] = explained.probabilities
    notes = [] if clf.table_ is None else clf.table_.notes()
    own = {"weights": explained.weights[at - 1], "sources": clf.source_names_, "discrepancy": distances, "notes": notes}
    return places[explained.codes], p, seconds, runner.expert_losses(clf) | own | {"options": {"dim": clf.dim_}}
