"""The report's figures, each computed from the rows alone: small panels in one style, colours for every eye."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.evaluate.folds import Row
from hedgerow.evaluate.panels import SPREAD, legend_above, line_keys, new_figure
from hedgerow.evaluate.plots import Theme, colour_of, draw_line, from_zero, label_ends, marks_of, style
from hedgerow.experiment.summaries import rate, summarise
from hedgerow.paper.paper_runs import PaperRuns, published_cell
from hedgerow.paper.tables import RULES, refresh_rows
from hedgerow.paper.tasks import FAMILIES, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
PANEL = (3.55, 2.75)  # inches
STREAM = "share of the stream, %"
RULE_LABELS = {"zero": "unseen classes at zero", "skip": "unseen classes skipped", "shrink": "unseen classes shrunk"}


def curves(runs: PaperRuns, theme: Theme = "light") -> Figure:
    """Running mistake rate of every method, one panel for each task; bands of one deviation over the orders."""

    def draw(axes: Axes, task: Task, colours: Mapping[str, str]) -> None:
        _whole_stream(axes, runs, task)
        for method in runs.methods():
            rows = [row for row in runs.rows_of("table", task.name, method) if row.get("curve")]
            if rows:
                at = np.array(rows[0]["curve_at"])
                rates = 100 * _matrix(rows, "curve", len(at)) / at
                _band(axes, _share(at), rates, runs.styles()[method], colours)

    figure = _panels(runs, runs.tasks(), runs.methods(), draw, STREAM, "mistakes so far, %", theme)
    from_zero(figure.axes)
    return figure


def discrepancy(runs: PaperRuns, theme: Theme = "light") -> Figure:
    """The objective for A with the true labels, relative to its start; bands from the lowest to the highest order."""
    methods = [m for m in runs.methods() if _followed(runs, m)]

    def draw(axes: Axes, task: Task, colours: Mapping[str, str]) -> None:
        _whole_stream(axes, runs, task)
        axes.set_yscale("log")
        for method in methods:
            rows = [row for row in runs.rows_of("table", task.name, method) if row.get("discrepancy")]
            if rows:
                at, j = _share(np.array(rows[0]["discrepancy_at"])), runs.styles()[method]
                values = _matrix(rows, "discrepancy", len(at))
                ratios = values / values[:, :1]
                axes.fill_between(at, ratios.min(axis=0), ratios.max(axis=0), color=colour_of(j, colours), **SPREAD)
                draw_line(axes, at, np.exp(np.log(ratios).mean(axis=0)), j, colour_of(j, colours))

    tasks = [task for task in runs.tasks() if any(_followed(runs, m, task) for m in methods)]
    return _panels(runs, tasks, methods, draw, STREAM, "discrepancy / its start", theme)


def _share(at: Array) -> Array:
    """Places in a stream in per cent of it: streams of different length on one scale."""
    return np.asarray(100 * at / at[-1])


def _whole_stream(axes: Axes, runs: PaperRuns, task: Task) -> None:
    """A panel from the start of its stream to the end; its length stands in the title."""
    n = next(row["n"] for row in runs.rows if row["group"] == "table" and row["task"] == task.name)
    axes.set(title=f"{task.title}, {n} instances", xlim=(0, 100))


def sensitivity_C(runs: PaperRuns, theme: Theme = "light") -> Figure:
    """Mistake rate of every method against C."""
    group = "sensitivity-C"

    def draw(axes: Axes, task: Task, colours: Mapping[str, str]) -> None:
        axes.set_xscale("log")
        for method in runs.methods(group):
            _swept(axes, runs, group, task, method, runs.styles()[method], colours)

    figure = _panels(runs, runs.tasks(group), runs.methods(group), draw, "C", "mistakes, %", theme)
    from_zero(figure.axes)
    return figure


def sensitivity_Tw(runs: PaperRuns, theme: Theme = "light") -> Figure:
    """Mistake rate against the labels between two updates of A: one panel a method and family, one line a task."""
    group = "sensitivity-Tw"
    families = [name for name in FAMILIES if any(task.family == name for task in runs.tasks(group))]
    panels = [(method, family) for method in runs.methods(group) for family in families]
    with style(theme) as colours:
        width, lines = len(families), len(runs.methods(group))
        figure = new_figure((1.6 + 4.2 * width, 3.6 * lines + 0.2))
        named: list[list[tuple[float, str, str]]] = []
        for i, (method, family) in enumerate(panels, start=1):
            axes = figure.add_subplot(lines, width, i, sharex=figure.axes[0] if figure.axes else None)
            axes.set_xscale("log")
            ends: list[tuple[float, str, str]] = []
            for j, task in enumerate(task for task in runs.tasks(group) if task.family == family):
                last = _swept(axes, runs, group, task, method, j, colours)
                ends.append((last, task.title, colour_of(j, colours)))
            title = f"{runs.titles[method]}, {FAMILIES[family]}"
            axes.set(title=title, xlabel="labels between two updates, $T_w$", ylabel="mistakes, %")
            named.append(ends)
        from_zero(figure.axes)  # before the labels, whose places depend on it
        for axes, ends in zip(figure.axes, named, strict=True):
            label_ends(axes, ends)
        return figure


def refresh(runs: PaperRuns, theme: Theme = "light") -> Figure:
    """By how many points updating A lowers the mistake rate, for each rule and task; domains as given, and centred."""
    tasks = runs.tasks("refresh")
    with style(theme) as colours:
        figure = new_figure((9.4, 1.5 + 0.36 * len(tasks)))
        shared: Any = None
        for i, (label, title) in enumerate((("", "as given"), ("centred ", "every domain centred")), start=1):
            shared = axes = figure.add_subplot(1, 2, i, sharex=shared, sharey=shared)
            for j, rule in enumerate(RULES[1:]):
                places, gains = [], []
                for k, task in enumerate(tasks):
                    updated, fixed = (refresh_rows(runs, task, label + name) for name in (rule, "fixed"))
                    if updated and fixed:
                        places.append(k + 0.22 * (j - 1))
                        gains.append(summarise(fixed).mean - summarise(updated).mean)
                marks = marks_of(j + 4) | {"linestyle": "none"}
                axes.plot(
                    gains, places, color=colour_of(j + 4, colours), label=RULE_LABELS[rule], markersize=7, **marks
                )
            axes.axvline(0, color=colours["text"], linewidth=1)
            axes.set(title=title, xlabel="points gained by updating A")
            axes.set_yticks(range(len(tasks)), [task.title for task in tasks])
        shared.set_ylim(len(tasks) - 0.4, -0.6)
        legend_above(figure, *figure.axes[0].get_legend_handles_labels(), 3)
        return figure


def agreement(runs: PaperRuns, theme: Theme = "light") -> Figure:
    """Ours (filled, coloured) and the published numbers (open) side by side: a panel a method, a row a task."""
    methods = [m for m in runs.methods() if any(published_cell(task.name, m) for task in runs.tasks())]
    tasks = runs.tasks()
    with style(theme) as colours:
        width = min(len(methods), 4)
        lines = math.ceil(len(methods) / width)
        figure = new_figure((1.2 + 2.3 * width, 0.8 + lines * (1.0 + 0.24 * len(tasks))))
        shared: Any = None
        for i, method in enumerate(methods, start=1):
            shared = axes = figure.add_subplot(lines, width, i, sharex=shared, sharey=shared)
            for k, task in enumerate(tasks):
                rows, paper = runs.rows_of("table", task.name, method), published_cell(task.name, method)
                if rows:
                    cell = summarise(rows)
                    ink = colour_of(runs.styles()[method], colours)
                    axes.errorbar(cell.mean, k - 0.17, xerr=cell.spread, color=ink, fmt="o", markersize=5, label="ours")
                if paper:
                    axes.errorbar(
                        paper[0], k + 0.17, xerr=paper[1], color=colours["text"], fmt="s", markersize=5,
                        markerfacecolor=colours["paper"], label="published",
                    )  # fmt: skip
            axes.set(title=runs.titles[method])
            axes.set_yticks(range(len(tasks)), [task.title for task in tasks])
            axes.tick_params(labelleft=(i - 1) % width == 0)
            if i > len(methods) - width:
                axes.set_xlabel("mistakes, %")
        shared.set_ylim(len(tasks) - 0.4, -0.6)
        shared.set_xlim(left=0)
        handles = dict(zip(*reversed(shared.get_legend_handles_labels()), strict=True))
        legend_above(figure, list(handles.values()), list(handles), 2)
        return figure


def _followed(runs: PaperRuns, method: str, task: Task | None = None) -> bool:
    tasks = runs.tasks() if task is None else [task]
    return any(row.get("discrepancy") for t in tasks for row in runs.rows_of("table", t.name, method))


def _matrix(rows: Sequence[Row], name: str, length: int) -> Array:
    return np.array([row[name] for row in rows if len(row[name]) == length], dtype=float)


def _band(axes: Axes, x: Array, values: Array, j: int, colours: Mapping[str, str]) -> None:
    colour = colour_of(j, colours)
    mean, sd = values.mean(axis=0), values.std(axis=0)
    axes.fill_between(x, mean - sd, mean + sd, color=colour, **SPREAD)
    draw_line(axes, x, mean, j, colour)


def _swept(
    axes: Axes, runs: PaperRuns, group: str, task: Task, method: str, j: int, colours: Mapping[str, str]
) -> float:
    """Draw the rates against the value in each variant's name; return the mean at the largest value."""
    found = {
        value_of(variant): [rate(row) for row in rows]
        for variant in runs.variants(group)
        if (rows := runs.rows_of(group, task.name, method, variant))
    }
    x = np.array(sorted(found))
    mean, sd = np.array([np.mean(found[v]) for v in x]), np.array([np.std(found[v]) for v in x])
    colour = colour_of(j, colours)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.fill_between(x, mean - sd, mean + sd, color=colour, **SPREAD)
    axes.plot(x, mean, color=colour, markersize=5, linewidth=1.8, **marks_of(j))
    return float(mean[-1]) if len(mean) else 0.0


