"""The pictures of docs/how-far-it-goes.md, from the recorded rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.evaluate.plots import COLOURS, MARKERS, MORE, style
from scale.model import Row
from scale.scenarios import BUSY, SCENARIOS

COLOUR = dict(
    zip((s.name for s in SCENARIOS), (COLOURS[5], COLOURS[3], COLOURS[1], COLOURS[4], COLOURS[6]), strict=True)
)
SHORT = {
    "fits": "hedgerow-linear, 20 features,\nkeys in memory",
    "own": "hedgerow, 20 features,\nkeys in memory",
    "wide": "hedgerow-linear, 800 features,\nkeys in memory",
    "billion": "hedgerow-linear, 20 features,\n10⁹ keys, all alike",
    "skew": "hedgerow-linear, 20 features,\n10⁹ keys, Zipf 1.0",
}
LIMIT_COLOUR = {
    "workers": COLOURS[5], "hottest worker": COLOURS[6], "broker network": COLOURS[3], "broker cores": COLOURS[1],
    "worker network": COLOURS[2], "worker disk": MORE[1], "checkpoint store": COLOURS[4],
}  # fmt: skip


def of(rows: Sequence[Row], scenario: str, load: float) -> list[Row]:
    found = [r for r in rows if r["kind"] == "workers" and r["scenario"] == scenario and r["load"] == load]
    return sorted(found, key=lambda r: r["workers"])


def sustained(rows: Sequence[Row], scenario: str) -> list[tuple[int, float]]:
    """The highest load that was tried and kept up with, by workers."""
    found: dict[int, float] = {}
    for r in rows:
        if r["kind"] == "workers" and r["scenario"] == scenario and r["kept_up"]:
            found[r["workers"]] = max(found.get(r["workers"], 0.0), r["rate"])
    return sorted(found.items())


def spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Places of labels, at least `gap` apart, in the order of what they name."""
    order, out, last = np.argsort(heights)[::-1], [0.0] * len(heights), np.inf
    for i in order:
        last = min(heights[i], last - gap)
        out[i] = last
    return out


def label_ends(axes: Any, ends: dict[str, tuple[float, float]]) -> None:
    """Names at the right of their lines instead of a legend."""
    low, high = np.log10(axes.get_ylim())
    logs = [float(np.log10(y)) for _, y in ends.values()]
    for (name, (x, y)), place in zip(ends.items(), spread_out(logs, 0.115 * (high - low)), strict=True):
        axes.annotate(
            SHORT[name], (x, y), (x * 1.35, 10**place), color=COLOUR[name], fontsize=8.5, va="center",
            arrowprops={"arrowstyle": "-", "color": COLOUR[name], "linewidth": 0.8}, annotation_clip=False,
        )  # fmt: skip


def throughput(rows: Sequence[Row], measured: Sequence[Row]) -> Any:
    """Rows a second over workers: simulated lines, measured points."""
    from matplotlib.figure import Figure

    with style() as colours:
        figure = Figure(figsize=(9.5, 5.2))
        axes = figure.subplots()
        figure.subplots_adjust(right=0.74)
        ends = {}
        for (name, colour), marker in zip(COLOUR.items(), MARKERS, strict=False):
            x, y = np.array(sustained(rows, name)).T
            axes.loglog(x, y, color=colour, marker=marker, markersize=4.5, linewidth=1.6)
            ends[name] = (float(x[-1]), float(y[-1]))
        for i, one in enumerate(measured):
            label = "measured, on cores of their own" if not i else None
            axes.plot(
                one["workers"], one["rows_a_second_alone"], "o", mfc="none", mec=colours["text"], ms=10, label=label
            )
        axes.set(xlabel="workers (a core each)", ylabel="rows a second, predicted and learned")
        axes.set_title("Throughput that is kept up with: lines simulated, circles measured")
        axes.legend(loc="upper left", frameon=False)
        label_ends(axes, ends)
    return figure


def latency(rows: Sequence[Row]) -> Any:
    """p50 and p99 over workers, at BUSY of what they can do."""
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(9.5, 5.2))
        axes = figure.subplots()
        figure.subplots_adjust(right=0.74)
        ends = {}
        for name, colour in COLOUR.items():
            some = of(rows, name, BUSY)
            x = [r["workers"] for r in some]
            axes.loglog(x, [1e3 * r["p99"] for r in some], color=colour, marker="o", markersize=4, linewidth=1.6)
            axes.loglog(x, [1e3 * r["p50"] for r in some], color=colour, linewidth=1.2, linestyle=(0, (2, 2)))
            ends[name] = (float(x[-1]), 1e3 * some[-1]["p99"])
        axes.set_yticks([20, 50, 100, 200, 500, 1000], ["20", "50", "100", "200", "500", "1,000"])
        axes.tick_params(axis="y", which="minor", labelleft=False)
        axes.set(xlabel="workers (a core each)", ylabel="milliseconds from a row's coming to its answer")
        axes.set_title(f"Latency at {BUSY:.0%} of capacity, simulated: p99 solid, p50 dotted")
        label_ends(axes, ends)
    return figure


def limits(rows: Sequence[Row]) -> Any:
    """For each scenario what each part could do; the lowest line is where it stops."""
    from matplotlib.figure import Figure

    with style() as colours:
        figure = Figure(figsize=(9.5, 6.6))
        panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
        figure.subplots_adjust(hspace=0.32, wspace=0.08)
        for axes, scenario in zip(panels, SCENARIOS, strict=False):
            some = of(rows, scenario.name, BUSY)
            x = np.array([r["workers"] for r in some])
            for name, colour in LIMIT_COLOUR.items():
                y = np.array([r["limits"].get(name, np.nan) for r in some], float)
                axes.loglog(x, y, color=colour, linewidth=1.5, label=name)
            axes.loglog(x, [r["capacity"] for r in some], color=colours["text"], linewidth=5, alpha=0.18)
            axes.set_title(SHORT[scenario.name], fontsize=9)
        panels[0].set_ylim(3e2, 2e9)
        for axes in (panels[2], *panels[3:5]):
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("workers")
        for axes in panels[::3]:
            axes.set_ylabel("rows a second")
        panels[5].axis("off")
        handles, labels = panels[4].get_legend_handles_labels()
        panels[5].legend(
            handles,
            labels,
            loc="center left",
            frameon=False,
            title="what each part could do alone;\ngrey band: the slowest",
        )
    return figure
