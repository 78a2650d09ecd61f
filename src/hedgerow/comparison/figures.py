"""The figures of a comparison, each computed from the rows alone; the styles of the methods are the same in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.comparison.runs import ComparisonRuns
from hedgerow.core.arrays import Array
from hedgerow.evaluate import plots
from hedgerow.evaluate.folds import Row
from hedgerow.evaluate.panels import legend_above, new_figure
from hedgerow.evaluate.plots import Theme, colour_of, draw_line, from_zero, label_ends, marks_of, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (6.2, 4.0)  # inches: two stand beside each other
EXPERTS = 5  # experts that have a band of their own; the rest share one
CLASSES = 25  # up to so many are named and counted in the picture of mistakes among classes
FEW = 12  # up to so many have their numbers in it
LEAST = 10  # predictions of a bin that are enough to draw it


def running(runs: ComparisonRuns, theme: Theme = "light") -> Figure:
    """Mistakes so far along the stream."""
    rows = [row for name in runs.names for row in runs.of_method(name)]
    return _sized(plots.running_mistakes({"": rows}, runs.titles, theme))


def windowed(runs: ComparisonRuns, theme: Theme = "light") -> Figure:
    """Mistakes in a moving window of a tenth of the stream: how good each method is now, whatever was before."""
    with style(theme) as colours:
        figure, axes = _figure()
        ends = []
        for j, name in enumerate(runs.names):
            at, rates = runs.windowed(name)
            if rates.size:
                draw_line(axes, at, rates.mean(axis=0), j, colour_of(j, colours))
                ends.append((float(rates.mean(axis=0)[-1]), runs.titles[name], colour_of(j, colours)))
                axes.set_xlim(0, at[-1])
        axes.set(xlabel="labelled instances of the stream", ylabel="mistakes in the last tenth, %")
        from_zero([axes])
        label_ends(axes, ends)
        return figure


def weights(runs: ComparisonRuns, method: str, theme: Theme = "light") -> Figure:
    """Who was trusted when, in the first order."""
    row = _with_few_experts(runs.of_method(method)[0])
    return _sized(plots.expert_weights(row, f"{runs.titles[method]}, first order", theme))


def _sized(figure: Figure) -> Figure:
    figure.set_size_inches(*SIZE)
    return figure


def _with_few_experts(row: Row) -> Row:
    """The experts with the largest mean weights, in their order, and all others as one."""
    W = np.array(row["weights"])
    if W.shape[1] <= EXPERTS + 1:
        return row
    kept = np.sort(np.argsort(-W.mean(axis=0), kind="stable")[:EXPERTS])
    rest = np.setdiff1d(np.arange(W.shape[1]), kept)
    names = [*(row["experts"][i] for i in kept), f"{len(rest)} others"]
    return {**row, "experts": names, "weights": np.column_stack([W[:, kept], W[:, rest].sum(axis=1)])}


def discrepancy(runs: ComparisonRuns, theme: Theme = "light") -> Figure | None:
    """Distance between target and sources, relative to its first value; None where no method has one."""
    found = {name: rows for name in runs.names if (rows := [r for r in runs.of_method(name) if r["discrepancy"]])}
    if not found:
        return None
    with style(theme) as colours:
        figure, axes = _figure()
        axes.set_yscale("log")
        ends = []
        for name, rows in found.items():
            gaps, j = np.array(rows[0]["discrepancy"]).mean(axis=1), runs.names.index(name)
            ratio = np.maximum(gaps, 1e-12 * gaps.max()) / gaps[0]
            draw_line(axes, np.array(rows[0]["instances"]), ratio, j, colour_of(j, colours))
            ends.append((float(ratio[-1]), runs.titles[name], colour_of(j, colours)))
        axes.set(xlabel="instances of the stream", ylabel="discrepancy / its start (log scale)")
        axes.set_xlim(0, axes.dataLim.xmax)
        for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            which("{x:g}")
        label_ends(axes, ends)
        return figure


def reliability(runs: ComparisonRuns, theme: Theme = "light") -> Figure:
    """Confidence against how often it was right; on the diagonal a probability means what it says."""
    with style(theme) as colours:
        figure, axes = _figure((6.4, 4.6))
        axes.plot([0, 100], [0, 100], color=colours["text"], linewidth=0.9, linestyle=(0, (2, 3)))
        for j, name in enumerate(runs.names):
            bins = runs.bins(name)
            full = bins.count >= min(LEAST, bins.count.max())
            x, y = (100 * part[full] / bins.count[full] for part in (bins.confidence, bins.right))
            label, colour = runs.titles[name], colour_of(j, colours)
            axes.plot(x, y, color=colour, label=label, markersize=5, linewidth=1.6, clip_on=False, **marks_of(j))
        axes.set(xlabel="confidence, %", ylabel="right, %", xlim=(0, 100), ylim=(0, 100))
        _legend(figure)
        return figure


def confusion(runs: ComparisonRuns, method: str, theme: Theme = "light") -> Figure | None:
    """Who was taken for whom, each class as 100 %; None with more classes than a picture can show."""
    rows = runs.of_method(method)
    counts = confusion_counts(rows)
    classes = [str(label) for label in rows[0]["classes"]]
    if len(classes) > CLASSES:
        return None
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with style(theme) as colours:
        side = min(2.2 + 0.42 * len(classes), 9.0)
        figure, axes = _figure((side + 0.8, side))
        drawn = axes.imshow(share, cmap="Blues" if theme == "light" else "cividis", vmin=0, vmax=100)
        axes.grid(False)
        turned = 90 if max(map(len, classes)) > 3 else 0
        axes.set_xticks(range(len(classes)), classes, rotation=turned)
        axes.set_yticks(range(len(classes)), classes)
        axes.set(xlabel="taken for", ylabel="class", title=runs.titles[method])
        if len(classes) <= FEW:
            _write_shares(axes, share)
        figure.colorbar(drawn, ax=axes, label="% of the class", shrink=0.8).outline.set_visible(False)
        _recolour(axes, colours)
        return figure


def _write_shares(axes: Axes, share: Array) -> None:
    for i, j in zip(*np.nonzero(share >= 0.5), strict=True):
        ink = "#ffffff" if share[i, j] > 55 else "#222222"  # by what is behind, not by the theme
        axes.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", fontsize=8.5, color=ink)


def _recolour(axes: Axes, colours: Mapping[str, str]) -> None:
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, colors=colours["text"])


def confusion_counts(rows: list[Row]) -> Array:
    """Class x prediction, all orders together; a prediction that was none is left out.

    >>> confusion_counts([{"classes": ["a", "b"], "confusion": [[0, 0, 3], [0, 1, 1], [1, -1, 1]]}]).tolist()
    [[3, 1], [0, 0]]
    """
    K = len(rows[0]["classes"])
    counts = np.zeros((K, K), dtype=int)
    for true, said, count in (triple for row in rows for triple in row["confusion"]):
        if said >= 0:
            counts[true, said] += count
    return counts


def worth(runs: ComparisonRuns, theme: Theme = "light") -> Figure | None:
    """Points by which the mistakes rise without each source; None where that was not run."""
    found = {name: {w.source: w for w in each} for name in runs.names if (each := runs.worths(name))}
    if not found:
        return None
    sources = [w.source for w in runs.worths(next(name for name in runs.ranked if name in found))]
    step = 0.7 / len(found)
    with style(theme) as colours:
        figure, axes = _figure((7.4, 1.4 + 0.28 * len(sources) * max(len(found), 2)))
        for k, (name, worths) in enumerate(found.items()):
            places = np.arange(len(sources)) + (k - (len(found) - 1) / 2) * step
            j, points = runs.names.index(name), [worths[s].points for s in sources]
            spread = [worths[s].spread for s in sources] if runs.orders > 1 else None
            marks: Any = marks_of(j) | {"linestyle": "none"}
            axes.errorbar(
                points, places, xerr=spread, color=colour_of(j, colours), label=runs.titles[name], markersize=6,
                elinewidth=1.2, **marks,
            )  # fmt: skip
        axes.axvline(0, color=colours["text"], linewidth=1)
        axes.set_yticks(range(len(sources)), sources)
        axes.set_ylim(len(sources) - 0.5, -0.5)
        axes.set_xlabel("points more mistakes without it")
        _legend(figure)
        return figure


def _legend(figure: Figure) -> None:
    legend_above(figure, *figure.axes[0].get_legend_handles_labels(), 3)


def _figure(size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    figure = new_figure(size)
    return figure, figure.add_subplot()
