"""`hedgerow serve`, and configuration: a TOML file and HEDGEROW_* variables for what `serve` and `run` take.

A flag is stronger than a variable (HEDGEROW_SERVE_PORT), which is stronger than the file (`port` of its table [serve]).
"""

from __future__ import annotations

import inspect
import os
import tomllib
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, get_args, get_type_hints

import typer

from hedgerow.core.errors import InputError, require, unknown
from hedgerow.live import Settings
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
        context.default_map = dict(read(file).get(str(context.info_name), {}))
    return file


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar=FILE, is_eager=True, callback=_use,
        help="TOML file with options of this command; variables and flags are stronger.",
    ),
]  # fmt: skip


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
        tables[name] = {key.replace("-", "_"): value for key, value in table.items()}
        known = _options(name)
        for key, value in tables[name].items():
            if key not in known:
                raise InputError(f"{file}, [{name}]: {unknown('key', key, known)}")
            _check(known[key], value, f"{file}, [{name}]: {key}")
    return tables


def _options(command: str) -> dict[str, type]:
    """The options of a command by name, with the type of each, but for --config."""
    from hedgerow.cli.app import app

    [function] = [
        each.callback for each in app.registered_commands if getattr(each.callback, "__name__", "") == command
    ]
    assert function is not None
    kinds = {name: get_args(kind) or (kind,) for name, kind in get_type_hints(function).items()}
    return {name: kind[0] for name, kind in kinds.items() if name not in ("config", "return")}


def _check(kind: type, value: Any, where: str) -> None:
    """Refuse a value of a file that an option of this type cannot take."""
    fits = {Path: str, float: int | float}.get(kind, kind)
    if not isinstance(value, fits) or isinstance(value, bool) != (kind is bool):
        raise InputError(f"{where} = {value!r}: must be {WORDS[kind]}")


def variables(command: str) -> dict[str, Any]:
    """Options of a command that variables of this process give, each checked."""
    prefix, values = f"{VARIABLE}{command}_".upper(), {}
    known = {f"{prefix}{name.upper()}": (name, kind) for name, kind in _options(command).items()}
    for variable in sorted(name for name in os.environ if name.startswith(prefix)):
        if variable not in known:
            raise unknown("variable", variable, known)
        name, kind = known[variable]
        text = os.environ[variable]
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
def check(
    file: Annotated[Path | None, typer.Argument(help="A TOML file.", envvar=FILE)] = None,
) -> None:
    """Refuse keys and variables that are unknown, naming the nearest known one, and values that cannot be used."""
    tables = {} if file is None else read(file)
    for command in TABLES:
        of_file, of_variables = tables.get(command, {}), variables(command)
        if command == "serve":
            known = get_type_hints(ServiceSettings)
            given = {name: value for name, value in {**of_file, **of_variables}.items() if name in known}
            paths: dict[str, Any] = {name: Path(value) for name, value in given.items() if known[name] == Path | None}
            ServiceSettings(**{**given, **paths})
        for name in sorted({*of_file, *of_variables}):
            print(f"{command} {name}: {'variable' if name in of_variables else file}")


def serve(
    models: Annotated[
        Path | None, typer.Option(help="Folder of the live models and fleets, one folder each; --demo can do without.")
    ] = None,
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Stream the embedded digits into a model of their own.")] = False,
    config: Config = None,
    max_pending: Annotated[
        int, typer.Option(help="Events of a new model that wait for labels.")
    ] = Settings.max_pending,
    label_timeout: Annotated[float | None, typer.Option(help="Seconds a new model waits for a label.")] = None,
    **settings: Any,
) -> None:
    """Serve live models and fleets over HTTP: predictions go out, labels follow, nothing acknowledged is lost."""
    for module in ("starlette", "msgspec", "uvicorn", "prometheus_client", "python_multipart"):
        require(module, "live")
    from hedgerow.cli import terminal
    from hedgerow.service.app import serve as run_service

    if models is None and not demo:
        raise InputError("--models is missing: name a folder for the live models, or try --demo")
    if models is not None and not models.is_dir():
        raise InputError(f"no folder at {models}: make it first; each live model gets a folder in it")
    chosen = ServiceSettings(**settings, live=Settings(label_timeout, max_pending))
    with TemporaryDirectory() if models is None else nullcontext(str(models)) as folder:
        run_service(Path(folder), chosen, demo=demo, tell=terminal.note)


def _declare_settings() -> None:
    """Every setting of the service is an option of `serve`, with its note as the help."""
    parameters = list(inspect.signature(serve, eval_str=True).parameters.values())[:-1]
    hints = get_type_hints(ServiceSettings, include_extras=True)
    for setting in fields(ServiceSettings):
        if setting.name != "live":
            kind, note = get_args(hints[setting.name])
            option: Any = Annotated[kind, typer.Option(help=note)]
            parameters.append(parameters[-1].replace(name=setting.name, default=setting.default, annotation=option))
    serve.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    serve.__annotations__ = {each.name: each.annotation for each in parameters}


_declare_settings()
