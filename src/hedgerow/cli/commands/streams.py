"""A model on a stream: run it, over HTTP too, and what its journal says afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli import complete
from hedgerow.live.settings import Settings


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


def export(
    journal: Annotated[Path, typer.Argument(help="The folder of a live model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new .jsonl or .parquet file.")],
) -> None:
    """The events of a journal with features, predictions and labels."""
    from hedgerow.live.export import export as run_export

    print(f"{run_export(journal, output)} events written to {output}")


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
