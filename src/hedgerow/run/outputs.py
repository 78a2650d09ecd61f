"""The sinks of a run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hedgerow.run.engine import Engine
from hedgerow.run.interrupts import Interrupts
from hedgerow.run.job import Job
from hedgerow.run.sinks import Kept, KeptPipe, Plain, Sink


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
    return _Lazy(name, job, interrupts)


class _Lazy:
    """A file that is made when there is something to write."""

    def __init__(self, path: Path, job: Job, interrupts: Interrupts) -> None:
        self._path, self._job, self._interrupts = path, job, interrupts
        self._file: Plain | None = None

    def put(self, data: bytes) -> dict[str, bytes]:
        """Open it if need be."""
        if data and self._file is None:
            self._file = Plain(str(self._path), not self._job.append, self._job.append, self._interrupts)
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