def value_of(variant: str) -> float:
    """The number in a variant's name.

    >>> value_of("C=0.05")
    0.05
    """
    return float(variant.partition("=")[2])


def _panels(
    runs: PaperRuns,
    tasks: Sequence[Task],
    methods: Sequence[str],
    draw: Callable[[Axes, Task, Mapping[str, str]], None],
    xlabel: str,
    ylabel: str,
    theme: Theme,
) -> Figure:
    """One panel for each task under a common legend of the methods."""
    with style(theme) as colours:
        width = min(len(tasks), COLUMNS)
        lines = math.ceil(len(tasks) / width)
        figure = new_figure((max(PANEL[0] * width, 7.0), PANEL[1] * lines + 0.7))
        shared: Any = None
        for i, task in enumerate(tasks):
            shared = axes = figure.add_subplot(lines, width, i + 1, sharey=shared)
            axes.set_title(task.title)
            draw(axes, task, colours)
            axes.tick_params(labelleft=i % width == 0)
            if i % width == 0:
                axes.set_ylabel(ylabel)
            if i + width >= len(tasks):
                axes.set_xlabel(xlabel)
        keys = line_keys([runs.styles()[m] for m in methods], colours)
        legend_above(figure, keys, [runs.titles[m] for m in methods], 4)
        return figure
