"""The pictures of the speed benchmark: how far beyond its goal each figure is, curves, the roofline."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.evaluate.plots import COLOURS, MARKERS, style, svg

Row = dict[str, Any]
DPI = 150


def draw(rows: list[Row], out: Path) -> list[Path]:
    """Every picture that the rows have something for, as SVG and PNG."""
    out.mkdir(parents=True, exist_ok=True)
    figures = {"speed-goals": goals(rows), "speed-roofline": roofline(rows)}
    for section, group in groupby([row for row in rows if "curve" in row], key=lambda row: row["section"]):
        figures[f"speed-{section}"] = curves(list(group))
    drawn = []
    for name, figure in figures.items():
        if figure is not None:
            (out / f"{name}.svg").write_text(svg(figure))
            figure.savefig(out / f"{name}.png", dpi=DPI, bbox_inches="tight")
            drawn.append(out / f"{name}.svg")
    return drawn


def margin(row: Row) -> float:
    """How many times better than its goal: 1 is just reached. Of several goals, by the one that is nearest.

    >>> margin({"limits": [("replay", "<=", 0.75), ("live", "<=", 0.5)], "replay": 0.25, "live": 1.0})
    0.5
    """
    ratios = [limit for limit in row["limits"] if limit[1] != "=="]
    return min(_margin(float(row[name]), sign, bound) for name, sign, bound in ratios or row["limits"])


def _margin(value: float, sign: str, bound: float) -> float:
    if sign == "==" or value <= 0 or bound <= 0:
        return 1.0 if value == bound else 0.0
    return value / bound if sign.startswith(">") else bound / value


def goals(rows: list[Row]) -> Any:
    """One bar a goal, on a logarithmic axis: what is right of 1 is reached."""
    from matplotlib.figure import Figure

    found = [(row["what"], margin(row)) for row in rows if row["limits"] and margin(row) > 0]
    if not found:
        return None
    with style() as colours:
        figure = Figure(figsize=(9, 0.32 * len(found) + 1.2))
        axes = figure.subplots()
        values = np.array([value for _, value in found])
        shades = [COLOURS[3] if value >= 1 else COLOURS[6] for value in values]
        axes.barh(np.arange(len(found)), np.log2(values), color=shades)
        axes.set_yticks(np.arange(len(found)), [what for what, _ in found], fontsize=8)
        axes.invert_yaxis()
        axes.axvline(0, color=colours["text"], linewidth=1)
        low, high = int(np.floor(np.log2(values.min()))), int(np.ceil(np.log2(values.max())))
        ticks = range(min(low, -1), max(high, 1) + 1)
        axes.set_xticks(list(ticks), [f"{2.0**t:g}" for t in ticks])
        axes.set_xlabel("times better than the goal (1: just reached)")
        return figure


def curves(rows: list[Row]) -> Any:
    """The curves of a section, one panel for each pair of axes; straight lines of slope 1 where both are log."""
    from matplotlib.figure import Figure

    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        panels.setdefault((row["curve"]["x_label"], row["curve"]["y_label"]), []).append(row)
    with style() as colours:
        figure = Figure(figsize=(4.2 * min(len(panels), 3), 3.4 * -(-len(panels) // 3)), layout="constrained")
        grid = figure.subplots(-(-len(panels) // 3), min(len(panels), 3), squeeze=False).ravel()
        for axes, ((x_label, y_label), group) in zip(grid, panels.items(), strict=False):
            for i, row in enumerate(group):
                colour = COLOURS[(i + 1) % len(COLOURS)]
                curve = row["curve"]
                axes.plot(
                    curve["x"], curve["y"], marker=MARKERS[i % 7], color=colour, label=curve.get("name", row["what"])
                )
            if group[0]["curve"].get("log", True):
                _log_axes(axes, [row["curve"] for row in group])
            axes.set_xlabel(x_label)
            axes.set_ylabel(y_label)
            axes.legend(fontsize=7, labelcolor=colours["text"])
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        return figure


def _log_axes(axes: Any, curves: list[Row]) -> None:
    """Logarithmic, with ticks at what was measured and plain numbers."""
    x = sorted({value for curve in curves for value in curve["x"]})
    y = [value for curve in curves for value in curve["y"]]
    heights = np.geomspace(min(y), max(y), 4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(x, [f"{value:,g}" for value in x])
    axes.set_yticks(heights, [f"{value:.2g}" for value in heights])
    axes.minorticks_off()


def roofline(rows: list[Row]) -> Any:
    """Flops a second over flops a byte: the slope is the memory's, the roof the matrix product's."""
    from matplotlib.figure import Figure

    roofs = [row["roof"] for row in rows if "roof" in row]
    points = [(row["roofline"].get("name", row["what"]), row["roofline"]) for row in rows if "roofline" in row]
    if not roofs or not points:
        return None
    roof = roofs[-1]
    rate, bends = roof["flops"], [roof["flops"] / roof[name] for name in ("bytes", "cached")]
    intensity = np.array([p["flops"] / p["bytes"] for _, p in points])
    with style() as colours:
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        x = np.geomspace(min(intensity.min(), *bends) / 3, max(intensity.max(), *bends) * 3, 200)
        for name, line in (("bytes", "solid"), ("cached", "dashed")):
            axes.plot(x, np.minimum(x * roof[name], rate) / 1e9, color=colours["text"], linestyle=line)
        for i, (what, p) in enumerate(points):
            y = p["flops"] / p["seconds"] / 1e9
            axes.plot(intensity[i], y, MARKERS[i % 7], color=COLOURS[1 + i % 6], label=what)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("flops a byte moved")
        axes.set_ylabel("Gflop/s")
        slopes = f"{roof['bytes'] / 1e9:.0f} GB/s from memory, {roof['cached'] / 1e9:.0f} GB/s from the cache (dashed)"
        axes.set_title(f"{rate / 1e9:.0f} Gflop/s in a matrix product, {slopes}")
        axes.legend(fontsize=7, labelcolor=colours["text"])
        return figure
