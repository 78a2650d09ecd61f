"""Data: published sets by name, your own files by path.

    load("digits")                      five domains, embedded, nothing to download
    load("office-caltech")              amazon, caltech, dslr, webcam: 800 SURF counts, 10 kinds of things
    load("pie")                         PIE1 .. PIE5: 1024 pixels, 68 faces, five poses
    load("amazon-reviews")              books, dvd, elec, kitchen: 400 words, good or bad
    load("office-googlenet")            amazon, dslr, webcam: 1024 features of a deep network, 10 kinds of things
    read("mine.csv", label="kind")      one domain from CSV, TSV, JSON lines, Parquet, Arrow or MATLAB

Values are raw: no scaling, rows in the order of the file. Scaling is `hedgerow.core.preprocess`, a separate decision.

The published data sets: their files, where those live, and how to know that they are the right ones.

A `DataSet` has one or more layouts, in order of preference; a layout is a folder with one file a domain. The first
layout is the public one: its files have addresses and checks. The others are forms that people already have on disk.

From a data set's name to files on disk: a folder of the user's, else the cache, else one download, checked.

Looked at in this order:

1. `data_dir`, if given: the files are there, or it is an error. A folder that was named is not silently replaced by a
   download, for two forms of one data set can differ (the pixels of PIE do).
2. the folder in the environment variable `HEDGEROW_DATA`, if set;
3. the user's cache, filled from the public address on first use.

In each of them a layout's own folder is tried first (`<dir>/homotl_oddm/amazon.mat`), then the folder itself.

Five domains of real handwritten digits, embedded: scikit-learn's 1797 images of 8 x 8, distorted in five ways.

The handwriting is real, the differences between the domains are computed: no second scanner or camera took part.
Every image belongs to exactly one domain: of each class, the images are dealt in turn, one to each domain, in the order
of the file. Then each domain's images pass through the same pipeline with its own settings,

    image -> erode -> turn -> move -> blur -> gain * image + glow * (0 at the left edge .. 1 at the right edge)

| domain    | thinning | turn | down  | right | blur | gain | glow | what it looks like                             |
|-----------|----------|------|-------|-------|------|------|------|------------------------------------------------|
| `tilted`  | 0        | +25  | 0     | 0     | 0    | 1    | 0    | the page lay askew                             |
| `blurred` | 0        | -18  | 0     | 0     | 0.5  | 1    | 0    | out of focus, and a little askew the other way |
| `faded`   | 0        | 0    | 0     | 1     | 0    | 0.7  | 3    | pale ink, stray light from the right           |
| `thin`    | 0.8      | 0    | -1    | 0     | 0    | 1    | 0    | a fine pen, the paper fed in too high          |
| `shifted` | 0        | 0    | 0.75  | 0     | 0    | 1    | 0    | the paper fed in too low                       |

Thinning is the share of a 2 x 2 grey erosion mixed into the image; turn is in degrees, positive counter-clockwise;
down, right and blur (the standard deviation of a Gaussian) are in pixels; gain has no unit, glow is in levels of ink
(0..16). Interpolation is linear, what comes in over the edge is 0, and nothing is random.

The settings were chosen, among some twenty, so that methods differ when rows are scaled as in the authors' code (row
min-max, then unit length): PA on the stream alone errs on nearly half of it, starting from the pooled sources helps,
and aligning the domains first helps again. Where each domain is z-scored first, all of them err less and lie closer
together. So these domains show how the methods work; they are no evidence of which is best.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np

from hedgerow.core.arrays import Array
from hedgerow.core.domains import Domain
from hedgerow.core.errors import DataMissing, unknown
from hedgerow.rows.domains import read, read_matlab

__all__ = ["Available", "available", "load", "read"]

DIGITS = "digits"

# -- published sets: their files, where those live, and how to know that they are the right ones -----------------------

ENVIRONMENT = "HEDGEROW_DATA"
TIMEOUT = 30  # seconds without a byte before a download is given up
_AUTHORS = "https://raw.githubusercontent.com/yaoyueduzhen/HomOTL-ODDM"
_SKADA = "https://raw.githubusercontent.com/scikit-adaptation/skada-bench"
_FEATURES = "https://raw.githubusercontent.com/LeoGautheron/OfficeCaltechDomainAdaptation"


@dataclass(frozen=True)
class File:
    """One domain's file: its name, its public address and its check, `sha256:...` or `git-blob:...`."""

    name: str
    url: str = ""
    check: str = ""


