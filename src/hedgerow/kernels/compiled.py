"""The one decorator of all compiled loops: compiled when first called, kept on disk where that is safe and possible.

numba's own `cache=True` ends in an error where it finds no folder that it can write, passes by a folder that is filled
and read-only, uses one that others can write, and takes a loop for unchanged when one that it calls has changed. So its
index and data files are used, and the folders and the stamp are ours.

Folders, in this order: NUMBA_CACHE_DIR if the user set it, `__pycache__` beside the loops, and a folder of the user's
own, $XDG_CACHE_HOME/hedgerow/compiled or ~/.cache/hedgerow/compiled. Compiled loops are code, so a folder that others
can write is neither read nor written; one that is trusted and cannot be written is read: it may have been filled by
whoever installed the package.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

from numba import njit
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult

from hedgerow.core import rule_numbers

Loop = TypeVar("Loop", bound=Callable[..., Any])
LOOPS: list[Any] = []  # every compiled loop that was imported; numba's `stats` of each tell what was compiled
HERE = Path(__file__).resolve().parent
log = logging.getLogger("hedgerow")


@overload
def compiled(fn: Loop) -> Loop: ...
@overload
def compiled(*, fastmath: set[str] = ..., threads: bool = ...) -> Callable[[Loop], Loop]: ...
def compiled(fn: Any = None, *, fastmath: set[str] | bool = False, threads: bool = False) -> Any:
    """A function as a compiled loop. `fastmath` names what may be done to its sums, see `SUMS`.

    `threads`: other threads run meanwhile; for long loops only.
    """
    if fn is None:
        return lambda given: compiled(given, fastmath=fastmath, threads=threads)  # type: ignore[call-overload]
    # no_cfunc_wrapper: an entry for calls through a C pointer, which nobody makes, takes a tenth of the time.
    # forceinline: a loop would else have its own copy of each loop that it calls, which may round in another way, and
    # the call goes to whichever copy the process has loaded first: results would depend on what was compiled when.
    decorator: Any = njit
    loop = decorator(fastmath=fastmath, no_cfunc_wrapper=True, nogil=threads, forceinline=True)(fn)
    # Relies on numba (0.60 to 0.68, `numba.core.dispatcher`): `_cache` of a dispatcher is asked before and told after
    # each compilation; `enable_caching`, which cache=True calls, puts a FunctionCache there.
    loop._cache = Kept(fn)
    LOOPS.append(loop)
    return loop


class Kept(FunctionCache):
    """The compiled forms of one loop: looked for in every folder that is trusted, written to the first that can be."""

    cache_path = None
    _index_key: Any  # numba has no types for it

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._py_func, self._began = fn, 0.0
        self.used: set[str] = set()  # folders that something was read from or written to
        self.lost = 0  # how many compiled forms could not be written
        name = f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}-{fn.__code__.co_firstlineno}"
        name = f"{name}.py{sys.version_info[0]}{sys.version_info[1]}"
        self._files = {folder: IndexDataCacheFile(str(folder), name, _stamp()) for folder in folders()}

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before, or None, and then it is compiled: before the first one that is said."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        for folder, file in self._files.items():
            if _refused(folder):
                continue
            try:
                if (data := file.load(key)) is not None:
                    form = CompileResult._rebuild(target_context, *data)
                    self.used.add(str(folder))
                    return form
            except Exception as error:  # whatever a damaged file leads to: as good as none, and to be written anew
                log.info("cannot read what was compiled, in %s: %s", folder, error)
                with suppress(OSError):
                    file.flush()
        _say_once()
        self._began = time.perf_counter()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it in the first folder that takes it; without any the next process compiles again."""
        log.info("compiled %s in %.1f s", self._py_func.__name__, time.perf_counter() - self._began)
        for folder, file in self._files.items():
            with suppress(OSError):
                make(folder)
                file.save(self._index_key(sig, data.codegen), data._reduce())
                self.used.add(str(folder))
                return
        self.lost += 1


