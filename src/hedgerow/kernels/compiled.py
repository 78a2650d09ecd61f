"""The decorator of all compiled kernels: numba's `njit`, with a cache on disk that is safe and never an error.

`njit(cache=True)` fails where it finds no writable folder, ignores a filled folder that is read-only, trusts a folder
that others can write, and does not recompile a kernel when one that it calls has changed. `KernelCache` keeps numba's
index and data files and changes these four: it reads from every folder that is trusted, writes to the first that is
writable, and stamps each file with a digest of the sources of all kernels.

Folders, in this order: NUMBA_CACHE_DIR if it is set, `__pycache__` beside the kernels, and `hedgerow/compiled` in
$XDG_CACHE_HOME or ~/.cache. A cached kernel is code, so a folder that others can write is not used.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, overload

from numba import njit
from numba.core import config
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags

from hedgerow.core import constants

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
KERNELS: list[Any] = []  # every kernel that was imported
HERE = Path(__file__).resolve().parent
READ_ONLY = "it is only read"
log = logging.getLogger("hedgerow")


@overload
def compiled(fn: Kernel) -> Kernel: ...
@overload
def compiled(*, fastmath: set[str] = ..., threads: bool = ...) -> Callable[[Kernel], Kernel]: ...
def compiled(fn: Any = None, *, fastmath: set[str] | bool = False, threads: bool = False) -> Any:
    """Compile a function when it is first called, and cache the result on disk.

    Parameters
    ----------
    fn
        The function: plain loops over arrays.
    fastmath
        What may be done to its sums, see `hedgerow.kernels.SUMS`.
    threads
        Release the GIL meanwhile; for long kernels only.
    """
    if fn is None:
        return partial(compiled, fastmath=fastmath, threads=threads)
    if getattr(config, "DISABLE_JIT", False):
        return fn
    # _nrt: references to arguments are not counted, which takes half the time of a call: no kernel makes an array, and
    # numba refuses one that does.
    # no_cfunc_wrapper: an entry for calls through a C pointer, which nobody makes, takes a tenth of the time.
    # forceinline: a kernel would else have its own copy of each kernel that it calls, which may round in another way,
    # and the call goes to whichever copy the process has loaded first: results would depend on what was compiled when.
    decorator: Any = partial(
        njit, fastmath=fastmath, nogil=threads, _nrt=False, no_cfunc_wrapper=True, forceinline=True
    )
    kernel = decorator(pipeline_class=KernelCompiler)(fn)
    kernel._cache = KernelCache(fn)  # where cache=True puts a FunctionCache
    inlined = decorator(pipeline_class=InlinedCompiler, no_cpython_wrapper=True)(fn)
    kernel.get_call_template = (
        inlined.get_call_template
    )  # other kernels call this one through these two
    kernel.get_overload = inlined.get_overload
    KERNELS.append(kernel)
    return kernel


class KernelFlags(Flags):
    """The options of a compilation: numba asks for their hash with every operation that it types.

    It hashes the names of some thirty options each time, a seventh of the compilation, though they are always the same.
    """

    def __hash__(self) -> int:
        return hash(KernelFlags)


class KernelCompiler(Compiler):
    """numba's compiler, without searching for garbage meanwhile, of which it leaves little: a tenth of the time."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)  # type: ignore[no-untyped-call]
        self.state.flags = KernelFlags(self.state.flags)  # type: ignore[no-untyped-call]

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a kernel, with all that it calls."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)  # type: ignore[no-untyped-call]
        finally:
            if collects:
                gc.enable()