@dataclass(frozen=True)
class Layout:
    """A folder of files, one a domain, in the order of the data set's domains."""

    folder: str
    files: tuple[File, ...]


@dataclass(frozen=True)
class DataSet:
    """A data set that can be loaded by name; `shape` is rows, features and classes of the published files."""

    name: str
    domains: tuple[str, ...]
    shape: tuple[int, int, int]
    layouts: tuple[Layout, ...]
    home: str


def _published(folder: str, address: str, kind: str, checks: dict[str, str]) -> Layout:
    """The public layout: `checks` by the names of the files, with their revision before it where they have several."""
    files = []
    for name, check in checks.items():
        revision, _, digest = check.rpartition(":")
        files.append(File(name, f"{address.format(revision)}/{name}", f"{kind}:{digest}"))
    return Layout(folder, tuple(files))


_OFFICE_CALTECH = DataSet(
    name="office-caltech",
    domains=("amazon", "caltech", "dslr", "webcam"),
    shape=(2533, 800, 10),
    layouts=(
        _published(  # preferred: only these hold ID_old, the authors' fixed order
            "homotl_oddm",
            f"{_AUTHORS}/41248caff4ba7efeb70dafb6eb77231bf39f37da/data",
            "sha256",
            {
                "amazon.mat": "ae39de56ea847194bdf2013c0ee69fe47a2f99af896dbf60f5b7611b348e0d7a",
                "Caltech10.mat": "b11f21540cd93e65c3f059d95c52f82911524989463f5f2a47f07a7a833dc783",
                "dslr.mat": "83fa6bb4f86a042204725a9c7dcb9526bcef1d7d2bfa33bfa107a630f0256029",
                "webcam.mat": "3bcf4ccb8815a69e22281656efdf19d0a91de60a4a8f734d0d215ead18b6977c",
            },
        ),
        Layout(
            "office_caltech10_surf",
            tuple(
                File(f"{domain}_SURF_L10.mat")
                for domain in ("amazon", "Caltech10", "dslr", "webcam")
            ),
        ),
    ),
    home="https://github.com/yaoyueduzhen/HomOTL-ODDM (folder data)",
)

_PIE = DataSet(
    name="pie",
    domains=("PIE1", "PIE2", "PIE3", "PIE4", "PIE5"),  # poses C05, C07, C09, C27, C29
    shape=(11554, 1024, 68),
    layouts=(
        _published(  # known by their ids in the authors' git tree, whatever the default branch serves
            "homotl_oddm",
            f"{_AUTHORS}/HEAD/data",
            "git-blob",
            {
                "PIE1.mat": "fabf7fa7559de228e481a8a813eddcccf6d5d861",
                "PIE2.mat": "184ff75b4cfe3cb5968d9dc2e428c47d852486e2",
                "PIE3.mat": "f68722818b42904c00b7dec790385e8afd3bcb4d",
                "PIE4.mat": "61dd0ba8294434117789e5de5834d82213035824",
                "PIE5.mat": "9a83a47158be9a0905472dd0d11cbb60843181af",
            },
        ),
        Layout("pie", tuple(File(f"PIE{pose}.mat") for pose in ("05", "07", "09", "27", "29"))),
    ),
    home="https://github.com/yaoyueduzhen/HomOTL-ODDM (folder data)",
)

# Each file with a revision of that repository that is known to hold it.
_REVISION_A = "af0537050789583bd4e2697f9a431811b5a46873"
_REVISION_B = "e04399f55724b1accbed8ae1050e3c6c73fd481a"

_AMAZON_REVIEWS = DataSet(
    name="amazon-reviews",
    domains=("books", "dvd", "elec", "kitchen"),
    shape=(7996, 400, 2),
    layouts=(
        _published(
            "amazon_reviews",
            f"{_SKADA}/{{}}/data/amazon_review",
            "sha256",
            {
                "books_400.mat": f"{_REVISION_A}:7a53b54f0c0e81e7ee4774d762a927399cede9a802a2409732ba00cc1c23a17a",
                "dvd_400.mat": f"{_REVISION_B}:13a71d399f9c7ae57064952979c830455057ffd0a8da73f2c9075338d64d98ce",
                "elec_400.mat": f"{_REVISION_B}:f1dd6e01c1eed956d3abe6493a6bb5efc95e6585b8b9b2d856c0c07e12893a35",
                "kitchen_400.mat": f"{_REVISION_A}:b1f4e5ddfbd7b37ad2638fccbf83bd8558abf63b3e8d69a9d5bca77b1a49fed5",
            },
        ),
    ),
    home="https://figshare.com/ndownloader/files/46003500 (a zip of the four files)",
)

