"""Options: dataclasses of plain values, checked; and tables of named parts, ours and those of plug-in files.

Nothing here needs NumPy: the command starts without it.

Plug-in files: Python files of the user that register parts, or whose variables are recipes of methods.

`--plugin FILE.py` names them on the command line, the environment variable HEDGEROW_PLUGINS in any process: paths
joined as in PATH. Processes that a process starts inherit the variable. A file is run once a process, when the command
starts or when a name is asked for that is not known.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, UnionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Never,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from hedgerow.core.errors import InputError, unknown

PLUGINS = "HEDGEROW_PLUGINS"
_loaded: dict[str, ModuleType] = {}


def use_plugins(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Run these files, here and in every process that is started from now on."""
    named = [str(Path(path).absolute()) for path in paths]
    for path in named:
        _load(path)
    os.environ[PLUGINS] = os.pathsep.join(dict.fromkeys([*_named(), *named]))


def plugins() -> list[ModuleType]:
    """The plug-in files of this process as modules, in their order."""
    return [_load(path) for path in _named()]


def _named() -> list[str]:
    return [path for path in os.environ.get(PLUGINS, "").split(os.pathsep) if path]


def _load(path: str) -> ModuleType:
    if path in _loaded:
        return _loaded[path]
    file = Path(path)
    if not file.is_file():
        raise InputError(
            f"no plug-in file at {path}; check --plugin and the environment variable {PLUGINS}"
        )
    spec = importlib.util.spec_from_file_location(f"hedgerow_plugin_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: a plug-in is a Python file, FILE.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that its classes can be pickled
    _loaded[path] = module  # before it runs: it may look up names itself
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del _loaded[path]
        raise
    return module


# Dataclasses from JSON, every value checked against its annotation: what comes from a file is not trusted.
T = TypeVar("T")
LARGEST = {int: 2**62, float: math.inf}  # numbers below it are taken


def of_json(cls: type[T], data: object) -> T:
    """A dataclass of plain values, tuples and dataclasses; a name that is not its own, or a value of another type, is a
    TypeError.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Point:
    ...     x: int
    ...     name: str | None = None
    ...     size: float = 1.0
    >>> of_json(Point, {"x": 3, "size": 2})
    Point(x=3, name=None, size=2.0)
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{cls.__name__}: {type(data).__name__} in place of an object")
    kinds = get_type_hints(cls)
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    values = {}
    for name, value in data.items():
        try:
            values[name] = _value(value, kinds[name] if name in names else Never)
        except _Other:
            raise TypeError(f"{cls.__name__}: {name}={value!r} is not allowed here") from None
    return cls(**values)


class _Other(TypeError):
    """A value of another type."""


def _value(value: Any, kind: Any) -> Any:
    """A JSON value as one of this type: plain values, dataclasses, tuples of them, unions; a float may come as 1.

    >>> _value(3, float), _value([1, 2], tuple[int, ...]), _value(None, int | None)
    (3.0, (1, 2), None)
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        for part in get_args(kind):
            with suppress(_Other):
                return _value(value, part)
    elif origin is Literal and value in get_args(kind):
        return value
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(_value(item, get_args(kind)[0]) for item in value)
    elif is_dataclass(kind) and isinstance(value, Mapping):
        return of_json(kind, value)  # type: ignore[arg-type]
    elif kind in (int, float):
        if isinstance(value, int | kind) and type(value) is not bool and abs(value) < LARGEST[kind]:
            return kind(value)
    elif origin is None and kind is not Never and isinstance(value, kind):
        return value
    raise _Other


@dataclass(frozen=True)
class Limits:
    """What is waited for and remembered.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever.
    max_pending : events that may wait for their labels; one more, and the oldest expires.
    keep_events : events that are remembered after they were labelled or expired.
    """

    label_timeout: float | None = None
    max_pending: int = 100_000
    keep_events: int = 100_000

    LEAST: ClassVar[Mapping[str, int]] = {"max_pending": 1, "keep_events": 0}  # of whole numbers

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = self.LEAST.get(field.name, 0)
            if isinstance(field.default, str) or value is field.default is None:
                continue
            number = (
                isinstance(value, int)
                if field.name in self.LEAST
                else isinstance(value, int | float)
            )
            if not number or isinstance(value, bool) or not math.isfinite(value) or value < least:
                raise InputError(f"{field.name}={value!r}: must be a number of at least {least}")


class Registry(Generic[T]):
    """A table of named parts of one kind; plug-in files may add to it.

    >>> colours = Registry("colour")
    >>> colours.register("green", 3)
    3
    >>> colours["green"]
    3
    """

    def __init__(self, kind: str, parts: Mapping[str, T] | None = None) -> None:
        self.kind = kind
        self._parts: dict[str, T] = dict(parts or {})

    def register(self, name: str, part: T, *, replace: bool = False) -> T:
        """Add a part; a name that is taken by another is refused unless `replace=True`."""
        if name in self._parts and self._parts[name] is not part and not replace:
            raise InputError(
                f"{self.kind} {name!r} already exists; choose another name or pass replace=True"
            )
        self._parts[name] = part
        return part

    def unregister(self, name: str) -> None:
        """Forget a part; for tests."""
        self._parts.pop(name, None)

    def __getitem__(self, name: str) -> T:
        if name not in self._parts:
            self._ask_plugins()
        if name not in self._parts:
            raise unknown(self.kind, name, self._parts)
        return self._parts[name]

    def _ask_plugins(self) -> None:
        """Plug-in files register their parts when they are run."""
        plugins()

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Parts(Registry[Any], Generic[T]):
    """A table of classes of parts (aligners, heads, mixers): frozen dataclasses of their options, or of none.

    A part may be asked for by its name, or given as an object; either way it can be written to JSON and back.
    An entry may fix some of the options: `partial(PassiveAggressive, rule="pa2")`.
    """

    def __init__(self, kind: str, base: Any, parts: Mapping[str, Callable[..., T]]) -> None:
        """`base` is the class, or the protocol, of all parts."""
        super().__init__(kind, parts)
        self.base = base

    def make(self, choice: str | T, **options: Any) -> T:
        """An object as it is; a part by name with those of the options that it has, None left out."""
        part: Any = choice
        if isinstance(choice, str):
            known = self.options(choice)
            part = self[choice](
                **{k: v for k, v in options.items() if k in known and v is not None}
            )
        if not isinstance(part, self.base):
            kind = f"a{'n' * (self.kind[0] == 'a')} {self.kind}"
            wanted = f"{self.base.__module__}.{self.base.__name__}"
            raise InputError(
                f"{self.kind}={choice!r}: give the name of {kind}, or an object that is a {wanted}"
            )
        return part  # type: ignore[no-any-return]

    def options(self, name: str) -> set[str]:
        """What can be chosen of a part by name."""
        entry = self[name]
        return {field.name for field in _fields(_class(entry))} - set(
            getattr(entry, "keywords", ())
        )

    def to_json(self, part: Any) -> dict[str, Any]:
        """The name of a part's class and all its options."""

        def likeness(
            name: str,
        ) -> int:  # all options are written, so an entry that fixes others will do
            fixed = getattr(self._parts[name], "keywords", {})
            return sum(getattr(part, option) == value for option, value in fixed.items())

        names = [name for name, entry in self._parts.items() if type(part) is _class(entry)]
        if names:
            return {"name": max(names, key=likeness), "options": self._options(part)}
        register = f"register_{self.kind}(name, {type(part).__name__})"
        raise InputError(f"{part!r} cannot be saved: register its class first, {register}")

    def from_json(self, data: Mapping[str, Any]) -> Any:
        """The inverse of `to_json`; the class must be registered here too."""
        name = data["name"]
        try:
            entry = self[name]
        except InputError as error:
            raise InputError(
                f"the model has the {self.kind} {name!r}, which is not registered here: "
                f"call register_{self.kind}({name!r}, its class) first"
            ) from error
        cls = _class(entry)
        if isinstance(cls, type) and is_dataclass(cls):
            return of_json(cls, data["options"])
        return cls(**data["options"])

    def _options(self, part: Any) -> dict[str, Any]:
        if not is_dataclass(part) and vars(part):
            raise InputError(f"{part!r} cannot be saved: make its class a dataclass of its options")
        return {field.name: getattr(part, field.name) for field in _fields(type(part))}


def _class(entry: Any) -> Any:
    return entry.func if isinstance(entry, partial) else entry


def _fields(cls: Any) -> Any:
    return fields(cls) if is_dataclass(cls) else ()
