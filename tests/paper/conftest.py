"""Real commands on the real data, kept small; and rows made up by hand, for the folds."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import COMMAND, environment

PLUGIN = """
from hedgerow.methods import Recipe, register_method

register_method("mine", Recipe("My own method", "shared", "identity", "each", "pooled", "hedge"))
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def start() -> Start:
    """A command in a process group of its own, as a terminal would start it."""

    def begin(*arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(OPENBLAS_NUM_THREADS="1"), start_new_session=True,
        )  # fmt: skip

    return begin


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "mymethod.py"
    path.write_text(PLUGIN, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small(
    tmp_path_factory: pytest.TempPathFactory, data_dir: Path, start: Start, plugin: Path
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """All methods and one of our own on DSLR, two orders, two processes: the folder, and what was printed."""
    out = tmp_path_factory.mktemp("small") / "out"
    process = start(
        "paper", "--tasks", "dslr", "--trials", 2, "--jobs", 2, "--data-dir", data_dir, "--out", out, "--plugin", plugin
    )
    stdout, stderr = process.communicate(timeout=300)
    return out, subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def made_row(group: str, task: str, method: str, variant: str = "", trial: int = 0, **more: Any) -> dict[str, Any]:
    """A row as a run would write it, with the numbers that a test needs."""
    return {
        "group": group, "task": task, "method": method, "variant": variant, "split": 0, "trial": trial,
        "mistakes": 300, "n": 1000, "seconds_offline": 0.5, "seconds_online": 0.1,
        "curve_at": [500, 1000], "curve": [200, 300], "discrepancy_at": [0, 500, 1000], "discrepancy": [1.0, 0.5, 0.25],
        "experts": ["source", "target"], "expert_mistakes": [310, 400], "expert_loss": [310.0, 400.0],
        "hedge_loss": 320.0, "beta": 0.95, "bound": 400.0, "guarantee": "weighted loss", "reading": "table",
        "options": {"lam": 1.0, "refresh_every": 10, "horizon": 1000}, "versions": {"numpy": "2"}, "data": "abc",
    } | more  # fmt: skip
