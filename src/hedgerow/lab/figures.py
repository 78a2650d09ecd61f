"""Figures in one style: panels of lines, rows of dots, stacked weights, ranks. Colours for every eye, readable in grey.

Each function returns a matplotlib Figure that belongs to no window. Methods keep their number (`Runs.styles`), and with
it colour, line and marker, in every figure of a report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import require
from hedgerow.lab.report import THEMES
from hedgerow.lab.stats import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT, PAPER, GRID = THEMES["light"].values()
# Okabe and Ito's palette without its yellow, which is lost on white; then more for further lines
COLOURS = (TEXT, "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
MORE = ("#882255", "#999933", "#44AA99", "#661100", "#6699CC")
LINES = ((0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 2)), (0, (6, 2)), (0, (5, 1, 1, 1, 1, 1)), "solid")
MARKERS = ("o", "s", "^", "v", "D", "P", "X")
LEADER = {"arrowstyle": "-", "linewidth": 1.4, "shrinkA": 2, "shrinkB": 0, "relpos": (0, 0.5)}
DOTTED = (0, (2, 3))
GREY = "#888888"
SETTINGS = {
    "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "text.color": TEXT,
    "axes.labelcolor": TEXT, "axes.edgecolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT, "grid.color": GRID,
    "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.titlelocation": "left", "axes.titlesize": 11, "font.size": 10, "hatch.linewidth": 0.6,
}  # fmt: skip


@contextmanager
def figure_of(width: float, height: float) -> Iterator[Figure]:
    """A figure of so many inches without pyplot (no window, no global state), and our settings while it is drawn."""
    with require("matplotlib", "lab").rc_context(SETTINGS):
        from matplotlib.figure import Figure as NewFigure

        yield NewFigure(figsize=(width, height), layout="constrained")


def colour_of(j: int) -> str:
    """The colour of the j-th line.

    >>> colour_of(0), colour_of(1)
    ('#1f2328', '#E69F00')
    """
    return COLOURS[j] if j < len(COLOURS) else MORE[j % len(MORE)]


def marks_of(j: int) -> dict[str, Any]:
    """Line and marker of the j-th line; after the first seven, other pairs of them."""
    again = j // len(MARKERS)
    return {"linestyle": LINES[(j + again) % len(LINES)], "marker": MARKERS[(j + 2 * again) % len(MARKERS)]}


# -- panels of lines --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a panel in the style of its number, with a band from `low` to `high` if there are any."""

    name: str
    style: int
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None

    @classmethod
    def over(cls, name: str, style: int, x: Any, samples: Any) -> Line:
        """The mean of the sample of each place, with a band of one standard deviation; sizes may differ."""
        mean = np.array([np.mean(sample) for sample in samples])
        sd = np.array([np.std(sample, ddof=1) if len(sample) > 1 else 0.0 for sample in samples])
        return cls(name, style, np.asarray(x), mean, mean - sd, mean + sd)

    @classmethod
    def ratio(cls, name: str, style: int, x: Any, values: Any) -> Line:
        """Rows (orders x places) relative to their start: the geometric mean, in a band from lowest to highest."""
        Y = np.asarray(values, dtype=float)
        Y = np.maximum(Y, 1e-12 * Y.max()) / Y[:, :1]
        return cls(name, style, np.asarray(x), np.exp(np.log(Y).mean(axis=0)), Y.min(axis=0), Y.max(axis=0))


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines in one set of axes; `ticks` name the places 0, 1, ..; upright lines at `changes`; `level` is a bound."""

    title: str
    lines: Sequence[Line]
    xlabel: str = ""
    ylabel: str = ""
    xlim: tuple[float, float] | None = None
    ticks: Sequence[str] = ()
    changes: Sequence[float] = ()
    level: tuple[float, str] | None = None


def draw(
    panels: Sequence[Panel], *, columns: int = 3, size: tuple[float, float] = (3.55, 2.75), names: str = "legend",
    log: str = "", sparse: bool = True, shared: bool = True, gap: float = 0.062,
) -> Figure:  # fmt: skip
    """Panels beside and below each other.

    `names` of the lines: in a "legend" above, or at their right "ends". `log` names the axes with a log scale. `sparse`
    draws about five markers a line, else every point has one. Panels with the same label of the y axis have the same
    scale, from zero unless it is a log scale; `shared` ones have its numbers once a row.
    """
    width = min(len(panels), columns)
    rows, legend = math.ceil(len(panels) / width), names == "legend"
    inches = max(size[0] * width, 7.0) if legend else size[0] * width + 0.9
    with figure_of(inches, size[1] * rows + (0.7 if legend else 0)) as figure:
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(rows, width, i + 1, sharey=figure.axes[0] if shared and i else None)
            axes.set_title(panel.title)
            for scale in log:
                getattr(axes, f"set_{scale}scale")("log")
                getattr(axes, f"{scale}axis").set_major_formatter("{x:g}")
            for line in panel.lines:
                _draw_line(axes, line, sparse)
            for change in panel.changes:
                axes.axvline(change, color=TEXT, linewidth=0.8, linestyle=DOTTED)
            if panel.level:
                axes.axhline(panel.level[0], color=TEXT, linewidth=2)
            if panel.ticks:
                turned = 15 if max(map(len, panel.ticks)) > 9 else 0
                axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=turned)
            if panel.xlim:
                axes.set_xlim(*panel.xlim)
            first, last = i % width == 0, i + width >= len(panels)
            axes.tick_params(labelleft=first or not shared)
            axes.set_ylabel(panel.ylabel if first or not shared else "")
            axes.set_xlabel(panel.xlabel if last or not shared else "")
        drawn = list(zip(figure.axes, panels, strict=True))
        if "y" not in log:
            for label in {panel.ylabel for panel in panels}:
                _from_zero([axes for axes, panel in drawn if panel.ylabel == label])
        if legend:
            keys = {line.name: line.style for panel in panels for line in panel.lines}
            _legend(figure, {name: _key(style) for name, style in sorted(keys.items(), key=lambda key: key[1])}, 4)
        else:
            for axes, panel in drawn:
                ends = [(float(line.y[-1]), line.name, colour_of(line.style)) for line in panel.lines if len(line.y)]
                label_ends(axes, [*ends, *([(*panel.level, TEXT)] if panel.level else [])], gap)
        return figure


def _draw_line(axes: Axes, line: Line, sparse: bool) -> None:
    colour = colour_of(line.style)
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.13, linewidth=0)
    every = max(len(line.x) // 5, 1)
    where: dict[str, Any] = {"markevery": (line.style % every, every)} if sparse else {}
    axes.plot(line.x, line.y, color=colour, markersize=5, linewidth=1.8, **marks_of(line.style), **where)


def _from_zero(panels: Sequence[Axes]) -> None:
    """One scale for panels: from 0 to a little above what is drawn in any of them, rates up to 100 %."""
    top = max(*(axes.dataLim.ymax for axes in panels), 1e-9)  # a method may make no mistake at all
    for axes in panels:
        axes.set_ylim(0, min(1.04 * top, 100.0) if "%" in panels[0].get_ylabel() else 1.15 * top)


def _key(style: int) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour_of(style), markersize=5, linewidth=1.8, **marks_of(style))


def _legend(figure: Figure, keys: Mapping[str, Any], columns: int) -> None:
    """A legend of the whole figure, above its panels."""
    figure.legend(
        list(keys.values()), list(keys), loc="outside upper left", ncols=columns, frameon=False, fontsize=9,
        handlelength=3.2,
    )  # fmt: skip


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], gap: float = 0.062) -> None:
    """Names at the right end of their lines, pushed apart where they would overlap. Each end: (y, name, colour)."""
    axes.set_ylim(axes.get_ylim())  # settles the limits: an automatic scale is not computed until somebody asks
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((1.0, y))[1]) for y, _, _ in ends]
    for (_, name, colour), height, placed in zip(ends, heights, spread(heights, gap), strict=True):
        axes.annotate(
            name, xy=(1.0, height), xytext=(1.05, placed), xycoords="axes fraction", textcoords="axes fraction",
            va="center", fontsize=9, arrowprops={"color": colour, **LEADER},
        )  # fmt: skip


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The nearest places, in the same order, at least `gap` apart and, if there is room, inside [0, 1].

    >>> [round(h, 2) for h in spread([0.5, 0.5, 0.9], gap=0.1)]
    [0.45, 0.55, 0.9]
    """
    from sklearn.isotonic import isotonic_regression

    if not len(heights):
        return []
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(order))
    flat = isotonic_regression(np.asarray(heights)[order] - steps)  # names that collide share the mean of their places
    places = np.empty(len(order))
    places[order] = np.clip(flat, 0, max(1 - steps[-1], 0)) + steps
    return [float(place) for place in places]


