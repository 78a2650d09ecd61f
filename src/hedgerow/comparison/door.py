"""`hedgerow.compare`: the comparison from Python, and what it returns."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.comparison import tables
from hedgerow.comparison.command import plan
from hedgerow.comparison.inputs import Given, task_of
from hedgerow.comparison.options import CompareOptions
from hedgerow.comparison.report import drawn, facts, html
from hedgerow.comparison.run import run_unit
from hedgerow.comparison.runs import ComparisonRuns
from hedgerow.comparison.stored_task import pack, write_task
from hedgerow.comparison.verdict import verdict
from hedgerow.core.errors import InputError
from hedgerow.evaluate import plots
from hedgerow.evaluate.folds import Row
from hedgerow.experiment import engine as engines
from hedgerow.experiment import results
from hedgerow.experiment.page import Picture, write
from hedgerow.experiment.trials import TransferTask
from hedgerow.experiment.writer import FILE, Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def compare(
    sources: Mapping[str, Given] | Sequence[Given],
    stream: Given,
    *,
    label: str | None = None,
    unlabelled: Given | None = None,
    warmup: float | None = None,
    methods: str | Sequence[str] = CompareOptions.methods,
    time: str | None = None,
    orders: int = 1,
    peers: bool = False,
    jobs: int = 1,
    engine: str = "local",
    plugins: Sequence[str] = (),
) -> Comparison:
    """Methods side by side on your own data, each row of the stream predicted before its label is learned.

    A domain is a `Domain`, a file name, a table with names (pandas, polars, pyarrow; `label` names its label column)
    or `(X, y)`; `sources` is a list of them, or a mapping from names. With `warmup` the first rows of the stream are
    taken as the unlabelled ones. One order is the stream as it is, or sorted by the column `time`; several orders are
    shuffled.

    >>> import hedgerow
    >>> domains = hedgerow.load("digits")
    >>> found = hedgerow.compare([domains["thin"], domains["faded"]], domains["shifted"], warmup=0.3, methods="pa,paio")
    >>> found
    Comparison of pa, paio on shifted: 248 instances, 1 order
    >>> found.verdict.split(":")[0]
    'PAIO makes the fewest mistakes'
    """
    task = task_of(sources, stream, label, unlabelled, warmup, time)
    names = methods if isinstance(methods, str) else ",".join(methods)
    options = CompareOptions(names, orders, peers, jobs, plugins=tuple(plugins), engine=engine)
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hedgerow-compare-") as folder:
        options = replace(options, out=Path(folder))
        units = plan(task, options, notes.append)
        engines.run(units, run_unit, folder, engine=engine, jobs=jobs, plugins=options.plugins)
        return Comparison(task, results.read(folder).rows, notes)


class Comparison:
    """A finished comparison: `verdict`, `rows`, `table`, `plots`, `save(folder)`; a notebook shows it.

    `notes` are what the command line would have said: that it shuffles, which peers are not installed.
    """

    def __init__(self, task: TransferTask, rows: list[Row], notes: Sequence[str] = ()) -> None:
        self.task, self.notes = task, list(notes)
        self.records = rows
        self._runs = ComparisonRuns.read(results.Results(rows, []))

    def __repr__(self) -> str:
        runs = self._runs
        orders = f"{runs.orders} order" + ("s" if runs.orders > 1 else "")
        return f"Comparison of {', '.join(runs.names)} on {runs.task}: {runs.n} instances, {orders}"

    @property
    def verdict(self) -> str:
        """What somebody should know who reads nothing else."""
        return verdict(self._runs)

    @property
    def rows(self) -> Any:
        """Every run (a method, perhaps without a source, in one order): a DataFrame, without pandas a list of dicts."""
        return _frame(self.records)

    @property
    def table(self) -> Any:
        """The numbers of each method, the fewest mistakes first: a DataFrame, without pandas a list of dicts."""
        return _frame([tables.record(self._runs, name) for name in self._runs.ranked])

    @cached_property
    def plots(self) -> dict[str, Figure]:
        """The figures by name, as matplotlib's."""
        return {name: figure for name, figure, _, _ in drawn(self._runs)}

    def save(self, folder: str | Path) -> Path:
        """The report, its figures and tables, the task and the rows into a new folder; the path of the report."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        if results.read(out).rows:
            raise InputError(f"{out} holds results already; choose another folder")
        write_task(out, pack(self.task)[1])
        for row in self.records:
            results.append(out, row)
        about = facts(self._runs, self.task, "hedgerow.compare(...)")
        return write(out / FILE, html(Writer(self._runs, out), about)).resolve()

    def _repr_html_(self) -> str:
        """The verdict, the curves and the table, for notebooks."""
        _, figure, alt, caption = next(drawn(self._runs))
        light = plots.svg(figure)
        picture = Picture(light, plots.darkened(light), alt, caption).html()
        return f"<p>{escape(self.verdict)}</p>{picture}{tables.methods(self._runs).html()}"


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return rows
    return pd.DataFrame(rows)
