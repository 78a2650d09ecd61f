"""Beyond one process: experiments on a Dask cluster, and sources that are larger than memory.

cluster      where the work is done: processes of this machine, or a scheduler that is there already
partitions   the rows of a source in partitions: Parquet files, or a dask.dataframe
fitting      statistics of all partitions; a classifier, or an aligner, from these

`fit` and `align` are the doors; `hedgerow fit`, `hedgerow paper` and `hedgerow study` take `--engine dask`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.dask.fitting import align as align
    from hedgerow.dask.fitting import fit as fit
    from hedgerow.dask.fitting import statistics as statistics

__all__ = ["align", "fit", "statistics"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from hedgerow.dask import fitting

        return getattr(fitting, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
