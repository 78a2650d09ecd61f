"""The command as a user types it, in a process of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from support import warm

Run = Callable[..., subprocess.CompletedProcess[str]]
FRESH = [sys.executable, "-W", "error", "-m", "hedgerow"]
PYTHON = [
    sys.executable,
    "-I",
    "-S",
    warm.__file__,
    "run",
]  # forked from a process that has all imports
COMMAND = [*PYTHON, "-m", "hedgerow"]


def environment(**extra: str) -> dict[str, str]:
    quiet = {
        key: value
        for key, value in os.environ.items()
        if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    }
    return {**quiet, warm.SOCKET: forking(), **extra}


@cache
def forking() -> str:
    """The socket of the process that forks commands, which ends with this one."""
    folder = Path(tempfile.mkdtemp(prefix="hedgerow-tests-"))
    path = str(folder / "socket")
    # one thread: a process that forks must have no other, and neither have its children any use for more
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-W", "error", warm.__file__, "serve", path]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
    )

    def end() -> None:
        process.stdin.close()
        process.wait()
        process.stdout.close()
        shutil.rmtree(folder)

    assert process.stdin is not None
    assert process.stdout is not None
    atexit.register(end)
    assert process.stdout.readline() == b"ready\n", "the process that forks commands did not start"
    return path
