"""Rows from a Redis stream, predictions to one: redis://HOST[:PORT][/DB]/STREAM.

Entries are read by a consumer group and acknowledged after the commit that has them. What was read and not acknowledged
is read again after a restart; the journal knows it by its id, so it is learned once. Nothing is read ahead: while a
batch is worked on, the rest waits in Redis.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hedgerow.core.errors import InputError, require
from hedgerow.estimator import OnlineTransferClassifier
from hedgerow.rows import RowBlock
from hedgerow.run.engine import Engine, Marks
from hedgerow.run.feeds import AT_ONCE, BrokerFeed
from hedgerow.run.interrupts import Interrupted, Interrupts
from hedgerow.run.job import Job
from hedgerow.run.sinks import begun

WAIT = 500  # milliseconds for new entries, between two looks at signals
ABANDONED = 60_000  # milliseconds after which entries of a consumer that is gone are taken over
T = TypeVar("T")


class Server:
    """A connection that waits for a server which went away, unless a signal comes."""

    def __init__(self, url: str, interrupts: Interrupts | None) -> None:
        self._redis = require("redis", extra="redis")
        parts = urlsplit(url)
        path = parts.path.strip("/").split("/")
        if not parts.hostname or not path[-1] or len(path) > 2 or (len(path) == 2 and not path[0].isdigit()):
            raise InputError(f"{url}: write redis://HOST[:PORT][/DB]/STREAM, for instance redis://localhost/rows")
        self.stream, self.url, self._interrupts = path[-1], url, interrupts
        self.db = self._redis.Redis(
            parts.hostname, parts.port or 6379, int(path[0]) if len(path) == 2 else 0,
            username=parts.username, password=parts.password, socket_timeout=10, socket_connect_timeout=5,
        )  # fmt: skip

    def first(self) -> None:
        """Refuse at once what cannot be reached at all."""
        try:
            self.db.ping()
        except self._redis.RedisError as error:
            where = self.url.rpartition("@")[2].removeprefix("redis://")
            raise InputError(f"no Redis at {where} ({error}); is the server running?") from error

    def do(self, command: Callable[[], T]) -> T:
        """A command, again and again while the server is away."""
        pause = 0.05
        while True:
            try:
                return command()
            except (self._redis.ConnectionError, self._redis.TimeoutError, self._redis.BusyLoadingError):
                if self._interrupts is not None and self._interrupts.signal:
                    raise Interrupted from None
                time.sleep(pause)
                pause = min(pause * 2, 1.0)


class RedisFeed(BrokerFeed):
    """Blocks of a stream."""

    def __init__(self, job: Job, clf: OnlineTransferClassifier, interrupts: Interrupts) -> None:
        self._server = Server(job.input, interrupts)
        self._server.first()
        super().__init__(clf, job, self._server.stream, interrupts)
        self._group = job.group
        folder = str(job.journal.resolve()) if job.journal is not None else ""
        self._consumer = "journal-" + hashlib.sha256(folder.encode()).hexdigest()[:12]  # the same after a restart
        self._unacknowledged: list[bytes] = []

    def __iter__(self) -> Iterator[RowBlock]:
        self._server.do(self._join)
        yield from self._own_pending()
        yield from self._abandoned()
        looked = time.monotonic()
        while not self._interrupts.signal:
            found = self._server.do(lambda: self._read(">", WAIT))
            yield from self._blocks(found)
            if time.monotonic() - looked > ABANDONED / 1000:
                looked = time.monotonic()
                yield from self._abandoned()

    def _join(self) -> None:
        from redis import ResponseError

        try:
            self._server.db.xgroup_create(self._server.stream, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise InputError(f"{self._server.stream}: {error}") from error

    def _read(self, after: str | bytes, wait: int | None) -> list[tuple[bytes, dict[bytes, bytes] | None]]:
        from redis import ResponseError

        streams: Any = {self._server.stream: after}
        try:
            found = self._server.db.xreadgroup(self._group, self._consumer, streams, count=AT_ONCE, block=wait)
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self._join()  # the server came back without it
            return []
        return found[0][1] if found else []

    def _own_pending(self) -> Iterator[RowBlock]:
        """What this consumer had read when it ended."""
        after: bytes = b"0"
        while found := self._server.do(partial(self._read, after, None)):
            after = found[-1][0]
            yield from self._blocks(found)

    def _abandoned(self) -> Iterator[RowBlock]:
        """What another consumer had read, which did not come back."""
        start: bytes | str = "0-0"
        db, name = self._server.db, self._server.stream
        while True:
            claim = partial(db.xautoclaim, name, self._group, self._consumer, ABANDONED, start_id=start, count=AT_ONCE)
            start, found, *_ = self._server.do(claim)
            yield from self._blocks(found)
            if start == b"0-0":
                return

    def _blocks(self, found: list[tuple[bytes, dict[bytes, bytes] | None]]) -> Iterator[RowBlock]:
        if not found:
            return
        self._unacknowledged = [id for id, _ in found]
        there = [(id.decode(), fields) for id, fields in found if fields]  # one that was deleted has none
        blocks = list(self._messages.blocks([(id, _text(fields)) for id, fields in there])) if there else []
        for i, block in enumerate(blocks):
            self._last = i == len(blocks) - 1
            yield block
        if not blocks:
            self._acknowledge()

    def place(self, block: RowBlock) -> bytes:
        """For people: the group at the server knows better."""
        return json.dumps({"redis": self._server.stream, "last": self._unacknowledged[-1].decode()}).encode()

    def acknowledge(self, block: RowBlock) -> None:
        """With its last block a batch is on disk."""
        if self._last:
            self._acknowledge()

    def _acknowledge(self) -> None:
        ids = self._unacknowledged
        self._server.do(lambda: self._server.db.xack(self._server.stream, self._group, *ids))

    def close(self) -> None:
        """Close the connection."""
        self._server.db.close()


def _text(fields: dict[bytes, bytes]) -> bytes | dict[str, str]:
    """The JSON of an entry whose only field is "json", or its fields."""
    if len(fields) == 1 and b"json" in fields:
        return fields[b"json"]
    return {name.decode(errors="replace"): value.decode(errors="surrogateescape") for name, value in fields.items()}


class RedisSink:
    """Predictions as entries {"json": line} of a stream, each once: their ids are numbers that the journal counts."""

    def __init__(self, url: str, engine: Engine, interrupts: Interrupts) -> None:
        self._server = Server(url, interrupts)
        self._server.first()
        self._data, before = b"", engine.mark("output")
        about: dict[str, Any] = {}
        if before is not None:
            about, self._data = begun(before, "redis", url.rpartition("@")[2])
        same = about.get("redis") == self._server.stream
        self._next = int(about["next"]) if same else self._server.do(self._end) + 1
        self._write(again=same)

    def _end(self) -> int:
        db, name = self._server.db, self._server.stream
        return int(db.xinfo_stream(name)["last-generated-id"].split(b"-")[0]) if db.exists(name) else 0

    def put(self, data: bytes) -> Marks:
        """The journal keeps the lines, and the number of the first."""
        self._data = data
        return {"output": json.dumps({"redis": self._server.stream, "next": self._next}).encode() + b"\n" + data}

    def write(self) -> None:
        """What was put."""
        self._write(again=False)

    def _write(self, again: bool) -> None:
        """All lines; `again`: after a restart, when some of them may be there already."""
        from redis import ResponseError

        name, db = self._server.stream, self._server.db
        for line in self._data.splitlines():
            entry, lost = f"{self._next}-1", [again]  # an answer that was lost means that it may be there too

            def add(line: bytes = line, entry: str = entry, lost: list[bool] = lost) -> None:
                try:
                    db.xadd(name, {"json": line}, id=entry)
                except ResponseError:
                    raise
                except BaseException:
                    lost[0] = True
                    raise

            try:
                self._server.do(add)
            except ResponseError as error:
                there = self._server.do(partial(db.xrange, name, entry, entry))
                if not (lost[0] and there and there[0][1] == {b"json": line}):
                    raise InputError(
                        f"{name}: {error}; somebody else writes to this stream, and a run needs one of its own. Start "
                        "again with another --output: lines that are missing here are written there first"
                    ) from error
            self._next += 1
        self._data = b""

    def close(self) -> None:
        """Close the connection."""
        self._server.db.close()
