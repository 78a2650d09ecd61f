"""What a result was computed with and where: it stands in every row, and at the end of every report."""

from __future__ import annotations

import os
import platform
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
