"""Methods side by side on your own data: `hedgerow compare`, and `hedgerow.compare` in Python.

Each row of the stream is predicted before its label is learned. Every method is run with all sources and, where it uses
any, without each of them: what a source is worth is by how much the mistakes, or the error, rise. `compare_domains`
lets each of several domains be the target once. `measure` says what is measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from hedgerow.comparison import measure as measures
from hedgerow.comparison import results, runner
from hedgerow.comparison.found import (
    COMPARED,
    LEFT_OUT,
    METRICS,
    Comparison,
    DomainComparison,
)
from hedgerow.comparison.peers import NUMBER_PEERS, PEERS, SEED, missing_peers
from hedgerow.comparison.results import Row
from hedgerow.comparison.runner import Folder, Unit
from hedgerow.comparison.tasks import Arrivals, Task, task_of, tasks_of
from hedgerow.core.domains import split
from hedgerow.core.errors import InputError, unknown
from hedgerow.data import load
from hedgerow.estimator import arguments_of
from hedgerow.inputs import REGRESS, Rows, examined
from hedgerow.methods import OWN_STEPS

METHODS = (
    "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # what is compared where no method is named
)
ALONE = ("pa",)  # it learns from the stream alone: no source is worth anything to it


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
    peers: str = "all",
    task: str | None = None,
    metric: str | None = None,
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    plugins: Sequence[str] = (),
) -> Comparison:
    """Methods side by side on your own data, each row of the stream predicted before its label is learned.

    The error that is reported is the prequential one: test, then train. Every method is also run without each source,
    so that you see what a source is worth. Use it to choose a method; use `OnlineTransferClassifier` itself once you
    have. A p-value here is about this stream: it says nothing about another one. Labels that are numbers are predicted
    by `OnlineTransferRegressor`, a running mean, the last value, and ridge and boosting that are refitted.

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
        Learners of other packages: "all" (boosting and logistic regression of scikit-learn and, where it is installed,
        river's adaptive random forest), "none", or names joined by commas.
    task : str, optional
        "classify" or "regress"; without it the labels tell.
    metric : str, optional
        What methods are ranked by: "mistakes", "average-precision" or "log-loss"; without it the average precision of a
        class that is rare in the stream, else mistakes.
    options : mapping, optional
        Options of `OnlineTransferClassifier`, for the methods that read them, such as `{"table": {"drop": ["note"]}}`.
    jobs : int
        Processes; -1 is one a core.
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
    return Comparison.of_rows(
        *_compared(tasks, jobs, plugins, methods, orders, peers, options, metric)
    )


def compare_domains(
    domains: Mapping[str, Rows] | Sequence[Rows],
    *,
    label: str | None = None,
    warmup: float | None = 0.3,
    methods: str | Sequence[str] = METHODS,
    order_by: str | None = None,
    orders: int = 1,
    peers: str = "all",
    task: str | None = None,
    metric: str | None = None,
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    plugins: Sequence[str] = (),
) -> DomainComparison:
    """Each domain as the target once, all others as its sources: which method is best over domains, by its ranks.

    Parameters
    ----------
    domains : list or mapping
        At least two labelled domains, as `compare` takes sources.
    warmup : float, optional
        The share of each target's first rows that is known in advance, without labels.
    label, methods, order_by, orders, peers, task, metric, options, jobs, plugins
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
    return DomainComparison(
        *_compared(tasks, jobs, plugins, methods, orders, peers, options, metric)
    )


def _compared(
    tasks: Sequence[Task], jobs: int, plugins: Sequence[str], *given: Any
) -> tuple[list[Row], list[str]]:
    """The rows of these tasks, and what was said about them."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hedgerow-compare-") as out:
        folder = Folder(Path(out), jobs=jobs, plugins=tuple(plugins), say=notes.append)
        runner.run(plan(folder, tasks, *given), folder)
        return results.read(out)[0], notes


def run(folder: Folder, tasks: Sequence[Task], **given: Any) -> Path | None:
    """What `hedgerow compare` does: run what is not in the folder yet and write the report; None if interrupted."""
    return folder.run(plan(folder, tasks, **given), report)


def report(out: Path) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    return comparison_in(out).report(runner.commands_given(out)).save(out)


def comparison_in(out: str | Path) -> Comparison | DomainComparison:
    """What the rows of a folder are: one target, or each domain as the target once."""
    rows = results.read(out)[0]
    return (
        DomainComparison(rows)
        if len({row["task"] for row in rows}) > 1
        else Comparison.of_rows(rows)
    )


