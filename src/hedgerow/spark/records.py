"""What goes in and out of a shard, as tables of Arrow: rows, results, settings, and what Spark keeps of a shard.

Spark keeps of a shard a list of parts, each a framed record (`hedgerow.core.frames`) of the base's digest. A *delta*
has what one batch changed: the events that were predicted, with their rows, and those that were labelled or expired. A
*dump* has all keys; one takes the place of the list when the deltas have grown large. Every part has a random token: a
shard that is in memory is what Spark has only if its token is that of the last part, and parts after its own token
bring it up to date.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from hedgerow.core.errors import InputError
from hedgerow.core.frames import FrameKind
from hedgerow.core.registry import Limits
from hedgerow.core.values import plain

INSTANCE = 0  # the kinds of rows that come in
ANSWER = 1
NO_ORDER = -(2**63)  # stands for an order that is missing
PREDICTION = "prediction"
LABEL = "label"
DEAD_LETTER = "dead letter"
NEW = "new"
REPEATED = "repeated"
LABELS: dict[type, tuple[str, Callable[[str], Any]]] = {  # their types in Spark
    str: ("string", str),
    int: ("bigint", int),
    float: ("double", float),
    bool: ("boolean", "true".__eq__),
}
ARROW = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(),
    "boolean": pa.bool_(),
}  # fmt: skip
Table = Mapping[str, str]  # names of columns and their types in Spark
RESULTS: Table = {
    "key": "string", "kind": "string", "id": "string", "label": "string", "probability": "double", "status": "string",
    "right": "boolean", "detail": "string", "row": "string", "low": "double", "high": "double",
}  # fmt: skip


@dataclass(frozen=True)
class Settings(Limits):
    """How the models of a stream wait and remember; the first four are of one key.

    label_timeout : seconds after which the label of an event is no longer awaited; None waits for ever. The row is then
        used without a label, where the method can, and its features are dropped.
    max_pending : events that may wait for their labels; one more, and the oldest expires.
    keep_events : labelled or expired events whose ids are remembered, so that what comes again is known.
    idle_ttl : seconds without a change after which a key is dropped; None keeps keys for ever.
    shards : groups of keys, each worked on by one core at a time: 4 to 8 a core. A checkpoint keeps its number.
    memory : bytes of models that a Python worker holds; what is beyond is built from its rows when it is needed.

    >>> Settings(label_timeout=3600).timed
    True
    """

    max_pending: int = 1_000
    keep_events: int = 100
    idle_ttl: float | None = None
    shards: int = 64
    memory: int = 2**30

    LEAST: ClassVar = {"max_pending": 1, "keep_events": 0, "shards": 1, "memory": 2**20}

    def __post_init__(self) -> None:
        super().__post_init__()
        if (
            self.idle_ttl is not None
            and self.label_timeout is not None
            and self.idle_ttl <= self.label_timeout
        ):
            raise InputError(
                f"idle_ttl={self.idle_ttl!r}: a key would be dropped before its events expire; "
                f"give more than label_timeout={self.label_timeout!r}"
            )

    @property
    def timed(self) -> bool:
        """Whether Spark's clock is needed."""
        return self.label_timeout is not None or self.idle_ttl is not None


class Rows(NamedTuple):
    """Rows that came in: instances have x, labels a label, both as Spark has them.

    x : lists of numbers, or the cells of a table as JSON. label : as text.
    """

    key: list[Any]
    kind: list[int]
    id: list[Any]
    order: list[int]
    x: pa.Array
    label: list[Any]

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        """The columns of a table."""
        columns = (table[name].combine_chunks() for name in cls._fields)
        return cls(
            *(
                c if name == "x" else c.to_pylist()
                for name, c in zip(cls._fields, columns, strict=True)
            )
        )


