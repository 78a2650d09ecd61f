"""The demonstration: every method on embedded real digits, several orders of one stream, a table and a report.

Two settings side by side, because the choice of input matters as much as the choice of method: the authors' scaling,
and that of our own learner. Both are the reading of the released code; they differ in the preprocessing alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgerow.core.errors import InputError
from hedgerow.data import load
from hedgerow.evaluate import plots
from hedgerow.evaluate.folds import Row, Summary, summarise
from hedgerow.experiment import page
from hedgerow.experiment.classifiers import classifier
from hedgerow.experiment.environment import circumstances
from hedgerow.experiment.tables import Table, Value, values
from hedgerow.experiment.trials import OnProgress, TransferTask, orders, trials
from hedgerow.methods import METHODS, OWN_STEPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READING = "authors"
SETTINGS = {"as published": "row-minmax+unit", "our input": "+".join(OWN_STEPS)}  # the preprocessing of each
TITLES = {name: METHODS[name].title for name in METHODS}
LAST = "oddm"  # the method whose weights and discrepancy are drawn: it has few experts, and their weights move
SEED = 0


@dataclass(frozen=True)
class Demo:
    """What the demonstration found: rows and summaries by setting, and the report."""

    task: TransferTask
    rows: dict[str, list[Row]]
    report: Path

    @property
    def summaries(self) -> dict[str, dict[str, Summary]]:
        """Summaries by setting and method."""
        return {setting: summarise(rows) for setting, rows in self.rows.items()}


def demo(
    out: Path, n_orders: int = 10, target: str = "shifted", jobs: int = 1, progress: OnProgress | None = None
) -> Demo:
    """Run all methods over `n_orders` orders of the target's stream; figures, rows and the report go into `out`."""
    if n_orders < 1:
        raise InputError(f"orders={n_orders}: at least one order of the stream is needed")
    task = TransferTask.of(load("digits"), target, seed=SEED)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}; choose another folder with --out") from error
    rows = {
        setting: _rows(task, steps, n_orders, jobs, i, progress) for i, (setting, steps) in enumerate(SETTINGS.items())
    }
    with (out / "results.jsonl").open("w", encoding="utf-8") as file:
        for setting, found in rows.items():
            file.writelines(json.dumps({"setting": setting, **row}) + "\n" for row in found)
    result = Demo(task, rows, (out / "report.html").resolve())
    pictures = _pictures(result, out)
    page.write(result.report, _page(result, pictures, n_orders))
    return result


def _rows(
    task: TransferTask, steps: str, n_orders: int, jobs: int, part: int, progress: OnProgress | None
) -> list[Row]:
    """All rows of a setting, sorted, so that the result does not depend on which worker was first."""
    length = len(task.stream)
    common: dict[str, Any] = {"horizon": length, "random_state": SEED}
    methods = {name: classifier(name, READING, preprocess=steps, **common) for name in METHODS}

    def tell(done: int, total: int, what: str) -> None:
        if progress is not None:
            progress(part * total + done, len(SETTINGS) * total, what)

    rows = trials(task, methods, orders(length, n_orders, SEED), jobs=jobs, every=10, progress=tell)
    place = {name: i for i, name in enumerate(methods)}
    return sorted(rows, key=lambda row: (place[row["method"]], row["order"]))


