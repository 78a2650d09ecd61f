"""The demonstration: every method on embedded real digits, several orders of one stream, a table and a report.

Two settings side by side, because the choice of input matters as much as the choice of method: the authors' scaling,
and that of our own learner. Both are the reading of the released code; they differ in the preprocessing alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hedgerow.core.domains import split
from hedgerow.core.errors import InputError, unknown
from hedgerow.data import load
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.lab import rows as results
from hedgerow.lab.figures import Line, Panel, draw, expert_weights
from hedgerow.lab.report import Figure, Report, Section, Table, Value, count
from hedgerow.lab.rows import Row, Runs
from hedgerow.lab.runner import Folder, Tell, Unit, expert_losses, run
from hedgerow.lab.stream import prequential
from hedgerow.lab.tasks import WARMUP, Arrivals, Task
from hedgerow.methods import METHODS, OWN_STEPS

READING = "authors"
SETTINGS = {"as published": "row-minmax+unit", "our input": "+".join(OWN_STEPS)}  # the preprocessing of each
LAST = "oddm"  # the method whose weights and discrepancy are drawn: it has few experts, and their weights move
SEED = 0
EVERY = 10  # instances between two points of a curve
STREAM = "instances of the stream"
MEANING = (
    "Both columns show the same methods on the same instances; they differ only in how the features are scaled before "
    "anything else. Where a method leads in the left column and not in the right one, scaling the input better gives "
    "the others the same advantage."
)


@dataclass(frozen=True)
class Demo:
    """What the demonstration found: the table of methods, all runs, and the path of the report."""

    table: Table
    runs: Runs
    report: Path


def demo(
    out: Path, orders: int = 10, target: str = "shifted", jobs: int = 1, tell: Tell = lambda done, total, what: None
) -> Demo:
    """Run all methods over so many orders of the target's stream; figures, rows and the report go into `out`."""
    if orders < 1:
        raise InputError(f"orders={orders}: at least one order of the stream is needed")
    task = _task(target)
    folder = Folder(out, resume=True)
    folder.begin()
    folder.check(READING)
    (out / results.FILE).unlink(missing_ok=True)
    units = [
        Unit(
            "demo", target, name, lambda _: task, watch, setting, SEED, orders, READING,
            {"preprocess": steps, "random_state": SEED}, horizon=True,
        )
        for setting, steps in SETTINGS.items()
        for name in METHODS
    ]  # fmt: skip
    run(units, out, jobs=jobs, tell=tell)
    runs = Runs.read(out)
    table = _table(runs, target, orders, len(task.stream))
    return Demo(table, runs, _report(runs, table, task, orders).save(out))


def _task(target: str) -> Task:
    domains = load("digits")
    if target not in domains:
        raise unknown("target", target, domains)
    warmup, stream = split(domains[target], WARMUP, SEED)
    sources = tuple(domain for name, domain in domains.items() if name != target)
    n = len(stream)
    return Task(
        target, sources, warmup, stream,
        arrivals=lambda order: Arrivals(np.random.default_rng([SEED, order]).permutation(n)),
    )  # fmt: skip


def watch(unit: Unit, task: Task, clf: OnlineTransferClassifier, trial: int) -> Row:
    """Mistakes, weights and discrepancy along the stream; the time of the stream as one block.

    The clock runs over one block: calls for a few rows would mostly measure the calling.
    """
    order = task.arriving(trial).rows
    X, y = task.stream.X[order], np.asarray(task.stream.y)[order]
    (whole,) = prequential(copy.deepcopy(clf), X, y, [len(y)])
    ends = [*range(EVERY, len(y), EVERY), len(y)]
    curve, weights, distances = [], [], []
    for point in prequential(clf, X, y, ends):
        curve.append(point.mistakes)
        weights.append(clf.weights_.array.tolist())
        distances.append(clf.discrepancy_.array.tolist())
    return {
        **expert_losses(clf),
        "mistakes": whole.mistakes,
        "n": whole.labelled,
        "seconds_online": whole.seconds,
        "experts": clf.expert_names_,
        "sources": clf.source_names_,
        "curve_at": ends,
        "curve": curve,
        "weights": weights,
        "discrepancy": distances,
        "options": unit.options,
    }


