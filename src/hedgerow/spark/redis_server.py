"""A connection to a stream of Redis."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hedgerow.core.errors import InputError, require


class Server:
    """A connection, and the name of the stream."""

    def __init__(self, db: Any, stream: str) -> None:
        self.db, self.stream = db, stream

    def close(self) -> None:
        """Close the connection."""
        self.db.close()


def connect(url: str) -> Server:
    """Of redis://HOST[:PORT][/DB]/STREAM."""
    redis = require("redis", extra="redis")
    parts = urlsplit(url)
    path = parts.path.strip("/").split("/")
    if parts.scheme != "redis" or not parts.hostname or not path[-1] or len(path) > 2:
        raise InputError(f"{url}: write redis://HOST[:PORT][/DB]/STREAM, for instance redis://localhost/rows")
    if len(path) == 2 and not path[0].isdigit():
        raise InputError(f"{url}: {path[0]!r} is no number of a database")
    db = redis.Redis(
        parts.hostname, parts.port or 6379, int(path[0]) if len(path) == 2 else 0,
        username=parts.username, password=parts.password, socket_timeout=10, socket_connect_timeout=5,
    )  # fmt: skip
    try:
        db.ping()
    except redis.RedisError as error:
        raise InputError(
            f"no Redis at {parts.hostname}:{parts.port or 6379} ({error}); is the server running?"
        ) from error
    return Server(db, path[-1])
