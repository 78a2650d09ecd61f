"""What a Python worker keeps between two batches: the base, once, and learners whose state Spark still has."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from hedgerow.core.errors import InputError
from hedgerow.fleet import Base, Member
from hedgerow.spark.sent import Sent

_bases: dict[bytes, Base] = {}


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
