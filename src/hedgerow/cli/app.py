"""The command line: every command, in the order of the help. What a command does is imported when it is called.

The help of an option stands in the section Parameters of its command's docstring (`options.documented`). What hedgerow
refuses, and what the system does not let it write, is one line and an exit code, not a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.cli import options, terminal
from hedgerow.cli.config import Config, config_app, environment
from hedgerow.cli.options import Columns, Csv, DataDir, Experiment, Jobs, Method, Orders, Sources, Words
from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.lab import PARTS, TARGETS
from hedgerow.live import Settings
from hedgerow.run import Job
from hedgerow.service.settings import ServiceSettings

if TYPE_CHECKING:
    from hedgerow.lab.report import Table
    from hedgerow.lab.runner import Folder

SHOWN = "pa,paio,homotlms,oddm,hedgerow,hedgerow-linear"  # the methods of a study or comparison that names none

app = typer.Typer(
    name="hedgerow",
    help="Online transfer learning: labelled sources in advance, a target stream, good predictions from the first row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
paper_app = typer.Typer(help="The paper's experiments, run again: its numbers beside ours.")


def main() -> None:
    """Run the command line."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except HedgerowError as error:
        terminal.error(str(error))
        sys.exit(2)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what could not be written is not tried again at exit
        if error.errno != errno.EPIPE:  # whoever read it has gone
            where = f" ({error.filename})" if error.filename else ""
            terminal.error(f"the system refused: {error.strerror or error}{where}")
        sys.exit(1)