def _table(runs: Runs, target: str, orders: int, n: int) -> Table:
    """Mistake rates in both settings and times, a row a method; the lowest rate of each setting is marked."""
    cells = {(m, s): cell for m in METHODS for s in SETTINGS if (cell := runs.cell("demo", target, m, s))}
    low = {s: min(round(cell.mean, 1) for (_, setting), cell in cells.items() if setting == s) for s in SETTINGS}
    rows = []
    for name in METHODS:
        part = runs.part("demo", target, name, next(iter(SETTINGS)))
        rates = [
            Value(f"{(c := cells[name, s]).mean:.1f} ± {c.sd:.1f} %", mark="best" if round(c.mean, 1) == low[s] else "")
            for s in SETTINGS
        ]
        # the median, because a run that shared its core with something else says nothing about the method
        micro = (1e6 * part["seconds_online"] / part["n"]).median()
        rows.append([METHODS[name].title, *rates, f"{micro:.0f}", f"{part['seconds_offline'].iloc[0]:.3f}"])
    header = ["method", *(f"mistakes, {setting}" for setting in SETTINGS), "µs an instance", "offline, s"]
    note = (
        f"Mean ± standard deviation over {count(orders, 'order')} of the same {n} instances, "
        "the lowest mean is marked. The spread is that of the order, not of the data. Times are of the setting as "
        "published, the stream given as one block, on one core."
    )
    return Table("methods", "", header, rows, note)


def _figures(runs: Runs, target: str) -> list[Figure]:
    panels = []
    for setting in SETTINGS:
        parts = {name: runs.part("demo", target, name, setting) for name in METHODS}
        at = np.array(parts[LAST]["curve_at"].iloc[0])
        curves = {name: 100 * np.array(part["curve"].to_list()) / at for name, part in parts.items()}
        lines = [Line.sd(runs.titles[name], runs.styles[name], at, Y) for name, Y in curves.items()]
        panels.append(Panel(setting, lines, STREAM, "mistakes so far, %", (0, at[-1])))
    published = next(iter(SETTINGS))
    gaps = []
    for name in ("oddm-fixed", LAST):
        distances = np.array(runs.part("demo", target, name, published)["discrepancy"].to_list()).mean(axis=2)
        ends = distances.mean(axis=0), distances.min(axis=0), distances.max(axis=0)
        gaps.append(Line(runs.titles[name], runs.styles[name], at, *ends))
    title = "mean over the sources, as published"
    distance = Panel(title, gaps, STREAM, "discrepancy (log scale)", (0, at[-1]))
    first = runs.part("demo", target, LAST, published).iloc[0]
    who = f"{runs.titles[LAST]}, as published, first order"
    mistakes = draw(panels, size=(4.7, 3.9), names="ends")
    weights = expert_weights(first["curve_at"], first["weights"], first["experts"], who)
    distances = draw([distance], size=(7.3, 3.9), names="ends", log="y")
    return [
        Figure(
            "running-mistakes",
            mistakes,
            "Mistakes so far in percent of the instances so far; left as published, right with our input.",
            "Lines are means over the orders, bands one standard deviation. Our input: square roots, then every domain "
            "about its own mean.",
        ),
        Figure(
            "expert-weights",
            weights,
            "Who is trusted when: the weights of the experts along the stream.",
            "'source x' (hatched) is the frozen classifier of source x, 'target via x' the one that learns from the "
            "stream in the space aligned with x.",
        ),
        Figure(
            "discrepancy",
            distances,
            "Sum of squared distances between the overall and class means of target and source in the aligned space.",
            "The target's are by the labels seen so far; bands reach from the lowest to the highest order. It is not "
            "relative to the spread of the data, which the refresh reduces too.",
        ),
    ]


def _report(runs: Runs, table: Table, task: Task, orders: int) -> Report:
    warmup = len(task.warmup) if task.warmup else 0
    lead = (
        "Real handwritten digits (scikit-learn's images of 8 x 8 pixels), dealt out to five domains that differ by a "
        f"computed distortion. Digits of the domain '{task.name}' arrive one by one; labelled ones of the four others "
        f"({', '.join(source.name for source in task.sources)}) and {warmup} unlabelled ones of '{task.name}' are "
        "known in advance. Each method predicts a digit, is then told its label, and learns."
    )
    mistakes, weights, discrepancy = _figures(runs, task.name)
    sections = [
        Section("Mistakes and time", [table, MEANING]),
        Section("Running mistakes", [mistakes]),
        Section("Who is trusted", [weights]),
        Section("How far apart the domains are", [discrepancy]),
    ]
    facts = {
        "command": f"hedgerow demo --target {task.name} --orders {orders}",
        "data": f"load('digits'): {warmup} warm-up rows, {len(task.stream)} in the stream, split seed {SEED}",
        "orders": f"{orders}, seeds ({SEED}, 0) to ({SEED}, {orders - 1})",
        "options": f"reading={READING!r}, horizon={len(task.stream)}, all others at their defaults; "
        + ", ".join(f"{setting}: preprocess={steps!r}" for setting, steps in SETTINGS.items()),
    }
    return Report(f"hedgerow: all methods on the '{task.name}' digits", lead, sections, facts)
