"""What a Python worker keeps between two batches: the base, once, and learners whose state Spark still has."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from hedgerow.core.errors import InputError
from hedgerow.fleet import Base, Member

if TYPE_CHECKING:
    from pyspark import SparkContext

_bases: dict[bytes, Base] = {}


class Sent:
    """The base as bytes that Spark broadcasts, once a machine, looked up when they are needed first.

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


class _Kept(NamedTuple):
    state: bytes
    member: Member


class Members:
    """Learners by key, the latest used ones. One is used only if its state is what Spark has, else it is built anew.

    A learner that is taken is no longer kept: where a batch fails half-way, nobody finds what it left.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self.hits = self.misses = 0

    def take(self, base: Base, key: Hashable, state: bytes, name: str) -> Member:
        """The learner of a key whose state is this; empty bytes: it learned nothing yet."""
        found = self._kept.pop((base.digest, key), None)
        if found is not None and found.state == _digest(state):
            self.hits += 1
            return found.member
        self.misses += 1
        return base.member(state or None, name)

    def keep(self, base: Base, key: Hashable, state: bytes, member: Member, most: int) -> None:
        """A learner whose state was given to Spark."""
        self._kept[(base.digest, key)] = _Kept(_digest(state), member)
        while len(self._kept) > most:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


members = Members()


def base_of(digest: bytes, sent: Sent) -> Base:
    """The base of a query, read from what was broadcast once a process."""
    if digest not in _bases:
        base = Base.from_bytes(sent.value)
        if base.digest != digest:
            raise InputError(
                f"the base that was sent has the digest {base.digest.hex()[:12]}, not {digest.hex()[:12]}; "
                "install the same hedgerow on every worker"
            )
        _bases[digest] = base
    return _bases[digest]


def _digest(state: bytes) -> bytes:
    return hashlib.blake2b(state, digest_size=16).digest()
