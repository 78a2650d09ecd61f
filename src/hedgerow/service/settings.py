"""What an operator may set: where to listen, who may come in, and every limit of the service."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.live.settings import Settings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServiceSettings:
    """Limits and addresses of a service; every number must be above 0.

    Parameters
    ----------
    host, port : str, int
        Where to listen; a host that other machines can reach needs a `token_file`. Port 0 takes a free one.
    token_file : Path, optional
        Lines of ``TOKEN RIGHTS MODELS``, readable by its owner only.
    body_bytes, answer_bytes, upload_bytes, header_bytes : int
        Limits of a JSON body, of an answer with `explain`, of a model file or the files of a fit, and of the JSON
        header of a model file.
    batch_rows, models, connections, waiting, streams, exports : int
        How many there may be: see the comments below.
    request_seconds, body_seconds, upload_seconds, write_seconds, shutdown_seconds : float
        How long they may take.
    jobs, jobs_waiting, job_seconds, worker_bytes
        Fits in the background.
    live : hedgerow.live.Settings
        Of the models that the service creates.

    Raises
    ------
    InputError
        A number that is not above 0, a port that is none, or a host that others can reach without a token file.

    Examples
    --------
    >>> ServiceSettings(batch_rows=0)
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: batch_rows=0: must be above 0
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token_file: Path | None = None
    body_bytes: int = 16 << 20  # of a JSON body
    answer_bytes: int = 64 << 20  # of an answer, estimated before the work is done
    upload_bytes: int = 1 << 30  # of a model file, and of all files of a fit together
    header_bytes: int = 16 << 20  # of the JSON header of a model file
    batch_rows: int = 1024  # instances or labels of one request
    models: int = 100
    connections: int = 1000  # at the same time, and at most half of the descriptors that the process may have
    waiting: int = 256  # requests of one model that wait for its writer; one more is answered 429
    streams: int = 100  # readers of server-sent events, of all models together
    exports: int = 2  # exports and downloads that are made or sent at the same time
    request_seconds: float = 30.0  # until a request is answered 504
    body_seconds: float = 30.0  # until a caller that does not finish its JSON body is answered 408
    upload_seconds: float = 600.0  # the same for a model file or the files of a fit
    write_seconds: float = 60.0  # that a caller may take to read a megabyte of an export
    shutdown_seconds: float = 30.0  # that requests have to finish after SIGTERM
    jobs: int = 1  # fits that run at the same time
    jobs_waiting: int = 8
    job_seconds: float = 3600.0
    worker_bytes: int = 8 << 30  # address space of the process that fits, or checks an upload
    live: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "port" and isinstance(value, int | float) and not value > 0:
                raise InputError(f"{each.name}={value}: must be above 0")
        if not 0 <= self.port < 65536:
            raise InputError(f"port={self.port}: must be between 0 (any free one) and 65535")
        if self.token_file is None and not is_loopback(self.host):
            raise InputError(
                f"host {self.host!r} can be reached from other machines, and there is no token file: anybody could "
                "read, change and delete the models. Give --token-file (see docs/service.md), or stay on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
