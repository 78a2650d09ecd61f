"""The HTTP service: live models and fleets over HTTP, one writer each, many in a process.

`hedgerow serve` runs it with uvicorn for one machine. Any ASGI server can run it instead, in one process, with the
settings in HEDGEROW_SERVE_* variables: `uvicorn --factory hedgerow.service:create_app`. See docs/service.md.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from hedgerow.core.errors import InputError, unknown
from hedgerow.live import Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["ServiceSettings", "create_app"]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
VARIABLE = "HEDGEROW_SERVE_"
WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "text (a path)",
}


@dataclass(frozen=True)
class ServiceSettings:
    """What an operator may set; every number must be above 0.

    Each field is an option of `hedgerow serve`, a key of the table [serve] of its TOML file, and a variable
    HEDGEROW_SERVE_*.

    Parameters
    ----------
    models : Path, optional
        Folder of the live models and fleets, one folder each; --demo can do without.
    host : str
        Address to listen at; any but this machine's own needs tokens.
    port : int
        Port to listen at; 0 takes a free one.
    token_file : Path, optional
        Lines of TOKEN RIGHTS MODELS; without it only this machine is served. Read again when it changes.
    max_body : int
        Bytes of a JSON body.
    max_upload : int
        Bytes of a model file.
    max_rows : int
        Instances or labels of one request.
    max_models : int
        Models and fleets of the service.
    max_waiting : int
        Requests of any kind that wait for one model; one more is answered 429.
    request_timeout : float
        Seconds until a body that is not complete is answered 408, and a request without an answer 504.
    max_pending : int
        Events of a new model that wait for labels.
    label_timeout : float, optional
        Seconds a new model waits for a label.
    consolidate : int, optional
        New keys of a fleet after which another base is fitted, from which later keys start; only of fleets that have
        kept the rows of their sources.

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

    models: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    token_file: Path | None = None
    max_body: int = 16 << 20
    max_upload: int = 1 << 30
    max_rows: int = 1024
    max_models: int = 100
    max_waiting: int = 256
    request_timeout: float = 30.0
    max_pending: int = Settings.max_pending
    label_timeout: float | None = None
    consolidate: int | None = None

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

    @property
    def live(self) -> Settings:
        """Settings of the live models that the service creates."""
        return Settings(self.label_timeout, self.max_pending)

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> ServiceSettings:
        """The settings in HEDGEROW_SERVE_* variables; an unknown variable or a value that does not fit is an error.

        >>> ServiceSettings.from_environment({"HEDGEROW_SERVE_MAX_ROWS": "9"}).max_rows
        9
        """
        hints = get_type_hints(cls)
        known = {f"{VARIABLE}{each.name.upper()}": each.name for each in fields(cls)}
        values: dict[str, Any] = {}
        for variable in sorted(name for name in variables if name.startswith(VARIABLE)):
            if variable not in known:
                raise unknown("variable", variable, known)
            hint = hints[known[variable]]
            kind = (get_args(hint) or (hint,))[0]
            try:
                values[known[variable]] = kind(variables[variable])
            except ValueError:
                raise InputError(
                    f"variable {variable}={variables[variable]!r}: must be {WORDS[kind]}"
                ) from None
        return cls(**values)


def create_app(settings: ServiceSettings | None = None) -> Starlette:
    """An ASGI application that serves the live models in a folder; one process only, since it owns them.

    It needs a token file: whatever server runs it may be reached from other machines. Only `hedgerow serve`, which
    listens itself, may do without one on this machine's own address.

    Parameters
    ----------
    settings : ServiceSettings, optional
        The folder, the token file and the limits; those of the HEDGEROW_SERVE_* variables if there are none. Host and
        port are the server's own.

    Returns
    -------
    Starlette
        With `lifespan`: an ASGI server opens the models when it starts and closes them, with a snapshot, at its end.

    Raises
    ------
    InputError
        There is no folder or no token file, the token file is readable by others, or one of its lines cannot be used.

    Examples
    --------
    >>> create_app(ServiceSettings(models=Path(".")))
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: there is no token file: name one in HEDGEROW_SERVE_TOKEN_FILE (see docs/service.md)
    """
    settings = ServiceSettings.from_environment() if settings is None else settings
    if settings.token_file is None:
        raise InputError(
            f"there is no token file: name one in {VARIABLE}TOKEN_FILE (see docs/service.md)"
        )
    from hedgerow.service.app import (
        build,
    )  # the process that checks uploads needs none of the web packages

    return build(settings)


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
