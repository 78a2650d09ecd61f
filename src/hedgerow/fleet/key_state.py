"""The state of one key as bytes: the rows that it has learned, and where those grew many, a model file in front.

What a key knows follows from what all keys share (`Base`) and its own rows in order, exactly; after few labels nothing
is smaller. A key with a snapshot has learned its rows after it. Layout, little-endian:

| part     | bytes | what it is                                                                    |
|----------|-------|-------------------------------------------------------------------------------|
| magic    | 4     | `hrk1`                                                                        |
| base     | 16    | the start of the digest of the `Base` that the key belongs to                 |
| kinds    | 3     | type of the features (8: double, 4: single), of the codes (1, 2, 4), weighted |
| sizes    | 4 x 4 | rows, features, bytes of the new classes (JSON), bytes of the snapshot        |
| parts    |       | new classes, snapshot, features, codes, weights (where not all are 1)         |
| checksum | 4     | CRC-32 of all before                                                          |

Features that single precision holds without loss are stored so.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.errors import InputError
from hedgerow.core.labels import labels_from_json, labels_to_json

MAGIC, SCHEMA = b"hrk", b"1"
HEAD = struct.Struct("<4s16sBBBIIII")
CODES: dict[int, np.dtype[Any]] = {1: np.dtype("<i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}
FEATURES: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 8: np.dtype("<f8")}


@dataclass(frozen=True)
class KeyState:
    """Rows X (t x m, raw), codes (t; -1: no label), weights (t); classes beyond the base's; perhaps a snapshot."""

    X: Array
    codes: Array
    weights: Array
    new_classes: Array
    snapshot: bytes = b""
    ROWS: ClassVar[tuple[str, ...]] = ("X", "codes", "weights")

    @classmethod
    def empty(cls, features: int) -> KeyState:
        """Of a key that has learned nothing."""
        return cls(np.empty((0, features)), np.empty(0, np.int64), np.empty(0), np.empty(0, dtype=object))

    @classmethod
    def joined(cls, states: Sequence[KeyState]) -> KeyState:
        """One after the other; only the first may have a snapshot."""
        X, codes, weights = (np.concatenate([getattr(state, name) for state in states]) for name in cls.ROWS)
        return cls(X, codes, weights, states[-1].new_classes, states[0].snapshot)

    def __len__(self) -> int:
        return len(self.codes)

    def to_bytes(self, base: bytes) -> bytes:
        """As the table above says; `base` is the digest of what all keys share (16 bytes)."""
        x, y = _smallest_features(self.X), _smallest_codes(self.codes)
        new = json.dumps(labels_to_json(self.new_classes)).encode() if len(self.new_classes) else b""
        weighted = bool((self.weights != 1).any())
        head = HEAD.pack(
            MAGIC + SCHEMA, base, x.itemsize, y.itemsize, weighted,
            len(self.codes), self.X.shape[1], len(new), len(self.snapshot),
        )  # fmt: skip
        tail = self.weights.astype("<f8").tobytes() if weighted else b""
        data = b"".join((head, new, self.snapshot, x.tobytes(), y.tobytes(), tail))
        return data + struct.pack("<I", zlib.crc32(data))

    @classmethod
    def from_bytes(cls, data: bytes, base: bytes, name: str) -> KeyState:
        """The inverse; whatever else the bytes are is an error that names the key."""
        if data[:3] != MAGIC or len(data) < HEAD.size + 4:
            raise InputError(f"{name}: its state is none of a key ({len(data)} bytes); restore it, or forget the key")
        if data[3:4] != SCHEMA:
            raise InputError(f"{name}: its state has the schema {data[3:4]!r}, this hedgerow reads {SCHEMA!r}: upgrade")
        if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise InputError(f"{name}: its state is damaged; restore it from a copy, or forget the key")
        _, of, x_size, y_size, weighted, rows, features, new_size, snapshot_size = HEAD.unpack_from(data)
        if of != base:
            raise InputError(
                f"{name}: its state belongs to other sources (digest {of.hex()[:12]}.., these have "
                f"{base.hex()[:12]}..); use the base that it was learned with, or forget the key"
            )
        try:
            sizes = (new_size, snapshot_size, rows * features * x_size, rows * y_size, 8 * rows * weighted)
            if HEAD.size + sum(sizes) + 4 != len(data):
                raise ValueError("parts that do not fill it")
            ends = np.cumsum((HEAD.size, *sizes)).tolist()
            new, snapshot, x, y, w = (data[a:b] for a, b in pairwise(ends))
            return cls(
                np.frombuffer(x, FEATURES[x_size]).reshape(rows, features).astype(np.float64),
                np.frombuffer(y, CODES[y_size]).astype(np.int64),
                np.frombuffer(w, "<f8") if weighted else np.ones(rows),
                labels_from_json(json.loads(new)) if new else np.empty(0, dtype=object),
                snapshot,
            )
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{name}: its state is damaged ({error}); restore it, or forget the key") from error


def _smallest_features(X: Array) -> Array:
    if X.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = X.astype("<f4")
        if np.array_equal(single, X, equal_nan=True):  # a gap of a table is NaN in both
            return single
    return np.ascontiguousarray(X, "<f8")


def _smallest_codes(codes: Array) -> Array:
    top = int(codes.max(initial=0))
    return codes.astype(CODES[1 if top < 2**7 else 2 if top < 2**15 else 4])
