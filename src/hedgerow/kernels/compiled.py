"""The one decorator of all compiled loops: compiled when first called, kept on disk where that is safe and possible.

What numba does by itself ends in an error where it finds no folder that it can write, passes by a folder that is filled
and read-only, uses one that others can write, and takes a loop for unchanged when one that it calls has changed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _Cache, _CacheLocator

from hedgerow.core import rule_numbers
from hedgerow.kernels.cache_folders import HERE, Folder, folders, usable
from hedgerow.kernels.compile_note import NOTE

Loop = TypeVar("Loop", bound=Callable[..., Any])
LOOPS: list[Any] = []  # every compiled loop that was imported; numba's `stats` of each tell what was loaded
log = logging.getLogger("hedgerow")


@overload
def compiled(fn: Loop) -> Loop: ...
@overload
def compiled(*, fastmath: set[str] = ..., threads: bool = ...) -> Callable[[Loop], Loop]: ...
def compiled(
    fn: Loop | None = None, *, fastmath: set[str] | bool = False, threads: bool = False
) -> Loop | Callable[[Loop], Loop]:
    """A function as a compiled loop. `fastmath` names what may be done to its sums, see `common.SUMS`.

    `threads`: other threads run meanwhile; for long loops only.
    """
    if fn is None:
        return lambda given: _compiled(given, fastmath, threads)
    return _compiled(fn, fastmath, threads)


def _compiled(fn: Loop, fastmath: set[str] | bool, threads: bool) -> Loop:
    # no_cfunc_wrapper: an entry for calls through a C pointer, which nobody makes, takes a tenth of the time.
    # forceinline: a loop would else have its own copy of each loop that it calls, which may round in another way, and
    # the call goes to whichever copy the process has loaded first: results would depend on what was compiled when.
    decorator: Any = njit
    loop = decorator(fastmath=fastmath, no_cfunc_wrapper=True, nogil=threads, forceinline=True)(fn)
    # Relies on numba (0.60 to 0.68, `numba.core.dispatcher`): `_cache` of a dispatcher is asked before and told after
    # each compilation; `enable_caching`, which cache=True calls, puts a FunctionCache there.
    loop._cache = Kept(fn)
    LOOPS.append(loop)
    NOTE.loops.add(fn)
    return loop  # type: ignore[no-any-return]


class Kept(_Cache):
    """The compiled forms of one loop: looked for in every folder that is trusted, written to the first that can be."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._places = []
        self.used: set[str] = set()  # folders that something was read from or written to
        self.lost = 0  # how many compiled forms could not be written
        for folder in folders():
            try:
                self._places.append(_cache_in(folder)(fn))
            except (OSError, RuntimeError):  # no source file on disk: in an archive
                continue

    @property
    def cache_path(self) -> str | None:
        """The folder that is tried first."""
        return next((place.cache_path for place in self._places), None)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before, or None."""
        for place in self._places:
            if _refused(place.folder):
                continue
            try:
                found = place.load_overload(sig, target_context)
            except Exception as error:  # whatever a damaged file leads to: as good as none, and to be written anew
                log.info("cannot read what was compiled, in %s: %s", place.folder.path, error)
                with suppress(OSError):
                    place.flush()
                continue
            if found is not None:
                self.used.add(place.cache_path)
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it in the first folder that takes it; without any the next process compiles again."""
        for place in self._places:
            try:
                place.save_overload(sig, data)
            except OSError:
                continue
            self.used.add(place.cache_path)
            return
        self.lost += 1

    def enable(self) -> None:
        """Always on."""

    def disable(self) -> None:
        """Always on."""

    def flush(self) -> None:
        """Nothing waits."""


# Relies on numba.core.caching: a FunctionCache makes one `_impl_class`, and that one takes the first of its
# `_locator_classes` whose `from_function` gives a locator.
@cache
def _cache_in(folder: Folder) -> type:
    """numba's cache of one function, in this folder."""

    class Here(_CacheLocator):
        def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
            self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno

        @classmethod
        def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Here | None:
            return cls(py_func, py_file) if Path(py_file).exists() else None

        def ensure_cache_path(self) -> None:
            folder.make()

        def get_cache_path(self) -> str:
            return str(folder.path)

        def get_source_stamp(self) -> str:
            return _stamp()

        def get_disambiguator(self) -> str:
            return str(self._lineno)

    implementation = type("Implementation", (CompileResultCacheImpl,), {"_locator_classes": [Here]})
    return type("CacheIn", (FunctionCache,), {"_impl_class": implementation, "folder": folder})


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
    caches = [loop._cache for loop in LOOPS]
    return Report(
        compiled=NOTE.compiled,
        found=sum(sum(loop.stats.cache_hits.values()) for loop in LOOPS),
        folders=tuple(sorted(set().union(*(kept.used for kept in caches)))),
        unused=usable()[1],
        lost=sum(kept.lost for kept in caches),
    )


@cache
def _refused(folder: Folder) -> str:
    """Asked once a process when reading; `Folder.make` asks each time before anything is written."""
    reason = folder.refusal()
    if reason:
        log.info("compiled loops are neither read from nor kept in %s: %s", folder.path, reason)
    return reason


@cache
def _stamp() -> str:
    """A digest of all that goes into the loops: one has those that it calls, and their constants, compiled into it."""
    digest = hashlib.sha256()
    for path in [*sorted(HERE.glob("*.py")), Path(rule_numbers.__file__)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()
