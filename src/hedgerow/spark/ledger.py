"""The events of one key as bytes: those that wait for their labels, and the last ones that were answered.

Layout, little-endian: magic `hrl1`, digest of the base (16), sizes (pending, answered, features, bytes of the ids),
the timer, the ids (JSON), then arrays: of the pending events asked, code, probability and features, of the answered
ones digest of the row, code, probability and answer; at the end the CRC-32 of all before.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.live.rows import digest_of

MAGIC = b"hrl1"
HEAD = struct.Struct("<4s16sIIIIq")
GIVEN_UP = -1  # the answer of an event whose label never came


class Pending(NamedTuple):
    """An event that waits: when it was asked (milliseconds), what was said (code, probability), its features."""

    asked: int
    code: int
    probability: float
    x: Array

    def answered(self, answer: int) -> Answered:
        """The same event after its answer came, or was given up."""
        return Answered(digest_of(self.x.tobytes()), self.code, self.probability, answer)


class Answered(NamedTuple):
    """An event that was answered: a digest of its features, what was said, and the code of its label."""

    digest: bytes
    code: int
    probability: float
    answer: int


@dataclass
class Ledger:
    """Events by id, in the order in which they came. `timer`: when Spark wakes the key (milliseconds), 0: never.

    >>> ledger = Ledger(pending={"a": Pending(5, 1, 0.75, np.array([1.0, 2.0]))})
    >>> Ledger.from_bytes(ledger.to_bytes(bytes(16), 2), bytes(16), 2, "k").pending["a"].probability
    0.75
    """

    pending: dict[str, Pending] = field(default_factory=dict)
    answered: dict[str, Answered] = field(default_factory=dict)
    timer: int = 0

    def forget(self, keep: int) -> None:
        """All answered events but the last ones."""
        for id in list(self.answered)[: max(0, len(self.answered) - keep)]:
            del self.answered[id]

    def to_bytes(self, base: bytes, features: int) -> bytes:
        """As said above; `base` is the digest of what all keys share."""
        ids = json.dumps([*self.pending, *self.answered]).encode()
        waiting, done = list(self.pending.values()), list(self.answered.values())
        head = HEAD.pack(MAGIC, base, len(waiting), len(done), features, len(ids), self.timer)
        parts = [head, ids]
        parts += [
            np.array([one.asked for one in waiting], "<i8").tobytes(),
            *_said(waiting),
            b"".join(one.x.astype("<f8").tobytes() for one in waiting),
            b"".join(one.digest for one in done),
            *_said(done),
            np.array([one.answer for one in done], "<i4").tobytes(),
        ]
        data = b"".join(parts)
        return data + struct.pack("<I", zlib.crc32(data))

    @classmethod
    def from_bytes(cls, data: bytes, base: bytes, features: int, name: str) -> Ledger:
        """The inverse; whatever else the bytes are is an error that names the key."""
        if len(data) < HEAD.size + 4 or data[:3] != MAGIC[:3]:
            raise InputError(f"{name}: its events are none of ours ({len(data)} bytes); start from another checkpoint")
        if data[:4] != MAGIC:
            raise InputError(f"{name}: its events have the schema {data[3:4]!r}, this hedgerow reads b'1': upgrade")
        _, of, n, m, width, size, timer = HEAD.unpack_from(data)
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise InputError(f"{name}: its events are damaged; start from another checkpoint")
        if of != base or width != features:
            raise InputError(
                f"{name}: its state belongs to other sources (digest {of.hex()[:12]}, these have {base.hex()[:12]}); "
                "use the base that it was learned with, or another checkpoint"
            )
        ends = np.cumsum((HEAD.size, size, 8 * n, 4 * n, 8 * n, 8 * n * width, 8 * m, 4 * m, 8 * m, 4 * m)).tolist()
        ids, asked, code, p, x, digest, said, share, answer = (data[a:b] for a, b in itertools.pairwise(ends))
        names = json.loads(ids)
        waiting = zip(_whole(asked, 8), _whole(code, 4), _real(p), np.frombuffer(x).reshape(n, width), strict=True)
        digests = [digest[8 * i : 8 * i + 8] for i in range(m)]
        done = zip(digests, _whole(said, 4), _real(share), _whole(answer, 4), strict=True)
        return cls(
            dict(zip(names[:n], map(Pending._make, waiting), strict=True)),
            dict(zip(names[n:], map(Answered._make, done), strict=True)),
            timer,
        )


def _said(events: Sequence[Pending | Answered]) -> tuple[bytes, bytes]:
    codes = np.array([one.code for one in events], "<i4").tobytes()
    return codes, np.array([one.probability for one in events], "<f8").tobytes()


def _whole(data: bytes, size: int) -> list[int]:
    found: list[int] = np.frombuffer(data, f"<i{size}").tolist()
    return found


def _real(data: bytes) -> list[float]:
    found: list[float] = np.frombuffer(data, "<f8").tolist()
    return found
