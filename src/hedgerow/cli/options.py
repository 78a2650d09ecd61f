"""How a function becomes a command, options that several commands have, and what a shell may offer after Tab."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

Sources = Annotated[list[Path], typer.Option(help="A labelled source: a file, a folder or a 'pattern'; once for each.")]
Orders = Annotated[int, typer.Option(min=1, help="Orders of the stream.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 takes every core.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data sets; else $HEDGEROW_DATA, else downloads.")]
Words = list[str] | None  # an option that may be repeated


@dataclass(frozen=True)
class Experiment:
    """Where and how an experiment is run.

    Parameters
    ----------
    engine
        Where runs are done: local (processes), dask, dask://local:2 or dask://HOST:PORT, a Dask scheduler.
    out
        Folder for results, report, tables and figures.
    resume
        Go on in a folder that has results.
    plugin
        A Python file that registers a method of your own.
    """

    out: Path
    jobs: Jobs = -1
    engine: str = "local"
    resume: bool = False
    plugin: Words = None


@dataclass(frozen=True)
class Csv:
    """How CSV files are written.

    Parameters
    ----------
    delimiter
        Of CSV files: ; or \\t or another; else the header tells.
    decimal
        Of numbers in CSV files: . or a comma; else the first rows tell.
    """

    delimiter: str | None = None
    decimal: str | None = None


@dataclass(frozen=True)
class Columns:
    """What columns of a table are, where that cannot be seen.

    Parameters
    ----------
    drop
        A column to leave out; may be repeated.
    keep
        A column to use though it looks like an id.
    id
        A column that only names rows.
    time
        A column of dates, or of seconds since 1970.
    text
        A column of text whose words are to be used.
    new
        A column that will come later, in the stream.
    """

    drop: Words = None
    keep: Words = None
    id: Words = None
    time: Words = None
    text: Words = None
    new: Words = None

    @property
    def table(self) -> dict[str, Any]:
        """An argument of estimators: the columns that were named, if there are any."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}
        return {"table": named} if named else {}


def command(
    app: typer.Typer, name: str | None = None, *, as_callback: bool = False, short: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None, **settings: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:  # fmt: skip
    """Add a function to an app as a command, or as what the app itself does.

    A parameter whose type is a dataclass stands for its fields: each is an option, but for those with a factory. The
    help is the docstring before the section Parameters (numpydoc); that of an option, unless it says so itself, is what
    stands under its name there, or in the docstring of the dataclass. A bool is a flag, without an opposite. Options in
    `short` also have their first letter; `defaults` are stronger than those of a dataclass.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups: dict[str, Any] = {key: hint for key, hint in hints.items() if is_dataclass(hint)}
        text, helps = _documented(function)
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(function).parameters.values():
            group = groups.get(each.name)
            if group is None:
                parameters.append(each.replace(annotation=_option(each.name, hints[each.name], helps, short)))
                continue
            kinds, helps = get_type_hints(group, include_extras=True), {**_documented(group)[1], **helps}
            for field in (field for field in fields(group) if field.default_factory is MISSING):
                default = (defaults or {}).get(field.name, each.empty if field.default is MISSING else field.default)
                hint = _option(field.name, kinds[field.name], helps, short)
                parameters.append(each.replace(name=field.name, annotation=hint, default=default))

        @functools.wraps(function)
        def call(*arguments: Any, **values: Any) -> None:
            for key, group in groups.items():
                names = {field.name for field in fields(group)} & set(values)
                values[key] = group(**{name: values.pop(name) for name in names})
            function(*arguments, **values)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        if as_callback:
            app.callback(invoke_without_command=True)(call)
        else:
            app.command(name, help=text, **settings)(call)
        return call

    return register


def _documented(what: Any) -> tuple[str, dict[str, str]]:
    """What stands before the section Parameters of a docstring, and what stands there under each name."""
    text, _, parameters = (inspect.getdoc(what) or "").partition("\n\nParameters\n----------\n")
    return text, {
        key: " ".join(words.split())
        for key, words in re.findall(r"^(\w+)(?: : .*)?\n((?: {4}.*\n?)+)", parameters, re.M)
    }


def _option(name: str, hint: Any, helps: Mapping[str, str], short: Collection[str]) -> Any:
    """The type of an option or argument with its help and flags."""
    if name not in helps:
        return hint
    flag = f"--{name.replace('_', '-')}"
    flags = [flag, f"-{name[0]}"] if name in short else [flag] if hint is bool else []
    info = copy.copy(hint.__metadata__[0]) if hasattr(hint, "__metadata__") else typer.Option(*flags)
    info.help = helps[name]
    return Annotated[hint.__origin__ if hasattr(hint, "__metadata__") else hint, info]


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
