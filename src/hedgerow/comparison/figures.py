"""Figures in one style: lines. Colours for every eye, readable in grey.

Each function returns a matplotlib Figure that belongs to no window. A method keeps its number, and with it colour, line
and marker, in every figure of a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.comparison.page import THEMES
from hedgerow.core.arrays import Array
from hedgerow.core.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT, PAPER, GRID = THEMES["light"].values()
# Okabe and Ito's palette without its yellow, which is lost on white; then more for further lines
COLOURS = (TEXT, "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
MORE = ("#882255", "#999933", "#44AA99", "#661100", "#6699CC")
LINES = (
    (0, (1, 1)),
    (0, (5, 1)),
    (0, (3, 1, 1, 1)),
    (0, (1, 2)),
    (0, (6, 2)),
    (0, (5, 1, 1, 1, 1, 1)),
    "solid",
)
MARKERS = ("o", "s", "^", "v", "D", "P", "X")
LEADER = {"arrowstyle": "-", "linewidth": 1.4, "shrinkA": 2, "shrinkB": 0, "relpos": (0, 0.5)}
DOTTED = (0, (2, 3))
GREY = "#888888"
SIZE = (6.2, 4.0)  # inches: two figures stand beside each other
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
    return {
        "linestyle": LINES[(j + again) % len(LINES)],
        "marker": MARKERS[(j + 2 * again) % len(MARKERS)],
    }


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


def draw_line(axes: Axes, line: Line, sparse: bool = True) -> None:
    """A line in the style of its number; `sparse`: about five markers, else every point has one."""
    colour = colour_of(line.style)
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.13, linewidth=0)
    every = max(len(line.x) // 5, 1)
    where: dict[str, Any] = {"markevery": (line.style % every, every)} if sparse else {}
    axes.plot(
        line.x, line.y, color=colour, markersize=5, linewidth=1.8, **marks_of(line.style), **where
    )


def along(lines: Sequence[Line], xlabel: str, ylabel: str) -> Figure:
    """Lines along a stream with their names at their ends."""
    with figure_of(*SIZE) as figure:
        axes = figure.add_subplot()
        for line in lines:
            draw_line(axes, line)
        axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, max(float(line.x[-1]) for line in lines)))
        from_zero([axes])
        label_ends(axes, [(float(line.y[-1]), line.name, colour_of(line.style)) for line in lines])
        return figure


def from_zero(panels: Sequence[Axes]) -> None:
    """One scale for panels: from 0 to a little above what is drawn in any of them, rates up to 100 %."""
    top = max(*(axes.dataLim.ymax for axes in panels), 1e-9)  # a method may make no mistake at all
    for axes in panels:
        axes.set_ylim(0, min(1.04 * top, 100.0) if "%" in panels[0].get_ylabel() else 1.15 * top)


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], gap: float = 0.062) -> None:
    """Names at the right end of their lines, pushed apart where they would overlap. Each end: (y, name, colour)."""
    axes.set_ylim(
        axes.get_ylim()
    )  # settles the limits: an automatic scale is not computed until somebody asks
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
    flat = isotonic_regression(
        np.asarray(heights)[order] - steps
    )  # names that collide share the mean of their places
    places = np.empty(len(order))
    places[order] = np.clip(flat, 0, max(1 - steps[-1], 0)) + steps
    return [float(place) for place in places]
