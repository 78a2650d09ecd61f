"""Figures of a run: running mistakes, expert weights, discrepancy. Colours for every eye, readable in grey.

Each function takes rows of `hedgerow.experiment.trials` and returns a matplotlib Figure that belongs to no window.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import require
from hedgerow.evaluate.folds import Row, by_method, mistake_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Theme = Literal["light", "dark"]

# Okabe and Ito's palette without its yellow, which is lost on white; the first colour is that of the text.
COLOURS = ("text", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
MORE = ("#882255", "#999933", "#44AA99", "#661100", "#6699CC")  # for further lines
LINES = ((0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 2)), (0, (6, 2)), (0, (5, 1, 1, 1, 1, 1)), "solid")
MARKERS = ("o", "s", "^", "v", "D", "P", "X")
LEADER = {"arrowstyle": "-", "linewidth": 1.4, "shrinkA": 2, "shrinkB": 0, "relpos": (0, 0.5)}
ROOM_ABOVE = 1.04  # an axis ends this much above its highest curve
THEMES = {
    "light": {"text": "#1f2328", "paper": "#ffffff", "grid": "#e3e6ea"},
    "dark": {"text": "#e6e9ed", "paper": "#16191d", "grid": "#333a42"},
}


@contextmanager
def style(theme: Theme = "light") -> Iterator[dict[str, str]]:
    """matplotlib's settings for a theme while the block runs; gives the theme's colours."""
    matplotlib = require("matplotlib", "plot")
    colours = THEMES[theme]
    settings = {
        "figure.facecolor": colours["paper"], "axes.facecolor": colours["paper"], "savefig.facecolor": colours["paper"],
        "text.color": colours["text"], "axes.labelcolor": colours["text"], "axes.edgecolor": colours["text"],
        "xtick.color": colours["text"], "ytick.color": colours["text"], "grid.color": colours["grid"],
        "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
        "axes.titlelocation": "left", "axes.titlesize": 11, "font.size": 10, "hatch.linewidth": 0.6,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        yield colours


def running_mistakes(
    panels: Mapping[str, Sequence[Row]], titles: Mapping[str, str] | None = None, theme: Theme = "light"
) -> Figure:
    """Running mistake rate of every method: means over the orders, bands of one deviation; a panel for each group."""
    with style(theme) as colours:
        figure = _figure(len(panels))
        shared: Any = None
        ends: dict[Axes, list[tuple[float, str, str]]] = {}
        for i, (title, rows) in enumerate(panels.items(), start=1):
            shared = axes = figure.add_subplot(1, len(panels), i, sharey=shared)
            ends[axes] = []
            for j, (method, group) in enumerate(by_method(rows).items()):
                instances, rates = mistake_rates(group)
                colour = colour_of(j, colours)
                mean, sd = rates.mean(axis=0), rates.std(axis=0)
                axes.fill_between(instances, mean - sd, mean + sd, color=colour, alpha=0.12, linewidth=0)
                draw_line(axes, instances, mean, j, colour)
                ends[axes].append((float(mean[-1]), (titles or {}).get(method, method), colour))
            axes.set(title=title, xlabel="instances of the stream")
            axes.set_xlim(0, instances[-1])
        from_zero(figure.axes)  # before the labels, whose places depend on it
        for axes, found in ends.items():
            label_ends(axes, found)
        figure.axes[0].set_ylabel("mistakes so far, %")
        return figure


def expert_weights(row: Row, title: str = "", theme: Theme = "light") -> Figure:
    """Who was trusted when: the experts' weights along one run, stacked to one."""
    with style(theme) as colours:
        figure = _figure(1)
        axes = figure.add_subplot()
        instances, weights = np.array(row["instances"]), np.array(row["weights"])
        ground = np.zeros(len(instances))
        ends = []
        domains = list(dict.fromkeys(_domain(name) for name in row["experts"]))
        for j, name in enumerate(row["experts"]):
            colour = COLOURS[1:][domains.index(_domain(name)) % len(COLOURS[1:])]
            frozen = name.startswith("source")
            top = ground + weights[:, j]
            axes.fill_between(
                instances, ground, top, facecolor=colour, alpha=0.8, edgecolor=colours["paper"], linewidth=0.8,
                hatch="///" if frozen else "",
            )  # fmt: skip
            ends.append(((ground[-1] + top[-1]) / 2, name, colour))
            ground = top
        axes.set(title=title, xlabel="instances of the stream", ylabel="weight", ylim=(0, 1))
        axes.set_xlim(instances[0], instances[-1])
        axes.grid(False)
        label_ends(axes, ends)
        return figure


