"""The input and the output of a run."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hedgerow.core.errors import InputError
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job

FLUSH_EVERY = 1.0  # seconds, for files; a pipe gets every line at once

Write = Callable[[str], None]


@contextmanager
def opened(name: str) -> Iterator[int]:
    """The descriptor of the input."""
    if name == "-":
        yield 0
        return
    try:
        file = os.open(name, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def sink(job: Job, interrupts: Interrupts) -> Iterator[Write]:
    """Where the lines go: a regular file is flushed every second, anything that may be read live at every line.

    Only `--overwrite` ever truncates.
    """
    name: int | str = 1 if job.output == "-" else job.output
    try:
        with interrupts.opening():
            file = open(name, "wb" if job.overwrite else "ab", closefd=job.output != "-")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"cannot write to {job.output}: {error.strerror}") from error
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            yield lambda line: interrupts.write(file.fileno(), line.encode())
            return
        if job.append and not _ends_with_a_line(job.output):
            file.write(b"\n")
        flushed = time.monotonic()

        def write(line: str) -> None:
            nonlocal flushed
            file.write(line.encode())
            if time.monotonic() - flushed > FLUSH_EVERY:
                file.flush()
                flushed = time.monotonic()

        yield write


def _ends_with_a_line(path: str) -> bool:
    """Whether nothing, or a line break, is the end of a file: else what is appended would join its last line."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        return file.read() in (b"", b"\n")
