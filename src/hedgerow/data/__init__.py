"""Data: published sets by name, your own files by path.

    load("digits")                      five domains, embedded, nothing to download
    load("office-caltech")              amazon, caltech, dslr, webcam: 800 SURF counts, 10 kinds of things
    load("pie")                         PIE1 .. PIE5: 1024 pixels, 68 faces, five poses
    load("amazon-reviews")              books, dvd, elec, kitchen: 400 words, good or bad
    read("mine.csv", label="kind")      one domain from CSV, TSV, JSON lines, Parquet, Arrow, npz, svmlight or MATLAB

Values are raw: no scaling, rows in the order of the file. Scaling is `hedgerow.core.preprocess`, a separate decision.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hedgerow.core.domains import Domain
from hedgerow.core.errors import unknown
from hedgerow.data.catalog import DATA_SETS, cache_folder, folder_from, locate, obtain
from hedgerow.rows.domains import read, read_matlab

__all__ = ["Available", "available", "load", "read"]

DIGITS = "digits"


def load(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
) -> dict[str, Domain]:
    """A published data set as domains by name.

    The files come from `data_dir`, else from the folder in the environment variable HEDGEROW_DATA, else from the cache
    (`cache`, by default the user's cache folder), which is filled once from the set's public home, or from `mirror`, an
    address under which the same files lie. Downloads are checked against the published files.

    >>> list(load("digits"))
    ['tilted', 'blurred', 'faded', 'thin', 'shifted']
    """
    if name == DIGITS:
        from hedgerow.data.digits import digits

        return digits()
    if name not in DATA_SETS:
        raise unknown("data set", name, [DIGITS, *DATA_SETS])
    data_set = DATA_SETS[name]
    paths = obtain(data_set, data_dir, cache=cache, mirror=mirror)
    return {domain: read_matlab(path, None, domain) for domain, path in zip(data_set.domains, paths, strict=True)}


@dataclass(frozen=True)
class Available:
    """One line of the table of data sets; `where` says embedded, found at <dir>, or needs download."""

    name: str
    domains: tuple[str, ...]
    rows: int
    features: int
    classes: int
    where: str


def available(
    data_dir: str | os.PathLike[str] | None = None, *, cache: str | os.PathLike[str] | None = None
) -> list[Available]:
    """The data sets that `load` knows, and where each would come from. Nothing is read or downloaded.

    >>> [row.name for row in available()]
    ['digits', 'office-caltech', 'pie', 'amazon-reviews']
    """
    from hedgerow.data.digits import SCANNERS

    # As in load: a folder named by argument is the only one looked at.
    roots = [folder_from(data_dir)] + ([cache_folder() if cache is None else Path(cache)] if data_dir is None else [])
    table = [Available(DIGITS, tuple(SCANNERS), 1797, 64, 10, "embedded")]
    for data_set in DATA_SETS.values():
        paths = next((paths for root in roots if root and (paths := locate(data_set, root))), None)
        where = "needs download" if paths is None else f"found at {paths[0].parent}"
        shape = (data_set.rows, data_set.features, data_set.classes)
        table.append(Available(data_set.name, data_set.domains, *shape, where))
    return table
