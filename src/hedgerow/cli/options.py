"""Options that several commands have, how a command gets its help, and what a shell may offer after Tab."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Sources = Annotated[list[Path], typer.Option(help="A labelled source: a file, a folder or a 'pattern'; once for each.")]
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
Delimiter = Annotated[str | None, typer.Option(help="Of CSV files: ; or \\t or another; else the header tells.")]
Decimal = Annotated[str | None, typer.Option(help="Of numbers in CSV files: . or a comma; else the first rows tell.")]
Words = list[str] | None  # an option that may be repeated


def command(
    app: typer.Typer, name: str | None = None, as_callback: bool = False, **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to an app as a command, or as what the app itself does.

    Its help is the docstring before the section Parameters (numpydoc); that of an option, unless it says so itself, is
    what stands under its name there. A bool is a flag, without an opposite.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        text, _, parameters = (inspect.getdoc(function) or "").partition("\n\nParameters\n----------\n")
        helps = {
            key: " ".join(words.split()) for key, words in re.findall(r"^(\w+)\n((?: {4}.*\n?)+)", parameters, re.M)
        }
        for key, hint in get_type_hints(function, include_extras=True).items():
            if key in helps:
                flag = [f"--{key.replace('_', '-')}"] if hint is bool else []
                info = copy.copy(hint.__metadata__[0]) if hasattr(hint, "__metadata__") else typer.Option(*flag)
                info.help = helps[key]
                plain = hint.__origin__ if hasattr(hint, "__metadata__") else hint
                function.__annotations__[key] = Annotated[plain, info]
        kind: Any = (
            app.callback(invoke_without_command=True) if as_callback else app.command(name, help=text, **settings)
        )
        kind(function)
        return function

    return register


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


Method = Annotated[str, typer.Option(help="See `hedgerow methods`.", autocompletion=methods)]
