"""The base, sent to every machine once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext


class Sent:
    """Bytes that Spark broadcasts, looked up when they are needed first.

    A `Broadcast` inside a processor is looked up when the processor is read; where Spark asks a processor for its
    schema there is none, and it would fail.
    """

    def __init__(self, broadcast: Any = None, number: int | None = None) -> None:
        self._broadcast, self._number = broadcast, number

    @classmethod
    def by(cls, context: SparkContext, data: bytes) -> Sent:
        """Broadcast these bytes."""
        return cls(context.broadcast(data))

    def __reduce__(self) -> tuple[Any, ...]:
        _, (number,) = self._broadcast.__reduce__()  # which notes that tasks need it
        return Sent, (None, number)

    @property
    def value(self) -> bytes:
        """The bytes, at a worker or at home."""
        from pyspark.core.broadcast import _from_id

        found = self._broadcast if self._broadcast is not None else _from_id(self._number or 0)
        return bytes(found.value)