class Result(NamedTuple):
    """One row that comes out.

    | kind          | label               | status                                    | right               | detail |
    |---------------|---------------------|-------------------------------------------|---------------------|--------|
    | `prediction`  | the predicted class | `new`, or `repeated`: the id came before  |                     |        |
    |               | or number           |                                           |                     |        |
    | `label`       | the label given     | as of a live model: `learned`,            | was it predicted?   | reason |
    |               |                     | `duplicate`, `conflict`, `expired`, ...   | (where learned)     |        |
    | `dead letter` |                     |                                           |                     | reason |

    `probability` is that of the predicted class; a number has an interval from `low` to `high` instead, of the first
    coverage of the base, and is right if its label is inside. `row` is what a dead letter brought, as JSON. Labels are
    text.
    """

    key: str | None
    kind: str
    id: str | None
    label: str | None = None
    probability: float | None = None
    status: str | None = None
    right: bool | None = None
    detail: str | None = None
    row: str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Query:
    """What all shards of a query share beside the base: how rows are read, and the settings.

    features : the names of the features, for reasons; None: rows are cells of a table. label : the type of the classes.
    ordered : whether rows have an order of their own; without one a batch's instances come first, then its labels in
    the order of their events.
    """

    features: tuple[str, ...] | None
    label: type
    ordered: bool
    settings: Settings = Settings()

    def text_of(self, label: Any) -> str | None:
        """A label as the text that Spark casts to its type."""
        return (
            None
            if label is None
            else str(label).lower()
            if self.label is bool
            else str(plain(label))
        )

    def label_of(self, text: object) -> Any:
        """The inverse; what is none (NaN, null) is None."""
        label = LABELS[self.label][1](text) if isinstance(text, str) else None
        return None if isinstance(label, float) and not np.isfinite(label) else label


def ddl_of(columns: Table) -> str:
    """The columns of a table as Spark reads them.

    >>> ddl_of({"key": "string", "right": "boolean"})
    '`key` string, `right` boolean'
    """
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def table_of(rows: Sequence[tuple[Any, ...]], columns: Table) -> pa.Table:
    """Tuples of Python's own values as a table."""
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    return pa.table(
        {name: pa.array(v, ARROW[columns[name]]) for name, v in zip(columns, values, strict=True)}
    )


def to_ipc(table: pa.Table) -> bytes:
    """A table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def of_ipc(streams: Iterable[Any]) -> pa.Table:
    """The rows of all tables, which have the same columns."""
    return pa.concat_tables([pa.ipc.open_stream(data).read_all() for data in streams])


# -- what Spark keeps of a shard ---------------------------------------------------------------------------------------

PART = FrameKind(b"hrs2", "start from another checkpoint")
WHAT = "the state of its shard"
DELTA: Table = {
    "key": "string", "id": "string", "code": "int", "probability": "double", "row": "binary", "label": "string",
    "half": "double",
}  # fmt: skip
DUMP: Table = {"key": "string", "state": "binary", "events": "binary", "time": "double"}
Entry = tuple[str, bytes, bytes, float]  # a row of DUMP
PART_BYTES = (
    2**20
)  # of a dump, beyond which its keys go to another part; also deltas for which no dump is made


class Part(NamedTuple):
    """A part: its token, what it says of itself (time, classes, keys that were dropped), its rows, and its bytes."""

    token: str
    base: bytes
    about: dict[str, Any]
    rows: Iterable[tuple[Any, ...]]
    size: int = 0

    def to_bytes(self, columns: Table) -> bytes:
        """With these columns: `DELTA` or `DUMP`."""
        return PART.pack(
            [self.token, self.about], [to_ipc(table_of(list(self.rows), columns))], self.base
        )

    @classmethod
    def from_bytes(cls, data: bytes, base: bytes | None = None) -> Part:
        """The inverse, whose rows are made when they are asked for; whatever else the bytes are is an error."""
        owner, (token, about), tables = PART.unpack(data, WHAT, base)
        return cls(token, owner, about, _rows(tables), len(data))


def _rows(tables: list[bytes]) -> Iterator[tuple[Any, ...]]:
    yield from zip(*(column.to_pylist() for column in of_ipc(tables).columns), strict=True)


def new_token() -> str:
    """No other part has it."""
    return uuid.uuid4().hex


def dump_parts(
    entries: Iterable[Entry], token: str, base: bytes, about: dict[str, Any]
) -> list[bytes]:
    """Keys, as `Shard.entries` has them, in parts that are not too large."""
    parts: list[list[Entry]] = [[]]
    size = 0
    for entry in entries:
        parts[-1].append(entry)
        size += len(entry[1]) + len(entry[2])
        if size > PART_BYTES:
            parts.append([])
            size = 0
    return [Part(token, base, {**about, "kind": "dump"}, rows).to_bytes(DUMP) for rows in parts]