class InlinedCompiler(KernelCompiler):
    """Compiles a kernel for the kernels that call it, which have it inside: it is optimised there and only there."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.library = Inlined(self.state.targetctx.codegen(), "inlined")  # type: ignore[no-untyped-call]


class Inlined(JITCodeLibrary):
    """The code of a kernel as it was lowered: neither optimised nor machine code, which takes half as long again."""

    @property
    def codegen(self) -> Any:
        """What numba asks to set the environment of machine code, of which there is none."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing to set."""

    def get_pointer_to_function(self, name: str) -> int:
        """None: no machine code."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def finalize(self) -> None:
        """Join it with the kernels that it calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class KernelCache(FunctionCache):
    """The compiled forms of one kernel: read from every trusted folder, written to the first that takes them."""

    cache_path = None
    _index_key: Any  # numba has no types for it

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._py_func = fn
        self.unsaved = 0
        name = f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}-{fn.__code__.co_firstlineno}"
        name = f"{name}.py{sys.version_info[0]}{sys.version_info[1]}"
        trusted = [folder for folder, reason in folders().items() if reason in ("", READ_ONLY)]
        self._files = [IndexDataCacheFile(str(folder), name, _stamp()) for folder in trusted]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The form of this signature, or None, and then numba compiles it."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        for file in self._files:
            try:
                if (data := file.load(key)) is not None:
                    return CompileResult._rebuild(target_context, *data)
            except (
                Exception
            ) as error:  # whatever a damaged file leads to: the index is written anew
                log.info("cannot read the cache of %s: %s", self._py_func.__name__, error)
                with suppress(OSError):
                    file.flush()
        _announce()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the form; without any folder the next process compiles again."""
        log.info("compiled %s", self._py_func.__name__)
        for file in self._files:
            with suppress(OSError):
                file.save(self._index_key(sig, data.codegen), data._reduce())
                return
        self.unsaved += 1


@cache
def _stamp() -> str:
    """A digest of the sources of all kernels: a kernel has those that it calls, and their constants, inside."""
    sources = [*sorted(HERE.glob("*.py")), Path(constants.__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


@cache
def _announce() -> None:
    """Before the first compilation of a process, one line: to the logger, and to the standard error."""
    message = "compiling, once per installation; this may take half a minute"
    if "" not in folders().values():
        message = "compiling, in every process: no folder to keep it in; `python -m hedgerow warm` tells the remedy"
    log.info(message)
    if sys.stderr is not None:
        print(f"hedgerow: {message}", file=sys.stderr, flush=True)


@cache
def folders() -> dict[Path, str]:
    """The folders, and why nothing is written to each of them; "" is that of the first that is trusted and writable.

    Two installations may have kernels of the same name, so each has a folder of its own.
    """
    installation = f"kernels_{hashlib.sha256(str(HERE).encode()).hexdigest()[:16]}"
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():  # by the XDG specification a relative one is ignored
        caches = Path(os.path.expanduser("~/.cache"))
    chosen = getattr(config, "CACHE_DIR", "")  # numba's name for NUMBA_CACHE_DIR
    first = [Path(chosen).absolute() / installation] if chosen else []
    reasons: dict[Path, str] = {}
    for place in (*first, HERE / "__pycache__", caches / "hedgerow" / "compiled" / installation):
        folder = place.resolve()
        if "" not in reasons.values():
            reasons[folder] = refusal(folder)
        elif folder.is_dir():
            reasons[folder] = refusal(folder) or READ_ONLY
    return reasons


def refusal(folder: Path) -> str:
    """Why nothing is kept in a folder, which is made if need be; "" if it is usable, READ_ONLY if it may be read.

    It must belong to us, to root or to the package's owner, and no one else may write to it, but the package's group
    where that may write the kernels themselves.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        package = HERE.stat()
        there = folder.stat()
        above = [parent.stat().st_mode for parent in folder.parents]
    except OSError as error:
        return error.strerror or str(error)
    if os.name == "posix":  # on Windows these folders are the user's alone
        if any(mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH for mode in above):
            return "everyone can write to a folder above it"
        if there.st_uid not in (0, os.getuid(), package.st_uid):
            return "it belongs to another user"
        group = package.st_mode & stat.S_IWGRP if there.st_gid == package.st_gid else 0
        if there.st_mode & (stat.S_IWOTH | stat.S_IWGRP) & ~group:
            return "others can write to it"
    return "" if os.access(folder, os.W_OK | os.X_OK) else READ_ONLY


def statistics() -> tuple[int, int, int]:
    """How many forms of kernels this process compiled, loaded from the cache, and could not save."""
    compilations = sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS)
    loaded = sum(sum(kernel.stats.cache_hits.values()) for kernel in KERNELS)
    return compilations, loaded, sum(kernel._cache.unsaved for kernel in KERNELS)
