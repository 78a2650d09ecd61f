"""Options that several commands have, where their values come from, and what a shell may offer after Tab.

An option is declared once: as a parameter of its command, or as a field of a dataclass that the command takes; what
stands under its name in a docstring (numpydoc) is its help. `serve` and `run` also take their options from variables
and from a TOML file: a flag is stronger than a variable (HEDGEROW_SERVE_PORT), which is stronger than the file (`port`
of its table [serve]).
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, Argument, ArgumentCollection, Parameter, Token, validators
from cyclopts.completion import CompletionContext

from hedgerow.cli.terminal import note
from hedgerow.core.errors import InputError, unknown
from hedgerow.core.registry import use_plugins
from hedgerow.service import WORDS

SHORT = {"model": "-m", "input": "-i", "output": "-o"}
# A flag has no opposite; of an option given twice the last counts, unless it takes several; `settings` and
# `accept_loss` of a job, which --setting makes, are none.
DEFAULT = Parameter(
    negative=(),
    allow_repeating=True,
    parse=re.compile("^(?!(settings|accept_loss)$)"),
    short_alias=lambda field, taken: SHORT.get(field.name),
)
AtLeastOne = Parameter(validator=validators.Number(gte=1))
Group = Parameter(name="*")  # a dataclass whose fields are options of their own
ROLES = ("drop", "keep", "id", "time", "text", "new", "entity")
Words = list[str] | None  # an option that may be repeated


def methods(context: CompletionContext) -> list[str]:
    """Names of methods; after a comma the next one, with what stands before it."""
    from hedgerow.methods import METHODS

    before, comma, last = context.incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in METHODS if name.startswith(last)]


def readings(context: CompletionContext) -> list[str]:
    """Presets of the options."""
    from hedgerow.methods import PRESETS

    return [name for name in PRESETS if name.startswith(context.incomplete)]


Sources = Annotated[
    list[Path],
    Parameter(
        help="A labelled source: a file, a folder or a 'pattern'; repeat it for each source."
    ),
]
Orders = Annotated[int, AtLeastOne, Parameter(help="Orders of the stream.")]
Jobs = Annotated[int, Parameter(help="Processes; -1 uses every core.")]
DataDir = Annotated[
    Path | None,
    Parameter(help="Folder of the data sets; default: $HEDGEROW_DATA, else downloaded."),
]
Method = Annotated[str, Parameter(help="See `hedgerow methods`.", completer=methods)]
Out = Annotated[Path, Parameter(help="Folder for results, report, tables and figures.")]
Config = Annotated[
    Path | None,
    Parameter(
        env_var="HEDGEROW_CONFIG",
        help="TOML file with options of this command; variables and flags override it.",
    ),
]


@Group
@dataclass(frozen=True)
class Experiment:
    """Where and how an experiment is run.

    Parameters
    ----------
    resume
        Continue in a folder that has results.
    plugin
        A Python file that registers your own parts or defines recipes of methods.
    """

    jobs: Jobs = -1
    resume: bool = False
    plugin: Words = None


@Group
@dataclass(frozen=True)
class Plugins:
    """Python files of your own, run before anything else.

    Parameters
    ----------
    plugin
        A Python file that registers your own parts or defines recipes of methods.
    """

    plugin: Words = None

    def __post_init__(self) -> None:
        use_plugins(self.plugin or ())


@Group
@dataclass(frozen=True)
class Csv:
    """How the files of a stream are written.

    Parameters
    ----------
    delimiter
        Delimiter of CSV files, such as ; or \\t; default: detected from the header.
    decimal
        Decimal mark in CSV files, . or a comma; default: detected from the first rows.
    """

    delimiter: str | None = None
    decimal: str | None = None

    def reading(
        self, encoding: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AbstractContextManager[None]:
        """Within, files are read so."""
        from hedgerow.rows.inputs import Dialect, written_with

        return written_with(Dialect(self.delimiter, self.decimal, encoding, note, labels or {}))


@Group
@dataclass(frozen=True)
class Tables:
    """How the files of a fit are written, and what to know of their columns.

    Parameters
    ----------
    column
        ROLE=NAME of a column: drop (leave it out), keep (use it although it looks like an id), id (it only identifies
        rows), time (dates, or seconds since 1970), text (use its words), new (it appears later, in the stream), entity
        (its values are categories, even if they are numbers).
    na
        A value that means missing, such as unknown or -999, beside empty cells, NA, null and the like.
    delimiter
        Delimiter of CSV files, such as ; or \\t; default: detected from the header.
    decimal
        Decimal mark in CSV files, . or a comma; default: detected from the first rows.
    encoding
        Encoding of text; default: UTF-8, and cp1252 for a file that is not UTF-8.
    relabel
        OLD=NEW: read the label OLD as NEW, for files that write it otherwise, such as 1=yes.
    """

    column: Words = None
    na: Words = None
    relabel: Words = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def reading(self) -> AbstractContextManager[None]:
        """Within, files are read so."""
        labels = pairs(self.relabel or [], "--relabel", str)
        return Csv(self.delimiter, self.decimal).reading(self.encoding, labels)

    @property
    def options(self) -> dict[str, Any]:
        """An argument of estimators: what is to be known of columns, if there is something."""
        table = columns(self.column or [])
        if self.na:
            table["na"] = self.na
        return {"table": table} if table else {}


def columns(words: Sequence[str]) -> dict[str, list[str]]:
    """The columns that were named, by their roles.

    >>> columns(["drop=note", "text=title", "drop=day"])
    {'drop': ['note', 'day'], 'text': ['title']}
    """
    table: dict[str, list[str]] = {}
    for word in words:
        role, mark, name = word.partition("=")
        if not mark:
            raise InputError(f"--column {word!r}: write ROLE=NAME, for instance drop=note")
        if role not in ROLES:
            raise unknown("role of --column", role, ROLES)
        table.setdefault(role, []).append(name)
    return table


def pairs(
    words: Sequence[str], option: str = "--option", read: Callable[[str], Any] = ast.literal_eval
) -> dict[str, Any]:
    """Values by name from key=value pairs.

    >>> pairs(["dim=20", "preprocess=zscore+unit"])
    {'dim': 20, 'preprocess': 'zscore+unit'}
    """
    values: dict[str, Any] = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark:
            raise InputError(f"{option} {word!r}: write key=value, for instance dim=50")
        try:
            values[key] = read(value)
        except (ValueError, SyntaxError):
            values[key] = value
    return values


# -- variables and the TOML file ------------------------------------------------------------------------------------

TABLES = ("serve", "run")


def configured(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Options of a command from variables and the file of --config, where the command line does not have them.

    A variable or key that is unknown, or whose value is of another type, is refused.
    """
    [command] = commands
    taken = [
        argument for argument in arguments if argument.parse and argument.name.startswith("--")
    ]
    known = {argument.name.removeprefix("--").replace("-", "_"): argument for argument in taken}
    prefix = f"HEDGEROW_{command.upper()}_"
    for variable in sorted(name for name in os.environ if name.startswith(prefix)):
        name = variable.removeprefix(prefix).lower()
        if name not in known:
            raise unknown("variable", variable, [f"{prefix}{name.upper()}" for name in known])
        _take(known[name], os.environ[variable], variable)
    config = known.pop("config")
    if not config.tokens:
        return
    file = Path(config.tokens[0].value)
    for key, value in _table(file, command).items():
        name = key.replace("-", "_")
        where = f"{file}, [{command}]"
        if name not in known:
            raise InputError(f"{where}: {unknown('key', key, known)}")
        _check_type(known[name].hint, value, f"{where}: {key}")
        _take(known[name], value, where)


def _table(file: Path, command: str) -> dict[str, Any]:
    """The table of a command in a TOML file."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the configuration {file}: {error}") from error
    for name, table in content.items():
        if name not in TABLES or not isinstance(table, dict):
            raise InputError(f"{file}: {unknown('table', name, TABLES)}")
    found: dict[str, Any] = content.get(command, {})
    return found


def _check_type(hint: Any, value: Any, what: str) -> None:
    """Refuse a value of a TOML file that is not of the type of its option."""
    kind = (get_args(hint) or (hint,))[0]
    if get_args(kind) or kind is list:
        kind = list
    fits: Any = {Path: str, float: int | float}.get(kind, kind)
    if not isinstance(value, fits) or isinstance(value, bool) != (kind is bool):
        raise InputError(f"{what} = {value!r}: must be {WORDS.get(kind, 'a list of texts')}")


def _take(argument: Argument, value: Any, source: str) -> None:
    """Give an option a value, unless a stronger source has given it one."""
    if argument.tokens:
        return
    for index, each in enumerate(value if isinstance(value, list) else [value]):
        argument.append(Token(keyword=source, value=str(each), source=source, index=index))
