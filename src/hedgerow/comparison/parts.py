"""Tables and figures of a comparison: each function makes one, or None where there is nothing to show."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.comparison import figures, page, tables, words
from hedgerow.comparison.figures import SIZE, Line, figure_of
from hedgerow.comparison.page import Figure
from hedgerow.comparison.peers import PEERS, REFIT
from hedgerow.comparison.results import curves
from hedgerow.comparison.tables import Table, Value, lowest

if TYPE_CHECKING:
    from hedgerow.comparison.found import Comparison, NumberComparison

TEXTS = words.Words("hedgerow.comparison")
text = TEXTS.text
table = partial(tables.table, TEXTS)
figure = partial(page.figure, TEXTS)

WINDOW = 4  # checkpoints: a tenth of a stream that has forty
LEAST = 10  # predictions of a bin that are enough to draw it
SHOWN = 12  # classes up to which their table is open; lines of the table of mistakes among them
STREAM = "instances of the stream"

# -- tables -----------------------------------------------------------------------------------------------------

BY_CLASS = {
    "recall": ".1f",
    "precision": ".1f",
    "auc": ".3f",
    "ap": ".3f",
    "recall_at": ".1f",
    "log_loss": ".3f",
}  # forms of the columns of classes


def data_table(c: Comparison) -> Table:
    """What each column is in each table, and what it becomes."""
    found = c.shared["found"]
    rows = found["columns"]
    return table("data", ["column", "becomes", *found["tables"]], rows, folded=True)


def methods_table(c: Comparison) -> Table:
    """A row a method, the fewest mistakes or the lowest error first; the best of each column is marked."""
    kind = "methods" if c.measure == "mistakes" else "learners"
    columns: list[list[Any]] = [[c.titles[name] for name in c.ranked]]
    for name, (_, form, best) in c.shown_columns.items():
        texts = [f"{x:{form}}" for x in c.table[name]]
        if name == "mistakes" and c.orders > 1:
            texts = [f"{text} ± {sd:.1f}" for text, sd in zip(texts, c.table["sd"], strict=True)]
        columns.append([*lowest(best * c.table[name], texts, form)] if best else texts)
    rows = [*zip(*columns, strict=True)]
    for title, rate in (("majority rule", c.majority), ("last label", c.last_label)):
        if rate == rate:
            of_rule = {"mistakes": f"{rate:.1f}"}
            rows.append((title, *(of_rule.get(name, "–") for name in c.shown_columns)))
    header = [kind.removesuffix("s"), *(title for title, _, _ in c.shown_columns.values())]
    peers = bool(PEERS.keys() & set(c.methods))
    return table(kind, header, rows, c.table.to_dict("records"), c=c, refit=REFIT, peers=peers)


def classes_table(c: Comparison) -> Table:
    """Class by class for the leader, the rarest first; the CSV has every method."""
    own = c.by_class.loc[c.leader].sort_values("instances", kind="stable")
    rows = [
        [
            label,
            times(line["instances"]),
            *(words.number(line[name], form) for name, form in BY_CLASS.items()),
        ]
        for label, line in own.iterrows()
    ]
    header = [
        "class",
        "instances",
        "recall, %",
        "precision, %",
        "AUC",
        "AP",
        "found, %",
        "log-loss",
    ]
    records = c.by_class.reset_index().to_dict("records")
    return table(
        "classes", header, rows, records, leader=c.titles[c.leader], folded=len(rows) > SHOWN
    )


def tests_table(c: Comparison) -> Table | str:
    """The leader against the others."""
    numbers = c.measure == "rmse"
    rows = [
        [c.titles[pair.second], f"{pair.difference:.3g}" if numbers else words.signed(pair.difference), pair.blocks,
         Value(words.chance(pair.adjusted), mark="best" * pair.clear)]
        for pair in c.pairs
    ]  # fmt: skip
    header = ["method", "difference", "pairs that differ", "p"]
    leader = c.titles[c.leader]
    return (
        table("significance", header, rows, c=c, leader=leader, numbers=numbers)
        if rows
        else text("one-method")
    )


def times(count: float) -> str:
    """A count as a count; a mean over orders with one decimal, where it is no whole number.

    >>> times(1234.0), times(2.5)
    ('1,234', '2.5')
    """
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"


def sources_table(c: Comparison) -> Table | str:
    """What each source was worth to each method, by its worth to the first."""
    if c.worth.empty:
        return text("no-source-left-out")
    methods = list(c.worth.index.unique("method"))
    sources = list(c.worth.loc[methods[0]].index)
    cells = {
        key: (words.signed(points) if c.measure == "mistakes" else f"{points:+.4g}")
        + (f" ± {sd:.1f}" if c.orders > 1 else "")
        for key, points, sd in c.worth.itertuples()
    }
    rows = [[source, *(cells[method, source] for method in methods)] for source in sources]
    records = (
        c.worth.swaplevel()
        .reindex([(source, method) for source in sources for method in methods])
        .reset_index()
    )
    header = ["source", *(c.titles[name] for name in methods)]
    return table("sources", header, rows, records.to_dict("records"), rmse=c.measure == "rmse")


def confusion_table(c: Comparison) -> Table:
    """Which classes the leader takes for which, the most frequent mistakes first, as shares of the class."""
    square = c.confusion(c.leader)
    orders = len(c.of(c.leader))
    names = {-1: "nothing yet", **dict(enumerate(c.shared["classes"]))}
    sizes = square.sum(axis=1)
    counts = square.stack().sort_values(ascending=False, kind="stable")
    wrong = [(i, j, n) for (i, j), n in counts.items() if i != j and n][:SHOWN]
    rows = [
        [names[i], names[j], times(n / orders), f"{100 * n / sizes[i]:.1f} %"] for i, j, n in wrong
    ]
    header = ["true class", "predicted", "times", "of the class"]
    return table("confusion", header, rows, leader=c.titles[c.leader], orders=orders)


# -- figures ----------------------------------------------------------------------------------------------------


def running(c: Comparison) -> Figure:
    """Mistakes so far along the stream, of each method."""
    lines = []
    for j, name in enumerate(c.methods):
        rows = c.of(name)
        lines.append(Line.over(c.titles[name], j, rows["instances"].iloc[0], curves(rows)[1].T))
    return figure(
        "running-mistakes", figures.along(lines, STREAM, "mistakes so far, %"), orders=c.orders
    )


def windowed(c: Comparison) -> Figure | None:
    """How good each method is now, whatever was before; None where labels are too few for windows."""
    windows = [curves(c.of(name), WINDOW) for name in c.methods]
    if not all(len(at) for at, _ in windows):
        return None
    lines = [
        Line(c.titles[m], j, at, Y.mean(axis=0))
        for j, (m, (at, Y)) in enumerate(zip(c.methods, windows, strict=True))
    ]
    return figure(
        "windowed-mistakes",
        figures.along(lines, f"labelled {STREAM}", "mistakes in the last tenth, %"),
    )


def reliability(c: Comparison) -> Figure:
    """Confidence against how often it was right."""
    lines = []
    for j, name in enumerate(c.methods):
        bins = c.bins(name)
        full = bins["count"] >= min(LEAST, bins["count"].max())
        x, y = (100 * bins[part][full] / bins["count"][full] for part in ("confidence", "right"))
        lines.append(Line(c.titles[name], j, x, y))
    with figure_of(*SIZE) as drawing:
        axes = drawing.add_subplot()
        for line in lines:
            figures.draw_line(axes, line, sparse=False)
        for drawn, line in zip(axes.lines, lines, strict=True):
            drawn.set(clip_on=False, label=line.name)  # markers at 0 and 100 % are whole
        drawing.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
        axes.plot([0, 100], [0, 100], color=figures.TEXT, linewidth=0.9, linestyle=figures.DOTTED)
        axes.set(xlabel="confidence, %", ylabel="right, %", xlim=(0, 100), ylim=(0, 100))
    return figure("reliability", drawing, least=LEAST)


def running_error(c: NumberComparison) -> Figure:
    """Error so far along the stream, over the deviation of the labels."""
    at = np.unique(np.linspace(1, c.n, min(c.n, 60)).astype(int))
    lines = [
        Line(c.titles[name], j, at, np.sqrt(np.cumsum(squares)[at - 1] / at))
        for j, (name, squares) in enumerate(c.squares.items())
    ]
    return figure(
        "running-error", figures.along(lines, "labels", "RMSE so far / deviation of the labels")
    )