def plan(
    folder: Folder,
    tasks: Sequence[Task],
    methods: str | Sequence[str] = METHODS,
    orders: int = 1,
    peers: str = "all",
    options: Mapping[str, Any] | None = None,
    metric: str | None = None,
    leave_out: bool = True,
) -> list[Unit]:
    """Check everything, then list what is to be run: methods and peers; on one task, methods without each source."""
    folder.begin(orders=orders)
    task = tasks[0]
    given = dict(options or {})
    shuffled = orders > 1
    if metric is not None and (metric not in METRICS or task.kind == REGRESS):
        known = ["rmse"] if task.kind == REGRESS else METRICS
        raise unknown("metric", metric, known)
    if task.kind == REGRESS:
        names = ["hedgerow"]
        others = list(NUMBER_PEERS)
        if other := given.keys() - {"table"}:
            raise InputError(
                f"{', '.join(sorted(other))}: for classifiers, and the labels are numbers; leave it out"
            )
    else:
        names = runner.find_methods(methods if isinstance(methods, str) else ",".join(methods))
        others = [] if peers == "none" else runner.named("peer", peers, PEERS)
        arguments_of(names[0], given)  # an unknown option is named here
        if missing := missing_peers(others):
            folder.say(missing)
        others = [name for name in others if PEERS[name].installed]
    whole = len(tasks) == 1
    data_found = examined(
        task.sources if whole else [*task.sources, task.stream],
        task.stream.unlabelled() if whole else None,
        given.get("table"),
        task.kind,
    )
    data = task.checksum if len(tasks) == 1 else joblib.hash([each.checksum for each in tasks])[:16]
    folder.check(reading="general", comparison=data, shuffled=shuffled, given=str(given))
    if shuffled:
        folder.say(
            f"{orders} orders: the stream is shuffled; with --orders 1 it is kept in its order in time"
        )
    else:
        tasks = [replace(each, arrivals=partial(_in_time, len(each.stream))) for each in tasks]
    if task.warmup is None:
        folder.say(
            "no unlabelled rows: nothing is aligned before the stream; --warmup .3 or --unlabelled gives some"
        )
    runs = [(each, name, "") for each in tasks for name in (*names, *others)]
    if (
        leave_out
        and len(tasks) == 1
        and (len(task.sources) > 1 or (task.warmup is not None and task.kind != REGRESS))
    ):
        # else nothing is left to fit on
        users = [name for name in names if name not in ALONE]
        runs += [
            (tasks[0].without(source.name), name, source.name)
            for name in users
            for source in task.sources
        ]
    ours = measures.fit_regressor if task.kind == REGRESS else measures.fit_classifier
    return [
        Unit(
            LEFT_OUT if without else COMPARED,
            each.name,
            name,
            partial(_compiled, each, name if name in names else ""),
            measures.fit_peer if name in others else ours,
            measures.measure,
            variant=without,
            orders=orders,
            options={"random_state": SEED, **given},
            also={
                "comparison": data,
                "given": str(given),
                "metric": metric,
                "found": data_found.to_json(),
            },
        )
        for each, name, without in runs
    ]


def _in_time(n: int, order: int) -> Arrivals:
    return Arrivals(np.arange(n))


def _compiled(task: Task, method: str) -> Task:
    """The task, and the loops of the method ready before a clock runs."""
    if method:
        measures.compile_loops(method)
    return task


# -- the demonstration ------------------------------------------------------------------------------------------

SETTINGS = {
    "as-published": "row-minmax+unit",
    "our-input": "+".join(OWN_STEPS),
}  # the preprocessing of each


def demo(folder: Folder, orders: int = 10, target: str = "shifted") -> Iterator[Path | None]:
    """The reports on all methods on embedded real digits, twice, as the input matters as much as the method.

    The last is None if it was interrupted.
    """
    domains = load("digits")
    if target not in domains:
        raise unknown("target", target, domains)
    warmup, stream = split(domains[target], seed=SEED)
    sources = {name: domain for name, domain in domains.items() if name != target}
    task = task_of(sources, stream, unlabelled=warmup)
    for setting, steps in SETTINGS.items():
        own = replace(folder, out=folder.out / setting)
        if not folder.resume:  # what an earlier demonstration left
            (own.out / results.FILE).unlink(missing_ok=True)
        units = plan(own, [task], "all", orders, "none", {"preprocess": steps}, leave_out=False)
        yield own.run(units, report)
