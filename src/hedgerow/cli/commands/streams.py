"""A model on a stream: run it, over HTTP too, and what its journal says afterwards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hedgerow.cli import complete
from hedgerow.cli.commands import run_options
from hedgerow.cli.commands.shared_options import Unlabelled
from hedgerow.live.settings import Settings


def run(
    model: run_options.Model,
    input: run_options.Input,
    output: run_options.Output,
    label: run_options.Label = None,
    id: run_options.Id = None,
    labels: run_options.Labels = None,
    journal: run_options.Journal = None,
    save: run_options.Save = None,
    append: run_options.Append = False,
    overwrite: run_options.Overwrite = False,
    on_error: run_options.OnError = "skip",
    dead_letter: run_options.DeadLetter = None,
    new_classes: run_options.NewClasses = "learn",
    format: run_options.Format = None,
    proba: run_options.Proba = False,
    label_timeout: run_options.LabelTimeout = None,
    max_pending: run_options.MaxPending = None,
    snapshot_every: run_options.SnapshotEvery = None,
    keep_events: run_options.KeepEvents = None,
    group: run_options.Group = "hedgerow",
    accept_loss: run_options.AcceptLoss = False,
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
    unlabelled: Unlabelled = None,
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
