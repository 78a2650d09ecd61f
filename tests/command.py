"""The command as a user types it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-W", "error", "-m", "hedgerow"]


def environment(**extra: str) -> dict[str, str]:
    quiet = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**quiet, **extra}
