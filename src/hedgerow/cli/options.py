"""Options that several commands have, each with the words of its help, and what a shell may offer after Tab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Sources = Annotated[list[Path], typer.Option(help="A labelled source: a file, a folder or a 'pattern'; once for each.")]
Unlabelled = Annotated[Path | None, typer.Option(help="Unlabelled rows of the target.")]
Orders = Annotated[int, typer.Option(min=1, help="Orders of the stream.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 takes every core.")]
Engine = Annotated[
    str,
    typer.Option(
        help="Where runs are done: local (processes), dask, dask://local:2 or dask://HOST:PORT, a Dask scheduler."
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data sets; else $HEDGEROW_DATA, else downloads.")]
Out = Annotated[Path, typer.Option(help="Folder for results, report, tables and figures.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on in a folder that has results.")]
Plugins = Annotated[list[str] | None, typer.Option(help="A Python file that registers a method of your own.")]


def methods(incomplete: str) -> list[str]:
    """Names of methods; after a comma the next one, with what stands before it."""
    from hedgerow.methods import METHODS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in METHODS if name.startswith(last)]


def readings(incomplete: str) -> list[str]:
    """Presets of the options."""
    from hedgerow.methods import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def studies(incomplete: str) -> list[str]:
    """Names of studies."""
    from hedgerow.lab import STUDIES

    return [name for name in (*STUDIES, "all") if name.startswith(incomplete)]
