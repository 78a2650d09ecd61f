"""Where compiled loops may be kept. They are code, so never in a folder that others can write.

In this order: NUMBA_CACHE_DIR if the user set it, `__pycache__` beside the loops, and a folder of the user's own,
$XDG_CACHE_HOME/hedgerow/compiled or ~/.cache/hedgerow/compiled. One that is trusted but cannot be written is still
read: it may have been filled by whoever installed the package.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from numba.core import config

HERE = Path(__file__).resolve().parent
HAS_OWNERS = hasattr(os, "getuid")  # not on Windows, where the folders below are the user's alone


@dataclass(frozen=True)
class Folder:
    """A folder, whose folder it may be besides our own, and the mode bits that it must not have."""

    path: Path
    owners: frozenset[int]
    forbidden: int = stat.S_IWOTH

    def refusal(self) -> str:
        """Why nothing may be read from it or written to it, or nothing; a folder that is not there is not refused."""
        if not HAS_OWNERS:
            return ""
        for parent in Path(os.path.realpath(self.path)).parents:
            try:
                mode = parent.stat().st_mode
            except OSError:
                continue
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"everyone can write to {parent}"
        try:
            link, found = self.path.lstat(), self.path.stat()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISDIR(found.st_mode):
            return "it is no folder"
        if not {link.st_uid, found.st_uid} <= self.owners | {os.getuid()}:
            return "it belongs to another user"
        if found.st_mode & self.forbidden:
            return "others can write to it"
        return ""

    def make(self) -> None:
        """The folder, there and writable; an OSError if that cannot be, or if it is refused."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if reason := self.refusal():
            raise PermissionError(reason)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError("it is not writable")


@cache
def folders() -> tuple[Folder, ...]:
    """All of them, in the order in which they are tried."""
    found = []
    root = frozenset({0})
    chosen = getattr(config, "CACHE_DIR", "")  # numba's name for NUMBA_CACHE_DIR
    if chosen:
        found.append(Folder(Path(chosen).absolute() / _subfolder(), root))
    found.append(_beside(root))
    base = _user_caches()
    if base is not None:
        own = base / "hedgerow" / "compiled" / _subfolder()
        found.append(Folder(own, frozenset(), stat.S_IWGRP | stat.S_IWOTH))
    return tuple(found)


def usable() -> tuple[Folder | None, dict[str, str]]:
    """The first that can be written, if any, and why those before it cannot be."""
    reasons = {}
    for folder in folders():
        try:
            folder.make()
        except OSError as error:
            reasons[str(folder.path)] = error.strerror or str(error)
        else:
            return folder, reasons
    return None, reasons


def _beside(root: frozenset[int]) -> Folder:
    """Who can write the loops themselves needs no cache to change them, so their owner and group may write here too."""
    forbidden = stat.S_IWGRP | stat.S_IWOTH
    try:
        package = HERE.stat()
    except OSError:  # in an archive
        return Folder(HERE / "__pycache__", root, forbidden)
    return Folder(HERE / "__pycache__", root | {package.st_uid}, forbidden & ~(package.st_mode & stat.S_IWGRP))


def _subfolder() -> str:
    """One for each installation, as two of them may have loops of the same name."""
    return f"kernels_{hashlib.sha256(str(HERE).encode()).hexdigest()[:16]}"


def _user_caches() -> Path | None:
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():  # a relative one is to be ignored, by the XDG specification
        return chosen
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # no home
        return None
