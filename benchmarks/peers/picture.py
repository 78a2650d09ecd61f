"""peers.svg: mistakes over the time an instance takes, a panel a family of streams."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from peers.findings import best_lines
from peers.fold import FAMILIES, Grid, family, own_line, rate, step_ms
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


def draw(grid: Grid, path: Path) -> None:
    """The better setting of every peer; only peers that finished all streams of a panel, so that averages compare."""
    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "peers"  # the same rows make the same file
    lines = [*(own_line(name) for name in OURS), *best_lines(grid)]
    marks = {line: MARKS[i % len(MARKS)] for i, line in enumerate(lines)}
    figure, axes = plt.subplots(2, 2, figsize=(11, 9.5), layout="constrained")
    shown: dict[str, object] = {}
    for ax, kind in zip(axes.flat, FAMILIES, strict=True):
        tasks = [t for t in grid.tasks if family(t) == kind]
        left_out = 0
        for line in lines:
            x, y = grid.average(line, tasks, step_ms), grid.average(line, tasks, rate)
            if x is None or y is None:
                left_out += 1
                continue
            colour, own = COLOURS[line.method.split()[0].split("-")[0]], line.method in OURS
            look = {"color": colour, "marker": marks[line], "s": 130 if own else 55, "zorder": 3 if own else 2}
            dot = ax.scatter(max(x, 1e-2), y, **look)
            shown[line.title.replace("**", "")] = dot
        ax.set(xscale="log", xlabel="ms of CPU an instance (predict and learn)", ylabel="mistakes, %")
        ax.set_title(f"{kind}: {len(tasks)} streams" + (f" ({left_out} peers did not finish)" if left_out else ""))
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})
