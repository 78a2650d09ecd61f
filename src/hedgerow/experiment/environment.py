"""What a result was computed with and where: it stands in every row, and at the end of every report."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import hedgerow

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a number depends on.

    >>> list(versions())
    ['python', 'numpy', 'scipy', 'scikit-learn', 'numba', 'hedgerow']
    """
    found = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **found, "hedgerow": hedgerow.__version__}


def circumstances() -> dict[str, str]:
    """Versions, machine and time, for the end of a report.

    >>> "numpy" in circumstances()["versions"]
    True
    """
    found = versions() | _drawing()
    return {
        "versions": ", ".join(f"{package} {number}" for package, number in found.items()),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "time": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
    }


def _drawing() -> dict[str, str]:
    """The package that draws the figures, where it is installed."""
    try:
        return {"matplotlib": version("matplotlib")}
    except PackageNotFoundError:
        return {}


def commit() -> str:
    """The commit of the folder one works in, and whether something in it was changed since; empty outside of git."""
    try:
        name = _git("rev-parse", "HEAD")
        return name and name + (" and changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
