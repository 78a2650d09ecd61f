"""The critical-difference diagram: methods on a line of mean ranks, bars over those that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hedgerow.evaluate.plots import Theme, colour_of, style
from hedgerow.evaluate.stats import Ranking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP = 0.32  # inches between two names
BAR = 0.16  # inches between two bars


def critical_difference(
    ranking: Ranking, titles: Mapping[str, str], styles: Mapping[str, int], theme: Theme = "light"
) -> Figure:
    """Best ranks on the left; methods joined by a bar lie less than a critical difference apart (Demsar 2006)."""
    from matplotlib.figure import Figure as NewFigure

    ordered, groups, k = ranking.ordered, ranking.cliques(), len(ranking.names)
    left = (k + 1) // 2  # names of the better half stand on the left
    below = BAR * (len(groups) + 1) + 0.1
    height = 0.75 + below + STEP * left + 0.1
    with style(theme) as colours:
        figure = NewFigure(figsize=(8.2, height))
        axes = figure.add_axes((0.28, 0.0, 0.44, 1.0))
        axes.set(xlim=(1, k), ylim=(-(height - 0.75), 0.75))
        axes.axis("off")
        ink = colours["text"]
        axes.plot([1, k], [0, 0], color=ink, linewidth=1.2, clip_on=False)
        for rank in range(1, k + 1):
            axes.plot([rank, rank], [0, 0.07], color=ink, linewidth=1.2, clip_on=False)
            axes.text(rank, 0.1, str(rank), ha="center", va="bottom", fontsize=9)
        width = min(ranking.critical_difference, k - 1.0)
        axes.plot([1, 1 + width], [0.48, 0.48], color=ink, linewidth=1.2, marker="|", markersize=8, clip_on=False)
        axes.text(
            1 + width + 0.1, 0.48, f"critical difference {ranking.critical_difference:.2f}", va="center", fontsize=9
        )
        for i, (name, place) in enumerate(ordered):
            side = i < left
            line = i if side else k - 1 - i
            y = -below - STEP * line
            x = 0.88 if side else k + 0.12
            colour = colour_of(styles[name], colours)
            axes.plot([place, place, x], [0, y, y], color=colour, linewidth=1.5, clip_on=False)
            axes.text(
                x + (-0.08 if side else 0.08), y, f"{titles[name]}  {place:.2f}", clip_on=False, fontsize=9.5,
                ha="right" if side else "left", va="center",
            )  # fmt: skip
        places = dict(ordered)
        for i, group in enumerate(groups, start=1):
            ends = [places[group[0]] - 0.04, places[group[-1]] + 0.04]
            axes.plot(ends, [-BAR * i] * 2, color=ink, linewidth=4, solid_capstyle="butt", clip_on=False)
        return figure
