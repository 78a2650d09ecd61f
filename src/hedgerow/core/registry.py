"""Options: dataclasses of plain values, checked; and tables of named parts, ours and those of other packages.

Nothing here needs NumPy: the command starts without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from types import NoneType, UnionType
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hedgerow.core.errors import InputError, unknown

# Dataclasses from JSON, every value checked against its annotation: what comes from a file is not trusted.
T = TypeVar("T")


def of_json(cls: type[T], data: object) -> T:
    """A dataclass of plain values; a name that is not its own, or a value of another type, is a TypeError.

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
    for name, value in data.items():
        if name not in names or not is_of(value, kinds[name]):
            raise TypeError(f"{cls.__name__}: {name}={value!r} cannot stand there")
    return cls(**{name: _made(value, kinds[name]) for name, value in data.items()})


def is_of(value: Any, kind: Any) -> bool:
    """Whether a JSON value can be one of this type: plain values, tuples of them, and unions.

    >>> is_of(3, float), is_of(True, int), is_of([1, 2], tuple[int, ...]), is_of(float("nan"), float)
    (True, False, True, False)
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return any(is_of(value, part) for part in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(is_of(item, get_args(kind)[0]) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62
    return isinstance(value, NoneType if kind is None else kind)


def _made(value: Any, kind: Any) -> Any:
    """A tuple for a list, and a float where one is meant: JSON may write 1.0 as 1."""
    if isinstance(value, list):
        return tuple(value)
    kinds = get_args(kind) or (kind,)
    return float(value) if type(value) is int and float in kinds and int not in kinds else value


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
            value, least = getattr(self, field.name), self.LEAST.get(field.name, 0)
            if value is None or isinstance(value, str):
                continue
            number = isinstance(value, int) if field.name in self.LEAST else isinstance(value, int | float)
            if not number or isinstance(value, bool) or not math.isfinite(value) or value < least:
                raise InputError(f"{field.name}={value!r}: must be a number of at least {least}")


class Registry(Generic[T]):
    """A table of named parts of one kind.

    A package can add parts without being imported: an entry point in the group `hedgerow.<kind>s` is loaded when its
    name is first asked for. So are our own parts with a `home`, a module that registers them when it is imported.

    >>> colours = Registry("colour")
    >>> colours.register("green", 3)
    3
    >>> colours["green"]
    3
    """

    def __init__(self, kind: str, homes: Mapping[str, str] | None = None) -> None:
        """`homes` are modules that register a part of that name when they are imported."""
        self.kind = kind
        self._parts: dict[str, T] = {}
        self._homes = dict(homes or {})

    def register(self, name: str, part: T, *, replace: bool = False) -> T:
        """Add a part; a name that is taken by another is refused unless `replace=True`."""
        if name in self._parts and self._parts[name] is not part and not replace:
            raise InputError(f"{self.kind} {name!r} is there already; choose another name or pass replace=True")
        self._parts[name] = part
        return part

    def unregister(self, name: str) -> None:
        """Forget a part; for tests, and for a plugin that is taken out again."""
        self._parts.pop(name, None)

    def __getitem__(self, name: str) -> T:
        if name not in self._parts and name in self._homes:
            import_module(self._homes[name])
        if name not in self._parts:
            points = entry_points(group=f"hedgerow.{self.kind}s", name=name)
            self._parts |= {point.name: point.load() for point in points}
        if name not in self._parts:
            raise unknown(self.kind, name, self._parts)
        return self._parts[name]

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
        super().__init__(kind)
        self.base = base
        self._parts |= parts

    def make(self, choice: str | T, **options: Any) -> T:
        """An object as it is; a part by name with those of the options that it has, None left out."""
        part: Any = choice
        if isinstance(choice, str):
            known = self.options(choice)
            part = self[choice](**{k: v for k, v in options.items() if k in known and v is not None})
        if not isinstance(part, self.base):
            kind, wanted = f"a{'n' * (self.kind[0] == 'a')} {self.kind}", f"{self.base.__module__}.{self.base.__name__}"
            raise InputError(f"{self.kind}={choice!r}: give the name of {kind}, or an object that is a {wanted}")
        return part  # type: ignore[no-any-return]

    def options(self, name: str) -> set[str]:
        """What can be chosen of a part by name."""
        entry = self[name]
        return {field.name for field in _fields(_class(entry))} - set(getattr(entry, "keywords", ()))

    def to_json(self, part: Any) -> dict[str, Any]:
        """The name of a part's class and all its options."""

        def likeness(name: str) -> int:  # all options are written, so an entry that fixes others will do
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
