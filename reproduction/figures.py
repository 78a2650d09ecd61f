"""Figures of several panels: lines, and rows of dots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.comparison.figures import (
    DOTTED,
    PAPER,
    TEXT,
    Line,
    colour_of,
    draw_line,
    figure_of,
    from_zero,
    label_ends,
    marks_of,
)
from hedgerow.comparison.stats import Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ratio(name: str, style: int, x: Any, values: Any) -> Line:
    """Rows (orders x places) relative to their start: the geometric mean, in a band from lowest to highest."""
    Y = np.asarray(values, dtype=float)
    Y = np.maximum(Y, 1e-12 * Y.max()) / Y[:, :1]
    return Line(
        name, style, np.asarray(x), np.exp(np.log(Y).mean(axis=0)), Y.min(axis=0), Y.max(axis=0)
    )


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
    rows = math.ceil(len(panels) / width)
    legend = names == "legend"
    inches = max(size[0] * width, 7.0) if legend else size[0] * width + 0.9
    with figure_of(inches, size[1] * rows + (0.7 if legend else 0)) as figure:
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(
                rows, width, i + 1, sharey=figure.axes[0] if shared and i else None
            )
            axes.set_title(panel.title)
            for scale in log:
                getattr(axes, f"set_{scale}scale")("log")
                getattr(axes, f"{scale}axis").set_major_formatter("{x:g}")
            for line in panel.lines:
                draw_line(axes, line, sparse)
            for change in panel.changes:
                axes.axvline(change, color=TEXT, linewidth=0.8, linestyle=DOTTED)
            if panel.level:
                axes.axhline(panel.level[0], color=TEXT, linewidth=2)
            if panel.ticks:
                turned = 15 if max(map(len, panel.ticks)) > 9 else 0
                axes.set_xticks(range(len(panel.ticks)), panel.ticks, rotation=turned)
            if panel.xlim:
                axes.set_xlim(*panel.xlim)
            first = i % width == 0
            last = i + width >= len(panels)
            axes.tick_params(labelleft=first or not shared)
            axes.set_ylabel(panel.ylabel if first or not shared else "")
            axes.set_xlabel(panel.xlabel if last or not shared else "")
        drawn = list(zip(figure.axes, panels, strict=True))
        if "y" not in log:
            for label in {panel.ylabel for panel in panels}:
                from_zero([axes for axes, panel in drawn if panel.ylabel == label])
        if legend:
            keys = {line.name: line.style for panel in panels for line in panel.lines}
            _legend(
                figure,
                {name: _key(style) for name, style in sorted(keys.items(), key=lambda key: key[1])},
                4,
            )
        else:
            for axes, panel in drawn:
                ends = [
                    (float(line.y[-1]), line.name, colour_of(line.style))
                    for line in panel.lines
                    if len(line.y)
                ]
                label_ends(axes, [*ends, *([(*panel.level, TEXT)] if panel.level else [])], gap)
        return figure


def _key(style: int) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour_of(style), markersize=5, linewidth=1.8, **marks_of(style))


def _legend(figure: Figure, keys: Mapping[str, Any], columns: int) -> None:
    """A legend of the whole figure, above its panels."""
    figure.legend(
        list(keys.values()), list(keys), loc="outside upper left", ncols=columns, frameon=False, fontsize=9,
        handlelength=3.2,
    )  # fmt: skip


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
                colour = colour_of(each.style)
                marker = marks_of(each.style)["marker"]
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


def cliques(ranking: Ranking) -> list[tuple[str, ...]]:
    """The largest groups of methods whose mean ranks lie within one critical difference: the bars of a diagram."""
    ordered = ranking.ordered
    ends: list[tuple[int, int]] = []
    for i in range(len(ordered)):
        last = max(
            j
            for j in range(i, len(ordered))
            if ordered[j][1] - ordered[i][1] < ranking.critical_difference
        )
        if last > i and (not ends or last > ends[-1][1]):
            ends.append((i, last))
    return [tuple(name for name, _ in ordered[i : j + 1]) for i, j in ends]


STEP = 0.32  # inches between two names, and between two bars, of the diagram below
BAR = 0.16


def critical_difference(
    ranking: Ranking, titles: Mapping[str, str], styles: Mapping[str, int]
) -> Figure:
    """Best ranks on the left; methods joined by a bar lie less than a critical difference apart (Demsar 2006)."""
    groups = cliques(ranking)
    k = len(ranking.ordered)
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
            x = 0.88 if side else k + 0.12
            y = -below - STEP * (i if side else k - 1 - i)
            axes.plot(
                [place, place, x],
                [0, y, y],
                **line | {"color": colour_of(styles[name]), "linewidth": 1.5},
            )
            ha = "right" if side else "left"
            axes.text(
                x,
                y,
                f" {titles[name]}  {place:.2f} ",
                clip_on=False,
                fontsize=9.5,
                ha=ha,
                va="center",
            )
        places = dict(ranking.ordered)
        for i, group in enumerate(groups, start=1):
            ends = [places[group[0]] - 0.04, places[group[-1]] + 0.04]
            axes.plot(ends, [-BAR * i] * 2, **line | {"linewidth": 4, "solid_capstyle": "butt"})
        return figure
