"""One way to keep what was measured: a line of JSON a row, with the command, the commit, the machine and its load."""

from __future__ import annotations

import datetime
import importlib.metadata as metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.comparison import results

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "bench" / "rows"
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


class Row(NamedTuple):
    """What a benchmark yields: what was run, the figures by name (with their unit), and goals such as ">= 200"."""

    setting: Mapping[str, Any]
    figures: Mapping[str, Any]
    goals: Mapping[str, str] = {}


def record(name: str, row: Row, command: str = "", out: Path = ROWS) -> dict[str, Any]:
    """Append a row to OUT/NAME.jsonl, on disk before the next is measured."""
    line = {
        "setting": dict(row.setting),
        "figures": {key: _plain(value) for key, value in row.figures.items()},
        **({"goals": dict(row.goals)} if row.goals else {}),
        "command": command or shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.date.today().isoformat(),
    }
    out.mkdir(parents=True, exist_ok=True)
    results.append(out, line, f"{name}.jsonl")
    return line


def rows(name: str, out: Path = ROWS) -> list[dict[str, Any]]:
    """All rows of a benchmark, oldest first."""
    path = out / f"{name}.jsonl"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if path.is_file()
        else []
    )


def latest(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest row of each setting, in the order in which the settings were first met."""
    return list({json.dumps(line["setting"]): line for line in lines}.values())


@cache
def commit() -> str:
    """Of this checkout; "+" where the package was changed since; empty outside of a clone."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return git("rev-parse", "--short=7", "HEAD") + (
        "+" if git("status", "--porcelain", "--", "src") else ""
    )


@cache
def machine() -> str:
    """Processor, cores and the versions that figures depend on."""
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if "model name" in line]
        if info.is_file()
        else []
    )
    cpu = names[0].split(":", 1)[1].strip() if names else platform.machine()
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return f"{cpu}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}"


def _plain(value: Any) -> Any:
    """NumPy's numbers as JSON can hold them, with no more digits than a measurement has."""
    value = value.item() if hasattr(value, "item") else value
    return float(f"{value:.6g}") if isinstance(value, float) else value
