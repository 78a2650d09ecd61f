"""The command line: parse, call, print. What a command does is in the module it imports when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli import complete
from hedgerow.comparison.options import CompareOptions, InputFiles
from hedgerow.live.settings import Settings
from hedgerow.paper.options import PARTS, PaperOptions
from hedgerow.study.options import TARGETS, StudyOptions

app = typer.Typer(
    name="hedgerow",
    help="Online transfer learning: labelled sources in advance, a target stream, good predictions from the first row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

ENGINE = "Where runs are done: local (processes), dask, dask://local:2 or dask://HOST:PORT, a Dask scheduler."


def main() -> None:
    """Run the command line; what hedgerow refuses is one line and exit code 2, not a traceback."""
    from hedgerow.core.errors import HedgerowError

    try:
        app()
    except HedgerowError as error:
        from hedgerow.cli.terminal import error as print_error

        print_error(str(error))
        sys.exit(2)


def _version(asked: bool) -> None:
    if asked:
        import hedgerow

        print(f"hedgerow {hedgerow.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the figures and the results.")] = Path(
        "hedgerow-demo"
    ),
    orders: Annotated[int, typer.Option(min=1, help="Orders of the stream.")] = 10,
    target: Annotated[str, typer.Option(help="Domain that streams; the others are sources.")] = "shifted",
    jobs: Annotated[int, typer.Option(help="Processes; -1 takes every core.")] = -1,
) -> None:
    """All methods side by side on embedded digits: a table, three figures and a report."""
    from hedgerow.cli import terminal
    from hedgerow.cli.demo import demo as run_demo
    from hedgerow.cli.demo import table

    with terminal.progress() as progress:
        result = run_demo(out, orders, target, jobs, progress)
    found = table(result)
    console = terminal.console(sys.stdout)
    terminal.print_table(found.header, found.texts, numbers=True, best=found.best)
    console.print(found.note, style="dim")
    console.print("Report:", style="bold")
    print(result.report)


@app.command()
def methods(
    readings: Annotated[bool, typer.Option("--readings", help="Show the presets of the options instead.")] = False,
) -> None:
    """The methods and what they are made of."""
    from hedgerow.cli import terminal
    from hedgerow.learners.readings import as_table
    from hedgerow.methods import METHODS

    if readings:
        rows = as_table()
        terminal.print_table(list(rows[0]), [[_words(value) for value in row.values()] for row in rows])
    else:
        header = ["name", "title", "spaces", "frozen experts", "online from", "mixer", "refresh", "reference"]
        parts = [(name, METHODS[name]) for name in METHODS]
        terminal.print_table(header, [(name, r.title, *r.row().values(), r.reference) for name, r in parts])


@app.command()
def data(
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; else $HEDGEROW_DATA, else downloads.")
    ] = None,
) -> None:
    """The data sets that load() knows, and where each one is."""
    from hedgerow.cli import terminal
    from hedgerow.data import available

    header = ["name", "domains", "rows", "features", "classes", "where"]
    rows = [(a.name, ", ".join(a.domains), a.rows, a.features, a.classes, a.where) for a in available(data_dir)]
    terminal.print_table(header, rows)


@app.command()
def fit(
    source: Annotated[
        list[Path], typer.Option(help="A labelled source: a file, a folder or a 'pattern'; once for each.")
    ],
    label: Annotated[str, typer.Option(help="The label column of the sources.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes (.safetensors).")],
    unlabelled: Annotated[Path | None, typer.Option(help="Unlabelled rows of the target.")] = None,
    method: Annotated[str, typer.Option(help="See `hedgerow methods`.", autocompletion=complete.methods)] = "hedgerow",
    reading: Annotated[
        str,
        typer.Option(help="Preset of the options: general, authors, paper or table.", autocompletion=complete.readings),
    ] = "general",
    option: Annotated[list[str] | None, typer.Option(help="key=value for the classifier, e.g. dim=50.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="local: sources in memory; dask, dask://local:2 or dask://HOST:PORT: Parquet in partitions. "
            "Without it: local, if half of the free memory is enough for the sources."
        ),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to use though it looks like an id.")] = None,
    id: Annotated[list[str] | None, typer.Option(help="A column that only names rows.")] = None,
    time: Annotated[list[str] | None, typer.Option(help="A column of dates, or of seconds since 1970.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="A column of text whose words are to be used.")] = None,
    new: Annotated[list[str] | None, typer.Option(help="A column that will come later, in the stream.")] = None,
) -> None:
    """Fit a model on labelled source files and, better, some unlabelled rows of the target."""
    from hedgerow.cli import terminal
    from hedgerow.cli.fit_files import check_output, fit_files, parse_options, summary, table_options

    check_output(output, [*source, *([unlabelled] if unlabelled else [])])
    given = parse_options(option or [], method, reading)
    if said := table_options(drop=drop, keep=keep, id=id, time=time, text=text, new=new):
        given["table"] = said
    fitted = fit_files(source, label, unlabelled, given, engine)
    fitted.clf.save(output)
    found = summary(fitted)
    console = terminal.console(sys.stdout)
    terminal.print_table(found.header, found.rows)
    for line in found.lines:
        console.print(line, soft_wrap=True, markup=False)
    console.print(f"model saved to {output}", soft_wrap=True, markup=False)


@app.command()
def run(
    model: Annotated[Path, typer.Option("--model", "-m", help="A model made by `hedgerow fit` or `save`.")],
    input: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            help="Rows: a file, folder or pattern (csv, tsv, jsonl, parquet, arrow; .gz, .zst), - for standard input, "
            "redis://HOST/STREAM or kafka://HOST/TOPIC.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Predictions as JSON lines: a file, - for standard output, redis://HOST/STREAM."
        ),
    ],
    label: Annotated[
        str | None, typer.Option(help="The label column, to learn from; of rows with an empty cell what can be.")
    ] = None,
    id: Annotated[
        str | None, typer.Option(help="The column that names a row; it is echoed, and labels may come by it.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels by id, in a file of their own (.csv, .tsv, .jsonl) that may grow.")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="Folder in which everything is kept: after a crash the same command goes on where it was."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Where the model goes at the end, also after Ctrl-C."),
    ] = None,
    append: Annotated[bool, typer.Option("--append", help="Add to an output file that has content already.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an output file that has content already.")
    ] = False,
    on_error: Annotated[str, typer.Option(help="What to do with a bad row: skip or stop.")] = "skip",
    dead_letter: Annotated[
        Path | None, typer.Option(help="Where bad rows go, with the reason; else OUTPUT.bad.jsonl, if there are any.")
    ] = None,
    new_classes: Annotated[
        str, typer.Option(help="What to do with a label unknown to the model: learn it, or refuse it as a bad row.")
    ] = "learn",
    format: Annotated[
        str | None, typer.Option(help="csv, tsv, jsonl, parquet or arrow; else by the suffix, else by the first line.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="The probability of every class, not only of the prediction.")
    ] = False,
    label_timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a label is no longer awaited (journal).")
    ] = None,
    max_pending: Annotated[int, typer.Option(help="Rows that may wait for their labels.")] = Settings.max_pending,
    snapshot_every: Annotated[
        int, typer.Option(help="Labels between two snapshots of the journal.")
    ] = Settings.snapshot_every,
    keep_events: Annotated[
        int, typer.Option(help="Rows with their labels that stay in the journal.")
    ] = Settings.keep_events,
    group: Annotated[str, typer.Option(help="Consumer group at a broker.")] = "hedgerow",
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on with a journal whose newest events are missing.")
    ] = False,
) -> None:
    """Predict each row of a stream before learning its label."""
    from hedgerow.cli import terminal
    from hedgerow.run.job import Job
    from hedgerow.run.loop import run as run_job

    settings = Settings(label_timeout, max_pending, snapshot_every, keep_events)
    job = Job(
        model=model, input=input, output=output, label=label, save=save, on_error=on_error, format=format, proba=proba,
        new_classes=new_classes, append=append, overwrite=overwrite, id=id, labels=labels, journal=journal,
        dead_letter=dead_letter, settings=settings, accept_loss=accept_loss, group=group,
    )  # fmt: skip
    with terminal.status(live=output != "-" or not sys.stdout.isatty()) as tell:
        code = run_job(job, terminal.note, tell)
    raise typer.Exit(code)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="A model file, or the folder of a live model.")],
) -> None:
    """What a model or a journal is: domains, classes, who is trusted, mistakes, sizes, what is waiting."""
    from hedgerow.cli import terminal
    from hedgerow.cli.inspect_path import inspected

    terminal.print_table([str(path), ""], inspected(path))


@app.command()
def export(
    journal: Annotated[Path, typer.Argument(help="The folder of a live model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new .jsonl or .parquet file.")],
) -> None:
    """The events of a journal with features, predictions and labels."""
    from hedgerow.live.export import export as run_export

    print(f"{run_export(journal, output)} events written to {output}")


@app.command()
def replay(
    journal: Annotated[Path, typer.Argument(help="The folder of a live model.")],
    model: Annotated[list[Path] | None, typer.Option("--model", "-m", help="A fitted model; may be repeated.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method to fit on --source; may be repeated.", autocompletion=complete.methods),
    ] = None,
    source: Annotated[list[Path] | None, typer.Option(help="A labelled source for --method; once for each.")] = None,
    label: Annotated[str | None, typer.Option(help="The label column of the sources.")] = None,
    unlabelled: Annotated[Path | None, typer.Option(help="Unlabelled rows of the target.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value for the classifiers of --method.")] = None,
) -> None:
    """What if another model had been there? The same questions and labels, in the same order, for other methods."""
    from hedgerow.cli import terminal
    from hedgerow.cli.replay_journal import replay as run_replay

    with terminal.progress() as progress:
        found = run_replay(journal, model or [], method or [], source or [], label, unlabelled, option or [], progress)
    terminal.print_table(found.header, found.rows, numbers=True)
    if found.note:
        terminal.note(found.note)


@app.command()
def serve(
    models: Annotated[
        Path | None, typer.Option(help="Folder of the live models, one folder each; --demo can do without.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; any but this machine's own needs tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 8080,
    token_file: Annotated[
        Path | None, typer.Option(help="Lines of TOKEN RIGHTS MODELS; without it only this machine is served.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Stream the embedded digits into a model of their own.")] = False,
    max_body: Annotated[int | None, typer.Option(help="Bytes of a JSON body.")] = None,
    max_upload: Annotated[int | None, typer.Option(help="Bytes of a model file, or of the files of a fit.")] = None,
    max_rows: Annotated[int | None, typer.Option(help="Instances or labels of one request.")] = None,
    max_models: Annotated[int | None, typer.Option(help="Models of the service.")] = None,
    max_waiting: Annotated[int | None, typer.Option(help="Requests that wait for one model.")] = None,
    max_pending: Annotated[int | None, typer.Option(help="Events of a new model that wait for labels.")] = None,
    label_timeout: Annotated[float | None, typer.Option(help="Seconds a new model waits for a label.")] = None,
    request_timeout: Annotated[float | None, typer.Option(help="Seconds until a request is given up.")] = None,
    job_timeout: Annotated[float | None, typer.Option(help="Seconds that a fit may take.")] = None,
) -> None:
    """Serve live models over HTTP: predictions go out, labels follow, nothing acknowledged is lost."""
    from hedgerow.cli.serve import Asked
    from hedgerow.cli.serve import serve as run_serve

    given = {
        "host": host, "port": port, "token_file": token_file, "body_bytes": max_body, "upload_bytes": max_upload,
        "batch_rows": max_rows, "models": max_models, "waiting": max_waiting, "request_seconds": request_timeout,
        "job_seconds": job_timeout,
    }  # fmt: skip
    run_serve(Asked(models, demo, given, {"max_pending": max_pending, "label_timeout": label_timeout}))


@app.command()
def warm() -> None:
    """Compile every loop now, for all processes to come; in an image, while it is built."""
    from hedgerow.cli import terminal
    from hedgerow.cli.warm import warm as run_warm

    with terminal.progress() as progress:
        lines, code = run_warm(progress)
    for line in lines:
        print(line, file=sys.stderr if line.startswith("error:") else sys.stdout)
    raise typer.Exit(code)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For programs: findings as JSON.")] = False,
) -> None:
    """What is installed and what it runs on, with a remedy for every problem; exit code 1 if there is one."""
    from hedgerow.cli import doctor as check
    from hedgerow.cli import terminal

    findings = check.examine()
    if as_json:
        print(check.as_json(findings))
    else:
        terminal.print_table(["state", "what", "found"], check.as_rows(findings))
        print(check.verdict(findings))
    raise typer.Exit(0 if all(one.ok for one in findings) else 1)


paper_app = typer.Typer(help="The paper's experiments, run again: its numbers beside ours.")
app.add_typer(paper_app, name="paper")


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


@app.command()
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


@app.command()
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


def _words(value: object) -> str:
    if value is None:
        return "the method's own"
    return " + ".join(map(str, value)) if isinstance(value, tuple) else str(value)
