"""Real commands on real data, kept small."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from support.command import FRESH, environment

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session")
def start() -> Start:
    """A command in a process group of its own, as a terminal would start it."""

    def begin(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*FRESH, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(OPENBLAS_NUM_THREADS="1"), start_new_session=True,
        )  # fmt: skip

    return begin
