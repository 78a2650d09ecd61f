"""What a user may say about the columns of a table; without a word they are recognised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.core.errors import InputError, unknown


@dataclass(frozen=True)
class TableOptions:
    """Names of columns: left out, kept though they would be left out, ids, times, texts whose words count.

    `new` are columns that no row has yet, and that are learned from their first value on.

    >>> TableOptions.of({"drop": "note"}).drop
    ('note',)
    """

    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Any) -> TableOptions:
        """From a mapping of names, or nothing."""
        if given is None or isinstance(given, TableOptions):
            return given or cls()
        if not isinstance(given, Mapping):
            raise InputError(f"table={given!r}: give a dict with some of {', '.join(cls.__dataclass_fields__)}")
        for key in given:
            if key not in cls.__dataclass_fields__:
                raise unknown("option of table", key, cls.__dataclass_fields__)
        found = cls(**{key: _names(key, value) for key, value in given.items()})
        found.check()
        return found

    def check(self) -> None:
        """A column has one part."""
        seen: dict[str, str] = {}
        for key, names in asdict(self).items():
            for name in names:
                if name in seen:
                    raise InputError(f"the column {name!r} cannot be both {seen[name]} and {key}; name it once")
                seen[name] = key

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are named."""
        return tuple(name for names in asdict(self).values() for name in names)


def _names(key: str, value: Any) -> tuple[str, ...]:
    names: Sequence[Any] = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if (not names and value not in ((), [], None)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"table: {key}={value!r}; give the name of a column, or a list of names")
    return tuple(names)
