"""Beyond one process: experiments on a Dask cluster, and sources that are larger than memory.

cluster      where the work is done: processes of this machine, or a scheduler that is there already
fitting      sources in partitions (Parquet files, or a dask.dataframe), and a classifier or an aligner of these

`fit` and `align` are the doors; `hedgerow fit`, `hedgerow paper` and `hedgerow study` take `--engine dask`.
"""

from hedgerow.dask.fitting import align, fit, statistics

__all__ = ["align", "fit", "statistics"]
