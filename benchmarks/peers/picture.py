"""peers.svg: mistakes over the time an instance takes, a panel a stream."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from peers.findings import best_lines
from peers.fold import Grid, own_line, rate, step_ms, title_of
from peers.registry import OURS

COLOURS = {
    "hedgerow": "#b5121b",
    "sklearn": "#1f77b4",
    "VW": "#9467bd",
    "skada": "#7f7f7f",
    "ADAPT": "#bcbd22",
    "river": "#2ca02c",
    "CapyMOA": "#e08214",
}
MARKS = "os^Dv<>pPX*hd"
COLUMNS = 3
LEAST = 0.01  # ms; what the clock cannot tell apart


def draw(grid: Grid, path: Path, backend: str = "svg") -> None:
    """The better setting of every peer; hollow where a run met its limit: its mistakes until then."""
    mpl.use(backend)
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "peers"  # the same rows make the same file
    lines = [*(own_line(name) for name in OURS), *best_lines(grid)]
    rows = -(-len(grid.tasks) // COLUMNS)
    figure, axes = plt.subplots(
        rows, COLUMNS, figsize=(11, 3 * rows + 2), layout="constrained", sharex=True, squeeze=False
    )
    shown: dict[str, object] = {}
    for ax in axes.flat[len(grid.tasks) :]:
        ax.set_visible(False)
    for ax, task in zip(axes.flat, grid.tasks, strict=False):
        for i, line in enumerate(lines):
            x, y = grid.mean(line, task, step_ms), grid.mean(line, task, rate)
            if x is None or y is None:
                continue
            own, colour = line.method in OURS, COLOURS[line.method.split()[0].split("-")[0]]
            face = colour if grid.finished(line, task) else "none"
            look = {"marker": MARKS[i % len(MARKS)], "s": 120 if own else 45, "zorder": 3 if own else 2}
            ax.scatter(max(x, LEAST), y, facecolor=face, edgecolor=colour, **look)
            shown[line.title.replace("**", "")] = ax.scatter([], [], color=colour, **look)
        ax.set(xscale="log", title=title_of(task))
        ax.set_ylim(0, min(1.08 * ax.dataLim.y1, 100))
        ax.tick_params(labelbottom=True)
        ax.grid(alpha=0.3)
    for ax in axes.flat[max(len(grid.tasks) - COLUMNS, 0) : len(grid.tasks)]:
        ax.set_xlabel("ms of CPU an instance")
    for ax in axes[:, 0]:
        ax.set_ylabel("mistakes, %")
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, **({"metadata": {"Date": None}} if backend == "svg" else {"dpi": 70}))
    plt.close(figure)