_OFFICE_GOOGLENET = DataSet(
    name="office-googlenet",
    domains=("amazon", "dslr", "webcam"),
    shape=(1410, 1024, 10),
    layouts=(
        _published(
            "office_googlenet",
            f"{_FEATURES}/HEAD/features/GoogleNet1024",
            "sha256",
            {
                "amazon.mat": "bae9ee6e8f7ca305120dd970f2c90471f4ef8dda4cb2ad2404c38bb26cb56ba9",
                "dslr.mat": "5f7c6211581f846b7b5534429fb62bfb7e490e88aacfc8bee97eb0b0224dbd89",
                "webcam.mat": "57774bbdf97433b5fb5a6333e302f077444c069537138b60ef417f48ee65d296",
            },
        ),
    ),
    home="https://github.com/LeoGautheron/OfficeCaltechDomainAdaptation (folder features/GoogleNet1024)",
)

DATA_SETS = {
    each.name: each for each in (_OFFICE_CALTECH, _PIE, _AMAZON_REVIEWS, _OFFICE_GOOGLENET)
}


def locate(data_set: DataSet, root: Path) -> list[Path] | None:
    """The data set's files under this folder, one a domain, or None if no layout is complete there."""
    for layout in data_set.layouts:
        for folder in (root / layout.folder, root):
            paths = [folder / file.name for file in layout.files]
            if all(path.is_file() for path in paths):
                return paths
    return None