def _pictures(result: Demo, out: Path) -> dict[str, page.Picture]:
    published = next(iter(result.rows.values()))
    aligned = [row for row in published if row["method"] in ("oddm-fixed", LAST)]
    first = next(row for row in published if row["method"] == LAST)
    drawn: dict[str, tuple[Figure, str, str]] = {
        "running-mistakes": (
            plots.running_mistakes(result.rows, TITLES),
            "Running mistake rate of all methods along the stream, in two panels.",
            "Mistakes so far in percent of the instances so far; lines are means over the orders, bands one standard "
            "deviation. Left: as published. Right: square roots, then every domain about its own mean.",
        ),
        "expert-weights": (
            plots.expert_weights(first, f"{TITLES[LAST]}, as published, first order"),
            "Stacked weights of the experts along the stream.",
            "Who is trusted when. 'source x' (hatched) is the frozen classifier of source x, 'target via x' the one "
            "that learns from the stream in the space aligned with x.",
        ),
        "discrepancy": (
            plots.discrepancies(aligned, TITLES, "mean over the sources, as published"),
            "Discrepancy between target and sources along the stream on a log scale.",
            "Sum of squared distances between the overall and class means of target and source in the aligned space "
            "(the target's by the labels seen so far); bands reach from the lowest to the highest order. It is "
            "not relative to the spread of the data, which the refresh reduces too.",
        ),
    }
    pictures = {}
    for name, (figure, alt, caption) in drawn.items():
        figure.savefig(out / f"{name}.png", dpi=150, bbox_inches="tight")
        light = plots.svg(figure)
        pictures[name] = page.Picture(light, plots.darkened(light), alt, caption)
    return pictures


def table(result: Demo) -> Table:
    """Mistake rates in both settings and times, a row a method; the lowest rate of each setting is marked."""
    summaries = result.summaries
    published = next(iter(summaries.values()))
    header = ["method", *(f"mistakes, {setting}" for setting in summaries), "µs an instance", "offline, s"]
    lowest = {setting: min(round(s.mean, 1) for s in by_name.values()) for setting, by_name in summaries.items()}
    rows = []
    for name, summary in published.items():
        rates = [_rate(by_name[name], lowest[setting]) for setting, by_name in summaries.items()]
        times = [f"{summary.microseconds:.0f}", f"{summary.seconds_offline:.3f}"]
        rows.append(values([TITLES[name], *rates, *times]))
    return Table("methods", "", header, rows, _note(summary.orders, summary.n))


def _rate(summary: Summary, lowest: float) -> Value:
    return Value(f"{summary.mean:.1f} ± {summary.sd:.1f} %", mark="best" if round(summary.mean, 1) == lowest else "")


def _note(n_orders: int, n: int) -> str:
    counted = "1 order" if n_orders == 1 else f"{n_orders} orders"
    return (
        f"Mean ± standard deviation over {counted} of the same {n} instances, "
        "the lowest mean is marked. The spread is that of the order, not of the data. Times are of the setting as "
        "published, the stream given as one block, on one core."
    )


def _page(result: Demo, pictures: dict[str, page.Picture], n_orders: int) -> str:
    task = result.task
    warmup = 0 if task.warmup is None else len(task.warmup)
    sources = ", ".join(source.name for source in task.sources)
    lead = (
        "Real handwritten digits (scikit-learn's images of 8 x 8 pixels), dealt out to five domains that differ by a "
        f"computed distortion. Digits of the domain '{task.name}' arrive one by one; labelled ones of the four others "
        f"({sources}) and {warmup} unlabelled ones of '{task.name}' are known in advance. Each method predicts a "
        "digit, is then told its label, and learns."
    )
    sections: Sequence[page.Section] = [
        page.Section("Mistakes and time", [table(result), page.Text(MEANING)]),
        page.Section("Running mistakes", [pictures["running-mistakes"]]),
        page.Section("Who is trusted", [pictures["expert-weights"]]),
        page.Section("How far apart the domains are", [pictures["discrepancy"]]),
    ]
    facts = {
        "command": f"hedgerow demo --target {task.name} --orders {n_orders}",
        "data": f"load('digits'): {warmup} warm-up rows, {len(task.stream)} in the stream, split seed {SEED}",
        "orders": f"{n_orders}, seeds ({SEED}, 0) to ({SEED}, {n_orders - 1})",
        "options": f"reading={READING!r}, horizon={len(task.stream)}, all others at their defaults; "
        + ", ".join(f"{setting}: preprocess={steps!r}" for setting, steps in SETTINGS.items()),
        **circumstances(),
    }
    return page.page(f"hedgerow: all methods on the '{task.name}' digits", lead, sections, facts)


MEANING = (
    "Both columns show the same methods on the same instances; they differ only in how the features are scaled before "
    "anything else. Where a method leads in the left column and not in the right one, scaling the input better gives "
    "the others the same advantage."
)
