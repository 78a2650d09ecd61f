"""The page of a comparison: the verdict, the figures beside it, tables, and at the end what was run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.comparison import figures, tables
from hedgerow.comparison.run import LEFT_OUT, READING
from hedgerow.comparison.runs import ComparisonRuns
from hedgerow.comparison.stored_task import read_task
from hedgerow.comparison.verdict import verdict
from hedgerow.core.errors import InputError
from hedgerow.experiment import results
from hedgerow.experiment.command import commands_given
from hedgerow.experiment.environment import circumstances, commit
from hedgerow.experiment.page import Beside, Part, Picture, Section, Text, page, write
from hedgerow.experiment.tables import Table
from hedgerow.experiment.trials import TransferTask
from hedgerow.experiment.writer import FILE, Writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = tuple[str, "Figure | None", str, str]  # name, figure, what it shows, caption


def report(directory: str | Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """Write the report on a folder's results; nothing is run. The path of the page."""
    out = Path(directory)
    found = results.read_and_say(out, say)
    runs = ComparisonRuns.read(found)
    checksum = str(runs.rows[0]["data"])
    if any(row["data"] != checksum for row in runs.rows):
        raise InputError(f"{out / results.FILE} has rows of different data; choose another folder with --out")
    task = read_task(str(out.resolve()), checksum)
    return write(out / FILE, html(Writer(runs, out), facts(runs, task, commands_given(out)))).resolve()


def html(w: Writer[ComparisonRuns], about: dict[str, str]) -> str:
    """The page as text; its figures and tables are saved as files too."""
    runs = w.runs
    pictures = {name: w.picture(name, *rest) for name, *rest in drawn(runs)}  # type: ignore[arg-type]
    title = f"hedgerow: methods compared on {runs.task}"
    return page(title, verdict(runs), list(_sections(w, pictures)), about)


def drawn(runs: ComparisonRuns) -> Iterator[tuple[str, Figure, str, str]]:
    """Every figure that the rows can give: its name, itself, what it shows, and its caption."""
    for name, figure, alt, caption in _figures(runs):
        if figure is not None:
            yield name, figure, alt, caption


def _figures(runs: ComparisonRuns) -> Iterator[Drawn]:
    band = " Lines are means over the orders, bands one standard deviation." if runs.orders > 1 else ""
    yield (
        "running-mistakes", figures.running(runs), "Running mistake rate of every method along the stream.",
        f"Mistakes so far in per cent of the labels so far.{band}",
    )  # fmt: skip
    yield (
        "windowed-mistakes", figures.windowed(runs), "Mistakes of every method in a moving window.",
        "Mistakes in a window of a tenth of the stream: a rise that lasts hints at a change.",
    )  # fmt: skip
    own = trusted(runs)
    if own is not None:
        yield (
            "expert-weights", figures.weights(runs, own), "Stacked weights of the experts along the stream.",
            "Who is trusted when: the weights of the experts, the largest by name. Hatched: frozen on a source.",
        )  # fmt: skip
    yield (
        "discrepancy", figures.discrepancy(runs), "Discrepancy between target and sources along the stream.",
        "Squared distances between the class means of target and sources in the space of each method, mean over the "
        "sources, relative to the first checkpoint; only methods with such a space have a line.",
    )  # fmt: skip
    yield (
        "reliability", figures.reliability(runs), "Confidence against the share of right predictions.",
        "On the dotted line a probability means what it says; below it a method is too sure. Points of fewer than 10 "
        "predictions are left out.",
    )  # fmt: skip
    yield (
        "confusion", figures.confusion(runs, runs.leader), "Share of each class that was taken for each class.",
        f"What {runs.titles[runs.leader]} takes for what, in per cent of each class.",
    )  # fmt: skip
    yield (
        "sources", figures.worth(runs), "Points of mistakes that each source saves each method.",
        "Every method was run again without each source: right of the line, the source helps.",
    )  # fmt: skip


def trusted(runs: ComparisonRuns) -> str | None:
    """The best method of ours that has several experts; None without any."""
    return next((name for name in runs.ranked if len(runs.of_method(name)[0]["experts"]) > 1), None)


def _sections(w: Writer[ComparisonRuns], pictures: dict[str, Picture]) -> Iterator[Section]:
    runs = w.runs
    yield Section("Along the stream", [_row(pictures, "running-mistakes", "windowed-mistakes")], "stream")
    yield Section("Mistakes, calibration, time", [w.table(tables.methods(runs))], "methods")
    yield Section("Is it more than luck?", _parts(w, tables.significance(runs), NOTHING_TO_TEST), "significance")
    worth = _parts(w, tables.worth(runs), NOT_LEFT_OUT)
    yield Section("What each source was worth", [*_shown(pictures, "sources"), *worth], "sources")
    yield Section("Whether probabilities mean what they say", _shown(pictures, "reliability"), "calibration")
    confused = w.table(tables.confused(runs, runs.leader))
    yield Section("What is taken for what", [Beside([*_shown(pictures, "confusion"), confused])], "confusion")
    inside = _row(pictures, "expert-weights", "discrepancy")
    if inside.parts:
        yield Section("Inside", [inside], "inside")


NOTHING_TO_TEST = "Only one method was run: there is nothing to compare it with."
NOT_LEFT_OUT = (
    "No source was left out: that takes two sources, or one and unlabelled rows, and a method that uses them."
)


def _parts(w: Writer[ComparisonRuns], table: Table | None, otherwise: str) -> list[Part]:
    return [Text(otherwise)] if table is None else [w.table(table)]


def _shown(pictures: dict[str, Picture], *names: str) -> list[Part]:
    return [pictures[name] for name in names if name in pictures]


def _row(pictures: dict[str, Picture], *names: str) -> Beside:
    return Beside(_shown(pictures, *names))


def facts(runs: ComparisonRuns, task: TransferTask, command: str) -> dict[str, str]:
    """What was run, for the end of the report."""
    left = len({(row["method"], row["variant"]) for row in runs.rows if row["group"] == LEFT_OUT})
    order = f"{runs.orders} shuffled (seeds 0 to {runs.orders - 1})" if runs.shuffled else "one, that of the stream"
    found = {
        "command": command,
        "sources": ", ".join(f"{s.name} ({len(s)} rows)" for s in task.sources),
        "unlabelled": "none" if task.warmup is None else f"{task.warmup.name} ({len(task.warmup)} rows)",
        "stream": f"{task.stream.name} ({len(task.stream)} rows, {runs.n} labelled)",
        "table": f"{task.stream.X.shape[1]} columns, {len(runs.rows[0]['classes'])} classes",
        "columns": "; ".join(runs.notes),
        "data": str(runs.rows[0]["data"]),
        "methods": ", ".join(runs.titles[name] for name in runs.names),
        "options": f"reading={READING!r}, random_state=0, all others at their defaults",
        "orders": f"{order}; the same for every method",
        "results": f"{len(runs.rows)} runs, {left} of them cells without a source"
        if left
        else f"{len(runs.rows)} runs",
        "commit": commit(),
        **circumstances(),
    }
    return {name: text for name, text in found.items() if text}
