"""Redis Streams as a source and a sink of Spark: `format("hedgerow-redis")`, option `url` redis://HOST[:PORT][/DB]/STREAM.

Spark keeps the place in the stream and reads the same entries again after a crash, so no consumer group is needed and
entries must stay until a batch that has them is committed. An entry is `{"json": text}`, or a field a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from hedgerow.core.errors import InputError, require
from hedgerow.spark.redis_fields import place_of, row_of
from hedgerow.spark.redis_server import connect

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

AT_ONCE = 1_000  # entries that are asked for in one command
OPTIONS = {"url", "max_entries", "query", "path", "checkpointlocation"}


class RedisStreams(DataSource):
    """For `spark.dataSource.register(RedisStreams)`.

    url : redis://HOST[:PORT][/DB]/STREAM. max_entries : entries of a batch at most; without it, all that are there.
    query : for a sink; a name for this query, under which Redis keeps the number of the last batch.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        require("redis", extra="redis")
        unknown = [name for name in options if name.lower() not in OPTIONS]
        if unknown:
            raise InputError(f"option {unknown[0]!r} of hedgerow-redis is not known; known: url, max_entries, query")
        if "url" not in options:
            raise InputError("hedgerow-redis needs the option url: redis://HOST[:PORT][/DB]/STREAM")
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """How the format is called."""
        return "hedgerow-redis"

    def schema(self) -> str:
        """Entries have no types of their own."""
        raise InputError('hedgerow-redis: say which fields to read, by .schema("key string, id string, ...")')

    def streamReader(self, schema: StructType) -> RedisReader:
        """A source."""
        most = self.options.get("max_entries")
        if most is not None and (not most.isdigit() or int(most) < 1):
            raise InputError(f"max_entries={most!r}: must be a whole number of at least 1")
        return RedisReader(self.options["url"], schema, None if most is None else int(most))

    def streamWriter(self, schema: StructType, overwrite: bool) -> RedisWriter:
        """A sink."""
        if not self.options.get("query"):
            raise InputError("hedgerow-redis as a sink needs the option query: a name that no other query uses")
        return RedisWriter(self.options["url"], self.options["query"])


@dataclass
class Span(InputPartition):
    """The entries after one id, up to another."""

    after: str
    last: str


class RedisReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The place is the id of the last entry that was read; `_until`: where a query ends that reads what is there."""

    def __init__(self, url: str, schema: StructType, most: int | None) -> None:
        self._url, self._schema, self._most = url, schema, most
        self._until: str | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is left for the next query."""
        with closing(connect(self._url)) as server:
            found = server.db.xrevrange(server.stream, count=1)
        self._until = found[0][0].decode() if found else "0-0"

    def initialOffset(self) -> dict[str, str]:
        """A new query begins with the oldest entry."""
        return {"after": "0-0"}

    def getDefaultReadLimit(self) -> Any:
        """As the option says."""
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, str], limit: Any) -> dict[str, str]:
        """The last entry there is, or the one at which the limit is reached."""
        most, until = getattr(limit, "max_rows", None), self._until or "+"
        with closing(connect(self._url)) as server:
            if most is None:
                found = server.db.xrevrange(server.stream, max=until, count=1)
            else:
                found = server.db.xrange(server.stream, min="(" + start["after"], max=until, count=most)[-1:]
        last = found[0][0].decode() if found else start["after"]
        return {"after": max(last, start["after"], key=place_of)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[Span]:
        """A stream of Redis is one partition; what went missing in it is an error."""
        if start == end:
            return []
        with closing(connect(self._url)) as server:
            about = server.db.xinfo_stream(server.stream) if server.db.exists(server.stream) else None
        gone = (about or {}).get("max-deleted-entry-id", b"0-0").decode()
        if about is None or place_of(gone) > place_of(start["after"]):
            raise InputError(
                f"{server.stream}: entries after {start['after']} were deleted (up to {gone}) before they were read; "
                "restore them, or begin with another checkpoint"
            )
        return [Span(start["after"], end["after"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Its entries; a field that cannot be read as its column's type is null."""
        assert isinstance(partition, Span)
        after = partition.after
        with closing(connect(self._url)) as server:
            while found := server.db.xrange(server.stream, min="(" + after, max=partition.last, count=AT_ONCE):
                after = found[-1][0].decode()
                for _, fields in found:
                    yield row_of(fields, self._schema)


@dataclass
class Lines(WriterCommitMessage):
    """What a partition of a batch has to write."""

    lines: list[str]


class RedisWriter(DataSourceStreamWriter):
    """Rows as entries {"json": line}: a batch and its number in one transaction, so that each is there once."""

    def __init__(self, url: str, query: str) -> None:
        self._url, self._query = url, query

    def write(self, iterator: Iterator[Row]) -> Lines:
        """Rows go to the driver, which alone knows that a batch is whole."""
        return Lines([json.dumps(row.asDict(recursive=True), default=str) for row in iterator])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Write a batch, unless it was written before."""
        with closing(connect(self._url)) as server:
            place = f"{server.stream}:hedgerow-query:{self._query}"
            before = server.db.get(place)
            if before is not None and int(before) >= batchId:
                return
            with server.db.pipeline(transaction=True) as together:
                for message in messages:
                    for line in message.lines if isinstance(message, Lines) else ():
                        together.xadd(server.stream, _entry(line))
                together.set(place, batchId)
                together.execute()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing was written."""


def _entry(line: str) -> Any:
    entry: Mapping[str, str] = {"json": line}
    return entry