def _version(asked: bool) -> None:
    if asked:
        import hedgerow

        print(f"hedgerow {hedgerow.__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of every command."""
    warnings.showwarning = lambda message, *_, **__: terminal.note(f"warning: {message}")


@options.command(app)
def demo(
    out: Annotated[Path, typer.Option()] = Path("hedgerow-demo"), orders: Orders = 10, target: str = "shifted",
    jobs: Jobs = -1,
) -> None:  # fmt: skip
    """All methods side by side on embedded digits: a table, three figures and a report.

    Parameters
    ----------
    out
        Folder for the report, the figures and the results.
    target
        Domain that streams; the others are sources.
    """
    from hedgerow.lab.demo import demo as run_demo

    with terminal.progress() as progress:
        result = run_demo(out, orders, target, jobs, progress)
    terminal.print_table(result.table.header, result.table.texts, numbers=True, best=result.table.best)
    terminal.print_line(result.table.note, style="dim")
    _print_report(result.report)


@options.command(app)
def methods(readings: bool = False) -> None:
    """The methods and what they are made of.

    Parameters
    ----------
    readings
        Show the presets of the options instead.
    """
    from hedgerow.methods import METHODS, as_table

    def words(value: object) -> str:
        if value is None:
            return "the method's own"
        return " + ".join(map(str, value)) if isinstance(value, tuple) else str(value)

    if readings:
        rows = as_table()
        terminal.print_table(list(rows[0]), [[words(value) for value in row.values()] for row in rows])
    else:
        header = ["name", "title", "spaces", "frozen experts", "online from", "mixer", "refresh", "reference"]
        parts = [(name, METHODS[name]) for name in METHODS]
        terminal.print_table(header, [(name, r.title, *r.row().values(), r.reference) for name, r in parts])


@options.command(app)
def data(data_dir: DataDir = None) -> None:
    """The data sets that load() knows, and where each one is."""
    from hedgerow.data import available

    header = ["name", "domains", "rows", "features", "classes", "where"]
    rows = [(a.name, ", ".join(a.domains), a.rows, a.features, a.classes, a.where) for a in available(data_dir)]
    terminal.print_table(header, rows)


@options.command(app, short=["output"])
def fit(
    source: Sources,
    label: str,
    output: Path,
    columns: Columns,
    csv: Csv,
    unlabelled: Path | None = None,
    method: Method = "hedgerow",
    reading: Annotated[str, typer.Option(autocompletion=options.readings)] = "general",
    option: Words = None,
    engine: str | None = None,
    from_journal: Path | None = None,
    task: str | None = None,
    coverage: list[float] | None = None,
) -> None:
    """Fit a model on labelled source files and, better, some unlabelled rows of the target.

    Parameters
    ----------
    label
        The label column of the sources.
    output
        Where the model goes (.safetensors).
    unlabelled
        Unlabelled rows of the target.
    reading
        Preset of the options: general, authors, paper or table.
    option
        key=value for the classifier, e.g. dim=50.
    engine
        local: sources in memory; dask, dask://local:2 or dask://HOST:PORT: Parquet in partitions. Without it: local, if
        half of the free memory is enough for the sources.
    from_journal
        The folder of a live model: its rows are those of the target, and what it learned is learned again.
    task
        classify or regress. Without it the labels tell: text and few whole numbers are classes, fractions are numbers.
    coverage
        The share of labels that sets of classes or intervals of numbers are to contain; may be repeated. Without it
        numbers have intervals of .9, classes no sets.
    """
    from hedgerow.cli.fit_files import check_output, fit_files, parse_options, summary
    from hedgerow.rows.inputs import written_with

    check_output(output, [*source, *([unlabelled] if unlabelled else [])])
    arguments = {**parse_options(option or [], method, reading), **columns.table}
    with written_with(csv.delimiter, csv.decimal, terminal.note):
        fitted = fit_files(source, label, unlabelled, arguments, engine, from_journal, task, coverage)
    fitted.clf.save(output)
    header, rows, lines = summary(fitted)
    terminal.print_table(header, rows)
    for line in (*lines, f"model saved to {output}"):
        terminal.print_line(line)


@options.command(app, short=["model", "input", "output"], context_settings=environment("run"))
def run(
    job: Job,
    csv: Csv,
    label_timeout: float | None = None,
    max_pending: int | None = None,
    snapshot_every: int | None = None,
    keep_events: int | None = None,
    config: Config = None,
) -> None:
    """Predict each row of a stream before learning its label.

    Parameters
    ----------
    label_timeout
        Seconds after which a label is no longer awaited (journal).
    max_pending
        Rows that may wait for their labels; 100000 at first.
    snapshot_every
        Labels between two snapshots of the journal; 5000 at first.
    keep_events
        Rows with their labels that stay in the journal; 100000 at first.
    """
    from hedgerow.rows.inputs import written_with
    from hedgerow.run.loop import run as run_job

    asked: dict[str, Any] = {"label_timeout": label_timeout, "max_pending": max_pending}
    asked |= {"snapshot_every": snapshot_every, "keep_events": keep_events}
    settings = {name: value for name, value in asked.items() if value is not None}
    Settings(**settings)  # whatever is wrong with them is said before anything is opened
    live = job.output != "-" or not sys.stdout.isatty()
    with terminal.status(live) as tell, written_with(csv.delimiter, csv.decimal, terminal.note):
        code = run_job(replace(job, settings=settings), terminal.note, tell)
    raise typer.Exit(code)


@options.command(app)
def inspect(path: Annotated[Path, typer.Argument()]) -> None:
    """What a model or a journal is: domains, classes, who is trusted, mistakes or errors, sizes, what is waiting.

    Parameters
    ----------
    path
        A model file, or the folder of a live model.
    """
    from hedgerow.cli.journals import inspected

    terminal.print_table([str(path), ""], inspected(path))


@options.command(app, short=["output"])
def export(journal: Annotated[Path, typer.Argument()], output: Path) -> None:
    """The events of a journal with features, predictions and labels.

    Parameters
    ----------
    journal
        The folder of a live model.
    output
        A new .jsonl or .parquet file.
    """
    from hedgerow.live.look import export as write_export

    print(f"{write_export(journal, output)} events written to {output}")


@options.command(app)
def backup(journal: Annotated[Path, typer.Argument()], folder: Annotated[Path, typer.Argument()]) -> None:
    """Copy a live model or a fleet, also while it runs; the copy is verified, and can be opened.

    Parameters
    ----------
    journal
        The folder of a live model or of a fleet.
    folder
        A new folder.
    """
    from hedgerow.cli.journals import back_up

    back_up(journal, folder)
    print(f"{journal} copied to {folder}")


@options.command(app)
def restore(folder: Annotated[Path, typer.Argument()], journal: Annotated[Path, typer.Argument()]) -> None:
    """Bring a backup to a new folder, verified; the backup stays as it is.

    Parameters
    ----------
    folder
        What `hedgerow backup` has made.
    journal
        A new folder for the live model or fleet; move an old one away before.
    """
    from hedgerow.cli.journals import bring_back

    bring_back(folder, journal)
    print(f"{folder} restored to {journal}")


@options.command(app, "replace")
def replace_model(
    journal: Annotated[Path, typer.Argument()],
    model: Annotated[Path | None, typer.Argument()] = None,
    back: Annotated[bool, typer.Option("--back")] = False,
    reason: str = "",
) -> None:
    """Put another model in the place of a live one; its events and counts stay. A running service has PUT for it.

    Parameters
    ----------
    journal
        The folder of a live model that no process has open.
    model
        A model file.
    back
        The model before the last replacement, as it was then.
    reason
        Kept in the journal.
    """
    from hedgerow.live import LiveModel

    if (model is None) != back:
        raise InputError("name a model file, or say --back, one of them")
    with LiveModel.open(journal) as live:
        before = live.stats()["model"]["digest"]
        now = live.replace_back(reason=reason) if model is None else live.replace(model, reason=reason)
    print(f"model {before[:12]} replaced by {now['digest'][:12]}; hedgerow replace {journal} --back undoes it")


@options.command(app)
def forget(journal: Annotated[Path, typer.Argument()], id: Annotated[list[str], typer.Argument()]) -> None:
    """Remove events from a journal at once: rows, predictions, labels and ids. What was learned from them stays.

    Parameters
    ----------
    journal
        The folder of a live model that no process has open. A running service has POST .../forget for it.
    id
        Of an event; may be repeated.
    """
    from hedgerow.live import LiveModel

    with LiveModel.open(journal) as live:
        forgotten = live.forget(*id)
    print(f"{len(forgotten)} of {len(id)} events were there, and are forgotten")


@options.command(app, short=["model"])
def replay(
    journal: Annotated[Path, typer.Argument()],
    model: list[Path] | None = None,
    method: Annotated[list[str] | None, typer.Option(autocompletion=options.methods)] = None,
    source: list[Path] | None = None,
    label: str | None = None,
    unlabelled: Path | None = None,
    option: Words = None,
) -> None:
    """What if another model had been there? The same questions and labels, in the same order, for other methods.

    Parameters
    ----------
    journal
        The folder of a live model.
    model
        A fitted model; may be repeated.
    method
        A method to fit on --source; may be repeated.
    source
        A labelled source for --method; once for each.
    label
        The label column of the sources.
    unlabelled
        Unlabelled rows of the target.
    option
        key=value for the classifiers of --method.
    """
    from hedgerow.cli import journals

    with terminal.progress() as progress:
        rows = journals.replay(
            journal, model or [], method or [], source or [], label, unlabelled, option or [], progress
        )
    terminal.print_table(["", "labels", "mistakes", "share", "other predictions"], rows, numbers=True)


@options.command(app, context_settings=environment("serve"))
def serve(
    models: Path | None = None,
    demo: bool = False,
    config: Config = None,
    max_pending: int = Settings.max_pending,
    label_timeout: float | None = None,
    *,
    settings: ServiceSettings,
) -> None:
    """Serve live models and fleets over HTTP: predictions go out, labels follow, nothing acknowledged is lost.

    Parameters
    ----------
    models
        Folder of the live models and fleets, one folder each; --demo can do without.
    demo
        Stream the embedded digits into a model of their own.
    max_pending
        Events of a new model that wait for labels.
    label_timeout
        Seconds a new model waits for a label.
    """
    for module in ("starlette", "msgspec", "uvicorn", "prometheus_client", "python_multipart"):
        require(module, "live")
    from hedgerow.service.app import serve as run_service

    if models is None and not demo:
        raise InputError("--models is missing: name a folder for the live models, or try --demo")
    if models is not None and not models.is_dir():
        raise InputError(f"no folder at {models}: make it first; each live model gets a folder in it")
    settings = replace(settings, live=Settings(label_timeout, max_pending))
    with TemporaryDirectory() if models is None else nullcontext(str(models)) as folder:
        run_service(Path(folder), settings, demo=demo, tell=terminal.note)


app.add_typer(config_app, name="config")


@options.command(app)
def warm() -> None:
    """Precompile the kernels into the cache, for all processes to come; in an image, while it is built."""
    from hedgerow.cli.warm import warm as run_warm

    with terminal.progress() as progress:
        lines, code = run_warm(progress)
    for line in lines:
        print(line, file=sys.stderr if line.startswith("error:") else sys.stdout)
    raise typer.Exit(code)


@options.command(app)
def doctor(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """What is installed and what it runs on, with a remedy for every problem; exit code 1 if there is one.

    Parameters
    ----------
    as_json
        For programs: findings as JSON.
    """
    from hedgerow.cli import doctor as check

    findings = check.examine()
    if as_json:
        print(check.as_json(findings))
    else:
        terminal.print_table(["state", "what", "found"], check.as_rows(findings))
        print(check.verdict(findings))
    raise typer.Exit(0 if all(one.ok for one in findings) else 1)


# -- experiments ------------------------------------------------------------------------------------------------


@options.command(app, defaults={"out": Path("hedgerow-study")})
def study(
    experiment: Experiment,
    name: Annotated[str, typer.Argument(autocompletion=options.studies)] = "",
    data: Annotated[str, typer.Option(help=f"One of {', '.join(TARGETS)}.")] = "digits",
    domain: list[Path] | None = None,
    label: str | None = None,
    target: str | None = None,
    methods: Annotated[str, typer.Option(autocompletion=options.methods)] = SHOWN,
    orders: Orders = 5,
    data_dir: DataDir = None,
    listing: Annotated[bool, typer.Option("--list")] = False,
) -> None:
    """Streams as they are: labels late or missing, new classes, drift, imbalance, bad sources; the curve of each.

    Parameters
    ----------
    name
        Which study, or all; `hedgerow study --list` names them.
    domain
        Instead of --data: your own labelled files, once for each domain.
    label
        The label column of your files.
    target
        Domain that streams, or several joined by commas; the others are sources.
    methods
        Names joined by commas, see `hedgerow methods`.
    listing
        Name the studies; nothing is run.
    """
    from hedgerow.lab.study import listed, run, tables
    from hedgerow.lab.tasks import OwnFiles

    if listing:
        terminal.print_table(["name", "what it is about", "strengths or kinds"], listed())
        return
    report = _filled(
        lambda folder: run(folder, name, OwnFiles.of(domain, label) if domain else data, target, methods, orders),
        experiment,
        data_dir,
    )
    _print_tables(tables(experiment.out, name))
    _print_report(report)


@options.command(app, defaults={"out": Path("hedgerow-compare")})
def compare(
    columns: Columns,
    experiment: Experiment,
    csv: Csv,
    source: Annotated[list[Path] | None, typer.Option(help="A labelled source, as in `fit`; once for each.")] = None,
    stream: Path | None = None,
    label: str | None = None,
    domain: list[Path] | None = None,
    unlabelled: Path | None = None,
    warmup: float | None = None,
    methods: str = SHOWN,
    order_by: str | None = None,
    orders: Annotated[int, typer.Option(min=1)] = 1,
    peers: str = "main",
    task: str | None = None,
    option: Words = None,
) -> None:
    """Methods side by side on your own files: mistakes, calibration, time, what each source was worth; a report.

    With --domain, each domain is the target once, all others its sources: ranks over domains. Labels that are numbers
    are predicted by our regressor, a running mean, and ridge and boosting refitted: RMSE, MAE, coverage and width of
    intervals.

    Parameters
    ----------
    stream
        The labelled stream, in its order in time.
    label
        The label column.
    domain
        Instead of --source and --stream: a labelled domain, once for each; every one is the target once.
    unlabelled
        Unlabelled rows of the target, known in advance.
    warmup
        Instead: the share of the stream's first rows to take as unlabelled, e.g. .3; with --domain that is what is
        taken where nothing is said.
    methods
        Names joined by commas, or all; see `hedgerow methods`.
    order_by
        Sort the stream by this column; it is no feature.
    orders
        Orders of the stream: 1 is the order in time, more are shuffled.
    peers
        main: boosting and logistic regression of scikit-learn and, if it is installed, river's forest; all; none; or
        names joined by commas.
    task
        classify or regress; without it the labels tell.
    option
        key=value for the methods that read it, e.g. dim=50.
    """
    from hedgerow.cli.fit_files import parse_pairs
    from hedgerow.lab.compare import comparison_in, run, task_of, tasks_of
    from hedgerow.rows.inputs import written_with

    if domain and (source or stream or unlabelled):
        raise InputError("--domain makes every domain the target once: leave out --source, --stream and --unlabelled")
    if not domain and not (source and stream):
        raise InputError("give --source and --stream, or --domain once for each of several domains")
    with written_with(csv.delimiter, csv.decimal, terminal.note):
        if domain:
            streams = tasks_of(domain, label, 0.3 if warmup is None else warmup, order_by, task)
        else:
            streams = [task_of(source or [], stream, label, unlabelled, warmup, order_by, task)]
    given = {**parse_pairs(option or []), **columns.table}
    report = _filled(
        lambda folder: run(folder, streams, methods=methods, orders=orders, peers=peers, options=given), experiment
    )
    comparison = comparison_in(experiment.out)
    terminal.print_line(comparison.verdict)
    _print_tables(comparison.tables)
    for note in comparison.column_notes:
        terminal.print_line(note)
    _print_report(report)


@options.command(paper_app, as_callback=True, defaults={"out": Path("hedgerow-paper")})
def paper(
    context: typer.Context,
    experiment: Experiment,
    tasks: str = "all",
    methods: str = "all",
    trials: Annotated[int, typer.Option(min=1)] = 20,
    splits: Annotated[int, typer.Option(min=1)] = 1,
    reading: str = "table",
    what: Annotated[
        str, typer.Option(help=f"Parts of the report, joined by commas, or all: {', '.join(PARTS)}.")
    ] = "table,curves,discrepancy,bound,stats,time",
    data_dir: DataDir = None,
) -> None:
    """The paper's tables and figures on its nine tasks, published numbers beside ours, and what explains the rest.

    Parameters
    ----------
    tasks
        all, or names joined by commas: PIE1..PIE5,amazon,caltech,dslr,webcam.
    methods
        Names joined by commas, see `hedgerow methods`; all: the paper's seven and ours.
    trials
        Orders of each stream.
    splits
        Splits into unlabelled rows and stream, for the table.
    reading
        table, authors or paper: see `hedgerow methods --readings`.
    """
    if context.invoked_subcommand is not None:
        return
    from hedgerow.lab.paper import run

    def fill(folder: Folder) -> Path | None:
        return run(folder, tasks, methods, trials, splits, reading, what)

    print(_filled(fill, experiment, data_dir))


@options.command(paper_app, "report")
def paper_report(directory: Annotated[Path, typer.Argument()]) -> None:
    """The report on results that are there; nothing is run.

    Parameters
    ----------
    directory
        A folder that `hedgerow paper` wrote to.
    """
    from hedgerow.lab.paper import report

    print(report(directory, terminal.note))


app.add_typer(paper_app, name="paper")


def _filled(run: Callable[[Folder], Path | None], asked: Experiment, data_dir: Path | None = None) -> Path:
    """The report of an experiment that fills a folder; interrupted, it has said how to go on."""
    from hedgerow.lab.runner import INTERRUPTED, Folder

    place, plugins = None if data_dir is None else str(data_dir), tuple(asked.plugin or ())
    with terminal.progress() as tell:
        report = run(
            Folder(asked.out, asked.resume, asked.jobs, asked.engine, place, plugins, sys.argv[1:], terminal.note, tell)
        )
    if report is None:
        raise typer.Exit(INTERRUPTED)
    return report


def _print_tables(tables: Iterable[Table]) -> None:
    for table in tables:
        terminal.print_line(table.title, style="bold")
        terminal.print_table(table.header, table.texts, numbers=True, best=table.best)


def _print_report(path: Path) -> None:
    terminal.print_line("Report:", style="bold")
    print(path)
