"""Configuration: a TOML file and HEDGEROW_* variables for what `serve` and `run` take.

A flag is stronger than a variable (HEDGEROW_SERVE_PORT), which is stronger than the file (`port` of its table [serve]).
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from hedgerow.core.errors import InputError, unknown
from hedgerow.service.settings import ServiceSettings

TABLES = ("serve", "run")
VARIABLE = "HEDGEROW_"
FILE = f"{VARIABLE}CONFIG"  # the variable that names the file
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "text (a path)"}


def environment(command: str) -> dict[str, str]:
    """Settings of a Typer command that takes its options from variables too."""
    return {"auto_envvar_prefix": f"{VARIABLE}{command.upper()}"}


def _use(context: typer.Context, file: Path | None) -> Path | None:
    """Options of the command that is called, from a file, where neither a flag nor a variable has them."""
    if file is not None:
        context.default_map = read(file).get(str(context.info_name), {})
    return file


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar=FILE, is_eager=True, callback=_use,
        help="TOML file with options of this command; variables and flags are stronger.",
    ),
]  # fmt: skip


def options(command: str) -> dict[str, type]:
    """The options of a command by name, with the type of each, but for --config."""
    from hedgerow.cli import app

    kinds = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(getattr(app, command)).items()}
    return {name: kind[0] for name, kind in kinds.items() if name != "config"}


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The tables of a file by the names of options, every key and value checked."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the configuration {file}: {error}") from error
    tables: dict[str, dict[str, Any]] = {}
    for name, table in content.items():
        if name not in TABLES or not isinstance(table, dict):
            raise InputError(f"{file}: {unknown('table', name, TABLES)}")
        known, tables[name] = options(name), {key.replace("-", "_"): value for key, value in table.items()}
        for key, value in tables[name].items():
            if key not in known:
                raise InputError(f"{file}, [{name}]: {unknown('key', key, known)}")
            kind = known[key]
            fits = {Path: str, float: int | float}.get(kind, kind)
            if not isinstance(value, fits) or isinstance(value, bool) != (kind is bool):
                raise InputError(f"{file}, [{name}]: {key} = {value!r}: must be {WORDS[kind]}")
    return tables


def variables(command: str) -> dict[str, Any]:
    """Options of a command that variables of this process give, each checked."""
    prefix, values = f"{VARIABLE}{command}_".upper(), {}
    known = {f"{prefix}{name.upper()}": (name, kind) for name, kind in options(command).items()}
    for variable in sorted(name for name in os.environ if name.startswith(prefix)):
        if variable not in known:
            raise unknown("variable", variable, known)
        (name, kind), text = known[variable], os.environ[variable]
        try:
            values[name] = BOOLEANS[text.lower()] if kind is bool else kind(text)
        except (ValueError, KeyError):
            raise InputError(f"variable {variable}={text!r}: must be {WORDS[kind]}") from None
    return values


config_app = typer.Typer(help="The configuration of `serve` and `run`.", no_args_is_help=True)


@config_app.callback()
def config() -> None:
    """A TOML file with tables [serve] and [run], and variables HEDGEROW_SERVE_* and HEDGEROW_RUN_*."""


@config_app.command("check")
def check(file: Annotated[Path | None, typer.Argument(help="A TOML file.", envvar=FILE)] = None) -> None:
    """Refuse keys and variables that are unknown, naming the nearest known one, and values that cannot be used."""
    tables = {} if file is None else read(file)
    for command in TABLES:
        of_file, of_variables = tables.get(command, {}), variables(command)
        given = {**of_file, **of_variables}
        if command == "serve":
            ServiceSettings(**{each.name: given[each.name] for each in fields(ServiceSettings) if each.name in given})
        for name in sorted(given):
            print(f"{command} {name}: {'variable' if name in of_variables else file}")
