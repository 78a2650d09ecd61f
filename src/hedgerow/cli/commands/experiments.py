"""Methods side by side: the paper's experiments, streams as they are, your own files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli import options
from hedgerow.cli.options import DataDir, Engine, Jobs, Orders, Out, Plugins, Resume, Sources
from hedgerow.lab import PARTS, TARGETS

if TYPE_CHECKING:
    from hedgerow.lab.report import Table
    from hedgerow.lab.runner import Folder

SHOWN = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # the methods of a study or comparison that names none

paper_app = typer.Typer(help="The paper's experiments, run again: its numbers beside ours.")


@paper_app.callback(invoke_without_command=True)
def paper(
    context: typer.Context,
    tasks: Annotated[
        str, typer.Option(help="all, or names joined by commas: PIE1..PIE5,amazon,caltech,dslr,webcam.")
    ] = "all",
    methods: Annotated[
        str, typer.Option(help="Names joined by commas, see `hedgerow methods`; all: the paper's seven.")
    ] = "all",
    trials: Annotated[int, typer.Option(min=1, help="Orders of each stream.")] = 20,
    splits: Annotated[int, typer.Option(min=1, help="Splits into unlabelled rows and stream, for the table.")] = 1,
    reading: Annotated[str, typer.Option(help="table, authors or paper: see `hedgerow methods --readings`.")] = "table",
    what: Annotated[
        str, typer.Option(help=f"Parts of the report, joined by commas, or all: {', '.join(PARTS)}.")
    ] = "table,curves,discrepancy,bound,stats,time",
    jobs: Jobs = -1,
    engine: Engine = "local",
    data_dir: DataDir = None,
    out: Out = Path("hedgerow-paper"),
    resume: Resume = False,
    plugin: Plugins = None,
) -> None:
    """The paper's tables and figures on its nine tasks, published numbers beside ours, and what explains the rest."""
    if context.invoked_subcommand is not None:
        return
    from hedgerow.lab.paper import run

    print(
        _filled(
            lambda folder: run(folder, tasks, methods, trials, splits, reading, what),
            out, resume, jobs, engine, plugin, data_dir,
        )
    )  # fmt: skip


@paper_app.command("report")
def paper_report(directory: Annotated[Path, typer.Argument(help="A folder that `hedgerow paper` wrote to.")]) -> None:
    """The report on results that are there; nothing is run."""
    from hedgerow.cli import terminal
    from hedgerow.lab.paper_report import report

    print(report(directory, terminal.note))


def study(
    name: Annotated[
        str,
        typer.Argument(help="Which study, or all; `hedgerow study --list` names them.", autocompletion=options.studies),
    ] = "",
    data: Annotated[str, typer.Option(help=f"One of {', '.join(TARGETS)}.")] = "digits",
    target: Annotated[
        str | None, typer.Option(help="Domain that streams, or several joined by commas; the others are sources.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Names joined by commas, see `hedgerow methods`.", autocompletion=options.methods)
    ] = SHOWN,
    orders: Orders = 5,
    jobs: Jobs = -1,
    engine: Engine = "local",
    data_dir: DataDir = None,
    out: Out = Path("hedgerow-study"),
    resume: Resume = False,
    plugin: Plugins = None,
    listing: Annotated[bool, typer.Option("--list", help="Name the studies; nothing is run.")] = False,
) -> None:
    """Streams as they are: labels late or missing, new classes, drift, imbalance, bad sources; the curve of each."""
    from hedgerow.cli import terminal
    from hedgerow.lab.study import listed, run, tables

    if listing:
        terminal.print_table(["name", "what it is about", "strengths or kinds"], listed())
        return
    report = _filled(
        lambda folder: run(folder, name, data, target, methods, orders), out, resume, jobs, engine, plugin, data_dir
    )
    _print_tables(tables(out, name))
    _print_report(report)


def compare(
    source: Sources,
    stream: Annotated[Path, typer.Option(help="The labelled stream, in its order in time.")],
    label: Annotated[str, typer.Option(help="The label column.")],
    unlabelled: Annotated[Path | None, typer.Option(help="Unlabelled rows of the target, known in advance.")] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Instead: the share of the stream's first rows to take as unlabelled, e.g. .3.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Names joined by commas, or all; see `hedgerow methods`.")] = SHOWN,
    time: Annotated[str | None, typer.Option(help="Sort the stream by this column; it is no feature.")] = None,
    orders: Annotated[
        int, typer.Option(min=1, help="Orders of the stream: 1 is the order in time, more are shuffled.")
    ] = 1,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also learners of scikit-learn and, if it is installed, river.")
    ] = False,
    jobs: Jobs = -1,
    engine: Engine = "local",
    out: Out = Path("hedgerow-compare"),
    resume: Resume = False,
    plugin: Plugins = None,
) -> None:
    """Methods side by side on your own files: mistakes, calibration, time, what each source was worth; a report."""
    from hedgerow.cli import terminal
    from hedgerow.lab.compare import run
    from hedgerow.lab.comparison import shown

    report = _filled(
        lambda folder: run(
            folder, source, stream, label, methods=methods, orders=orders, peers=peers, unlabelled=unlabelled,
            warmup=warmup, time=time,
        ),
        out, resume, jobs, engine, plugin,
    )  # fmt: skip
    verdict, tables, notes = shown(out)
    console = terminal.console(sys.stdout)
    console.print(verdict, soft_wrap=True, markup=False)
    _print_tables(tables)
    for note in notes:
        console.print(note, soft_wrap=True, markup=False)
    _print_report(report)


def _filled(
    run: Callable[[Folder], Path | None], out: Path, resume: bool, jobs: int, engine: str, plugins: list[str] | None,
    data_dir: Path | None = None,
) -> Path:  # fmt: skip
    """The report of an experiment that fills a folder; interrupted, it has said how to go on."""
    from hedgerow.cli import terminal
    from hedgerow.lab.runner import INTERRUPTED, Folder

    place = None if data_dir is None else str(data_dir)
    with terminal.progress() as tell:
        folder = Folder(out, resume, jobs, engine, place, tuple(plugins or ()), sys.argv[1:], terminal.note, tell)
        report = run(folder)
    if report is None:
        raise typer.Exit(INTERRUPTED)
    return report


def _print_tables(tables: Iterable[Table]) -> None:
    from hedgerow.cli import terminal

    for table in tables:
        terminal.console(sys.stdout).print(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)


def _print_report(path: Path) -> None:
    from hedgerow.cli import terminal

    terminal.console(sys.stdout).print("Report:", style="bold")
    print(path)
