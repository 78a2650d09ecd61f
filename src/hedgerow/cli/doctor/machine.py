"""What it runs on: processors, BLAS, memory, folders, clock."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import hedgerow
from hedgerow.cli.doctor import NOTE, OK, PROBLEM, REINSTALL, Finding
from hedgerow.cli.memory import GIB, free_memory

LITTLE_MEMORY, LITTLE_DISK, NO_DISK = 1 * GIB, 2 * GIB, GIB // 10
FEW_FILES = 1024  # open files: a service with many models and connections needs more
CGROUP = Path("/sys/fs/cgroup")
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def processors() -> Iterator[Finding]:
    """How many there are, and how many this process may use."""
    allowed, limit = usable_processors(), _quota()
    said = f"{os.cpu_count()} in the machine, {allowed} for this process"
    if limit is None:
        yield Finding("machine", "processors", said)
    else:
        remedy = f"give --jobs {max(round(limit), 1)} to commands that take it" if limit < allowed else ""
        said += f", as much time as {limit:g} of them (control group)"
        yield Finding("machine", "processors", said, NOTE if remedy else OK, remedy)
    files = _open_files()
    if files is not None:
        few = files < FEW_FILES
        yield Finding("machine", "open files", f"at most {files}", NOTE if few else OK, "ulimit -n 4096" if few else "")


def blas() -> Iterator[Finding]:
    """The libraries behind matrix products; more threads than processors slow each other down."""
    import scipy.linalg.blas  # noqa: F401 (both have one of their own, which must be loaded to be found)
    from threadpoolctl import threadpool_info

    allowed, found = usable_processors(), [one for one in threadpool_info() if one["user_api"] == "blas"]
    if not found:
        yield Finding("machine", "BLAS", "none found", PROBLEM, "pip install --force-reinstall numpy scipy")
    for one in found:
        many = one["num_threads"] > allowed
        said = f"{one['internal_api']} {one['version']}, {one['num_threads']} threads ({Path(one['filepath']).name})"
        remedy = f"set OPENBLAS_NUM_THREADS={allowed} (or that of your BLAS) before Python starts" if many else ""
        yield Finding("machine", "BLAS", said, NOTE if many else OK, remedy)
    for name in THREADS:
        value = os.environ.get(name)
        if value is not None:
            whole = value.isdecimal() and int(value) > 0
            remedy = "" if whole else f"a whole number above 0, or unset {name}"
            yield Finding("machine", name, value, OK if whole else PROBLEM, remedy)


def memory() -> Iterator[Finding]:
    """What programs may still take."""
    free, limit = free_memory(), _number(CGROUP / "memory.max")
    if free is not None:
        little = free < LITTLE_MEMORY
        said = f"{free / GIB:.1f} GiB free" + ("" if limit is None else f", limited to {limit / GIB:.1f} GiB")
        remedy = "end other programs, or size='small' and --jobs 1" if little else ""
        yield Finding("machine", "memory", said, NOTE if little else OK, remedy)


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
    state = PROBLEM if free < NO_DISK else NOTE if free < LITTLE_DISK else OK
    return Finding(
        "folders",
        name,
        f"{path}, {free / GIB:.1f} GiB free",
        state,
        "" if state == OK else f"free some room, or {remedy}",
    )


def clock() -> Iterator[Finding]:
    """Labels are given up, tokens end and files are ordered by the clock: it must not stand before the installation."""
    now, made = time.time(), Path(hedgerow.__file__).stat().st_mtime
    said = datetime.fromtimestamp(now, UTC).isoformat(sep=" ", timespec="seconds")
    if now < made - 60:
        installed = datetime.fromtimestamp(made, UTC).isoformat(sep=" ", timespec="seconds")
        remedy = f"set the clock; if it is right, {REINSTALL}"
        yield Finding("machine", "clock", f"{said}, before hedgerow was installed ({installed})", PROBLEM, remedy)
    else:
        yield Finding("machine", "clock", said)


def usable_processors() -> int:
    """Those that the system lets this process run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota() -> float | None:
    """How many processors' time the control group allows; None without a limit."""
    try:
        quota, period = (CGROUP / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # no control groups, or "max"
        return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _open_files() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
