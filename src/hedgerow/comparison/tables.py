"""The tables of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.comparison.measures import FIRST
from hedgerow.comparison.runs import ComparisonRuns
from hedgerow.evaluate.stats import ALPHA
from hedgerow.experiment.tables import Table, Value, chance, signed, values

SHOWN = 12  # classes that the table of mistakes among them shows


def methods(runs: ComparisonRuns) -> Table:
    """A row a method, the fewest mistakes first; the best of each column is marked."""
    header = [
        "method", "mistakes, %", f"first {FIRST}, %", "last tenth, %", "worst tenth, %", "ECE, %", "Brier", "log-loss",
        "µs an instance", "offline, s",
    ]  # fmt: skip
    numbers = np.array([_numbers(runs, name) for name in runs.ranked])
    digits = (1, 1, 1, 1, 1, 3, 3, 0, 3)
    shown = np.array([[round(float(x), d) for x, d in zip(row, digits, strict=True)] for row in numbers])
    best = shown == np.nanmin(shown, axis=0)
    rows, records = [], []
    for name, line, mark in zip(runs.ranked, shown, best, strict=True):
        cells = [f"{x:.{d}f}" if x == x else "–" for x, d in zip(line, digits, strict=True)]
        cells[0] += f" ± {runs.cell(name).sd:.1f}" if runs.orders > 1 else ""
        marked = [Value(cell, mark="best" if m else "") for cell, m in zip(cells, mark, strict=True)]
        rows.append([Value(runs.titles[name]), *marked])
        records.append(record(runs, name))
    return Table("methods", "", header, rows, _note(runs), records)


def _numbers(runs: ComparisonRuns, name: str) -> Sequence[float]:
    found = record(runs, name)
    return [found[key] for key in NUMBERS]


NUMBERS = (
    "mistakes", "first", "last_tenth", "worst_tenth", "ece", "brier", "log_loss", "microseconds", "seconds_offline"
)  # fmt: skip


def record(runs: ComparisonRuns, name: str) -> dict[str, float]:
    """The numbers of a method, unrounded; shares in per cent."""
    cell, (_, rates) = runs.cell(name), runs.windowed(name)
    tenths = rates.mean(axis=0) if rates.size else np.array([np.nan])
    return {
        "method": name,  # type: ignore[dict-item]  # the one word of the record
        "mistakes": cell.mean, "sd": cell.sd, "orders": cell.orders, "n": runs.n, "first": runs.first(name),
        "last_tenth": float(tenths[-1]), "worst_tenth": float(tenths.max()), "ece": 100 * runs.bins(name).error,
        "brier": runs.mean(name, "brier"), "log_loss": runs.mean(name, "log_loss"),
        "microseconds": runs.microseconds(name), "seconds_offline": runs.mean(name, "seconds_offline"),
    }  # fmt: skip


def _note(runs: ComparisonRuns) -> str:
    counted = (
        f"mean ± standard deviation over {runs.orders} shuffled orders of the same {runs.n} instances"
        if runs.shuffled
        else f"of {runs.n} instances in their order in time"
    )
    peers = any(not row["experts"] for row in runs.rows)
    return (
        f"Mistakes {counted}, each predicted before its label was learned; the lowest of a column is marked. ECE: mean "
        "distance between confidence and share right. Times on one core, the stream given as one block"
        + ("; peers learn row by row" if peers else "")
        + "."
    )


def significance(runs: ComparisonRuns) -> Table | None:
    """The leader against the others; None without any."""
    rows = [
        [
            Value(runs.titles[pair.second]),
            Value(signed(pair.difference)),
            Value(str(pair.blocks)),
            Value(chance(pair.adjusted), mark="best" if pair.adjusted < ALPHA else ""),
        ]
        for pair in runs.pairs()
    ]
    if not rows:
        return None
    over = (
        f"Wilcoxon's signed ranks over {runs.orders} orders: a small p says that the difference does not depend on the "
        "order of this stream. It says nothing about other instances."
        if runs.by_orders
        else "McNemar's exact test on the instances that only one of the two got wrong"
        + (
            ", in the first order; more orders could be tested themselves. It takes"
            if runs.orders > 1
            else ". It takes"
        )
        + " instances for "
        "independent; those of a stream follow each other, so p is rather too small."
    )
    note = f"{runs.titles[runs.leader]} minus the method of the row, in points. {over} p is Holm-corrected."
    title = f"{runs.titles[runs.leader]} against the others"
    return Table("significance", title, ["method", "difference", "pairs that differ", "p"], rows, note)


def worth(runs: ComparisonRuns) -> Table | None:
    """What each source was worth to each method; None where that was not run."""
    found = {name: {w.source: w for w in runs.worths(name)} for name in runs.names}
    found = {name: worths for name, worths in found.items() if worths}
    if not found:
        return None
    sources = list(dict.fromkeys(source for worths in found.values() for source in worths))
    rows, records = [], []
    for source in sources:
        cells = [worths[source] for worths in found.values()]
        spread = [f" ± {w.spread:.1f}" if runs.orders > 1 else "" for w in cells]
        rows.append(values([source, *(signed(w.points) + s for w, s in zip(cells, spread, strict=True))]))
        records += [
            {"source": source, "method": m, "points": w[source].points, "sd": w[source].spread}
            for m, w in found.items()
        ]
    note = "Points by which the mistakes rise if the source is left out: below zero, the method does better without it."
    header = ["source", *(runs.titles[name] for name in found)]
    return Table("sources", "What each source was worth", header, rows, note, records)


def confused(runs: ComparisonRuns, method: str) -> Table:
    """Which classes a method takes for which, the most frequent mistakes first, as shares of the class."""
    rows = runs.of_method(method)
    classes = rows[0]["classes"]
    counts: dict[tuple[int, int], int] = {}
    for true, said, count in (triple for row in rows for triple in row["confusion"]):
        counts[true, said] = counts.get((true, said), 0) + count
    totals = {true: sum(c for (t, _), c in counts.items() if t == true) for true, _ in counts}
    wrong = sorted(
        ((c, pair) for pair, c in counts.items() if pair[0] != pair[1]), key=lambda each: (-each[0], each[1])
    )
    lines = [
        values([_name(classes, t), _name(classes, s), f"{c / len(rows):.3g}", f"{100 * c / totals[t]:.1f} %"])
        for c, (t, s) in wrong[:SHOWN]
    ]
    header = ["class", "taken for", "times", "of the class"]
    title = f"The most frequent mistakes of {runs.titles[method]}"
    return Table("confusion", title, header, lines, "Times are means over the orders." if len(rows) > 1 else "")


def _name(classes: Sequence[object], code: int) -> str:
    return str(classes[code]) if code >= 0 else "nothing yet"
