"""The curves of a study: mistakes against strength; for drift, mistakes in a window along the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import Array
from hedgerow.evaluate.plots import Theme, colour_of, draw_line, label_ends, marks_of, style
from hedgerow.paper.book import Row, rate
from hedgerow.study.findings import Measure, Pages, balanced, majority
from hedgerow.study.studies import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.1, 3.3)  # inches
NAMES = 1.3  # inches for the names of the lines
WINDOW = 4  # checkpoints: a tenth of the stream
SPREAD: dict[str, Any] = {"alpha": 0.13, "linewidth": 0}


def strengths(pages: Pages, theme: Theme = "light") -> Figure:
    """Mistakes against strength, a panel a kind; for rare classes a second one in which every class counts the same."""
    panels: list[tuple[Panel, Measure, str]] = [(panel, rate, "mistakes, %") for panel in pages.study.panels]
    if pages.study.name == "imbalance":
        panels.append((pages.study.panels[0], balanced, "mistakes, %, mean of the classes"))
    with style(theme) as colours:
        figure = _figure(len(panels))
        for i, (panel, measure, name) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), i)
            ends = [end for m in pages.methods if (end := _curve(axes, pages, panel, m, measure, colours))]
            if pages.study.name == "imbalance" and measure is rate:
                ends.append(_majority(axes, pages, panel))
            names = list(panel.points)
            axes.set_xticks(range(len(names)), names, rotation=20 if max(map(len, names)) > 9 else 0)
            axes.set(title=panel.title, xlabel=panel.axis, ylabel=name if i == 1 or measure is balanced else "")
            axes.set_xlim(-0.2, len(names) - 0.8)
            axes.set_ylim(bottom=0)
            _ends(axes, ends, last=i == len(panels) or measure is balanced)
        return figure


def _curve(
    axes: Axes, pages: Pages, panel: Panel, method: str, measure: Measure, colours: Mapping[str, str]
) -> tuple[float, str, str] | None:
    found = [(x, [measure(row) for row in pages.rows(method, p)]) for x, p in enumerate(panel.points.values())]
    x = np.array([at for at, rates in found if rates])
    if not len(x):
        return None
    mean, sd = (np.array([f(rates) for _, rates in found if rates]) for f in (np.mean, np.std))
    j = pages.book.styles()[method]
    colour = colour_of(j, colours)
    axes.fill_between(x, mean - sd, mean + sd, color=colour, **SPREAD)
    axes.plot(x, mean, color=colour, markersize=5, linewidth=1.8, **marks_of(j))
    return float(mean[-1]), pages.title(method), colour


def _majority(axes: Axes, pages: Pages, panel: Panel) -> tuple[float, str, str]:
    """The majority rule does not depend on the method: any method's rows have it."""
    heights = [np.mean([majority(r) for m in pages.methods for r in pages.rows(m, p)]) for p in panel.points.values()]
    axes.plot(range(len(heights)), heights, color="#888888", linewidth=1.2)
    return float(heights[-1]), "majority rule", "#888888"


def along(pages: Pages, theme: Theme = "light") -> Figure:
    """Mistakes in a window that ends at each place of the stream, a panel a point; changes are upright lines."""
    with style(theme) as colours:
        figure = _figure(len(pages.points))
        shared: Any = None
        for i, point in enumerate(pages.points, start=1):
            shared = axes = figure.add_subplot(1, len(pages.points), i, sharey=shared)
            ends = []
            for method in (m for m in pages.methods if pages.rows(m, point)):
                at, rates = windows(pages.rows(method, point))
                j = pages.book.styles()[method]
                colour = colour_of(j, colours)
                draw_line(axes, at, rates.mean(axis=0), j, colour)
                ends.append((float(rates.mean(axis=0)[-1]), pages.title(method), colour))
                for change in pages.rows(method, point)[0]["changes"]:
                    axes.axvline(change, color=colours["text"], linewidth=0.8, linestyle=(0, (2, 3)))
                axes.set_xlim(0, at[-1])
            axes.set(title=point, xlabel="instances of the stream")
            axes.set_ylim(bottom=0)
            _ends(axes, ends, last=i == len(pages.points))
        figure.axes[0].set_ylabel("mistakes in the last tenth of the stream, %")
        return figure


def windows(rows: Sequence[Row], width: int = WINDOW) -> tuple[Array, Array]:
    """Ends of the windows, and the mistakes in each in per cent (orders x windows).

    >>> windows([{"curve_at": [10, 20, 30], "curve": [5, 6, 6]}], width=1)[1].tolist()
    [[50.0, 10.0, 0.0]]
    """
    at = np.array([0, *rows[0]["curve_at"]])
    curves = np.array([[0, *row["curve"]] for row in rows if len(row["curve"]) == len(at) - 1], dtype=float)
    width = min(width, len(at) - 1)
    return at[width:], 100 * (curves[:, width:] - curves[:, :-width]) / (at[width:] - at[:-width])


def _ends(axes: Axes, ends: Sequence[tuple[float, str, str]], last: bool) -> None:
    """The names stand at the last panel only: the styles are the same in all."""
    if last:
        label_ends(axes, ends)


def _figure(panels: int) -> Figure:
    from matplotlib.figure import Figure as NewFigure  # a Figure without pyplot: no window, no global state

    return NewFigure(figsize=(PANEL[0] * panels + NAMES, PANEL[1]), layout="constrained")
