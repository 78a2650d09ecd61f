"""`hedgerow serve`: what can be refused before anything listens, then the service until it is told to end."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hedgerow.core.errors import InputError, require

EXTRA = "live"


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line; None is the service's own default."""

    models: Path | None
    demo: bool
    given: dict[str, Any]  # settings of the service
    live: dict[str, Any]  # settings of the models that it creates


def serve(asked: Asked) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    for module in ("starlette", "msgspec", "uvicorn", "prometheus_client", "python_multipart"):
        require(module, EXTRA)
    from hedgerow.cli import terminal
    from hedgerow.live import Settings
    from hedgerow.service.app import serve as run
    from hedgerow.service.settings import ServiceSettings

    if asked.models is None and not asked.demo:
        raise InputError("--models is missing: name a folder for the live models, or try --demo")
    if asked.models is not None and not asked.models.is_dir():
        raise InputError(f"no folder at {asked.models}: make it first; each live model gets a folder in it")
    live = Settings(**{name: value for name, value in asked.live.items() if value is not None})
    given = {name: value for name, value in asked.given.items() if value is not None}
    settings = ServiceSettings(live=live, **given)
    with TemporaryDirectory() if asked.models is None else nullcontext(asked.models) as folder:
        run(Path(folder), settings, demo=asked.demo, tell=terminal.note)
