"""Where lines go: a file, a pipe, or a file whose every line is accounted for by a journal."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any, Protocol

from hedgerow.core.errors import InputError
from hedgerow.run.engine import Engine, Marks
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job


# The sinks of a run.
def output(job: Job, engine: Engine, interrupts: Interrupts) -> Sink:
    """Where predictions go."""
    if job.output.startswith("redis://"):
        from hedgerow.run.redis_streams import RedisSink

        return RedisSink(job.output, engine, interrupts)
    if job.journal is None:
        return Plain(job.output, job.overwrite, job.append, interrupts)
    if _is_pipe(job.output):
        return KeptPipe("output", Plain(job.output, False, False, interrupts), engine)
    return Kept("output", Path(job.output), engine)


def dead_letters(job: Job, engine: Engine, interrupts: Interrupts) -> Sink | None:
    """Where rows go that cannot be used; nowhere, if no file was named and the output is none."""
    name = job.dead_letter_file
    if name is None:
        return None
    if job.journal is not None:
        return Kept("dead", name, engine, lazy=True)
    return _Lazy(name, interrupts)


class _Lazy:
    """A file that is made, or added to, when there is something to write."""

    def __init__(self, path: Path, interrupts: Interrupts) -> None:
        self._path, self._interrupts = path, interrupts
        self._file: Plain | None = None

    def put(self, data: bytes) -> dict[str, bytes]:
        """Open it if need be."""
        if data and self._file is None:
            self._file = Plain(str(self._path), overwrite=False, append=True, interrupts=self._interrupts)
        return {} if self._file is None else self._file.put(data)

    def write(self) -> None:
        """What was put."""
        if self._file is not None:
            self._file.write()

    def close(self) -> None:
        """If it was opened."""
        if self._file is not None:
            self._file.close()


def _is_pipe(name: str) -> bool:
    if name == "-":
        return True
    path = Path(name)
    return path.exists() and not stat.S_ISREG(os.stat(path).st_mode)


FLUSH_EVERY = 1.0  # seconds, for files; a pipe gets every line at once


class Sink(Protocol):
    """Lines are first put, then written: between the two a journal may take note of them."""

    def put(self, data: bytes) -> Marks:
        """Lines to be written; what a journal must keep to write them again."""

    def write(self) -> None:
        """What was put."""

    def close(self) -> None:
        """Write the rest."""


class Plain:
    """A file or a pipe, without a journal. A regular file is flushed every second, a pipe at every write."""

    def __init__(self, name: str, overwrite: bool, append: bool, interrupts: Interrupts) -> None:
        self._interrupts, self._data, self._flushed = interrupts, b"", time.monotonic()
        path: int | str = 1 if name == "-" else name
        try:
            with interrupts.opening():
                self._file = open(path, "wb" if overwrite else "ab", closefd=name != "-")  # noqa: SIM115
        except OSError as error:
            raise InputError(f"cannot write to {name}: {error.strerror}") from error
        self._regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        if self._regular and append and not _ends_with_a_line(name):
            self._file.write(b"\n")

    def put(self, data: bytes) -> Marks:
        """Without a journal there is nothing to keep."""
        self._data += data
        return {}

    def write(self) -> None:
        """What was put."""
        data, self._data = self._data, b""
        if not self._regular:
            self._interrupts.write(self._file.fileno(), data)
            return
        self._file.write(data)
        if time.monotonic() - self._flushed > FLUSH_EVERY:
            self._file.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Write the rest."""
        self._file.close()


class Kept:
    """A regular file that a journal accounts for: what it has beyond the last commit is written again.

    The mark has the place where the newest lines begin, and the lines. They are on disk before the next commit, so a
    file that is shorter than that place was changed by somebody else.
    """

    def __init__(self, mark: str, path: Path, engine: Engine, lazy: bool = False) -> None:
        self._mark, self._path, self._lazy = mark, path, lazy
        self._descriptor: int | None = None
        self._data, self._size = b"", 0
        before = engine.mark(mark)
        if before is not None:
            self._go_on(before)
        elif not lazy:
            self._open()

    def _go_on(self, before: bytes) -> None:
        about, data = begun(before, "path", str(self._path))
        here, there = self._path, Path(about["path"])
        if there == here.resolve() or there.exists():
            self._path = there
            self._complete(about["start"], data)
        if there != here.resolve():
            self.close()
            self._path, self._size = here, 0
            if here.exists() and here.stat().st_size:
                raise InputError(f"{here} has content, and the journal's output is {there}; name that, or a new file")

    def _complete(self, start: int, data: bytes) -> None:
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        there = os.pread(descriptor, len(data) + 1, start)
        if size < start or not data.startswith(there):
            raise InputError(
                f"{self._path} is not as the journal left it ({size} bytes, the newest lines from {start} on): it was "
                "changed or replaced; put it back, or choose another file for what comes next"
            )
        os.ftruncate(descriptor, start)
        self._size, self._data = start, data
        self.write()

    def _open(self) -> int:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise InputError(f"cannot write to {self._path}: {error.strerror}") from error
        return self._descriptor

    def put(self, data: bytes) -> Marks:
        """The journal keeps the lines themselves, until the next ones are put."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)  # those before: the journal forgets them now
        elif not data:
            return {}
        self._data = data
        about = {"path": str(self._path.resolve()), "start": self._size}
        return {self._mark: json.dumps(about).encode() + b"\n" + data}

    def write(self) -> None:
        """What was put, at its place."""
        if self._data:
            descriptor, rest = self._open(), memoryview(self._data)
            try:
                while rest:
                    written = os.pwrite(descriptor, rest, self._size)
                    rest, self._size = rest[written:], self._size + written
            except OSError as error:
                raise InputError(
                    f"cannot write to {self._path}: {error.strerror}; the journal has the lines, start again to go on"
                ) from error
            self._data = b""

    def close(self) -> None:
        """Put it on disk."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


class KeptPipe:
    """A pipe with a journal: lines of the last transaction are written again after a restart, as nobody knows whether
    they were read; their ids tell."""

    def __init__(self, mark: str, plain: Plain, engine: Engine) -> None:
        self._mark, self._plain = mark, plain
        before = engine.mark(mark)
        if before is not None:
            try:
                plain.put(begun(before, "stream", "a stream")[1])
                plain.write()
            except BaseException:
                plain.close()
                raise

    def put(self, data: bytes) -> Marks:
        """The journal keeps the lines."""
        self._plain.put(data)
        return {self._mark: json.dumps({"stream": True}).encode() + b"\n" + data}

    def write(self) -> None:
        """What was put."""
        self._plain.write()

    def close(self) -> None:
        """Nothing is left."""
        self._plain.close()


def begun(mark: bytes, kind: str, now: str) -> tuple[dict[str, Any], bytes]:
    """What a mark says of an output of this kind, and its newest lines; refused if it is of an output of another."""
    text, _, data = mark.partition(b"\n")
    about = json.loads(text)
    if kind not in about:
        before = about.get("path") or ("a stream (standard output, a pipe)" if "stream" in about else "a Redis stream")
        raise InputError(f"the output is {now}, that of the journal until now {before}; go on with that")
    return about, data


def _ends_with_a_line(path: str) -> bool:
    """Whether nothing, or a line break, is the end of a file: else what is appended would join its last line."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
