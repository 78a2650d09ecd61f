"""The demonstration: every method on embedded real digits, several orders of one stream, a table and a report.

Two settings side by side, because the choice of input matters as much as the choice of method: the authors' scaling,
and that of our own learner. Both are the reading of the released code; they differ in the preprocessing alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hedgerow.core.domains import split
from hedgerow.core.errors import unknown
from hedgerow.data import load
from hedgerow.lab import rows as results
from hedgerow.lab.compare import measure
from hedgerow.lab.figures import Line, Panel, draw, expert_weights
from hedgerow.lab.report import Figure, Report, Section, Table, count, figure, lowest, table, text
from hedgerow.lab.rows import Runs, curves
from hedgerow.lab.runner import Folder, Tell, Unit, run
from hedgerow.lab.tasks import SEED, WARMUP, Arrivals, Task
from hedgerow.methods import METHODS, OWN_STEPS

READING = "authors"
SETTINGS = {"as published": "row-minmax+unit", "our input": "+".join(OWN_STEPS)}  # the preprocessing of each
LAST = "oddm"  # the method whose weights and discrepancy are drawn: it has few experts, and their weights move
STREAM = "instances of the stream"


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
            "demo", target, name, lambda _: task, measure, setting, SEED, orders, READING,
            {"preprocess": steps, "random_state": SEED}, horizon=True,
        )
        for setting, steps in SETTINGS.items()
        for name in METHODS
    ]  # fmt: skip
    run(units, folder)
    runs = Runs.read(out)
    methods = _table(runs, target, orders, len(task.stream))
    return Demo(methods, runs, _report(runs, methods, task, orders).save(out))


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


def _table(runs: Runs, target: str, orders: int, n: int) -> Table:
    """Mistake rates in both settings and times, a row a method; the lowest rate of each setting is marked."""
    cells = {s: [runs.cell("demo", target, m, s) for m in METHODS] for s in SETTINGS}
    rates = [
        lowest([c and c.mean for c in column], [c and f"{c.mean:.1f} ± {c.sd:.1f} %" for c in column])
        for column in cells.values()
    ]
    parts = [runs.part("demo", target, name, next(iter(SETTINGS))) for name in METHODS]
    # the median, because a run that shared its core with something else says nothing about the method
    micro = [f"{(1e6 * part['seconds_online'] / part['n']).median():.0f}" for part in parts]
    offline = [f"{part['seconds_offline'].iloc[0]:.3f}" for part in parts]
    rows = zip([METHODS[name].title for name in METHODS], *rates, micro, offline, strict=True)
    header = ["method", *(f"mistakes, {setting}" for setting in SETTINGS), "µs an instance", "offline, s"]
    return table("demo-methods", header, rows, name="methods", orders=count(orders, "order"), n=n)


def _figures(runs: Runs, target: str) -> list[Figure]:
    panels, published = [], next(iter(SETTINGS))
    for setting in SETTINGS:
        parts = {name: runs.part("demo", target, name, setting) for name in METHODS}
        at = parts[LAST]["instances"].iloc[0]
        lines = [Line.over(runs.titles[name], runs.styles[name], at, curves(part)[1].T) for name, part in parts.items()]
        panels.append(Panel(setting, lines, STREAM, "mistakes so far, %", (0, at[-1])))
    gaps = []
    for name in ("oddm-fixed", LAST):
        distances = np.array(runs.part("demo", target, name, published)["discrepancy"].to_list()).mean(axis=2)
        gaps.append(Line.ratio(runs.titles[name], runs.styles[name], at, distances))
    title = "mean over the sources, as published"
    distance = Panel(title, gaps, STREAM, "discrepancy / its start (log scale)", (0, at[-1]))
    first = runs.part("demo", target, LAST, published).iloc[0]
    who = f"{runs.titles[LAST]}, as published, first order"
    mistakes = draw(panels, size=(4.7, 3.9), names="ends")
    weights = expert_weights(at, first["weights"], first["experts"], who)
    distances = draw([distance], size=(7.3, 3.9), names="ends", log="y")
    return [
        figure("demo-running-mistakes", mistakes, name="running-mistakes"),
        figure("demo-expert-weights", weights, name="expert-weights"),
        figure("demo-discrepancy", distances, name="discrepancy"),
    ]


def _report(runs: Runs, methods: Table, task: Task, orders: int) -> Report:
    warmup = len(task.warmup) if task.warmup else 0
    sources = ", ".join(source.name for source in task.sources)
    lead = text("demo", target=task.name, sources=sources, warmup=warmup)
    mistakes, weights, discrepancy = _figures(runs, task.name)
    sections = [
        Section("Mistakes and time", [methods, text("demo-settings")]),
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
