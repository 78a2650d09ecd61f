"""One door for parts that come from outside: a table of names, filled by `register` or by entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from hedgerow.core.errors import InputError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named parts of one kind.

    A package can add parts without being imported: an entry point in the group `hedgerow.<kind>s` is loaded when its
    name is first asked for.

    >>> colours = Registry("colour")
    >>> colours.register("green", 3)
    3
    >>> colours["green"]
    3
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, T] = {}

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
        if name not in self._parts:
            self._from_entry_points(name)
        if name not in self._parts:
            raise unknown(self.kind, name, self._parts)
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _from_entry_points(self, name: str) -> None:
        for point in entry_points(group=f"hedgerow.{self.kind}s"):
            if point.name == name:
                self._parts[name] = point.load()
