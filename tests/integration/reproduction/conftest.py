"""Real commands on real data, kept small."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command import environment

ROOT = Path(__file__).parents[3]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def start() -> Start:
    """The program in a process group of its own, as a terminal would start it."""

    def begin(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "reproduction", *map(str, arguments)], cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(OPENBLAS_NUM_THREADS="1"), start_new_session=True,
        )  # fmt: skip

    return begin
