"""Dataclasses from JSON, every value checked against its annotation: what comes from a file is not trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

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
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and not is_of(value, _without_float(kind)) else value


def _without_float(kind: Any) -> Any:
    """The kinds of a union that are not float."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return Union[(*(each for each in kinds if each is not float), NoneType)]
