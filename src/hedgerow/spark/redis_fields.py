"""The fields of an entry as a row of Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def place_of(id: str) -> tuple[int, int]:
    """The id of an entry as what it is ordered by.

    >>> place_of("12-3") > place_of("9-40")
    True
    """
    time, _, number = id.partition("-")
    return int(time), int(number or 0)


def row_of(fields: Mapping[bytes, bytes], schema: StructType) -> tuple[Any, ...]:
    """A value a column; null where it is missing, or cannot be what the column holds."""
    values: Any = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()}
    if set(values) == {"json"}:
        try:
            values = json.loads(values["json"])
        except (ValueError, RecursionError):
            values = {}
        if not isinstance(values, dict):
            values = {}
    return tuple(_value(values.get(field.name), field.dataType) for field in schema.fields)


def _value(value: Any, kind: DataType) -> Any:
    name = kind.simpleString()
    try:
        if value is None or (isinstance(value, bool) and name != "boolean"):
            return None
        if name == "string":
            return value if isinstance(value, str) else None
        if name == "boolean":
            return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
        if name.startswith("array<"):
            items = json.loads(value) if isinstance(value, str) else value
            return [_value(item, kind.elementType) for item in items]  # type: ignore[attr-defined]
        if name in ("float", "double"):
            return float(value)
        return _whole(value, name)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _whole(value: Any, name: str) -> int | None:
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}.get(name)
    if bits is None or (isinstance(value, float) and not value.is_integer()):
        return None
    found = int(value)
    return found if -(2 ** (bits - 1)) <= found < 2 ** (bits - 1) else None
