"""One BLAS thread for small products.

OpenBLAS splits even a product of a few rows over all cores, and then waits for whichever core is busy with something
else: under load that takes 20 to 30 times as long. Inside `one_blas_thread` every BLAS that NumPy and SciPy have loaded
has one thread; the caller's own setting comes back afterwards. It counts how many are inside, so that threads and
nested calls set it once, and the last one out restores it. Enter it where signals wait, `with uninterrupted(),
one_blas_thread`: an exception between the two halves of its own work would leave the count wrong for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

Get = Callable[[], int]
Set = Callable[[int], Any]

_lock = threading.Lock()
_inside = 0
_found: list[tuple[Get, Set]] | None = None
_before: list[int] = []


class OneThread:
    """A context with one BLAS thread, to be entered as often as one likes."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _inside
        with _lock:
            _inside += 1
            if _inside == 1:
                _set_one()

    def __exit__(self, *_: object) -> None:
        global _inside
        with _lock:
            _inside -= 1
            if not _inside:
                _restore()


one_blas_thread = OneThread()


def _set_one() -> None:
    global _found, _before
    if _found is None:
        _found = _libraries()
    _before = [get() for get, _ in _found]
    for (_, set_threads), threads in zip(_found, _before, strict=True):
        if threads > 1:
            set_threads(1)


def _restore() -> None:
    for (_, set_threads), threads in zip(_found or (), _before, strict=True):
        if threads > 1:
            set_threads(threads)


def _libraries() -> list[tuple[Get, Set]]:
    """How each BLAS is asked for its threads and told: as C functions where it is OpenBLAS, which are called often."""
    import scipy.linalg.blas  # noqa: F401 (both have a BLAS of their own, which must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return [_functions(library) for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _functions(library: Any) -> tuple[Get, Set]:
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", "_64", ""):
            get = getattr(library.dynlib, f"{prefix}_get_num_threads{suffix}", None)
            if get is not None:
                return get, getattr(library.dynlib, f"{prefix}_set_num_threads{suffix}")
    return library.get_num_threads, library.set_num_threads
