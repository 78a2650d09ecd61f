"""Rows from a Redis stream, predictions to one: redis://[USER:PASSWORD@]HOST[:PORT][/DB]/STREAM[?OPTION=VALUE&..].

All but the stream is a URL of redis-py, with its options (`?ssl_ca_certs=..`); rediss:// is Redis over TLS. Entries are
read by a consumer group and acknowledged after the commit that has them. What was read and not acknowledged is read
again after a restart; the journal knows it by its id, so it is learned once. Nothing is read ahead: while a batch is
worked on, the rest waits in Redis.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from hedgerow.core.errors import InputError, require
from hedgerow.rows import RowBlock
from hedgerow.run.engine import Engine, Marks, Model
from hedgerow.run.interrupts import Interrupted, Interrupts
from hedgerow.run.job import Job, called
from hedgerow.run.sinks import Sink, begun
from hedgerow.run.sources import AT_ONCE, Broker

WAIT = 500  # milliseconds for new entries, between two looks at signals
ABANDONED = 60_000  # milliseconds after which entries of a consumer that is gone are taken over
Entries = list[tuple[bytes, dict[bytes, bytes] | None]]


class Server:
    """A connection that waits for a server which went away, unless a signal comes."""

    def __init__(self, url: str, interrupts: Interrupts) -> None:
        self._redis = redis = require("redis", extra="redis")
        self._interrupts, self._url = interrupts, called(url)
        parts = urlsplit(url)
        db, _, self.stream = parts.path.strip("/").rpartition("/")
        if not parts.hostname or not self.stream or (db and not db.isdigit()):
            raise InputError(f"{self._url}: write redis://HOST[:PORT][/DB]/STREAM, for instance redis://localhost/rows")
        address = parts._replace(path=f"/{db}").geturl()
        try:
            self.db = redis.Redis.from_url(address, socket_timeout=10, socket_connect_timeout=5)
            self.db.ping()
        except (redis.RedisError, ValueError, TypeError) as error:
            where = self._url.partition("://")[2]
            raise InputError(f"no Redis at {where} ({error}); is the server running?") from error

    def do(self, command: Callable[[], Any], expected: str = "") -> Any:
        """A command, again and again while the server is away; None if it is refused with the words `expected`."""
        pause = 0.05
        while True:
            try:
                return command()
            except (self._redis.ConnectionError, self._redis.TimeoutError, self._redis.BusyLoadingError):
                if self._interrupts.signal:
                    raise Interrupted from None
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
            except self._redis.ResponseError as error:
                if not expected or expected not in str(error):
                    raise InputError(f"{self._url}: {error}") from error
                return None


class RedisSource(Broker):
    """Blocks of a stream."""

    def __init__(self, job: Job, clf: Model, interrupts: Interrupts) -> None:
        self._server = Server(job.input, interrupts)
        super().__init__(clf, job, self._server.stream, interrupts)
        folder = str(job.journal.resolve()) if job.journal is not None else ""
        consumer = "journal-" + hashlib.sha256(folder.encode()).hexdigest()[:12]  # the same after a restart
        self._who = (job.group, consumer)
        self._unacknowledged: list[bytes] = []

    def __iter__(self) -> Iterator[RowBlock]:
        self._join()
        after: bytes = b"0"
        while entries := self._read(after, None):  # what this consumer had read when it ended
            after = entries[-1][0]
            yield from self._blocks(entries)
        yield from self._abandoned()
        looked = time.monotonic()
        while not self._interrupts.signal:
            yield from self._blocks(self._read(b">", WAIT))
            if time.monotonic() - looked > ABANDONED / 1000:
                looked = time.monotonic()
                yield from self._abandoned()

    def _join(self) -> None:
        create = self._server.db.xgroup_create
        self._server.do(partial(create, self._server.stream, self._who[0], id="0", mkstream=True), "BUSYGROUP")

    def _read(self, after: bytes, wait: int | None) -> Entries:
        streams: Any = {self._server.stream: after}
        read = partial(self._server.db.xreadgroup, *self._who, streams, count=AT_ONCE, block=wait)
        answer = self._server.do(read, "NOGROUP")
        if answer is None:
            self._join()  # the server came back without it
        return answer[0][1] if answer else []

    def _abandoned(self) -> Iterator[RowBlock]:
        """What another consumer had read, which did not come back."""
        start: bytes | str = "0-0"
        while start != b"0-0":
            claim = partial(self._server.db.xautoclaim, self._server.stream, *self._who, ABANDONED)
            start, entries, *_ = self._server.do(partial(claim, start_id=start, count=AT_ONCE))
            yield from self._blocks(entries)

    def _blocks(self, entries: Entries) -> Iterator[RowBlock]:
        if not entries:
            return
        self._unacknowledged, self._last = [id for id, _ in entries], False
        yield from self.blocks_of([(id.decode(), _text(fields)) for id, fields in entries if fields])
        if not self._last:  # there was none: entries that were deleted have no fields
            self._acknowledge()

    def place(self, block: RowBlock) -> bytes:
        """For people: the group at the server knows better."""
        return json.dumps({"redis": self._server.stream, "last": self._unacknowledged[-1].decode()}).encode()

    def _acknowledge(self) -> None:
        self._server.do(partial(self._server.db.xack, self._server.stream, self._who[0], *self._unacknowledged))

    def close(self) -> None:
        """Close the connection."""
        self._server.db.close()


def _text(fields: dict[bytes, bytes]) -> bytes | dict[str, str]:
    """The JSON of an entry whose only field is "json", or its fields."""
    if len(fields) == 1 and b"json" in fields:
        return fields[b"json"]
    return {name.decode(errors="replace"): value.decode(errors="surrogateescape") for name, value in fields.items()}


class RedisSink(Sink):
    """Predictions as entries {"json": line} of a stream, each once: their ids are numbers that the journal counts."""

    def __init__(self, url: str, engine: Engine, interrupts: Interrupts) -> None:
        self._server = Server(url, interrupts)
        before = engine.mark("output")
        about: dict[str, Any] = {}
        if before is not None:
            about, self._data = begun(before, "redis", called(url))
        same = about.get("redis") == self._server.stream
        self._next = int(about["next"]) if same else self._end() + 1
        self._write(again=same)

    def _end(self) -> int:
        db, name = self._server.db, self._server.stream
        if not self._server.do(partial(db.exists, name)):
            return 0
        return int(self._server.do(partial(db.xinfo_stream, name))["last-generated-id"].split(b"-")[0])

    def put(self, data: bytes) -> Marks:
        """The journal keeps the lines, and the number of the first."""
        self._data = data
        return {"output": json.dumps({"redis": self._server.stream, "next": self._next}).encode() + b"\n" + data}

    def write(self) -> None:
        """What was put."""
        self._write(again=False)

    def _write(self, again: bool) -> None:
        """All lines; `again`: after a restart, when some of them may be there already."""
        name, db = self._server.stream, self._server.db
        for line in self._data.splitlines():
            entry = f"{self._next}-1"
            tries: list[Any] = [None] if again else []

            def add(line: bytes = line, entry: str = entry, tries: list[Any] = tries) -> Any:
                tries.append(entry)  # if the answer is lost, it may be there all the same
                return db.xadd(name, {"json": line}, id=entry)

            if self._server.do(add, "equal or smaller") is None:
                there = self._server.do(partial(db.xrange, name, entry, entry))
                if len(tries) == 1 or not there or there[0][1] != {b"json": line}:
                    raise InputError(
                        f"{name}: somebody else writes to this stream, and a run needs one of its own. Start "
                        "again with another --output: lines that are missing here are written there first"
                    )
            self._next += 1
        self._data = b""

    def close(self) -> None:
        """Close the connection."""
        self._server.db.close()
