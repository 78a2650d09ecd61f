"""Methods side by side: the paper's experiments, streams as they are, your own files."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli import complete
from hedgerow.cli.commands.shared_options import DataDir, Engine, Jobs, Orders, Out, Plugins, Resume, Sources
from hedgerow.comparison.options import CompareOptions, InputFiles
from hedgerow.paper.options import PARTS, PaperOptions
from hedgerow.study.options import TARGETS, StudyOptions

if TYPE_CHECKING:
    from hedgerow.experiment.tables import Table

paper_app = typer.Typer(help="The paper's experiments, run again: its numbers beside ours.")


@paper_app.callback(invoke_without_command=True)
def paper(
    context: typer.Context,
    tasks: Annotated[
        str, typer.Option(help="all, or names joined by commas: PIE1..PIE5,amazon,caltech,dslr,webcam.")
    ] = PaperOptions.tasks,
    methods: Annotated[
        str, typer.Option(help="Names joined by commas, see `hedgerow methods`; all: the paper's seven.")
    ] = PaperOptions.methods,
    trials: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = PaperOptions.trials,
    splits: Annotated[
        int, typer.Option(min=1, help="Splits into unlabelled rows and stream, for the table.")
    ] = PaperOptions.splits,
    reading: Annotated[
        str, typer.Option(help="table, authors or paper: see `hedgerow methods --readings`.")
    ] = PaperOptions.reading,
    what: Annotated[
        str, typer.Option(help=f"Parts of the report, joined by commas, or all: {', '.join(PARTS)}.")
    ] = PaperOptions.what,
    jobs: Jobs = PaperOptions.jobs,
    engine: Engine = PaperOptions.engine,
    data_dir: DataDir = None,
    out: Out = PaperOptions.out,
    resume: Resume = False,
    plugin: Plugins = None,
) -> None:
    """The paper's tables and figures on its nine tasks, published numbers beside ours, and what explains the rest."""
    if context.invoked_subcommand is not None:
        return
    from hedgerow.cli import terminal
    from hedgerow.paper.command import run as run_paper

    folder = None if data_dir is None else str(data_dir)
    chosen = PaperOptions(
        tasks, methods, trials, splits, reading, what, jobs, folder, out, resume, tuple(plugin or ()), engine
    )
    with terminal.progress() as progress:
        outcome = run_paper(chosen, sys.argv[1:], terminal.note, progress)
    if outcome.report is None:
        raise typer.Exit(outcome.code)
    print(outcome.report)


@paper_app.command("report")
def paper_report(directory: Annotated[Path, typer.Argument(help="A folder that `hedgerow paper` wrote to.")]) -> None:
    """The report on results that are there; nothing is run."""
    from hedgerow.cli import terminal
    from hedgerow.paper.report import report

    print(report(directory, terminal.note))


def study(
    name: Annotated[
        str,
        typer.Argument(
            help="Which study, or all; `hedgerow study --list` names them.", autocompletion=complete.studies
        ),
    ] = "",
    data: Annotated[str, typer.Option(help=f"One of {', '.join(TARGETS)}.")] = StudyOptions.data,
    target: Annotated[
        str | None, typer.Option(help="Domain that streams, or several joined by commas; the others are sources.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Names joined by commas, see `hedgerow methods`.", autocompletion=complete.methods)
    ] = StudyOptions.methods,
    orders: Orders = StudyOptions.orders,
    jobs: Jobs = StudyOptions.jobs,
    engine: Engine = StudyOptions.engine,
    data_dir: DataDir = None,
    out: Out = StudyOptions.out,
    resume: Resume = False,
    plugin: Plugins = None,
    listing: Annotated[bool, typer.Option("--list", help="Name the studies; nothing is run.")] = False,
) -> None:
    """Streams as they are: labels late or missing, new classes, drift, imbalance, bad sources; the curve of each."""
    from hedgerow.cli import terminal
    from hedgerow.study.command import listed, tables
    from hedgerow.study.command import run as run_study

    if listing:
        terminal.print_table(["name", "what it is about", "strengths or kinds"], listed())
        return
    folder = None if data_dir is None else str(data_dir)
    chosen = StudyOptions(name, data, target, methods, orders, jobs, folder, out, resume, tuple(plugin or ()), engine)
    with terminal.progress() as progress:
        outcome = run_study(chosen, sys.argv[1:], terminal.note, progress)
    if outcome.report is None:
        raise typer.Exit(outcome.code)
    _print_tables(tables(chosen))
    _print_report(outcome.report)


def compare(
    source: Sources,
    stream: Annotated[Path, typer.Option(help="The labelled stream, in its order in time.")],
    label: Annotated[str, typer.Option(help="The label column.")],
    unlabelled: Annotated[Path | None, typer.Option(help="Unlabelled rows of the target, known in advance.")] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Instead: the share of the stream's first rows to take as unlabelled, e.g. .3.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Names joined by commas, or all; see `hedgerow methods`.")
    ] = CompareOptions.methods,
    time: Annotated[str | None, typer.Option(help="Sort the stream by this column; it is no feature.")] = None,
    orders: Annotated[
        int, typer.Option(min=1, help="Orders of the stream: 1 is the order in time, more are shuffled.")
    ] = CompareOptions.orders,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also learners of scikit-learn and, if it is installed, river.")
    ] = False,
    jobs: Jobs = CompareOptions.jobs,
    engine: Engine = CompareOptions.engine,
    out: Out = CompareOptions.out,
    resume: Resume = False,
    plugin: Plugins = None,
) -> None:
    """Methods side by side on your own files: mistakes, calibration, time, what each source was worth; a report."""
    from hedgerow.cli import terminal
    from hedgerow.comparison.command import run as run_compare

    files = InputFiles(tuple(source), stream, label, unlabelled, warmup, time)
    chosen = CompareOptions(methods, orders, peers, jobs, out, resume, tuple(plugin or ()), engine)
    with terminal.progress() as progress:
        outcome = run_compare(files, chosen, sys.argv[1:], terminal.note, progress)
    if outcome.report is None:
        raise typer.Exit(outcome.code)
    _print_comparison(out)
    _print_report(outcome.report)


def _print_comparison(out: Path) -> None:
    from hedgerow.cli import terminal
    from hedgerow.comparison.command import found

    verdict, tables, notes = found(out)
    console = terminal.console(sys.stdout)
    console.print(verdict, soft_wrap=True, markup=False)
    _print_tables(tables)
    for note in notes:
        console.print(note, soft_wrap=True, markup=False)


def _print_tables(tables: Iterable[Table]) -> None:
    from hedgerow.cli import terminal

    for table in tables:
        terminal.console(sys.stdout).print(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)


def _print_report(path: Path) -> None:
    from hedgerow.cli import terminal

    terminal.console(sys.stdout).print("Report:", style="bold")
    print(path)
