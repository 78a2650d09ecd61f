"""Framed records: what a record is, whose it is, a head and blocks of bytes, and a checksum. Little-endian.

| part     | bytes | what it is                                                                                       |
|----------|-------|--------------------------------------------------------------------------------------------------|
| magic    | 4     | three letters of the kind of record, and its format                                              |
| owner    | 16    | the digest of what the record belongs to (zeros: of nothing)                                     |
| size     | 4     | bytes of the head                                                                                |
| head     |       | JSON: the content, and the number of bytes of each block                                         |
| blocks   |       | one after the other, to the checksum                                                             |
| checksum | 4     | CRC-32 of everything before it                                                                   |

| magic  | what it holds                                          | module                |
|--------|--------------------------------------------------------|-----------------------|
| `hrb1` | a batch of labelled rows in the journal of a fleet     | `hedgerow.fleet.base` |
| `hre3` | the events of one key                                  | `hedgerow.events`     |
| `hrk2` | what one key has learned                               | `hedgerow.fleet.base` |
| `hrs2` | a part of the state of a shard                         | `hedgerow.spark`      |
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from hedgerow.core.errors import InputError

HEAD = struct.Struct("<4s16sI")
CHECKSUM = struct.Struct("<I")
NO_OWNER = bytes(16)


class Content(NamedTuple):
    """What a record holds: `about` as JSON has it, and the blocks."""

    owner: bytes
    about: Any
    blocks: list[bytes]


@dataclass(frozen=True)
class FrameKind:
    """One kind of record: its magic, and what to do about a record that cannot be used.

    >>> kind = FrameKind(b"abc1", "restore it from a copy")
    >>> kind.unpack(kind.pack(["x", 3], [b"rows"]), "the record")[1:]
    (['x', 3], [b'rows'])
    """

    magic: bytes
    remedy: str

    def pack(self, about: Any, blocks: Iterable[bytes] = (), owner: bytes = NO_OWNER) -> bytes:
        """The record as bytes; `about` is anything that JSON can write."""
        blocks = list(blocks)
        head = json.dumps([about, [len(block) for block in blocks]]).encode()
        data = b"".join([HEAD.pack(self.magic, owner, len(head)), head, *blocks])
        return data + CHECKSUM.pack(zlib.crc32(data))

    def owner(self, data: bytes) -> bytes:
        """What a record says it belongs to; nothing is checked."""
        return data[4:20]

    def unpack(self, data: bytes, what: str, owner: bytes | None = None) -> Content:
        """The inverse; an InputError that names `what` if the bytes are anything else.

        `owner`: the digest that the record must belong to; None takes any.
        """
        if len(data) < HEAD.size + CHECKSUM.size or data[:3] != self.magic[:3]:
            raise InputError(
                f"{what} is not a record of this kind ({len(data)} bytes); {self.remedy}"
            )
        if data[3:4] != self.magic[3:]:
            raise InputError(
                f"{what} has the format {data[3:4]!r}, this version of hedgerow reads {self.magic[3:]!r}; use the "
                "version that wrote it, or start anew"
            )
        end = len(data) - CHECKSUM.size
        if zlib.crc32(memoryview(data)[:end]) != CHECKSUM.unpack_from(data, end)[0]:
            raise InputError(f"{what} is damaged: its checksum does not match; {self.remedy}")
        _, of, size = HEAD.unpack_from(data)
        if owner is not None and of != owner:
            raise InputError(
                f"{what} belongs to other sources (digest {of.hex()[:12]}, these have {owner.hex()[:12]}); use the "
                f"sources that it was learned with, or {self.remedy}"
            )
        begin = HEAD.size + size
        try:
            about, sizes = json.loads(data[HEAD.size : begin])
            ends = list(accumulate(sizes, initial=begin))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{what} is damaged: its head cannot be read ({error}); {self.remedy}"
            ) from error
        if ends[-1] != end:
            raise InputError(f"{what} is damaged: its blocks do not fill it; {self.remedy}")
        return Content(of, about, [data[a:b] for a, b in pairwise(ends)])
