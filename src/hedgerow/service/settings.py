"""What an operator may set: where to listen, who may come in, and every limit of the service.

Each setting is declared once: its name is that of the option of `hedgerow serve`, what stands under it is the help.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

from hedgerow.core.errors import InputError
from hedgerow.live import Settings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServiceSettings:
    """Limits and addresses of a service; every number must be above 0.

    Parameters
    ----------
    host : str
        Address to listen at; any but this machine's own needs tokens.
    port : int
        Port to listen at; 0 takes a free one.
    token_file : Path, optional
        Lines of TOKEN RIGHTS MODELS; without it only this machine is served. Read again on SIGHUP.
    tls_cert : Path, optional
        Certificates (PEM): the service speaks HTTPS. Read again on SIGHUP.
    tls_key : Path, optional
        The private key of --tls-cert (PEM).
    root_path : str
        Path under which a proxy serves this; the proxy takes it away.
    trusted_proxies : str
        Addresses or networks, joined by commas, whose X-Forwarded-For and -Proto headers are believed.
    webhook : str, optional
        Address (http or https) that alarms are posted to as JSON.
    max_body : int
        Bytes of a JSON body.
    max_answer : int
        Bytes of an answer, estimated before the work is done.
    max_upload : int
        Bytes of a model file, or of the files of a fit.
    max_rows : int
        Instances or labels of one request.
    max_models : int
        Models and fleets of the service.
    max_connections : int
        Connections, and at most half of the descriptors of the process.
    max_waiting : int
        Requests that wait for one model; one more is answered 429.
    max_streams : int
        Readers of server-sent events, of all models together.
    max_exports : int
        Exports and downloads that are made or sent at the same time.
    request_timeout : float
        Seconds until a request is answered 504.
    body_timeout : float
        Seconds until a caller that does not finish its body is answered 408.
    upload_timeout : float
        The same for a model file or the files of a fit.
    write_timeout : float
        Seconds that a caller may take to read a megabyte of an export.
    shutdown_timeout : float
        Seconds that requests have to finish after SIGTERM.
    max_jobs : int
        Fits that run at the same time.
    max_jobs_waiting : int
        Fits that wait for their turn.
    job_timeout : float
        Seconds that a fit may take.
    max_worker : int
        Bytes of address space of a process that fits, or checks an upload.
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

    host: str = "127.0.0.1"
    port: int = 8080
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    root_path: str = ""
    trusted_proxies: str = ""
    webhook: str | None = None
    max_body: int = 16 << 20
    max_answer: int = 64 << 20
    max_upload: int = 1 << 30
    max_rows: int = 1024
    max_models: int = 100
    max_connections: int = 1000
    max_waiting: int = 256
    max_streams: int = 100
    max_exports: int = 2
    request_timeout: float = 30.0
    body_timeout: float = 30.0
    upload_timeout: float = 600.0
    write_timeout: float = 60.0
    shutdown_timeout: float = 30.0
    max_jobs: int = 1
    max_jobs_waiting: int = 8
    job_timeout: float = 3600.0
    max_worker: int = 8 << 30
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
