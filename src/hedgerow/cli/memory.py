"""Whether the sources of a fit have room in memory, and where to go with those that have not."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hedgerow.core.errors import InputError
from hedgerow.methods import METHODS
from hedgerow.rows.inputs import Files

LOCAL, DASK = "local", "dask"
SHARE = 2  # one in so many bytes of the free memory may be the sources' numbers
GIB = 2**30
MEMINFO = Path("/proc/meminfo")


def choose_engine(sources: Sequence[Path], method: str, asked: str | None) -> tuple[str, str]:
    """The engine, and why, if nobody asked for it: what takes more than half of the free memory goes to Dask.

    That is for Parquet, and for methods that need statistics of their sources only.
    """
    if asked is not None:
        if asked != LOCAL:
            from hedgerow.dask.cluster import Place

            Place.of(asked)
        return asked, ""
    if not METHODS[method].merges or find_spec("distributed") is None:
        return LOCAL, ""
    size, free = size_of(sources), free_memory()
    if size is None or free is None or size * SHARE <= free:
        return LOCAL, ""
    why = f", as the sources take {size / GIB:.1f} GiB and {free / GIB:.1f} GiB are free (in memory: --engine local)"
    return DASK, why


def size_of(sources: Sequence[Path]) -> int | None:
    """Bytes of the sources' numbers in memory, by what the ends of their files say; None if not all are Parquet."""
    try:
        import pyarrow.parquet as pq

        every = [Files.of(str(source)) for source in sources]
        if any(files.format != "parquet" for files in every):
            return None
        ends = [pq.read_metadata(path) for files in every for path in files.paths]
    except (
        ImportError,
        OSError,
        ValueError,
        InputError,
    ):  # pyarrow's own are ValueErrors; the reader says what is wrong
        return None
    return sum(8 * int(end.num_rows) * int(end.num_columns) for end in ends)


def free_memory() -> int | None:
    """Bytes that programs may still take without anything being put aside for them; None where nobody says."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    available = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(available[0][1]) if available else None
