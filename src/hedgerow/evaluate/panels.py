"""What figures of several panels share: an empty figure, a legend above it, the key of the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.evaluate.plots import colour_of, marks_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD: dict[str, Any] = {"alpha": 0.13, "linewidth": 0}  # of a band around a line


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure without pyplot: no window, no global state. The size is in inches."""
    from matplotlib.figure import Figure as NewFigure

    return NewFigure(figsize=size, layout="constrained")


def legend_above(figure: Figure, handles: Sequence[Any], names: Sequence[str], columns: int) -> None:
    """A legend of the whole figure, above its panels."""
    figure.legend(
        handles, names, loc="outside upper left", ncols=columns, frameon=False, fontsize=9, handlelength=3.2
    )  # fmt: skip


def line_keys(numbers: Sequence[int], colours: Mapping[str, str]) -> list[Any]:
    """Lines of a legend, each in the style of its number."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=colour_of(j, colours), markersize=5, linewidth=1.8, **marks_of(j)) for j in numbers]
