"""What an operator may set: where to listen, who may come in, and every limit of the service."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from dataclasses import dataclass, field, fields
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.live import Settings
from hedgerow.service.problems import Problem, invalid

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ServiceSettings:
    """Limits and addresses of a service; `live` goes to the models that it creates.

    >>> ServiceSettings(batch_rows=0)
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: batch_rows=0: must be above 0
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token_file: Path | None = None
    body_bytes: int = 16 << 20  # of a JSON body
    upload_bytes: int = 1 << 30  # of a model file, and of all files of a fit together
    header_bytes: int = 16 << 20  # of the JSON header of a model file
    batch_rows: int = 1024  # instances or labels of one request
    models: int = 100
    waiting: int = 256  # requests of one model that wait for its writer; one more is answered 429
    streams: int = 100  # readers of server-sent events, of all models together
    request_seconds: float = 30.0  # until a request is answered 504
    body_seconds: float = 30.0  # until a caller that does not finish its JSON body is answered 408
    upload_seconds: float = 600.0  # the same for a model file or the files of a fit
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


# -- names ----------------------------------------------------------------------------------------------------

# Names of models: one folder each inside the models folder, and never anywhere else.


PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_name(name: str) -> bool:
    r"""Whether this can be the name of a model.

    >>> is_name("site-a.2"), is_name(".."), is_name("a/b"), is_name("a\n")
    (True, False, False, False)
    """
    return _NAME.fullmatch(name) is not None


def folder_of(models: Path, name: str) -> Path:
    """Where a model of this name is; a link is refused, since it could lead anywhere."""
    if not is_name(name):
        raise invalid(
            "name", "a name has up to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"
        )
    folder = models / name
    if folder.is_symlink():
        raise Problem("taken", f"{name!r} is a link in the models folder; links are not followed")
    return folder


def model_folders(models: Path) -> list[Path]:
    """The folders that can be models; hidden ones and links are left out."""
    return sorted(path for path in models.iterdir() if is_name(path.name) and path.is_dir() and not path.is_symlink())


def model_files(models: Path) -> list[Path]:
    """Model files that have no folder yet: each becomes a live model of its name."""
    files = (path for path in models.glob("*.safetensors") if is_name(path.stem) and path.is_file())
    return sorted(path for path in files if not path.is_symlink() and not (models / path.stem).exists())


# -- state ----------------------------------------------------------------------------------------------------

# Whether the service is ending: what waits without an end (streams of events) must then stop.


class Stop:
    """A flag that can be waited for, set from a signal handler or by the end of the application."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Say that the service is ending."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it is ending."""
        return self._event.is_set()

    async def within(self, seconds: float) -> bool:
        """Wait for so long, or until the service is ending: whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
