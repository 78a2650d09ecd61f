"""Files that are written whole or not at all, and what to ask about a path before a long run relies on it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from hedgerow.core.errors import InputError

CHUNK = 1 << 20


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that everyone sees the old content or the new, never a part, also after a power failure.

    A symbolic link stays a link: the file it points to is replaced. An existing file keeps its mode and, where the
    system allows it, its owner. Other hard links keep the old content.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "a", b"new"); (Path(folder) / "a").read_bytes()
    b'new'
    """
    target, before = _examined(path)
    with _os_errors_named(path), _aside(target) as (temporary, file):
        file.write(data)
        if before is not None:
            _make_alike(file.fileno(), before)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str], size: int = 0) -> None:
    """Refuse a path where `write_whole` would fail, by trying: a file of `size` bytes is written aside and removed.

    >>> check_writable("no-such-folder/model")
    Traceback (most recent call last):
    hedgerow.core.errors.InputError: cannot write to no-such-folder/model: the folder no-such-folder does not exist
    """
    target, _ = _examined(path)
    with _os_errors_named(path), _aside(target) as (_, file):
        for start in range(0, size, CHUNK):
            file.write(bytes(min(CHUNK, size - start)))
        file.flush()


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two paths lead to one file, links and spelling aside, also where that file does not exist yet.

    >>> same_file("a/../b", "./b"), same_file("a", "b")
    (True, False)
    """
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    first, second = Path(os.path.realpath(one)), Path(os.path.realpath(other))
    if first.name != second.name or os.path.exists(first) or os.path.exists(second):
        return False
    folders = first.parent, second.parent
    return folders[0] == folders[1] or (all(map(os.path.exists, folders)) and os.path.samefile(*folders))


def _examined(path: str | os.PathLike[str]) -> tuple[Path, os.stat_result | None]:
    """The file that a path leads to, and its `stat` if it exists; refused if it cannot be replaced."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"cannot write to {path}: the folder {Path(path).parent} does not exist")
    with _os_errors_named(path):
        try:
            before = os.stat(target)
        except FileNotFoundError:
            return target, None
    if stat.S_ISDIR(before.st_mode):
        raise InputError(f"cannot write to {path}: it is a folder; give the name of a file in it")
    if not stat.S_ISREG(before.st_mode):
        raise InputError(f"cannot write to {path}: it is not a regular file")
    # A mode without any write bit is meant, though the system would not stop its superuser.
    if not before.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise InputError(f"cannot write to {path}: the file is read-only; make it writable or choose another name")
    return target, before


@contextmanager
def _aside(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file in the folder of the target; it is gone afterwards unless it was moved into place."""
    temporary = target.with_name(f".hedgerow-{uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _os_errors_named(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}") from error


def _make_alike(descriptor: int, before: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # only the superuser may give a file away
            os.fchown(descriptor, before.st_uid, before.st_gid)
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the new name durable. Some systems cannot sync a folder; the file itself is safe by then."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
