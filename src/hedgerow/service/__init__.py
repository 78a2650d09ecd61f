"""The HTTP service: live models and fleets over HTTP, one writer each, many in a process.

    from hedgerow.service import ServiceSettings, create_app
    app = create_app(Path("models"), ServiceSettings())      # a plain ASGI application

`hedgerow serve` runs it with uvicorn. What callers may rely on is in docs/service.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.service.app import create_app
    from hedgerow.service.settings import ServiceSettings

__all__ = ["ServiceSettings", "create_app"]

# Loaded when first used: the processes that fit and check uploads need none of the web packages.
_HOMES = {"ServiceSettings": "settings", "create_app": "app"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hedgerow.service' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hedgerow.service.{_HOMES[name]}"), name)
