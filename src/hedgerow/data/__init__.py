"""Data: published sets by name, your own files by path.

    load("digits")                      five domains, embedded, nothing to download
    load("office-caltech")              amazon, caltech, dslr, webcam: 800 SURF counts, 10 kinds of things
    load("pie")                         PIE1 .. PIE5: 1024 pixels, 68 faces, five poses
    load("amazon-reviews")              books, dvd, elec, kitchen: 400 words, good or bad
    load("office-googlenet")            amazon, dslr, webcam: 1024 features of a deep network, 10 kinds of things
    read("mine.csv", label="kind")      one domain from CSV, TSV, JSON lines, Parquet, Arrow, npz, svmlight or MATLAB

Values are raw: no scaling, rows in the order of the file. Scaling is `hedgerow.core.preprocess`, a separate decision.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hedgerow.core.domains import Domain
from hedgerow.core.errors import DataMissing, unknown
from hedgerow.data.catalog import DATA_SETS, locate, obtain, places
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

    For experiments and for trying methods out; your own files are read by `read`.

    Parameters
    ----------
    name
        "digits" (embedded), "office-caltech", "pie", "amazon-reviews" or "office-googlenet".
    data_dir
        The folder that has the files; by default the one in the environment variable HEDGEROW_DATA, else the cache.
    cache
        The folder that downloads are kept in, by default the user's own (`$XDG_CACHE_HOME/hedgerow`). It is filled
        once from the set's public home, and every file is checked against the published one.
    mirror
        An address under which the same files lie, instead of the public home.

    Returns
    -------
    dict of Domain
        Raw values, rows in the order of the files.

    Raises
    ------
    InputError
        There is no data set of this name.
    DataMissing
        The files are nowhere on this machine and cannot be had; the message says which, and what to do.

    Examples
    --------
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
    domains = {domain: read_matlab(path, None, domain) for domain, path in zip(data_set.domains, paths, strict=True)}
    for path, domain in zip(paths, domains.values(), strict=True):
        if domain.X.shape[1] != data_set.shape[1]:  # files of another set may have the same names
            raise DataMissing(
                f"{path} has {domain.X.shape[1]} features, {name} has {data_set.shape[1]}: "
                f"another data set; name the folder that has {name}"
            )
    return domains


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

    Parameters
    ----------
    data_dir, cache
        As of `load`.

    Returns
    -------
    list of Available
        Name, domains, rows, features and classes of each, and where its files are.

    Examples
    --------
    >>> [row.name for row in available()]
    ['digits', 'office-caltech', 'pie', 'amazon-reviews', 'office-googlenet']
    """
    from hedgerow.data.digits import SCANNERS

    folders = places(data_dir, cache)
    table = [Available(DIGITS, tuple(SCANNERS), 1797, 64, 10, "embedded")]
    for data_set in DATA_SETS.values():
        paths = next((paths for folder in folders if (paths := locate(data_set, folder))), None)
        where = "needs download" if paths is None else f"found at {paths[0].parent}"
        table.append(Available(data_set.name, data_set.domains, *data_set.shape, where))
    return table