def discrepancies(
    rows: Sequence[Row], titles: Mapping[str, str] | None = None, title: str = "", theme: Theme = "light"
) -> Figure:
    """Distance between target and sources along the stream, the mean over sources and orders; log scale."""
    with style(theme) as colours:
        figure = _figure(1)
        axes = figure.add_subplot()
        axes.set_yscale("log")
        ends: list[tuple[float, str, str]] = []
        for j, (method, group) in zip((5, 6, 3, 4, 1, 2, 0), by_method(rows).items(), strict=False):
            gaps = np.array([row["discrepancy"] for row in group]).mean(axis=2)
            instances, colour = np.array(group[0]["instances"]), colour_of(j, colours)
            axes.fill_between(instances, gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            draw_line(axes, instances, gaps.mean(axis=0), j, colour)
            ends.append((float(gaps.mean(axis=0)[-1]), (titles or {}).get(method, method), colour))
        axes.set(title=title, xlabel="instances of the stream", ylabel="discrepancy (log scale)")
        axes.set_xlim(0, axes.dataLim.xmax)
        label_ends(axes, ends)
        return figure


def from_zero(panels: Sequence[Axes]) -> None:
    """One scale for panels of mistake rates in per cent: from 0 to a little above what is drawn in any of them."""
    top = max(axes.dataLim.ymax for axes in panels)
    for axes in panels:
        axes.set_ylim(0, min(ROOM_ABOVE * top, 100.0))


def label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], gap: float = 0.062) -> None:
    """Names at the right end of their lines, pushed apart where they would overlap. Each end: (y, name, colour)."""
    axes.set_ylim(axes.get_ylim())  # settles the limits: an automatic scale is not computed until somebody asks
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((1.0, y))[1]) for y, _, _ in ends]
    for (_, name, colour), height, placed in zip(ends, heights, spread(heights, gap), strict=True):
        axes.annotate(
            name, xy=(1.0, height), xytext=(1.05, placed), xycoords="axes fraction", textcoords="axes fraction",
            va="center", fontsize=9,
            arrowprops={"color": colour, **LEADER},
        )  # fmt: skip


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The nearest places, in the same order, at least `gap` apart and, if there is room, inside [0, 1].

    >>> [round(h, 2) for h in spread([0.5, 0.5, 0.9], gap=0.1)]
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(heights, kind="stable")
    # Isotonic regression of h_i - i gap: groups that collide share the mean of their places.
    groups: list[list[float]] = []
    for rank, i in enumerate(order):
        groups.append([heights[i] - rank * gap])
        while len(groups) > 1 and np.mean(groups[-2]) > np.mean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    flat = np.concatenate([np.full(len(g), np.mean(g)) for g in groups]) if groups else np.empty(0)
    places = np.clip(flat, 0, max(1 - gap * (len(flat) - 1), 0)) + gap * np.arange(len(flat))
    out = [0.0] * len(places)
    for place, i in zip(places, order, strict=True):
        out[i] = float(place)
    return out


def svg(figure: Figure) -> str:
    """The figure as SVG text, letters drawn as paths: it looks the same where the font is missing."""
    matplotlib = require("matplotlib", "plot")
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "hedgerow"}):  # the same figure gives the same file
        figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def darkened(text: str) -> str:
    """A light figure's SVG on dark paper: the themes differ in three colours, so nothing need be drawn again.

    >>> darkened('<path style="stroke: #1f2328"/>')
    '<path style="stroke: #e6e9ed"/>'
    """
    for name, colour in THEMES["light"].items():
        text = text.replace(colour, THEMES["dark"][name])
    return text


def _figure(panels: int) -> Figure:
    from matplotlib.figure import Figure as NewFigure  # a Figure without pyplot: no window, no global state

    return NewFigure(figsize=(4.7 * panels + 0.9 if panels > 1 else 8.2, 3.9), layout="constrained")


def colour_of(j: int, colours: Mapping[str, str]) -> str:
    """The colour of the j-th line; `colours` are the theme's.

    >>> colour_of(0, THEMES["light"]), colour_of(1, THEMES["light"])
    ('#1f2328', '#E69F00')
    """
    colour = COLOURS[j] if j < len(COLOURS) else MORE[j % len(MORE)]
    return colours["text"] if colour == "text" else colour


def marks_of(j: int) -> dict[str, Any]:
    """Line and marker of the j-th line; after the first seven, other pairs of them."""
    again = j // len(MARKERS)
    return {"linestyle": LINES[(j + again) % len(LINES)], "marker": MARKERS[(j + 2 * again) % len(MARKERS)]}


def _domain(expert: str) -> str:
    """The domain in an expert's name: both experts of a domain share its colour."""
    return expert.removeprefix("source ").removeprefix("target via ")


def draw_line(axes: Axes, x: Array, y: Array, j: int, colour: str) -> None:
    """A line in the j-th style, with about five markers."""
    every = max(len(x) // 5, 1)
    axes.plot(x, y, color=colour, markersize=5, markevery=(j % every, every), linewidth=1.8, **marks_of(j))
