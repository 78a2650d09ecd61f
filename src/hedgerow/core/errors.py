"""What can go wrong, said so that the reader knows what to do next."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType


class HedgerowError(Exception):
    """Every error that hedgerow raises on purpose.

    >>> try:
    ...     raise InputError("dim=0: must be at least 1")
    ... except HedgerowError as error:
    ...     print(error)
    dim=0: must be at least 1
    """


class InputError(HedgerowError, ValueError):
    """Data or an option that cannot be used; nothing was changed. It is a ValueError too.

    >>> issubclass(InputError, ValueError)
    True
    """


class MissingExtra(HedgerowError, ImportError):
    """An optional package is needed and not installed."""


class DataMissing(HedgerowError, FileNotFoundError):
    """A data set is neither on this machine nor to be had from its public home."""


SHOWN = 20  # names that an error lists before it counts the rest


def unknown(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a table, with the nearest one that is.

    >>> print(unknown("method", "odm", ["pa", "oddm"]))
    unknown method 'odm'; did you mean 'oddm'? Known: oddm, pa
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return InputError(f"unknown {kind} {name!r}{hint} Known: {', '.join(names[:SHOWN])}{more}")


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package or say which extra brings it.

    >>> require("math", extra="none").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{module!r} is needed here and not installed: pip install 'hedgerow[{extra}]'"
        ) from error


def together(problems: Sequence[str], what: str = "problems", most: int = 20) -> str:
    """All problems in one message, the rest counted.

    >>> print(together(["a is empty", "b is empty", "c is empty"], most=2))
    3 problems:
      a is empty
      b is empty
    and 1 more
    """
    if len(problems) == 1:
        return problems[0]
    more = [f"and {len(problems) - most} more"] if len(problems) > most else []
    return "\n".join(
        [f"{len(problems)} {what}:", *(f"  {text}" for text in problems[:most]), *more]
    )


def grouped(problems: Iterable[tuple[str, str]]) -> list[str]:
    """Problems with their places, equal ones once, with the first place and how many there are.

    >>> grouped([("line 2", "'x' is no number"), ("line 5", "'x' is no number")])
    ["line 2: 'x' is no number (and 1 more)"]
    """
    places: dict[str, list[str]] = {}
    for place, problem in problems:
        places.setdefault(problem, []).append(place)
    return [
        f"{where[0]}{', ' if problem.startswith('column') else ': '}{problem}"
        + (f" (and {len(where) - 1} more)" if len(where) > 1 else "")
        for problem, where in places.items()
    ]
