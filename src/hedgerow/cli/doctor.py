"""`hedgerow doctor`: what this installation and this machine are like, what is wrong with them, and what helps."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

import hedgerow
from hedgerow.cli.memory import GIB, free_memory

OK, NOTE, PROBLEM = "ok", "note", "problem"
REINSTALL = "pip install --force-reinstall hedgerow"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A note is something that only some need; a problem is in everybody's way.

    >>> Finding("machine", "clock", "2020-01-01", PROBLEM, "set the clock").ok
    False
    """

    group: str
    what: str
    found: str
    state: str = OK
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return self.state != PROBLEM

    @classmethod
    def unless(cls, fine: bool, group: str, what: str, found: str, state: str, remedy: str) -> Finding:
        """One that is only a note or a problem, with a remedy, unless all is fine."""
        return cls(group, what, found) if fine else cls(group, what, found, state, remedy)


# -- what is installed ------------------------------------------------------------------------------------------

LEAST_PYTHON = (3, 11)
# what an extra is for, as its remedy says; extras of developers are not looked at
EXTRAS = {
    "cli": "the command line", "files": "Parquet, Arrow and .zst files, and CSV and JSON lines read faster",
    "data": "MATLAB files of version 7.3", "plot": "figures", "tables": "data frames of pandas, polars and pyarrow",
    "lab": "hedgerow paper, study, compare and demo", "live": "hedgerow serve and its client",
    "trace": "spans of OpenTelemetry", "redis": "Redis streams", "kafka": "Kafka topics",
    "dask": "--engine dask", "spark": "hedgerow.spark", "river": "detectors and models of river",
    "skada": "pipelines and scorers of skada", "pipeline": "online pipelines of scikit-learn, saved without pickle",
    "mlflow": "hedgerow.mlflow", "capymoa": "hedgerow.capymoa",
}  # fmt: skip


def versions() -> Iterator[Finding]:
    """Of hedgerow, Python and the packages of the core, each against what hedgerow asks for."""
    yield Finding("versions", "hedgerow", hedgerow.__version__)
    about, remedy = f"{platform.python_version()} ({sys.executable})", "hedgerow needs Python 3.11 or later"
    yield Finding.unless(sys.version_info >= LEAST_PYTHON, "versions", "python", about, PROBLEM, remedy)
    for name, least, extra in _requirements():
        if not extra:
            state, fine = _state(name, least)
            yield Finding.unless(fine, "versions", name, state, PROBLEM, f"pip install --upgrade '{name}>={least}'")


def extras() -> Iterator[Finding]:
    """Which are installed; the way to those that are not."""
    for extra, purpose in EXTRAS.items():
        states = [(name, *_state(name, least)) for name, least, of in _requirements() if of == extra]
        there = ", ".join(f"{name} {state}" for name, state, _ in states)
        remedy = f"for {purpose}: pip install 'hedgerow[{extra}]'"
        yield Finding.unless(all(fine for _, _, fine in states), "extras", extra, there, NOTE, remedy)


def java() -> Iterator[Finding]:
    """The Java that Spark starts, if Spark is installed: that of JAVA_HOME, which Spark prefers to the one of PATH."""
    if find_spec("pyspark") is None:
        return
    home = os.environ.get("JAVA_HOME")
    path = (shutil.which("java", path=str(Path(home) / "bin")) if home else None) or shutil.which("java")
    if path is None:
        remedy = "hedgerow.spark needs Java 17 or later: apt-get install openjdk-17-jre-headless"
        yield Finding("programs", "java", "not found", NOTE, remedy)
        return
    try:  # it says its version on stderr
        about = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20).stderr
    except (OSError, subprocess.TimeoutExpired):
        about = ""
    yield Finding("programs", "java", f"{path} ({about.splitlines()[0]})" if about else path)


def compiled_kernels() -> Iterator[Finding]:
    """Whether what is compiled can be kept, and where."""
    from hedgerow.cli.warm import REMEDY
    from hedgerow.kernels import compiled

    for folder, reason in compiled.folders().items():
        if reason:
            state = OK if reason == compiled.READ_ONLY else NOTE
            yield Finding("compiled kernels", "not written", f"{folder}: {reason}", state)
        else:
            kept = len(list(folder.glob("*.nbc")))
            remedy = "the first use compiles for some seconds; in advance: hedgerow warm"
            yield Finding.unless(kept > 0, "compiled kernels", "kept in", f"{folder} ({kept} there)", NOTE, remedy)
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
        remedy = f"downloaded at first use, or: set {ENVIRONMENT} to the folder that has it"
        yield Finding.unless(row.where != "needs download", "data sets", row.name, row.where, NOTE, remedy)


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
        installed = version(name)
    except PackageNotFoundError:
        return "not installed", False
    numbers = [list(map(int, re.findall(r"\d+", text.partition("+")[0]))) for text in (installed, least)]
    return (installed, True) if numbers[0] >= numbers[1] else (f"{installed}, older than {least}", False)


# -- what it runs on --------------------------------------------------------------------------------------------

