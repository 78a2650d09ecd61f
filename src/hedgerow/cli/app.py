"""The command line: every command, in the order of the help. What a command does is imported when it is called.

What hedgerow refuses, and what the system does not let it write, is one line and an exit code, not a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from hedgerow.cli import options
from hedgerow.cli.commands import experiments, tour
from hedgerow.core.errors import HedgerowError, InputError, require
from hedgerow.live.settings import Settings
from hedgerow.service.settings import ServiceSettings

app = typer.Typer(
    name="hedgerow",
    help="Online transfer learning: labelled sources in advance, a target stream, good predictions from the first row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except HedgerowError as error:
        from hedgerow.cli import terminal

        terminal.error(str(error))
        sys.exit(2)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what could not be written is not tried again at exit
        if error.errno != errno.EPIPE:  # whoever read it has gone
            from hedgerow.cli import terminal

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


for command in (tour.demo, tour.methods, tour.data):
    app.command()(command)


@app.command()
def fit(
    source: options.Sources,
    label: Annotated[str, typer.Option(help="The label column of the sources.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes (.safetensors).")],
    unlabelled: options.Unlabelled = None,
    method: Annotated[str, typer.Option(help="See `hedgerow methods`.", autocompletion=options.methods)] = "hedgerow",
    reading: Annotated[
        str,
        typer.Option(help="Preset of the options: general, authors, paper or table.", autocompletion=options.readings),
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
    arguments = parse_options(option or [], method, reading)
    if table := table_options(drop=drop, keep=keep, id=id, time=time, text=text, new=new):
        arguments["table"] = table
    fitted = fit_files(source, label, unlabelled, arguments, engine)
    fitted.clf.save(output)
    told = summary(fitted)
    terminal.print_table(told.header, told.rows)
    for line in (*told.lines, f"model saved to {output}"):
        terminal.print_line(line)


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
    save: Annotated[Path | None, typer.Option(help="Where the model goes at the end, also after Ctrl-C.")] = None,
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
    max_pending: Annotated[
        int | None, typer.Option(help="Rows that may wait for their labels; 100000 at first.")
    ] = None,
    snapshot_every: Annotated[
        int | None, typer.Option(help="Labels between two snapshots of the journal; 5000 at first.")
    ] = None,
    keep_events: Annotated[
        int | None, typer.Option(help="Rows with their labels that stay in the journal; 100000 at first.")
    ] = None,
    group: Annotated[str, typer.Option(help="Consumer group at a broker.")] = "hedgerow",
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on with a journal whose newest events are missing.")
    ] = False,
) -> None:
    """Predict each row of a stream before learning its label."""
    from hedgerow.cli import terminal
    from hedgerow.run.job import Job
    from hedgerow.run.loop import run as run_job

    asked: dict[str, Any] = {"label_timeout": label_timeout, "max_pending": max_pending}
    asked |= {"snapshot_every": snapshot_every, "keep_events": keep_events}
    settings = {name: value for name, value in asked.items() if value is not None}
    Settings(**settings)  # whatever is wrong with them is said before anything is opened
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
    from hedgerow.cli.journals import inspected

    terminal.print_table([str(path), ""], inspected(path))


@app.command()
def export(
    journal: Annotated[Path, typer.Argument(help="The folder of a live model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new .jsonl or .parquet file.")],
) -> None:
    """The events of a journal with features, predictions and labels."""
    from hedgerow.live.export import export as write_export

    print(f"{write_export(journal, output)} events written to {output}")


@app.command()
def replay(
    journal: Annotated[Path, typer.Argument(help="The folder of a live model.")],
    model: Annotated[list[Path] | None, typer.Option("--model", "-m", help="A fitted model; may be repeated.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="A method to fit on --source; may be repeated.", autocompletion=options.methods),
    ] = None,
    source: Annotated[list[Path] | None, typer.Option(help="A labelled source for --method; once for each.")] = None,
    label: Annotated[str | None, typer.Option(help="The label column of the sources.")] = None,
    unlabelled: options.Unlabelled = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value for the classifiers of --method.")] = None,
) -> None:
    """What if another model had been there? The same questions and labels, in the same order, for other methods."""
    from hedgerow.cli import journals, terminal

    with terminal.progress() as progress:
        rows, note = journals.replay(
            journal, model or [], method or [], source or [], label, unlabelled, option or [], progress
        )
    terminal.print_table(["", "labels", "mistakes", "share", "other predictions"], rows, numbers=True)
    if note:
        terminal.note(note)


@app.command()
def serve(
    models: Annotated[
        Path | None, typer.Option(help="Folder of the live models, one folder each; --demo can do without.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; any but this machine's own needs tokens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 8080,
    token_file: Annotated[
        Path | None, typer.Option(help="Lines of TOKEN RIGHTS MODELS; without it only this machine is served.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Stream the embedded digits into a model of their own.")] = False,
    max_body: Annotated[int, typer.Option(help="Bytes of a JSON body.")] = ServiceSettings.body_bytes,
    max_upload: Annotated[
        int, typer.Option(help="Bytes of a model file, or of the files of a fit.")
    ] = ServiceSettings.upload_bytes,
    max_rows: Annotated[int, typer.Option(help="Instances or labels of one request.")] = ServiceSettings.batch_rows,
    max_models: Annotated[int, typer.Option(help="Models of the service.")] = ServiceSettings.models,
    max_waiting: Annotated[int, typer.Option(help="Requests that wait for one model.")] = ServiceSettings.waiting,
    max_pending: Annotated[
        int, typer.Option(help="Events of a new model that wait for labels.")
    ] = Settings.max_pending,
    label_timeout: Annotated[float | None, typer.Option(help="Seconds a new model waits for a label.")] = None,
    request_timeout: Annotated[
        float, typer.Option(help="Seconds until a request is given up.")
    ] = ServiceSettings.request_seconds,
    job_timeout: Annotated[float, typer.Option(help="Seconds that a fit may take.")] = ServiceSettings.job_seconds,
) -> None:
    """Serve live models over HTTP: predictions go out, labels follow, nothing acknowledged is lost."""
    for module in ("starlette", "msgspec", "uvicorn", "prometheus_client", "python_multipart"):
        require(module, "live")
    from hedgerow.cli import terminal
    from hedgerow.service.app import serve as run_service

    if models is None and not demo:
        raise InputError("--models is missing: name a folder for the live models, or try --demo")
    if models is not None and not models.is_dir():
        raise InputError(f"no folder at {models}: make it first; each live model gets a folder in it")
    settings = ServiceSettings(
        host=host, port=port, token_file=token_file, body_bytes=max_body, upload_bytes=max_upload, batch_rows=max_rows,
        models=max_models, waiting=max_waiting, request_seconds=request_timeout, job_seconds=job_timeout,
        live=Settings(label_timeout, max_pending),
    )  # fmt: skip
    with TemporaryDirectory() if models is None else nullcontext(str(models)) as folder:
        run_service(Path(folder), settings, demo=demo, tell=terminal.note)


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


app.command()(experiments.study)
app.command()(experiments.compare)
app.add_typer(experiments.paper_app, name="paper")