# -- other kinds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dots:
    """A series of dots in one panel, one for each row that has a value; `hollow` ones are not filled."""

    name: str
    style: int
    values: Any  # an array, NaN: none
    errors: Any = None
    hollow: bool = False


def dots(
    panels: Mapping[str, Sequence[Dots]], rows: Sequence[str], xlabel: str, *, columns: int, size: tuple[float, float],
    step: float = 0.22, line: bool = True,
) -> Figure:  # fmt: skip
    """Dots with their errors, a row for each name, the series of a panel a little apart; an upright line at zero."""
    width = min(len(panels), columns)
    lines = math.ceil(len(panels) / width)
    with figure_of(size[0] * width + 1.2, size[1] * lines + 0.8) as figure:
        for i, (title, series) in enumerate(panels.items()):
            share = {"sharex": figure.axes[0], "sharey": figure.axes[0]} if figure.axes else {}
            axes = figure.add_subplot(lines, width, i + 1, **share)
            for k, each in enumerate(series):
                places = np.arange(len(rows)) + (k - (len(series) - 1) / 2) * step
                colour, marker = colour_of(each.style), marks_of(each.style)["marker"]
                axes.errorbar(
                    each.values, places, xerr=each.errors, color=colour, fmt=marker, markersize=5.5, label=each.name,
                    markerfacecolor=PAPER if each.hollow else colour, elinewidth=1.2,
                )  # fmt: skip
            if line:
                axes.axvline(0, color=TEXT, linewidth=1)
            axes.set_title(title)
            axes.set_yticks(range(len(rows)), rows)
            axes.tick_params(labelleft=i % width == 0)
            axes.set_xlabel(xlabel if i + width >= len(panels) else "")
        figure.axes[0].set_ylim(len(rows) - 0.4, -0.6)
        if not line:
            figure.axes[0].set_xlim(left=0)
        handles, names = figure.axes[0].get_legend_handles_labels()
        _legend(figure, dict(zip(names, handles, strict=True)), 3)
        return figure