def folder_from(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The folder the user named, by argument or by environment; it must exist."""
    named = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT)
    if not named:
        return None
    root = Path(named).expanduser()
    if not root.is_dir():
        origin = "the data directory" if data_dir is not None else ENVIRONMENT
        raise DataMissing(
            f"{origin} is {str(root)!r}, and there is no such folder; correct it or leave it out"
        )
    return root


def places(
    data_dir: str | os.PathLike[str] | None, cache: str | os.PathLike[str] | None
) -> list[Path]:
    """The folders to look in: one that was named by argument is the only one."""
    named = folder_from(data_dir)
    kept = Path(
        cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hedgerow"
    )
    return [folder for folder in (named, kept if data_dir is None else None) if folder is not None]


def obtain(
    data_set: DataSet,
    data_dir: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
) -> list[Path]:
    """The files of a data set, one a domain; downloaded into the cache if they are nowhere on this machine."""
    folders = places(data_dir, cache)
    for folder in folders:
        if paths := locate(data_set, folder):
            return paths
    if data_dir is not None:
        raise DataMissing(_advice(data_set, folders[0], ""))
    return _download_all(data_set, folders[0], folders[-1], mirror)


def _download_all(data_set: DataSet, looked: Path, cache: Path, mirror: str | None) -> list[Path]:
    layout = data_set.layouts[0]
    paths = [cache / layout.folder / file.name for file in layout.files]
    for file, path in zip(layout.files, paths, strict=True):
        url = file.url if mirror is None else f"{mirror.rstrip('/')}/{file.name}"
        try:
            if not path.is_file():
                _download(file, url, path)
        except (OSError, HTTPException) as error:  # no network, no such page, cut off, no space
            failed = f"downloading {url} failed ({type(error).__name__}: {error or 'no further message'})"
            reason = str(error) if isinstance(error, DataMissing) else failed
            raise DataMissing(_advice(data_set, looked, reason)) from error
    return paths


def _download(file: File, url: str, path: Path) -> None:
    """Bring one file here, if its check holds."""
    with urlopen(url, timeout=TIMEOUT) as answer:
        content: bytes = answer.read()
    own = fingerprint(content, file.check.partition(":")[0])
    if own != file.check:
        raise DataMissing(
            f"{url} is not the published file (expected {file.check}, got {own}); nothing was kept"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def fingerprint(content: bytes, kind: str) -> str:
    r"""`sha256:` of a file's content, or `git-blob:`, the sha1 of b"blob <size>\0" + content, as git names it.

    >>> fingerprint(b"", "git-blob")
    'git-blob:e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    if kind == "git-blob":
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return f"git-blob:{digest.hexdigest()}"
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _advice(data_set: DataSet, looked: Path, reason: str) -> str:
    layout = data_set.layouts[0]
    missing = [
        f.name
        for f in layout.files
        if not any((d / f.name).is_file() for d in (looked / layout.folder, looked))
    ]
    others = [
        f"{other.folder}/ ({', '.join(file.name for file in other.files)})"
        for other in data_set.layouts[1:]
    ]
    return (
        f"data set {data_set.name!r}: not found in {str(looked)!r}: {layout.folder}/ lacks {', '.join(missing)}"
        + (f", nor is there {' or '.join(others)}" if others else "")
        + (f"; {reason}" if reason else "")
        + f". Download the files from {data_set.home} into <dir>/{layout.folder}/ and set {ENVIRONMENT}=<dir> "
        "(or give --data-dir <dir>)"
        + ("; without --data-dir they are downloaded for you" if not reason else "")
    )


# -- handwritten digits, embedded --------------------------------------------------------------------------------------

SIDE = 8  # the images are SIDE x SIDE pixels of 0..16 levels of ink


@dataclass(frozen=True)
class Scanner:
    """How one domain's images are distorted; the fields are the columns of the table above."""

    thinning: float = 0.0
    turn: float = 0.0
    down: float = 0.0
    right: float = 0.0
    blur: float = 0.0
    gain: float = 1.0
    glow: float = 0.0

    def take(self, images: Array) -> Array:
        """The images (n x 8 x 8), distorted; never below 0.

        >>> Scanner(gain=0.5).take(np.full((1, 8, 8), 16.0)).max()
        np.float64(8.0)
        """
        import scipy.ndimage as ndi

        if self.thinning:
            eroded = ndi.grey_erosion(images, size=(1, 2, 2))
            images = (1 - self.thinning) * images + self.thinning * eroded
        if self.turn:
            images = ndi.rotate(images, self.turn, axes=(1, 2), reshape=False, order=1)
        if self.down or self.right:
            images = ndi.shift(images, (0, self.down, self.right), order=1)
        if self.blur:
            images = ndi.gaussian_filter(images, (0, self.blur, self.blur), mode="constant")
        return np.asarray(self.gain * images + self.glow * np.linspace(0, 1, SIDE))


SCANNERS = {
    "tilted": Scanner(turn=25),
    "blurred": Scanner(turn=-18, blur=0.5),
    "faded": Scanner(right=1, gain=0.7, glow=3),
    "thin": Scanner(thinning=0.8, down=-1),
    "shifted": Scanner(down=0.75),
}


def deal(y: Array, hands: int) -> Array:
    """Which of the hands each row goes to: the k-th row of its class goes to hand k mod hands.

    >>> deal(np.array([7, 7, 3, 7, 3]), hands=2)
    array([0, 1, 0, 0, 1])
    """
    hand = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        hand[rows] = np.arange(len(rows)) % hands
    return hand


def digits() -> dict[str, Domain]:
    """The five domains: 64 features, ink levels from 0 up, labels 0..9.

    >>> digits()["faded"]
    Domain('faded', 359 x 64, 10 classes)
    """
    from sklearn.datasets import load_digits

    bundle: Any = load_digits()
    images = np.asarray(bundle.images, dtype=np.float64)
    y = np.asarray(bundle.target, dtype=np.int64)
    hand = deal(y, len(SCANNERS))
    names = [f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)]
    return {
        name: Domain(
            name,
            scanner.take(images[hand == i]).reshape(-1, SIDE * SIDE),
            y[hand == i],
            feature_names=names,
        )
        for i, (name, scanner) in enumerate(SCANNERS.items())
    }


# -- by name -----------------------------------------------------------------------------------------------------------


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
        return digits()
    if name not in DATA_SETS:
        raise unknown("data set", name, [DIGITS, *DATA_SETS])
    data_set = DATA_SETS[name]
    paths = obtain(data_set, data_dir, cache=cache, mirror=mirror)
    domains = {
        domain: read_matlab(path, None, domain)
        for domain, path in zip(data_set.domains, paths, strict=True)
    }
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
    folders = places(data_dir, cache)
    table = [Available(DIGITS, tuple(SCANNERS), 1797, 64, 10, "embedded")]
    for data_set in DATA_SETS.values():
        paths = next((paths for folder in folders if (paths := locate(data_set, folder))), None)
        where = "needs download" if paths is None else f"found at {paths[0].parent}"
        table.append(Available(data_set.name, data_set.domains, *data_set.shape, where))
    return table
