"""A model file: fit one, look into one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli import complete
from hedgerow.cli.commands.shared_options import Sources, Unlabelled


def fit(
    source: Sources,
    label: Annotated[str, typer.Option(help="The label column of the sources.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes (.safetensors).")],
    unlabelled: Unlabelled = None,
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


def inspect(
    path: Annotated[Path, typer.Argument(help="A model file, or the folder of a live model.")],
) -> None:
    """What a model or a journal is: domains, classes, who is trusted, mistakes, sizes, what is waiting."""
    from hedgerow.cli import terminal
    from hedgerow.cli.inspect_path import inspected

    terminal.print_table([str(path), ""], inspected(path))
