"""Where lines go: a file, a pipe, or a file whose every line is accounted for by a journal."""

from __future__ import annotations

import json
import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from hedgerow.core.errors import InputError
from hedgerow.live.journal import line_mark
from hedgerow.run.engine import RunEngine
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import BROKERS, Job
from hedgerow.store import on_error

Marks = dict[str, bytes]


class Sink(ABC):
    """Lines are first put, then written: between the two a journal may take note of them."""

    _data = b""

    @abstractmethod
    def put(self, data: bytes) -> Marks:
        """Lines to be written; what a journal must keep to write them again."""

    @abstractmethod
    def write(self) -> None:
        """What was put."""

    @abstractmethod
    def close(self) -> None:
        """Put it on disk."""


def open_sinks(job: Job, engine: RunEngine, interrupts: Interrupts) -> list[Sink]:
    """Where predictions go, and rows that cannot be used: nowhere, if no file was named and the output is none."""
    dead = job.dead_letter_file
    if job.journal is None:
        sinks: list[Sink] = [Plain(job.output, interrupts, job.overwrite, job.append)]
        return (
            sinks
            if dead is None
            else [*sinks, Plain(str(dead), interrupts, append=True, lazy=True)]
        )
    if job.output.startswith(BROKERS):
        from hedgerow.run.brokers import RedisSink

        sinks = [RedisSink(job.output, engine, interrupts)]
    elif job.output == "-" or (os.path.exists(job.output) and not os.path.isfile(job.output)):
        sinks = [KeptPipe(job.output, engine, interrupts)]
    else:
        sinks = [Kept("output", Path(job.output), engine)]
    return sinks if dead is None else [*sinks, Kept("dead", dead, engine, lazy=True)]


class Plain(Sink):
    """A file or a pipe, without a journal; `lazy`: it is opened when there is something to write."""

    def __init__(
        self,
        name: str,
        interrupts: Interrupts,
        overwrite: bool = False,
        append: bool = False,
        lazy: bool = False,
    ) -> None:
        self._name = name
        self._interrupts = interrupts
        self._append = append
        self._lazy = lazy
        self._descriptor: int | None = None
        self._flags = os.O_RDWR if append else os.O_WRONLY
        self._flags |= os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if overwrite else os.O_APPEND)
        if not lazy:
            self._open()

    def _open(self) -> int:
        if self._name == "-":
            self._descriptor = 1
        if self._descriptor is None:
            try:
                with self._interrupts.opening(begins=not self._lazy):
                    self._descriptor = os.open(self._name, self._flags, 0o666)
            except OSError as error:
                raise InputError(f"cannot write to {self._name}: {error.strerror}") from error
            about = os.fstat(self._descriptor)
            has_lines = self._append and stat.S_ISREG(about.st_mode) and about.st_size
            if has_lines and os.pread(self._descriptor, 1, about.st_size - 1) != b"\n":
                self._data = b"\n"  # what is added would else join the last line
        return self._descriptor

    def put(self, data: bytes) -> Marks:
        """Without a journal there is nothing to keep."""
        if data:
            self._open()
            self._data += data
        return {}

    def write(self) -> None:
        """What was put."""
        data = self._data
        self._data = b""
        if data:
            try:
                self._interrupts.write(self._open(), data)
            except BrokenPipeError:
                raise
            except OSError as error:
                raise InputError(
                    f"cannot write to {self._name}: {error.strerror}; nothing more was learned"
                ) from error

    def close(self) -> None:
        """Close it, if it was opened here."""
        if self._descriptor is not None and self._name != "-":
            os.close(self._descriptor)
            self._descriptor = None


class Kept(Sink):
    """A regular file that a journal accounts for: what it has beyond the last commit is written again.

    The mark has the place where the newest lines begin, and the lines. They are on disk before the next commit, so a
    file that is shorter than that place was changed by somebody else.
    """

    def __init__(self, mark: str, path: Path, engine: RunEngine, lazy: bool = False) -> None:
        self._mark = mark
        self._path = path
        self._size = 0
        self._descriptor: int | None = None
        before = engine.mark(mark)
        if before is not None:
            self._go_on(before)
        elif not lazy:
            self._open()

    def _go_on(self, before: bytes) -> None:
        about, data = begun(before, "path", str(self._path))
        here = self._path
        there = Path(about["path"])
        if there == here.resolve() or there.exists():
            self._path = there
            self._complete(about["start"], data, about.get("length"))
        if there != here.resolve():
            self.close()
            self._path = here
            self._size = 0
            if here.exists() and here.stat().st_size:
                raise InputError(
                    f"{here} has content, and the journal's output is {there}; name that, or a new file"
                )

    def _complete(self, start: int, data: bytes, length: int | None) -> None:
        """Write again what is not there. `length`: that of all lines, before some were forgotten."""
        descriptor = self._open()
        size = os.fstat(descriptor).st_size
        whole = len(data) if length is None else length
        there = os.pread(descriptor, whole + 1, start)
        known = data.startswith(there) if length is None else len(there) <= whole
        if size < start or not known:
            raise InputError(
                f"{self._path} is not as the journal left it ({size} bytes, the newest lines from {start} on): it was "
                "changed or replaced; put it back, or choose another file for what comes next"
            )
        if length is not None and len(there) == whole:  # all of it had been written
            self._size = size
            return
        os.ftruncate(descriptor, start)
        self._size = start
        self._data = _still_there(data)
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
            self._sync(self._descriptor)  # those before: the journal forgets them now
        elif not data:
            return {}
        self._data = data
        about = {"path": str(self._path.resolve()), "start": self._size}
        return {self._mark: line_mark(about, data)}

    def write(self) -> None:
        """What was put, at its place."""
        rest = memoryview(self._data)
        self._data = b""
        try:
            while rest:
                written = os.pwrite(self._open(), rest, self._size)
                rest = rest[written:]
                self._size = self._size + written
        except OSError as error:
            raise InputError(
                f"cannot write to {self._path}: {error.strerror}; the journal has the lines, start again to go on"
            ) from error

    def close(self) -> None:
        """Put it on disk."""
        if self._descriptor is not None:
            self._sync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _sync(self, descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise InputError(
                f"cannot write to {self._path}: {error.strerror}; the journal has the lines, start again to go on"
            ) from error


class KeptPipe(Plain):
    """A pipe with a journal: lines of the last transaction are written again after a restart, as nobody knows whether
    they were read; their ids tell."""

    def __init__(self, name: str, engine: RunEngine, interrupts: Interrupts) -> None:
        super().__init__(name, interrupts)
        before = engine.mark("output")
        if before is not None:
            with on_error(self.close):
                super().put(_still_there(begun(before, "stream", "a stream")[1]))
                self.write()

    def put(self, data: bytes) -> Marks:
        """The journal keeps the lines."""
        super().put(data)
        return {"output": line_mark({"stream": True}, data)}


def begun(mark: bytes, kind: str, now: str) -> tuple[dict[str, Any], bytes]:
    """What a mark says of an output of this kind, and its newest lines; refused if it is of an output of another."""
    text, _, data = mark.partition(b"\n")
    about = json.loads(text)
    if kind not in about:
        before = about.get("path") or (
            "a stream (standard output, a pipe)" if "stream" in about else "a Redis stream"
        )
        raise InputError(
            f"the output is {now}, that of the journal until now {before}; go on with that"
        )
    return about, data


def _still_there(lines: bytes) -> bytes:
    """Without those of events that were forgotten, which are empty."""
    return b"".join(line for line in lines.splitlines(keepends=True) if line != b"\n")
