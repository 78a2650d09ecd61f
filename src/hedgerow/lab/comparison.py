"""What the rows of a comparison say: `Comparison`, its verdict, its tables and figures, and the page.

| measure  | of the probabilities p of an instance and its class y                 | best |
|----------|-----------------------------------------------------------------------|------|
| Brier    | sum_k (p_k - [k = y])^2, mean over the instances                       | 0    |
| log-loss | -ln max(p_y, 1e-6), mean over the instances                            | 0    |
| ECE      | |share right - mean confidence| of ten bins, mean over the instances   | 0    |

The confidence of a prediction is its largest probability. A class that was not known when an instance was predicted has
probability 0; the floor of the log-loss keeps one such instance from drowning all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError, require
from hedgerow.lab import figures
from hedgerow.lab import report as pages
from hedgerow.lab import rows as results
from hedgerow.lab.figures import Line, Panel
from hedgerow.lab.peers import PEERS
from hedgerow.lab.report import Beside, Figure, Section, Table, Value, chance, figure, lowest, signed, table, text
from hedgerow.lab.rows import Cell, Row, Runs, curves
from hedgerow.lab.runner import commands_given
from hedgerow.lab.stats import ALPHA, Pair, against, mcnemar
from hedgerow.lab.tasks import SEED

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

COMPARED, LEFT_OUT = "compare", "without"  # groups of rows: all sources, and one left out
READING = "general"  # what a user gets who sets nothing
FIRST = 50  # labelled instances that count as the start of a stream
WINDOW = 4  # checkpoints: a tenth of a stream that has forty
BINS, FLOOR = 10, 1e-6  # of confidence; of a probability in the log-loss
LEAST = 10  # predictions of a bin that are enough to draw it
EXPERTS = 5  # experts that have a band of their own; the rest share one
SHOWN = 12  # classes up to which their shares are written into the figure; lines of the table of mistakes among them
CLASSES = 25  # classes that a figure of mistakes among them can show
SIZE = (6.2, 4.0)  # inches: two figures stand beside each other


# -- scores of predictions --------------------------------------------------------------------------------------


def brier(p: Array, codes: Array) -> float:
    """The mean squared distance between the probabilities (a column a class) and what came.

    >>> brier(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 1]))
    0.25
    """
    return float(((p - np.eye(p.shape[1])[codes]) ** 2).sum(axis=1).mean())


def log_loss(p: Array, codes: Array) -> float:
    """The mean of -ln of the probability of the class that came, which counts as at least 1e-6.

    >>> round(log_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])), 3)
    7.254
    """
    return float(-np.log(np.maximum(p[np.arange(len(codes)), codes], FLOOR)).mean())


def reliability(p: Array, codes: Array) -> dict[str, list[float]]:
    """Predictions in bins of confidence: how many, the sum of their confidences, how many were right.

    >>> reliability(np.array([[0.95, 0.05], [0.45, 0.55]]), np.array([0, 0]))["right"]
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return {
        "count": np.bincount(bins, minlength=BINS).tolist(),
        "confidence": np.bincount(bins, weights=confidence, minlength=BINS).tolist(),
        "right": np.bincount(bins[right], minlength=BINS).tolist(),
    }


def calibration_error(bins: Mapping[str, Any]) -> float:
    """The expected calibration error of bins of confidence.

    >>> calibration_error(reliability(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1])))
    0.25
    """
    return float(np.abs(np.subtract(bins["right"], bins["confidence"])).sum() / max(np.sum(bins["count"]), 1))


def packed(wrong: Array) -> str:
    """Which labelled instances were mistakes, a bit each, as text.

    >>> packed(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1], dtype=bool))
    '8180'
    """
    return np.packbits(wrong).tobytes().hex()


def unpacked(row: Mapping[Any, Any]) -> Array:
    """The same from a row.

    >>> unpacked({"wrong": "8180", "n": 9}).astype(int).tolist()
    [1, 0, 0, 0, 0, 0, 0, 1, 1]
    """
    return np.unpackbits(np.frombuffer(bytes.fromhex(row["wrong"]), dtype=np.uint8))[: row["n"]].astype(bool)


# -- what the rows say ------------------------------------------------------------------------------------------


