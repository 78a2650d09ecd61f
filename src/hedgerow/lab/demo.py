"""The demonstration: every method on embedded real digits, several orders of one stream, a table and a report.

Two settings side by side, because the choice of input matters as much as the choice of method: the authors' scaling,
and that of our own learner. Both are the reading of the released code; they differ in the preprocessing alone. Each is
a comparison of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hedgerow.core.domains import split
from hedgerow.core.errors import unknown
from hedgerow.data import load
from hedgerow.lab import rows as results
from hedgerow.lab.compare import COMPARED, SO_FAR, STREAM, Comparison, distances, measure, running
from hedgerow.lab.figures import Panel, draw, expert_weights
from hedgerow.lab.report import Figure, Part, Report, Section, Table, caption, count, figure, lowest, table, text
from hedgerow.lab.rows import Runs
from hedgerow.lab.runner import Folder, Tell, Unit, run
from hedgerow.lab.tasks import SEED, WARMUP, Arrivals, Task
from hedgerow.methods import METHODS, OWN_STEPS

READING = "authors"
SETTINGS = {"as published": "row-minmax+unit", "our input": "+".join(OWN_STEPS)}  # the preprocessing of each
LAST = "oddm"  # the method whose weights are drawn: it has few experts, and their weights move


@dataclass(frozen=True)
class Demo:
    """What the demonstration gives: the table of methods, all runs, and the path of the report."""

    table: Table
    runs: Runs
    report: Path


def demo(
    out: Path, orders: int = 10, target: str = "shifted", jobs: int = 1, tell: Tell = lambda done, total, what: None
) -> Demo:
    """Run all methods over so many orders of the target's stream; figures, rows and the report go into `out`."""
    folder = Folder(out, resume=True, jobs=jobs, tell=tell)
    folder.begin(orders=orders)
    task = _task(target)
    folder.check(READING)
    (out / results.FILE).unlink(missing_ok=True)
    units = [
        Unit(
            COMPARED, target, name, lambda _: task, measure, setting, SEED, orders, READING,
            {"preprocess": steps, "random_state": SEED}, horizon=True,
        )
        for setting, steps in SETTINGS.items()
        for name in METHODS
    ]  # fmt: skip
    run(units, folder)
    rows = results.read(out)[0]
    found = {s: Comparison([row | {"variant": ""} for row in rows if row["variant"] == s]) for s in SETTINGS}
    methods = _table(found, orders)
    return Demo(methods, Runs(rows), _report(found, methods, task, orders).save(out))


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


def _table(found: Mapping[str, Comparison], orders: int) -> Table:
    """Mistake rates in both settings and times, a row a method; the lowest rate of each setting is marked."""
    tables = [c.table.set_index("method").loc[c.methods] for c in found.values()]
    rates = [
        lowest(each["mistakes"], [f"{mean:.1f} ± {sd:.1f} %" for mean, sd in each[["mistakes", "sd"]].to_numpy()])
        for each in tables
    ]
    forms = {"microseconds": ".0f", "seconds_offline": ".3f"}
    times = [[f"{x:{form}}" for x in tables[0][name]] for name, form in forms.items()]
    first = next(iter(found.values()))
    rows = zip([first.titles[name] for name in first.methods], *rates, *times, strict=True)
    header = ["method", *(f"mistakes, {setting}" for setting in found), "µs an instance", "offline, s"]
    return table("demo-methods", header, rows, name="methods", orders=count(orders, "order"), n=first.n)


def _report(found: Mapping[str, Comparison], methods: Table, task: Task, orders: int) -> Report:
    n, warmup, first = len(task.stream), len(task.warmup or ()), next(iter(found.values()))
    panels = [Panel(setting, running(c), STREAM, SO_FAR, (0, n)) for setting, c in found.items()]
    row, who = first.of(LAST).iloc[0], f"{first.titles[LAST]}, as published, first order"
    weights, apart = expert_weights(row["instances"], row["weights"], row["experts"], who), distances(first)
    assert isinstance(apart, Figure)  # ODDM has a discrepancy
    sections: dict[str, list[Part]] = {
        "Mistakes and time": [methods, text("demo-settings")],
        "Running mistakes": [
            figure("demo-running-mistakes", draw(panels, size=(4.7, 3.9), names="ends"), name="running-mistakes")
        ],
        "Who is trusted": [figure("demo-expert-weights", weights, name="expert-weights")],
        "How far apart the domains are": [Figure(apart.name, apart.drawing, **caption("demo-discrepancy"))],
    }
    facts = {
        "command": f"hedgerow demo --target {task.name} --orders {orders}",
        "data": f"load('digits'): {warmup} warm-up rows, {n} in the stream, split seed {SEED}",
        "orders": f"{orders}, seeds ({SEED}, 0) to ({SEED}, {orders - 1})",
        "options": f"reading={READING!r}, horizon={n}, all others at their defaults; "
        + ", ".join(f"{setting}: preprocess={steps!r}" for setting, steps in SETTINGS.items()),
    }
    lead = text("demo", target=task.name, sources=", ".join(source.name for source in task.sources), warmup=warmup)
    made = [Section(title, parts) for title, parts in sections.items()]
    return Report(f"hedgerow: all methods on the '{task.name}' digits", lead, made, facts)
