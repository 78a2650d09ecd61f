"""The curves of a study: mistakes against strength; for drift, mistakes in a window along the stream."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.evaluate.folds import windows
from hedgerow.evaluate.panels import SPREAD, legend_above, line_keys, new_figure
from hedgerow.evaluate.plots import Theme, colour_of, draw_line, from_zero, marks_of, style
from hedgerow.experiment.summaries import deviation, rate
from hedgerow.study.findings import Measure, StudyRuns, balanced, majority
from hedgerow.study.studies import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
PANEL = (4.4, 3.0)  # inches
HEAD = 0.7  # inches for the legend
ROOM = 1.3  # the majority rule is drawn where it is at most this many times the worst method
GREY = "#888888"


def strengths(runs: StudyRuns, theme: Theme = "light") -> Figure:
    """Mistakes against strength, a panel for each kind; for rare classes one more that weighs all classes the same."""
    panels: list[tuple[Panel, Measure, str]] = [(panel, rate, "mistakes, %") for panel in runs.study.panels]
    if runs.study.name == "imbalance":
        panels.append((runs.study.panels[0], balanced, "mistakes, %, mean of the classes"))
    with style(theme) as colours:
        figure = _figure(len(panels))
        for axes, (panel, measure, ylabel) in zip(_grid(figure, len(panels)), panels, strict=True):
            top = max(_curve(axes, runs, panel, method, measure, colours) for method in runs.methods)
            if runs.study.name == "imbalance" and measure is rate:
                _majority(axes, runs, panel, top)
            names = list(panel.points)
            axes.set_xticks(range(len(names)), names, rotation=15 if max(map(len, names)) > 9 else 0)
            axes.set(title=panel.title, xlabel=panel.axis, ylabel=ylabel)
            axes.set_xlim(-0.2, len(names) - 0.8)
        return _finished(figure, runs, colours)


def _curve(
    axes: Axes, runs: StudyRuns, panel: Panel, method: str, measure: Measure, colours: Mapping[str, str]
) -> float:
    """Draw the curve of a method; return its highest point."""
    found = [(x, [measure(row) for row in runs.rows(method, p)]) for x, p in enumerate(panel.points.values())]
    x = np.array([at for at, rates in found if rates])
    if not len(x):
        return 0.0
    mean, sd = (np.array([f(rates) for _, rates in found if rates]) for f in (np.mean, deviation))
    j = runs.index.styles()[method]
    axes.fill_between(x, mean - sd, mean + sd, color=colour_of(j, colours), **SPREAD)
    axes.plot(x, mean, color=colour_of(j, colours), markersize=5, linewidth=1.8, **marks_of(j))
    return float(mean.max())


def _majority(axes: Axes, runs: StudyRuns, panel: Panel, top: float) -> None:
    """The majority rule does not depend on the method: any method's rows have it."""
    by_point = [[row for m in runs.methods for row in runs.rows(m, p)] for p in panel.points.values()]
    heights = [float(np.mean([majority(row) for row in rows])) if rows else float("nan") for rows in by_point]
    if min(heights) <= ROOM * top:
        axes.plot(range(len(heights)), heights, color=GREY, linewidth=1.2)
        axes.annotate("majority rule", (len(heights) - 1, heights[-1]), color=GREY, fontsize=9, ha="right", va="bottom")


def along(runs: StudyRuns, theme: Theme = "light") -> Figure:
    """Mistakes in a moving window along the stream, one panel for each point; upright lines show changes."""
    with style(theme) as colours:
        figure, longest = _figure(len(runs.points)), 0
        for axes, point in zip(_grid(figure, len(runs.points)), runs.points, strict=True):
            for method in (m for m in runs.methods if runs.rows(m, point)):
                at, rates = windows(runs.rows(method, point))
                j = runs.index.styles()[method]
                draw_line(axes, at, rates.mean(axis=0), j, colour_of(j, colours))
                changes = runs.rows(method, point)[0]["changes"]
                longest = max(longest, at[-1])
            for change in changes:
                axes.axvline(change, color=colours["text"], linewidth=0.8, linestyle=(0, (2, 3)))
            axes.set(title=point, xlabel="instances of the stream", ylabel="mistakes in a window, %")
        for axes in figure.axes:
            axes.set_xlim(0, longest)
        return _finished(figure, runs, colours)


def _grid(figure: Figure, panels: int) -> Iterator[Axes]:
    width = min(panels, COLUMNS)
    for i in range(panels):
        yield figure.add_subplot(math.ceil(panels / width), width, i + 1)


def _finished(figure: Figure, runs: StudyRuns, colours: Mapping[str, str]) -> Figure:
    """One scale for panels that show the same, from zero; a legend of the methods on top."""
    for name in {axes.get_ylabel() for axes in figure.axes}:
        from_zero([axes for axes in figure.axes if axes.get_ylabel() == name])
    keys = line_keys([runs.index.styles()[m] for m in runs.methods], colours)
    legend_above(figure, keys, list(map(runs.title, runs.methods)), 4)
    return figure


def _figure(panels: int) -> Figure:
    width, height = min(panels, COLUMNS), math.ceil(panels / COLUMNS)
    return new_figure((max(PANEL[0] * width, 7.0), PANEL[1] * height + HEAD))