LITTLE_MEMORY, LITTLE_DISK, NO_DISK = 1 * GIB, 2 * GIB, GIB // 10
FEW_FILES = 1024  # open files: a service with many models and connections needs more
CGROUP = Path("/sys/fs/cgroup")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def processors() -> Iterator[Finding]:
    """How many there are, and how many this process may use."""
    import joblib

    text = f"{os.cpu_count()} in the machine, {joblib.cpu_count()} for this process"  # by affinity and control group
    yield Finding("machine", "processors", text)
    if find_spec("resource"):  # not on Windows
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield Finding.unless(files >= FEW_FILES, "machine", "open files", f"at most {files}", NOTE, "ulimit -n 4096")


def blas() -> Iterator[Finding]:
    """The libraries behind matrix products; more threads than processors slow each other down."""
    import joblib
    import scipy.linalg.blas  # noqa: F401 (both have one of their own, which must be loaded to be found)
    from threadpoolctl import threadpool_info

    allowed, libraries = joblib.cpu_count(), [one for one in threadpool_info() if one["user_api"] == "blas"]
    if not libraries:
        yield Finding("machine", "BLAS", "none found", PROBLEM, "pip install --force-reinstall numpy scipy")
    for one in libraries:
        text = f"{one['internal_api']} {one['version']}, {one['num_threads']} threads ({Path(one['filepath']).name})"
        remedy = f"set OPENBLAS_NUM_THREADS={allowed} (or that of your BLAS) before Python starts"
        yield Finding.unless(one["num_threads"] <= allowed, "machine", "BLAS", text, NOTE, remedy)
    for name, value in ((name, os.environ[name]) for name in THREADS if name in os.environ):
        whole = value.isdecimal() and int(value) > 0
        yield Finding.unless(whole, "machine", name, value, PROBLEM, f"a whole number above 0, or unset {name}")


def memory() -> Iterator[Finding]:
    """What programs may still take."""
    free, limit = free_memory(), _number(CGROUP / "memory.max")
    if free is not None:
        text = f"{free / GIB:.1f} GiB free" + ("" if limit is None else f", limited to {limit / GIB:.1f} GiB")
        remedy = "end other programs, or size='small' and --jobs 1"
        yield Finding.unless(free >= LITTLE_MEMORY, "machine", "memory", text, NOTE, remedy)


def folders() -> Iterator[Finding]:
    """Where things are written: can they be, and is there room?"""
    from hedgerow.kernels import compiled

    places = {"here": Path.cwd(), "temporary": Path(tempfile.gettempdir())}
    for folder, reason in compiled.folders().items():
        if not reason:
            places["compiled kernels"] = folder
    remedies = {"here": "work in a folder of your own, or name one with --out", "temporary": "set TMPDIR to another"}
    for name, path in places.items():
        yield _folder(name, path, remedies.get(name, "set NUMBA_CACHE_DIR to another"))


def _folder(name: str, path: Path, remedy: str) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"hedgerow")
    except OSError as error:
        return Finding("folders", name, f"{path}: cannot be written ({error.strerror})", PROBLEM, remedy)
    free = shutil.disk_usage(path).free
    text, state = f"{path}, {free / GIB:.1f} GiB free", PROBLEM if free < NO_DISK else NOTE
    return Finding.unless(
        free >= max(NO_DISK, LITTLE_DISK), "folders", name, text, state, f"free some room, or {remedy}"
    )


def clock() -> Iterator[Finding]:
    """Labels expire and files are ordered by the clock: it must not stand before the installation."""
    now, made = time.time(), Path(hedgerow.__file__).stat().st_mtime
    date, installed = (datetime.fromtimestamp(t, UTC).isoformat(sep=" ", timespec="seconds") for t in (now, made))
    fine, remedy = now >= made - 60, f"set the clock; if it is right, {REINSTALL}"
    text = date if fine else f"{date}, before hedgerow was installed ({installed})"
    yield Finding.unless(fine, "machine", "clock", text, PROBLEM, remedy)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


# -- all of it --------------------------------------------------------------------------------------------------

CHECKS: list[Callable[[], Iterable[Finding]]] = [
    versions, extras, java, compiled_kernels, data_sets, processors, blas, memory, folders, clock,
]  # fmt: skip


def examine(checks: Iterable[Callable[[], Iterable[Finding]]] = CHECKS) -> list[Finding]:
    """Every check; one that cannot even be made is a problem of its own and keeps no other from being made."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check()
        except Exception as error:  # a broken package may raise anything when it is imported
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            findings.append(Finding("checks", check.__name__.replace("_", " "), text, PROBLEM, REINSTALL))
    return findings


def as_json(findings: list[Finding]) -> str:
    """For other programs: {"ok": ..., "findings": [...]}."""
    return json.dumps({"ok": all(one.ok for one in findings), "findings": [asdict(one) for one in findings]}, indent=2)


def as_rows(findings: list[Finding]) -> list[tuple[str, str, str]]:
    """For a table: state, what, what was found and what helps."""
    return [
        (one.state, f"{one.group}: {one.what}", one.found + (f"; remedy: {one.remedy}" if one.remedy else ""))
        for one in findings
    ]


def verdict(findings: list[Finding]) -> str:
    """The last line."""
    problems = sum(not one.ok for one in findings)
    if problems:
        return f"{problems} problem{'s' if problems > 1 else ''}: what helps stands above"
    return "all is well"
