"""`hedgerow serve`: what can be refused before anything listens, then the service until it is told to end."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError, require

EXTRA = "live"


@dataclass(frozen=True)
class Asked:
    """What was asked for on the command line; None is the service's own default."""

    models: Path | None  # None: a folder for this demonstration alone
    demo: bool
    given: dict[str, Any]  # settings of the service
    live: dict[str, Any]  # settings of the models that it creates


def serve(asked: Asked) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    if asked.models is not None:
        _serve(asked, asked.models)
    elif asked.demo:
        with tempfile.TemporaryDirectory(prefix="hedgerow-demo-") as folder:
            _serve(asked, Path(folder))
    else:
        raise InputError("give the folder of the live models with --models, or --demo to look at one")


def _serve(asked: Asked, models: Path) -> None:
    for module in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        require(module, EXTRA)
    from hedgerow.cli import terminal
    from hedgerow.live import Settings
    from hedgerow.service.server import serve as run
    from hedgerow.service.settings import ServiceSettings

    if not models.is_dir():
        raise InputError(f"no folder at {models}: make it first; each live model gets a folder in it")
    live = Settings(**{name: value for name, value in asked.live.items() if value is not None})
    given = {name: value for name, value in asked.given.items() if value is not None}
    run(models, ServiceSettings(live=live, **given), demo=asked.demo, tell=terminal.note)