class Comparison:
    """A finished comparison, as `hedgerow.compare` returns it; a notebook shows its verdict, curves and table.

    Attributes
    ----------
    verdict : str
        What somebody should know who reads nothing else.
    table : pandas.DataFrame
        The numbers of each method, shares in per cent, the fewest mistakes first, equal ones by their log-loss.
    rows : pandas.DataFrame
        Every run: a method, perhaps without a source, in one order. `records` are the same as a folder has them.
    worth : pandas.DataFrame
        By how many points mistakes rise without a source, by method and source.
    pairs : list of Pair
        The leader against each other method, tested over the orders or over the instances of the first.
    plots : dict
        The figures by name, as matplotlib's.
    notes : list of str
        What the command line would print: that it shuffles, which peers are not installed.
    """

    def __init__(self, rows: list[Row], notes: Sequence[str] = ()) -> None:
        self.records, self.notes = rows, list(notes)
        self._runs = Runs(rows)
        if not self._runs.has(COMPARED):
            raise InputError("no results of a comparison; run `hedgerow compare --help` to see how")
        self.rows, [self.task] = self._runs.frame, self._runs.tasks(COMPARED)
        self.methods, self.titles = self._runs.methods(COMPARED), self._runs.titles  # ours in their order, then peers
        self.orders = min(len(self.of(name)) for name in self.methods)
        self.shared = self.of(self.methods[0]).iloc[0]  # what does not depend on the method is in every row
        self.shuffled, self.n = bool(self.shared["shuffled"]), int(self.shared["n"])
        table = require("pandas", "lab").DataFrame([self._numbers(name) for name in self.methods])
        self.table = table.sort_values(["mistakes", "log_loss"], key=lambda column: column.round(9), ignore_index=True)
        self.ranked = list(self.table["method"])
        self.leader = self.ranked[0]

    def __repr__(self) -> str:
        methods = ", ".join(self.methods)
        return f"Comparison of {methods} on {self.task}: {self.n} instances, {pages.count(self.orders, 'order')}"

    def of(self, method: str) -> pd.DataFrame:
        """The rows of a method with all sources, by order."""
        return self._runs.part(COMPARED, self.task, method)

    def _numbers(self, method: str) -> Row:
        rows, cell = self.of(method), self.cell(method)
        tenths = curves(rows, WINDOW)[1].mean(axis=0) if len(curves(rows, WINDOW)[0]) else np.full(1, np.nan)
        return {
            "method": method, "mistakes": cell.mean, "sd": cell.sd, "orders": cell.orders, "n": self.n,
            "first": float((100 * rows["first_mistakes"] / rows["first_n"]).mean()),
            "last_tenth": float(tenths[-1]), "worst_tenth": float(tenths.max()),
            "ece": 100 * calibration_error(self.bins(method)),
            "brier": float(rows["brier"].mean()), "log_loss": float(rows["log_loss"].mean()),
            # the median, because a run that shared its core says nothing about the method
            "microseconds": float((1e6 * rows["seconds_online"] / rows["instances"].str[-1]).median()),
            "seconds_offline": float(rows["seconds_offline"].mean()),
        }  # fmt: skip

    def cell(self, method: str) -> Cell:
        """Mistakes in per cent, with their spread over the orders."""
        cell = self._runs.cell(COMPARED, self.task, method)
        assert cell is not None  # of a method that has rows
        return cell

    def bins(self, method: str) -> dict[str, Array]:
        """Confidence against how often it was right, all orders together."""
        every = self.of(method)["bins"]
        return {name: np.sum([bins[name] for bins in every], axis=0) for name in ("count", "confidence", "right")}

    def confusion(self, method: str) -> pd.DataFrame:
        """How often which class was taken for which (-1: for none yet), all orders together."""
        triples = [triple for each in self.of(method)["confusion"] for triple in each]
        counts = require("pandas", "lab").DataFrame(triples, columns=["class", "prediction", "count"])
        return counts.groupby(["class", "prediction"], as_index=False).sum()

    @property
    def by_orders(self) -> bool:
        """Whether there are orders enough to test over them; else the instances of the first order are the pairs.

        If one method is better in every order, Wilcoxon's p is 2^(1 - orders), and Holm's at most so many times that
        as there are other methods: with fewer orders nothing could ever be significant.
        """
        return 2.0 ** (1 - self.orders) * (len(self.methods) - 1) < ALPHA

    @cached_property
    def pairs(self) -> list[Pair]:
        """The leader against every other method: over the orders, or over the instances of the first."""
        rows = {name: self.of(name).head(self.orders) for name in self.methods}
        if self.by_orders:
            return against({name: part["rate"].to_numpy() for name, part in rows.items()}, self.leader)
        return against({name: unpacked(part.iloc[0]) for name, part in rows.items()}, self.leader, mcnemar)

    @cached_property
    def worth(self) -> pd.DataFrame:
        """Points by which the mistakes of each method rise without each source, and their deviation over the orders.

        Indexed by method and source, the most valuable source of a method first; empty where none was left out.
        """
        without, whole = (self.rows[self.rows["group"] == group] for group in (LEFT_OUT, COMPARED))
        both = without.merge(whole[["method", "trial", "rate"]], on=["method", "trial"], suffixes=("", "_whole"))
        rises = (both["rate"] - both["rate_whole"]).groupby([both["method"], both["variant"].rename("source")])
        worth = rises.agg(points="mean", sd="std").fillna(0.0)
        return worth.sort_values("points", ascending=False, kind="stable").reindex(self.methods, level="method")

    @property
    def column_notes(self) -> list[str]:
        """What the encoder of tables left out, and which columns not every source has."""
        return list(dict.fromkeys(note for name in self.methods for notes in self.of(name)["notes"] for note in notes))

    @property
    def verdict(self) -> str:
        """What somebody should know who reads nothing else."""
        return _verdict(self)

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        return {figure.name: figure for drawn in FIGURES if (figure := drawn(self)) is not None}

    @property
    def plots(self) -> dict[str, Drawing]:
        """The figures by name, as matplotlib's."""
        return {name: figure.drawing for name, figure in self._figures.items()}

    def report(self, command: str) -> pages.Report:
        """The page: the verdict, the curves, tables, and at the end what was run."""

        def figures_of(*names: str) -> list[Figure]:
            return [self._figures[name] for name in names if name in self._figures]

        inside = figures_of("expert-weights", "discrepancy")
        sections = [
            Section("Along the stream", [Beside(figures_of("running-mistakes", "windowed-mistakes"))]),
            Section("Mistakes, calibration, time", [_methods_table(self)]),
            Section("Is it more than luck?", [_significance_table(self) or text("one-method")]),
            Section(
                "What each source was worth",
                [*figures_of("sources"), _sources_table(self) or text("no-source-left-out")],
            ),
            Section("Whether probabilities mean what they say", figures_of("reliability")),
            Section("What is taken for what", [Beside([*figures_of("confusion"), _confusion_table(self)])]),
            *([Section("Inside", [Beside(inside)])] if inside else []),
        ]
        return pages.Report(f"hedgerow: methods compared on {self.task}", self.verdict, sections, _facts(self, command))

    def save(self, folder: str | Path) -> Path:
        """The report, its figures and tables, and the rows into a new folder; the path of the report."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        if results.read(out)[0]:
            raise InputError(f"{out} holds results already; choose another folder")
        for row in self.records:
            results.append(out, row)
        return self.report("hedgerow.compare(...)").save(out)

    def _repr_html_(self) -> str:
        """The verdict, the curves and the table, for notebooks."""
        return "".join(map(pages.fragment, (self.verdict, self._figures["running-mistakes"], _methods_table(self))))


# -- the verdict ------------------------------------------------------------------------------------------------


def _verdict(c: Comparison) -> str:
    """Who leads and by how much, who starts best, whose probabilities are best, what the sources are worth."""
    second, first = (c.ranked[1] if len(c.methods) > 1 else ""), c.table.set_index("method")["first"]
    best, alike = c.table.loc[c.table["log_loss"].idxmin()], [p.second for p in c.pairs if not p.adjusted < ALPHA]
    user = next((name for name in c.ranked if name in c.worth.index), "")  # the best that was tried without each source
    return text(
        "compare-verdict", leader=c.titles[c.leader], cell=c.cell(c.leader).brief, n=c.n, task=c.task,
        second=c.titles.get(second, ""), behind=c.cell(second).mean - c.cell(c.leader).mean if second else 0.0,
        p=next((pair.adjusted for pair in c.pairs if pair.second == second), 1.0),
        tested="" if c.by_orders or c.orders == 1 else " on the instances of the first order", alike=second in alike,
        others=", ".join(c.titles[name] for name in alike if name != second), start=c.titles[first.idxmin()],
        first_n=min(FIRST, c.n), first_own=first[c.leader], first_best=first.min(), best=c.titles[best["method"]],
        log_loss=best["log_loss"], ece=best["ece"], user=c.titles.get(user, ""),
        worth=[(name, _change(points)) for name, points in c.worth.loc[user, "points"].items()] if user else [],
        shuffled=c.shuffled, orders=c.orders,
    )  # fmt: skip


def _change(points: float) -> str:
    """A change of the mistake rate in words.

    >>> _change(1.24), _change(-0.3), _change(0.01)
    ('1.2 points more mistakes', '0.3 points fewer', 'as many')
    """
    if abs(points) < 0.05:
        return "as many"
    return f"{points:.1f} points more mistakes" if points > 0 else f"{-points:.1f} points fewer"


# -- tables -----------------------------------------------------------------------------------------------------

COLUMNS = {  # of the table of methods: what stands above them, and digits
    "mistakes": ("mistakes, %", 1), "first": (f"first {FIRST}, %", 1), "last_tenth": ("last tenth, %", 1),
    "worst_tenth": ("worst tenth, %", 1), "ece": ("ECE, %", 1), "brier": ("Brier", 3), "log_loss": ("log-loss", 3),
    "microseconds": ("µs an instance", 0), "seconds_offline": ("offline, s", 3),
}  # fmt: skip


def _methods_table(c: Comparison) -> Table:
    """A row a method, the fewest mistakes first; the best of each column is marked."""
    columns: list[list[Any]] = [[c.titles[name] for name in c.ranked]]
    for name, (_, digits) in COLUMNS.items():
        texts = [f"{x:.{digits}f}" for x in c.table[name]]
        if name == "mistakes" and c.orders > 1:
            texts = [f"{text} ± {sd:.1f}" for text, sd in zip(texts, c.table["sd"], strict=True)]
        columns.append([*lowest(c.table[name], texts, digits)])
    header = ["method", *(title for title, _ in COLUMNS.values())]
    peers = bool(PEERS.keys() & set(c.methods))
    words: dict[str, Any] = {"shuffled": c.shuffled, "orders": c.orders, "n": c.n, "peers": peers}
    return table("methods", header, zip(*columns, strict=True), c.table.to_dict("records"), **words)


def _significance_table(c: Comparison) -> Table | None:
    """The leader against the others; None without any."""
    rows = [
        [c.titles[pair.second], signed(pair.difference), pair.blocks,
         Value(chance(pair.adjusted), mark="best" if pair.adjusted < ALPHA else "")]
        for pair in c.pairs
    ]  # fmt: skip
    header, leader = ["method", "difference", "pairs that differ", "p"], c.titles[c.leader]
    return table("significance", header, rows, leader=leader, by_orders=c.by_orders, orders=c.orders) if rows else None


def _sources_table(c: Comparison) -> Table | None:
    """What each source was worth to each method, by its worth to the first; None where that was not run."""
    if c.worth.empty:
        return None
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[methods[0]].index)
    cells = {key: signed(points) + (f" ± {sd:.1f}" if c.orders > 1 else "") for key, points, sd in c.worth.itertuples()}
    rows = [[source, *(cells[method, source] for method in methods)] for source in sources]
    records = c.worth.swaplevel().reindex([(source, method) for source in sources for method in methods]).reset_index()
    header = ["source", *(c.titles[name] for name in methods)]
    return table("sources", header, rows, records.to_dict("records"))


def _confusion_table(c: Comparison) -> Table:
    """Which classes the leader takes for which, the most frequent mistakes first, as shares of the class."""
    counts, names = c.confusion(c.leader), {-1: "nothing yet", **dict(enumerate(c.shared["classes"]))}
    counts["share"] = 100 * counts["count"] / counts.groupby("class")["count"].transform("sum")
    wrong = counts[counts["class"] != counts["prediction"]].sort_values("count", ascending=False, kind="stable")
    orders = len(c.of(c.leader))
    rows = [
        [names[own], names[other], f"{times / orders:.3g}", f"{share:.1f} %"]
        for own, other, times, share in wrong.head(SHOWN).itertuples(index=False)
    ]
    header = ["class", "taken for", "times", "of the class"]
    return table("confusion", header, rows, leader=c.titles[c.leader], orders=orders)


# -- figures ----------------------------------------------------------------------------------------------------


def _along(lines: Sequence[Line], xlabel: str, ylabel: str, log: str = "") -> Drawing:
    """Lines along the stream, with their names at their ends."""
    xlim = (0, max(float(line.x[-1]) for line in lines))
    drawing = figures.draw([Panel("", lines, xlabel, ylabel, xlim)], names="ends", log=log)
    drawing.set_size_inches(*SIZE)
    return drawing


def _running(c: Comparison) -> Figure:
    """Mistakes so far along the stream."""
    lines = [
        Line.over(c.titles[name], j, c.of(name)["instances"].iloc[0], curves(c.of(name))[1].T)
        for j, name in enumerate(c.methods)
    ]
    drawing = _along(lines, "instances of the stream", "mistakes so far, %")
    return figure("running-mistakes", drawing, orders=c.orders)


def _windowed(c: Comparison) -> Figure | None:
    """How good each method is now, whatever was before; None where labels are too few for windows."""
    windows = [curves(c.of(name), WINDOW) for name in c.methods]
    if not all(len(at) for at, _ in windows):
        return None
    lines = [
        Line(c.titles[m], j, at, Y.mean(axis=0)) for j, (m, (at, Y)) in enumerate(zip(c.methods, windows, strict=True))
    ]
    drawing = _along(lines, "labelled instances of the stream", "mistakes in the last tenth, %")
    return figure("windowed-mistakes", drawing)


def _weights(c: Comparison) -> Figure | None:
    """Which experts were trusted when, in the first order of the best method that has several."""
    method = next((name for name in c.ranked if len(c.of(name)["experts"].iloc[0]) > 1), None)
    if method is None:
        return None
    row, title = c.of(method).iloc[0], f"{c.titles[method]}, first order"
    drawing = figures.expert_weights(row["instances"], row["weights"], row["experts"], title, most=EXPERTS)
    drawing.set_size_inches(*SIZE)
    return figure("expert-weights", drawing)


def _distances(c: Comparison) -> Figure | None:
    """Distance between target and sources, relative to its first value; None where no method has one."""
    lines = []
    for j, name in enumerate(c.methods):
        means = np.array([np.mean(each, axis=1) for each in c.of(name)["discrepancy"] if each])
        if len(means) and (means[:, 0] > 0).all():
            lines.append(Line.ratio(c.titles[name], j, c.of(name)["instances"].iloc[0], means))
    if not lines:
        return None
    drawing = _along(lines, "instances of the stream", "discrepancy / its start (log scale)", log="y")
    drawing.axes[0].yaxis.set_minor_formatter("{x:g}")
    return figure("distances", drawing, name="discrepancy")


def _reliability(c: Comparison) -> Figure:
    """Confidence against how often it was right."""
    lines = []
    for j, name in enumerate(c.methods):
        bins = c.bins(name)
        full = bins["count"] >= min(LEAST, bins["count"].max())
        x, y = (100 * bins[part][full] / bins["count"][full] for part in ("confidence", "right"))
        lines.append(Line(c.titles[name], j, x, y))
    drawing = figures.draw([Panel("", lines, "confidence, %", "right, %", xlim=(0, 100))], size=SIZE, sparse=False)
    [axes] = drawing.axes
    for drawn in axes.lines:
        drawn.set_clip_on(False)  # markers at 0 and 100 % are whole
    axes.plot([0, 100], [0, 100], color=figures.TEXT, linewidth=0.9, linestyle=figures.DOTTED)
    axes.set_ylim(0, 100)
    return figure("reliability", drawing, least=LEAST)


def _confusion(c: Comparison) -> Figure | None:
    """What the leader takes for what, each class as 100 %; None with more classes than a figure can show."""
    classes, leader = [str(label) for label in c.shared["classes"]], c.titles[c.leader]
    K = len(classes)
    if K > CLASSES:
        return None
    counts = c.confusion(c.leader).pivot(index="class", columns="prediction", values="count")
    square = counts.reindex(index=range(K), columns=range(K)).fillna(0).to_numpy()  # without predictions that were none
    share = 100 * square / np.maximum(square.sum(axis=1, keepdims=True), 1)
    side = min(2.2 + 0.42 * K, 9.0)
    with figures.figure_of(side + 0.8, side) as drawing:
        axes = drawing.add_subplot()
        image = axes.imshow(share, cmap="Blues", vmin=0, vmax=100)
        axes.grid(False)
        axes.set_xticks(range(K), classes, rotation=90 if max(map(len, classes)) > 3 else 0)
        axes.set_yticks(range(K), classes)
        axes.set(xlabel="taken for", ylabel="class", title=leader)
        for i, j in zip(*np.nonzero(share >= 0.5), strict=True) if K <= SHOWN else ():
            ink = "#fefefe" if share[i, j] > 55 else "#222222"  # by what is behind, and no colour that a theme changes
            axes.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", fontsize=8.5, color=ink)
        drawing.colorbar(image, ax=axes, label="% of the class", shrink=0.8).outline.set_visible(False)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return figure("confusion-shares", drawing, name="confusion", leader=leader)


def _worth(c: Comparison) -> Figure | None:
    """Points by which the mistakes rise without each source, ordered by the best method; None if that was not run."""
    if c.worth.empty:
        return None
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[next(name for name in c.ranked if name in methods)].index)
    series = []
    for name in methods:
        worth = c.worth.loc[name].reindex(sources)
        errors = worth["sd"].tolist() if c.orders > 1 else None
        series.append(figures.Dots(c.titles[name], c.methods.index(name), worth["points"].tolist(), errors))
    size, step = (6.2, 0.6 + 0.28 * len(sources) * max(len(methods), 2)), 0.7 / len(methods)
    xlabel = "points more mistakes without it"
    drawing = figures.dots({"": series}, sources, xlabel, columns=1, size=size, step=step)
    return figure("sources-left-out", drawing, name="sources")


FIGURES = (_running, _windowed, _weights, _distances, _reliability, _confusion, _worth)


def _facts(c: Comparison, command: str) -> dict[str, str]:
    """What was run, for the end of the report."""
    domains, left = c.shared["domains"], len(c.worth)
    orders = f"{c.orders} shuffled (seeds 0 to {c.orders - 1})" if c.shuffled else "one, that of the stream"

    def counted(rows: Mapping[str, int], more: str = "") -> str:
        return ", ".join(f"{name} ({n} rows{more})" for name, n in rows.items())

    facts = {
        "command": command,
        "sources": counted(domains["sources"]),
        "unlabelled": counted(domains["unlabelled"]) or "none",
        "stream": counted(domains["stream"], f", {c.n} labelled"),
        "table": f"{domains['columns']} columns, {len(c.shared['classes'])} classes",
        "columns": "; ".join(c.column_notes),
        "data": str(c.shared["data"]),
        "methods": ", ".join(c.titles[name] for name in c.methods),
        "options": f"reading={READING!r}, random_state={SEED}, all others at their defaults",
        "orders": f"{orders}; the same for every method",
        "results": f"{len(c.records)} runs" + (f", {left} of them cells without a source" if left else ""),
        "commit": pages.commit(),
    }
    return {name: text for name, text in facts.items() if text}


def report(out: Path) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    return Comparison(results.read(out)[0]).report(commands_given(out)).save(out)


def shown(out: Path) -> tuple[str, list[Table], list[str]]:
    """The verdict, the tables and the notes about columns over the rows that are there, for the terminal."""
    c = Comparison(results.read(out)[0])
    return c.verdict, [table for table in (_methods_table(c), _sources_table(c)) if table], c.column_notes
