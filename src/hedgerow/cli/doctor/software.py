"""What is installed: versions, extras, programs, compiled kernels, data sets."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

import hedgerow
from hedgerow.cli.doctor import NOTE, OK, PROBLEM, Finding

LEAST_PYTHON = (3, 11)
# what an extra is for, as its remedy says; extras of developers are not looked at
EXTRAS = {
    "cli": "the command line", "files": "Parquet, Arrow and .zst files, and CSV and JSON lines read faster",
    "data": "MATLAB files of version 7.3", "plot": "figures", "tables": "data frames of pandas, polars and pyarrow",
    "lab": "hedgerow paper, study, compare and demo",
    "live": "hedgerow serve and its client", "redis": "Redis streams", "kafka": "Kafka topics",
    "dask": "--engine dask", "spark": "hedgerow.spark", "river": "detectors and models of river",
    "skada": "pipelines and scorers of skada", "pipeline": "online pipelines of scikit-learn, saved without pickle",
    "mlflow": "hedgerow.mlflow", "capymoa": "hedgerow.capymoa",
}  # fmt: skip
# program: which extra uses it, what for, and how to get it; without the extra it is not looked for
PROGRAMS = {
    "java": ("pyspark", "hedgerow.spark needs Java 17 or later", "apt-get install openjdk-17-jre-headless"),
    "redis-server": ("redis", "only needed if Redis runs on this machine", "apt-get install redis-server"),
    "chromium": ("playwright", "only for the tests of the page", "apt-get install chromium"),
}


def versions() -> Iterator[Finding]:
    """Of hedgerow, Python and the packages of the core, each against what hedgerow asks for."""
    yield Finding("versions", "hedgerow", hedgerow.__version__)
    new_enough = sys.version_info >= LEAST_PYTHON
    yield Finding(
        "versions", "python", f"{platform.python_version()} ({sys.executable})", OK if new_enough else PROBLEM,
        "" if new_enough else "hedgerow needs Python 3.11 or later",
    )  # fmt: skip
    for name, least, extra in _requirements():
        if not extra:
            found, fine = _state(name, least)
            remedy = "" if fine else f"pip install --upgrade '{name}>={least}'"
            yield Finding("versions", name, found, OK if fine else PROBLEM, remedy)


def extras() -> Iterator[Finding]:
    """Which are installed; the way to those that are not."""
    for extra, purpose in EXTRAS.items():
        packages = [(name, least) for name, least, of in _requirements() if of == extra]
        states = [(name, *_state(name, least)) for name, least in packages]
        found = ", ".join(f"{name} {said}" for name, said, _ in states)
        fine = all(is_fine for _, _, is_fine in states)
        remedy = "" if fine else f"for {purpose}: pip install 'hedgerow[{extra}]'"
        yield Finding("extras", extra, found, OK if fine else NOTE, remedy)


def programs() -> Iterator[Finding]:
    """Programs that an installed extra starts or talks to."""
    for program, (module, purpose, install) in PROGRAMS.items():
        if find_spec(module) is None:
            continue
        path = _java_home() if program == "java" else None
        path = path or shutil.which(program)
        if path is None:
            yield Finding("programs", program, "not found", NOTE, f"{purpose}: {install}")
        else:
            yield Finding("programs", program, f"{path}{_java(path) if program == 'java' else ''}")


def compiled_kernels() -> Iterator[Finding]:
    """Whether what is compiled can be kept, and where."""
    from hedgerow.cli.warm import REMEDY
    from hedgerow.kernels import compiled

    for folder, reason in compiled.folders().items():
        if reason:
            yield Finding("compiled kernels", "not written", f"{folder}: {reason}", NOTE)
            continue
        kept = len(list(folder.glob("*.nbc")))
        remedy = "" if kept else "the first use compiles for some seconds; in advance: hedgerow warm"
        yield Finding("compiled kernels", "kept in", f"{folder} ({kept} there)", OK if kept else NOTE, remedy)
    if all(compiled.folders().values()):
        yield Finding("compiled kernels", "kept in", "nowhere", PROBLEM, REMEDY.removeprefix("error: "))


def data_sets() -> Iterator[Finding]:
    """The published data sets, and a HEDGEROW_DATA that names no folder."""
    from hedgerow.core.errors import DataMissing
    from hedgerow.data import available
    from hedgerow.data.catalog import ENVIRONMENT

    try:
        rows = available()
    except DataMissing as error:
        yield Finding("data sets", ENVIRONMENT, str(error), PROBLEM, f"correct {ENVIRONMENT}, or unset it")
        return
    for row in rows:
        absent = row.where == "needs download"
        remedy = f"downloaded at first use, or: set {ENVIRONMENT} to the folder that has it" if absent else ""
        yield Finding("data sets", row.name, row.where, NOTE if absent else OK, remedy)


def _requirements() -> Iterator[tuple[str, str, str]]:
    """(package, least version, extra) for all that the metadata of hedgerow names."""
    try:
        lines = requires("hedgerow") or []
    except PackageNotFoundError:  # run from a folder, not installed
        return
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        least, extra = re.search(r">=([\d.]+)", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if name and name[0] != "hedgerow":
            yield name[0], least[1] if least else "0", extra[1] if extra else ""


def _state(name: str, least: str) -> tuple[str, bool]:
    """The version of a package in words, and whether it will do."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return "not installed", False
    fine = _numbers(found) >= _numbers(least)
    return (found, True) if fine else (f"{found}, older than {least}", False)


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: enough to tell whether it is at least another."""
    whole = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in whole[0].split(".")) if whole else ()


def _java_home() -> str | None:
    """The java of JAVA_HOME, which Spark prefers to the one of PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin")) if home else None


def _java(path: str) -> str:
    """The version that java says it is; it says so on stderr."""
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f" ({said.splitlines()[0]})" if said else ""