def expert_weights(instances: Any, weights: Any, experts: Sequence[str], title: str = "", most: int = 0) -> Figure:
    """Who was trusted when: the experts' weights along one run, stacked to one; all but the `most` largest as one."""
    W, names = np.asarray(weights, dtype=float), list(experts)
    if most and len(names) > most + 1:
        kept = np.sort(np.argsort(-W.mean(axis=0), kind="stable")[:most])
        rest = np.setdiff1d(np.arange(len(names)), kept)
        names = [*(names[i] for i in kept), f"{len(rest)} others"]
        W = np.column_stack([W[:, kept], W[:, rest].sum(axis=1)])
    domains = [name.removeprefix("source ").removeprefix("target via ") for name in names]
    places = {domain: i for i, domain in enumerate(dict.fromkeys(domains))}
    tops = np.cumsum(W, axis=1)
    with figure_of(8.2, 3.9) as figure:
        axes = figure.add_subplot()
        ends = []
        for j, (name, domain) in enumerate(zip(names, domains, strict=True)):
            colour = COLOURS[1:][places[domain] % len(COLOURS[1:])]  # both experts of a domain share its colour
            ground = tops[:, j] - W[:, j]
            axes.fill_between(
                instances, ground, tops[:, j], facecolor=colour, alpha=0.8, edgecolor=PAPER, linewidth=0.8,
                hatch="///" if name.startswith("source") else "",
            )  # fmt: skip
            ends.append((float(ground[-1] + tops[-1, j]) / 2, name, colour))
        axes.set(title=title, xlabel="instances of the stream", ylabel="weight", ylim=(0, 1))
        axes.set_xlim(instances[0], instances[-1])
        axes.grid(False)
        label_ends(axes, ends)
        return figure


STEP, BAR = 0.32, 0.16  # inches between two names, and between two bars, of the diagram below


def critical_difference(ranking: Ranking, titles: Mapping[str, str], styles: Mapping[str, int]) -> Figure:
    """Best ranks on the left; methods joined by a bar lie less than a critical difference apart (Demsar 2006)."""
    groups, k = ranking.cliques(), len(ranking.ordered)
    left = (k + 1) // 2  # names of the better half stand on the left
    below = BAR * (len(groups) + 1) + 0.1
    height = 0.75 + below + STEP * left + 0.1
    with figure_of(8.2, height) as figure:
        figure.set_layout_engine("none")
        axes = figure.add_axes((0.28, 0.0, 0.44, 1.0))
        axes.set(xlim=(1, k), ylim=(-(height - 0.75), 0.75))
        axes.axis("off")
        line: dict[str, Any] = {"color": TEXT, "linewidth": 1.2, "clip_on": False}
        axes.plot([1, k], [0, 0], **line)
        for rank in range(1, k + 1):
            axes.plot([rank, rank], [0, 0.07], **line)
            axes.text(rank, 0.1, str(rank), ha="center", va="bottom", fontsize=9)
        width = min(ranking.critical_difference, k - 1.0)
        axes.plot([1, 1 + width], [0.48, 0.48], marker="|", markersize=8, **line)
        text = f"critical difference {ranking.critical_difference:.2f}"
        axes.text(1 + width + 0.1, 0.48, text, va="center", fontsize=9)
        for i, (name, place) in enumerate(ranking.ordered):
            side = i < left
            x, y = (0.88 if side else k + 0.12), -below - STEP * (i if side else k - 1 - i)
            axes.plot([place, place, x], [0, y, y], **line | {"color": colour_of(styles[name]), "linewidth": 1.5})
            ha = "right" if side else "left"
            axes.text(x, y, f" {titles[name]}  {place:.2f} ", clip_on=False, fontsize=9.5, ha=ha, va="center")
        places = dict(ranking.ordered)
        for i, group in enumerate(groups, start=1):
            ends = [places[group[0]] - 0.04, places[group[-1]] + 0.04]
            axes.plot(ends, [-BAR * i] * 2, **line | {"linewidth": 4, "solid_capstyle": "butt"})
        return figure
