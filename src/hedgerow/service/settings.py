"""What an operator may set: where to listen, who may come in, and every limit of the service.

Each setting is declared once: its name is that of the option of `hedgerow serve`, its note the help.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from hedgerow.core.errors import InputError
from hedgerow.live import Settings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServiceSettings:
    """Limits and addresses of a service; every number must be above 0.

    Parameters
    ----------
    host, port : str, int
        Where to listen; a host that other machines can reach needs a `token_file`. Port 0 takes a free one.
    token_file : Path, optional
        Lines of ``TOKEN RIGHTS MODELS``, readable by its owner only; read again on SIGHUP.
    tls_cert, tls_key : Path, optional
        Files (PEM) with which the service speaks HTTPS; read again on SIGHUP.
    root_path, trusted_proxies : str
        Behind a proxy: the path that it takes away, and the addresses whose forwarded headers are believed.
    webhook : str, optional
        Where alarms are posted to.
    max_body, max_answer, max_upload, max_header : int
        Bytes of a JSON body, of an answer, of a model file or the files of a fit, and of the header of a model file.
    max_rows, max_models, max_connections, max_waiting, max_streams, max_exports : int
        How many there may be.
    request_timeout, body_timeout, upload_timeout, write_timeout, shutdown_timeout : float
        Seconds that each may take.
    max_jobs, max_jobs_waiting, job_timeout, max_worker : int, int, float, int
        Fits in the background.
    live : hedgerow.live.Settings
        Of the models that the service creates.

    Raises
    ------
    InputError
        A number that is not above 0, a port that is none, or a host that others can reach without a token file.

    Examples
    --------
    >>> ServiceSettings(max_rows=0)
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: max_rows=0: must be above 0
    """

    host: Annotated[str, "Address to listen at; any but this machine's own needs tokens."] = "127.0.0.1"
    port: Annotated[int, "Port to listen at; 0 takes a free one."] = 8080
    token_file: Annotated[
        Path | None, "Lines of TOKEN RIGHTS MODELS; without it only this machine is served. Read again on SIGHUP."
    ] = None
    tls_cert: Annotated[Path | None, "Certificates (PEM): the service speaks HTTPS. Read again on SIGHUP."] = None
    tls_key: Annotated[Path | None, "The private key of --tls-cert (PEM)."] = None
    root_path: Annotated[str, "Path under which a proxy serves this; the proxy takes it away."] = ""
    trusted_proxies: Annotated[
        str, "Addresses or networks, joined by commas, whose X-Forwarded-For and -Proto headers are believed."
    ] = ""
    webhook: Annotated[str | None, "Address (http or https) that alarms are posted to as JSON."] = None
    max_body: Annotated[int, "Bytes of a JSON body."] = 16 << 20
    max_answer: Annotated[int, "Bytes of an answer, estimated before the work is done."] = 64 << 20
    max_upload: Annotated[int, "Bytes of a model file, or of the files of a fit."] = 1 << 30
    max_header: Annotated[int, "Bytes of the JSON header of a model file."] = 16 << 20
    max_rows: Annotated[int, "Instances or labels of one request."] = 1024
    max_models: Annotated[int, "Models and fleets of the service."] = 100
    max_connections: Annotated[int, "Connections, and at most half of the descriptors of the process."] = 1000
    max_waiting: Annotated[int, "Requests that wait for one model; one more is answered 429."] = 256
    max_streams: Annotated[int, "Readers of server-sent events, of all models together."] = 100
    max_exports: Annotated[int, "Exports and downloads that are made or sent at the same time."] = 2
    request_timeout: Annotated[float, "Seconds until a request is answered 504."] = 30.0
    body_timeout: Annotated[float, "Seconds until a caller that does not finish its body is answered 408."] = 30.0
    upload_timeout: Annotated[float, "The same for a model file or the files of a fit."] = 600.0
    write_timeout: Annotated[float, "Seconds that a caller may take to read a megabyte of an export."] = 60.0
    shutdown_timeout: Annotated[float, "Seconds that requests have to finish after SIGTERM."] = 30.0
    max_jobs: Annotated[int, "Fits that run at the same time."] = 1
    max_jobs_waiting: Annotated[int, "Fits that wait for their turn."] = 8
    job_timeout: Annotated[float, "Seconds that a fit may take."] = 3600.0
    max_worker: Annotated[int, "Bytes of address space of a process that fits, or checks an upload."] = 8 << 30
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
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError("TLS needs both files, --tls-cert and --tls-key")
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise InputError(f"root_path={self.root_path!r}: must begin with / and not end with it, e.g. /hedgerow")
        if self.webhook is not None and not (
            urlsplit(self.webhook).scheme in ("http", "https") and urlsplit(self.webhook).hostname
        ):
            raise InputError("webhook: must be an address that begins with http:// or https:// and names a host")


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