@cache
def _stamp() -> str:
    """A digest of all that goes into the loops: one has those that it calls, and their constants, compiled into it."""
    sources = [*sorted(HERE.glob("*.py")), Path(rule_numbers.__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


@cache
def _say_once() -> None:
    """A sign of life before the first compilation: to the logger, and one line on a terminal."""
    text = "compiling, once per installation"
    if usable()[0] is None:
        text = "compiling, in every process: no folder to keep it in; `python -m hedgerow warm` tells the remedy"
    log.info(text)
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"hedgerow: {text}", file=sys.stderr, flush=True)


@cache
def folders() -> tuple[Path, ...]:
    """All of them, in the order in which they are tried. Two installations may have loops of the same name."""
    if not HERE.is_dir():  # in an archive, whose changes are not seen
        return ()
    own = f"kernels_{hashlib.sha256(str(HERE).encode()).hexdigest()[:16]}"
    given = getattr(config, "CACHE_DIR", "")  # numba's name for NUMBA_CACHE_DIR
    chosen = [Path(given).absolute() / own] if given else []
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():  # a relative one is to be ignored, by the XDG specification
        caches = Path(os.path.expanduser("~")) / ".cache"
    users = [caches / "hedgerow" / "compiled" / own] if caches.is_absolute() else []  # without a home there is none
    return *chosen, HERE / "__pycache__", *users


def refusal(folder: Path) -> str:
    """Why nothing may be read from it or written to it, or nothing; a folder that is not there is not refused.

    It must be ours, root's or the package's owner's, who can write the loops themselves; so can the package's group.
    """
    if not hasattr(os, "getuid"):  # Windows, where these folders are the user's alone
        return ""
    for parent in Path(os.path.realpath(folder)).parents:
        with suppress(OSError):
            if parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                return f"everyone can write to {parent}"
    try:
        link, there, package = folder.lstat(), folder.stat(), HERE.stat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(there.st_mode):
        return "it is no folder"
    if not {link.st_uid, there.st_uid} <= {0, os.getuid(), package.st_uid}:
        return "it belongs to another user"
    group = package.st_mode & stat.S_IWGRP if there.st_gid == package.st_gid else 0
    return "others can write to it" if there.st_mode & (stat.S_IWOTH | stat.S_IWGRP) & ~group else ""


@cache
def _refused(folder: Path) -> str:
    """Asked once a process when reading; `make` asks each time before anything is written."""
    reason = refusal(folder)
    if reason:
        log.info("compiled loops are neither read from nor kept in %s: %s", folder, reason)
    return reason


def make(folder: Path) -> None:
    """The folder, there and writable; an OSError if that cannot be, or if it is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if reason := refusal(folder):
        raise PermissionError(reason)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError("it is not writable")


def usable() -> tuple[Path | None, dict[str, str]]:
    """The first folder that can be written, if any, and why those before it cannot be."""
    reasons: dict[str, str] = {}
    for folder in folders():
        try:
            make(folder)
        except OSError as error:
            reasons[str(folder)] = error.strerror or str(error)
        else:
            return folder, reasons
    return None, reasons


@dataclass(frozen=True)
class Report:
    """How many loops this process compiled and found compiled, in which folders they are, how many are in none.

    unused: the folders that come first and cannot be written, and why.
    """

    compiled: int
    found: int
    folders: tuple[str, ...]
    unused: dict[str, str]
    lost: int


def report() -> Report:
    """Of all loops so far; a loop counts once for each kind of arguments."""
    return Report(
        compiled=sum(sum(loop.stats.cache_misses.values()) for loop in LOOPS),
        found=sum(sum(loop.stats.cache_hits.values()) for loop in LOOPS),
        folders=tuple(sorted(set().union(*(loop._cache.used for loop in LOOPS)))),
        unused=usable()[1],
        lost=sum(loop._cache.lost for loop in LOOPS),
    )
