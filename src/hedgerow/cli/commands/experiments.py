"""Methods side by side: the paper's experiments, streams as they are, your own files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli import complete
from hedgerow.comparison.options import CompareOptions, InputFiles
from hedgerow.paper.options import PARTS, PaperOptions
from hedgerow.study.options import TARGETS, StudyOptions

ENGINE = "Where runs are done: local (processes), dask, dask://local:2 or dask://HOST:PORT, a Dask scheduler."

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
    jobs: Annotated[int, typer.Option(help="Processes; -1 takes every core.")] = PaperOptions.jobs,
    engine: Annotated[str, typer.Option(help=ENGINE)] = PaperOptions.engine,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else $HEDGEROW_DATA, else downloads.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results, report, tables and figures.")] = PaperOptions.out,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a folder that has results.")] = False,
    plugin: Annotated[list[str] | None, typer.Option(help="A Python file that registers a method of your own.")] = None,
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
    orders: Annotated[int, typer.Option(min=1, help="Orders of the stream.")] = StudyOptions.orders,
    jobs: Annotated[int, typer.Option(help="Processes; -1 takes every core.")] = StudyOptions.jobs,
    engine: Annotated[str, typer.Option(help=ENGINE)] = StudyOptions.engine,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else $HEDGEROW_DATA, else downloads.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results, report, tables and figures.")] = StudyOptions.out,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a folder that has results.")] = False,
    plugin: Annotated[list[str] | None, typer.Option(help="A Python file that registers a method of your own.")] = None,
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
    console = terminal.console(sys.stdout)
    for table in tables(chosen):
        console.print(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)
    console.print("Report:", style="bold")
    print(outcome.report)


def compare(
    source: Annotated[
        list[Path], typer.Option(help="A labelled source: a file, a folder or a 'pattern'; once for each.")
    ],
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
    jobs: Annotated[int, typer.Option(help="Processes; -1 takes every core.")] = CompareOptions.jobs,
    engine: Annotated[str, typer.Option(help=ENGINE)] = CompareOptions.engine,
    out: Annotated[Path, typer.Option(help="Folder for results, report, tables and figures.")] = CompareOptions.out,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in a folder that has results.")] = False,
    plugin: Annotated[list[str] | None, typer.Option(help="A Python file that registers a method of your own.")] = None,
) -> None:
    """Methods side by side on your own files: mistakes, calibration, time, what each source was worth; a report."""
    from hedgerow.cli import terminal
    from hedgerow.comparison.command import found
    from hedgerow.comparison.command import run as run_compare

    files = InputFiles(tuple(source), stream, label, unlabelled, warmup, time)
    chosen = CompareOptions(methods, orders, peers, jobs, out, resume, tuple(plugin or ()), engine)
    with terminal.progress() as progress:
        outcome = run_compare(files, chosen, sys.argv[1:], terminal.note, progress)
    if outcome.report is None:
        raise typer.Exit(outcome.code)
    verdict, tables, notes = found(out)
    console = terminal.console(sys.stdout)
    console.print(verdict, soft_wrap=True, markup=False)
    for table in tables:
        console.print(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)
    for note in notes:
        console.print(note, soft_wrap=True, markup=False)
    console.print("Report:", style="bold")
    print(outcome.report)
